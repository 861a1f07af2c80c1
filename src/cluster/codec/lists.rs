//! Lists, decoded item by item as they arrive.

use super::decode::{Decode, DecodeError, Undecodable, object};
use super::fields::{self, ListMeta};
use super::protobuf::envelope::MAGIC;
use super::protobuf::message::read;
use super::{json, protobuf};

/// Decodes a list as it arrives, item by item. An item that cannot be decoded does not affect the others.
#[derive(Debug)]
pub struct ListReader<T> {
    splitter: Splitter,
    /// Decoded items that were not taken yet.
    pub items: Vec<T>,
    /// Items that could not be decoded, and why; not taken yet.
    pub errors: Vec<Undecodable>,
}

#[derive(Debug)]
enum Splitter {
    /// The encoding is not known until the first byte arrives.
    Unknown,
    Json(json::list::ListSplitter),
    Protobuf(protobuf::list::ListSplitter),
}

/// The metadata of a list, or of a page of one.
#[derive(Debug)]
pub struct ListEnd {
    /// The version that the list shows.
    pub version: String,
    /// The token of the next page; empty on the last one.
    pub next: String,
}

impl<T: Decode> Default for ListReader<T> {
    fn default() -> Self {
        Self {
            splitter: Splitter::Unknown,
            items: Vec::new(),
            errors: Vec::new(),
        }
    }
}

impl<T: Decode> ListReader<T> {
    /// Adds data, and decodes the items that are complete now.
    pub fn feed(&mut self, data: &[u8]) {
        let Some(first) = data.first() else {
            return;
        };
        if matches!(self.splitter, Splitter::Unknown) {
            self.splitter = if *first == MAGIC[0] {
                Splitter::Protobuf(protobuf::list::ListSplitter::default())
            } else {
                Splitter::Json(json::list::ListSplitter::default())
            };
        }
        let (items, errors) = (&mut self.items, &mut self.errors);
        match &mut self.splitter {
            Splitter::Unknown => {}
            Splitter::Json(splitter) => {
                splitter.feed(data);
                // Most items have arrived whole, and are parsed without a search for their end. One that has not, or
                // that cannot be parsed, is cut out first.
                while let Some(json) = splitter.next_item(|data| {
                    let (item, length) = leading(data)?;
                    items.push(item);
                    Some(length)
                }) {
                    match object(&json) {
                        Ok(item) => items.push(item),
                        Err(error) => errors.push(Undecodable::new(&json, error)),
                    }
                }
            }
            Splitter::Protobuf(splitter) => {
                splitter.feed(data);
                while let Some(message) = splitter.next_item() {
                    match read(&message).map_err(DecodeError::from).and_then(T::decode) {
                        Ok(item) => items.push(item),
                        Err(error) => errors.push(Undecodable::in_list(&message, error)),
                    }
                }
            }
        }
    }

    /// Takes the items decoded, and the errors found, since this was last called.
    pub fn take(&mut self) -> (Vec<T>, Vec<Undecodable>) {
        (std::mem::take(&mut self.items), std::mem::take(&mut self.errors))
    }

    /// Returns the list's metadata, once all of it has been fed. Fails if it was not a list, or cut off.
    pub fn finish(self) -> Result<ListEnd, DecodeError> {
        let ListMeta {
            resource_version,
            next,
        } = match self.splitter {
            Splitter::Unknown => serde_json::from_slice::<fields::List>(&[])?.metadata,
            Splitter::Json(splitter) => {
                serde_json::from_slice::<fields::List>(&splitter.into_envelope())?.metadata
            }
            Splitter::Protobuf(splitter) => read(&splitter.finish()?)?,
        };
        Ok(ListEnd {
            version: resource_version,
            next,
        })
    }
}

/// Decodes the JSON object that the data begin with. Returns its length too.
fn leading<T: Decode>(data: &[u8]) -> Option<(T, usize)> {
    let mut objects = serde_json::Deserializer::from_slice(data).into_iter::<T::Wire<'_>>();
    let object = T::decode(objects.next()?.ok()?).ok()?;
    Some((object, objects.byte_offset()))
}
