//! The lines of a watch: reading them as they arrive, and taking them apart.

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

/// A line longer than this is no object: etcd does not hold such.
pub(super) const LONGEST_LINE: usize = 16 << 20;
/// What is read in one go is handed on in one go, but never more than about this many bytes.
const GULP: usize = 256 << 10;

/// The lines of an answer that goes on.
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

    /// The whole lines that have arrived, or none at the end. `silence` is how long nothing may arrive.
    pub(super) async fn next(&mut self, silence: Duration) -> Result<Option<Bytes>, WatchError> {
        while !self.ended {
            let frame = timeout(silence, self.body.frame())
                .await
                .map_err(|_| Silent(silence))?;
            self.ended = !take_frame(frame, &mut self.buffer)?;
            // What else has arrived already is taken along.
            if let Some(lines) = self.arrived()? {
                return Ok(Some(lines));
            }
            if self.buffer.len() > LONGEST_LINE {
                return Err(WatchError::LongLine);
            }
        }
        // A last line without its end was cut off; it comes again.
        Ok(None)
    }

    /// The whole lines that have arrived already, if there are any.
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

/// Adds a frame's data to the buffer. False at the end of the stream.
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

/// What some lines show.
pub(super) struct Shown<T> {
    /// Objects, each with whether it is gone, in order.
    pub(super) items: Vec<(T, Option<Gone>)>,
    /// Which objects cannot be used, and why.
    pub(super) errors: Vec<Undecodable>,
    /// The version of the last event that was understood.
    pub(super) version: Option<String>,
    /// The last bookmark, if there is any.
    pub(super) bookmark: Option<Bookmark>,
    /// Why the watch cannot go on past them, if it cannot.
    pub(super) end: Result<(), WatchError>,
}

/// How far a watch is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bookmark {
    /// All that was there when it began has been shown.
    Listed,
    /// It says nothing beyond its version.
    Plain,
}

/// Takes whole lines apart; of those of a list that is streamed, no more than up to the first bookmark.
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

/// What a line of a watch shows.
enum Line<T> {
    /// An object, its version, and whether it is gone.
    Object(T, String, Option<Gone>),
    /// How far the watch is.
    Bookmark(String, Bookmark),
    /// An object that cannot be used, why, and its version.
    Undecodable(Undecodable, String),
}

/// Takes a line apart. An error means that the watch cannot go on past it.
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
            // What is gone must not be kept, so everything is listed again.
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
