//! Events of watches.

use super::decode::{DecodeError, wire};
use super::envelope::{self, WatchEvent};
use super::fields::{Bookmark, BookmarkMeta};
use super::message::Malformed;

/// Annotation of the bookmark after the last object of a list that a watch began with.
const ANNOTATION_LISTED: &str = "k8s.io/initial-events-end";

/// An event of a watch, not yet decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event<'a> {
    /// The event's type.
    pub kind: EventKind,
    /// The object.
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
    /// Returns the type of a name.
    pub fn parse(text: &str) -> Result<Self, DecodeError> {
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
pub fn whole_events(data: &[u8]) -> Result<usize, Malformed> {
    let mut rest = data;
    while envelope::split_frame(&mut rest)?.is_some() {}
    Ok(data.len() - rest.len())
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
        let frame = envelope::split_frame(&mut self.0).transpose()?;
        let event = frame.map_err(DecodeError::from).and_then(read_event);
        if event.is_err() {
            self.0 = &[];
        }
        Some(event)
    }
}

fn read_event(frame: &[u8]) -> Result<Event<'_>, DecodeError> {
    let WatchEvent { kind, object } = envelope::read_event(frame)?;
    Ok(Event {
        kind: EventKind::parse(kind)?,
        object: object.raw.0,
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
