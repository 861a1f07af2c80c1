//! When does a change of a pod become visible to clients that watch slices, or Endpoints objects?
//!
//! Kept for each pod and *set*, that is, the slices of a Service and one of its families, or its Endpoints: what
//! the objects last said of the pod, and what they should say next. A change counts as seen when an event arrives
//! that shows it. The clock starts with the API server's answer to the change.
//!
//! A change is measured only when there can be no mistake about what was seen: when the state that it leads
//! to was neither the last one seen, nor one that an earlier change may yet bring. Others are counted apart,
//! and so are those that a later change overtook before they were seen.

use super::PodNumber;
use super::latencies::Latencies;
use super::marks::{Mark, Marks};
use super::reach::Reach;
use crate::oracle::Family;
use crate::report::model::{Latency, Reachable};
use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// For so long, an event may yet arrive that shows an earlier change. Long against any latency worth having.
const BLUR: Duration = Duration::from_secs(5);

/// A Service, by its position in the world, and one of its families. Its Endpoints are of its first.
pub(crate) type SetId = (usize, Family);

/// The state of a pod, as the objects of a set show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shown {
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
pub(crate) struct Change(u64);

/// Follows the changes. The watch of the objects in question holds it under its lock.
#[derive(Debug)]
pub(crate) struct Visibility {
    sets: HashMap<SetId, Set>,
    /// See [`Visibility::begin_late`].
    begins_late: bool,
    /// Changes without an answer, or not seen yet, by number: in which sets, and of which pod.
    next_change: u64,
    unanswered: HashMap<u64, (PodNumber, Vec<SetId>)>,
    measured: Measured,
    overtaken: u64,
    /// Where others learn of what became visible, and at which version what is told now does; none where they are not shown
    /// the object.
    marks: Option<Arc<Marks>>,
    version: Option<u64>,
}

/// Latencies of changes that were seen.
#[derive(Debug)]
struct Measured {
    all: Latencies,
    /// Latencies of changes after which a pod takes traffic.
    begun: Latencies,
    /// Latencies of changes after which it takes none.
    ended: Latencies,
}

#[derive(Debug, Default)]
struct Set {
    pods: HashMap<PodNumber, Seen>,
    /// The Service was edited: until then nothing is measured.
    blurred_until: Option<Instant>,
    reach: Reach,
}

#[derive(Debug, Default)]
struct Seen {
    shown: Shown,
    /// In how many slices the pod stands: for a moment, two, when it moves from one to another.
    slices: usize,
    awaited: Option<Awaited>,
    /// The states that overtaken changes led to, and until when an event may yet show one.
    possible: Vec<Shown>,
    blurred_until: Option<Instant>,
}

#[derive(Debug)]
struct Awaited {
    change: u64,
    shown: Shown,
    answered: Option<Instant>,
    seen: Option<Instant>,
    /// The version of the object that showed it, where others are shown it too.
    version: Option<u64>,
}

// === impl Shown ===

impl Shown {
    /// It takes traffic.
    pub(crate) const READY: Self = Self::Present {
        ready: true,
        serving: true,
        terminating: false,
    };
    /// It is there and takes none.
    pub(crate) const NOT_READY: Self = Self::Present {
        ready: false,
        serving: false,
        terminating: false,
    };

    fn takes_traffic(self) -> bool {
        matches!(self, Self::Present { ready: true, .. })
    }

    /// Whether this shows what is waited for. If the pod is to take no traffic, its absence is as good, since it may
    /// have gone before that was written; unless objects were there before, and it may stand in one of them.
    fn shows(self, wanted: Self, begins_late: bool) -> bool {
        self == wanted || (!begins_late && self == Self::Absent && !wanted.takes_traffic())
    }
}

// === impl Visibility ===

impl Visibility {
    pub(crate) fn new() -> Self {
        Self {
            sets: HashMap::new(),
            begins_late: false,
            next_change: 0,
            unanswered: HashMap::new(),
            measured: Measured::new(),
            overtaken: 0,
            marks: None,
            version: None,
        }
    }

    /// From now on, a pod that was not shown may be, or come to be, in an object all the same.
    pub(crate) fn begin_late(&mut self) {
        self.begins_late = true;
    }

    /// Tells others from now on which changes became visible.
    pub(crate) fn tell(&mut self, marks: Arc<Marks>) {
        self.marks = Some(marks);
    }

    /// An object arrived, of which [`Visibility::turns`] tells next. Others are shown it at this version, or not at all.
    pub(super) fn arrived(&mut self, version: Option<u64>) {
        self.version = version;
        if let (Some(marks), Some(version)) = (&self.marks, version) {
            marks.arrived(version);
        }
    }

    /// Announces a change of a pod that is about to be sent. An event may show it before the answer comes.
    pub(crate) fn announce(
        &mut self,
        pod: PodNumber,
        targets: impl Iterator<Item = (SetId, Shown)>,
        now: Instant,
    ) -> Change {
        let begins_late = self.begins_late;
        let change = self.next_change;
        self.next_change += 1;
        let mut sets = Vec::new();
        for (id, shown) in targets {
            let set = self.sets.entry(id).or_default();
            let blurred = is_future(set.blurred_until, now);
            set.reach.becomes(pod, shown.takes_traffic());
            let seen = set.pods.entry(pod).or_default();
            if !is_future(seen.blurred_until, now) {
                seen.possible.clear();
            }
            if let Some(overtaken) = seen.awaited.take() {
                self.overtaken += 1;
                seen.possible.push(overtaken.shown);
                seen.blurred_until = Some(now + BLUR);
            }
            let may_come = || {
                seen.possible
                    .iter()
                    .any(|possible| possible.shows(shown, begins_late))
            };
            if blurred || seen.shown.shows(shown, begins_late) || may_come() {
                self.overtaken += 1;
                seen.possible.push(shown);
                seen.blurred_until = Some(now + BLUR);
            } else {
                seen.awaited = Some(Awaited {
                    change,
                    shown,
                    answered: None,
                    seen: None,
                    version: None,
                });
                sets.push(id);
            }
        }
        self.unanswered.insert(change, (pod, sets));
        Change(change)
    }

    /// The API server answered: the change is made.
    pub(crate) fn answered(&mut self, change: &Change, now: Instant) {
        let (pod, sets) = self.unanswered.remove(&change.0).unwrap_or_default();
        for id in sets {
            let Some(seen) = self.sets.get_mut(&id).and_then(|set| set.pods.get_mut(&pod)) else {
                continue;
            };
            if let Some(awaited) = seen.awaited.as_mut().filter(|awaited| awaited.change == change.0) {
                awaited.answered = Some(now);
                self.measured.finish(self.marks.as_deref(), seen);
            }
        }
    }

    /// A Service is edited, after which its slices may show anything for a while.
    pub(crate) fn blur(&mut self, id: SetId, now: Instant) {
        let set = self.sets.entry(id).or_default();
        set.blurred_until = Some(now + BLUR);
        for seen in set.pods.values_mut() {
            self.overtaken += u64::from(seen.awaited.take().is_some());
        }
    }

    /// An object of the set shows the pod, where `new` says whether this object did not before.
    fn shows(&mut self, id: SetId, pod: PodNumber, shown: Shown, new: bool, now: Instant) {
        let seen = self.seen(id, pod);
        seen.slices += usize::from(new);
        seen.shown = shown;
        self.see(id, pod, now);
    }

    /// An object of the set no longer shows the pod.
    fn shows_no_more(&mut self, id: SetId, pod: PodNumber, now: Instant) {
        let seen = self.seen(id, pod);
        seen.slices = seen.slices.saturating_sub(1);
        if seen.slices == 0 {
            seen.shown = Shown::Absent;
            self.see(id, pod, now);
        }
    }

    /// Notes that the server refused a change, or that its result is unknown: it is not waited for.
    pub(crate) fn failed(&mut self, change: &Change, now: Instant) {
        let (pod, sets) = self.unanswered.remove(&change.0).unwrap_or_default();
        for id in sets {
            let Some(seen) = self.sets.get_mut(&id).and_then(|set| set.pods.get_mut(&pod)) else {
                continue;
            };
            if let Some(failed) = seen.awaited.take_if(|awaited| awaited.change == change.0) {
                seen.possible.push(failed.shown);
                seen.blurred_until = Some(now + BLUR);
            }
        }
    }

    /// Forgets what was measured so far, but nothing of what was shown.
    pub(crate) fn clear(&mut self) {
        self.measured.all.clear();
        self.measured.begun.clear();
        self.measured.ended.clear();
        self.overtaken = 0;
        for set in self.sets.values_mut() {
            set.reach.begin();
        }
    }

    /// An object of the set that showed the pods of one list now shows those of another; both in the order of
    /// their numbers.
    pub(crate) fn turns(
        &mut self,
        id: SetId,
        before: &[(PodNumber, Shown)],
        after: &[(PodNumber, Shown)],
        now: Instant,
    ) {
        let (mut before, mut after) = (before.iter().peekable(), after.iter().peekable());
        loop {
            match (before.peek(), after.peek()) {
                (None, None) => return,
                (Some((pod, was)), Some((same, is))) if pod == same => {
                    if was != is {
                        self.shows(id, *pod, *is, false, now);
                    }
                    before.next();
                    after.next();
                }
                (Some((pod, _)), next) if next.is_none_or(|(next, _)| pod < next) => {
                    self.shows_no_more(id, *pod, now);
                    before.next();
                }
                (_, Some((pod, is))) => {
                    self.shows(id, *pod, *is, true, now);
                    after.next();
                }
                (Some(_), None) => unreachable!("taken by the arm before the last"),
            }
        }
    }

    /// The figures so far.
    pub(crate) fn latency(&self) -> Latency {
        let awaited = self
            .sets
            .values()
            .flat_map(|set| set.pods.values())
            .filter(|seen| seen.awaited.is_some());
        Latency {
            never_seen: awaited.count() as u64,
            overtaken: self.overtaken,
            ..self.measured.all.report()
        }
    }

    /// As [`Visibility::latency`], of changes after which a pod takes traffic, and of those after which it takes none.
    pub(crate) fn latencies_apart(&self) -> [Latency; 2] {
        [self.measured.begun.report(), self.measured.ended.report()]
    }

    /// How many endpoints of a Service could be used before and at the worst moment, of the Service that lost the largest share.
    pub(crate) fn fewest_reachable(&self) -> Option<Reachable> {
        let sets = self.sets.values().map(|set| set.reach.measured());
        let had_some = sets.filter(|reachable| reachable.before > 0);
        had_some.min_by(|a, b| a.share().total_cmp(&b.share()))
    }

    /// Returns the latencies that were measured so far.
    pub(crate) fn latencies(&mut self) -> &mut Latencies {
        &mut self.measured.all
    }

    fn seen(&mut self, id: SetId, pod: PodNumber) -> &mut Seen {
        self.sets.entry(id).or_default().pods.entry(pod).or_default()
    }

    fn see(&mut self, id: SetId, pod: PodNumber, now: Instant) {
        let Some(set) = self.sets.get_mut(&id) else { return };
        let Some(seen) = set.pods.get_mut(&pod) else {
            return;
        };
        set.reach.shows(pod, seen.shown.takes_traffic());
        if let Some(awaited) = seen
            .awaited
            .as_mut()
            .filter(|awaited| seen.shown.shows(awaited.shown, self.begins_late))
        {
            if awaited.seen.is_none() {
                awaited.seen = Some(now);
                awaited.version = self.version;
            }
            self.measured.finish(self.marks.as_deref(), seen);
        }
        // A pod's number never comes back.
        if seen.shown == Shown::Absent && seen.awaited.is_none() {
            set.pods.remove(&pod);
        }
    }
}

// === impl Measured ===

impl Measured {
    fn new() -> Self {
        Self {
            all: Latencies::new(),
            begun: Latencies::new(),
            ended: Latencies::new(),
        }
    }

    /// Records a change that was both answered and seen.
    fn finish(&mut self, marks: Option<&Marks>, seen: &mut Seen) {
        if let Some(Awaited {
            answered: Some(answered),
            seen: Some(at),
            version,
            shown,
            ..
        }) = seen.awaited
        {
            // An event that overtakes the answer has no latency at all.
            let latency = at.saturating_duration_since(answered);
            self.all.record(latency);
            let apart = if shown.takes_traffic() {
                &mut self.begun
            } else {
                &mut self.ended
            };
            apart.record(latency);
            if let (Some(marks), Some(version)) = (marks, version) {
                marks.add(Mark { version, answered });
            }
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
    const POD: PodNumber = 5;
    const READY: Shown = Shown::READY;
    const UNREADY: Shown = Shown::NOT_READY;
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
        visibility.shows(SET, POD, READY, true, start);
        (visibility, start)
    }

    fn announce(visibility: &mut Visibility, shown: Shown, now: Instant) -> Change {
        visibility.announce(POD, [(SET, shown)].into_iter(), now)
    }

    #[test]
    fn a_change_is_seen_in_the_event_that_shows_it() {
        let (mut visibility, start) = visible();
        let change = announce(&mut visibility, UNREADY, start);
        visibility.answered(&change, start + at(1));
        visibility.shows(SET, POD, READY, false, start + at(3));
        assert_eq!(
            visibility.latency().never_seen,
            1,
            "another pod's change wrote the slice"
        );
        visibility.shows(SET, POD, UNREADY, false, start + at(11));
        let latency = visibility.latency();
        assert_eq!((latency.count, latency.overtaken, latency.never_seen), (1, 0, 0));
        assert!(latency.max.abs_diff(10_000) < 20, "{latency:?}");
    }

    #[test]
    fn an_event_before_the_answer_counts_as_no_latency() {
        let (mut visibility, start) = visible();
        let change = announce(&mut visibility, UNREADY, start);
        visibility.shows(SET, POD, UNREADY, false, start + at(1));
        assert_eq!(visibility.latency().count, 0);
        visibility.answered(&change, start + at(2));
        let latency = visibility.latency();
        assert_eq!((latency.count, latency.max, latency.never_seen), (1, 0, 0));
    }

    #[test]
    fn a_change_there_and_back_cannot_be_told_and_is_not_measured() {
        let (mut visibility, start) = visible();
        let there = announce(&mut visibility, UNREADY, start);
        visibility.answered(&there, start);
        let back = announce(&mut visibility, READY, start);
        visibility.answered(&back, start);
        visibility.shows(SET, POD, READY, false, start + at(1));
        let latency = visibility.latency();
        assert_eq!((latency.count, latency.overtaken, latency.never_seen), (0, 2, 0));

        // The first change may still show: the third leads to the same and must not be taken for it.
        let third = announce(&mut visibility, UNREADY, start + at(2));
        visibility.answered(&third, start + at(2));
        visibility.shows(SET, POD, UNREADY, false, start + at(3));
        assert_eq!(visibility.latency().count, 0);

        let later = start + BLUR + at(10);
        let fourth = announce(&mut visibility, READY, later);
        visibility.answered(&fourth, later);
        visibility.shows(SET, POD, READY, false, later + at(1));
        assert_eq!(visibility.latency().count, 1);
    }

    #[test]
    fn the_last_of_several_changes_is_measured_if_it_is_unlike_the_others() {
        let (mut visibility, start) = visible();
        let first = announce(&mut visibility, UNREADY, start);
        visibility.answered(&first, start);
        let second = announce(&mut visibility, LEAVING, start);
        visibility.answered(&second, start);
        visibility.shows(SET, POD, LEAVING, false, start + at(4));
        let latency = visibility.latency();
        assert_eq!((latency.count, latency.overtaken, latency.never_seen), (1, 1, 0));
    }

    #[test]
    fn a_pod_that_moves_between_slices_is_not_gone() {
        let (mut visibility, start) = visible();
        let change = announce(&mut visibility, Shown::Absent, start);
        visibility.answered(&change, start);
        visibility.shows(SET, POD, READY, true, start + at(1));
        visibility.shows_no_more(SET, POD, start + at(2));
        assert_eq!(visibility.latency().count, 0);
        visibility.shows_no_more(SET, POD, start + at(3));
        assert_eq!(visibility.latency().count, 1);
    }

    #[test]
    fn a_pod_that_is_gone_before_it_is_shown_as_leaving_takes_no_traffic_either() {
        let (mut visibility, start) = visible();
        let change = announce(&mut visibility, LEAVING, start);
        visibility.answered(&change, start);
        visibility.shows_no_more(SET, POD, start + at(7));
        let [begun, ended] = visibility.latencies_apart();
        assert_eq!((begun.count, ended.count), (0, 1));
        assert!(ended.max.abs_diff(7_000) < 20, "{ended:?}");
        let again = announce(&mut visibility, UNREADY, start + at(8));
        visibility.answered(&again, start + at(8));
        assert_eq!(visibility.latency().never_seen, 0, "it was not there any more");
    }

    #[test]
    fn nothing_is_measured_while_a_service_is_edited() {
        let (mut visibility, start) = visible();
        let change = announce(&mut visibility, UNREADY, start);
        visibility.answered(&change, start);
        visibility.blur(SET, start);
        visibility.shows(SET, POD, UNREADY, false, start + at(1));
        let change = announce(&mut visibility, READY, start + at(2));
        visibility.answered(&change, start + at(2));
        let latency = visibility.latency();
        assert_eq!((latency.count, latency.overtaken, latency.never_seen), (0, 2, 0));
    }
}
