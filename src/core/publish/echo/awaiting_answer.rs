//! The requests of one resource that await an answer, as far as they say how busy the API server is.

use crate::core::hash::IdMap;

/// The most requests of one namespace that count after they have given their places up. A webhook of the namespace may
/// hang, which says nothing of the server; if many namespaces have such requests, the server is busy.
const OF_NAMESPACE: usize = 2;

/// The requests of one resource that await an answer. Owned by [`super::Echoes`].
#[derive(Clone, Default, Debug)]
pub(super) struct AwaitingAnswer {
    /// The number of requests that hold a place.
    recent: usize,
    /// The number of requests that have given their place up, by namespace.
    old: IdMap<u64, usize>,
}

impl AwaitingAnswer {
    /// Counts a request that was sent.
    pub(super) fn sent(&mut self) {
        self.recent += 1;
    }

    /// Records that a request of a namespace has given its place up.
    pub(super) fn grew_old(&mut self, tenant: u64) {
        self.recent -= 1;
        *self.old.entry(tenant).or_default() += 1;
    }

    /// Removes a request that has been answered and still held its place.
    pub(super) fn answered(&mut self) {
        self.recent -= 1;
    }

    /// Removes a request of a namespace that has been answered and had given its place up.
    pub(super) fn answered_late(&mut self, tenant: u64) {
        if let Some(old) = self.old.get_mut(&tenant) {
            *old -= 1;
            if *old == 0 {
                self.old.remove(&tenant);
            }
        }
    }

    /// Returns how many there are, with only a few of each namespace that has had them for long.
    pub(super) fn count(&self) -> usize {
        let old = self.old.values().map(|old| (*old).min(OF_NAMESPACE));
        self.recent + old.sum::<usize>()
    }
}
