//! The wire format: numbers, lengths, fields.

use bytes::BufMut;

/// How a field's value is written.
pub(super) const VARINT: u8 = 0;
pub(super) const FIXED64: u8 = 1;
pub(super) const LENGTH: u8 = 2;
const GROUP: u8 = 3;
const END_GROUP: u8 = 4;
const FIXED32: u8 = 5;

/// Bytes that are no message, mostly in the words of Kubernetes' generated code.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The bytes end within a field.
    #[error("unexpected EOF")]
    Eof,
    /// A known field is not written the way it should be.
    #[error("proto: wrong wireType = {found} for field {field}")]
    WrongWireType { found: u8, field: String },
    /// These are no fields, or not in the envelope of Kubernetes.
    #[error("{0}")]
    Broken(&'static str),
    /// A part of the message that should be JSON is not.
    #[error("{0}")]
    Json(String),
}

/// Reads one message's fields in their order.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

/// A field as it stands on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) enum Raw<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// A value of a wire type that no field of Kubernetes has; it has been skipped.
    Other(u8),
}

impl Raw<'_> {
    pub(super) fn wire(self) -> u8 {
        match self {
            Self::Number(_) => VARINT,
            Self::Bytes(_) => LENGTH,
            Self::Other(wire) => wire,
        }
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next field; none at the end.
    pub(super) fn field(&mut self) -> Result<Option<(u32, Raw<'a>)>, Fault> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let (number, wire) = (key >> 3, (key & 7) as u8);
        // Go's code keeps the number in 32 bits with a sign.
        let Ok(number @ 1..) = i32::try_from(number & 0xffff_ffff) else {
            return Err(Fault::Broken("proto: illegal tag"));
        };
        Ok(Some((number.unsigned_abs(), self.value(wire)?)))
    }

    fn value(&mut self, wire: u8) -> Result<Raw<'a>, Fault> {
        Ok(match wire {
            VARINT => Raw::Number(self.varint()?),
            FIXED64 => {
                self.rest = self.rest.get(8..).ok_or(Fault::Eof)?;
                Raw::Other(wire)
            }
            LENGTH => Raw::Bytes(self.bytes()?),
            FIXED32 => {
                self.rest = self.rest.get(4..).ok_or(Fault::Eof)?;
                Raw::Other(wire)
            }
            GROUP => {
                self.skip_group()?;
                Raw::Other(wire)
            }
            _ => return Err(Fault::Broken("proto: illegal wireType")),
        })
    }

    /// Skips to the end of a group that has begun, and over those within.
    fn skip_group(&mut self) -> Result<(), Fault> {
        let mut depth = 1u64;
        while depth > 0 {
            if self.rest.is_empty() {
                return Err(Fault::Eof);
            }
            match (self.varint()? & 7) as u8 {
                GROUP => depth += 1,
                END_GROUP => depth -= 1,
                wire => {
                    self.value(wire)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(Fault::Eof)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Fault::Broken("proto: integer overflow"))
    }

    fn bytes(&mut self) -> Result<&'a [u8], Fault> {
        let len = self.varint()?;
        let len = usize::try_from(len).map_err(|_| Fault::Eof)?;
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Fault::Eof)?;
        self.rest = rest;
        Ok(bytes)
    }
}

pub(super) fn key(number: u32, wire: u8) -> u64 {
    u64::from(number) << 3 | u64::from(wire)
}

pub(super) fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

pub(super) fn put_varint(out: &mut impl BufMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

/// The length of a field with so many bytes.
pub(crate) fn field_len(number: u32, len: usize) -> usize {
    varint_len(key(number, LENGTH)) + varint_len(len as u64) + len
}

/// Writes what stands before the bytes of a field.
pub(crate) fn put_field_head(out: &mut impl BufMut, number: u32, len: usize) {
    put_varint(out, key(number, LENGTH));
    put_varint(out, len as u64);
}

/// Writes a field of bytes.
pub(crate) fn put_field(out: &mut impl BufMut, number: u32, bytes: &[u8]) {
    put_field_head(out, number, bytes.len());
    out.put_slice(bytes);
}

/// The metadata of an encoded object with what stands before it, which is all that a `PartialObjectMetadata` has: every
/// object begins with its metadata.
pub(crate) fn metadata_of(object: &[u8]) -> &[u8] {
    let mut reader = Reader::new(object);
    match reader.field() {
        Ok(Some((1, Raw::Bytes(_)))) => &object[..object.len() - reader.rest.len()],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_broken_fields() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out.len(), varint_len(value));
            assert_eq!(Reader::new(&out).varint(), Ok(value));
        }
        for (bytes, fault) in [
            (&[0x0a, 5, 1][..], "unexpected EOF"),
            (&[0x0a], "unexpected EOF"),
            (&[0x80], "unexpected EOF"),
            (&[0xff; 11], "proto: integer overflow"),
            (&[0x0f], "proto: illegal wireType"),
            (&[0x0c], "proto: illegal wireType"),
            (&[0x02, 0], "proto: illegal tag"),
            // A length of an exabyte is not believed.
            (
                &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f],
                "unexpected EOF",
            ),
            // Groups that never end, however deep, are no recursion.
            (&[0x0b; 10_000], "unexpected EOF"),
        ] {
            assert_eq!(Reader::new(bytes).field().unwrap_err().to_string(), fault);
        }
    }
}
