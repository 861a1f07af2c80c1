//! `endpointd explain`: where each pod of a Service is published, and why not.
#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "support/cluster.rs"]
mod cluster;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "support/command.rs"]
mod command;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "support/gate.rs"]
mod gate;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "support/recorded.rs"]
mod store;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "support/world.rs"]
mod world;

#[path = "explain/recorded.rs"]
mod recorded;
#[path = "explain/run.rs"]
mod run;
#[path = "explain/words.rs"]
mod words;

use endpointd::cluster::read::Reader;
use endpointd::inspect::explain::{Explanation, PodFinding};
use endpointd::ops::explain::{ExplainError, look};
use kube::Client;
use world::World;

/// Explains a Service through the world's gate.
async fn explain(world: &World, namespace: &str, service: &str) -> Result<Explanation, ExplainError> {
    look(
        &Reader::new(Client::new(world.gate.clone(), "default")),
        namespace,
        service,
    )
    .await
}

/// What is said of a pod.
fn of<'a>(explanation: &'a Explanation, pod: &str) -> &'a PodFinding {
    let found = explanation.pods.iter().find(|found| found.name == pod);
    found.unwrap_or_else(|| panic!("{pod} matches: {explanation:?}"))
}
