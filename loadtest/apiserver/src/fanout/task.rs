//! The goroutines of a server.

/// A goroutine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Task {
    /// Takes events from the store.
    Intake,
    /// Puts them into the channels of watchers.
    Dispatch,
    /// Moves events from one channel of a watcher to the other.
    Forward(u32),
    /// Sends them to the watcher.
    Send(u32),
    /// Serves a request.
    Job(u32),
}
