//! The envelopes around the messages of objects, and the frames of watches.

use super::message::{Malformed, Value, message, read, read_into};

/// The bytes that an object in protobuf begins with, and nothing in JSON does.
pub(in crate::cluster::codec) const MAGIC: &[u8; 4] = b"k8s\0";
/// Length of the length before each frame of a watch.
const LENGTH: usize = 4;
/// A longer event cannot be an object: etcd does not store objects of this size.
pub(in crate::cluster::codec) const LONGEST_EVENT: usize = 16 << 20;

/// The envelope of an object (`runtime.Unknown`).
#[derive(Debug, Default)]
pub(in crate::cluster::codec) struct Envelope<'a> {
    /// The kind of the object.
    pub(in crate::cluster::codec) kind: TypeMeta<'a>,
    /// The message of the object.
    pub(in crate::cluster::codec) raw: Raw<'a>,
}

/// The type of an object (`runtime.TypeMeta`).
#[derive(Debug, Default)]
pub(in crate::cluster::codec) struct TypeMeta<'a> {
    /// `kind`.
    pub(in crate::cluster::codec) kind: &'a str,
}

message!('a, Envelope<'a> { 1 => kind, 2 => raw });
message!('a, TypeMeta<'a> { 2 => kind });

/// Bytes that are read later.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::cluster::codec) struct Raw<'a>(pub(in crate::cluster::codec) &'a [u8]);

impl<'a> super::message::Field<'a> for Raw<'a> {
    fn merge(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        self.0 = super::message::bytes(number, value)?;
        Ok(())
    }
}

impl<'a> Envelope<'a> {
    /// Opens the envelope of an object.
    pub(in crate::cluster::codec) fn open(data: &'a [u8]) -> Result<Self, Malformed> {
        read(data.strip_prefix(MAGIC).ok_or(Malformed::Envelope)?)
    }

    /// Opens an envelope as far as it is whole.
    pub(in crate::cluster::codec) fn open_damaged(data: &'a [u8]) -> Self {
        let mut envelope = Self::default();
        let _ = read_into(&mut envelope, data.strip_prefix(MAGIC).unwrap_or_default());
        envelope
    }
}

/// An event of a watch (`meta.WatchEvent`).
#[derive(Debug, Default)]
pub(in crate::cluster::codec) struct WatchEvent<'a> {
    /// `type`.
    pub(in crate::cluster::codec) kind: &'a str,
    /// `object`: an envelope, or JSON.
    pub(in crate::cluster::codec) object: RawExtension<'a>,
}

/// An object within a message (`runtime.RawExtension`).
#[derive(Debug, Default)]
pub(in crate::cluster::codec) struct RawExtension<'a> {
    /// `raw`.
    pub(in crate::cluster::codec) raw: Raw<'a>,
}

message!('a, WatchEvent<'a> { 1 => kind, 2 => object });
message!('a, RawExtension<'a> { 1 => raw });

/// Returns whether the data of a watch are frames. Their lengths are limited, so they begin with a byte that no text
/// begins with.
pub(in crate::cluster::codec) fn is_framed(data: &[u8]) -> bool {
    data.first()
        .is_some_and(|&byte| usize::from(byte) <= LONGEST_EVENT >> 24)
}

/// Splits off the first frame, once it is whole. `None` if it is not, and `Err` if it never will be.
pub(in crate::cluster::codec) fn split_frame<'a>(data: &mut &'a [u8]) -> Result<Option<&'a [u8]>, TooLong> {
    let Some((length, rest)) = data.split_first_chunk::<LENGTH>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*length) as usize;
    if length > LONGEST_EVENT {
        return Err(TooLong);
    }
    let Some((frame, rest)) = rest.split_at_checked(length) else {
        return Ok(None);
    };
    *data = rest;
    Ok(Some(frame))
}

/// An event is longer than any object can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an event of more than {LONGEST_EVENT} bytes")]
pub struct TooLong;

/// Reads an event.
pub(in crate::cluster::codec) fn read_event(frame: &[u8]) -> Result<WatchEvent<'_>, Malformed> {
    read(frame)
}
