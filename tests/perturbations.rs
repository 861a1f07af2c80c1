//! Perturbations.
#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "support/cluster.rs"]
mod cluster;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "support/scenarios.rs"]
mod files;
#[path = "perturbations/line.rs"]
mod line;
#[path = "support/normal.rs"]
mod normal;
#[path = "perturbations/plan.rs"]
mod plan;
#[path = "support/player.rs"]
mod player;
#[path = "perturbations/trial.rs"]
mod trial;

use plan::{Plan, Sort};
use serde_json::Value;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

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
                    done.lock().unwrap().push((i, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Whether a plan is among the fixed tenth that is always carried out: by a hash (FNV-1a) of its words.
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

#[derive(Default)]
struct Tally {
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
    let scenarios = files::scenarios(&only);
    let start = Instant::now();
    let runs = on_all_cores(&scenarios, |scenario| trial::undisturbed(scenario));
    println!("undisturbed: {:?}", start.elapsed());
    let mut plans: Vec<(&Value, Plan)> = Vec::new();
    let mut tallies: BTreeMap<Sort, Tally> = BTreeMap::new();
    for (scenario, run) in scenarios.iter().zip(&runs) {
        let run = run.as_ref().unwrap_or_else(|d| panic!("{}: {d:?}", scenario["name"]));
        for plan in plan::plans(scenario, run) {
            let tally = tallies.entry(plan.sort).or_default();
            tally.plans += 1;
            let name = scenario["name"].as_str().unwrap();
            if plan.to_string().contains(&wanted) && (all || is_in_the_tenth(name, &plan)) {
                tally.played += 1;
                plans.push((scenario, plan));
            }
        }
    }
    let results = on_all_cores(&plans, |(scenario, plan)| {
        let start = Instant::now();
        let played = AssertUnwindSafe(|| trial::disturbed(scenario, plan));
        let result = std::panic::catch_unwind(played).unwrap_or_else(|panic| vec![message(&*panic)]);
        (result, start.elapsed())
    });
    let mut failed = 0;
    for ((scenario, plan), (differences, time)) in plans.iter().zip(&results) {
        let tally = tallies.get_mut(&plan.sort).unwrap();
        tally.time += *time;
        if differences.is_empty() {
            continue;
        }
        failed += 1;
        tally.failed += 1;
        println!("{} {plan}", scenario["name"]);
        for difference in differences.iter().take(6) {
            println!("    {difference}");
        }
    }
    for (sort, tally) in &tallies {
        println!(
            "{sort}: {} plans, {} played in {:?}, {} failed",
            tally.plans, tally.played, tally.time, tally.failed
        );
    }
    println!("{} plans in {:?}", plans.len(), start.elapsed());
    assert_eq!(failed, 0);
}
