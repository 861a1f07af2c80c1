//! When does a change of a pod become visible to those who watch slices?
//!
//! Kept for each pod and *slice set*, that is, a Service and one of its families: what the slices last said
//! of the pod, and what they should say next. A change counts as seen when an event of a slice arrives that
//! shows it. The clock starts with the API server's answer to the change.
//!
//! A change is measured only when there can be no mistake about what was seen: when the state that it leads
//! to was neither the last one seen, nor one that an earlier change may yet bring. Others are counted apart,
//! and so are those that a later change overtook before they were seen.

use std::{collections::HashMap, mem, time::Duration};

use hdrhistogram::Histogram;
use tokio::time::Instant;

use crate::oracle::Family;

/// For so long, an event may yet arrive that shows an earlier change. Long against any latency worth having.
const BLUR: Duration = Duration::from_secs(5);

/// Latencies are kept to three digits, from microseconds to ten minutes.
const MAX_MICROS: u64 = 600_000_000;

/// A Service, by its position in the world, and one of its families.
pub(super) type SetId = (usize, Family);

/// What the slices of a set say of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Shown {
    /// It has no endpoint.
    #[default]
    Absent,
    /// It has one, with these conditions.
    Present {
        ready: bool,
        serving: bool,
        terminating: bool,
    },
}

/// A change that was announced, to be told when the API server answered.
#[derive(Debug)]
pub(super) struct Change(u64);

/// Follows the changes. Owned by the slice watch, which holds it under its lock.
#[derive(Debug)]
pub(super) struct Visibility {
    sets: HashMap<SetId, Set>,
    /// Changes without an answer, or not seen yet, by number: in which sets, and of which pod.
    next_change: u64,
    unanswered: HashMap<u64, (String, Vec<SetId>)>,
    latencies: Histogram<u64>,
    overtaken: u64,
}

/// The figures.
#[derive(Clone, Debug)]
pub(super) struct Latency {
    pub(super) measured: u64,
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    pub(super) max: Duration,
    /// Overtaken by a later change of the pod or of the Service.
    pub(super) overtaken: u64,
    /// Neither seen nor overtaken.
    pub(super) unseen: u64,
}

#[derive(Debug, Default)]
struct Set {
    pods: HashMap<String, Seen>,
    /// The Service was edited: until then nothing is measured.
    blurred_until: Option<Instant>,
}

#[derive(Debug, Default)]
struct Seen {
    shown: Shown,
    /// In how many slices the pod stands: for a moment, two, when it moves from one to another.
    slices: usize,
    awaited: Option<Awaited>,
    /// What overtaken changes led to, and until when an event may yet show it.
    possible: Vec<Shown>,
    blurred_until: Option<Instant>,
}

#[derive(Debug)]
struct Awaited {
    change: u64,
    shown: Shown,
    answered: Option<Instant>,
    seen: Option<Instant>,
}

// === impl Visibility ===

impl Visibility {
    pub(super) fn new() -> Self {
        Self {
            sets: HashMap::new(),
            next_change: 0,
            unanswered: HashMap::new(),
            latencies: Histogram::new_with_max(MAX_MICROS, 3).expect("the bounds are valid"),
            overtaken: 0,
        }
    }

    /// Announces a change of a pod that is about to be sent. An event may show it before the answer comes.
    pub(super) fn announce(
        &mut self,
        pod: &str,
        targets: impl Iterator<Item = (SetId, Shown)>,
        now: Instant,
    ) -> Change {
        let change = self.next_change;
        self.next_change += 1;
        let mut sets = Vec::new();
        for (id, shown) in targets {
            let set = self.sets.entry(id).or_default();
            let blurred = is_future(set.blurred_until, now);
            let seen = set.pods.entry(pod.to_owned()).or_default();
            if !is_future(seen.blurred_until, now) {
                seen.possible.clear();
            }
            if let Some(overtaken) = seen.awaited.take() {
                self.overtaken += 1;
                seen.possible.push(overtaken.shown);
                seen.blurred_until = Some(now + BLUR);
            }
            if blurred || seen.shown == shown || seen.possible.contains(&shown) {
                self.overtaken += 1;
                seen.possible.push(shown);
                seen.blurred_until = Some(now + BLUR);
            } else {
                seen.awaited = Some(Awaited {
                    change,
                    shown,
                    answered: None,
                    seen: None,
                });
                sets.push(id);
            }
        }
        self.unanswered.insert(change, (pod.to_owned(), sets));
        Change(change)
    }

    /// The API server answered: the change is made.
    pub(super) fn answered(&mut self, change: &Change, now: Instant) {
        let (pod, sets) = self.unanswered.remove(&change.0).unwrap_or_default();
        for id in sets {
            let Some(seen) = self.sets.get_mut(&id).and_then(|set| set.pods.get_mut(&pod)) else {
                continue;
            };
            if let Some(awaited) = seen.awaited.as_mut().filter(|awaited| awaited.change == change.0) {
                awaited.answered = Some(now);
                Self::finish(&mut self.latencies, seen);
            }
        }
    }

    /// A Service is edited, after which its slices may show anything for a while.
    pub(super) fn blur(&mut self, id: SetId, now: Instant) {
        let set = self.sets.entry(id).or_default();
        set.blurred_until = Some(now + BLUR);
        for seen in set.pods.values_mut() {
            self.overtaken += u64::from(seen.awaited.take().is_some());
        }
    }

    /// A slice of the set shows the pod, where `new` says whether this slice did not before.
    pub(super) fn shows(&mut self, id: SetId, pod: &str, shown: Shown, new: bool, now: Instant) {
        let seen = self.seen(id, pod);
        seen.slices += usize::from(new);
        seen.shown = shown;
        self.see(id, pod, now);
    }

    /// A slice of the set no longer shows the pod.
    pub(super) fn shows_no_more(&mut self, id: SetId, pod: &str, now: Instant) {
        let seen = self.seen(id, pod);
        seen.slices = seen.slices.saturating_sub(1);
        if seen.slices == 0 {
            seen.shown = Shown::Absent;
            self.see(id, pod, now);
        }
    }

    pub(super) fn latency(&self) -> Latency {
        let quantile = |quantile| Duration::from_micros(self.latencies.value_at_quantile(quantile));
        let awaited = self
            .sets
            .values()
            .flat_map(|set| set.pods.values())
            .filter(|seen| seen.awaited.is_some());
        Latency {
            measured: self.latencies.len(),
            p50: quantile(0.5),
            p99: quantile(0.99),
            max: Duration::from_micros(self.latencies.max()),
            overtaken: self.overtaken,
            unseen: awaited.count() as u64,
        }
    }

    /// The 99th percentile so far, once there is one.
    pub(super) fn p99(&self) -> Option<Duration> {
        (!self.latencies.is_empty()).then(|| Duration::from_micros(self.latencies.value_at_quantile(0.99)))
    }

    fn seen(&mut self, id: SetId, pod: &str) -> &mut Seen {
        let pods = &mut self.sets.entry(id).or_default().pods;
        if !pods.contains_key(pod) {
            pods.insert(pod.to_owned(), Seen::default());
        }
        pods.get_mut(pod).expect("it was just put there")
    }

    fn see(&mut self, id: SetId, pod: &str, now: Instant) {
        let Some(set) = self.sets.get_mut(&id) else { return };
        let Some(seen) = set.pods.get_mut(pod) else { return };
        if let Some(awaited) = seen
            .awaited
            .as_mut()
            .filter(|awaited| awaited.shown == seen.shown)
        {
            awaited.seen.get_or_insert(now);
            Self::finish(&mut self.latencies, seen);
        }
        // A pod's name never comes back.
        if seen.shown == Shown::Absent && seen.awaited.is_none() {
            set.pods.remove(pod);
        }
    }

    fn finish(latencies: &mut Histogram<u64>, seen: &mut Seen) {
        if let Some(Awaited {
            answered: Some(answered),
            seen: Some(at),
            ..
        }) = seen.awaited
        {
            // An event that overtakes the answer has no latency at all.
            let micros = at.saturating_duration_since(answered).as_micros() as u64;
            latencies.saturating_record(micros);
            seen.awaited = None;
            mem::take(&mut seen.possible);
        }
    }
}

fn is_future(time: Option<Instant>, now: Instant) -> bool {
    time.is_some_and(|time| time > now)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: SetId = (0, Family::V4);
    const READY: Shown = Shown::Present {
        ready: true,
        serving: true,
        terminating: false,
    };
    const UNREADY: Shown = Shown::Present {
        ready: false,
        serving: false,
        terminating: false,
    };
    const LEAVING: Shown = Shown::Present {
        ready: false,
        serving: true,
        terminating: true,
    };

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn visible() -> (Visibility, Instant) {
        let mut visibility = Visibility::new();
        let start = Instant::now();
        visibility.shows(SET, "p", READY, true, start);
        (visibility, start)
    }

    fn announce(visibility: &mut Visibility, shown: Shown, now: Instant) -> Change {
        visibility.announce("p", [(SET, shown)].into_iter(), now)
    }

    #[test]
    fn a_change_is_seen_in_the_event_that_shows_it() {
        let (mut visibility, start) = visible();
        let change = announce(&mut visibility, UNREADY, start);
        visibility.answered(&change, start + at(1));
        visibility.shows(SET, "p", READY, false, start + at(3));
        assert_eq!(
            visibility.latency().unseen,
            1,
            "another pod's change wrote the slice"
        );
        visibility.shows(SET, "p", UNREADY, false, start + at(11));
        let latency = visibility.latency();
        assert_eq!((latency.measured, latency.overtaken, latency.unseen), (1, 0, 0));
        assert!(
            latency.max.abs_diff(at(10)) < Duration::from_micros(20),
            "{latency:?}"
        );
    }

    #[test]
    fn an_event_before_the_answer_counts_as_no_latency() {
        let (mut visibility, start) = visible();
        let change = announce(&mut visibility, UNREADY, start);
        visibility.shows(SET, "p", UNREADY, false, start + at(1));
        assert_eq!(visibility.latency().measured, 0);
        visibility.answered(&change, start + at(2));
        let latency = visibility.latency();
        assert_eq!(
            (latency.measured, latency.max, latency.unseen),
            (1, Duration::ZERO, 0)
        );
    }

    #[test]
    fn a_change_there_and_back_cannot_be_told_and_is_not_measured() {
        let (mut visibility, start) = visible();
        let there = announce(&mut visibility, UNREADY, start);
        visibility.answered(&there, start);
        let back = announce(&mut visibility, READY, start);
        visibility.answered(&back, start);
        visibility.shows(SET, "p", READY, false, start + at(1));
        let latency = visibility.latency();
        assert_eq!((latency.measured, latency.overtaken, latency.unseen), (0, 2, 0));

        // The first change may still show: the third leads to the same and must not be taken for it.
        let third = announce(&mut visibility, UNREADY, start + at(2));
        visibility.answered(&third, start + at(2));
        visibility.shows(SET, "p", UNREADY, false, start + at(3));
        assert_eq!(visibility.latency().measured, 0);

        let later = start + BLUR + at(10);
        let fourth = announce(&mut visibility, READY, later);
        visibility.answered(&fourth, later);
        visibility.shows(SET, "p", READY, false, later + at(1));
        assert_eq!(visibility.latency().measured, 1);
    }

    #[test]
    fn the_last_of_several_changes_is_measured_if_it_is_unlike_the_others() {
        let (mut visibility, start) = visible();
        let first = announce(&mut visibility, UNREADY, start);
        visibility.answered(&first, start);
        let second = announce(&mut visibility, LEAVING, start);
        visibility.answered(&second, start);
        visibility.shows(SET, "p", LEAVING, false, start + at(4));
        let latency = visibility.latency();
        assert_eq!((latency.measured, latency.overtaken, latency.unseen), (1, 1, 0));
    }

    #[test]
    fn a_pod_that_moves_between_slices_is_not_gone() {
        let (mut visibility, start) = visible();
        let change = announce(&mut visibility, Shown::Absent, start);
        visibility.answered(&change, start);
        visibility.shows(SET, "p", READY, true, start + at(1));
        visibility.shows_no_more(SET, "p", start + at(2));
        assert_eq!(visibility.latency().measured, 0);
        visibility.shows_no_more(SET, "p", start + at(3));
        assert_eq!(visibility.latency().measured, 1);
    }

    #[test]
    fn nothing_is_measured_while_a_service_is_edited() {
        let (mut visibility, start) = visible();
        let change = announce(&mut visibility, UNREADY, start);
        visibility.answered(&change, start);
        visibility.blur(SET, start);
        visibility.shows(SET, "p", UNREADY, false, start + at(1));
        let change = announce(&mut visibility, READY, start + at(2));
        visibility.answered(&change, start + at(2));
        let latency = visibility.latency();
        assert_eq!((latency.measured, latency.overtaken, latency.unseen), (0, 2, 0));
    }
}
