//! Reports for tests: none of them was measured.

use super::model::{
    Latency, LatencySample, Machine, Process, ProcessSample, Report, SCHEMA, Verdict, Writes,
};
use std::collections::BTreeMap;

/// A run of a minute whose p50 is so many microseconds.
fn report(title: &str, p50: u64, cpu: f64, memory: u64) -> Report {
    let moments = || (0..120).map(|n| f64::from(n) / 2.0);
    let latency = |p50: u64| Latency {
        count: 3_000,
        p50,
        p90: 2 * p50,
        p99: 4 * p50,
        p999: 8 * p50,
        max: 16 * p50,
        over_time: moments()
            .map(|at| LatencySample {
                at,
                count: 25,
                p50,
                p99: 4 * p50,
                max: 5 * p50,
            })
            .collect(),
        ..Latency::default()
    };
    let parameters = [("pods", "20000"), ("rate", "50"), ("seed", "7")];
    let mut report = Report {
        schema: SCHEMA,
        title: title.to_owned(),
        profile: "steady".to_owned(),
        started: "2026-07-01T12:34:56.789Z".to_owned(),
        seconds: 60.0,
        parameters: parameters
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        machine: Machine {
            processor: "AMD EPYC".to_owned(),
            cores: 2,
            memory_bytes: 24 << 30,
            system: "Linux".to_owned(),
            load_average: 0.3,
        },
        versions: BTreeMap::from([("controller".to_owned(), title.to_owned())]),
        verdict: Verdict {
            verified: true,
            generator_kept_up: true,
            ..Verdict::default()
        },
        slices: latency(p50),
        endpoints: latency(2 * p50),
        generator_lag: latency(90),
        writes: Writes {
            per_change: 1.7,
            bytes_per_change: 5_800.0,
            ..Writes::default()
        },
        processes: vec![Process {
            name: title.to_owned(),
            pid: 4_000,
            cpu_seconds: 60.0 * cpu,
            cpu_micros_per_change: 20_000.0 * cpu,
            cold_cpu_seconds: 1.0,
            rss_bytes: memory,
            peak_rss_bytes: memory,
            over_time: moments()
                .map(|at| ProcessSample {
                    at,
                    cpu,
                    rss_bytes: memory,
                })
                .collect(),
            ..Process::default()
        }],
        converge_seconds: Some(0.7),
        ..Report::default()
    };
    report.changes.made = 3_000;
    report
}

pub(super) fn endpointd() -> Report {
    report("endpointd", 1_300, 0.05, 38 << 20)
}

pub(super) fn upstream() -> Report {
    report("kube-controller-manager", 640_000, 1.3, 512 << 20)
}

/// One that went wrong in every way.
pub(super) fn failed() -> Report {
    let mut report = endpointd();
    report.changes.failed = 12;
    report.slices.never_seen = 17;
    report.verdict = Verdict {
        problems: (0..25)
            .map(|n| format!("ns/service-{n} IPv4: missing 10.0.0.{n}"))
            .collect(),
        warnings: vec!["the load average was 7.3 on 2 cores".to_owned()],
        ..Verdict::default()
    };
    report
}

/// One whose every text would be markup, or move a terminal's cursor, if it were let.
pub(super) fn hostile() -> Report {
    let mut report = failed();
    let text = "\u{1b}[2J\"'><script>alert(1)</script><img src=http://example.com/x onerror=alert(2)>&amp;";
    for place in [
        &mut report.title,
        &mut report.profile,
        &mut report.started,
        &mut report.processes[0].name,
    ] {
        text.clone_into(place);
    }
    report.parameters = BTreeMap::from([(text.to_owned(), text.to_owned())]);
    report.verdict.problems = vec![text.to_owned()];
    report.verdict.warnings = vec![text.to_owned()];
    report
}

/// One of rounds with these latencies (p50, in microseconds) and CPU times for each change.
pub(super) fn repeated(p50: &[u64], cpu: f64) -> Report {
    let round = |p50: &u64| {
        let mut round = endpointd();
        round.slices.p50 = *p50;
        round.processes[0].cpu_micros_per_change = cpu;
        round
    };
    Report {
        rounds: p50.iter().map(round).collect(),
        ..endpointd()
    }
}
