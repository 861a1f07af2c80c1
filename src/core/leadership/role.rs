//! The role of this process. It decides whether the writers write, and whether slices and Endpoints are watched.
//!
//! ```text
//!             election
//!                │ 1. when a term begins, keeps the shards from planning (core::lists::list_state)
//!                │ 2. moves the fence (cluster::fence), which every write asks before it leaves
//!                │ 3. tells the writers of objects and of Events: a leader grants, a standby drops all that waits
//!                │ 4. tells the watches
//!                ▼
//!  watches of slices and Endpoints: a standby has none, and its shards forget both kinds; a leader lists both
//!  watches of the rest: always; when a term begins, they show that they are as new as it (core::lists::list_watch)
//! ```
//!
//! A process that loses the lease becomes a standby that keeps its pods, Services and nodes, instead of exiting as
//! kube-controller-manager does. There, exiting stops everything that might still write; here all writes pass the
//! fence, so nothing has to exit. And if all leaders lose their leases at once, the usual cause is an API server that
//! does not answer for a while. When it comes back, they should not all list every pod, nor wait for minutes in a
//! crash-loop backoff.

/// The role of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// This process writes.
    Leader,
    /// This process keeps its state up to date, and writes nothing.
    Standby,
    /// This process compares what others write with what it would write, and writes nothing: a dry run.
    DryRun,
}

impl Role {
    /// Returns whether the writers may send anything.
    pub fn writes(self) -> bool {
        self == Self::Leader
    }

    /// Returns whether slices and Endpoints are listed and watched, so that plans are made. A process that neither
    /// writes nor compares has no use for them.
    pub fn follows_outputs(self) -> bool {
        matches!(self, Self::Leader | Self::DryRun)
    }
}

/// The changes of role that a writer has yet to apply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoleChange {
    /// The role of this process now.
    pub role: Role,
    /// True if this process may not write, or could not at some time since the writer last applied a change. All that
    /// the writer was asked to write before is void then.
    pub lost: bool,
}

impl RoleChange {
    /// Returns the change to a role, together with one that came before it, if the writer has not applied that yet.
    #[must_use]
    pub fn new(role: Role, before: Option<Self>) -> Self {
        let lost = !role.writes() || before.is_some_and(|before| before.lost);
        Self { role, lost }
    }
}
