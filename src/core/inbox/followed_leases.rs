//! The waiting changes of the Leases that Services of a namespace follow.

use super::latest::Latest;
use crate::core::compact::slab::IntoEntries;
use crate::core::followed_leases::lease::{LeaseChange, LeaseEvent};
use std::array;
use std::sync::Arc;

/// The waiting changes of one request to follow Leases: the last list, and what is newer, by Lease.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitingLeases {
    generation: u64,
    begun: Option<LeaseChange>,
    listed: Option<LeaseChange>,
    /// The newest event of the watches, and the last answer to a read. Each is judged by its version, so their order among
    /// each other does not matter.
    changes: Latest<Arc<str>, [Option<LeaseChange>; 2]>,
}

impl WaitingLeases {
    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }

    /// Merges a change into what waits.
    pub(super) fn push(&mut self, change: LeaseChange) {
        if change.generation < self.generation {
            return;
        }
        if change.generation > self.generation {
            *self = Self {
                generation: change.generation,
                ..Self::default()
            };
        }
        let (name, at) = match &change.event {
            LeaseEvent::Begun => {
                self.begun = Some(change);
                return;
            }
            LeaseEvent::Listed(list) => {
                // It shows at least what the watch before it showed, unless another watch has gone on while it was made.
                let moment = list.moment;
                let waiting = std::mem::take(&mut self.changes).into_entries();
                for (name, [event, _]) in waiting {
                    if let Some(event) = event
                        && version_of(&event).is_some_and(|version| moment.is_before(version, event.at))
                    {
                        self.changes.insert(name, [Some(event), None]);
                    }
                }
                self.listed = Some(change);
                return;
            }
            LeaseEvent::Seen(facts) => (&facts.name, 0),
            LeaseEvent::Gone(name, _) => (name, 0),
            LeaseEvent::Read(read, _) => (&read.name, 1),
        };
        let name = name.clone();
        if let Some(waiting) = self.changes.get_mut(&name) {
            // Another watch may have shown what is newer, and a read that was taken back may be answered after its successor.
            let newer = waiting[at].as_ref().and_then(order_of) > order_of(&change);
            if !newer {
                waiting[at] = Some(change);
            }
        } else {
            let mut waiting = [None, None];
            waiting[at] = Some(change);
            self.changes.insert(name, waiting);
        }
    }

    /// Takes the changes, in an order in which they can be applied.
    pub(super) fn into_changes(self) -> LeaseChanges {
        LeaseChanges {
            first: [self.begun, self.listed].into_iter(),
            changes: self.changes.into_entries(),
            read: None,
        }
    }
}

/// Returns the number of a read, and the version that an event of a watch shows: of two such changes, the one with the higher number
/// is the newer one.
fn order_of(change: &LeaseChange) -> Option<u64> {
    match &change.event {
        LeaseEvent::Read(read, _) => Some(read.number),
        _ => version_of(change),
    }
}

/// Returns the version that an event of a watch shows. `None` for all else.
fn version_of(change: &LeaseChange) -> Option<u64> {
    match &change.event {
        LeaseEvent::Seen(facts) => Some(facts.version),
        LeaseEvent::Gone(_, version) => Some(*version),
        LeaseEvent::Begun | LeaseEvent::Listed(_) | LeaseEvent::Read(..) => None,
    }
}

/// The changes, in an order in which they can be applied. They are taken out one at a time: there may be as many as the
/// namespace has Leases.
#[derive(Debug)]
pub(super) struct LeaseChanges {
    first: array::IntoIter<Option<LeaseChange>, 2>,
    changes: IntoEntries<(Arc<str>, [Option<LeaseChange>; 2])>,
    /// The answer to a read of the Lease whose event was the last one.
    read: Option<LeaseChange>,
}

impl Iterator for LeaseChanges {
    type Item = LeaseChange;

    fn next(&mut self) -> Option<LeaseChange> {
        let first = self.first.by_ref().flatten().next();
        first.or_else(|| self.read.take()).or_else(|| {
            let (_, [seen, read]) = self.changes.next()?;
            if seen.is_none() {
                return read;
            }
            self.read = read;
            seen
        })
    }
}
