//! The state that kube-controller-manager 1.36 had settled on, put back as it was recorded.

use crate::dry_run::{DryRun, SURE};
use crate::gate::Sent;
use crate::store::{Store, Totals, scenarios};
use crate::world::{World, outlines};
use serde_json::Value;
use tokio::time::sleep;

/// Steps after which a new controller must write, upstream's own included, and why.
const WRITES: [(&str, usize, &str); 1] = [(
    "slice-disowned",
    1,
    "upstream leaves the Service with a slice that is another manager's, but only until it looks again",
)];

#[test]
fn objects_that_upstream_left_are_adopted_without_a_write() {
    let only = std::env::var("GOLDEN").unwrap_or_default();
    let (mut failed, mut adopted) = (Vec::new(), Totals::default());
    for scenario in scenarios(&only) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        failed.extend(runtime.block_on(play(&scenario, &mut adopted)));
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    if only.is_empty() {
        assert!(
            adopted.steps >= 200 && adopted.slices >= 700 && adopted.endpoints >= 500,
            "scenarios were left out: {adopted:?}"
        );
    }
}

/// Plays what users did, puts upstream's answer to it, and starts a controller on that, twice, step by step.
async fn play(scenario: &Value, totals: &mut Totals) -> Vec<String> {
    let mut store = Store::new(scenario);
    let mut world = World::new(store.limit);
    let name = scenario["name"].as_str().unwrap();
    store.begin(&world.api).await;
    // A dry run beside it finds the same.
    let dry_run = DryRun::start(&world.server, world.options);
    let mut failed = Vec::new();
    for (i, step) in scenario["steps"].as_array().unwrap().iter().enumerate() {
        store.play(&world.api, step, totals).await;
        let reason = WRITES
            .iter()
            .find(|(scenario, at, _)| (*scenario, *at) == (name, i));
        sleep(SURE).await;
        let differing = dry_run.out_of_sync();
        if differing != usize::from(reason.is_some()) {
            failed.push(format!(
                "{name} step {i}: {differing} Services are out of sync to a dry run"
            ));
        }
        for run in ["first", "second"] {
            world.gate.take();
            let sent = world.start_up().await;
            world.stop().await;
            let writes: Vec<&Sent> = sent.iter().filter(|s| s.verb != "GET").collect();
            match reason {
                Some((_, _, why)) if run == "first" => {
                    assert!(
                        !writes.is_empty(),
                        "{name} step {i} is listed without need: {why}"
                    );
                }
                _ if writes.is_empty() => {}
                _ => failed.push(format!(
                    "{name} step {i}, {run} start: {:?} {}",
                    outlines(&sent),
                    writes[0].body
                )),
            }
        }
    }
    dry_run.stop().await;
    failed
}
