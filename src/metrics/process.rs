//! Metrics of this process from the system, and those that do not fit the exporter's integer counters.

use super::catalogue;
use crate::core::publish::throttling::Limit;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nanoseconds for which each limit held back writes, in the order of [`Limit::ALL`].
pub(super) static HELD_BACK: [AtomicU64; Limit::ALL.len()] = [const { AtomicU64::new(0) }; Limit::ALL.len()];

/// Adds these metrics to a text in Prometheus' format. Values that the system does not provide are left out.
pub(super) fn render(text: &mut String) {
    let seconds = |limit: Limit| HELD_BACK[limit as usize].load(Ordering::Relaxed) as f64 / 1e9;
    let throttling = Limit::ALL.into_iter().filter(|limit| limit.throttles());
    add(
        text,
        "endpointd_throttled_seconds_total",
        throttling.map(seconds).sum(),
    );
    let held_back = Limit::ALL.map(|limit| (format!("{{limit=\"{}\"}}", limit.as_str()), seconds(limit)));
    add_all(text, "endpointd_held_back_seconds_total", &held_back);
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    if let Some(stat) = Stat::parse(&stat) {
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        add(text, "process_cpu_seconds_total", stat.ticks / ticks);
        let page = rustix::param::page_size() as f64;
        add(text, "process_resident_memory_bytes", stat.resident_pages * page);
        let system = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        if let Some(boot) = boot_time(&system) {
            add(text, "process_start_time_seconds", boot + stat.start / ticks);
        }
    }
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        add(
            text,
            "endpointd_tasks",
            runtime.metrics().num_alive_tasks() as f64,
        );
    }
}

fn add(text: &mut String, name: &str, value: f64) {
    add_all(text, name, &[(String::new(), value)]);
}

/// Adds a metric with its values, each with its labels in braces.
fn add_all(text: &mut String, name: &str, values: &[(String, f64)]) {
    let metric = catalogue::find(name);
    let (help, kind) = (metric.help, metric.kind.as_str());
    // Writing to a string cannot fail.
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    for (labels, value) in values {
        let _ = writeln!(text, "{name}{labels} {value}");
    }
    text.push('\n');
}

/// The used fields of /proc/self/stat.
#[derive(PartialEq, Debug)]
struct Stat {
    /// CPU time of the kernel and the process, in clock ticks.
    ticks: f64,
    /// Start time in clock ticks since boot.
    start: f64,
    resident_pages: f64,
}

impl Stat {
    /// Parses the fields after the command's name, which may contain anything; the first of them is the third.
    fn parse(stat: &str) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        Some(Self {
            ticks: field(14)? + field(15)?,
            start: field(22)?,
            resident_pages: field(24)?,
        })
    }
}

fn boot_time(system: &str) -> Option<f64> {
    let line = system.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_an_awkward_name() {
        let text = "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 5 0 777 4096 3 1";
        let stat = Stat {
            ticks: 300.0,
            start: 777.0,
            resident_pages: 3.0,
        };
        assert_eq!(Stat::parse(text), Some(stat));
        assert_eq!(Stat::parse("42 (a) S 1"), None);
        assert_eq!(boot_time("cpu 1\nbtime 1700000000\nx"), Some(1.7e9));
        assert_eq!(boot_time("cpu 1"), None);
    }
}
