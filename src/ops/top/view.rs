//! The content of the screen, as text: pure, so that tests can look at it.

use super::exposition::Exposition;
use super::hot::{COUNTED, HotService, Sort};
use super::model::{LeaseSight, Model};
use super::rates::{Quantile, Span};
use crate::core::excerpt::Excerpt;
use crate::core::object::Output;
use crate::core::priority::Priority;
use crate::core::publish::LATE;
use std::fmt::Write as _;
use std::time::Duration;

/// A heading, and what it says in pieces. A line may be broken between pieces, never within one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Fact {
    pub(super) label: &'static str,
    pub(super) pieces: Vec<String>,
    /// Whether an operator should look at it.
    pub(super) alarm: bool,
}

/// Everything that is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct View {
    /// The page that is read.
    pub(super) url: String,
    pub(super) facts: Vec<Fact>,
    /// The heading of the table of Services.
    pub(super) heading: String,
    pub(super) services: Vec<HotService>,
}

/// The width of the labels of facts.
pub(super) const LABEL: usize = 11;

/// A hint at the usual reason why metrics could never be read.
const PORT_FORWARD: &str =
    "(of a controller in a pod? kubectl -n kube-system port-forward POD 10270; or see --metrics-url)";

fn fact(label: &'static str, alarm: bool, pieces: Vec<String>) -> Fact {
    Fact { label, pieces, alarm }
}

impl View {
    /// Collects what is known now.
    pub(super) fn of(model: &Model, sort: Sort, filter: &str, now: Duration) -> Self {
        let mut facts = Vec::new();
        if let Some((why, since)) = &model.failure {
            let since = age(now.saturating_sub(*since));
            let mut pieces = vec![format!("not read for {since}:"), why.clone()];
            if model.samples.is_empty() {
                pieces.push(PORT_FORWARD.to_owned());
            }
            facts.push(fact("Metrics", true, pieces));
        } else if model.samples.is_empty() {
            facts.push(fact("Metrics", false, vec!["not read yet".to_owned()]));
        }
        let (metrics, span) = (model.latest().map(|latest| &latest.metrics), model.span());
        let page = metrics.map(|metrics| Page { metrics, span });
        facts.extend(page.map(|page| process(page, model.restarted)));
        facts.extend(lease(model));
        if let Some(page) = page {
            facts.extend(writes(page));
            facts.extend(state(page));
            facts.push(latency(page));
            facts.extend(lag(page));
        }
        let counted = model.followed.map(|since| now.saturating_sub(since));
        let counted = match counted {
            None => "not counted yet".to_owned(),
            Some(_) if model.watch_failure.is_some() => "until the watch ended".to_owned(),
            Some(counted) if counted >= COUNTED => "in the last minute".to_owned(),
            // A count of almost two seconds is not one of one.
            Some(counted) => {
                let counted = Duration::from_secs_f64(counted.as_secs_f64().round());
                format!("in the last {}", age(counted))
            }
        };
        let mut heading = format!("Services by slice changes {counted}, sorted by {}", sort.as_str());
        if !filter.is_empty() {
            heading = format!("{heading}, with {filter:?}");
        }
        match model.hot.uncounted() {
            0 => {}
            more => heading = format!("{heading}; {more} changes of further Services"),
        }
        if let Some(why) = &model.watch_failure {
            heading = format!("{heading}; not watched now: {}", Excerpt::sentence(why));
        }
        Self {
            url: model.url.clone(),
            facts,
            heading,
            services: model.hot.sorted(sort, filter, now),
        }
    }

    /// Returns the view as plain text, with at most this many Services.
    pub(super) fn to_text(&self, services: usize) -> String {
        let mut text = format!("endpointd at {}\n", self.url);
        for Fact { label, pieces, .. } in &self.facts {
            let _ = writeln!(text, "{label:<LABEL$}{}", pieces.join("  "));
        }
        let _ = writeln!(text, "\n{}", self.heading);
        text.push_str("CHANGES  DELETES  LAST  SERVICE\n");
        for service in self.services.iter().take(services) {
            let HotService {
                namespace,
                name,
                changes,
                deletes,
                last,
            } = service;
            let last = age(*last);
            let _ = writeln!(text, "{changes:>7}  {deletes:>7}  {last:>4}  {namespace}/{name}");
        }
        match self.services.len() {
            0 => text.push_str("none\n"),
            all if all > services => {
                let _ = writeln!(text, "and {} more", all - services);
            }
            _ => {}
        }
        text
    }
}

/// The latest page, and what has happened since the one before.
#[derive(Clone, Copy)]
struct Page<'a> {
    metrics: &'a Exposition,
    span: Option<Span<'a>>,
}

impl Page<'_> {
    fn count(&self, name: &str, labels: &[(&str, &str)]) -> String {
        let value = self.metrics.sum(name, labels);
        value.map_or("-".to_owned(), |value| format!("{value:.0}"))
    }

    fn seconds(&self, name: &str, labels: &[(&str, &str)]) -> String {
        self.metrics.sum(name, labels).map_or("-".to_owned(), duration)
    }

    fn rate(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        self.span?.rate(name, labels)
    }

    /// Returns the rate for each value of a label.
    fn rates(&self, name: &str, label: &str, values: &[&str]) -> Vec<String> {
        let rate = |value: &&str| {
            let rate = self.rate(name, &[(label, value)]);
            format!("{value} {}", rate.map_or("-".to_owned(), number))
        };
        values.iter().map(rate).collect()
    }

    /// Returns the median for an output, and the text with the 99th percentile.
    fn quantiles(&self, name: &str, output: Output) -> Option<(f64, String)> {
        let at = |quantile| {
            self.span?
                .quantile(name, &[("output", output.as_str())], quantile)
        };
        let (p50, p99) = (at(0.5)?, at(0.99)?);
        let (Quantile::Of(median) | Quantile::Above(median)) = p50;
        Some((median, format!("p50 {} p99 {}", shown(p50), shown(p99))))
    }
}

/// Formats a share of the time.
fn share(label: &str, share: Option<f64>) -> String {
    share.map_or(format!("{label} -"), |share| {
        format!("{label} {:.0} % of the time", 100.0 * share.min(1.0))
    })
}

fn process(page: Page<'_>, restarted: bool) -> Fact {
    let metrics = page.metrics;
    let role = match (
        metrics.sum("endpointd_lease_held", &[]),
        metrics.sum("leader_election_master_status", &[]),
    ) {
        (Some(held), Some(_)) if held > 0.0 => "the leader",
        (_, Some(_)) => "a standby: it writes nothing, and only its watches count",
        (Some(held), None) if held > 0.0 => "writes without leader election",
        _ => "a dry run: it writes nothing",
    };
    let mut pieces = vec![role.to_owned()];
    if let Some((version, _)) = metrics.by_label("endpointd_build_info", "version").next() {
        pieces.push(format!("version {}", Excerpt::value(version)));
    }
    if let Some(cpus) = page.rate("process_cpu_seconds_total", &[]) {
        pieces.push(format!("{cpus:.2} CPUs"));
    }
    if let Some(bytes) = metrics.sum("process_resident_memory_bytes", &[]) {
        pieces.push(format!("{:.0} MiB", bytes / f64::from(1 << 20)));
    }
    if restarted {
        pieces.push("restarted, or another process answers".to_owned());
    }
    fact("Process", restarted, pieces)
}

/// Returns whether the controller is known to run without leader election, as a dry run does: then it needs no Lease.
fn needs_no_lease(model: &Model) -> bool {
    let elects = |metrics: &Exposition| metrics.sum("leader_election_master_status", &[]).is_some();
    model.latest().is_some_and(|latest| !elects(&latest.metrics))
}

fn lease(model: &Model) -> Option<Fact> {
    let name = &model.lease_name;
    let (alarm, pieces) = match &model.lease {
        LeaseSight::Unread => return None,
        LeaseSight::Failed { why, .. } => (true, vec![format!("{name} cannot be read:"), why.clone()]),
        LeaseSight::Missing => (true, vec![format!("{name} does not exist")]),
        LeaseSight::Seen { record, since, read } => {
            let unchanged = read.saturating_sub(*since);
            let seconds = u64::try_from(record.seconds).unwrap_or_default();
            let expired = unchanged > Duration::from_secs(seconds);
            let mut pieces = match &*record.holder {
                "" => vec![format!("{name} is held by nobody")],
                holder if expired => vec![short(holder), format!("held {name} and has let it expire")],
                holder => vec![short(holder), format!("holds {name}")],
            };
            pieces.push(format!("unchanged for {}", age(unchanged)));
            (expired || record.holder.is_empty(), pieces)
        }
    };
    Some(fact("Lease", alarm && !needs_no_lease(model), pieces))
}

/// Leaves out the random part of an identity, which is the host's name, an underscore and a UUID.
fn short(holder: &str) -> String {
    let host = match holder.rsplit_once('_') {
        Some((host, uuid)) if uuid.len() == 36 && !host.is_empty() => host,
        _ => holder,
    };
    Excerpt::value(host).to_string()
}

fn writes(page: Page<'_>) -> [Fact; 2] {
    let lanes = Priority::ALL.map(Priority::as_str);
    let written = page.rates("endpointd_queue_age_seconds_count", "lane", &lanes);
    let verbs = ["create", "update", "delete", "get"];
    let mut requests = page.rates("endpointd_requests_total", "verb", &verbs);
    let failed = page.span.map(|span| {
        let rates = ["conflict", "refused", "unknown"]
            .map(|outcome| span.rate("endpointd_request_outcomes_total", &[("outcome", outcome)]));
        rates.into_iter().flatten().sum::<f64>()
    });
    requests.push(format!("failed {}", failed.map_or("-".to_owned(), number)));
    [
        fact("Writes/s", false, written),
        fact("Requests/s", failed.is_some_and(|failed| failed >= 1.0), requests),
    ]
}

fn state(page: Page<'_>) -> [Fact; 4] {
    let count = |name: &str| page.count(name, &[]);
    let mut queue = vec![format!("{} waiting", count("endpointd_queue_waiting"))];
    queue.extend(Priority::ALL.map(|priority| {
        let lane = priority.as_str();
        let oldest = page.seconds("endpointd_queue_oldest_seconds", &[("lane", lane)]);
        format!("{lane} {oldest}")
    }));
    queue[1].insert_str(0, "the oldest: ");
    let throttled = page.rate("endpointd_throttled_seconds_total", &[]);
    let window = vec![
        format!(
            "{} of {} requests in flight",
            count("endpointd_requests_in_flight"),
            count("endpointd_requests_in_flight_limit")
        ),
        share("throttled", throttled),
    ];
    let oldest = "endpointd_services_out_of_sync_oldest_seconds";
    let behind = vec![
        format!("{} Services out of sync", count("endpointd_services_out_of_sync")),
        format!("the oldest for {}", page.seconds(oldest, &[])),
    ];
    let oldest = page.metrics.sum(oldest, &[]);
    [
        fact("Queue", false, queue),
        fact("Window", throttled.is_some_and(|share| share >= 0.5), window),
        watchers(page),
        fact("Behind", oldest.is_some_and(|oldest| oldest >= 30.0), behind),
    ]
}

/// Returns the line about what clients that watch slices have to receive, and how late they are.
fn watchers(page: Page<'_>) -> Fact {
    let slices = [("resource", "endpointslices")];
    let echo = page.quantiles("endpointd_echo_seconds", Output::Slice);
    let sent = page.rate("endpointd_sent_to_watchers_bytes_total", &[]);
    let held_back = ["echoes", "watchers"]
        .into_iter()
        .filter_map(|limit| page.rate("endpointd_held_back_seconds_total", &[("limit", limit)]))
        .reduce(|a, b| a + b);
    let late = echo.as_ref();
    let late = late.is_some_and(|(median, _)| *median >= LATE.as_secs_f64());
    let pieces = vec![
        format!("{} watch slices", page.count("endpointd_watchers", &[])),
        format!("echo {}", echo.map_or("-".to_owned(), |(_, text)| text)),
        format!(
            "{} of {} writes without one",
            page.count("endpointd_writes_without_echo", &slices),
            page.count("endpointd_writes_without_echo_limit", &slices)
        ),
        sent.map_or("sent -".to_owned(), |bytes| {
            format!("sent {} MB/s", number(bytes / 1e6))
        }),
        share("held back", held_back),
    ];
    fact("Watchers", late, pieces)
}

fn latency(page: Page<'_>) -> Fact {
    let quantiles = |output: Output| {
        let (_, text) = page.quantiles("endpointd_change_to_acknowledged_seconds", output)?;
        Some(format!("{}: {text}", output.as_str()))
    };
    let mut pieces: Vec<_> = Output::ALL.into_iter().filter_map(quantiles).collect();
    if pieces.is_empty() {
        let none = page.span.map(|_| "no change was written since the last look");
        pieces.push(none.unwrap_or("-").to_owned());
    }
    fact("Change→ack", false, pieces)
}

fn lag(page: Page<'_>) -> Option<Fact> {
    let lags = page.metrics.by_label("endpointd_watch_lag_seconds", "resource");
    let mut lags: Vec<_> = lags.collect();
    // The page's order differs from scrape to scrape.
    lags.sort_by_key(|(resource, _)| *resource);
    let shown = lags.iter().map(|(resource, lag)| {
        // The metric is nought while the resource is not watched, and above it while it is.
        let passed = (*lag > 0.0).then(|| duration(*lag));
        format!(
            "{} {}",
            Excerpt::value(resource),
            passed.as_deref().unwrap_or("-")
        )
    });
    // A quiet watch shows a bookmark each minute.
    let late = lags.iter().any(|(_, lag)| *lag > 120.0);
    (!lags.is_empty()).then(|| fact("Last event", late, shown.collect()))
}

fn shown(quantile: Quantile) -> String {
    match quantile {
        Quantile::Of(seconds) => duration(seconds),
        Quantile::Above(seconds) => format!(">{}", duration(seconds)),
    }
}

fn number(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

/// Formats seconds with two or three digits and a unit.
pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 0.000_05 => "0 s".to_owned(),
        s if s < 0.010 => format!("{:.1} ms", s * 1e3),
        s if s < 0.9995 => format!("{:.0} ms", s * 1e3),
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 600.0 => format!("{s:.0} s"),
        s => format!("{:.0} min", s / 60.0),
    }
}

/// Formats a time that has passed, in whole seconds or minutes.
pub(super) fn age(passed: Duration) -> String {
    match passed.as_secs() {
        seconds @ 0..600 => format!("{seconds}s"),
        seconds => format!("{}m", seconds / 60),
    }
}

#[cfg(test)]
pub(super) mod tests;
