//! Who may write: the gate that all who write, or follow what is written, look at.
//!
//! ```text
//!             election
//!                │ 1. when a term begins, keeps the shards from planning (core::leadership::picture)
//!                │ 2. moves the fence (cluster::fence), which every write asks before it leaves
//!                │ 3. tells the writer and the writer of Events: a leader grants, a standby drops what it is told
//!                │ 4. says so to the watches
//!                ▼
//!  watches of slices and Endpoints: a standby has none, and its shards forget both kinds; a leader lists both
//!  watches of the rest: always; when a term begins, they show that they are as new as it (core::leadership::view)
//! ```
//!
//! A process that loses the lease stands by with what it knows of pods, Services and nodes, instead of ending as
//! kube-controller-manager does. What ends there is everything that might still write; here all writes pass the
//! fence, so nothing has to end. And what makes all leaders lose their leases at once is mostly an API server
//! that does not answer for a while: it should not be met by all of them listing every pod when it comes back,
//! nor by restarts that are put off for minutes because there were several.

/// What this process does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It writes.
    Leader,
    /// It keeps up to date, and writes nothing.
    Standby,
    /// It compares what others write with what it would write, and writes nothing: a dry run.
    DryRun,
}

impl Role {
    /// Whether the writers may send anything.
    pub fn writes(self) -> bool {
        self == Self::Leader
    }

    /// Whether slices and Endpoints are listed and watched, so that plans are made. Who does not write and
    /// does not compare either has no use for them.
    pub fn follows_outputs(self) -> bool {
        matches!(self, Self::Leader | Self::DryRun)
    }
}

/// A role, and which in the order of roles. Who sees another term than before has missed a change, even if the
/// role is the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leadership {
    /// What this process does.
    pub role: Role,
    /// How often it has begun to write.
    pub term: u64,
}

impl Leadership {
    /// Of a process that needs no lease.
    pub const ALWAYS: Self = Self {
        role: Role::Leader,
        term: 1,
    };

    /// Of a dry run, which takes part in no election.
    pub const DRY_RUN: Self = Self {
        role: Role::DryRun,
        term: 0,
    };

    /// Of a process that has not got it yet.
    pub const STANDBY: Self = Self {
        role: Role::Standby,
        term: 0,
    };
}
