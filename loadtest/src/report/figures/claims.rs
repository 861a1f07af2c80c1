//! The figures of sandboxes that came and went.

use super::{OfReport, lower, neither, noise};
use crate::report::format;
use crate::report::model::{ByVerb, Claims, Report, WriteCounts};

/// Their figures, latencies apart, as comparisons have them.
pub(super) const FIGURES: [OfReport; 9] = [
    neither("alive all the time", noise::NONE, format::whole, |report| {
        of(report, |claims| claims.alive as f64)
    }),
    neither("made", noise::NONE, format::whole, |report| {
        of(report, |claims| claims.made as f64)
    }),
    lower("slice writes each", noise::COUNTS, format::figure, |report| {
        each(report, |report| report.writes.slices.all() as f64)
    }),
    lower("Endpoints writes each", noise::COUNTS, format::figure, |report| {
        each(report, |report| report.writes.endpoints.all() as f64)
    }),
    lower("slice requests each", noise::COUNTS, format::figure, |report| {
        let requests = report.claims.as_ref()?.slice_requests?;
        each(report, |_| requests.all() as f64)
    }),
    lower("requests each", noise::COUNTS, format::figure, |report| {
        let requests = report.claims.as_ref()?.requests?;
        each(report, |_| requests.all() as f64)
    }),
    lower("bytes written each", noise::COUNTS, format::bytes, |report| {
        each(report, |report| {
            let writes = &report.writes;
            (writes.slices.bytes + writes.endpoints.bytes) as f64
        })
    }),
    lower("CPU each", noise::CPU, format::micros, cpu_micros),
    lower("memory peak", noise::MEMORY, format::bytes, |report| {
        report.claims.as_ref()?;
        report
            .processes
            .first()?
            .used(|process| process.peak_rss_bytes as f64)
    }),
];

/// Returns their figures for one run, by name. Figures that could not be read are left out.
pub(in crate::report) fn lines(report: &Report) -> Vec<(&'static str, String)> {
    let Some(claims) = &report.claims else {
        return Vec::new();
    };
    let made = claims.made;
    let of_verbs = |requests: ByVerb| {
        let ByVerb {
            create,
            update,
            delete,
            get,
        } = requests;
        let verbs = [
            ("create", create),
            ("update", update),
            ("delete", delete),
            ("get", get),
        ];
        verbs
            .map(|(verb, count)| format!("{} {verb}", share(count, made)))
            .join(", ")
    };
    let of_writes = |counts: &WriteCounts| {
        format!(
            "{} created, {} updated, {} deleted, {}",
            share(counts.created, made),
            share(counts.updated, made),
            share(counts.deleted, made),
            format::bytes(counts.bytes as f64 / made.max(1) as f64)
        )
    };
    let sandboxes = format!(
        "{} alive all the time, {} made",
        format::number(claims.alive),
        format::number(made)
    );
    let mut lines = vec![
        ("Sandboxes", sandboxes),
        ("Slices each", of_writes(&report.writes.slices)),
        ("Endpoints each", of_writes(&report.writes.endpoints)),
    ];
    lines.extend(
        claims
            .slice_requests
            .map(|requests| ("Slice requests", of_verbs(requests))),
    );
    lines.extend(
        claims
            .requests
            .map(|requests| ("All requests", of_verbs(requests))),
    );
    lines.extend(cpu_micros(report).map(|cpu| ("CPU each", format::micros(cpu))));
    lines
}

fn share(count: u64, made: u64) -> String {
    format!("{:.2}", count as f64 / made.max(1) as f64)
}

/// CPU time of the controller for each sandbox, in microseconds.
fn cpu_micros(report: &Report) -> Option<f64> {
    let cpu = report.processes.first()?.used(|process| process.cpu_seconds)?;
    each(report, |_| cpu * 1e6)
}

fn of(report: &Report, figure: fn(&Claims) -> f64) -> Option<f64> {
    report.claims.as_ref().map(figure)
}

fn each(report: &Report, figure: impl Fn(&Report) -> f64) -> Option<f64> {
    let made = report.claims.as_ref()?.made;
    (made > 0).then(|| figure(report) / made as f64)
}
