//! The envelopes around the messages of objects, and the frames of watches.

use super::message::{Malformed, Raw, message, read, read_into};

/// The bytes that an object begins with.
pub(super) const MAGIC: &[u8; 4] = b"k8s\0";
/// Length of the length before each frame of a watch.
const LENGTH: usize = 4;
/// A longer event cannot be an object: etcd does not store objects of this size.
const LONGEST_EVENT: usize = 16 << 20;

/// The envelope of an object (`runtime.Unknown`).
#[derive(Debug, Default)]
pub(super) struct Envelope<'a> {
    /// The kind of the object.
    pub(super) kind: TypeMeta<'a>,
    /// The message of the object.
    pub(super) raw: Raw<'a>,
}

/// The type of an object (`runtime.TypeMeta`).
#[derive(Debug, Default)]
pub(super) struct TypeMeta<'a> {
    /// `kind`.
    pub(super) kind: &'a str,
}

message!('a, Envelope<'a> { 1 => kind, 2 => raw });
message!('a, TypeMeta<'a> { 2 => kind });

impl<'a> Envelope<'a> {
    /// Opens the envelope of an object.
    pub(super) fn open(data: &'a [u8]) -> Result<Self, Malformed> {
        let message = data.strip_prefix(MAGIC);
        read(message.ok_or_else(|| Malformed::instead(data))?)
    }

    /// Opens an envelope as far as it is whole.
    pub(super) fn open_damaged(data: &'a [u8]) -> Self {
        let mut envelope = Self::default();
        let _ = read_into(&mut envelope, data.strip_prefix(MAGIC).unwrap_or_default());
        envelope
    }
}

/// An event of a watch (`meta.WatchEvent`).
#[derive(Debug, Default)]
pub(super) struct WatchEvent<'a> {
    /// `type`.
    pub(super) kind: &'a str,
    /// `object`: an envelope. An error may be in JSON.
    pub(super) object: RawExtension<'a>,
}

/// An object within a message (`runtime.RawExtension`).
#[derive(Debug, Default)]
pub(super) struct RawExtension<'a> {
    /// `raw`.
    pub(super) raw: Raw<'a>,
}

message!('a, WatchEvent<'a> { 1 => kind, 2 => object });
message!('a, RawExtension<'a> { 1 => raw });

/// Splits off the first frame, once it is whole. `None` if it is not, and `Err` if it never will be.
pub(super) fn split_frame<'a>(data: &mut &'a [u8]) -> Result<Option<&'a [u8]>, Malformed> {
    let Some((length, rest)) = data.split_first_chunk::<LENGTH>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*length) as usize;
    if length > LONGEST_EVENT {
        return Err(Malformed::instead(data));
    }
    let Some((frame, rest)) = rest.split_at_checked(length) else {
        return Ok(None);
    };
    *data = rest;
    Ok(Some(frame))
}

/// Reads an event.
pub(super) fn read_event(frame: &[u8]) -> Result<WatchEvent<'_>, Malformed> {
    read(frame)
}
