//! Every interleaving of small cases: the shard, the publisher, the reports between them, the election's consequences
//! and a small API server are pure machines here, their mailboxes are queues, and a depth-first search tries every
//! order in which they can take their turns, with one fault at every point where it can strike.
//!
//! A run prints a table: a case a line, with the states and the histories (complete orders) that it has. States that
//! two histories share are visited once; a case that has more states than it may have fails, it is never cut off.
//!
//! `EXPLORER=NAME` runs the cases whose name contains this, `EXPLORER_ALL=1` also those that take long, `EXPLORER_FIRST=1`
//! begins no case after one that is violated; every case that runs is searched whole. `tests/mutations/run` puts known
//! defects back into the source, one at a time, and shows that each is found here.
#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

#[path = "support/model.rs"]
#[allow(dead_code)] // Other tests use more of it.
mod model;

#[path = "explorer/cases.rs"]
mod cases;
#[path = "explorer/claims.rs"]
mod claims;
#[path = "explorer/election.rs"]
mod election;
#[path = "explorer/process.rs"]
mod process;
#[path = "explorer/scene.rs"]
mod scene;
#[path = "explorer/scenes.rs"]
mod scenes;
#[path = "explorer/search.rs"]
mod search;
#[path = "explorer/step.rs"]
mod step;
#[path = "explorer/world.rs"]
mod world;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The defects that `tests/mutations` puts back.
const MUTATIONS: usize = 35;

/// A case, by its name.
type Search = (
    String,
    Box<dyn Fn() -> Result<search::Found, String> + Send + Sync>,
);

fn searches() -> Vec<Search> {
    let mut searches: Vec<Search> = Vec::new();
    let all = std::env::var_os("EXPLORER_ALL").is_some();
    for case in cases::all().into_iter().filter(|case| all || !case.long) {
        let name = case.name.clone();
        searches.push((
            name,
            Box::new(move || search::explore(&world::World::start(&case))),
        ));
    }
    for scene in scenes::all() {
        let name = scene.name.to_owned();
        searches.push((
            name,
            Box::new(move || search::explore(&scene::Stage::start(&scene))),
        ));
    }
    for claim in claims::all() {
        let name = claim.name.clone();
        searches.push((
            name,
            Box::new(move || search::explore(&claims::Stage::start(&claim))),
        ));
    }
    for (name, start) in election::cases(if all { 7 } else { 5 }) {
        searches.push((name, Box::new(move || search::explore(&start))));
    }
    searches
}

#[test]
fn every_interleaving_of_small_cases_ends_right() {
    let only = std::env::var("EXPLORER").unwrap_or_default();
    let mut cases = searches();
    cases.retain(|(name, _)| name.contains(&only));
    assert!(!cases.is_empty(), "no case matches EXPLORER={only}");
    let first = std::env::var_os("EXPLORER_FIRST").is_some();
    // The largest begin first, so that no core is idle while the last one is searched. They come last where only the first
    // violation counts, since the small ones find most defects.
    let is_large = |name: &str| name.contains("succession") || name.contains("lost and won again");
    cases.sort_by_key(|(name, _)| is_large(name) == first);
    let next = Mutex::new(cases.iter().enumerate());
    let results = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(cases.len()) {
            // The search goes as deep as a history is long.
            let worker = std::thread::Builder::new().stack_size(256 << 20);
            let work = || {
                loop {
                    let Some((at, (_, explore))) = next.lock().next() else {
                        break;
                    };
                    let start = Instant::now();
                    let outcome = explore();
                    let took = Instant::now().saturating_duration_since(start);
                    if first && outcome.is_err() {
                        next.lock().by_ref().for_each(drop);
                    }
                    results.lock().push((at, outcome, took));
                }
            };
            worker.spawn_scoped(scope, work).unwrap();
        }
    });
    let mut results = results.into_inner();
    results.sort_by_key(|(at, ..)| *at);
    println!(
        "{:<66} {:>9} {:>12} {:>7} {:>8}",
        "case", "states", "histories", "longest", "seconds"
    );
    let (mut failures, mut whole, mut states, mut histories) = (Vec::new(), 0, 0, 0.0);
    for (at, outcome, took) in results {
        let name = &cases[at].0;
        match outcome {
            Ok(found) => {
                whole += 1;
                states += found.states;
                histories += found.histories;
                println!(
                    "{name:<66} {:>9} {:>12.3e} {:>7} {:>8.1}",
                    found.states,
                    found.histories,
                    found.longest,
                    took.as_secs_f64()
                );
            }
            Err(violation) => {
                println!("{name:<66} VIOLATED");
                failures.push(format!("{name}: {violation}"));
            }
        }
    }
    println!("{whole} cases whole: {states} states, {histories:.3e} histories");
    assert!(
        failures.is_empty(),
        "{} of {} cases are violated\n\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n\n")
    );
}

/// Whatever the order in which two controllers hear of changes and of each other's writes, they come to rest, and what is
/// published is what should be.
#[test]
fn two_controllers_come_to_rest_in_orders_chosen_by_chance() {
    let walks = if std::env::var_os("EXPLORER_ALL").is_some() {
        20_000
    } else {
        300
    };
    for scene in scenes::large() {
        let start = scene::Stage::start(&scene);
        for seed in 0..walks {
            let end = start.clone().walk(seed, 3000);
            assert_eq!(end, Ok(()), "{}, seed {seed}", scene.name);
        }
    }
}

/// Each of the defects in `tests/mutations` can still be put back: the lines around it are as they were.
#[test]
fn the_mutations_fit_the_source() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut patches = 0;
    for entry in std::fs::read_dir(root.join("tests/mutations")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "patch") {
            continue;
        }
        patches += 1;
        let patch = std::fs::read_to_string(&path).unwrap();
        for file in patch.split("\n--- a/").skip(1) {
            let (name, hunks) = file.split_once('\n').unwrap();
            let source = std::fs::read_to_string(root.join(name)).unwrap();
            for hunk in hunks.split("\n@@").skip(1) {
                let lines = hunk.lines().skip(1);
                let before = lines.filter_map(|line| line.strip_prefix([' ', '-']));
                let before: String = before.flat_map(|line| [line, "\n"]).collect();
                assert!(
                    source.contains(&before),
                    "{}: these lines are gone:\n{before}",
                    path.display()
                );
            }
        }
    }
    assert_eq!(
        patches, MUTATIONS,
        "a defect is missing, or one more is put back than is known here"
    );
}
