//! Reads the lines of a watch as they arrive, and parses them.

use super::WatchError;
use super::sources::Gone;
use crate::cluster::decode::{self, Decode, EventKind, Undecodable};
use crate::cluster::pages::Silent;
use bytes::{Bytes, BytesMut};
use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use kube::client::Body;
use std::time::Duration;
use tokio::time::timeout;

/// A longer line cannot be an object: etcd does not store objects of this size.
pub(super) const LONGEST_LINE: usize = 16 << 20;
/// Data that has arrived is handed on in one batch, but never more than about this many bytes.
const GULP: usize = 256 << 10;

/// The lines of a streaming answer.
pub(super) struct Lines {
    body: Body,
    buffer: BytesMut,
    ended: bool,
}

impl Lines {
    pub(super) fn new(body: Body) -> Self {
        Self {
            body,
            buffer: BytesMut::new(),
            ended: false,
        }
    }

    /// Returns the whole lines that have arrived, or none at the end. `silence` is how long nothing may arrive.
    pub(super) async fn next(&mut self, silence: Duration) -> Result<Option<Bytes>, WatchError> {
        while !self.ended {
            let frame = timeout(silence, self.body.frame())
                .await
                .map_err(|_| Silent(silence))?;
            self.ended = !take_frame(frame, &mut self.buffer)?;
            // Take along all data that has arrived already.
            if let Some(lines) = self.arrived()? {
                return Ok(Some(lines));
            }
            if self.buffer.len() > LONGEST_LINE {
                return Err(WatchError::LongLine);
            }
        }
        // A last line without its end was cut off; the event comes again.
        Ok(None)
    }

    /// Returns the whole lines that have arrived already, if there are any.
    pub(super) fn arrived(&mut self) -> Result<Option<Bytes>, WatchError> {
        while !self.ended && self.buffer.len() < GULP {
            let Some(frame) = self.body.frame().now_or_never() else {
                break;
            };
            self.ended = !take_frame(frame, &mut self.buffer)?;
        }
        let end = memchr::memrchr(b'\n', &self.buffer);
        Ok(end.map(|end| self.buffer.split_to(end + 1).freeze()))
    }
}

/// Adds a frame's data to the buffer. Returns false at the end of the stream.
fn take_frame(
    frame: Option<Result<http_body::Frame<Bytes>, kube::Error>>,
    buffer: &mut BytesMut,
) -> Result<bool, WatchError> {
    match frame {
        None => Ok(false),
        Some(frame) => {
            if let Ok(data) = frame?.into_data() {
                buffer.extend_from_slice(&data);
            }
            Ok(true)
        }
    }
}

/// The contents of some lines.
pub(super) struct Shown<T> {
    /// Objects in order, each with whether it was deleted.
    pub(super) items: Vec<(T, Option<Gone>)>,
    /// Objects that cannot be decoded, and why.
    pub(super) errors: Vec<Undecodable>,
    /// The version of the last event that was parsed, even if its object cannot be decoded.
    pub(super) version: Option<String>,
    /// The last bookmark, if there is one.
    pub(super) bookmark: Option<Bookmark>,
    /// The reason why the watch cannot go on past them, if it cannot.
    pub(super) end: Result<(), WatchError>,
}

/// Kinds of bookmarks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bookmark {
    /// Everything that existed when the watch began has been shown.
    Listed,
    /// The bookmark only carries a version.
    Plain,
}

/// Parses whole lines; of a streamed list, only those up to the first bookmark.
pub(super) fn take_lines<T: Decode>(lines: &[u8], listing: bool) -> Shown<T> {
    let mut shown = Shown {
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
                shown.items.push((item, gone));
                shown.version = Some(at);
            }
            Ok(Line::Bookmark(at, bookmark)) => {
                shown.version = Some(at);
                shown.bookmark = Some(bookmark);
                if listing {
                    break;
                }
            }
            Ok(Line::Undecodable(error, at)) => {
                shown.errors.push(error);
                shown.version = Some(at);
            }
            Err(error) => {
                shown.end = Err(error);
                break;
            }
        }
    }
    shown
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
fn take_line<T: Decode>(line: &[u8]) -> Result<Line<T>, WatchError> {
    let event = decode::event(line)?;
    match event.kind {
        EventKind::Bookmark => {
            let (version, listed) = decode::bookmark(event.object)?;
            let bookmark = if listed { Bookmark::Listed } else { Bookmark::Plain };
            Ok(Line::Bookmark(version, bookmark))
        }
        EventKind::Error => Err(WatchError::of_status(decode::status(0, event.object))),
        EventKind::Applied | EventKind::Deleted => match take_object(event.object) {
            Ok((item, at)) => {
                let gone = match event.kind {
                    EventKind::Deleted => Some(Gone(decode::version(&at)?)),
                    _ => None,
                };
                Ok(Line::Object(item, at, gone))
            }
            // A deleted object must not be kept, so everything is listed again.
            Err(_) if event.kind == EventKind::Deleted => Err(WatchError::Expired),
            Err(error) => Ok(Line::Undecodable(
                Undecodable::new(event.object, error),
                decode::object_version(event.object)?,
            )),
        },
    }
}

/// Decodes an object and its version.
fn take_object<T: Decode>(json: &[u8]) -> Result<(T, String), decode::DecodeError> {
    let wire: T::Wire<'_> = serde_json::from_slice(json)?;
    let version = T::version_of(&wire).to_owned();
    Ok((T::decode(wire)?, version))
}
