//! Counters of work done, so that tests can bound the cost of a change without a clock.

use std::ops::Sub;

/// The work that a [`crate::core::namespace::NamespaceState`] or a [`crate::core::nodes::NodeTable`] has done since it was
/// created.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Work {
    /// The number of times that labels were compared with a selector.
    pub selector_evaluations: u64,
    /// The number of pairs of labels and selectors looked up, compared or given up, as pods and Services came, went and
    /// changed.
    pub pairs_compared: u64,
    /// The number of Service and pod ports read to resolve the ports of endpoints.
    pub ports_read: u64,
    /// The number of times that a pod's place in one Service and family was visited.
    pub endpoints_visited: u64,
    /// The number of times that an address of an Endpoints object was visited, either for an event of its pod or
    /// because the object was built.
    pub addresses_visited: u64,
    /// The number of endpoints that got a place in a slice.
    pub endpoints_placed: u64,
    /// The number of slices that evaluations of a Service visited.
    pub slices_touched: u64,
    /// The number of Services evaluated.
    pub evaluations: u64,
    /// The number of times that a node was looked up, applied or given up, and that a namespace was chosen to be told of one or
    /// of the zones.
    pub nodes_visited: u64,
    /// The number of notices composed for users.
    pub notices: u64,
    /// Units of laying out and comparing mirrored Endpoints: about the number of addresses, ports and endpoints that were
    /// numbered, sorted, hashed or compared, and of pieces of 256 bytes of their texts.
    pub endpoints_laid_out: u64,
    /// Units of taking in what was read: about the number of endpoints, addresses, ports and pairs of labels.
    pub items_read: u64,
    /// Bytes of objects to be written.
    pub bytes_built: u64,
}

/// Units of taking in an event of an object, beyond what is counted: it is looked up in several tables, compared and, if it is
/// new, put into them. Where there are 100,000, few of these are in the processor's caches, and it takes some microseconds.
pub(crate) const EVENT: u64 = 8;
/// Units of evaluating a Service, beyond what is counted: it, its slices and its Endpoints object are looked up likewise.
pub(crate) const EVALUATION: u64 = 16;
/// Bytes of objects to be written that take as long as another unit of work.
const BYTES: u64 = 32;
/// Units of work that it takes to compose a notice, and to tell it: some texts of some dozen bytes each.
const NOTICE: u64 = 8;

impl Work {
    /// Returns all work as one number, in units of some ten to some hundred nanoseconds.
    pub fn total(&self) -> u64 {
        let Self {
            selector_evaluations,
            pairs_compared,
            ports_read,
            endpoints_visited,
            addresses_visited,
            endpoints_placed,
            slices_touched,
            evaluations,
            nodes_visited,
            notices,
            endpoints_laid_out,
            items_read,
            bytes_built,
        } = self;
        // Comparing a pair or reading a port takes a fraction of the time of the other operations.
        (pairs_compared + ports_read) / 4
            + selector_evaluations
            + endpoints_visited
            + addresses_visited
            + endpoints_placed
            + slices_touched
            + evaluations
            + nodes_visited
            + notices * NOTICE
            + endpoints_laid_out
            + items_read
            + bytes_built / BYTES
    }
}

/// A limit on the work done in one go, in units of [`Work::total`], so that others get their turn.
#[derive(Debug)]
pub struct TurnBudget(u64);

impl TurnBudget {
    /// Units of a shard's turn: at most some milliseconds where few of its 100,000 Services are in the processor's caches.
    pub const TURN: u64 = 5_000;

    /// Creates a budget for one turn of a shard.
    pub fn for_a_turn() -> Self {
        Self::new(Self::TURN)
    }

    /// Creates a budget without a limit.
    pub fn unlimited() -> Self {
        Self(u64::MAX)
    }

    /// Creates a budget of this many units. An indivisible piece of work is completed even if it exceeds the rest.
    pub fn new(units: u64) -> Self {
        Self(units)
    }

    /// Deducts work that was done.
    pub fn spend(&mut self, units: u64) {
        self.0 = self.0.saturating_sub(units);
    }

    /// Returns whether the next piece of work has to wait.
    pub fn is_spent(&self) -> bool {
        self.0 == 0
    }
}

impl Sub for Work {
    type Output = Self;

    /// Returns the work done since an earlier count.
    fn sub(self, before: Self) -> Self {
        Self {
            selector_evaluations: self.selector_evaluations - before.selector_evaluations,
            pairs_compared: self.pairs_compared - before.pairs_compared,
            ports_read: self.ports_read - before.ports_read,
            endpoints_visited: self.endpoints_visited - before.endpoints_visited,
            addresses_visited: self.addresses_visited - before.addresses_visited,
            endpoints_placed: self.endpoints_placed - before.endpoints_placed,
            slices_touched: self.slices_touched - before.slices_touched,
            evaluations: self.evaluations - before.evaluations,
            nodes_visited: self.nodes_visited - before.nodes_visited,
            notices: self.notices - before.notices,
            endpoints_laid_out: self.endpoints_laid_out - before.endpoints_laid_out,
            items_read: self.items_read - before.items_read,
            bytes_built: self.bytes_built - before.bytes_built,
        }
    }
}
