//! Parses the events of a watch.

use super::sources::DeletedAt;
use crate::cluster::cause::Cause;
use crate::cluster::codec::{self, Decode, Event, EventKind, Undecodable};

/// The contents of some events.
pub(super) struct Decoded<T> {
    /// Objects in order, each with whether it was deleted.
    pub(super) items: Vec<(T, Option<DeletedAt>)>,
    /// Objects that cannot be decoded, and why.
    pub(super) errors: Vec<Undecodable>,
    /// The version of the last event that was parsed, even if its object cannot be decoded.
    pub(super) version: Option<String>,
    /// The last bookmark, if there is one.
    pub(super) bookmark: Option<Bookmark>,
    /// The reason why the watch cannot go on past them, if it cannot.
    pub(super) end: Result<(), Cause>,
}

/// Kinds of bookmarks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bookmark {
    /// Everything that existed when the watch began has been shown.
    Listed,
    /// The bookmark only carries a version.
    Plain,
}

/// Parses whole events; of a streamed list, only those up to the first bookmark.
pub(super) fn take_events<T: Decode>(data: &[u8], listing: bool) -> Decoded<T> {
    let mut decoded = Decoded {
        items: Vec::new(),
        errors: Vec::new(),
        version: None,
        bookmark: None,
        end: Ok(()),
    };
    for event in codec::events(data) {
        match event.map_err(Cause::from).and_then(take_event) {
            Ok(Content::Object(item, at, gone)) => {
                decoded.items.push((item, gone));
                decoded.version = Some(at);
            }
            Ok(Content::Bookmark(at, bookmark)) => {
                decoded.version = Some(at);
                decoded.bookmark = Some(bookmark);
                if listing {
                    break;
                }
            }
            Ok(Content::Undecodable(error, at)) => {
                decoded.errors.push(error);
                decoded.version = Some(at);
            }
            Err(error) => {
                decoded.end = Err(error);
                break;
            }
        }
    }
    decoded
}

/// The content of an event.
enum Content<T> {
    /// An object, its version, and whether it was deleted.
    Object(T, String, Option<DeletedAt>),
    /// A bookmark and its version.
    Bookmark(String, Bookmark),
    /// An object that cannot be decoded, why, and its version.
    Undecodable(Undecodable, String),
}

/// Parses an event. After an error the watch cannot go on past it.
fn take_event<T: Decode>(event: Event<'_>) -> Result<Content<T>, Cause> {
    match event.kind {
        EventKind::Bookmark => {
            let (version, listed) = codec::bookmark(event.object)?;
            let bookmark = if listed { Bookmark::Listed } else { Bookmark::Plain };
            Ok(Content::Bookmark(version, bookmark))
        }
        EventKind::Error => {
            let status = codec::status(0, event.object);
            Err(Cause::refused(status.code, status))
        }
        EventKind::Applied | EventKind::Deleted => match codec::versioned(event.object) {
            Ok((item, at)) => {
                let gone = match event.kind {
                    EventKind::Deleted => Some(DeletedAt(codec::version(&at)?)),
                    _ => None,
                };
                Ok(Content::Object(item, at, gone))
            }
            // A deleted object must not be kept, so everything is listed again.
            Err(_) if event.kind == EventKind::Deleted => Err(Cause::Expired),
            Err(error) => Ok(Content::Undecodable(
                Undecodable::new(event.object, error),
                codec::object_version(event.object)?,
            )),
        },
    }
}
