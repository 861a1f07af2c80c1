//! The figures of simulated kube-proxies.

use super::{OfReport, lower, neither, noise};
use crate::report::format;
use crate::report::model::{Report, Watchers};

/// Their figures, latencies apart, as comparisons have them.
pub(super) const FIGURES: [OfReport; 8] = [
    lower("watches ended", noise::NONE, format::whole, |report| {
        of(report, |watchers| watchers.ended as f64)
    }),
    lower("ended while changing", noise::NONE, format::whole, |report| {
        of(report, |watchers| watchers.ended_in_churn as f64)
    }),
    lower("lists again", noise::NONE, format::whole, |report| {
        of(report, |watchers| watchers.lists as f64)
    }),
    lower("ended as too slow", noise::NONE, format::whole, |report| {
        Some(report.watchers.as_ref()?.terminated? as f64)
    }),
    neither("events", noise::COUNTS, format::whole, |report| {
        of(report, |watchers| watchers.events as f64)
    }),
    lower("bytes received", noise::COUNTS, format::bytes, |report| {
        of(report, |watchers| watchers.bytes as f64)
    }),
    neither("bytes per second", noise::COUNTS, format::bytes, |report| {
        of(report, |watchers| watchers.bytes_per_second)
    }),
    lower("API server CPU", noise::CPU, format::seconds, |report| {
        report.watchers.as_ref()?.server_cpu_seconds
    }),
];

/// Returns their figures for one run, by name. Figures that could not be read are left out.
pub(in crate::report) fn lines(watchers: &Watchers) -> Vec<(&'static str, String)> {
    let number = format::number;
    let mut ended = number(watchers.ended);
    if watchers.ended > 0 {
        ended = format!("{ended}, {} while changing", number(watchers.ended_in_churn));
    }
    let received = format!(
        "{}, {} each second",
        format::bytes(watchers.bytes as f64),
        format::bytes(watchers.bytes_per_second)
    );
    let mut lines = vec![
        ("Watchers", number(watchers.count)),
        ("Watches ended", ended),
        ("Ended in time", number(watchers.timed_out)),
        ("Lists again", number(watchers.lists)),
        ("Events", number(watchers.events)),
        ("Received", received),
    ];
    let slow = watchers.terminated.map(number);
    lines.extend(slow.map(|slow| ("Ended as slow", slow)));
    let cpu = watchers.server_cpu_seconds.map(format::seconds);
    lines.extend(cpu.map(|cpu| ("API server CPU", cpu)));
    lines
}

fn of(report: &Report, figure: fn(&Watchers) -> f64) -> Option<f64> {
    report.watchers.as_ref().map(figure)
}
