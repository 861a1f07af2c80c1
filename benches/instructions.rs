//! Instructions per operation, counted by callgrind: unlike times, they do not depend on the machine's mood.
//! Needs valgrind; without it, nothing is counted. `cargo bench --bench instructions [-- FILTER]`.
//!
//! The program runs itself under callgrind twice, once without the operation and once with many of it, so that
//! what the preparation costs drops out.

#[path = "support/fixtures.rs"]
#[allow(dead_code)] // Other benchmarks use more of it.
mod fixtures;

use endpointd::cluster::codec::{self, Namespaced};
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

/// An operation whose instructions are counted.
enum Operation {
    /// One of `pods` pods flips, beside `others` other Services; `built`: with the bodies that are due.
    Flip {
        outputs: Outputs,
        pods: u32,
        others: u32,
        built: bool,
    },
    Unchanged,
    Decode,
    Facts,
}

const fn flip(outputs: Outputs, pods: u32, others: u32, built: bool) -> Operation {
    Operation::Flip {
        outputs,
        pods,
        others,
        built,
    }
}

const PLANNED: bool = false;
const BUILT: bool = true;

const OPERATIONS: &[(&str, Operation)] = &[
    ("a flip among 100 pods, planned", flip(SLICES, 100, 1000, PLANNED)),
    (
        "a flip among 1,000 pods, planned",
        flip(SLICES, 1000, 1000, PLANNED),
    ),
    (
        "a flip among 10,000 pods, planned",
        flip(SLICES, 10_000, 1000, PLANNED),
    ),
    (
        "a flip among 50,000 pods, planned",
        flip(SLICES, 50_000, 1000, PLANNED),
    ),
    (
        "a flip beside 20,000 Services, planned",
        flip(SLICES, 100, 20_000, PLANNED),
    ),
    (
        "a flip among 100 pods, slice built",
        flip(SLICES, 100, 1000, BUILT),
    ),
    (
        "a flip among 50,000 pods, slice built",
        flip(SLICES, 50_000, 1000, BUILT),
    ),
    (
        "a flip among 1,000 pods, Endpoints built",
        flip(ENDPOINTS, 1000, 1000, BUILT),
    ),
    (
        "a flip among 50,000 pods, Endpoints built",
        flip(ENDPOINTS, 50_000, 1000, BUILT),
    ),
    ("a pod event that changes nothing", Operation::Unchanged),
    ("a pod decoded", Operation::Decode),
    (
        "the facts of a pod made by the fixture, in each event above",
        Operation::Facts,
    ),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [run, name, runs] if run == "run" => {
            let operation = OPERATIONS.iter().find(|(known, _)| known == name);
            let runs = runs.parse().expect("this program passes a number to itself");
            perform(&operation.expect("this program passes a name to itself").1, runs);
        }
        _ if arguments.iter().any(|a| a == "--test" || a == "--list") => {}
        _ => report(arguments.iter().find(|argument| !argument.starts_with('-'))),
    }
}

fn report(filter: Option<&String>) {
    for (name, _) in OPERATIONS {
        if filter.is_some_and(|filter| !name.contains(filter.as_str())) {
            continue;
        }
        let Some((before, after)) = count(name, 0).zip(count(name, RUNS)) else {
            println!("valgrind is not installed, or cannot run this program: nothing is counted");
            return;
        };
        println!("{:>9} instructions: {name}", (after - before) / u64::from(RUNS));
    }
}

fn perform(operation: &Operation, runs: u32) {
    match *operation {
        Operation::Flip {
            outputs,
            pods,
            others,
            built,
        } => flips(outputs, pods, others, runs, built),
        Operation::Unchanged => unchanged(runs),
        Operation::Decode => decoded(runs),
        Operation::Facts => {
            for number in 0..runs {
                black_box(app_pod(0, number, NODES, true));
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

fn flips(outputs: Outputs, pods: u32, others: u32, runs: u32, built: bool) {
    let mut world = World::of_one_large(outputs, pods, others, NODES);
    for turn in 0..runs {
        // Endpoints show the first of many only.
        let span = if outputs.endpoints { 100 } else { pods };
        let number = (u64::from(turn) * 7919 % u64::from(span)) as u32;
        let ready = turn / span % 2 == 1;
        world.apply(app_pod(0, number, NODES, ready));
        let items = world.state.plan();
        if built {
            world.write_all(&items);
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
        "/loadtest/apiserver/tests/wire/pods.watch.pb"
    );
    let watch = std::fs::read(path).expect("the capture is in the repository");
    let event = codec::events(&watch).next().expect("the capture has an event");
    let object = event.expect("it is an event").object;
    for _ in 0..runs {
        black_box(codec::object::<Namespaced<PodFacts>>(object).expect("it is a pod"));
    }
}
