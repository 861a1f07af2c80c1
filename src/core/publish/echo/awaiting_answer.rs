//! The requests of one resource that await an answer, as far as they say how busy the API server is.

use super::lateness::UPSTREAM_WORKERS;
use std::collections::BTreeMap;
use std::ops::Bound;

/// The most requests of one namespace that count after they have given their places up. A webhook of the namespace may
/// hang, which says nothing of the server; if many namespaces have such requests, the server is busy.
const OF_NAMESPACE: usize = 2;
/// A request does not count any more once so many were sent after it and answered while they held their places: the server
/// is not busy, and somebody else keeps that request from its answer, such as the webhooks of several namespaces.
const OVERTAKEN: usize = UPSTREAM_WORKERS;

/// The requests of one resource that await an answer. Owned by [`super::Echoes`], which numbers grants.
#[derive(Clone, Default, Debug)]
pub(super) struct AwaitingAnswer {
    /// The number of requests that hold a place.
    recent: usize,
    /// The namespaces of the requests that have given their place up, by the numbers of their grants.
    old: BTreeMap<u64, u64>,
    /// The highest numbers of requests that were answered while they held a place, in ascending order.
    quick: [u64; OVERTAKEN],
}

impl AwaitingAnswer {
    /// Counts a request that was sent.
    pub(super) fn sent(&mut self) {
        self.recent += 1;
    }

    /// Records that a request of a namespace has given its place up.
    pub(super) fn grew_old(&mut self, sent: u64, tenant: u64) {
        self.recent -= 1;
        self.old.insert(sent, tenant);
    }

    /// Removes a request that has been answered, or that is no longer awaited.
    pub(super) fn ended(&mut self, sent: u64) {
        if self.old.remove(&sent).is_none() {
            self.recent -= 1;
        }
    }

    /// Records that the server has carried a request out while that held its place.
    pub(super) fn was_quick(&mut self, sent: u64) {
        if sent > self.quick[0] {
            self.quick[0] = sent;
            self.quick.sort_unstable();
        }
    }

    /// Returns how many there are that say that the server is busy, up to [`UPSTREAM_WORKERS`] of those that have waited for
    /// long.
    pub(super) fn count(&self) -> usize {
        let mut counted = Vec::new();
        let not_overtaken = (Bound::Excluded(self.quick[0]), Bound::Unbounded);
        for tenant in self.old.range(not_overtaken).map(|(_, tenant)| *tenant) {
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
