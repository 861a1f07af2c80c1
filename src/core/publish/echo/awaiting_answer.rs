//! The requests of one resource that await an answer, as far as they say how busy the API server is.

use super::lateness::UPSTREAM_WORKERS;
use super::stream::GrantedWrite;
use crate::core::publish::promptness::Promptness;
use std::collections::BTreeMap;

/// The most requests of one namespace that count after they have given their places up. A webhook of the namespace may
/// hang, which says nothing of the server; if many namespaces have such requests, the server is busy.
const OF_NAMESPACE: usize = 2;
/// A request that has given its place up no longer counts once this many requests that were sent after it were answered while
/// they held theirs: the server is not busy, and something else keeps that request from its answer, such as a webhook of its
/// namespace.
const OVERTAKEN: usize = UPSTREAM_WORKERS;

/// The requests of one resource that await an answer. Owned by [`super::Echoes`], which numbers grants.
#[derive(Clone, Default, Debug)]
pub(super) struct AwaitingAnswer {
    /// The number of requests that hold a place.
    recent: usize,
    /// The requests that have given their place up, by the numbers of their grants.
    old: BTreeMap<u64, Old>,
}

/// A request that has given its place up.
#[derive(Clone, Copy, Debug)]
struct Old {
    tenant: u64,
    /// The number of requests sent after it that were answered since, while they held a place.
    overtaken: usize,
}

/// The number of writes that hold places and are not answered, by how promptly those of their namespaces were answered before.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Unanswered {
    pub all: [usize; Promptness::ALL.len()],
    /// Those that remove no endpoint.
    pub others: [usize; Promptness::ALL.len()],
}

impl Unanswered {
    pub(super) fn granted(&mut self, write: &GrantedWrite) {
        self.all[write.promptness as usize] += 1;
        self.others[write.promptness as usize] += usize::from(!write.removes);
    }

    pub(super) fn ended(&mut self, write: &GrantedWrite) {
        self.all[write.promptness as usize] -= 1;
        self.others[write.promptness as usize] -= usize::from(!write.removes);
    }
}

impl AwaitingAnswer {
    /// Counts a request that was granted.
    pub(super) fn granted(&mut self) {
        self.recent += 1;
    }

    /// Records that a request of a namespace has given its place up.
    pub(super) fn grew_old(&mut self, sent: u64, tenant: u64) {
        self.recent -= 1;
        self.old.insert(sent, Old { tenant, overtaken: 0 });
    }

    /// Removes a request that has been answered, or that is no longer awaited.
    pub(super) fn ended(&mut self, sent: u64) {
        if self.old.remove(&sent).is_none() {
            self.recent -= 1;
        }
    }

    /// Records that the server has carried a request out while the request held its place.
    pub(super) fn was_quick(&mut self, sent: u64) {
        for (_, old) in self.old.range_mut(..sent) {
            old.overtaken = (old.overtaken + 1).min(OVERTAKEN);
        }
    }

    /// Returns the number of requests that show that the server is busy. It counts up to [`UPSTREAM_WORKERS`] of those that have
    /// given their places up.
    pub(super) fn count(&self) -> usize {
        let mut counted = Vec::new();
        let waiting = self.old.values().filter(|old| old.overtaken < OVERTAKEN);
        for tenant in waiting.map(|old| old.tenant) {
            if counted.len() == UPSTREAM_WORKERS {
                break;
            }
            if counted.iter().filter(|other| **other == tenant).count() < OF_NAMESPACE {
                counted.push(tenant);
            }
        }
        self.recent + counted.len()
    }
}
