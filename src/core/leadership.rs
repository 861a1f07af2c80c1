//! Leadership: which process may write, and how current its state must be first.
//!
//! ```text
//!  core::election              a Lease decides which process may write
//!       │ the lease is won
//!       ▼
//!  ListState                   one per process: every kind holds plans back, and each is asked for a proof
//!       │ Demand                  that it is as new as this moment
//!       ▼
//!  ListWatch                   one per kind: reads a version, and shows that its list or watch reaches it
//!       │ Proven
//!       ▼
//!  ListState                   the kind is released; when all are, shards plan
//! ```
//!
//! The lease alone does not make a writer safe. A standby whose watch of pods was broken knows the pods of some
//! minutes ago; if it planned from them when it wins, it would publish pods that the last leader has taken out
//! already. So nothing is planned until each kind's view is shown to be at least as new as a version of that
//! kind that was read *after* the lease was won. Versions of different kinds are never compared: servers may
//! keep kinds in different stores.

pub mod list_state;
pub mod list_watch;

use super::role::Role;

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

/// A demand that every kind's view be proven current. One is made whenever a lease is won, and whenever a version was
/// found to have gone backwards. The default is from before the first demand: the first list meets it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Demand {
    /// Number of demands made before.
    pub number: u64,
    /// Number of times that versions were found to have gone backwards. Versions from before and after cannot be
    /// compared, so if this differs, only a list meets the demand.
    pub history: u64,
}

impl Demand {
    /// Creates the demand of a number, in the first history.
    pub const fn of(number: u64) -> Self {
        Self { number, history: 0 }
    }

    /// Returns the demand after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self {
            number: self.number + 1,
            ..self
        }
    }

    /// Returns the demand after this one, in a new history since versions went backwards.
    #[must_use]
    pub fn next_history(self) -> Self {
        Self {
            history: self.history + 1,
            ..self.next()
        }
    }
}
