//! `endpointd audit`: it says that something is out of sync exactly if the controller would write something.
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

#[path = "audit/churn.rs"]
mod churn;
#[path = "audit/reads.rs"]
mod reads;
#[path = "audit/recorded.rs"]
mod recorded;
#[path = "audit/run.rs"]
mod run;
#[path = "audit/words.rs"]
mod words;

use endpointd::cluster::read::{ReadError, Reader};
use endpointd::core::namespace::Settings;
use endpointd::inspect::findings::{Finding, Report};
use endpointd::ops::audit::{Scope, audit};
use kube::Client;
use std::time::Duration;
use world::World;

/// Audits a world as it is, through its gate.
async fn look(world: &World, settle: Duration) -> Result<Report, ReadError> {
    let scope = Scope {
        namespace: None,
        settings: Settings {
            seed: 0,
            ..world.options.settings
        },
        settle,
    };
    let reader = Reader::new(Client::new(world.gate.clone(), "default"));
    audit(&reader, &scope).await
}

/// What it finds in a world that stands still.
async fn report(world: &World) -> Report {
    look(world, Duration::from_secs(2)).await.unwrap()
}

/// `update endpointslice s-abcde`, with the names of objects that are there.
fn outline(finding: &Finding) -> String {
    let name = finding.name.as_deref().unwrap_or("*");
    format!("{:?} {} {name}", finding.verb, finding.output.as_str()).to_lowercase()
}
