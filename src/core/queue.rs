//! The order in which objects are written.

use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::hash::Hash;
use std::time::Duration;

/// How urgent a write is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Lane {
    /// An endpoint must stop receiving traffic.
    Remove,
    /// An endpoint can begin to.
    Add,
    /// Anything else: labels, repacking.
    Rest,
}

impl Lane {
    /// How long a write of this lane may be overtaken by more urgent ones. With that age it is as urgent as a
    /// removal that has just come, so no lane starves.
    pub fn patience(self) -> Duration {
        match self {
            Self::Remove => Duration::ZERO,
            Self::Add => Duration::from_secs(30),
            Self::Rest => Duration::from_secs(60),
        }
    }
}

/// What decides when an object's turn comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Urgency {
    /// How urgent the change is.
    pub lane: Lane,
    /// Whether others of its lane go first: Endpoints, which are written whole and which few still read, and so
    /// take more changes along while there is a queue.
    pub yields: bool,
}

impl Urgency {
    /// How long those that yield let others of their lane go first.
    const YIELD: Duration = Duration::from_secs(10);

    fn patience(self) -> Duration {
        self.lane.patience() + if self.yields { Self::YIELD } else { Duration::ZERO }
    }

    fn min(self, other: Self) -> Self {
        Self {
            lane: self.lane.min(other.lane),
            yields: self.yields && other.yields,
        }
    }
}

impl From<Lane> for Urgency {
    fn from(lane: Lane) -> Self {
        Self { lane, yields: false }
    }
}

/// Objects that are due, each at most once, and those on their way. Latest wins: to want an object again
/// changes its place, never its number. Owned by the writer.
#[derive(Debug)]
pub struct WriteQueue<K> {
    entries: FxHashMap<K, Entry>,
    /// By when they should have gone.
    ready: BTreeSet<(Duration, u64, K)>,
    /// By when they may go.
    delayed: BTreeSet<(Duration, u64, K)>,
    sequence: u64,
    in_flight: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    state: State,
    /// When it was first wanted since it last went.
    since: Duration,
    urgency: Urgency,
    sequence: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Ready { deadline: Duration },
    Delayed { until: Duration },
    Flying { again: Option<Duration> },
}

impl<K> Default for WriteQueue<K> {
    fn default() -> Self {
        Self {
            entries: FxHashMap::default(),
            ready: BTreeSet::new(),
            delayed: BTreeSet::new(),
            sequence: 0,
            in_flight: 0,
        }
    }
}

impl<K: Clone + Eq + Hash + Ord> WriteQueue<K> {
    /// An object is due, `delay` from now. Wanted again before it went, the more urgent lane, the earlier wish
    /// and the shorter delay count; wanted while it is on its way, it comes again after that.
    pub fn want(&mut self, key: K, urgency: impl Into<Urgency>, delay: Duration, now: Duration) {
        let urgency = urgency.into();
        let until = now + delay;
        let mut entry = match self.entries.get(&key) {
            None => {
                self.sequence += 1;
                let state = State::Delayed { until };
                Entry {
                    state,
                    since: now,
                    urgency,
                    sequence: self.sequence,
                }
            }
            Some(entry) => {
                let mut entry = *entry;
                match &mut entry.state {
                    State::Flying { again: again @ None } => {
                        *again = Some(until);
                        (entry.urgency, entry.since) = (urgency, now);
                    }
                    State::Flying { again: Some(again) } => {
                        *again = until.min(*again);
                        entry.urgency = entry.urgency.min(urgency);
                    }
                    State::Ready { .. } => {
                        self.unlink(&key, entry);
                        entry.urgency = entry.urgency.min(urgency);
                        entry.state = State::Delayed { until: now };
                    }
                    State::Delayed { until: before } => {
                        // Never later than it was: or an object that is wanted often enough would never go.
                        let until = until.min(*before);
                        self.unlink(&key, entry);
                        entry.urgency = entry.urgency.min(urgency);
                        entry.state = State::Delayed { until };
                    }
                }
                entry
            }
        };
        if !matches!(entry.state, State::Flying { .. }) {
            self.link(&key, &mut entry, now);
        }
        self.entries.insert(key, entry);
    }

    /// The object whose turn it is. It counts as on its way until [`Self::landed`].
    pub fn next(&mut self, now: Duration) -> Option<(K, Lane, Duration)> {
        while let Some((until, _, key)) = self.delayed.first() {
            if *until > now {
                break;
            }
            let key = key.clone();
            let mut entry = self.entries[&key];
            self.unlink(&key, entry);
            self.link(&key, &mut entry, now);
            self.entries.insert(key, entry);
        }
        let (_, _, key) = self.ready.pop_first()?;
        let entry = self.entries.get_mut(&key).expect("what is ready is in the queue");
        entry.state = State::Flying { again: None };
        self.in_flight += 1;
        Some((key, entry.urgency.lane, now.saturating_sub(entry.since)))
    }

    /// The request of an object that is on its way has been built: it holds all that was wanted until now.
    pub fn built(&mut self, key: &K) {
        if let Some(Entry {
            state: State::Flying { again },
            ..
        }) = self.entries.get_mut(key)
        {
            *again = None;
        }
    }

    /// An object is no longer on its way: answered, or there was nothing to send.
    pub fn landed(&mut self, key: &K, now: Duration) {
        let Some(mut entry) = self.entries.remove(key) else {
            return;
        };
        let State::Flying { again } = entry.state else {
            self.entries.insert(key.clone(), entry);
            return;
        };
        self.in_flight -= 1;
        if let Some(until) = again {
            self.sequence += 1;
            entry.sequence = self.sequence;
            entry.state = State::Delayed { until };
            self.link(key, &mut entry, now);
            self.entries.insert(key.clone(), entry);
        }
    }

    /// When the first of the delayed objects may go. `None` when none waits for time to pass.
    pub fn next_delayed(&self) -> Option<Duration> {
        self.delayed.first().map(|(until, ..)| *until)
    }

    /// How many objects are on their way.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// How many objects wait, delayed ones among them.
    pub fn waiting(&self) -> usize {
        self.ready.len() + self.delayed.len()
    }

    /// Whether nothing waits and nothing is on its way.
    pub fn is_idle(&self) -> bool {
        self.entries.is_empty()
    }

    fn link(&mut self, key: &K, entry: &mut Entry, now: Duration) {
        if let State::Delayed { until } = entry.state {
            if until > now {
                self.delayed.insert((until, entry.sequence, key.clone()));
                return;
            }
            entry.state = State::Ready {
                deadline: entry.since + entry.urgency.patience(),
            };
        }
        if let State::Ready { deadline } = entry.state {
            self.ready.insert((deadline, entry.sequence, key.clone()));
        }
    }

    fn unlink(&mut self, key: &K, entry: Entry) {
        match entry.state {
            State::Ready { deadline } => self.ready.remove(&(deadline, entry.sequence, key.clone())),
            State::Delayed { until } => self.delayed.remove(&(until, entry.sequence, key.clone())),
            State::Flying { .. } => false,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NOW: Duration = Duration::ZERO;

    fn drain(queue: &mut WriteQueue<&'static str>, now: Duration) -> Vec<&'static str> {
        std::iter::from_fn(|| queue.next(now).map(|(key, ..)| key)).collect()
    }

    #[test]
    fn urgent_lanes_go_first_and_the_oldest_of_a_lane() {
        let mut queue = WriteQueue::default();
        queue.want("labels", Lane::Rest, NOW, NOW);
        queue.want("add", Lane::Add, NOW, NOW);
        queue.want("late removal", Lane::Remove, NOW, SECOND);
        queue.want("removal", Lane::Remove, NOW, NOW);
        assert_eq!(
            drain(&mut queue, SECOND),
            ["removal", "late removal", "add", "labels"]
        );
    }

    #[test]
    fn those_that_yield_let_others_of_their_lane_go_first_for_a_while() {
        let mut queue = WriteQueue::default();
        let yielding = |lane| Urgency { lane, yields: true };
        queue.want("endpoints", yielding(Lane::Remove), NOW, NOW);
        queue.want("slice", Lane::Remove, NOW, SECOND);
        queue.want("addition", Lane::Add, NOW, NOW);
        queue.want("much later", Lane::Remove, NOW, 11 * SECOND);
        let order = drain(&mut queue, 11 * SECOND);
        assert_eq!(order, ["slice", "endpoints", "much later", "addition"]);
    }

    #[test]
    fn age_makes_urgent() {
        let mut queue = WriteQueue::default();
        queue.want("labels", Lane::Rest, NOW, NOW);
        let late = Lane::Rest.patience() + SECOND;
        queue.want("removal", Lane::Remove, NOW, late);
        assert_eq!(drain(&mut queue, late), ["labels", "removal"]);
    }

    #[test]
    fn wanting_twice_is_wanting_once_at_the_more_urgent_lane() {
        let mut queue = WriteQueue::default();
        queue.want("a", Lane::Rest, NOW, NOW);
        queue.want("b", Lane::Add, NOW, NOW);
        queue.want("a", Lane::Remove, NOW, SECOND);
        queue.want("a", Lane::Rest, NOW, SECOND);
        assert_eq!(queue.waiting(), 2);
        assert_eq!(drain(&mut queue, SECOND), ["a", "b"]);
    }

    #[test]
    fn one_on_its_way_and_again_after_it() {
        let mut queue = WriteQueue::default();
        queue.want("a", Lane::Add, NOW, NOW);
        assert_eq!(drain(&mut queue, NOW), ["a"]);
        queue.want("a", Lane::Add, NOW, NOW);
        queue.want("a", Lane::Add, NOW, NOW);
        assert_eq!((queue.next(NOW), queue.in_flight()), (None, 1));
        queue.landed(&"a", NOW);
        assert_eq!(drain(&mut queue, NOW), ["a"]);
        queue.landed(&"a", NOW);
        assert!(queue.is_idle());
    }

    #[test]
    fn wanting_often_does_not_put_off() {
        let mut queue = WriteQueue::default();
        for tenth in 0..20 {
            let now = SECOND * tenth / 10;
            queue.want("a", Lane::Add, SECOND, now);
            if let Some((key, ..)) = queue.next(now) {
                assert_eq!((key, now), ("a", SECOND), "as the first wish had it");
                return;
            }
        }
        panic!("it never went");
    }

    #[test]
    fn what_was_wanted_before_the_request_was_built_is_in_it() {
        let mut queue = WriteQueue::default();
        queue.want("a", Lane::Add, NOW, NOW);
        assert_eq!(drain(&mut queue, NOW), ["a"]);
        queue.want("a", Lane::Add, NOW, NOW);
        queue.built(&"a");
        queue.landed(&"a", NOW);
        assert!(queue.is_idle());
    }

    #[test]
    fn a_delay_is_kept_unless_wanted_without() {
        let mut queue = WriteQueue::default();
        queue.want("a", Lane::Add, SECOND, NOW);
        assert_eq!((queue.next(NOW), queue.next_delayed()), (None, Some(SECOND)));
        assert_eq!(drain(&mut queue, SECOND), ["a"]);
        queue.want("a", Lane::Add, SECOND, SECOND);
        queue.landed(&"a", SECOND);
        assert_eq!(
            (queue.next(SECOND), queue.next_delayed()),
            (None, Some(2 * SECOND))
        );
        queue.want("a", Lane::Add, NOW, SECOND);
        assert_eq!(drain(&mut queue, SECOND), ["a"]);
        queue.landed(&"a", SECOND);
        queue.landed(&"a", SECOND);
        assert_eq!((queue.in_flight(), queue.waiting()), (0, 0));
    }
}
