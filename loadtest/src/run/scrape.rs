//! A controller's own metrics while a run is measured.

use crate::api::{self, Http};
use crate::parse::{label, metric, series};
use crate::report::model::{ByVerb, FanOut, Throttling};
use http::Uri;
use std::ffi::OsString;
use std::net::TcpListener;
use std::time::Duration;
use tokio::time::Instant;

/// Each reading costs the controller as much as one write or two.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);
/// Seconds in which endpointd held back writes. Upstream has no such metric: its client counts the waits of all requests
/// that wait at the same time, so its sum is no share of any time.
const THROTTLED: &str = "endpointd_throttled_seconds_total";
/// The same, by limit.
const HELD_BACK: &str = "endpointd_held_back_seconds_total";
/// Seconds from the answers to writes of slices until endpointd's own watch showed them.
const ECHOES: &str = "endpointd_echo_seconds_bucket";
/// Requests that changed slices, by operation, as kube-controller-manager and endpointd count them; the second name is that from
/// Kubernetes 1.38 on, which deprecates the first.
const SLICE_CHANGES: [&str; 2] = [
    "endpoint_slice_controller_changes",
    "endpoint_slice_controller_changes_total",
];
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
    /// The counter at the last reading, and when that was.
    last: Option<(f64, Instant)>,
    seconds: f64,
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

/// The values of a counter by verb; none if it is not there.
fn requests(metrics: &str, name: &str, by: &str) -> Option<ByVerb> {
    let mut requests = None;
    for (labels, value) in metric(metrics, name) {
        let counts: &mut ByVerb = requests.get_or_insert_default();
        let count = match label(labels, by) {
            Some("create") => &mut counts.create,
            Some("update") => &mut counts.update,
            Some("delete") => &mut counts.delete,
            Some("get") => &mut counts.get,
            _ => continue,
        };
        *count += value as u64;
    }
    requests
}

/// How many more there are than before. The counters of a process that was started since begin at nought.
fn since(now: Option<ByVerb>, before: Option<ByVerb>) -> Option<ByVerb> {
    let (now, before) = (now?, before.unwrap_or_default());
    let more = |now: u64, before| now.checked_sub(before).unwrap_or(now);
    Some(ByVerb {
        create: more(now.create, before.create),
        update: more(now.update, before.update),
        delete: more(now.delete, before.delete),
        get: more(now.get, before.get),
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
        let held_back = |limit: &str| {
            let mut limits = metric(metrics, HELD_BACK);
            limits.find_map(|(labels, value)| (label(labels, "limit")? == limit).then_some(value))
        };
        let slices =
            metric(metrics, ECHOES).filter(|(labels, _)| label(labels, "output") == Some("endpointslice"));
        Some(Self {
            by_echoes: held_back("echoes")?,
            by_watchers: held_back("watchers")?,
            echoes: slices
                .filter_map(|(labels, count)| Some((label(labels, "le")?.parse().ok()?, count)))
                .collect(),
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
        let slice_requests = SLICE_CHANGES
            .iter()
            .find_map(|name| requests(metrics, name, "operation"));
        Self {
            throttled: series(metrics, THROTTLED),
            slice_requests,
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
            last: before
                .as_ref()
                .and_then(|reading| Some((reading.throttled?, start))),
            seconds: 0.0,
            ends: before.map(|before| (before.clone(), before)),
        }
    }

    pub(super) fn add(&mut self, reading: Reading, now: Instant) {
        if let Some(count) = reading.throttled {
            if let Some((before, _)) = self.last {
                self.seconds += more(count, before);
            }
            self.last = Some((count, now));
        }
        if let Some((_, last)) = &mut self.ends {
            *last = reading;
        }
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

    /// How long writes were held back; none if that was never read.
    pub(super) fn throttling(&self) -> Option<Throttling> {
        let (_, until) = self.last?;
        let passed = until.saturating_duration_since(self.start).as_secs_f64();
        (passed > 0.0).then(|| Throttling {
            seconds: self.seconds,
            share: (self.seconds / passed).min(1.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_count_from_the_start_and_go_on_after_a_restart() {
        let start = Instant::now();
        let page = |throttled, create| {
            Reading::of(&format!(
                "endpointd_throttled_seconds_total {throttled}\nendpointd_requests_total{{verb=\"create\"}} {create}\n\
                 endpoint_slice_controller_changes_total{{operation=\"update\"}} {create}\n"
            ))
        };
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let mut readings = Readings::begin(start, Some(page(7.0, 5)));
        readings.add(page(8.0, 9), after(2));
        assert_eq!(
            readings.requests().map(|requests| requests.unwrap().all()),
            [4, 4]
        );
        // Another process, whose counters began at nought.
        readings.add(page(0.5, 3), after(3));
        readings.add(page(0.5, 3), after(4));
        assert_eq!(
            readings.requests().map(|requests| requests.unwrap().all()),
            [3, 3]
        );
        let expected = Throttling {
            seconds: 1.5,
            share: 0.375,
        };
        assert_eq!(readings.throttling(), Some(expected));

        let mut unknown = Readings::begin(start, None);
        unknown.add(Reading::of("up 1\n"), after(1));
        assert_eq!(
            (unknown.throttling(), unknown.requests(), unknown.fan_out()),
            (None, [None; 2], None)
        );
    }

    #[test]
    fn echoes_and_what_they_held_back_count_from_the_start() {
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
    }
}
