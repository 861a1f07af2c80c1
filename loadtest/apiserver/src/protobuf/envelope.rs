//! The framing of messages: `k8s\0` and a `runtime.Unknown` that says which type follows, and the frames of a watch.

use super::wire::{Fault, Raw, Reader, field_len, put_field, put_field_head};
use bytes::BufMut;

const PREFIX: &[u8] = b"k8s\0";
/// The fields `contentEncoding` and `contentType`, which are empty and written all the same.
const TAIL: &[u8] = b"\x1a\0\x22\0";

/// Which type a message is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Type<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
}

/// A message out of its envelope.
#[derive(Debug, Default)]
pub(crate) struct Opened<'a> {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) raw: &'a [u8],
}

impl Type<'static> {
    pub(crate) const METADATA: Self = Self {
        api_version: "meta.k8s.io/v1",
        kind: "PartialObjectMetadata",
    };
    pub(crate) const METADATA_LIST: Self = Self {
        api_version: "meta.k8s.io/v1",
        kind: "PartialObjectMetadataList",
    };
    pub(crate) const STATUS: Self = Self {
        api_version: "v1",
        kind: "Status",
    };
}

impl Type<'_> {
    fn meta_len(self) -> usize {
        field_len(1, self.api_version.len()) + field_len(2, self.kind.len())
    }

    /// The length of an envelope with a message of this length.
    fn envelope_len(self, raw: usize) -> usize {
        PREFIX.len() + field_len(1, self.meta_len()) + field_len(2, raw) + TAIL.len()
    }

    /// Begins an envelope; the message follows, and then [`end`].
    pub(crate) fn begin(self, out: &mut impl BufMut, raw: usize) {
        out.put_slice(PREFIX);
        put_field_head(out, 1, self.meta_len());
        put_field(out, 1, self.api_version.as_bytes());
        put_field(out, 2, self.kind.as_bytes());
        put_field_head(out, 2, raw);
    }

    /// Ends an envelope.
    pub(crate) fn end(out: &mut impl BufMut) {
        out.put_slice(TAIL);
    }
}

/// Writes a message in its envelope.
pub(crate) fn write_object(out: &mut impl BufMut, of: Type<'_>, raw: &[u8]) {
    of.begin(out, raw.len());
    out.put_slice(raw);
    Type::end(out);
}

/// Writes a frame of a watch: its length, and a `WatchEvent` with an envelope in it.
pub(crate) fn write_event(out: &mut impl BufMut, event: &str, of: Type<'_>, raw: &[u8]) {
    let object = of.envelope_len(raw.len());
    let extension = field_len(1, object);
    let frame = field_len(1, event.len()) + field_len(2, extension);
    out.put_u32(frame as u32);
    put_field(out, 1, event.as_bytes());
    put_field_head(out, 2, extension);
    put_field_head(out, 1, object);
    write_object(out, of, raw);
}

/// The length of the frame that these bytes begin with, its head included; none when they end before it.
pub(crate) fn frame_len(bytes: &[u8]) -> Option<usize> {
    let head = bytes.first_chunk::<4>()?;
    let len = usize::try_from(u32::from_be_bytes(*head)).ok()?.checked_add(4)?;
    (len <= bytes.len()).then_some(len)
}

/// The type of a frame's event.
pub(crate) fn event_type(frame: &[u8]) -> &[u8] {
    let event = Reader::new(frame.get(4..).unwrap_or(&[])).field();
    match event {
        Ok(Some((1, Raw::Bytes(event)))) => event,
        _ => &[],
    }
}

/// The object of a frame's event, in its envelope; none if the frame has none.
pub(crate) fn event_object(frame: &[u8]) -> Option<&[u8]> {
    let field = |message, wanted| {
        let mut reader = Reader::new(message);
        loop {
            match reader.field().ok()?? {
                (number, Raw::Bytes(value)) if number == wanted => return Some(value),
                _ => {}
            }
        }
    };
    field(field(frame.get(4..)?, 2)?, 1)
}

/// Takes a message out of its envelope.
pub(crate) fn open(bytes: &[u8]) -> Result<Opened<'_>, Fault> {
    if bytes.is_empty() {
        return Err(Fault::Broken("empty data"));
    }
    let unknown = bytes.strip_prefix(PREFIX).ok_or(Fault::Broken(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
    ))?;
    if unknown.is_empty() {
        return Err(Fault::Broken("empty body"));
    }
    let mut opened = Opened::default();
    let mut reader = Reader::new(unknown);
    while let Some((number, raw)) = reader.field()? {
        match (number, raw) {
            (1, Raw::Bytes(meta)) => {
                let mut reader = Reader::new(meta);
                while let Some((number, raw)) = reader.field()? {
                    let text = |raw| match raw {
                        Raw::Bytes(text) => Ok(String::from_utf8_lossy(text).into_owned()),
                        raw => Err(wrong(raw)),
                    };
                    match number {
                        1 => opened.api_version = text(raw)?,
                        2 => opened.kind = text(raw)?,
                        _ => {}
                    }
                }
            }
            (2, Raw::Bytes(raw)) => opened.raw = raw,
            (1 | 2, raw) => return Err(wrong(raw)),
            _ => {}
        }
    }
    Ok(opened)
}

fn wrong(raw: Raw<'_>) -> Fault {
    Fault::WrongWireType {
        found: raw.wire(),
        field: "Unknown".to_owned(),
    }
}
