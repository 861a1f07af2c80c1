//! Lists, decoded item by item as they arrive.

use super::decode::{Decode, DecodeError, Undecodable};
use super::envelope::{MAGIC, TypeMeta};
use super::fields::ListMeta;
use super::message::{BYTES, Malformed, key, next_field, read, varint};
use bytes::{Buf as _, Bytes, BytesMut};

/// Field numbers of an envelope, and of any list.
const ENVELOPE_KIND: u32 = 1;
const ENVELOPE_OBJECT: u32 = 2;
const LIST_META: u32 = 1;
const LIST_ITEMS: u32 = 2;

/// Decodes a list as it arrives, item by item. An item that cannot be decoded does not affect the others.
#[derive(Debug)]
pub struct ListReader<T> {
    splitter: ListSplitter,
    items: Vec<T>,
    errors: Vec<Undecodable>,
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
            splitter: ListSplitter::default(),
            items: Vec::new(),
            errors: Vec::new(),
        }
    }
}

impl<T: Decode> ListReader<T> {
    /// Adds data, and decodes the items that are complete now.
    pub fn feed(&mut self, data: &[u8]) {
        self.splitter.feed(data);
        while let Some(message) = self.splitter.next_item() {
            match read(&message).map_err(DecodeError::from).and_then(T::decode) {
                Ok(item) => self.items.push(item),
                Err(error) => self.errors.push(Undecodable::in_list(&message, error)),
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
        } = read(&self.splitter.finish()?)?;
        Ok(ListEnd {
            version: resource_version,
            next,
        })
    }
}

/// Splits a list into its items. It is fed as the list arrives, and holds no more of it than the item that is not
/// complete yet.
#[derive(Debug, Default)]
struct ListSplitter {
    buffer: BytesMut,
    position: Position,
    /// Set once the envelope says that it holds a list.
    is_list: bool,
    meta: Option<Bytes>,
    error: Option<Malformed>,
}

/// The part of the data that comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Position {
    #[default]
    Magic,
    Envelope,
    /// The list's own message, of which so many bytes are left.
    List(u64),
}

/// A field that has arrived.
enum Part {
    /// An item of the list.
    Item(Bytes),
    /// Anything else; it is dealt with.
    Other,
}

impl ListSplitter {
    /// Adds data.
    fn feed(&mut self, data: &[u8]) {
        // After an error nothing is read any more, so nothing is kept.
        if self.error.is_none() {
            self.buffer.extend_from_slice(data);
        }
    }

    /// Returns the message of the next item, once it is complete.
    fn next_item(&mut self) -> Option<Bytes> {
        loop {
            match self.next_part() {
                Ok(Some(Part::Item(item))) => return Some(item),
                Ok(Some(Part::Other)) => {}
                Ok(None) => return None,
                Err(error) => {
                    self.error = Some(error);
                    self.buffer.clear();
                    return None;
                }
            }
        }
    }

    /// Returns the message of the list's metadata, once everything has been fed. Fails if it was not a list, or cut off.
    fn finish(self) -> Result<Bytes, Malformed> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if !self.buffer.is_empty() || self.position != Position::Envelope {
            return Err(Malformed::CutOff);
        }
        self.meta.ok_or(Malformed::Envelope)
    }

    /// Takes the next field off the buffer, once it is complete.
    fn next_part(&mut self) -> Result<Option<Part>, Malformed> {
        if self.error.is_some() {
            return Ok(None);
        }
        match self.position {
            Position::Magic => {
                let length = self.buffer.len().min(MAGIC.len());
                if self.buffer[..length] != MAGIC[..length] {
                    return Err(Malformed::instead(&self.buffer));
                }
                if length < MAGIC.len() {
                    return Ok(None);
                }
                self.buffer.advance(length);
                self.position = Position::Envelope;
                Ok(Some(Part::Other))
            }
            Position::Envelope => {
                let Some((number, head, length)) = self.head()? else {
                    return Ok(None);
                };
                if number == ENVELOPE_OBJECT {
                    if !self.is_list {
                        return Err(Malformed::Envelope);
                    }
                    self.buffer.advance(head);
                    self.meta.get_or_insert_default();
                    self.position = Position::List(length);
                    return Ok(Some(Part::Other));
                }
                let Some(value) = self.take(head, length) else {
                    return Ok(None);
                };
                if number == ENVELOPE_KIND {
                    self.is_list = read::<TypeMeta<'_>>(&value)?.kind.ends_with("List");
                }
                Ok(Some(Part::Other))
            }
            Position::List(0) => {
                self.position = Position::Envelope;
                Ok(Some(Part::Other))
            }
            Position::List(left) => {
                let Some((number, head, length)) = self.head()? else {
                    return Ok(None);
                };
                let left = left
                    .checked_sub(length.saturating_add(head as u64))
                    .ok_or(Malformed::CutOff)?;
                let Some(value) = self.take(head, length) else {
                    return Ok(None);
                };
                self.position = Position::List(left);
                match number {
                    LIST_ITEMS => return Ok(Some(Part::Item(value))),
                    LIST_META => self.meta = Some(value),
                    _ => {}
                }
                Ok(Some(Part::Other))
            }
        }
    }

    /// Reads the next field's number and the lengths of its head and its value, once they have arrived.
    fn head(&self) -> Result<Option<(u32, usize, u64)>, Malformed> {
        let mut data = &self.buffer[..];
        let head = key(&mut data).and_then(|(number, kind)| {
            if kind == BYTES {
                return Ok((number, varint(&mut data)?));
            }
            // All fields that are known are of that type. Others are part of the head, with a number that none has.
            data = &self.buffer[..];
            next_field(&mut data)?;
            Ok((0, 0))
        });
        match head {
            Ok((number, length)) => Ok(Some((number, self.buffer.len() - data.len(), length))),
            Err(Malformed::CutOff) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes a value off the buffer, once it is complete.
    fn take(&mut self, head: usize, length: u64) -> Option<Bytes> {
        let whole = usize::try_from(length).ok()?.checked_add(head)?;
        (self.buffer.len() >= whole).then(|| {
            self.buffer.advance(head);
            self.buffer.split_to(whole - head).freeze()
        })
    }
}
