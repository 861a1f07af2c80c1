//! Handles of this process's metrics, registered once: no name is looked up where work is done. Until a
//! recorder is installed they cost nothing and count nothing.

use crate::actors::writer::ObjectKey;
use crate::core::body::Request;
use crate::core::events::EventOutcome;
use crate::core::lease::Reply;
use crate::core::namespace::{Kind, Outcome};
use crate::core::queue::{Lane, WriteQueue};
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use parking_lot::Mutex;
use std::fmt;
use std::time::Duration;
use tokio::time::interval;

/// Bounds of histograms of seconds: from a write on loopback to one that is given up.
const SECONDS: [f64; 15] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];
/// Bounds of the histogram of changes that one write carries.
const CHANGES: [f64; 10] = [1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0];

/// How often what was measured is sorted into buckets, if nobody asks.
const UPKEEP: Duration = Duration::from_secs(5);

/// What was counted, to be read by others.
#[derive(Clone)]
pub struct Exporter(PrometheusHandle);

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}

impl Exporter {
    /// Starts to count, the first time. What was registered before that does not count.
    ///
    /// # Errors
    ///
    /// When something else counts in this process.
    pub fn of_this_process() -> Result<Self, BuildError> {
        static OF_THIS_PROCESS: Mutex<Option<Exporter>> = Mutex::new(None);
        let mut known = OF_THIS_PROCESS.lock();
        if let Some(exporter) = &*known {
            return Ok(exporter.clone());
        }
        Ok(known.insert(Self::install()?).clone())
    }

    fn install() -> Result<Self, BuildError> {
        let builder = PrometheusBuilder::new()
            .set_buckets(&SECONDS)?
            .set_buckets_for_metric(Matcher::Full("endpointd_changes_per_write".to_owned()), &CHANGES)?;
        Ok(Self(builder.install_recorder()?))
    }

    /// The counts of this moment, in Prometheus' format.
    pub fn render(&self) -> String {
        self.0.render()
    }

    /// Keeps what is measured from piling up. Never ends.
    pub async fn keep_up(&self) {
        let mut ticks = interval(UPKEEP);
        loop {
            ticks.tick().await;
            self.0.run_upkeep();
        }
    }
}

/// What the writer counts.
pub struct WriterMetrics {
    waiting: Gauge,
    in_flight: Gauge,
    window: Gauge,
    out_of_sync: Gauge,
    oldest: Gauge,
    age: [Histogram; 3],
    changes: Histogram,
    requests: [Counter; 4],
    outcomes: [Counter; 5],
    duration: Histogram,
}

impl WriterMetrics {
    /// Registers them.
    pub fn new() -> Self {
        let requests = |verb: &'static str| counter!("endpointd_requests_total", "verb" => verb);
        let outcomes =
            |outcome: &'static str| counter!("endpointd_request_outcomes_total", "outcome" => outcome);
        Self {
            waiting: gauge!("endpointd_queue_waiting"),
            in_flight: gauge!("endpointd_requests_in_flight"),
            window: gauge!("endpointd_requests_in_flight_limit"),
            out_of_sync: gauge!("endpointd_services_out_of_sync"),
            oldest: gauge!("endpointd_services_out_of_sync_oldest_seconds"),
            age: Lane::ALL.map(|lane| histogram!("endpointd_queue_age_seconds", "lane" => lane.as_str())),
            changes: histogram!("endpointd_changes_per_write"),
            requests: ["create", "update", "delete", "get"].map(requests),
            outcomes: ["ok", "conflict", "missing", "refused", "unknown"].map(outcomes),
            duration: histogram!("endpointd_request_duration_seconds"),
        }
    }

    /// How much waits and how much is on its way, and how many requests may be.
    pub fn observe(&self, queue: &WriteQueue<ObjectKey>, window: usize, now: Duration) {
        self.waiting.set(queue.waiting() as f64);
        self.in_flight.set(queue.in_flight() as f64);
        self.window.set(window as f64);
        let (services, oldest) = queue.out_of_order(now);
        self.out_of_sync.set(services as f64);
        self.oldest.set(oldest.as_secs_f64());
    }

    /// An object's turn has come after this long.
    pub fn granted(&self, lane: Lane, age: Duration) {
        self.age[lane as usize].record(age);
    }

    /// A request leaves with this many changes in it.
    pub fn sent(&self, request: &Request, changes: u32) {
        let at = match request {
            Request::Create(_) => 0,
            Request::Update(_) => 1,
            Request::Delete(_) => 2,
            Request::Fetch | Request::Probe => 3,
        };
        self.requests[at].increment(1);
        if at < 3 {
            self.changes.record(f64::from(changes));
        }
    }

    /// A request was answered.
    pub fn done(&self, outcome: &Outcome, took: Duration) {
        let at = match outcome {
            Outcome::Written(_) | Outcome::Deleted | Outcome::Fetched(_) => 0,
            Outcome::Conflict | Outcome::Exists | Outcome::Foreign => 1,
            Outcome::NotFound => 2,
            Outcome::Terminating | Outcome::Rejected | Outcome::Refused => 3,
            Outcome::Unknown => 4,
        };
        self.outcomes[at].increment(1);
        self.duration.record(took);
    }
}

impl Default for WriterMetrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for WriterMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriterMetrics").finish_non_exhaustive()
    }
}

/// What the election counts.
pub struct LeaseMetrics {
    leads: Gauge,
    terms: Counter,
    requests: [Counter; 3],
}

impl LeaseMetrics {
    /// Registers them for a Lease, under client-go's names where it has them.
    pub fn new(name: &str) -> Self {
        let requests =
            |outcome: &'static str| counter!("endpointd_lease_requests_total", "outcome" => outcome);
        let metrics = Self {
            leads: gauge!("leader_election_master_status", "name" => name.to_owned()),
            terms: counter!("endpointd_leader_terms_total"),
            requests: ["ok", "conflict", "unknown"].map(requests),
        };
        metrics.leads.set(0.0);
        metrics
    }

    /// Whether this process leads now.
    pub fn leads(&self, leads: bool) {
        self.leads.set(f64::from(u8::from(leads)));
        self.terms.increment(u64::from(leads));
    }

    /// A request for the Lease was answered, or was not.
    pub fn answered(&self, reply: &Reply) {
        let at = match reply {
            Reply::Record(..) | Reply::Missing => 0,
            Reply::Conflict => 1,
            Reply::Failed => 2,
        };
        self.requests[at].increment(1);
    }
}

impl fmt::Debug for LeaseMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseMetrics").finish_non_exhaustive()
    }
}

/// What one kind's list and watch count.
pub struct WatchMetrics {
    /// Objects listed.
    pub listed: Counter,
    /// Events watched.
    pub watched: Counter,
    /// Objects that could not be decoded.
    pub undecodable: Counter,
    /// Lists begun.
    pub lists: Counter,
    /// Watches begun.
    pub watches: Counter,
}

impl WatchMetrics {
    /// Registers them for a kind.
    pub fn new(kind: Kind) -> Self {
        let kind = kind.as_str();
        Self {
            listed: counter!("endpointd_listed_objects_total", "resource" => kind),
            watched: counter!("endpointd_watch_events_total", "resource" => kind),
            undecodable: counter!("endpointd_decode_failures_total", "resource" => kind),
            lists: counter!("endpointd_lists_total", "resource" => kind),
            watches: counter!("endpointd_watches_total", "resource" => kind),
        }
    }
}

impl fmt::Debug for WatchMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchMetrics").finish_non_exhaustive()
    }
}

/// What the writer of Events counts.
pub struct EventMetrics {
    waiting: Gauge,
    outcomes: [Counter; 3],
    dropped: Counter,
}

impl EventMetrics {
    /// Registers them.
    pub fn new() -> Self {
        let outcomes =
            |outcome: &'static str| counter!("endpointd_event_requests_total", "outcome" => outcome);
        Self {
            waiting: gauge!("endpointd_events_waiting"),
            outcomes: ["ok", "refused", "unknown"].map(outcomes),
            dropped: counter!("endpointd_events_dropped_total"),
        }
    }

    /// How many Events are to be written.
    pub fn observe(&self, waiting: usize) {
        self.waiting.set(waiting as f64);
    }

    /// A request was answered, or was not.
    pub fn done(&self, outcome: EventOutcome) {
        let at = match outcome {
            EventOutcome::Written => 0,
            EventOutcome::Exists | EventOutcome::NotFound | EventOutcome::Refused => 1,
            EventOutcome::Failed { .. } => 2,
        };
        self.outcomes[at].increment(1);
    }

    /// So many Events will not be written, unless they happen again.
    pub fn dropped(&self, events: u64) {
        self.dropped.increment(events);
    }
}

impl Default for EventMetrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for EventMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventMetrics").finish_non_exhaustive()
    }
}
