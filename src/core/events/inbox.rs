//! Notices on their way to the one who writes Events: latest wins, and shared out by namespace.

use super::lru::SharedLru;
use super::{Key, Notice};

/// So many different notices wait at most. They are taken as soon as their writer runs, so more of them come only while it
/// does not.
const LIMIT: usize = 4096;

/// Notices that nobody has taken yet. When there are too many, the namespace that has the most loses one: the new one if it
/// is its own.
#[derive(Debug)]
pub struct Inbox {
    waiting: SharedLru<Key, (u64, Pending)>,
    next: u64,
    dropped: u64,
}

/// A notice, and how often it was given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pending {
    /// As it was given last.
    pub notice: Notice,
    /// How often.
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
    /// Something has happened.
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

    /// What waits, in the order in which it came first, and how much found no place.
    pub fn take(&mut self) -> (Vec<Pending>, u64) {
        let waiting = std::mem::replace(&mut self.waiting, SharedLru::new(LIMIT));
        let mut notices: Vec<_> = waiting.into_values().collect();
        notices.sort_unstable_by_key(|(order, _)| *order);
        let dropped = std::mem::take(&mut self.dropped);
        (notices.into_iter().map(|(_, pending)| pending).collect(), dropped)
    }
}
