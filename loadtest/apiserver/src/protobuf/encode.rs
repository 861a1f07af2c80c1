//! From stored JSON to protobuf.
//!
//! The JSON is read once and written as it is read, into one buffer: no value is made of it. Fields stand in JSON in the
//! order of their names and in protobuf in that of their numbers, so that a message is put in order when it is complete.

use super::table::{Key, MESSAGES, Message, put_absent, wire_of};
use super::time::{self, YEAR_ONE};
use super::wire::{LENGTH, put_varint, varint_len};
use crate::schema::Shape;
use bytes::Bytes;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;
use std::cell::RefCell;
use std::fmt;

/// Encodes objects, one after the other, in buffers of its own.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    out: Vec<u8>,
    /// The fields that messages under way have so far.
    parts: Vec<Part>,
    spare: Vec<u8>,
}

/// A field that has been written.
#[derive(Clone, Copy, Debug)]
struct Part {
    slot: usize,
    start: usize,
    end: usize,
}

/// Encodes a JSON object as a message of this type. Fields that the type does not have are left out, and so are values
/// that do not fit, which no stored object has.
pub(crate) fn encode(index: usize, json: &[u8]) -> Bytes {
    thread_local! {
        /// Its buffers grow once and not with every object.
        static ENCODER: RefCell<Encoder> = RefCell::default();
    }
    ENCODER.with_borrow_mut(|encoder| Bytes::copy_from_slice(encoder.encode(index, json)))
}

impl Encoder {
    /// The same, in this encoder's buffer.
    pub(crate) fn encode(&mut self, index: usize, json: &[u8]) -> &[u8] {
        self.out.clear();
        self.parts.clear();
        let message = &MESSAGES[index];
        let object = Object {
            encoder: self,
            message,
        };
        // Checked as a whole, so that it is not checked again with every text in it.
        let json = std::str::from_utf8(json).expect("stored bytes are JSON this server wrote");
        let mut reader = serde_json::Deserializer::from_str(json);
        object
            .deserialize(&mut reader)
            .expect("stored bytes are JSON this server wrote");
        &self.out
    }

    /// Puts the fields written since `base` in order, with those that are written though they are absent.
    fn finish(&mut self, message: &Message, base: usize, first: usize) {
        let Self { out, parts, spare } = self;
        let found = &mut parts[first..];
        found.sort_unstable_by_key(|part| (part.slot, part.start));
        spare.clear();
        let mut next = found.iter().peekable();
        for run in &message.runs {
            let inner = run.within.map(|key| open(spare, key));
            for (i, slot) in run.slots.clone().zip(&message.slots[run.slots.clone()]) {
                let mut last = None;
                while let Some(part) = next.next_if(|part| part.slot == i) {
                    last = Some(part);
                }
                match last {
                    Some(part) => spare.extend_from_slice(&out[part.start..part.end]),
                    None => spare.extend_from_slice(&slot.absent),
                }
            }
            if let Some(inner) = inner {
                close(spare, inner);
            }
        }
        out.truncate(base);
        out.extend_from_slice(spare);
        parts.truncate(first);
    }

    fn put_bytes(&mut self, key: Key, bytes: &[u8]) {
        self.out.extend_from_slice(key.bytes());
        put_varint(&mut self.out, bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }

    fn put_number(&mut self, key: Key, number: u64) {
        self.out.extend_from_slice(key.bytes());
        put_varint(&mut self.out, number);
    }

    /// `type`, `intVal` and `strVal`, all of which are always there.
    fn put_integer_or_text(&mut self, key: Key, value: Result<i64, &str>) {
        let start = open(&mut self.out, key);
        let (kind, number, text) = match value {
            Ok(number) => (0, number, ""),
            Err(text) => (1, 0, text),
        };
        self.out.extend_from_slice(&[0x08, kind, 0x10]);
        put_varint(&mut self.out, number as u64);
        self.put_bytes(Key::new(3, LENGTH), text.as_bytes());
        close(&mut self.out, start);
    }

    fn put_time(&mut self, key: Key, text: &str) {
        let Some((seconds, nanos)) = time::parse(text) else {
            return;
        };
        let start = open(&mut self.out, key);
        if seconds != YEAR_ONE || nanos != 0 {
            self.out.push(0x08);
            put_varint(&mut self.out, seconds as u64);
            self.out.push(0x10);
            put_varint(&mut self.out, u64::from(nanos));
        }
        close(&mut self.out, start);
    }
}

/// Begins a field whose length is not known: a byte is kept for it.
fn open(out: &mut Vec<u8>, key: Key) -> usize {
    out.extend_from_slice(key.bytes());
    out.push(0);
    out.len()
}

/// Ends a field that was begun, where its bytes begin at `start`.
fn close(out: &mut Vec<u8>, start: usize) {
    let len = out.len() - start;
    let more = varint_len(len as u64) - 1;
    if more > 0 {
        out.resize(out.len() + more, 0);
        out.copy_within(start..start + len, start + more);
    }
    put_varint(&mut &mut out[start - 1..], len as u64);
}

/// A JSON object that becomes a message.
struct Object<'e> {
    encoder: &'e mut Encoder,
    message: &'static Message,
}

/// A JSON value that becomes a field, or several where it is a list or a map.
struct Value<'e, 's> {
    encoder: &'e mut Encoder,
    key: Key,
    shape: &'s Shape,
}

/// The name of a field.
struct Name<'c> {
    message: &'static Message,
    cursor: &'c mut usize,
}

/// The key of a map's entry.
struct EntryKey<'e>(&'e mut Encoder);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.message.find(name, self.cursor))
    }
}

impl<'de> DeserializeSeed<'de> for EntryKey<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for EntryKey<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the key of an entry")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.0.put_bytes(Key::new(1, LENGTH), text.as_bytes());
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {}", self.message.name)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { encoder, message } = self;
        let (base, first, mut cursor) = (encoder.out.len(), encoder.parts.len(), 0);
        while let Some(slot) = map.next_key_seed(Name {
            message,
            cursor: &mut cursor,
        })? {
            let Some(slot) = slot else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let start = encoder.out.len();
            map.next_value_seed(Value {
                key: message.slots[slot].key,
                shape: &message.slots[slot].field.shape,
                encoder: &mut *encoder,
            })?;
            let end = encoder.out.len();
            if end > start {
                encoder.parts.push(Part { slot, start, end });
            }
        }
        encoder.finish(message, base, first);
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        let (base, first) = (self.encoder.out.len(), self.encoder.parts.len());
        self.encoder.finish(self.message, base, first);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if matches!(self.shape, Shape::Any) {
            let raw = <&RawValue>::deserialize(deserializer)?.get();
            if raw != "null" {
                let start = open(&mut self.encoder.out, self.key);
                self.encoder.put_bytes(Key::new(1, LENGTH), raw.as_bytes());
                close(&mut self.encoder.out, start);
            }
            return Ok(());
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {:?}", self.shape)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        match self.shape {
            Shape::Text => self.encoder.put_bytes(self.key, text.as_bytes()),
            Shape::IntegerOrText => self.encoder.put_integer_or_text(self.key, Err(text)),
            Shape::Quantity => {
                let start = open(&mut self.encoder.out, self.key);
                self.encoder.put_bytes(Key::new(1, LENGTH), text.as_bytes());
                close(&mut self.encoder.out, start);
            }
            Shape::Time | Shape::MicroTime => self.encoder.put_time(self.key, text),
            _ => {}
        }
        Ok(())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        match self.shape {
            Shape::Integer | Shape::Long => self.encoder.put_number(self.key, number as u64),
            Shape::IntegerOrText => self.encoder.put_integer_or_text(self.key, Ok(number)),
            _ => {}
        }
        Ok(())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.visit_i64(number.cast_signed())
    }

    fn visit_f64<E: Error>(self, _number: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, set: bool) -> Result<(), E> {
        if let Shape::Boolean = self.shape {
            self.encoder.put_number(self.key, u64::from(set));
        }
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { encoder, key, shape } = self;
        let Shape::List(shape) = shape else {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(());
        };
        while items
            .next_element_seed(Value {
                encoder: &mut *encoder,
                key,
                shape,
            })?
            .is_some()
        {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { encoder, key, shape } = self;
        match shape {
            Shape::Struct(index) => {
                let start = open(&mut encoder.out, key);
                let object = Object {
                    message: &MESSAGES[*index],
                    encoder: &mut *encoder,
                };
                object.visit_map(map)?;
                close(&mut encoder.out, start);
                Ok(())
            }
            Shape::Map(item) => write_map(encoder, key, item, map),
            _ => {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(())
            }
        }
    }
}

/// Writes a map's entries in their order, which is that of their keys in all JSON that this server stores.
fn write_map<'de, A: MapAccess<'de>>(
    encoder: &mut Encoder,
    key: Key,
    item: &Shape,
    mut map: A,
) -> Result<(), A::Error> {
    // Protobuf has no map of lists: such a list is in a message of its own.
    let list = matches!(item, Shape::List(_));
    let value_key = Key::new(2, if list { LENGTH } else { wire_of(item) });
    loop {
        let entry = encoder.out.len();
        let start = open(&mut encoder.out, key);
        if map.next_key_seed(EntryKey(&mut *encoder))?.is_none() {
            encoder.out.truncate(entry);
            return Ok(());
        }
        let value = encoder.out.len();
        let inner = list.then(|| open(&mut encoder.out, value_key));
        let key = if list {
            Key::new(1, wire_of(item))
        } else {
            value_key
        };
        map.next_value_seed(Value {
            encoder: &mut *encoder,
            key,
            shape: item,
        })?;
        if let Some(inner) = inner {
            close(&mut encoder.out, inner);
        }
        if encoder.out.len() == value {
            put_absent(&mut encoder.out, 2, item);
        }
        close(&mut encoder.out, start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::wire::{Raw, Reader};

    #[test]
    fn lengths_of_all_sizes() {
        for len in [0, 1, 127, 128, 16_383, 16_384, 3_000_000] {
            let mut out = vec![7];
            let start = open(&mut out, Key::new(2, LENGTH));
            out.resize(start + len, b'x');
            close(&mut out, start);
            let mut reader = Reader::new(&out[1..]);
            assert!(matches!(reader.field(), Ok(Some((2, Raw::Bytes(bytes)))) if bytes.len() == len));
            assert!(reader.is_empty());
        }
    }
}
