//! Plans composed by chance, for runs over many seeds.

use super::{
    After, Ending, ErrorEvent, Failure, Fault, FaultPlan, Latency, Matcher, Over, Rule, Stage, Verb, Verbs,
    WatchFault,
};
use crate::resources::Resources;
use fastrand::Rng;
use std::time::Duration;

/// All rules end by then.
const END: u64 = 120;

/// How bad a kind of fault is for its client, which decides how often it may come.
#[derive(Clone, Copy)]
enum Dose {
    /// Tried again soon.
    Light,
    /// Costs the client a deadline, a re-list or a long wait.
    Heavy,
    /// As long as the rule lasts.
    Steady,
}

pub(super) fn plan(seed: u64) -> FaultPlan {
    let mut rng = Rng::with_seed(seed);
    let mut plan = FaultPlan::new(seed);
    // Half of the servers do not stream lists, so that pages see their share of what can go wrong.
    if seed % 2 == 1 {
        plan = plan.rule(Rule::on(Verb::Watch, "*").fault(Fault::NoStreamingLists));
    }
    // Something for writes, something for watches, and then anything.
    plan = plan.rule(write_rule(&mut rng)).rule(watch_rule(&mut rng));
    for _ in 0..rng.usize(6..=12) {
        plan = plan.rule(match rng.usize(..10) {
            0..4 => write_rule(&mut rng),
            4..8 => watch_rule(&mut rng),
            8 => list_rule(&mut rng),
            _ => server_rule(&mut rng),
        });
    }
    plan
}

fn write_rule(rng: &mut Rng) -> Rule {
    let verbs = match rng.usize(..5) {
        0 => Verbs::from(Verb::Create),
        1 => [Verb::Update, Verb::Patch].into(),
        2 => [Verb::Delete, Verb::DeleteCollection].into(),
        _ => Verbs::WRITES,
    };
    let resources = match rng.usize(..6) {
        0 | 1 => Resources::from("endpointslices"),
        2 => "endpoints".into(),
        3 => ["events", "leases"].into(),
        _ => Resources::ALL,
    };
    let stage = if rng.bool() { Stage::Before } else { Stage::After };
    let (dose, fault) = match rng.usize(..20) {
        0 => (Dose::Light, Fault::before(Failure::Conflict)),
        1 => (Dose::Light, Fault::before(Failure::AlreadyExists)),
        2 => (Dose::Light, Fault::before(Failure::NotFound)),
        // These say that trying again is of no use, and clients wait long after them.
        3 => (Dose::Heavy, Fault::before(Failure::Forbidden)),
        4 => (Dose::Heavy, Fault::before(Failure::NamespaceTerminating)),
        5 => (Dose::Heavy, Fault::before(Failure::Invalid)),
        6 => (Dose::Light, Fault::before(too_many(rng))),
        7 => (Dose::Light, Fault::before(overloaded(rng))),
        8 => (Dose::Light, Fault::Fail(stage, Failure::Internal)),
        9 => (Dose::Light, Fault::Fail(stage, Failure::StorageTimeout)),
        10 => (Dose::Light, Fault::before(Failure::Unavailable)),
        11 | 12 => (Dose::Light, Fault::Fail(stage, Failure::Timeout)),
        13 => (Dose::Light, Fault::Fail(stage, Failure::Reset)),
        14 => (Dose::Light, Fault::Fail(stage, Failure::Closed)),
        15 => (Dose::Heavy, Fault::Fail(stage, Failure::Hang)),
        16 => (Dose::Light, Fault::CutAnswer),
        // A lost answer that is then told as something else.
        17 => (Dose::Light, Fault::after(Failure::Conflict)),
        18 => (Dose::Light, Fault::Fail(stage, Failure::NoRoute)),
        _ => (Dose::Steady, Fault::Delay(stage, latency(rng))),
    };
    rule(rng, Rule::on(verbs, resources), dose, fault)
}

fn watch_rule(rng: &mut Rng) -> Rule {
    let resources = match rng.usize(..7) {
        0 | 1 => Resources::from("pods"),
        2 => "services".into(),
        3 | 4 => "endpointslices".into(),
        5 => ["endpoints", "nodes"].into(),
        _ => Resources::ALL,
    };
    let after = match rng.usize(..3) {
        0 => After::Bytes(rng.u64(1..20_000)),
        1 => After::Events(rng.u64(..40)),
        _ => After::Time(seconds(rng, 0, 40)),
    };
    let (dose, fault) = match rng.usize(..18) {
        0 | 1 => {
            let how = match rng.usize(..3) {
                0 => Ending::Clean,
                1 => Ending::Closed,
                _ => Ending::Reset,
            };
            (Dose::Heavy, WatchFault::End { after, how }.into())
        }
        2 | 3 => {
            let (after, lasting) = (seconds(rng, 0, 30), seconds(rng, 1, 30));
            (Dose::Heavy, WatchFault::Silent { after, lasting }.into())
        }
        4 | 5 => {
            let event = if rng.bool() {
                ErrorEvent::Expired
            } else {
                ErrorEvent::Internal
            };
            (Dose::Heavy, WatchFault::Error { after, event }.into())
        }
        6 => {
            let rate = 0.05 + 0.4 * rng.f64();
            (Dose::Steady, WatchFault::Repeat { rate }.into())
        }
        7..10 => (Dose::Steady, WatchFault::Lag(latency(rng)).into()),
        10 => (Dose::Heavy, WatchFault::Malformed { after }.into()),
        11 => {
            let field = "/metadata/labels".to_owned();
            (Dose::Heavy, WatchFault::WrongType { field, after }.into())
        }
        12 => (
            Dose::Steady,
            WatchFault::NoBookmarks { initial_end: false }.into(),
        ),
        13 => (Dose::Heavy, Fault::NoStreamingLists),
        14 => (Dose::Heavy, Fault::before(Failure::Gone)),
        15 => (Dose::Heavy, Fault::before(Failure::Internal)),
        16 => (Dose::Heavy, Fault::before(overloaded(rng))),
        _ => (Dose::Heavy, Fault::before(Failure::Hang)),
    };
    rule(rng, Rule::on(Verb::Watch, resources), dose, fault)
}

fn list_rule(rng: &mut Rng) -> Rule {
    let lists = Rule::on([Verb::List, Verb::Get], "*");
    let pages = Rule::on(Verb::List, "*").continued();
    let (when, dose, fault) = match rng.usize(..8) {
        0 => (pages, Dose::Heavy, Fault::before(Failure::Gone)),
        1 => (pages, Dose::Heavy, Fault::before(Failure::Internal)),
        2 => (pages, Dose::Steady, Fault::Delay(Stage::Before, latency(rng))),
        3 => (lists, Dose::Light, Fault::CutAnswer),
        4 => (lists, Dose::Light, Fault::before(Failure::Reset)),
        5 => (lists, Dose::Light, Fault::before(Failure::Unavailable)),
        6 => (lists, Dose::Light, Fault::before(Failure::NoRoute)),
        _ => (lists, Dose::Steady, Fault::Delay(Stage::After, latency(rng))),
    };
    rule(rng, when, dose, fault)
}

fn server_rule(rng: &mut Rng) -> Rule {
    match rng.usize(..3) {
        0 => {
            let when = Rule::on(Verbs::WRITES, "*").between(Duration::ZERO, seconds(rng, 20, END));
            when.fault(Fault::Budget {
                per_second: f64::from(rng.u32(5..=50)),
                burst: rng.u32(1..=20),
                over: if rng.bool() { Over::Wait } else { Over::Refuse },
            })
        }
        1 => {
            let when = Rule::on(Verb::Watch, "*").rate(0.3).at_most(rng.u64(1..=6));
            when.between(Duration::ZERO, Duration::from_secs(END))
                .fault(Fault::Compact)
        }
        _ => {
            let when = Rule::on(Verbs::ALL, "*").rate(0.02).at_most(rng.u64(1..=10));
            when.between(Duration::ZERO, Duration::from_secs(END))
                .fault(Fault::Compact)
        }
    }
}

/// Puts bounds around a fault.
fn rule(rng: &mut Rng, when: Matcher, dose: Dose, fault: Fault) -> Rule {
    let from = if rng.bool() {
        Duration::ZERO
    } else {
        seconds(rng, 0, END / 3)
    };
    let when = when.between(from, from + seconds(rng, 5, END * 2 / 3));
    let when = match dose {
        Dose::Light => when.rate(0.02 + 0.3 * rng.f64()).at_most(rng.u64(1..=60)),
        Dose::Heavy => when.rate(0.1 + 0.4 * rng.f64()).at_most(rng.u64(1..=4)),
        Dose::Steady => when.rate(0.2 + 0.8 * rng.f64()),
    };
    when.fault(fault)
}

fn too_many(rng: &mut Rng) -> Failure {
    Failure::TooManyRequests {
        retry_after: rng.u32(1..=5),
    }
}

fn overloaded(rng: &mut Rng) -> Failure {
    Failure::Overloaded {
        retry_after: rng.u32(1..=5),
    }
}

/// Milliseconds mostly, seconds rarely.
fn latency(rng: &mut Rng) -> Latency {
    let ms = Duration::from_millis(rng.u64(1..=400));
    match rng.usize(..3) {
        0 => Latency::Constant(ms),
        1 => Latency::Uniform(Duration::ZERO, ms * 2),
        _ => Latency::Exponential {
            mean: ms,
            cap: ms * 10,
        },
    }
}

/// Between the two, in milliseconds.
fn seconds(rng: &mut Rng, from: u64, to: u64) -> Duration {
    Duration::from_millis(rng.u64(from * 1000..=to * 1000))
}
