//! Lists and watches as decisions: when each kind is listed and watched, and from when on all kinds together show enough to
//! plan from.
//!
//! ```text
//!  core::leadership            the lease is won
//!       │
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
