//! Notices that wait for the writer of Events: latest wins, and shared out by namespace.
//!
//! A change of role takes effect here, so that the notices of a new term are never taken for those of the last one,
//! however late the writer hears of it.

use super::lru::SharedLru;
use super::{Key, Notice};
use crate::core::hash::KeyedSet;
use crate::core::leadership::role::{Role, RoleChange};

/// The most different notices that wait. They are taken as soon as their writer runs, so more of them come only while
/// it does not.
const LIMIT: usize = 4096;

/// Notices that have not been taken yet. If there are too many, the namespace with the most loses one: the new one if
/// it is its own. A process that may not write records none, because the leader records the same.
#[derive(Debug)]
pub struct NoticeInbox {
    writes: bool,
    role: Option<RoleChange>,
    waiting: SharedLru<Key, (u64, RepeatedNotice)>,
    /// The hashes of those that wait.
    hashes: KeyedSet<u64>,
    next: u64,
    dropped: u64,
}

/// A notice, and the number of times that it was given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RepeatedNotice {
    /// The notice as it was last given.
    pub notice: Notice,
    /// The number of times.
    pub times: u32,
}

/// The change of role and the notices that have come since the last time.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TakenNotices {
    /// The change of role, which came before all notices.
    pub role: Option<RoleChange>,
    /// The notices, in the order in which they first came.
    pub notices: Vec<RepeatedNotice>,
    /// The number of notices that were dropped because too many waited.
    pub dropped: u64,
}

impl Default for NoticeInbox {
    fn default() -> Self {
        Self {
            writes: true,
            role: None,
            waiting: SharedLru::new(LIMIT),
            hashes: KeyedSet::default(),
            next: 0,
            dropped: 0,
        }
    }
}

impl NoticeInbox {
    /// Changes the role of this process, which may write until the first call.
    pub fn change_role(&mut self, role: Role) {
        self.role = Some(RoleChange::new(role, self.role));
        self.writes = role.writes();
        if !self.writes {
            self.waiting = SharedLru::new(LIMIT);
            self.hashes = KeyedSet::default();
        }
    }

    /// Records a notice.
    pub fn record(&mut self, notice: Notice) {
        if !self.writes {
            return;
        }
        let namespace = &notice.involved.namespace;
        let hash = notice.hash();
        let is_full = self.waiting.is_full_of(namespace);
        // Before the texts are copied.
        if is_full && !self.hashes.contains(&hash) {
            self.dropped += 1;
            return;
        }
        let key = notice.key();
        if let Some((_, pending)) = self.waiting.get_mut(namespace, &key) {
            pending.times = pending.times.saturating_add(1);
            pending.notice = notice;
            return;
        }
        if is_full {
            self.dropped += 1;
            return;
        }
        self.hashes.insert(hash);
        self.next += 1;
        let order = self.next;
        let namespace = namespace.clone();
        let pending = || (order, RepeatedNotice { notice, times: 1 });
        let (_, gone) = self.waiting.use_or_insert(&namespace, &key, pending);
        if let Some((_, (_, pending))) = gone {
            self.hashes.remove(&pending.notice.hash());
            self.dropped += 1;
        }
    }

    /// Counts notices that were left out before they could be recorded.
    pub fn leave_out(&mut self, notices: u64) {
        if self.writes {
            self.dropped += notices;
        }
    }

    /// Takes everything that has come.
    pub fn take(&mut self) -> TakenNotices {
        let waiting = std::mem::replace(&mut self.waiting, SharedLru::new(LIMIT));
        self.hashes = KeyedSet::default();
        let mut notices: Vec<_> = waiting.into_values().collect();
        notices.sort_unstable_by_key(|(order, _)| *order);
        TakenNotices {
            role: self.role.take(),
            notices: notices.into_iter().map(|(_, pending)| pending).collect(),
            dropped: std::mem::take(&mut self.dropped),
        }
    }
}
