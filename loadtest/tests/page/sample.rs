//! Reports as runs could have made them: always the same ones, and none of them measured.

use super::model::{
    Bucket, Budget, ByVerb, Changes, ClaimKind, Claims, Count, Course, Latency, LatencySample, Machine,
    Phase, Process, ProcessSample, QueueSample, Report, Restart, SCHEMA, Sent, Throttling, ThrottlingSample,
    Verdict, Watchers, WriteCounts, Writes,
};
use fastrand::Rng;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// The properties in which the runs differ.
struct Shape {
    title: &'static str,
    seed: u64,
    seconds: f64,
    rate: u64,
    /// The median latency, in microseconds, and how far the others lie around it.
    median: f64,
    spread: f64,
    processes: &'static [(&'static str, f64, u64)],
}

const MIB: u64 = 1024 * 1024;

/// A fast controller, killed twice.
pub(crate) fn endpointd() -> Report {
    let mut report = make(&Shape {
        title: "endpointd",
        seed: 1,
        seconds: 60.0,
        rate: 500,
        median: 1_300.0,
        spread: 0.45,
        processes: &[("endpointd", 0.052, 38 * MIB)],
    });
    report.restarts = vec![restart(22.4, "SIGTERM", 0.42), restart(44.9, "SIGKILL", 1.6)];
    report
}

/// A slow controller of three processes, without restarts or a queue.
pub(crate) fn three_processes() -> Report {
    let mut report = make(&Shape {
        title: "kube-controller-manager 1.36",
        seed: 2,
        seconds: 60.0,
        rate: 500,
        median: 640_000.0,
        spread: 0.7,
        processes: &[
            ("kube-controller-manager", 1.31, 512 * MIB),
            ("kube-apiserver", 0.62, 730 * MIB),
            ("etcd", 0.21, 140 * MIB),
        ],
    });
    report.queue.clear();
    report
}

/// One that went wrong in every way.
pub(crate) fn failed() -> Report {
    let mut report = make(&Shape {
        title: "broken",
        seed: 3,
        seconds: 12.5,
        rate: 200,
        median: 9_000.0,
        spread: 1.2,
        processes: &[("endpointd", 0.1, 22 * MIB)],
    });
    report.parameters.insert("rate".to_owned(), "200".to_owned());
    report.changes.failed = 12;
    report.slices.never_seen = 17;
    let problem =
        |n| format!("ns-{n}/service-{n} IPv4: missing 10.0.0.{n}, expected in a slice of ports 8080/TCP");
    report.verdict = Verdict {
        verified: false,
        problems: (0..25).map(problem).collect(),
        generator_kept_up: false,
        warnings: vec![
            "the load average was 7.3 on 2 cores when the run began: others were at work on this machine"
                .to_owned(),
            "the controller's metrics could not be read: connection refused".to_owned(),
        ],
    };
    report
}

/// One that ended before it began.
pub(crate) fn empty() -> Report {
    Report {
        schema: SCHEMA,
        ..Report::default()
    }
}

/// Values of which none can be larger.
pub(crate) fn huge() -> Report {
    let mut report = make(&Shape {
        title: "a-controller-with-a-name-that-goes-on-and-on-and-has-not-a-single-place-where-it-could-be-broken-into-lines",
        seed: 4,
        seconds: 86_400.0,
        rate: 1,
        median: 4e9,
        spread: 2.0,
        processes: &[("a-process-with-a-very-long-name-indeed", 96.0, 3 << 40)],
    });
    "a profile with a very long name, as if someone had put a whole sentence where a word belongs"
        .clone_into(&mut report.profile);
    report.changes.made = u64::MAX;
    report.writes.slices.bytes = u64::MAX;
    report.writes.per_change = 1e12;
    report.writes.bytes_per_change = 1e15;
    report.slices.max = u64::MAX;
    report.slices.over_time[100].max = u64::MAX;
    report
}

/// One whose every text would be markup, or move a terminal's cursor, if it were let.
pub(crate) fn hostile() -> Report {
    let mut report = endpointd();
    let text = "\u{1b}[2J\"'><script>alert(1)</script><img src=http://example.com/x onerror=alert(2)>&amp;"
        .to_owned();
    report.title.clone_from(&text);
    report.profile.clone_from(&text);
    report.started.clone_from(&text);
    report.parameters = BTreeMap::from([(text.clone(), text.clone())]);
    report.versions = BTreeMap::from([(text.clone(), text.clone())]);
    report.machine.processor.clone_from(&text);
    report.machine.system.clone_from(&text);
    report.verdict.problems = vec![text.clone()];
    report.verdict.warnings = vec![text.clone()];
    report.phases[0].name.clone_from(&text);
    report.processes[0].name.clone_from(&text);
    report.restarts[0].signal = text;
    report
}

/// One whose controller held back its writes, and which is above some of the limits that were set for it.
pub(crate) fn throttled() -> Report {
    let mut report = make(&Shape {
        title: "steady, 20,000 pods, 400 Services",
        seed: 5,
        seconds: 60.0,
        rate: 1_000,
        median: 4_200_000.0,
        spread: 0.9,
        processes: &[("endpointd", 0.09, 31 * MIB)],
    });
    let sample = |number: u32| ThrottlingSample {
        at: f64::from(number),
        share: if number < 4 { 0.2 } else { 0.97 },
    };
    report.throttling = Some(Throttling {
        seconds: 55.8,
        share: 0.93,
        over_time: (1..=60)
            .filter(|number| !(30..34).contains(number))
            .map(sample)
            .collect(),
    });
    report.flags = Some(vec!["--max-endpoints-per-slice=100".to_owned()]);
    let budget = |figure: &str, limit: &str, measured: &str, met| Budget {
        figure: figure.to_owned(),
        limit: limit.to_owned(),
        measured: measured.to_owned(),
        met,
    };
    report.budgets = vec![
        budget("slices.p99", "100 ms", "12.8 s", false),
        budget("endpoints.p99", "100 ms", "12.9 s", false),
        budget("cpu", "1.0 ms", "90 µs", true),
        budget("throttled", "5.0 %", "93.0 %", false),
    ];
    report
}

/// One beside simulated kube-proxies, on a server whose metrics could be read.
pub(crate) fn watched() -> Report {
    let mut report = endpointd();
    let latency = Latency {
        count: report.slices.count * 1_000,
        never_seen: 17,
        max: 39_000_000,
        ..report.slices.clone()
    };
    report.watchers = Some(Watchers {
        count: 1_000,
        latency,
        ended: 12_345,
        ended_in_churn: 12_000,
        timed_out: 7,
        lists: 1_203,
        events: 123_456_789,
        bytes: 1_234_567_890_123,
        bytes_per_second: 987_654_321.0,
        terminated: Some(12_003),
        server_cpu_seconds: Some(1_203.4),
    });
    report
}

/// One of sandboxes that came and went.
pub(crate) fn claimed() -> Report {
    let mut report = endpointd();
    let requests = |create, update, delete, get| ByVerb {
        create,
        update,
        delete,
        get,
    };
    let kind = |course, made: u64| ClaimKind {
        course,
        made,
        slices: Sent {
            requests: requests(made, made / 2, 0, 7),
            bytes: requests(612 * made, 306 * made, 0, 0),
            most: 3,
        },
        endpoints: Sent {
            requests: requests(made, made / 2, made / 9, 3),
            bytes: requests(512 * made, 256 * made, 11 * made, 0),
            most: 4,
        },
    };
    report.claims = Some(Claims {
        alive: 100_000,
        made: 18_000,
        ready: report.slices.clone(),
        gone: Latency {
            p99: 2_100,
            ..report.slices.clone()
        },
        slice_requests: Some(requests(18_000, 9_123, 0, 12)),
        requests: Some(requests(36_000, 18_246, 17, 24)),
        kinds: vec![
            kind(Course::Ordinary, 16_200),
            kind(Course::EndsGracefully, 1_800),
        ],
    });
    report
}

/// One of three rounds.
pub(crate) fn repeated() -> Report {
    let mut report = endpointd();
    report.rounds = [0.8, 1.0, 1.3]
        .into_iter()
        .map(|times| {
            let mut round = endpointd();
            for latency in [&mut round.slices, &mut round.endpoints] {
                for figure in [&mut latency.p50, &mut latency.p99, &mut latency.max] {
                    *figure = (*figure as f64 * times) as u64;
                }
            }
            round
        })
        .collect();
    report
}

/// All of them that are neither throttled nor repeated.
pub(crate) fn all() -> [Report; 6] {
    [
        endpointd(),
        three_processes(),
        failed(),
        empty(),
        huge(),
        hostile(),
    ]
}

fn restart(at: f64, signal: &str, without_writer_seconds: f64) -> Restart {
    Restart {
        at,
        signal: signal.to_owned(),
        without_writer_seconds,
    }
}

fn make(shape: &Shape) -> Report {
    let mut rng = Rng::with_seed(shape.seed);
    // Long runs are sampled less often.
    let step = (shape.seconds / 240.0).max(0.5).floor().max(0.5);
    let intervals = (shape.seconds / step) as u64;
    let each = ((shape.rate as f64 * step) as u64).max(1);
    let [changes, writes] = [1.0, 1.7].map(|factor| counts(&mut rng, each as f64 * factor, step, intervals));
    let made = changes.iter().map(|count| count.count).sum::<u64>();
    let [slice_writes, endpoints_writes] = [(); 2].map(|()| write_counts(&mut rng, made));
    let latency = |rng: &mut Rng, factor| latency(rng, shape.median * factor, shape.spread, &changes);
    Report {
        schema: SCHEMA,
        title: shape.title.to_owned(),
        profile: "burst".to_owned(),
        started: "2026-07-01T12:34:56.789Z".to_owned(),
        seconds: shape.seconds,
        verdict: Verdict {
            verified: true,
            generator_kept_up: true,
            ..Verdict::default()
        },
        phases: phases(shape, each * intervals / 3),
        changes: Changes {
            made,
            failed: 0,
            over_time: changes.clone(),
        },
        slices: latency(&mut rng, 1.0),
        endpoints: latency(&mut rng, 2.3),
        generator_lag: latency(&mut rng, 0.05),
        writes: Writes {
            slices: slice_writes,
            endpoints: endpoints_writes,
            per_change: 1.7,
            bytes_per_change: 5_800.0,
            over_time: writes,
        },
        processes: (0..shape.processes.len())
            .map(|number| process(&mut rng, shape, number, &changes, made))
            .collect(),
        queue: (0..intervals)
            .map(|n| QueueSample {
                at: n as f64 * step,
                depth: (burst(n, intervals) * 9.0 * rng.f64()).floor(),
            })
            .collect(),
        converge_seconds: Some(short(shape.median / 1e3 * 0.9)),
        ..setting(shape.title)
    }
}

fn phases(shape: &Shape, changes: u64) -> Vec<Phase> {
    let third = shape.seconds / 3.0;
    let names = ["steady", "rolling restart of all", "burst"].into_iter();
    let phase = |(n, name): (usize, &str)| Phase {
        name: name.to_owned(),
        from: short(n as f64 * third),
        to: short((n + 1) as f64 * third),
        changes,
        ..Phase::default()
    };
    names.enumerate().map(phase).collect()
}

/// Counts around so many in each interval.
fn counts(rng: &mut Rng, each: f64, step: f64, intervals: u64) -> Vec<Count> {
    let count = |n| Count {
        at: n as f64 * step,
        count: (each * burst(n, intervals) * (0.93 + rng.f64() * 0.14)) as u64,
    };
    (0..intervals).map(count).collect()
}

fn write_counts(rng: &mut Rng, made: u64) -> WriteCounts {
    WriteCounts {
        created: rng.u64(100..900),
        updated: made * 8 / 10,
        deleted: rng.u64(50..400),
        bytes: made * 2_900,
    }
}

/// The part of a report that says what ran where.
fn setting(title: &str) -> Report {
    Report {
        parameters: texts(&[
            ("pods", "20000"),
            ("namespaces", "40"),
            ("rate", "500"),
            ("seed", "7"),
            ("services", "400"),
        ]),
        machine: Machine {
            processor: "AMD EPYC 7B13".to_owned(),
            cores: 2,
            memory_bytes: 24 << 30,
            system: "Linux 6.8.0".to_owned(),
            load_average: 0.31,
        },
        versions: texts(&[
            ("loadtest", "0.1.0 (3a81cc0)"),
            ("controller", title),
            ("server", "memory-apiserver 0.1.0"),
        ]),
        ..Report::default()
    }
}

/// A process that is busier when more happens, and grows until it knows all objects.
fn process(rng: &mut Rng, shape: &Shape, number: usize, changes: &[Count], made: u64) -> Process {
    let (name, cpu, rss_bytes) = shape.processes[number];
    let intervals = changes.len() as u64;
    Process {
        name: name.to_owned(),
        pid: 4_000 + number as u32,
        unread: false,
        cpu_seconds: short(cpu * shape.seconds),
        cpu_micros_per_change: short(cpu * shape.seconds * 1e6 / made as f64),
        cold_cpu_seconds: short(cpu * 7.0),
        rss_bytes,
        peak_rss_bytes: rss_bytes + rss_bytes / 9,
        over_time: (0..intervals)
            .zip(changes)
            .map(|(n, change)| ProcessSample {
                // A sampler's clock is never quite on time.
                at: short(change.at + rng.f64() * 0.02),
                cpu: short(cpu * burst(n, intervals) * (0.8 + rng.f64() * 0.4)),
                rss_bytes: rss_bytes - rss_bytes / (n + 3) + rng.u64(..rss_bytes / 40),
            })
            .collect(),
    }
}

/// How much more than usual happens: the last third of a run comes in bursts.
fn burst(n: u64, intervals: u64) -> f64 {
    if n * 3 < intervals * 2 {
        1.0
    } else if n % 12 < 4 {
        2.6
    } else {
        0.2
    }
}

/// With so few digits a number is the same after it was written and read.
fn short(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|&(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Durations around a median, more above it than below, as queues make them.
fn latency(rng: &mut Rng, median: f64, spread: f64, changes: &[Count]) -> Latency {
    let mut whole = Histogram::<u64>::new(3).unwrap();
    let mut over_time = Vec::new();
    for (n, interval) in changes.iter().enumerate() {
        let mut part = Histogram::<u64>::new(3).unwrap();
        for _ in 0..interval.count.min(200) {
            // The sum of uniform numbers is nearly normal.
            let normal = ((0..4).map(|_| rng.f64()).sum::<f64>() - 2.0) * 1.73;
            let tail = if rng.f64() < 0.01 {
                1.0 + rng.f64() * 9.0
            } else {
                1.0
            };
            let slow = burst(n as u64, changes.len() as u64).max(0.8);
            part.record((median * (spread * normal).exp() * tail * slow).max(1.0) as u64)
                .unwrap();
        }
        over_time.push(LatencySample {
            at: interval.at,
            count: part.len(),
            p50: part.value_at_quantile(0.5),
            p99: part.value_at_quantile(0.99),
            max: part.max(),
        });
        whole.add(&part).unwrap();
    }
    let bucket = |value: u64, count| Bucket { up_to: value, count };
    Latency {
        count: whole.len(),
        never_seen: 0,
        overtaken: whole.len() / 90,
        p50: whole.value_at_quantile(0.5),
        p90: whole.value_at_quantile(0.9),
        p99: whole.value_at_quantile(0.99),
        p999: whole.value_at_quantile(0.999),
        max: whole.max(),
        histogram: whole
            .iter_recorded()
            .map(|step| bucket(step.value_iterated_to(), step.count_at_value()))
            .collect(),
        over_time,
    }
}
