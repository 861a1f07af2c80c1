//! A listener that hears of each request as it arrives.

use http::Method;
use std::fmt;
use std::sync::{Arc, OnceLock};

type Listen = dyn Fn(&Arrival<'_>) + Send + Sync;

/// A request that has arrived whole, before faults, access rules and the store see it.
#[derive(Debug)]
pub struct Arrival<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path without its query.
    pub path: &'a str,
    /// The body as it was sent.
    pub body: &'a [u8],
}

/// The listener of a server, if it has one. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Listener(Arc<OnceLock<Box<Listen>>>);

// === impl Listener ===

impl Listener {
    /// Sets the listener; false if there is one already.
    pub(crate) fn set(&self, listen: Box<Listen>) -> bool {
        self.0.set(listen).is_ok()
    }

    pub(crate) fn hear(&self, arrival: &Arrival<'_>) {
        if let Some(listen) = self.0.get() {
            listen(arrival);
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listener").field(&self.0.get().is_some()).finish()
    }
}
