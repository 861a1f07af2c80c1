//! Recorded scenarios: what a kube-apiserver 1.36 with the controllers of kube-controller-manager 1.36 settled
//! on after each step, compared with what memory-apiserver and this controller settle on.
//!
//! Each scenario has an API server and a controller of its own, in one process on tokio's paused clock. The
//! comparison leaves out what no two runs share: UIDs, versions, timestamps, generated names, and the order of
//! endpoints, ports and subsets.
#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "support/cluster.rs"]
mod cluster;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "support/scenarios.rs"]
mod files;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "support/player.rs"]
mod player;

use player::{But, Player, QUIET};
use scenario::Scenario;
use serde_json::Value;
use std::collections::BTreeSet;

#[test]
fn goldens() {
    let only = std::env::var("GOLDEN").unwrap_or_default();
    let scenarios = files::scenarios(&only);
    assert!(!scenarios.is_empty(), "no scenario matches GOLDEN={only}");
    let (mut failed, mut configs) = (Vec::new(), BTreeSet::new());
    for scenario in &scenarios {
        configs.insert(scenario["config"].as_str().unwrap_or("default"));
        let name = scenario["name"].as_str().unwrap();
        let differences = play(scenario);
        let verdict = if differences.is_empty() { "ok" } else { "DIFFERS" };
        println!("{name}: {verdict}");
        for difference in differences.iter().take(12) {
            println!("    {difference}");
        }
        if !differences.is_empty() {
            failed.push(name);
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {} scenarios differ: {failed:?}",
        failed.len(),
        scenarios.len()
    );
    if only.is_empty() {
        assert_eq!(configs.len(), 2, "scenarios of both configurations were played");
        assert!(scenarios.len() >= 123, "no scenario is missing");
    }
}

/// Plays a scenario and returns what differs.
fn play(scenario: &Value) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let server = cluster::server();
        let options = cluster::options(Scenario(scenario).max_endpoints());
        let controller = cluster::controller(&server, options);
        let mut player = Player::new(scenario, &server);
        player.begin().await;
        let mut differences = Vec::new();
        for (i, step) in player.steps().iter().enumerate() {
            for operation in step["do"].as_array().unwrap() {
                player.act(operation).await;
            }
            player.settle(QUIET).await;
            let state = player.state().await;
            differences.extend(player.differences(i, &state, &But::default()));
        }
        assert!(!controller.is_finished(), "the controller has ended");
        controller.abort();
        differences
    })
}
