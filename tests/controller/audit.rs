//! `endpointd audit`: it says that something is out of sync exactly if the controller would write something.

mod churn;
mod problems;
mod reads;
mod recorded;
mod run;
mod words;

use crate::world::World;
use endpointd::cluster::read::Reader;
use endpointd::core::namespace::Settings;
use endpointd::inspect::findings::{Finding, Report};
use endpointd::ops::audit::{AuditError, Scope, audit};
use kube::Client;
use std::time::Duration;

/// Audits a world as it is, through its gate.
async fn look(world: &World, settle: Duration) -> Result<Report, AuditError> {
    let scope = Scope {
        labels: None,
        namespace: None,
        settings: Settings {
            seed: 0,
            ..world.options.settings
        },
        settle,
        problems: false,
    };
    let reader = Reader::new(Client::new(world.gate.clone(), "default"));
    audit(&reader, &scope).await
}

/// Returns a report as users read it, without colours.
fn plain(report: &Report) -> String {
    anstream::adapter::strip_str(&report.to_text()).to_string()
}

/// The report on a world that stands still.
async fn report(world: &World) -> Report {
    look(world, Duration::from_secs(2)).await.unwrap()
}

/// `update endpointslice s-abcde`, with the names of objects that are there.
fn outline(finding: &Finding) -> String {
    let name = finding.name.as_deref().unwrap_or("*");
    format!("{:?} {} {name}", finding.verb, finding.output.as_str()).to_lowercase()
}
