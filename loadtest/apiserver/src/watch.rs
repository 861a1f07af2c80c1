//! Watches: replay from the history, then live, one reader's position each.

use crate::accept::{Accepted, Form, Media};
use crate::body::ResponseBody;
use crate::cause::Faults;
use crate::kinds::Kind;
use crate::kubectl;
use crate::list::{not_future, parse_version};
use crate::object::Object;
use crate::protobuf::{self, Encoder, Type};
use crate::query::Query;
use crate::route::ObjectTarget;
use crate::schema::SCHEMA;
use crate::selector::Selection;
use crate::status::{Answer, Refusal};
use crate::store::{Change, Event, Store, Woken};
use bytes::{Bytes, BytesMut};
use futures::stream;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How much is written at a time, and read from the history under its lock.
const CHUNK: usize = 64 * 1024;
const BATCH: usize = 256;

const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The last bookmark comes this long before the end.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// One watch: where it is, and what it still has to say.
struct Watcher {
    store: Arc<Store>,
    kind: Kind,
    selection: Selection,
    form: Form,
    media: Media,
    encoder: Encoder,
    /// A table's columns are told once.
    columns_told: bool,
    /// The present at the start, for a watch that begins with it.
    initial: std::vec::IntoIter<Arc<Object>>,
    /// The version of the bookmark that ends the initial events.
    initial_end: Option<u64>,
    position: u64,
    /// The position at the start: what had happened before the watch began does not count as lag.
    began: u64,
    /// Events up to this version are not wanted (a watch from a version to come).
    beyond: u64,
    woken: Woken,
    deadline: Instant,
    bookmark_at: Option<Instant>,
}

/// The content of an event.
#[derive(Clone, Copy)]
enum Told<'a> {
    /// A change as it is in the history.
    Event(&'a Event),
    /// An object as this watch alone shows it.
    Alone(&'a Arc<Object>),
}

/// Starts a watch; the answer is the stream of its events.
pub(crate) fn start(
    store: &Arc<Store>,
    target: &ObjectTarget,
    query: &Query,
    accepted: Accepted,
) -> Answer<ResponseBody> {
    let kind = target.kind;
    let initial_events = check(query)?;
    let selection = Selection::new(
        kind,
        &target.namespace,
        query.text("labelSelector"),
        query.text("fieldSelector"),
    )?;
    let Accepted { form, media } = accepted;
    if form == Form::MetadataList {
        let message = "you requested PartialObjectMetadataList, but the requested object is not a list";
        return Err(Refusal::not_acceptable(message));
    }
    let asked = parse_version(query.text("resourceVersion"))?;
    let timeout = match query.text("timeoutSeconds").parse::<u64>() {
        Ok(seconds) if seconds > 0 => Duration::from_secs(seconds),
        // Spread, so that the watches of one start do not all end together.
        _ => Duration::from_secs(store.write().rng.u64(1800..3600)),
    };
    let bookmarks = query.flag("allowWatchBookmarks");
    let now = Instant::now();
    let deadline = now + timeout;
    let state = store.read();
    let ring = &state.table(kind).ring;
    let from_present = initial_events || (asked == 0 && query.text("sendInitialEvents").is_empty());
    let (initial, position) = if from_present {
        not_future(asked, &state)?;
        let mut objects = state.range(kind, &target.namespace);
        objects.retain(|o| selection.matches(o));
        (objects, ring.next())
    } else if asked == 0 {
        (Vec::new(), ring.next())
    } else {
        let Some(position) = ring.after(asked) else {
            let message = format!("too old resource version: {asked} ({})", ring.floor());
            let event = error_event(&Refusal::expired(message, None), media);
            return Ok(ResponseBody::whole(event));
        };
        (Vec::new(), position)
    };
    let watcher = Watcher {
        kind,
        selection,
        form,
        media,
        encoder: Encoder::default(),
        columns_told: false,
        initial_end: (initial_events && bookmarks).then_some(state.rv),
        initial: initial.into_iter(),
        position,
        began: ring.next(),
        beyond: asked,
        woken: state.table(kind).subscribe(),
        deadline,
        bookmark_at: next_bookmark(now, deadline).filter(|_| bookmarks),
        store: Arc::clone(store),
    };
    drop(state);
    Ok(ResponseBody::watch(stream::unfold(
        watcher,
        |mut watcher| async move {
            let piece = watcher.next().await?;
            Some((Ok(piece), watcher))
        },
    )))
}

/// Checks the options; true when the initial events are asked for.
fn check(query: &Query) -> Answer<bool> {
    let asked = query.get("sendInitialEvents").filter(|v| !v.is_empty());
    let matching = query.text("resourceVersionMatch");
    let mut faults = Faults::default();
    if asked.is_some() {
        if matching != "NotOlderThan" {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            faults.forbidden("resourceVersionMatch", why);
        }
    } else if !matching.is_empty() {
        let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        faults.forbidden("resourceVersionMatch", why);
    }
    if !query.text("continue").is_empty() {
        faults.forbidden("continue", "continue is forbidden for watch");
    }
    Refusal::of_options(faults)?;
    Ok(asked.is_some() && query.flag("sendInitialEvents"))
}

/// When a bookmark comes next: every minute, and shortly before the end. As the cacher of a real server has it, none
/// comes when that moment is over already: a watch of up to two seconds has none. (A real server sends them once a
/// second to those whose time has come, so up to a second earlier or later.)
fn next_bookmark(now: Instant, deadline: Instant) -> Option<Instant> {
    let last = deadline.checked_sub(BOOKMARK_BEFORE_END)?;
    let next = (now + BOOKMARK_EVERY).min(last);
    (next > now).then_some(next)
}

/// The event that tells why a watch ends.
pub(crate) fn error_event(refusal: &Refusal, media: Media) -> Bytes {
    let status = refusal.status();
    match media {
        Media::Json => format!("{{\"type\":\"ERROR\",\"object\":{status}}}\n").into(),
        Media::Protobuf => protobuf::error_event(&status),
    }
}

impl Watcher {
    /// The next piece of the stream; none ends it.
    async fn next(&mut self) -> Option<Bytes> {
        let mut out = BytesMut::new();
        while self.initial.len() > 0 && out.len() < CHUNK {
            if let Some(object) = self.initial.next() {
                self.write(&mut out, "ADDED", Told::Alone(&object));
            }
        }
        if out.is_empty()
            && let Some(rv) = self.initial_end.take()
        {
            return Some(self.bookmark(rv, true));
        }
        if !out.is_empty() {
            return Some(out.freeze());
        }
        loop {
            if Instant::now() >= self.deadline {
                return None;
            }
            self.woken.mark_unchanged();
            let (events, rv, size) = self.read()?;
            if self.form == Form::Whole && self.selection.is_open() {
                // Once and enough, with what a line has beside its object.
                out.reserve(size + events.len() * 64);
            }
            for event in &events {
                self.tell(&mut out, event);
            }
            if !out.is_empty() {
                return Some(out.freeze());
            }
            if !events.is_empty() {
                continue;
            }
            let bookmark_at = self.bookmark_at;
            if bookmark_at.is_some_and(|at| Instant::now() >= at) {
                self.bookmark_at = next_bookmark(Instant::now(), self.deadline);
                // One that says no more than the version that was asked for is kept back, as by a real server.
                if rv > self.beyond {
                    return Some(self.bookmark(rv, false));
                }
                continue;
            }
            let wake_at = bookmark_at.map_or(self.deadline, |at| at.min(self.deadline));
            tokio::select! {
                biased;
                () = self.woken.changed() => {
                    // If there are many writers, they go first, and what they wrote is told at once.
                    tokio::task::yield_now().await;
                }
                () = tokio::time::sleep_until(wake_at) => {}
            }
        }
    }

    /// The next events of the history, the version they reach to and their size; none when too many were missed.
    fn read(&mut self) -> Option<(Vec<Event>, u64, usize)> {
        let state = self.store.read();
        let ring = &state.table(self.kind).ring;
        let lag = ring.next() - self.position.max(self.began).min(ring.next());
        if lag > self.store.config.watch_buffer as u64 {
            return None;
        }
        let mut size = 0;
        let mut events = Vec::new();
        for event in ring.from(self.position)?.take(BATCH) {
            size += event.object.bytes.len();
            events.push(event.clone());
            if size > CHUNK {
                break;
            }
        }
        self.position += events.len() as u64;
        Some((events, state.rv, size))
    }

    /// Writes an event as this watch's selection sees it.
    fn tell(&mut self, out: &mut BytesMut, event: &Event) {
        if event.object.rv <= self.beyond {
            return;
        }
        let before = event.previous.as_ref().filter(|p| self.selection.matches(p));
        let after = event.change != Change::Deleted && self.selection.matches(&event.object);
        match (before, after) {
            (Some(_), true) => self.write(out, "MODIFIED", Told::Event(event)),
            (None, true) => self.write(out, "ADDED", Told::Event(event)),
            (Some(_), false) if event.change == Change::Deleted => {
                self.write(out, "DELETED", Told::Event(event));
            }
            // An object that leaves the selection is shown as it was last seen, at the version at which it left.
            (Some(previous), false) => {
                let previous = previous.at_version(event.object.rv);
                self.write(out, "DELETED", Told::Alone(&previous));
            }
            (None, false) => {}
        }
    }

    fn write(&mut self, out: &mut BytesMut, event: &str, told: Told<'_>) {
        if self.media == Media::Protobuf {
            return self.write_message(out, event, told);
        }
        let object = match told {
            Told::Alone(object) => object,
            Told::Event(event) => &event.object,
        };
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(event.as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        if let Form::Table(style) = self.form {
            style
                .at(self.store.clock.now())
                .single(out, object, !self.columns_told);
            self.columns_told = true;
        } else {
            object.write(out, self.form == Form::Metadata);
        }
        out.extend_from_slice(b"}\n");
    }

    fn write_message(&mut self, out: &mut BytesMut, event: &str, told: Told<'_>) {
        let metadata_only = self.form == Form::Metadata;
        let of = if metadata_only {
            Type::METADATA
        } else {
            Type {
                api_version: self.kind.api_version,
                kind: self.kind.kind,
            }
        };
        let made;
        let message = match told {
            Told::Event(event) if metadata_only => event.metadata_message(),
            Told::Event(event) => event.message(),
            Told::Alone(object) if metadata_only => {
                made = object.metadata_message();
                &made
            }
            Told::Alone(object) => object.message_in(&mut self.encoder),
        };
        protobuf::write_event(out, event, of, message);
    }

    fn bookmark(&self, rv: u64, initial_end: bool) -> Bytes {
        let (kind, version, rest) = if self.form == Form::Metadata {
            ("PartialObjectMetadata", "meta.k8s.io/v1", "")
        } else {
            (self.kind.kind, self.kind.api_version, self.kind.bookmark_rest)
        };
        let annotations = if initial_end {
            r#","annotations":{"k8s.io/initial-events-end":"true"}"#
        } else {
            ""
        };
        let object = format!(
            "{{\"kind\":\"{kind}\",\"apiVersion\":\"{version}\",\
             \"metadata\":{{\"resourceVersion\":\"{rv}\"{annotations}}}{rest}}}"
        );
        if self.media == Media::Protobuf {
            let mut out = BytesMut::new();
            let of = Type {
                api_version: version,
                kind,
            };
            let index = if self.form == Form::Metadata {
                SCHEMA.named("PartialObjectMetadata")
            } else {
                SCHEMA.root(self.kind)
            };
            let message = protobuf::encode(index, object.as_bytes());
            protobuf::write_event(&mut out, "BOOKMARK", of, &message);
            return out.freeze();
        }
        let object = match self.form {
            Form::Table(_) => kubectl::bookmark(rv, &object),
            _ => object,
        };
        Bytes::from(format!("{{\"type\":\"BOOKMARK\",\"object\":{object}}}\n"))
    }
}
