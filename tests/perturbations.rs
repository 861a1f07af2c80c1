//! Perturbations: each recorded scenario is played again and again, and each time one thing goes wrong for the
//! controller. It must end as recorded all the same, be quiet then, and leave nothing to do for the next process.
//!
//! The plans are those of Sieve (OSDI '22), made exhaustive: an undisturbed run in virtual time notes every request
//! that the controller sends and every event that it is shown, and there is a plan for each of them. Runs replay
//! exactly, so a plan names a request by its number and an event by its version, and a run in which the plan finds
//! something else there fails.
//!
//! | sort | what goes wrong | why a server or a node does that |
//! |---|---|---|
//! | [`Sort::Killed`] | the process is killed before each request, and after each write | any process can die at any time |
//! | [`Sort::Late`] | a watch falls behind, from each event on | watches are served from a cache, which may lag |
//! | [`Sort::LateAfterRestart`] | killed before each event; the next process's watch falls behind | the same |
//! | [`Sort::Stale`] | the next process is shown an older state, by lists too | see below |
//! | [`Sort::Hidden`] | an event is never shown, for each event | a watch breaks, and the history is compacted before it is resumed |
//!
//! # Older views
//!
//! The lists of the controller carry no resourceVersion. A server answers such a list, streamed or not, with a state
//! at least as new as the moment of the request, also from its cache and also in a cluster of several servers; so no
//! server that keeps its word shows a list of the past, and what a process can get to see late are watches.
//! [`Sort::Stale`] goes beyond that: it is what would happen with `resourceVersion=0`, or on a server that breaks its
//! word. The controller may then write wrong content for as long as the view is old; the test is that it has put all
//! of it right when the view has caught up.
//!
//! # What is compared
//!
//! All that the test `goldens` compares, at the end of each step in which the controller can know everything, and
//! after those. Left out beyond that:
//!
//! - Trigger times of writes that the plan touches. An object shows the time of its last write. A process that
//!   starts knows of no change that came before it and publishes such changes without a time; a change that is shown
//!   late or together with others shares another write. So the annotation is not compared in the first step that is
//!   compared after the disturbance. In later steps it is, on each object that the step changes: exactly, or, where
//!   events were moved, as never later than recorded, since a Ready time that changes nothing that is published goes
//!   with the next write (upstream does the same). In `to-external-name`, times that wait in the memory of a process
//!   while the Service is an external name are lost with it.
//! - What is left of a Service that is not managed any more (it was deleted, or is being deleted, or lost its selector,
//!   or became an external name), where the controller did not know the Service's last state in time. Such leftovers
//!   stay as the controller last left them; the garbage collector, which is off in the recordings, has those of
//!   deleted Services.
//! - Scenarios that delete a Node, where events are late, hidden or shown anew: whether an endpoint is published while its
//!   Node is missing depends on what was seen first, as it should. Only processes are killed in these. One in which
//!   creates are refused is left out, since it never comes to rest.
//!
//! # How much is played
//!
//! `PERTURBATIONS=all` plays every plan. Otherwise it is a fixed tenth of them, chosen by a hash of their words. Where
//! many plans are alike, one stands for them: before the first step all scenarios are alike, so that the requests of a
//! start are disturbed in one of them; and of the thousand pods of `truncate`, which differ by name and address, the
//! events of five are disturbed. `GOLDEN` and `PERTURBATION` choose scenarios and plans by a part of their words.
#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "support/cluster.rs"]
mod cluster;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "support/scenarios.rs"]
mod files;
#[path = "perturbations/line.rs"]
mod line;
#[path = "perturbations/plan.rs"]
mod plan;
#[path = "support/player.rs"]
mod player;
#[path = "perturbations/trial.rs"]
mod trial;

use parking_lot::Mutex;
use plan::{Plan, Sort};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use tokio::time::Instant;

/// Does something with each of many things, on as many threads as there are cores.
fn on_all_cores<T: Sync, R: Send>(things: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(thing) = things.get(i) else { return };
                    let result = work(thing);
                    done.lock().push((i, result));
                }
            });
        }
    });
    let mut done = done.into_inner();
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}

/// True if a plan is among the fixed tenth that is always carried out: by a hash (FNV-1a) of its words.
fn is_in_the_tenth(name: &str, plan: &Plan) -> bool {
    let text = format!("{name} {plan}");
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> 32).is_multiple_of(10)
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panic: {}", text.unwrap_or("?"))
}

/// Real time: this is outside of the runtimes with a paused clock.
fn passed(since: Instant) -> Duration {
    Instant::now().saturating_duration_since(since)
}

/// The outcome of the plans of a sort.
#[derive(Default)]
struct SyncStats {
    plans: usize,
    played: usize,
    failed: usize,
    time: Duration,
}

#[test]
fn every_plan_ends_as_recorded() {
    let only = std::env::var("GOLDEN").unwrap_or_default();
    let wanted = std::env::var("PERTURBATION").unwrap_or_default();
    let all = std::env::var("PERTURBATIONS").is_ok_and(|which| which == "all");
    let mut scenarios = files::scenarios(&only);
    let refuses = |op: &Value| op["create"]["kind"] == "ResourceQuota";
    scenarios.retain(|scenario| !::scenario::Scenario(scenario).operations().any(refuses));
    let start = Instant::now();
    let runs = on_all_cores(&scenarios, trial::undisturbed);
    let mut plans: Vec<(&Value, Plan)> = Vec::new();
    let mut stats_by_sort: BTreeMap<Sort, SyncStats> = BTreeMap::new();
    for (scenario, run) in scenarios.iter().zip(&runs) {
        let run = run
            .as_ref()
            .unwrap_or_else(|d| panic!("{}: {d:?}", scenario["name"]));
        let deletes_node = ::scenario::Scenario(scenario)
            .operations()
            .any(|op| op["delete"]["kind"] == "Node");
        for plan in plan::plans(scenario, run) {
            if deletes_node && plan.sort != Sort::Killed {
                continue;
            }
            let stats = stats_by_sort.entry(plan.sort).or_default();
            stats.plans += 1;
            let name = scenario["name"].as_str().unwrap();
            if plan.to_string().contains(&wanted) && (all || is_in_the_tenth(name, &plan)) {
                stats.played += 1;
                plans.push((scenario, plan));
            }
        }
    }
    let results = on_all_cores(&plans, |(scenario, plan)| {
        let start = Instant::now();
        let played = AssertUnwindSafe(|| trial::disturbed(scenario, plan));
        let differences = std::panic::catch_unwind(played).unwrap_or_else(|panic| vec![message(&*panic)]);
        if !differences.is_empty() {
            let name = scenario["name"].as_str().unwrap();
            let shown: Vec<_> = differences.iter().take(6).map(|d| format!("\n    {d}")).collect();
            println!("{name}: {plan}{}", shown.concat());
        }
        (differences.len(), passed(start))
    });
    let mut failed = 0;
    for ((_, plan), (differences, time)) in plans.iter().zip(&results) {
        let stats = stats_by_sort.get_mut(&plan.sort).unwrap();
        stats.time += *time;
        failed += usize::from(*differences > 0);
        stats.failed += usize::from(*differences > 0);
    }
    // Past the capture of tests that pass: what was played is part of the result.
    let mut account = std::io::stderr().lock();
    for (sort, stats) in &stats_by_sort {
        let SyncStats { plans, played, .. } = stats;
        writeln!(
            account,
            "{sort}: {played} of {plans} plans, {:.1?} of work, {} failed",
            stats.time, stats.failed
        )
        .unwrap();
    }
    let known: usize = stats_by_sort.values().map(|stats| stats.plans).sum();
    let (played, scenarios) = (plans.len(), scenarios.len());
    let time = passed(start);
    writeln!(
        account,
        "perturbations: {played} of {known} plans on {scenarios} scenarios in {time:.1?}"
    )
    .unwrap();
    drop(account);
    assert_eq!(failed, 0, "plans end otherwise than recorded");
    if only.is_empty() {
        assert!(known > 12_000, "plans are missing");
    }
}
