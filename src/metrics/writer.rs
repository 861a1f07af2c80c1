//! Metrics of the writer, and the times of objects that wait or are in flight.

use super::catalogue::{Mirrored, Published, Queue, Upstream, WorkQueues};
use crate::core::body::Request;
use crate::core::hash::{Hashed, HashedMap};
use crate::core::namespace::Outcome;
use crate::core::object::{ObjectKey, Output};
use crate::core::priority::Priority;
use crate::core::publish::throttling::Limit;
use crate::core::publish::{Publisher, Resource};
use std::time::Duration;

/// The index of reads in [`Published::requests`]; before it are the verbs.
const GET: usize = 3;

/// Metrics of the writer.
#[derive(Default, Debug)]
pub(crate) struct WriterMetrics {
    /// Metrics of the queue, of which the writer knows some alone.
    pub queue: Queue,
    published: Published,
    work: WorkQueues,
    upstream: Upstream,
    mirrored: Mirrored,
    /// When the oldest change of an object was noticed that is not in flight yet.
    noticed: HashedMap<ObjectKey, Duration>,
    /// The times of the objects in flight; the queue has their number. They are not in the publisher, because its states
    /// are enumerated by a test, and each moment would make another one.
    times_in_flight: HashedMap<ObjectKey, InFlight>,
    /// The limit that holds back writes, and up to when that time has been counted.
    held_back: Option<(Limit, Duration)>,
}

/// An object in flight.
#[derive(Debug)]
struct InFlight {
    since: Duration,
    /// When the oldest change that it carries was noticed.
    carries: Option<Duration>,
    /// Its index in [`Published::requests`], once it has been sent.
    verb: Option<usize>,
}

impl WriterMetrics {
    /// Updates the gauges for a scrape. In a dry run the drift tracker says what is out of sync, and on a standby the leader does:
    /// there the writer `observes` nothing but its queue.
    pub(crate) fn refresh(&mut self, publisher: &Publisher, observes: bool, now: Duration) {
        let queue = publisher.queue();
        if observes {
            self.queue.window.set(publisher.window() as f64);
            let (services, oldest) = queue.out_of_sync(now);
            self.published.out_of_sync.set(services as f64);
            self.published.oldest.set(oldest.as_secs_f64());
            for resource in Resource::ALL {
                let (limit, held) = publisher.places(resource);
                self.queue.without_echo[resource as usize].set(held as f64);
                self.queue.without_echo_limit[resource as usize].set(limit as f64);
            }
            self.queue.paused.set(queue.paused() as f64);
            self.queue.watchers.set(publisher.watchers());
            self.count_held_back(now);
        }
        for priority in Priority::ALL {
            let oldest = queue.oldest(priority, now);
            self.queue.oldest[priority as usize].set(oldest.as_secs_f64());
        }
        for output in Output::ALL {
            let waiting = queue.waiting_of(|key| key.object.output == output);
            let in_flight = self.times_in_flight.iter();
            let ages = in_flight
                .filter(|(key, _)| key.object.output == output)
                .map(|(_, times)| now.saturating_sub(times.since));
            let (sum, longest) = ages.fold((Duration::ZERO, Duration::ZERO), |(sum, longest), age| {
                (sum + age, longest.max(age))
            });
            self.work.depth[output as usize].set(waiting as f64);
            self.work.unfinished[output as usize].set(sum.as_secs_f64());
            self.work.longest[output as usize].set(longest.as_secs_f64());
        }
    }

    /// Records that an object is due, for a change that was noticed then; `again` after a failure.
    pub(crate) fn wanted(&mut self, key: &Hashed<ObjectKey>, again: bool, noticed: Duration) {
        let output = key.object.output as usize;
        self.work.adds[output].increment(1);
        self.work.retries[output].increment(u64::from(again));
        self.note(key, noticed);
    }

    fn note(&mut self, key: &Hashed<ObjectKey>, noticed: Duration) {
        if let Some(known) = self.noticed.get_mut(key) {
            *known = noticed.min(*known);
        } else {
            self.noticed.insert(key.clone(), noticed);
        }
    }

    /// Records which limit holds back a write from now on, if one does.
    pub(crate) fn held_back(&mut self, now: Duration, limit: Option<Limit>) {
        self.count_held_back(now);
        self.held_back = limit.map(|limit| (limit, now));
    }

    /// Counts the time in which writes have been held back.
    fn count_held_back(&mut self, now: Duration) {
        let Some((limit, counted)) = &mut self.held_back else {
            return;
        };
        let passed = now.saturating_sub(*counted).as_secs_f64();
        self.queue.held_back[*limit as usize].increment(passed);
        if limit.throttles() {
            self.queue.throttled.increment(passed);
        }
        *counted = now.max(*counted);
    }

    /// Records that an object was granted after this long.
    pub(crate) fn granted(
        &mut self,
        key: &Hashed<ObjectKey>,
        priority: Priority,
        age: Duration,
        now: Duration,
    ) {
        self.held_back(now, None);
        self.queue.age[priority as usize].record(age);
        self.work.waited[key.object.output as usize].record(age);
        let times = InFlight {
            since: now,
            carries: None,
            verb: None,
        };
        self.times_in_flight.insert(key.clone(), times);
    }

    /// Records that a request was sent with this many changes in it.
    pub(crate) fn sent(&mut self, key: &Hashed<ObjectKey>, request: &Request, changes: u32) {
        let at = match request {
            Request::Create(_) => 0,
            Request::Update(_) => 1,
            Request::Delete(_) => 2,
            Request::Fetch | Request::Probe => GET,
        };
        self.published.requests[at].increment(1);
        if at < GET {
            self.published.changes.record(f64::from(changes));
        }
        if let Some(times) = self.times_in_flight.get_mut(key) {
            times.verb = Some(at);
            // A read carries no changes: they go on waiting.
            if at < GET {
                times.carries = self.noticed.remove(key);
            }
        }
    }

    /// Records the end of a request: it was answered, or not awaited because the lease was lost. One that was not sent for
    /// that reason has no outcome.
    pub(crate) fn done(&mut self, key: &Hashed<ObjectKey>, outcome: &Outcome, took: Duration, now: Duration) {
        let Some(InFlight {
            since,
            carries,
            verb: Some(verb),
            ..
        }) = self.times_in_flight.remove(key)
        else {
            return;
        };
        let at = match outcome {
            Outcome::Written(_) | Outcome::Deleted(_) | Outcome::Fetched { .. } => 0,
            // The Service that a read looked for.
            Outcome::Exists if verb == GET => 0,
            Outcome::Conflict | Outcome::Exists | Outcome::Foreign { .. } => 1,
            Outcome::NotFound => 2,
            Outcome::Terminating | Outcome::Rejected | Outcome::TooLarge { .. } | Outcome::Throttled => 3,
            Outcome::Unknown => 4,
        };
        self.published.outcomes[at].increment(1);
        self.published.duration.record(took);
        let output = key.object.output;
        self.work.worked[output as usize].record(now.saturating_sub(since));
        match (at, carries) {
            // An object that should be deleted and does not exist counts as acknowledged.
            (0 | 2, Some(noticed)) => {
                self.published.acknowledged[output as usize].record(now.saturating_sub(noticed));
            }
            (_, Some(noticed)) => self.note(key, noticed),
            (_, None) => {}
        }
        match (output, outcome) {
            (Output::Slice, Outcome::Written(_) | Outcome::Deleted(_)) => {
                self.upstream.changes[verb].increment(1);
                self.upstream.changes_total[verb].increment(1);
            }
            (Output::Slice, _) if at == 1 => self.upstream.syncs[1].increment(1),
            (Output::Slice, _) if at > 2 => self.upstream.syncs[2].increment(1),
            (Output::Mirrored, Outcome::Written(_) | Outcome::Deleted(_)) => {
                self.mirrored.changes[verb].increment(1);
            }
            _ => {}
        }
    }

    /// Records that an object is not due any more.
    pub(crate) fn settled(&mut self, key: &Hashed<ObjectKey>) {
        self.noticed.remove(key);
    }

    /// Records that an object was granted, and was not due any more.
    pub(crate) fn nothing(&mut self, key: &Hashed<ObjectKey>) {
        self.times_in_flight.remove(key);
        self.noticed.remove(key);
    }

    /// Forgets everything that waits.
    pub(crate) fn cleared(&mut self, now: Duration) {
        self.noticed.clear();
        self.held_back(now, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::object::ObjectName;
    use metrics_exporter_prometheus::PrometheusBuilder;

    const NOW: Duration = Duration::ZERO;

    /// The outcomes that are counted, and syncs that failed, of requests that end so. Without a request, none was sent.
    fn counted(object: ObjectName, request: Option<&Request>, outcome: &Outcome) -> Vec<String> {
        let recorder = PrometheusBuilder::new().build_recorder();
        let mut metrics = metrics::with_local_recorder(&recorder, WriterMetrics::default);
        let key = ObjectKey::hashed("ns", object);
        metrics.granted(&key, Priority::Add, NOW, NOW);
        if let Some(request) = request {
            metrics.sent(&key, request, 1);
        }
        metrics.done(&key, outcome, NOW, NOW);
        let text = recorder.handle().render();
        let counted = text.lines().filter_map(|line| line.strip_suffix(" 1"));
        let of = [
            "endpointd_request_outcomes_total{",
            "endpoint_slice_controller_syncs{",
        ];
        let labels = counted.filter_map(|line| of.iter().find_map(|name| line.strip_prefix(name)));
        let mut labels: Vec<_> = labels.map(str::to_owned).collect();
        labels.sort_unstable();
        labels
    }

    #[test]
    fn a_probe_that_finds_the_service_of_leftover_endpoints_is_no_conflict() {
        let endpoints = || ObjectName::endpoints("e".into());
        for (request, outcome, expected) in [
            (Request::Probe, Outcome::Exists, "outcome=\"ok\"}"),
            (Request::Probe, Outcome::NotFound, "outcome=\"missing\"}"),
            (
                Request::Create(Vec::new()),
                Outcome::Exists,
                "outcome=\"conflict\"}",
            ),
        ] {
            assert_eq!(counted(endpoints(), Some(&request), &outcome), [expected]);
        }
    }

    #[test]
    fn a_request_that_was_not_sent_has_no_outcome() {
        let slice = || ObjectName::slice("s".into());
        let none: [&str; 0] = [];
        assert_eq!(counted(slice(), None, &Outcome::Throttled), none);
        let update = Request::Update(Vec::new());
        assert_eq!(
            counted(slice(), Some(&update), &Outcome::Throttled),
            ["outcome=\"refused\"}", "result=\"error\"}"]
        );
    }
}
