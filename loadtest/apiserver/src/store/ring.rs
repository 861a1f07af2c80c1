//! The bounded history of a kind's changes.

use crate::object::Object;
use crate::protobuf;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

/// The kind of change that happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Added,
    Modified,
    Deleted,
}

/// A change, with the state before it.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) change: Change,
    /// The state after the change; after a deletion, the last state at the deletion's version.
    pub(crate) object: Arc<Object>,
    pub(crate) previous: Option<Arc<Object>>,
    pub(crate) messages: Arc<Messages>,
}

/// An event's object in protobuf, from the first watcher on that wants it so. It is kept with the event: a store of many
/// objects would be twice the size if each kept its own.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    pub(crate) whole: OnceLock<Bytes>,
    pub(crate) metadata: OnceLock<Bytes>,
}

/// The latest changes of a kind. Each has a position that grows by one, so that a reader needs to keep only a number.
#[derive(Debug)]
pub(crate) struct Ring {
    events: VecDeque<Event>,
    first: u64,
    capacity: usize,
    /// Changes up to this version may be missing.
    floor: u64,
}

impl Event {
    pub(crate) fn new(change: Change, object: Arc<Object>, previous: Option<Arc<Object>>) -> Self {
        Self {
            change,
            object,
            previous,
            messages: Arc::default(),
        }
    }

    /// The object in protobuf.
    pub(crate) fn message(&self) -> &[u8] {
        self.messages.whole.get_or_init(|| self.object.message())
    }

    /// The object's metadata in protobuf.
    pub(crate) fn metadata_message(&self) -> &[u8] {
        match self.messages.whole.get() {
            Some(whole) => protobuf::metadata_of(whole),
            None => self
                .messages
                .metadata
                .get_or_init(|| self.object.metadata_message()),
        }
    }
}

impl Ring {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            events: VecDeque::new(),
            first: 0,
            capacity,
            floor: 0,
        }
    }

    pub(crate) fn push(&mut self, event: Event) {
        if self.events.len() == self.capacity
            && let Some(oldest) = self.events.pop_front()
        {
            self.first += 1;
            self.floor = oldest.object.rv;
        }
        self.events.push_back(event);
    }

    /// The position after the last event.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// The events from a position on; none when the first of them are gone.
    pub(crate) fn from(&self, position: u64) -> Option<impl Iterator<Item = &Event>> {
        let skip = position.checked_sub(self.first)?;
        Some(
            self.events
                .range(usize::try_from(skip).ok()?.min(self.events.len())..),
        )
    }

    /// The position of the first event after a version; none when that version is too old.
    pub(crate) fn after(&self, rv: u64) -> Option<u64> {
        (rv >= self.floor).then(|| self.first + self.events.partition_point(|e| e.object.rv <= rv) as u64)
    }

    /// Whether nothing has changed since a version.
    pub(crate) fn is_as_at(&self, rv: u64) -> bool {
        self.after(rv) == Some(self.next())
    }

    /// The oldest version a watch can start from.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    pub(crate) fn compact(&mut self, rv: u64) {
        // Positions go on: a watcher that has not read these is cut off, as one that fell out of the ring.
        self.first = self.next();
        self.events.clear();
        self.floor = rv;
    }
}
