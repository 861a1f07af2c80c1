//! A controller's own metrics while a run is measured.

use crate::api::{self, Http};
use crate::parse::series;
use crate::report::model::{ByVerb, FanOut, QueueSample, Throttling, ThrottlingSample};
use http::Uri;
use std::ffi::OsString;
use std::net::TcpListener;
use std::time::Duration;
use tokio::time::Instant;

/// Each reading costs the controller as much as one write or two.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);
/// The metric that says how much waits in endpointd, which serves those of the other list too.
const QUEUE: &str = "endpointd_queue_waiting";
/// Metrics whose values, summed up, say how much waits in kube-controller-manager.
const QUEUES: [&str; 2] = [
    "workqueue_depth{name=\"endpoint\"}",
    "workqueue_depth{name=\"endpoint_slice\"}",
];
/// Seconds in which endpointd held back writes. Upstream has no such metric: its client counts the waits of all requests
/// that wait at the same time, so its sum is no share of any time.
const THROTTLED: &str = "endpointd_throttled_seconds_total";
/// The same, by limit.
const HELD_BACK: &str = "endpointd_held_back_seconds_total";
/// Seconds from the answers to writes of slices until endpointd's own watch showed them.
const ECHOES: &str = "endpointd_echo_seconds_bucket{output=\"endpointslice\",le=\"";
/// Requests that changed slices, by operation, as kube-controller-manager and endpointd count them.
const SLICE_CHANGES: &str = "endpoint_slice_controller_changes";
/// The same from Kubernetes 1.38 on, which deprecates the other name.
const SLICE_CHANGES_TOTAL: &str = "endpoint_slice_controller_changes_total";
/// Requests of endpointd for slices and Endpoints, by verb. Upstream counts those of all its controllers together.
const REQUESTS: &str = "endpointd_requests_total";
/// Below the ports that systems give to outgoing connections, so that none of these takes it while a controller is
/// started again.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
/// How many ports are tried before the run goes on without metrics.
const TRIES: u32 = 50;
/// Flags of a controller that say where it serves its metrics, or how.
const OF_ADMIN: [&str; 4] = ["--admin-port", "--secure-port", "--bind-address", "--tls-"];

/// The values on one page of metrics.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reading {
    waiting: Option<f64>,
    throttled: Option<f64>,
    slice_requests: Option<ByVerb>,
    requests: Option<ByVerb>,
    fan_out: Option<FanOutReading>,
}

/// The counters of what endpointd does for the sake of clients that watch.
#[derive(Clone, Debug, PartialEq)]
struct FanOutReading {
    by_echoes: f64,
    by_watchers: f64,
    /// The buckets of echoes: how many took no longer than so many seconds.
    echoes: Vec<(f64, f64)>,
}

/// The readings of a run.
#[derive(Debug)]
pub(super) struct Readings {
    start: Instant,
    queue: Vec<QueueSample>,
    /// The counter at the last reading, and when that was.
    last: Option<(f64, Instant)>,
    seconds: f64,
    throttled: Vec<ThrottlingSample>,
    /// The first reading, whose counts are left out, and the last one.
    ends: Option<(Reading, Reading)>,
}

/// Reads a page of metrics; none if it cannot be read.
pub(super) async fn read(url: &Uri) -> Option<Reading> {
    let mut origin = url.clone().into_parts();
    let path = origin.path_and_query.replace("/".parse().ok()?)?;
    let origin = Uri::from_parts(origin).ok()?;
    let http = Http::new(api::client(&origin.to_string()).ok()?);
    Some(Reading::of(&http.text(path.as_str()).await.ok()?))
}

/// A URL for the metrics of a controller that is started with these flags; none if they say where it serves its metrics,
/// which is then the user's business.
pub(super) fn free_url(flags: &[OsString]) -> Option<Uri> {
    let is_decided = flags.iter().any(|flag| {
        let flag = flag.to_string_lossy();
        OF_ADMIN.iter().any(|prefix| flag.starts_with(prefix))
    });
    if is_decided {
        return None;
    }
    let mut rng = fastrand::Rng::new();
    let port = (0..TRIES)
        .map(|_| rng.u16(PORTS))
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())?;
    format!("http://127.0.0.1:{port}/metrics").parse().ok()
}

/// The values of a counter that has a verb as its only label; none if it is not there.
fn requests(metrics: &str, name: &str, label: &str) -> Option<ByVerb> {
    let of = |verb: &str| {
        let value = series(metrics, &format!("{name}{{{label}=\"{verb}\"}}"))?;
        Some(value as u64)
    };
    let verbs = ["create", "update", "delete", "get"].map(of);
    verbs.iter().any(Option::is_some).then(|| {
        let [create, update, delete, get] = verbs.map(Option::unwrap_or_default);
        ByVerb {
            create,
            update,
            delete,
            get,
        }
    })
}

/// How many more there are than before. The counters of a process that was started since begin at nought.
fn since(now: Option<ByVerb>, before: Option<ByVerb>) -> Option<ByVerb> {
    let (now, before) = (now?, before.unwrap_or_default());
    let more = |count: fn(&ByVerb) -> u64| {
        let (now, before) = (count(&now), count(&before));
        now.checked_sub(before).unwrap_or(now)
    };
    Some(ByVerb {
        create: more(|requests| requests.create),
        update: more(|requests| requests.update),
        delete: more(|requests| requests.delete),
        get: more(|requests| requests.get),
    })
}

/// How much higher a counter is than before. That of a process that was started since began at nought.
fn more(now: f64, before: f64) -> f64 {
    if now < before { now } else { now - before }
}

/// Returns the bound of the bucket with that part of all that was counted since, or the highest bound that is one.
fn quantile(now: &[(f64, f64)], before: &[(f64, f64)], part: f64) -> Option<f64> {
    let count = |(bound, count): &(f64, f64)| {
        let earlier = before.iter().find(|(other, _)| other.total_cmp(bound).is_eq());
        (*bound, more(*count, earlier.map_or(0.0, |(_, count)| *count)))
    };
    let counts: Vec<_> = now.iter().map(count).collect();
    let (_, all) = *counts.last()?;
    let highest = counts.iter().rev().find(|(bound, _)| bound.is_finite());
    let bound = counts.iter().find(|(_, count)| *count >= all * part)?.0;
    (all > 0.0).then(|| highest.map_or(bound, |(highest, _)| bound.min(*highest)))
}

// === impl FanOutReading ===

impl FanOutReading {
    fn of(metrics: &str) -> Option<Self> {
        let held_back = |limit: &str| series(metrics, &format!("{HELD_BACK}{{limit=\"{limit}\"}}"));
        let buckets = metrics.lines().filter_map(|line| {
            let (bound, count) = line.strip_prefix(ECHOES)?.split_once("\"} ")?;
            Some((bound.parse().ok()?, count.parse().ok()?))
        });
        Some(Self {
            by_echoes: held_back("echoes")?,
            by_watchers: held_back("watchers")?,
            echoes: buckets.collect(),
        })
    }

    fn since(&self, before: Option<&Self>) -> FanOut {
        let counter = |of: fn(&Self) -> f64| more(of(self), before.map_or(0.0, of));
        let before = before.map_or(&[][..], |before| &before.echoes);
        FanOut {
            held_back_by_echoes: counter(|reading| reading.by_echoes),
            held_back_by_watchers: counter(|reading| reading.by_watchers),
            echo_p50: quantile(&self.echoes, before, 0.5),
            echo_p99: quantile(&self.echoes, before, 0.99),
        }
    }
}

// === impl Reading ===

impl Reading {
    fn of(metrics: &str) -> Self {
        let of_upstream = || {
            let values = QUEUES.iter().filter_map(|name| series(metrics, name));
            values.reduce(|a, b| a + b)
        };
        Self {
            waiting: series(metrics, QUEUE).or_else(of_upstream),
            throttled: series(metrics, THROTTLED),
            slice_requests: requests(metrics, SLICE_CHANGES, "operation")
                .or_else(|| requests(metrics, SLICE_CHANGES_TOTAL, "operation")),
            requests: requests(metrics, REQUESTS, "verb"),
            fan_out: FanOutReading::of(metrics),
        }
    }
}

// === impl Readings ===

impl Readings {
    /// Begins the readings of a run; what was counted before, as in this reading, is left out.
    pub(super) fn begin(start: Instant, before: Option<Reading>) -> Self {
        Self {
            start,
            queue: Vec::new(),
            last: before
                .as_ref()
                .and_then(|reading| Some((reading.throttled?, start))),
            seconds: 0.0,
            throttled: Vec::new(),
            ends: before.map(|before| (before.clone(), before)),
        }
    }

    pub(super) fn add(&mut self, reading: Reading, now: Instant) {
        let at = now.saturating_duration_since(self.start).as_secs_f64();
        if let Some(depth) = reading.waiting {
            self.queue.push(QueueSample { at, depth });
        }
        let throttled = reading.throttled;
        if let Some((_, last)) = &mut self.ends {
            *last = reading;
        }
        let Some(count) = throttled else { return };
        if let Some((before, when)) = self.last {
            let more = more(count, before);
            let passed = now.saturating_duration_since(when).as_secs_f64();
            self.seconds += more;
            if passed > 0.0 {
                let share = (more / passed).min(1.0);
                self.throttled.push(ThrottlingSample { at, share });
            }
        }
        self.last = Some((count, now));
    }

    /// The controller's requests for slices, and those for slices and Endpoints.
    pub(super) fn requests(&self) -> [Option<ByVerb>; 2] {
        let Some((before, last)) = &self.ends else {
            return [None; 2];
        };
        [
            since(last.slice_requests, before.slice_requests),
            since(last.requests, before.requests),
        ]
    }

    /// What endpointd did for the sake of clients that watch; none if that was never read.
    pub(super) fn fan_out(&self) -> Option<FanOut> {
        let (before, last) = self.ends.as_ref()?;
        Some(last.fan_out.as_ref()?.since(before.fan_out.as_ref()))
    }

    /// The controller's queue over the run.
    pub(super) fn queue(&mut self) -> Vec<QueueSample> {
        std::mem::take(&mut self.queue)
    }

    /// How long writes were held back; none if that was never read.
    pub(super) fn throttling(&mut self) -> Option<Throttling> {
        let (_, until) = self.last?;
        let passed = until.saturating_duration_since(self.start).as_secs_f64();
        (passed > 0.0).then(|| Throttling {
            seconds: self.seconds,
            share: (self.seconds / passed).min(1.0),
            over_time: std::mem::take(&mut self.throttled),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_summed_up_and_others_left_out() {
        let page = "# TYPE workqueue_depth gauge\nworkqueue_depth{name=\"endpoint\"} 3\n\
                    workqueue_depth{name=\"endpoint_slice\"} 4\nworkqueue_depth{name=\"other\"} 9\n";
        let waiting = |page: &str| Reading::of(page).waiting;
        assert_eq!(waiting(page), Some(7.0));
        assert_eq!(waiting("endpointd_queue_waiting 0\n"), Some(0.0));
        let both = format!("{page}\nendpointd_queue_waiting 3\n");
        assert_eq!(waiting(&both), Some(3.0), "the same objects are counted once");
        assert_eq!(waiting("up 1\n"), None);
        assert_eq!(
            Reading::of("endpointd_throttled_seconds_total 1.5\n").throttled,
            Some(1.5)
        );
    }

    #[test]
    fn requests_count_from_the_start_by_verb() {
        let page = |create, update| {
            Reading::of(&format!(
                "endpointd_requests_total{{verb=\"create\"}} {create}\nendpointd_requests_total{{verb=\"update\"}} {update}\n"
            ))
        };
        let start = Instant::now();
        let mut readings = Readings::begin(start, Some(page(5, 7)));
        readings.add(page(8, 7), start);
        let [slices, all] = readings.requests();
        let all = all.unwrap();
        assert_eq!((slices, all.create, all.update, all.all()), (None, 3, 0, 3));
        assert_eq!(Readings::begin(start, None).requests(), [None; 2]);
        // This is a page of a controller that has given up the old name.
        let page = |total| {
            Reading::of(&format!(
                "endpoint_slice_controller_changes_total{{operation=\"update\"}} {total}\n"
            ))
        };
        let mut readings = Readings::begin(start, Some(page(2)));
        readings.add(page(6), start);
        assert_eq!(readings.requests()[0].unwrap().update, 4);
    }

    #[test]
    fn echoes_and_what_they_held_back_were_left_out() {
        let page = |quick, late, all, held_back| {
            Reading::of(&format!(
                "endpointd_echo_seconds_bucket{{output=\"endpointslice\",le=\"0.1\"}} {quick}\n\
                 endpointd_echo_seconds_bucket{{output=\"endpointslice\",le=\"2.5\"}} {late}\n\
                 endpointd_echo_seconds_bucket{{output=\"endpointslice\",le=\"+Inf\"}} {all}\n\
                 endpointd_echo_seconds_bucket{{output=\"endpoints\",le=\"+Inf\"}} 1000\n\
                 endpointd_held_back_seconds_total{{limit=\"echoes\"}} {held_back}\n\
                 endpointd_held_back_seconds_total{{limit=\"watchers\"}} 3\n"
            ))
        };
        let start = Instant::now();
        let mut readings = Readings::begin(start, Some(page(90, 90, 90, 1.0)));
        assert_eq!(
            readings.fan_out().unwrap().echo_p50,
            None,
            "there were none since"
        );
        readings.add(page(160, 190, 190, 2.5), start);
        let expected = FanOut {
            held_back_by_echoes: 1.5,
            held_back_by_watchers: 0.0,
            echo_p50: Some(0.1),
            echo_p99: Some(2.5),
        };
        assert_eq!(readings.fan_out(), Some(expected));
        readings.add(page(90, 90, 300, 2.5), start);
        assert_eq!(readings.fan_out().unwrap().echo_p50, Some(2.5), "or longer");
        let mut upstream = Readings::begin(start, Some(Reading::of("up 1\n")));
        upstream.add(Reading::of("up 1\n"), start);
        assert_eq!(upstream.fan_out(), None);
    }

    #[test]
    fn throttling_counts_from_the_start_and_goes_on_after_a_restart() {
        let start = Instant::now();
        let reading = |throttled| Reading {
            waiting: Some(1.0),
            throttled,
            slice_requests: None,
            requests: None,
            fan_out: None,
        };
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let mut readings = Readings::begin(start, Some(reading(Some(7.0))));
        readings.add(reading(Some(8.0)), after(2));
        // Another process, whose counter began at nought.
        readings.add(reading(Some(0.5)), after(3));
        readings.add(reading(Some(0.5)), after(4));
        let throttling = readings.throttling().unwrap();
        assert!((throttling.seconds - 1.5).abs() < 1e-9, "{throttling:?}");
        assert!((throttling.share - 0.375).abs() < 1e-9, "{throttling:?}");
        let shares: Vec<f64> = throttling.over_time.iter().map(|sample| sample.share).collect();
        assert_eq!(shares, [0.5, 0.5, 0.0]);
        assert_eq!(readings.queue().len(), 3);

        let mut unknown = Readings::begin(start, None);
        unknown.add(reading(None), after(1));
        assert_eq!(unknown.throttling(), None, "it was not read");
    }

    #[test]
    fn a_controller_that_is_told_where_to_serve_is_left_to_it() {
        assert!(free_url(&["--kube-api-qps=5".into()]).is_some());
        for flag in ["--admin-port=0", "--secure-port", "--tls-cert-file=x"] {
            assert_eq!(free_url(&[flag.into()]), None, "{flag}");
        }
    }
}
