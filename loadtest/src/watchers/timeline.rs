//! When each proxy saw a change.
//!
//! A proxy notes which version it had reached when. The observer, which decodes whole slices, says at which version each change
//! became visible ([`Mark`]). Either may come first, and so both are kept until they are brought together. A change takes a
//! few bytes here for all proxies together, and a proxy's notes are given up after a few seconds.

use super::differences::{Differences, Echoes};
use crate::observe::latencies::Latencies;
use crate::observe::marks::Mark;
use crate::report::model::Latency;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// For so long, a change may yet be told that became visible at a version that a proxy has reached: the answer to the change
/// may come after the event that shows it.
const KEEP: Duration = Duration::from_secs(5);
/// For so long, what the observer has not received is kept too.
const KEEP_UNSEEN: Duration = Duration::from_secs(60);

/// The versions that a proxy has received.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    /// Versions, rising, with when the proxy reached them.
    reached: VecDeque<(u64, Instant)>,
    /// The last of those that were given up.
    given_up: Option<(u64, Instant)>,
    /// How many slices there are, as the proxy knows.
    pub(super) slices: u64,
    /// How many changes it was found to have seen.
    seen: usize,
}

/// The changes, and how long the proxies took to see them.
#[derive(Debug)]
pub(super) struct Matcher {
    marks: Vec<Mark>,
    latencies: Latencies,
    /// How many pairs of a change and a proxy were found.
    seen: u64,
    echo: Option<Echo>,
}

/// The changes as a watch such as endpointd's showed them. A proxy is compared with it, so each change waits until it is seen
/// there.
#[derive(Debug)]
struct Echo {
    /// When it showed the changes, in their order.
    at: Vec<Instant>,
    latencies: Latencies,
    differences: Differences,
}

// === impl Timeline ===

impl Timeline {
    /// Notes a version that has arrived. Versions of one moment are noted as the last of them.
    pub(super) fn reach(&mut self, version: u64, now: Instant) {
        match self.reached.back_mut() {
            Some((last, _)) if *last >= version => {}
            Some((last, at)) if *at == now => *last = version,
            _ => self.reached.push_back((version, now)),
        }
    }

    /// The last version that has arrived.
    pub(super) fn version(&self) -> u64 {
        let last = self.reached.back().or(self.given_up.as_ref());
        last.map_or(0, |(version, _)| *version)
    }

    /// When this version, or a newer one, arrived; none if it has not. If the version was given up, the time is an
    /// upper bound.
    fn arrival(&self, version: u64) -> Option<Instant> {
        if let Some((last, at)) = self.given_up
            && version <= last
        {
            return Some(at);
        }
        let at = self.reached.partition_point(|(reached, _)| *reached < version);
        self.reached.get(at).map(|(_, at)| *at)
    }

    /// Gives up what is no longer needed, where the observer has reached this version.
    fn give_up(&mut self, observed: u64, now: Instant) {
        while let Some((version, at)) = self.reached.front() {
            let age = now.saturating_duration_since(*at);
            if age < KEEP || (*version > observed && age < KEEP_UNSEEN) {
                return;
            }
            self.given_up = self.reached.pop_front();
        }
    }
}

// === impl Matcher ===

impl Matcher {
    /// `has_echo`: there is a watch such as endpointd's beside the proxies.
    pub(super) fn new(has_echo: bool) -> Self {
        Self {
            marks: Vec::new(),
            latencies: Latencies::new(),
            seen: 0,
            echo: has_echo.then(|| Echo {
                at: Vec::new(),
                latencies: Latencies::new(),
                differences: Differences::default(),
            }),
        }
    }

    /// Takes changes that became visible.
    pub(super) fn add(&mut self, marks: Vec<Mark>) {
        self.marks.extend(marks);
    }

    /// The newest version that a change became visible at.
    pub(super) fn newest(&self) -> u64 {
        self.marks
            .iter()
            .map(|mark| mark.version)
            .max()
            .unwrap_or_default()
    }

    /// Finds the changes that the watch such as endpointd's has shown since it was last looked at.
    pub(super) fn echo(&mut self, timeline: &mut Timeline, now: Instant) {
        let Some(echo) = &mut self.echo else { return };
        for mark in &self.marks[timeline.seen..] {
            let Some(at) = timeline.arrival(mark.version) else {
                break;
            };
            echo.latencies.record(at.saturating_duration_since(mark.answered));
            echo.at.push(at);
            timeline.seen += 1;
        }
        timeline.give_up(timeline.version(), now);
    }

    /// Finds the changes that a proxy has seen since it was last looked at.
    pub(super) fn look_at(&mut self, timeline: &mut Timeline, observed: u64, now: Instant) {
        let known = match &self.echo {
            Some(echo) => echo.at.len(),
            None => self.marks.len(),
        };
        for (index, mark) in self.marks[..known].iter().enumerate().skip(timeline.seen) {
            let Some(at) = timeline.arrival(mark.version) else {
                break;
            };
            if let Some(echo) = &mut self.echo {
                echo.differences.record(at, echo.at[index]);
            }
            // An event that overtakes the answer has no latency at all.
            self.latencies.record(at.saturating_duration_since(mark.answered));
            timeline.seen += 1;
            self.seen += 1;
        }
        timeline.give_up(observed, now);
    }

    /// The figures, where there are so many proxies.
    pub(super) fn latency(&self, proxies: usize) -> Latency {
        let all = self.marks.len() as u64 * proxies as u64;
        Latency {
            never_seen: all - self.seen,
            ..self.latencies.report()
        }
    }

    /// The delays of the watch such as endpointd's, and how the proxies differ from it.
    pub(super) fn echoes(&self) -> Option<Echoes> {
        let echo = self.echo.as_ref()?;
        Some(Echoes {
            latency: Latency {
                never_seen: (self.marks.len() - echo.at.len()) as u64,
                ..echo.latencies.report()
            },
            proxies_after: echo.differences.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: Instant, millis: u64) -> Instant {
        start + Duration::from_millis(millis)
    }

    fn mark(version: u64, answered: Instant) -> Mark {
        Mark { version, answered }
    }

    #[test]
    fn a_change_is_seen_with_its_version_or_a_newer_one_whoever_is_first() {
        let start = Instant::now();
        let mut matcher = Matcher::new(false);
        let [mut quick, mut slow] = [(); 2].map(|()| Timeline::default());
        // Before the observer has decoded it.
        quick.reach(10, at(start, 5));
        matcher.look_at(&mut quick, 0, at(start, 6));
        matcher.add(vec![mark(10, start), mark(12, at(start, 3))]);
        for timeline in [&mut quick, &mut slow] {
            matcher.look_at(timeline, 12, at(start, 8));
        }
        assert_eq!(matcher.latency(2).count, 1);
        assert_eq!(matcher.latency(2).never_seen, 3);
        // After it, and with a newer version.
        slow.reach(13, at(start, 43));
        quick.reach(12, at(start, 23));
        for timeline in [&mut quick, &mut slow] {
            matcher.look_at(timeline, 12, at(start, 50));
        }
        let latency = matcher.latency(2);
        assert_eq!((latency.count, latency.never_seen), (4, 0));
        assert!(latency.max.abs_diff(43_000) < 100, "{latency:?}");
        assert!(latency.p50.abs_diff(20_000) < 100, "{latency:?}");
    }

    #[test]
    fn an_event_that_overtakes_the_answer_has_no_latency() {
        let start = Instant::now();
        let (mut matcher, mut timeline) = (Matcher::new(false), Timeline::default());
        timeline.reach(10, at(start, 1));
        // Its answer came late, when a newer change had been told.
        matcher.add(vec![mark(11, at(start, 2)), mark(10, at(start, 3))]);
        matcher.look_at(&mut timeline, 11, at(start, 4));
        assert_eq!(matcher.latency(1).count, 0);
        timeline.reach(11, at(start, 7));
        matcher.look_at(&mut timeline, 11, at(start, 8));
        let latency = matcher.latency(1);
        assert_eq!((latency.count, latency.p50), (2, 0));
        assert!(latency.max.abs_diff(5_000) < 100, "{latency:?}");
    }

    #[test]
    fn proxies_are_compared_with_the_echo_once_that_is_there() {
        let start = Instant::now();
        let mut matcher = Matcher::new(true);
        let [mut echo, mut before, mut after] = [(); 3].map(|()| Timeline::default());
        before.reach(10, at(start, 5));
        matcher.add(vec![mark(10, start), mark(11, start)]);
        matcher.echo(&mut echo, at(start, 6));
        matcher.look_at(&mut before, echo.version(), at(start, 6));
        assert_eq!(matcher.latency(2).count, 0, "it waits for the echo");
        echo.reach(11, at(start, 15));
        matcher.echo(&mut echo, at(start, 16));
        after.reach(11, at(start, 45));
        for timeline in [&mut before, &mut after] {
            matcher.look_at(timeline, echo.version(), at(start, 46));
        }
        assert_eq!(matcher.latency(2).count, 3);
        let echoes = matcher.echoes().unwrap();
        assert_eq!((echoes.latency.count, echoes.latency.never_seen), (2, 0));
        assert!(echoes.latency.p50.abs_diff(15_000) < 100, "{echoes:?}");
        let quantiles = [0.0, 0.5, 1.0].map(|part| echoes.proxies_after.quantile(part).unwrap());
        assert_eq!(quantiles, [-10_000, 30_000, 30_000]);
    }

    #[test]
    fn notes_are_bounded() {
        let start = Instant::now();
        let (mut matcher, mut timeline) = (Matcher::new(false), Timeline::default());
        for version in 1..=1_000 {
            timeline.reach(version, at(start, version / 10));
        }
        assert_eq!(timeline.reached.len(), 101, "one of each moment");
        matcher.look_at(&mut timeline, 500, at(start, 6_000));
        assert!(timeline.reached.front().unwrap().0 > 500, "those are needed yet");
        matcher.look_at(&mut timeline, 1_000, at(start, 6_000));
        assert!(timeline.reached.is_empty());
        assert_eq!(timeline.version(), 1_000);
        // A change that is told after that arrived before its answer did.
        matcher.add(vec![mark(900, at(start, 5_999))]);
        matcher.look_at(&mut timeline, 1_000, at(start, 6_001));
        assert_eq!(matcher.latency(1).max, 0);
    }
}
