//! Metrics of the writer, and the times of objects that wait or are in flight.

use super::process::HELD_BACK;
use crate::core::body::Request;
use crate::core::hash::{Hashed, HashedMap};
use crate::core::namespace::Outcome;
use crate::core::object::{ObjectKey, Output};
use crate::core::priority::Priority;
use crate::core::publish::queue::ObjectQueue;
use crate::core::publish::throttling::Limit;
use crate::core::publish::{Publisher, Resource};
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use std::sync::atomic::Ordering;
use std::time::Duration;

const VERBS: [&str; 4] = ["create", "update", "delete", "get"];
/// The index of reads in [`VERBS`].
const GET: usize = 3;

/// Metrics of the writer.
#[derive(Debug)]
pub(crate) struct WriterMetrics {
    waiting: Gauge,
    in_flight: Gauge,
    window: Gauge,
    out_of_sync: Gauge,
    oldest: Gauge,
    oldest_in_lane: [Gauge; 3],
    age: [Histogram; 3],
    changes: Histogram,
    requests: [Counter; 4],
    outcomes: [Counter; 5],
    duration: Histogram,
    /// By output, in the order of [`Output::ALL`].
    acknowledged: [Histogram; 3],
    queues: [QueueMetrics; 3],
    /// Slices created, updated and deleted.
    written: [[Counter; 2]; 3],
    /// Slices that mirror Endpoints, created, updated and deleted.
    mirrored: [Counter; 3],
    stale: Counter,
    failed: Counter,
    /// When the oldest change of an object was noticed that is not in flight yet.
    noticed: HashedMap<ObjectKey, Duration>,
    /// The times of the objects in flight; the queue has their number. They are not in the publisher, because its states
    /// are enumerated by a test, and each moment would make another one.
    times_in_flight: HashedMap<ObjectKey, InFlight>,
    /// By output, in the order of [`Output::ALL`].
    echoes: [Histogram; 3],
    /// By resource, in the order of [`Resource::ALL`].
    without_echo: [Gauge; 2],
    without_echo_limit: [Gauge; 2],
    beyond: [Counter; 2],
    debtors: Gauge,
    watchers: Gauge,
    sent_to_watchers: Counter,
    /// The limit that holds back writes, and up to when that time has been counted.
    held_back: Option<HeldBack>,
}

/// Writes are ready that a limit holds back.
#[derive(Clone, Copy, Debug)]
struct HeldBack {
    limit: Limit,
    /// Up to when this has been counted.
    counted: Duration,
}

/// Metrics of a work queue, as client-go has them.
#[derive(Debug)]
struct QueueMetrics {
    depth: Gauge,
    adds: Counter,
    retries: Counter,
    unfinished: Gauge,
    longest: Gauge,
    waited: Histogram,
    worked: Histogram,
}

impl QueueMetrics {
    fn new(output: Output) -> Self {
        let name = match output {
            Output::Slice => "endpoint_slice",
            Output::Endpoints => "endpoint",
            Output::Mirrored => "endpoint_slice_mirroring",
        };
        Self {
            depth: gauge!("workqueue_depth", "name" => name),
            adds: counter!("workqueue_adds_total", "name" => name),
            retries: counter!("workqueue_retries_total", "name" => name),
            unfinished: gauge!("workqueue_unfinished_work_seconds", "name" => name),
            longest: gauge!("workqueue_longest_running_processor_seconds", "name" => name),
            waited: histogram!("workqueue_queue_duration_seconds", "name" => name),
            worked: histogram!("workqueue_work_duration_seconds", "name" => name),
        }
    }
}

/// An object in flight.
#[derive(Debug)]
struct InFlight {
    since: Duration,
    /// When the oldest change that it carries was noticed.
    carries: Option<Duration>,
    /// Its index in [`VERBS`], once it has been sent.
    verb: Option<usize>,
}

impl WriterMetrics {
    /// Registers the metrics.
    pub(crate) fn new() -> Self {
        let requests = |verb: &'static str| counter!("endpointd_requests_total", "verb" => verb);
        let outcomes =
            |outcome: &'static str| counter!("endpointd_request_outcomes_total", "outcome" => outcome);
        // Under its name up to 1.37, and the one that 1.38 gave it and keeps beside that.
        let written = |operation: &'static str| {
            [
                counter!("endpoint_slice_controller_changes", "operation" => operation),
                counter!("endpoint_slice_controller_changes_total", "operation" => operation),
            ]
        };
        let mirrored = |operation: &'static str| counter!("endpoint_slice_mirroring_controller_changes", "operation" => operation);
        let syncs = |result: &'static str| counter!("endpoint_slice_controller_syncs", "result" => result);
        Self {
            waiting: gauge!("endpointd_queue_waiting"),
            in_flight: gauge!("endpointd_requests_in_flight"),
            window: gauge!("endpointd_requests_in_flight_limit"),
            out_of_sync: gauge!("endpointd_services_out_of_sync"),
            oldest: gauge!("endpointd_services_out_of_sync_oldest_seconds"),
            oldest_in_lane: Priority::ALL
                .map(|priority| gauge!("endpointd_queue_oldest_seconds", "lane" => priority.as_str())),
            age: Priority::ALL
                .map(|priority| histogram!("endpointd_queue_age_seconds", "lane" => priority.as_str())),
            changes: histogram!("endpointd_changes_per_write"),
            requests: VERBS.map(requests),
            outcomes: ["ok", "conflict", "missing", "refused", "unknown"].map(outcomes),
            duration: histogram!("endpointd_request_duration_seconds"),
            acknowledged: Output::ALL.map(
                |output| histogram!("endpointd_change_to_acknowledged_seconds", "output" => output.as_str()),
            ),
            queues: Output::ALL.map(QueueMetrics::new),
            written: ["create", "update", "delete"].map(written),
            mirrored: ["create", "update", "delete"].map(mirrored),
            stale: syncs("stale"),
            failed: syncs("error"),
            noticed: HashedMap::default(),
            times_in_flight: HashedMap::default(),
            echoes: Output::ALL
                .map(|output| histogram!("endpointd_echo_seconds", "output" => output.as_str())),
            without_echo: Resource::ALL
                .map(|resource| gauge!("endpointd_writes_without_echo", "resource" => resource.as_str())),
            without_echo_limit: Resource::ALL.map(
                |resource| gauge!("endpointd_writes_without_echo_limit", "resource" => resource.as_str()),
            ),
            beyond: Resource::ALL.map(
                |resource| counter!("endpointd_writes_beyond_limit_total", "resource" => resource.as_str()),
            ),
            debtors: gauge!("endpointd_namespaces_over_watch_budget"),
            watchers: gauge!("endpointd_watchers"),
            sent_to_watchers: counter!("endpointd_sent_to_watchers_bytes_total"),
            held_back: None,
        }
    }

    /// Records how many objects wait and are in flight, in a process that writes.
    pub(crate) fn observe(&self, queue: &ObjectQueue) {
        self.waiting.set(queue.waiting() as f64);
        self.in_flight.set(queue.in_flight() as f64);
    }

    /// Records the limits, and what is out of sync, in a process that writes. Called for a scrape.
    pub(crate) fn observe_limits(&mut self, publisher: &Publisher, now: Duration) {
        let queue = publisher.queue();
        self.window.set(publisher.window() as f64);
        let (services, oldest) = queue.out_of_order(now);
        self.out_of_sync.set(services as f64);
        self.oldest.set(oldest.as_secs_f64());
        for resource in Resource::ALL {
            let (limit, held) = publisher.places(resource);
            self.without_echo[resource as usize].set(held as f64);
            self.without_echo_limit[resource as usize].set(limit as f64);
        }
        self.debtors.set(publisher.debtors() as f64);
        self.watchers.set(publisher.watchers());
        self.count_held_back(now);
    }

    /// Records that the event of a write came back so long after its answer.
    pub(crate) fn echoed(&self, output: Output, took: Duration) {
        self.echoes[output as usize].record(took);
    }

    /// Records the writes of each resource that went without a place for their events.
    pub(crate) fn gone_beyond(&self, writes: [u64; 2]) {
        for (counter, writes) in self.beyond.iter().zip(writes) {
            counter.increment(writes);
        }
    }

    /// Records the bytes that API servers send to watchers because of writes.
    pub(crate) fn sent_to_watchers(&self, bytes: u64) {
        self.sent_to_watchers.increment(bytes);
    }

    /// Updates the gauges that are more expensive to compute. Called for a scrape.
    pub(crate) fn refresh(&self, queue: &ObjectQueue, now: Duration) {
        for (gauge, priority) in self.oldest_in_lane.iter().zip(Priority::ALL) {
            gauge.set(queue.oldest(priority, now).as_secs_f64());
        }
        for (metrics, output) in self.queues.iter().zip(Output::ALL) {
            metrics
                .depth
                .set(queue.waiting_of(|key| key.object.output == output) as f64);
            let (mut sum, mut longest) = (Duration::ZERO, Duration::ZERO);
            for (key, times) in &self.times_in_flight {
                if key.object.output == output {
                    let age = now.saturating_sub(times.since);
                    (sum, longest) = (sum + age, longest.max(age));
                }
            }
            metrics.unfinished.set(sum.as_secs_f64());
            metrics.longest.set(longest.as_secs_f64());
        }
    }

    /// Records that an object is due, for a change that was noticed then; `again` after a failure.
    pub(crate) fn wanted(&mut self, key: &Hashed<ObjectKey>, again: bool, noticed: Duration) {
        let queue = &self.queues[key.object.output as usize];
        queue.adds.increment(1);
        queue.retries.increment(u64::from(again));
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
        self.held_back = limit.map(|limit| HeldBack { limit, counted: now });
    }

    /// Counts the time in which writes have been held back.
    fn count_held_back(&mut self, now: Duration) {
        let Some(held) = &mut self.held_back else { return };
        let passed = now.saturating_sub(held.counted);
        HELD_BACK[held.limit as usize].fetch_add(passed.as_nanos() as u64, Ordering::Relaxed);
        held.counted = now.max(held.counted);
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
        self.age[priority as usize].record(age);
        self.queues[key.object.output as usize].waited.record(age);
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
        self.requests[at].increment(1);
        if at < GET {
            self.changes.record(f64::from(changes));
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
        self.outcomes[at].increment(1);
        self.duration.record(took);
        let output = key.object.output;
        self.queues[output as usize]
            .worked
            .record(now.saturating_sub(since));
        match (at, carries) {
            // An object that should be deleted and does not exist counts as acknowledged.
            (0 | 2, Some(noticed)) => {
                self.acknowledged[output as usize].record(now.saturating_sub(noticed));
            }
            (_, Some(noticed)) => self.note(key, noticed),
            (_, None) => {}
        }
        if output == Output::Slice {
            match outcome {
                Outcome::Written(_) | Outcome::Deleted(_) => {
                    for counter in &self.written[verb] {
                        counter.increment(1);
                    }
                }
                _ if at == 1 => self.stale.increment(1),
                _ if at > 2 => self.failed.increment(1),
                _ => {}
            }
        }
        if let (Output::Mirrored, Outcome::Written(_) | Outcome::Deleted(_)) = (output, outcome) {
            self.mirrored[verb].increment(1);
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

impl Default for WriterMetrics {
    fn default() -> Self {
        Self::new()
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
        let mut metrics = metrics::with_local_recorder(&recorder, WriterMetrics::new);
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
