//! Every interleaving of small cases: the shard, the publisher, the reports between them, the election's consequences
//! and a small API server are pure machines here, their mailboxes are queues, and a depth-first search tries every
//! order in which they can take their turns, with one fault at every point where it can strike.
//!
//! A run prints a table: a case a line, with the states and the histories (complete orders) that it has. States that
//! two histories share are visited once; a case that has more states than it may have fails, it is never cut off.
//!
//! `EXPLORER=NAME` runs the cases whose name contains this. `tests/mutations/run` puts known defects back into the
//! source, one at a time, and shows that each is found here.
#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

#[path = "support/model.rs"]
#[allow(dead_code)] // Other tests use more of it.
mod model;

#[path = "explorer/cases.rs"]
mod cases;
#[path = "explorer/process.rs"]
mod process;
#[path = "explorer/search.rs"]
mod search;
#[path = "explorer/world.rs"]
mod world;

use std::sync::Mutex;
use std::time::Instant;

#[test]
fn every_interleaving_of_small_cases_ends_right() {
    let only = std::env::var("EXPLORER").unwrap_or_default();
    let cases: Vec<_> = cases::all()
        .into_iter()
        .filter(|case| case.name.contains(&only))
        .collect();
    assert!(!cases.is_empty(), "no case matches EXPLORER={only}");
    let next = Mutex::new(cases.iter().enumerate());
    let results = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(cases.len()) {
            // The search goes as deep as a history is long.
            let worker = std::thread::Builder::new().stack_size(256 << 20);
            let work = || {
                loop {
                    let Some((at, case)) = next.lock().unwrap().next() else {
                        break;
                    };
                    let start = Instant::now();
                    let outcome = search::explore(case);
                    if let Ok(found) = &outcome {
                        eprintln!(
                            "{} {} {:.3e} {} {:?}",
                            case.name,
                            found.states,
                            found.histories,
                            found.longest,
                            start.elapsed()
                        );
                    }
                    results.lock().unwrap().push((at, outcome, start.elapsed()));
                }
            };
            worker.spawn_scoped(scope, work).unwrap();
        }
    });
    let mut results = results.into_inner().unwrap();
    results.sort_by_key(|(at, ..)| *at);
    println!(
        "{:<58} {:>9} {:>12} {:>7} {:>8}",
        "case", "states", "histories", "longest", "seconds"
    );
    let mut failures = Vec::new();
    for (at, outcome, took) in results {
        let name = &cases[at].name;
        match outcome {
            Ok(found) => println!(
                "{name:<58} {:>9} {:>12.3e} {:>7} {:>8.1}",
                found.states,
                found.histories,
                found.longest,
                took.as_secs_f64()
            ),
            Err(violation) => {
                println!("{name:<58} VIOLATED");
                failures.push(format!("{name}: {violation}"));
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {} cases are violated\n\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n\n")
    );
}
