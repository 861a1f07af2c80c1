//! Leadership: who may write, and on what knowledge.
//!
//! ```text
//!  election (core::lease)      a Lease says who may write
//!       │ the lease is won
//!       ▼
//!  Picture                     one per process: every kind is blocked, and each is asked for a proof
//!       │ Demand                  that it is as new as this moment
//!       ▼
//!  View                        one per kind: reads a version, and shows that its list or watch reaches it
//!       │ Proven
//!       ▼
//!  Picture                     the kind's block is lifted; when none is left, shards plan
//! ```
//!
//! The lease alone does not make a writer safe. A standby whose watch of pods was broken knows the pods of some
//! minutes ago; if it planned from them when it wins, it would publish pods that the last leader has taken out
//! already. So nothing is planned until each kind's view is shown to be at least as new as a version of that
//! kind that was read *after* the lease was won. Versions of different kinds are never compared: servers may
//! keep kinds in different stores.

pub mod picture;
pub mod view;

pub use super::lease as election;

/// The number of a demand that every kind's view be shown to be current. One is made whenever a lease is won, and
/// whenever a version was found to have gone backwards. Zero is from before the first: the first list meets it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Demand(pub u64);

impl Demand {
    /// The one after this.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}
