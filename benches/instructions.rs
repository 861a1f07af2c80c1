//! Instructions per operation, counted by callgrind: unlike times, they do not depend on the machine's mood.
//! Needs valgrind; without it, nothing is counted. `cargo bench --bench instructions [-- FILTER]`.
//!
//! The program runs itself under callgrind twice, once without the operation and once with many of it, so that
//! what the preparation costs drops out.

#[path = "support/fixtures.rs"]
#[allow(dead_code)] // Other benchmarks use more of it.
mod fixtures;

use endpointd::cluster::decode::{self, Namespaced};
use endpointd::core::facts::PodFacts;
use endpointd::core::outputs::Outputs;
use fixtures::{ENDPOINTS, SLICES, World, app_pod};
use mimalloc::MiMalloc;
use std::hint::black_box;
use std::process::Command;

/// As the program has it.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const NODES: u32 = 500;
const RUNS: u32 = 200;

/// An operation: its name, and a function that prepares it and runs it some number of times.
type Scenario = (&'static str, fn(u32));

const SCENARIOS: &[Scenario] = &[
    ("a flip among 100 pods, planned", |runs| {
        flips(SLICES, 100, 1000, runs, false)
    }),
    ("a flip among 1,000 pods, planned", |runs| {
        flips(SLICES, 1000, 1000, runs, false)
    }),
    ("a flip among 10,000 pods, planned", |runs| {
        flips(SLICES, 10_000, 1000, runs, false)
    }),
    ("a flip among 50,000 pods, planned", |runs| {
        flips(SLICES, 50_000, 1000, runs, false)
    }),
    ("a flip beside 20,000 Services, planned", |runs| {
        flips(SLICES, 100, 20_000, runs, false)
    }),
    ("a flip among 100 pods, slice built", |runs| {
        flips(SLICES, 100, 1000, runs, true)
    }),
    ("a flip among 50,000 pods, slice built", |runs| {
        flips(SLICES, 50_000, 1000, runs, true)
    }),
    ("a flip among 1,000 pods, Endpoints built", |runs| {
        flips(ENDPOINTS, 1000, 1000, runs, true)
    }),
    ("a flip among 50,000 pods, Endpoints built", |runs| {
        flips(ENDPOINTS, 50_000, 1000, runs, true)
    }),
    ("a pod event that changes nothing", unchanged),
    ("a pod decoded", decoded),
    (
        "making a pod's facts in the fixture, in each flip above",
        |runs| {
            for number in 0..runs {
                black_box(app_pod(0, number, NODES, true));
            }
        },
    ),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [run, name, runs] if run == "run" => {
            let scenario = SCENARIOS.iter().find(|(known, _)| known == name);
            let runs = runs.parse().expect("this program passes a number to itself");
            scenario.expect("this program passes a name to itself").1(runs);
        }
        _ if arguments.iter().any(|a| a == "--test" || a == "--list") => {}
        _ => report(arguments.iter().find(|argument| !argument.starts_with('-'))),
    }
}

fn report(filter: Option<&String>) {
    for (name, _) in SCENARIOS
        .iter()
        .filter(|(name, _)| filter.is_none_or(|f| name.contains(f.as_str())))
    {
        match (count(name, 0), count(name, RUNS)) {
            (Some(before), Some(after)) => {
                println!("{:>9} instructions: {name}", (after - before) / u64::from(RUNS));
            }
            _ => {
                println!("valgrind is not installed, or cannot run this program: nothing is counted");
                return;
            }
        }
    }
}

/// The instructions of a whole run of this program.
fn count(name: &str, runs: u32) -> Option<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().ok()?)
        .args(["run", name, &runs.to_string()])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.lines().find_map(|line| line.split_once("Collected : "))?;
    collected.1.trim().parse().ok()
}

fn flips(outputs: Outputs, pods: u32, others: u32, runs: u32, build: bool) {
    let mut world = World::of_one_large(outputs, pods, others, NODES);
    for turn in 0..runs {
        // Endpoints show the first of many only.
        let number = if outputs.endpoints {
            turn % 100
        } else {
            (u64::from(turn) * 7919 % u64::from(pods)) as u32
        };
        let ready = turn / pods.min(100) % 2 == 1;
        world.apply(app_pod(0, number, NODES, ready));
        let wants = world.state.plan();
        if build {
            world.write_all(&wants);
        }
    }
    // The end is the same whatever was done before.
    std::process::exit(0);
}

fn unchanged(runs: u32) {
    let mut world = World::of_one_large(Outputs::ALL, 1000, 1000, NODES);
    for number in 0..runs {
        world.apply(app_pod(0, number, NODES, true));
        assert_eq!(world.state.plan(), []);
    }
    std::process::exit(0);
}

fn decoded(runs: u32) {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/loadtest/apiserver/tests/wire/pods.watch.jsonl"
    );
    let watch = std::fs::read(path).expect("the capture is in the repository");
    let line = watch
        .split(|byte| *byte == b'\n')
        .next()
        .expect("the capture has a line");
    let object = decode::event(line).expect("the line is an event").object;
    for _ in 0..runs {
        black_box(decode::object::<Namespaced<PodFacts>>(object).expect("it is a pod"));
    }
}
