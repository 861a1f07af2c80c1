//! The measurements of the loads, as rows of tables.

use crate::figures::number;
use crate::report::format::{bytes, figure, micros};
use crate::report::model::{Process, Report};
use crate::report::spread::Spread;
use std::fmt::Write;

const NOT_KNOWN: &str = "not known";

/// A figure over all rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    median: f64,
    least: f64,
    most: f64,
}

/// The figures of one controller under one load.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Measured {
    /// Until a client saw a change in a slice, in microseconds; of all proxies, where there are some.
    p50: Option<Range>,
    p99: Option<Range>,
    /// The same of Endpoints.
    endpoints_p50: Option<Range>,
    endpoints_p99: Option<Range>,
    /// CPU time of the controller for each change, in microseconds.
    cpu: Option<Range>,
    /// The most memory that it had, in bytes.
    memory: Option<Range>,
    writes: Option<Range>,
    /// CPU time of kube-apiserver for each change, in microseconds.
    server_cpu: Option<Range>,
    /// Watches that the API server ended.
    ended: Option<Range>,
    /// Bytes to all proxies.
    to_proxies: Option<Range>,
}

/// One controller under one load.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) rate: u32,
    /// Endpoints objects were published, too.
    pub(super) endpoints: bool,
    pub(super) watchers: Option<u16>,
    pub(super) lifted: bool,
    pub(super) upstream: bool,
    pub(super) measured: Measured,
}

// === impl Measured ===

impl Measured {
    /// The figures of a report of several rounds. The processes are the controller, kube-apiserver and etcd.
    pub(super) fn of(report: &Report) -> Self {
        let range = |value: &dyn Fn(&Report) -> Option<f64>| {
            Spread::of(report, value).map(
                |Spread {
                     median, least, most, ..
                 }| Range { median, least, most },
            )
        };
        let process = |at: usize, value: fn(&Process) -> f64| {
            range(&move |report: &Report| report.processes.get(at)?.used(value))
        };
        let seen = |report: &Report| match &report.watchers {
            Some(watchers) => watchers.latency.clone(),
            None => report.slices.clone(),
        };
        let of_endpoints = |value: fn(&Report) -> u64| {
            range(&move |report: &Report| (report.endpoints.count > 0).then(|| value(report) as f64))
        };
        Self {
            p50: range(&|report| Some(seen(report).p50 as f64)),
            p99: range(&|report| Some(seen(report).p99 as f64)),
            endpoints_p50: of_endpoints(|report| report.endpoints.p50),
            endpoints_p99: of_endpoints(|report| report.endpoints.p99),
            cpu: process(0, |process| process.cpu_micros_per_change),
            memory: process(0, |process| process.peak_rss_bytes as f64),
            writes: range(&|report| Some(report.writes.per_change)),
            server_cpu: process(1, |process| process.cpu_micros_per_change),
            ended: range(&|report| Some(report.watchers.as_ref()?.ended as f64)),
            to_proxies: range(&|report| Some(report.watchers.as_ref()?.bytes as f64)),
        }
    }
}

/// The rows as tables in Markdown: those without proxies, and those with some.
pub(super) fn table(rows: &[Row]) -> String {
    let mut out = String::new();
    for with_watchers in [false, true] {
        let rows: Vec<&Row> = rows
            .iter()
            .filter(|row| row.watchers.is_some() == with_watchers)
            .collect();
        if rows.is_empty() {
            continue;
        }
        if !out.is_empty() {
            out.push('\n');
        }
        let head = if with_watchers {
            "| proxies, changes a second | limits | controller | a proxy shows the change, p50 | p99 | watches that the API server ended | to \
             all proxies | CPU of the API server a change | CPU a change |"
        } else {
            "| changes a second | limits | controller | CPU a change | p50 | p99 | writes a change | CPU of the API server a change | \
             peak memory |"
        };
        let _ = writeln!(out, "{head}\n{}", "|---".repeat(9) + "|");
        let mut before = None;
        for row in rows {
            let _ = writeln!(out, "{}", row.line(before));
            before = Some(row);
        }
    }
    out
}

// === impl Row ===

impl Row {
    fn controller(&self) -> &'static str {
        if self.upstream {
            "kube-controller-manager"
        } else {
            "endpointd"
        }
    }

    /// The row in Markdown. Values that are the same as in the row before are left out.
    fn line(&self, before: Option<&Self>) -> String {
        let Measured {
            p50,
            p99,
            cpu,
            memory,
            writes,
            server_cpu,
            ended,
            to_proxies,
            ..
        } = &self.measured;
        let is_same_load = before.is_some_and(|before| before.load() == self.load());
        let is_same_limits = is_same_load && before.is_some_and(|before| before.lifted == self.lifted);
        let limits = if self.lifted { "lifted" } else { "default" };
        let mut cells = vec![
            if is_same_load { String::new() } else { self.load() },
            if is_same_limits {
                String::new()
            } else {
                limits.to_owned()
            },
            self.controller().to_owned(),
        ];
        if self.watchers.is_some() {
            cells.extend([shown(*p50, micros), shown(*p99, micros), shown(*ended, count)]);
            cells.extend([
                shown(*to_proxies, bytes),
                shown(*server_cpu, micros),
                shown(*cpu, micros),
            ]);
        } else {
            let both = |slices, endpoints: Option<Range>| match endpoints {
                Some(_) => format!(
                    "{}; Endpoints {}",
                    shown(slices, micros),
                    shown(endpoints, micros)
                ),
                None => shown(slices, micros),
            };
            cells.push(shown(*cpu, micros));
            cells.push(both(*p50, self.measured.endpoints_p50));
            cells.push(both(*p99, self.measured.endpoints_p99));
            cells.extend([
                shown(*writes, figure),
                shown(*server_cpu, micros),
                shown(*memory, bytes),
            ]);
        }
        format!("| {} |", cells.join(" | "))
    }

    fn load(&self) -> String {
        let outputs = if self.endpoints {
            ", slices and Endpoints"
        } else {
            ""
        };
        match self.watchers {
            Some(watchers) => format!("{watchers}, {}", self.rate),
            None => format!("{}{outputs}", self.rate),
        }
    }
}

/// A count. The median of an even number of rounds may be between two.
fn count(value: f64) -> String {
    number(value.round() as u64)
}

/// The median, and the range if there is one.
fn shown(range: Option<Range>, unit: fn(f64) -> String) -> String {
    let Some(Range { median, least, most }) = range else {
        return NOT_KNOWN.to_owned();
    };
    let (median, least, most) = (unit(median), unit(least), unit(most));
    if least == most {
        median
    } else {
        format!("{median} ({least} to {most})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::{Latency, Watchers};

    fn report(p50: u64, watchers: Option<u64>) -> Report {
        let latency = Latency {
            count: 1,
            p50,
            p99: 2 * p50,
            ..Latency::default()
        };
        let process = |name: &str, cpu| Process {
            name: name.to_owned(),
            cpu_micros_per_change: cpu,
            peak_rss_bytes: 20 << 20,
            ..Process::default()
        };
        Report {
            slices: latency.clone(),
            processes: vec![process("endpointd", 700.0), process("kube-apiserver", 15_000.0)],
            watchers: watchers.map(|ended| Watchers {
                ended,
                latency,
                bytes: 3 << 30,
                ..Watchers::default()
            }),
            ..Report::default()
        }
    }

    fn row(upstream: bool, watchers: Option<u16>, rounds: Vec<Report>) -> Row {
        let report = Report {
            rounds,
            ..Report::default()
        };
        Row {
            rate: 50,
            endpoints: false,
            watchers,
            lifted: false,
            upstream,
            measured: Measured::of(&report),
        }
    }

    #[test]
    fn rows_have_medians_with_their_ranges_and_say_each_load_once() {
        let rounds = || vec![report(12_000, None), report(10_000, None), report(50_000, None)];
        let table = table(&[row(true, None, rounds()), row(false, None, rounds())]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 4, "{table}");
        assert_eq!(
            lines[2],
            "| 50 | default | kube-controller-manager | 700 µs | 12.0 ms (10.0 ms to 50.0 ms) | 24.0 ms (20.0 ms to 100 ms) | 0 | \
             15.0 ms | 20.0 MiB |"
        );
        assert!(lines[3].starts_with("|  |  | endpointd |"), "{}", lines[3]);
        for line in &lines {
            assert_eq!(line.matches('|').count(), 10, "{line}");
        }
    }

    #[test]
    fn loads_with_proxies_have_a_table_of_their_own() {
        let rounds = vec![
            report(2_000, Some(0)),
            report(3_000, Some(7)),
            report(4_000, Some(2)),
        ];
        let table = table(&[
            row(false, Some(300), rounds),
            row(false, None, vec![report(1_000, None)]),
        ]);
        assert_eq!(table.lines().count(), 7, "{table}");
        let last = table.lines().last().unwrap();
        assert!(
            last.starts_with("| 300, 50 | default | endpointd | 3.00 ms (2.00 ms to 4.00 ms)"),
            "{last}"
        );
        assert!(last.contains("| 2 (0 to 7) | 3.00 GiB |"), "{last}");
    }
}
