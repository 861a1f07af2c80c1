//! Reads messages: only the fields that are asked for, by their numbers. Others are skipped, never stored or checked:
//! a later API server may add fields, and some texts that it stores are not UTF-8.

use std::borrow::Cow;

/// Reasons why a message cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    /// The data ends within a field.
    #[error("malformed protobuf: it is cut off")]
    CutOff,
    /// A number has more than 64 bits, or a field has the number 0.
    #[error("malformed protobuf: a number is out of range")]
    Range,
    /// A field is of another type than the API's.
    #[error("malformed protobuf: field {0} has another type")]
    Type(u32),
    /// A text that is needed is not UTF-8.
    #[error("malformed protobuf: a text is not UTF-8")]
    Text,
    /// The data does not begin like an object, or like an event.
    #[error("malformed protobuf: it does not begin like an object")]
    Envelope,
    /// The data is JSON: something on the way to the API server ignores the header `Accept`.
    #[error("the server answered in JSON, and was asked for protobuf")]
    Json,
}

impl Malformed {
    /// Says what data are that do not begin as they should.
    pub(super) fn instead(data: &[u8]) -> Self {
        match data.trim_ascii_start().first() {
            Some(b'{') => Self::Json,
            _ => Self::Envelope,
        }
    }
}

/// The value of a field as it stands in the data.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A number.
    Number(u64),
    /// A text, a message, or an entry of a map.
    Bytes(&'a [u8]),
    /// A number of fixed length. No field that is read has one.
    Fixed,
}

/// A message: a struct that takes its fields from the data.
pub trait Message<'a>: Default {
    /// Takes the value of the field of a number, or ignores it.
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed>;
}

/// The type of a field.
pub(super) trait Field<'a>: Default {
    /// Takes a value. A field may occur several times: an element of a list each time, otherwise the last one counts.
    fn merge(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed>;
}

/// Reads a message.
pub(super) fn read<'a, M: Message<'a>>(data: &'a [u8]) -> Result<M, Malformed> {
    let mut message = M::default();
    read_into(&mut message, data)?;
    Ok(message)
}

/// Reads the fields of a message until one is malformed: those before it are taken.
pub(super) fn read_into<'a, M: Message<'a>>(message: &mut M, mut data: &'a [u8]) -> Result<(), Malformed> {
    while !data.is_empty() {
        let (number, value) = next_field(&mut data)?;
        message.field(number, value)?;
    }
    Ok(())
}

/// Splits off the next field.
#[inline]
pub(super) fn next_field<'a>(data: &mut &'a [u8]) -> Result<(u32, Value<'a>), Malformed> {
    // Nearly all fields are texts and messages of less than 128 bytes, with a number below 16.
    if let [key @ 8..0x80, length @ 0..0x80, rest @ ..] = *data {
        if key & 7 == BYTES
            && let Some((taken, rest)) = rest.split_at_checked(usize::from(*length))
        {
            *data = rest;
            return Ok((u32::from(key >> 3), Value::Bytes(taken)));
        }
        if key & 7 == VARINT {
            *data = rest;
            return Ok((u32::from(key >> 3), Value::Number(u64::from(*length))));
        }
    }
    any_field(data)
}

fn any_field<'a>(data: &mut &'a [u8]) -> Result<(u32, Value<'a>), Malformed> {
    // Most of the others are as short, with a number from 16 on.
    if let [low @ 0x80..=0xff, high @ 1..0x10, length @ 0..0x80, rest @ ..] = *data
        && low & 7 == BYTES
        && let Some((taken, rest)) = rest.split_at_checked(usize::from(*length))
    {
        *data = rest;
        let number = u32::from(low & 0x7f) >> 3 | u32::from(*high) << 4;
        return Ok((number, Value::Bytes(taken)));
    }
    let (number, kind) = key(data)?;
    let value = match kind {
        VARINT => Value::Number(varint(data)?),
        BYTES => {
            let length = varint(data)?;
            Value::Bytes(take(data, length)?)
        }
        FIXED_64 => take(data, 8).map(|_| Value::Fixed)?,
        FIXED_32 => take(data, 4).map(|_| Value::Fixed)?,
        // Groups, which the API has none of.
        _ => return Err(Malformed::Type(number)),
    };
    Ok((number, value))
}

/// Types of values on the wire.
const VARINT: u8 = 0;
const FIXED_64: u8 = 1;
pub(super) const BYTES: u8 = 2;
const FIXED_32: u8 = 5;

/// Splits off the number and the type of a field.
pub(super) fn key(data: &mut &[u8]) -> Result<(u32, u8), Malformed> {
    let key = varint(data)?;
    let number = u32::try_from(key >> 3).map_err(|_| Malformed::Range)?;
    if number == 0 {
        return Err(Malformed::Range);
    }
    Ok((number, (key & 7) as u8))
}

fn take<'a>(data: &mut &'a [u8], length: u64) -> Result<&'a [u8], Malformed> {
    let length = usize::try_from(length).map_err(|_| Malformed::CutOff)?;
    let (taken, rest) = data.split_at_checked(length).ok_or(Malformed::CutOff)?;
    *data = rest;
    Ok(taken)
}

/// Splits off a number of variable length.
#[inline]
pub(super) fn varint(data: &mut &[u8]) -> Result<u64, Malformed> {
    // Nearly all numbers, and all keys of the fields that are read, are of one byte or two.
    match **data {
        [first @ 0..0x80, ref rest @ ..] => {
            *data = rest;
            Ok(u64::from(first))
        }
        [low, high @ 0..0x80, ref rest @ ..] => {
            *data = rest;
            Ok(u64::from(low & 0x7f) | u64::from(high) << 7)
        }
        _ => long_varint(data),
    }
}

fn long_varint(data: &mut &[u8]) -> Result<u64, Malformed> {
    let mut value = 0;
    for (at, &byte) in data.iter().enumerate().take(10) {
        // The tenth byte has room for one bit.
        if at == 9 && byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            *data = &data[at + 1..];
            return Ok(value);
        }
    }
    Err(if data.len() < 10 {
        Malformed::CutOff
    } else {
        Malformed::Range
    })
}

/// Returns the contents of a text, a message or an entry of a map.
pub(super) fn bytes(number: u32, value: Value<'_>) -> Result<&[u8], Malformed> {
    match value {
        Value::Bytes(bytes) => Ok(bytes),
        Value::Number(_) | Value::Fixed => Err(Malformed::Type(number)),
    }
}

/// Bytes that are read, or made text, when they are asked for: most labels, annotations and conditions never are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Raw<'a>(pub(super) &'a [u8]);

impl<'a> Raw<'a> {
    /// Returns whether they are this text.
    pub(super) fn is(self, text: &str) -> bool {
        self.0 == text.as_bytes()
    }

    /// Returns the text, in which bytes that are not UTF-8 are replaced.
    pub(super) fn text(self) -> Cow<'a, str> {
        lossy(self.0)
    }
}

impl<'a> Field<'a> for Raw<'a> {
    fn merge(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        self.0 = bytes(number, value)?;
        Ok(())
    }
}

impl<'a> Field<'a> for &'a str {
    fn merge(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        *self = std::str::from_utf8(bytes(number, value)?).map_err(|_| Malformed::Text)?;
        Ok(())
    }
}

impl<'a> Field<'a> for Cow<'a, str> {
    fn merge(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        *self = lossy(bytes(number, value)?);
        Ok(())
    }
}

/// Returns the text of a field. Bytes that are not UTF-8 are replaced, as in the API server's JSON: a user who may
/// write an annotation must not be able to make an object unreadable.
fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    // A check takes a fraction of the time that replacing nothing does.
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

impl<'a> Field<'a> for String {
    fn merge(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        *self = String::from_utf8_lossy(bytes(number, value)?).into_owned();
        Ok(())
    }
}

impl<'a> Field<'a> for i64 {
    fn merge(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        match value {
            // Negative numbers are written as their two's complement, of whatever size their type is.
            Value::Number(value) => *self = value.cast_signed(),
            Value::Bytes(_) | Value::Fixed => return Err(Malformed::Type(number)),
        }
        Ok(())
    }
}

impl<'a> Field<'a> for u64 {
    fn merge(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        let mut whole = 0_i64;
        whole.merge(number, value)?;
        *self = u64::try_from(whole).map_err(|_| Malformed::Range)?;
        Ok(())
    }
}

impl<'a> Field<'a> for u16 {
    fn merge(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        let mut whole = 0_i64;
        whole.merge(number, value)?;
        *self = u16::try_from(whole).map_err(|_| Malformed::Range)?;
        Ok(())
    }
}

impl<'a> Field<'a> for bool {
    fn merge(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        let mut whole = 0_i64;
        whole.merge(number, value)?;
        *self = whole != 0;
        Ok(())
    }
}

impl<'a, T: Field<'a>> Field<'a> for Option<T> {
    fn merge(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        self.get_or_insert_default().merge(number, value)
    }
}

impl<'a, T: Field<'a>> Field<'a> for Box<T> {
    fn merge(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        (**self).merge(number, value)
    }
}

impl<'a, T: Field<'a>> Field<'a> for Vec<T> {
    fn merge(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        let mut element = T::default();
        element.merge(number, value)?;
        self.push(element);
        Ok(())
    }
}

/// Declares which fields of a message are read, by number. A message is the type of a field too.
macro_rules! message {
    ($lifetime:lifetime, $type:ty { $($number:literal => $field:ident),+ $(,)? }) => {
        impl<$lifetime> $crate::cluster::codec::message::Message<$lifetime> for $type {
            // Called for each field of each object, and from one place.
            #[inline]
            fn field(
                &mut self,
                number: u32,
                value: $crate::cluster::codec::message::Value<$lifetime>,
            ) -> Result<(), $crate::cluster::codec::message::Malformed> {
                use $crate::cluster::codec::message::Field as _;
                match number {
                    $($number => self.$field.merge(number, value),)+
                    _ => Ok(()),
                }
            }
        }

        impl<$lifetime> $crate::cluster::codec::message::Field<$lifetime> for $type {
            fn merge(
                &mut self,
                number: u32,
                value: $crate::cluster::codec::message::Value<$lifetime>,
            ) -> Result<(), $crate::cluster::codec::message::Malformed> {
                use $crate::cluster::codec::message::{bytes, read_into};
                read_into(self, bytes(number, value)?)
            }
        }
    };
}
pub(super) use message;
