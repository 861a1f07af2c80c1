//! Random histories under random faults, each from a seed: `loadtest chaos` runs as many more as one likes.
#![allow(
    clippy::unwrap_used,
    reason = "clippy does not see that helpers of a test are tests"
)]

use loadtest::chaos::{Summary, Trial, run_all};
use memory_apiserver::RequestRecord;

/// Fewer faults than these for each seed, or fewer operations that succeed, and the seeds test little.
const FAULTS: u64 = 20;
const OPERATIONS: u64 = 150;

fn trials(seeds: std::ops::Range<u64>, sockets: bool) -> Vec<Trial> {
    let trial = |seed| Trial {
        seed,
        sockets,
        trace: false,
    };
    seeds.map(trial).collect()
}

fn assert_all_pass(trials: &[Trial]) -> Summary {
    let summary = run_all(trials, |failure| eprintln!("{failure}\n"));
    println!("{summary}");
    assert!(
        summary.failures.is_empty(),
        "{} of {} seeds failed",
        summary.failures.len(),
        trials.len()
    );
    summary
}

#[test]
fn two_hundred_seeds_end_right_and_stay_quiet() {
    let summary = assert_all_pass(&trials(0..200, false));
    assert!(summary.faults_bit() >= 200 * FAULTS, "{summary}");
    let done: u64 = summary.operations.values().map(|count| count.done).sum();
    let refused: u64 = summary.operations.values().map(|count| count.refused).sum();
    assert!(done >= 200 * OPERATIONS, "{summary}");
    assert!(refused * 20 <= done, "{summary}");
    assert!(summary.endpoints >= 200 * 10, "{summary}");
}

/// In real time, as a process of its own would reach the server.
#[test]
fn a_few_seeds_end_right_over_sockets() {
    let summary = assert_all_pass(&trials(1000..1010, true));
    assert_eq!(summary.over_sockets, 10);
    assert!(summary.faults_bit() >= 100, "{summary}");
}

#[test]
fn twenty_seeds_replay_exactly() {
    let mut compared = 0;
    for trial in trials(0..20, false) {
        let [first, second] = [trial.run().unwrap(), trial.run().unwrap()];
        assert_eq!(first.faults, second.faults, "seed {}", trial.seed);
        // Requests that are held when the plan is lifted go on in an order that is the runtime's choice.
        let faulty = first.requests.iter().filter(|request| !request.faults.is_empty());
        let end = faulty.map(|request| request.at).max().unwrap_or_default();
        let until = |requests: Vec<RequestRecord>| {
            let before = requests.into_iter().filter(|request| request.at < end);
            masked(before.collect())
        };
        let (first, second) = (until(first.requests), until(second.requests));
        for (first, second) in first.iter().zip(&second) {
            assert_eq!(first, second, "seed {}", trial.seed);
        }
        assert_eq!(first.len(), second.len(), "seed {}", trial.seed);
        compared += first.len();
    }
    assert!(compared > 20 * 50, "{compared}");
}

/// The names of Events hold the time of the real clock, which no seed decides. If held requests are let go at one
/// moment, which goes first is the runtime's choice: those of one moment are sorted.
fn masked(mut requests: Vec<RequestRecord>) -> Vec<RequestRecord> {
    for request in &mut requests {
        if let Some((path, _)) = request.path.split_once("/events/") {
            request.path = format!("{path}/events/...");
        }
    }
    requests.sort_by_cached_key(|request| (request.at, request.resource_version, format!("{request:?}")));
    requests
}
