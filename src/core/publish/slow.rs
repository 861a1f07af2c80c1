//! The slow lane: namespaces whose writes hang or are refused, mostly because of a webhook.
//!
//! A namespace is slow from the moment one of its writes hangs, or is refused as by a server that has too much to do, until
//! one is answered promptly. It has one write in flight, as has one that was not written yet, which goes before; and all of them
//! share a part of the window. A write
//! hangs when it is out for much longer than answers usually take. Some of them leave their places to others, and all once a
//! write that was sent later is carried out: before that, it may be the API server that hangs. To find that out, one write a
//! second goes though the window is full. A write that is refused keeps its place in the lane for a second.

use super::tuning::TUNING;
use crate::core::deadlines::Deadlines;
use crate::core::hash::{Hashed, HashedSet};
use crate::core::object::ObjectKey;
use std::collections::VecDeque;
use std::time::Duration;

/// The writes that are out. Owned by the publisher; the queue knows which namespaces are slow.
#[derive(Clone, Default, Debug)]
pub(super) struct SlowLane {
    /// Writes that do not hang, by when they were sent.
    out: Deadlines<Hashed<ObjectKey>>,
    /// Those of namespaces that are slow, or not written yet, among them.
    slow: HashedSet<ObjectKey>,
    /// Writes that hang, by when they were sent.
    hanging: Deadlines<Hashed<ObjectKey>>,
    /// Those that hung when a write that was sent later was answered.
    overtaken: HashedSet<ObjectKey>,
    /// When the writes that the API server refused give their places in the lane back.
    refused: VecDeque<Duration>,
    /// Seconds that an answer usually takes.
    usual: f64,
    /// When a write was last granted.
    granted: Duration,
}

impl SlowLane {
    /// Records that a write is granted.
    pub(super) fn granted(&mut self, key: &Hashed<ObjectKey>, is_slow: bool, now: Duration) {
        self.granted = now;
        if is_slow {
            self.slow.insert(key.clone());
        }
    }

    /// Records that a write is sent. Before that, it waits for its shard.
    pub(super) fn sent(&mut self, key: &Hashed<ObjectKey>, now: Duration) {
        self.out.set(key.clone(), now);
    }

    /// Records that the write of an object was answered, and whether it was carried out. Returns whether the answer was prompt, no
    /// slower than those of writes that were sent later, and the writes that it has overtaken.
    pub(super) fn answered(
        &mut self,
        key: &Hashed<ObjectKey>,
        carried_out: bool,
        took: Duration,
    ) -> (bool, Vec<Hashed<ObjectKey>>) {
        let mut overtaken = Vec::new();
        let hung = self.hanging.get(key).is_some();
        let Some(sent) = self.forget(key) else {
            return (false, overtaken);
        };
        if carried_out {
            self.usual += (took.as_secs_f64() - self.usual) * TUNING.answer_weight;
            while let Some(key) = self.hanging.pop_due(sent) {
                self.overtaken.insert(key.clone());
                overtaken.push(key);
            }
        }
        (carried_out || !hung, overtaken)
    }

    /// Forgets a write. Returns when it was sent, if none that was sent later has been carried out.
    pub(super) fn forget(&mut self, key: &Hashed<ObjectKey>) -> Option<Duration> {
        self.slow.remove(key);
        self.overtaken.remove(key);
        self.hanging.remove(key).or(self.out.remove(key))
    }

    /// Records that the API server refused a write, because it has too much to do. It keeps its place in the lane for a while.
    pub(super) fn refused(&mut self, now: Duration) {
        self.refused.push_back(now + TUNING.place_kept);
    }

    /// Lets the time pass. Returns a write that has begun to hang; to be called again until there is none.
    pub(super) fn pass(&mut self, now: Duration) -> Option<Hashed<ObjectKey>> {
        while self.refused.front().is_some_and(|until| *until <= now) {
            self.refused.pop_front();
        }
        let hung = now.checked_sub(self.hangs_after())?;
        let sent = self.out.next()?;
        let key = self.out.pop_due(hung)?;
        self.slow.remove(&key);
        self.hanging.set(key.clone(), sent);
        Some(key)
    }

    /// Returns how many places slow namespaces hold, among them very many writes that hang.
    pub(super) fn held(&self) -> usize {
        let hung = self.overtaken.len() + self.hanging.len();
        self.slow.len() + self.refused.len() + hung.saturating_sub(TUNING.overtaken_most / 2)
    }

    /// Returns how many places of the window are taken while so many requests are in flight.
    pub(super) fn taken(&self, in_flight: usize) -> usize {
        let left =
            self.overtaken.len().min(TUNING.overtaken_most) + self.hanging.len().min(TUNING.hanging_most);
        in_flight.saturating_sub(left)
    }

    /// Returns when a write goes though the window is full, if requests hang.
    pub(super) fn probe(&self) -> Option<Duration> {
        (self.hanging.len() > 0).then_some(self.granted + TUNING.probe_every)
    }

    /// Returns when the next write begins to hang, or a refused one gives its place back.
    pub(super) fn next(&self) -> Option<Duration> {
        let hangs = self.out.next().map(|sent| sent + self.hangs_after());
        hangs.into_iter().chain(self.refused.front().copied()).min()
    }

    fn hangs_after(&self) -> Duration {
        Duration::from_secs_f64(self.usual * TUNING.hangs_after).clamp(TUNING.hangs_least, TUNING.probe_every)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::object::ObjectName;

    const fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn key(namespace: &str) -> Hashed<ObjectKey> {
        ObjectKey::hashed(namespace, ObjectName::slice("s".into()))
    }

    #[test]
    fn a_write_that_hangs_leaves_its_place_once_a_later_one_is_answered() {
        let mut lane = SlowLane::default();
        let (hangs, other) = (key("a"), key("b"));
        lane.granted(&hangs, false, at(1000));
        lane.sent(&hangs, at(1000));
        assert_eq!((lane.next(), lane.pass(at(1099))), (Some(at(1100)), None));
        assert_eq!(lane.pass(at(1100)), Some(hangs.clone()));
        assert_eq!(lane.pass(at(1100)), None);
        assert_eq!(lane.taken(1), 0);
        assert_eq!(lane.probe(), Some(at(2000)));
        lane.granted(&other, false, at(2000));
        lane.sent(&other, at(2000));
        assert_eq!(lane.answered(&other, true, at(9)), (true, vec![hangs.clone()]));
        assert_eq!((lane.taken(1), lane.probe()), (0, None));
        assert!(!lane.answered(&hangs, true, at(4000)).0);
    }

    #[test]
    fn a_write_that_the_server_refuses_keeps_its_place_for_a_second() {
        let mut lane = SlowLane::default();
        lane.granted(&key("a"), true, at(0));
        lane.sent(&key("a"), at(0));
        assert_eq!(lane.held(), 1);
        assert!(lane.answered(&key("a"), false, at(5)).0);
        lane.refused(at(5));
        assert_eq!((lane.held(), lane.next()), (1, Some(at(1005))));
        assert_eq!(lane.pass(at(1005)), None);
        assert_eq!((lane.held(), lane.next()), (0, None));
    }
}
