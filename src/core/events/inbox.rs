//! Notices that wait for the writer of Events: latest wins, and shared out by namespace.

use super::lru::SharedLru;
use super::{Key, Notice};

/// The most different notices that wait. They are taken as soon as their writer runs, so more of them come only while
/// it does not.
const LIMIT: usize = 4096;

/// Notices that have not been taken yet. If there are too many, the namespace with the most loses one: the new one if
/// it is its own.
#[derive(Debug)]
pub struct Inbox {
    waiting: SharedLru<Key, (u64, Pending)>,
    next: u64,
    dropped: u64,
}

/// A notice, and the number of times that it was given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pending {
    /// The notice as it was last given.
    pub notice: Notice,
    /// The number of times.
    pub times: u32,
}

impl Default for Inbox {
    fn default() -> Self {
        Self {
            waiting: SharedLru::new(LIMIT),
            next: 0,
            dropped: 0,
        }
    }
}

impl Inbox {
    /// Records a notice.
    pub fn record(&mut self, notice: Notice) {
        let key = notice.key();
        let namespace = &notice.involved.namespace;
        if let Some((_, pending)) = self.waiting.get_mut(namespace, &key) {
            pending.times = pending.times.saturating_add(1);
            pending.notice = notice;
            return;
        }
        if self.waiting.is_full_of(namespace) {
            self.dropped += 1;
            return;
        }
        self.next += 1;
        let order = self.next;
        let namespace = namespace.clone();
        let pending = || (order, Pending { notice, times: 1 });
        let (_, gone) = self.waiting.use_or_insert(&namespace, &key, pending);
        self.dropped += u64::from(gone.is_some());
    }

    /// Takes everything that waits, in the order in which it first came, and the number of notices that were dropped.
    pub fn take(&mut self) -> (Vec<Pending>, u64) {
        let waiting = std::mem::replace(&mut self.waiting, SharedLru::new(LIMIT));
        let mut notices: Vec<_> = waiting.into_values().collect();
        notices.sort_unstable_by_key(|(order, _)| *order);
        let dropped = std::mem::take(&mut self.dropped);
        (notices.into_iter().map(|(_, pending)| pending).collect(), dropped)
    }
}
