//! Parses the lines of a watch.

use super::sources::Gone;
use crate::cluster::cause::Cause;
use crate::cluster::codec::{self, Decode, EventKind, Undecodable};

/// The contents of some lines.
pub(super) struct Batch<T> {
    /// Objects in order, each with whether it was deleted.
    pub(super) items: Vec<(T, Option<Gone>)>,
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
    /// Everything that existed when the watch began has been batch.
    Listed,
    /// The bookmark only carries a version.
    Plain,
}

/// Parses whole lines; of a streamed list, only those up to the first bookmark.
pub(super) fn take_lines<T: Decode>(lines: &[u8], listing: bool) -> Batch<T> {
    let mut batch = Batch {
        items: Vec::new(),
        errors: Vec::new(),
        version: None,
        bookmark: None,
        end: Ok(()),
    };
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', lines) {
        let line = &lines[start..end];
        start = end + 1;
        if line.is_empty() {
            continue;
        }
        match take_line(line) {
            Ok(Line::Object(item, at, gone)) => {
                batch.items.push((item, gone));
                batch.version = Some(at);
            }
            Ok(Line::Bookmark(at, bookmark)) => {
                batch.version = Some(at);
                batch.bookmark = Some(bookmark);
                if listing {
                    break;
                }
            }
            Ok(Line::Undecodable(error, at)) => {
                batch.errors.push(error);
                batch.version = Some(at);
            }
            Err(error) => {
                batch.end = Err(error);
                break;
            }
        }
    }
    batch
}

/// The contents of a line of a watch.
enum Line<T> {
    /// An object, its version, and whether it was deleted.
    Object(T, String, Option<Gone>),
    /// A bookmark and its version.
    Bookmark(String, Bookmark),
    /// An object that cannot be decoded, why, and its version.
    Undecodable(Undecodable, String),
}

/// Parses a line. After an error the watch cannot go on past it.
fn take_line<T: Decode>(line: &[u8]) -> Result<Line<T>, Cause> {
    let event = codec::event(line)?;
    match event.kind {
        EventKind::Bookmark => {
            let (version, listed) = codec::bookmark(event.object)?;
            let bookmark = if listed { Bookmark::Listed } else { Bookmark::Plain };
            Ok(Line::Bookmark(version, bookmark))
        }
        EventKind::Error => {
            let status = codec::status(0, event.object);
            Err(Cause::refused(status.code, status))
        }
        EventKind::Applied | EventKind::Deleted => match codec::versioned(event.object) {
            Ok((item, at)) => {
                let gone = match event.kind {
                    EventKind::Deleted => Some(Gone(codec::version(&at)?)),
                    _ => None,
                };
                Ok(Line::Object(item, at, gone))
            }
            // A deleted object must not be kept, so everything is listed again.
            Err(_) if event.kind == EventKind::Deleted => Err(Cause::Expired),
            Err(error) => Ok(Line::Undecodable(
                Undecodable::new(event.object, error),
                codec::object_version(event.object)?,
            )),
        },
    }
}
