//! Events of watches: lines of JSON, or frames of protobuf.

use super::decode::{DecodeError, wire};
use super::fields::{Bookmark, BookmarkMeta, Str};
use super::protobuf::envelope::{self, LONGEST_EVENT, TooLong, WatchEvent};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Annotation of the bookmark after the last object of a list that a watch began with.
const ANNOTATION_LISTED: &str = "k8s.io/initial-events-end";

/// An event of a watch, not yet decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event<'a> {
    /// The event's type.
    pub kind: EventKind,
    /// The object, in the encoding of the watch.
    pub object: &'a [u8],
}

/// Types of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// `ADDED` or `MODIFIED`.
    Applied,
    /// `DELETED`.
    Deleted,
    /// `BOOKMARK`.
    Bookmark,
    /// `ERROR`: the object is a `Status`.
    Error,
}

impl EventKind {
    fn parse(text: &str) -> Result<Self, DecodeError> {
        match text {
            "ADDED" | "MODIFIED" => Ok(Self::Applied),
            "DELETED" => Ok(Self::Deleted),
            "BOOKMARK" => Ok(Self::Bookmark),
            "ERROR" => Ok(Self::Error),
            _ => Err(DecodeError::Field("type")),
        }
    }
}

/// Returns the length of the whole events that the data begin with. Fails if the next one can never be whole.
pub fn whole_events(data: &[u8]) -> Result<usize, TooLong> {
    if envelope::is_framed(data) {
        let mut rest = data;
        while envelope::split_frame(&mut rest)?.is_some() {}
        return Ok(data.len() - rest.len());
    }
    let end = memchr::memrchr(b'\n', data).map_or(0, |end| end + 1);
    if data.len() - end > LONGEST_EVENT {
        return Err(TooLong);
    }
    Ok(end)
}

/// Splits whole events without parsing their objects.
pub fn events(data: &[u8]) -> Events<'_> {
    Events(data)
}

/// The events in some data. After an error there are no more.
#[derive(Clone, Debug)]
pub struct Events<'a>(&'a [u8]);

impl<'a> Iterator for Events<'a> {
    type Item = Result<Event<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let event = if envelope::is_framed(self.0) {
            let frame = envelope::split_frame(&mut self.0).ok().flatten()?;
            framed(frame)
        } else {
            let line = self.next_line()?;
            json(line)
        };
        if event.is_err() {
            self.0 = &[];
        }
        Some(event)
    }
}

impl<'a> Events<'a> {
    fn next_line(&mut self) -> Option<&'a [u8]> {
        while !self.0.is_empty() {
            let end = memchr::memchr(b'\n', self.0).unwrap_or(self.0.len());
            let line = &self.0[..end];
            self.0 = self.0.get(end + 1..).unwrap_or_default();
            if !line.is_empty() {
                return Some(line);
            }
        }
        None
    }
}

fn framed(frame: &[u8]) -> Result<Event<'_>, DecodeError> {
    let WatchEvent { kind, object } = envelope::read_event(frame)?;
    Ok(Event {
        kind: EventKind::parse(kind)?,
        object: object.raw.0,
    })
}

/// A line in another spelling than that of API servers.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Str<'a>,
    #[serde(borrow)]
    object: &'a RawValue,
}

fn json(line: &[u8]) -> Result<Event<'_>, DecodeError> {
    // The server writes the type first; then the object needs to be read only once.
    for (head, kind) in [
        (&br#"{"type":"MODIFIED","object":"#[..], EventKind::Applied),
        (br#"{"type":"ADDED","object":"#, EventKind::Applied),
        (br#"{"type":"DELETED","object":"#, EventKind::Deleted),
        (br#"{"type":"BOOKMARK","object":"#, EventKind::Bookmark),
        (br#"{"type":"ERROR","object":"#, EventKind::Error),
    ] {
        if let Some(object) = line.strip_prefix(head).and_then(|rest| rest.strip_suffix(b"}")) {
            return Ok(Event { kind, object });
        }
    }
    let line: Line<'_> = serde_json::from_slice(line)?;
    Ok(Event {
        kind: EventKind::parse(&line.kind)?,
        object: line.object.get().as_bytes(),
    })
}

/// Returns the version of a bookmark, and whether it ends the list that a watch began with.
pub fn bookmark(object: &[u8]) -> Result<(String, bool), DecodeError> {
    let bookmark: Bookmark<'_> = wire(object)?;
    let BookmarkMeta {
        resource_version,
        annotations,
    } = bookmark.metadata;
    let listed = annotations
        .get(ANNOTATION_LISTED)
        .is_some_and(|value| **value == *"true");
    Ok((resource_version.to_string(), listed))
}
