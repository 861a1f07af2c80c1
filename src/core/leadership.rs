//! Leadership: whether this process may write.
//!
//! [`election`] decides it, by a Lease that all candidates can read and replace. [`role`] says how a process that leads differs
//! from a standby, and in which order its parts learn of a change.
//!
//! To hold the lease is not enough: `core::lists` keeps a new leader from planning until its state is proven to be as new as
//! its term.

pub mod election;
pub mod role;

use role::Role;

/// The number of a period during which this process may write, or may not. Grants and requests of one term do not count
/// in the next.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Term(pub u64);

/// A role, and how often this process has come to write. An observer that sees another number than before has missed a
/// change, even if the role is the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leadership {
    /// The role of this process.
    pub role: Role,
    /// Number of times that it has begun to write. The number of a [`Term`] also counts the times at which it ceased to.
    pub wins: u64,
}

impl Leadership {
    /// The leadership of a process that needs no lease.
    pub const ALWAYS: Self = Self {
        role: Role::Leader,
        wins: 1,
    };

    /// The leadership of a dry run, which takes part in no election.
    pub const DRY_RUN: Self = Self {
        role: Role::DryRun,
        wins: 0,
    };

    /// The leadership of a process that has not won the lease yet.
    pub const STANDBY: Self = Self {
        role: Role::Standby,
        wins: 0,
    };
}
