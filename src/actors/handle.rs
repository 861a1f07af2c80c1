//! Reaches actors from code that is made before they start.

use crate::clock;
use ractor::{ActorRef, Message};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::Instant;

/// Sends messages of type `M` to an actor, and dereferences to what the actor shares with those who hold a handle. All
/// clones share one mailbox.
#[derive(Debug)]
pub struct Handle<M, S>(Arc<Reached<M, S>>);

#[derive(Debug)]
struct Reached<M, S> {
    actor: OnceLock<ActorRef<M>>,
    /// Origin of the times that the actor is told.
    start: Instant,
    shared: S,
}

impl<M, S> Clone for Handle<M, S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<M, S: Default> Default for Handle<M, S> {
    fn default() -> Self {
        Self(Arc::new(Reached {
            actor: OnceLock::new(),
            start: Instant::now(),
            shared: S::default(),
        }))
    }
}

impl<M, S> Deref for Handle<M, S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.0.shared
    }
}

impl<M: Message, S> Handle<M, S> {
    /// Registers the actor. Fails when one is registered already.
    pub(super) fn set(&self, actor: ActorRef<M>) -> Result<(), &'static str> {
        self.0.actor.set(actor).map_err(|_| "an actor was started twice")
    }

    /// Sends a message to the actor. It is dropped before the actor has started and after it has stopped.
    pub fn send(&self, message: M) {
        if let Some(actor) = self.0.actor.get() {
            let _ = actor.cast(message);
        }
    }

    /// Returns a time as the actor is told it.
    pub(super) fn at(&self, time: Instant) -> Duration {
        time.saturating_duration_since(self.0.start)
    }

    /// Returns the current time as the actor is told it.
    pub(super) fn now(&self) -> Duration {
        clock::since(self.0.start)
    }
}
