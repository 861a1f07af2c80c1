//! `endpointd explain`: where each pod of a Service is published, and why not.

mod recorded;
mod run;
mod words;

use crate::world::World;
use endpointd::cluster::read::Reader;
use endpointd::inspect::explain::{Explanation, PodFinding};
use endpointd::ops::explain::{ExplainError, look};
use kube::Client;

/// Explains a Service through the world's gate.
async fn explain(world: &World, namespace: &str, service: &str) -> Result<Explanation, ExplainError> {
    look(
        &Reader::new(Client::new(world.gate.clone(), "default")),
        namespace,
        service,
        world.options.settings,
        false,
    )
    .await
}

/// The finding about a pod.
fn of<'a>(explanation: &'a Explanation, pod: &str) -> &'a PodFinding {
    let found = explanation.pods.iter().find(|found| found.name == pod);
    found.unwrap_or_else(|| panic!("{pod} matches: {explanation:?}"))
}
