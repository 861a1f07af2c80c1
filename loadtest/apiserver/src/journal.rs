//! The changes of all objects in their order, kept whole: what a watch of everything would show that misses nothing.

use crate::object::Object;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// A change that the store has taken, by whichever request.
#[derive(Clone, Debug)]
pub struct JournalEntry {
    /// When, on tokio's clock since the server's start.
    pub at: Duration,
    /// Whether the object went with it.
    pub deleted: bool,
    object: Arc<Object>,
}

// === impl JournalEntry ===

impl JournalEntry {
    pub(crate) fn new(at: Duration, deleted: bool, object: &Arc<Object>) -> Self {
        Self {
            at,
            deleted,
            object: Arc::clone(object),
        }
    }

    /// The plural name of the object's kind.
    pub fn resource(&self) -> &'static str {
        self.object.kind.resource
    }

    /// The version of the store after the change.
    pub fn version(&self) -> u64 {
        self.object.rv
    }

    /// The object after the change; its last state, if it went.
    pub fn object(&self) -> Value {
        self.object.value()
    }
}
