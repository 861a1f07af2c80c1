//! The controllers that take turns under a load.

use crate::process::Process;
use crate::real::cluster::{Cluster, Endpointd};
use crate::report;
use crate::report::compare::Comparison;
use crate::report::model::Report;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// How long kube-controller-manager may take to end.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Flags of kube-controller-manager that lift its limits.
pub(super) const LIFTED: [&str; 2] = ["--kube-api-qps=5000", "--kube-api-burst=10000"];

/// The controller that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contestant {
    Upstream,
    Endpointd,
}

/// The limits that both run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limits {
    Default,
    Lifted,
}

/// A controller that runs.
pub(super) enum Running {
    Upstream(Box<Process>),
    Endpointd(Box<Endpointd>),
}

/// Saves the report of each controller under what it was measured under, and puts both beside each other: as tables, and as a page.
pub(super) fn compare(folder: &Path, measured: Vec<(Contestant, String, Report)>) -> anyhow::Result<()> {
    let mut pairs: BTreeMap<String, Vec<Report>> = BTreeMap::new();
    for (contestant, under, report) in measured {
        report::save(&report, &folder.join(&under).join(contestant.name()))?;
        pairs.entry(under).or_default().push(report);
    }
    for (under, pair) in pairs {
        let page = folder.join(&under).join("compare.html");
        let comparison = Comparison::of(pair.into_iter().map(|report| (&*page, report)).collect());
        comparison.save(&page)?;
        eprintln!("{under}\n{}{}\n", comparison.table(false), page.display());
    }
    Ok(())
}

// === impl Contestant ===

impl Contestant {
    pub(super) const BOTH: [Self; 2] = [Self::Upstream, Self::Endpointd];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Upstream => "kube-controller-manager",
            Self::Endpointd => "endpointd",
        }
    }

    /// Starts it with these controllers, as `--controllers` has them.
    pub(super) async fn start(
        self,
        cluster: &mut Cluster,
        controllers: &str,
        limits: Limits,
    ) -> anyhow::Result<Running> {
        Ok(match self {
            Self::Upstream => {
                let flags: &[&str] = match limits {
                    Limits::Default => &[],
                    Limits::Lifted => &LIFTED,
                };
                Running::Upstream(Box::new(cluster.start_upstream(controllers, flags)?))
            }
            Self::Endpointd => {
                let controllers = format!("--controllers={controllers}");
                let mut flags = vec![&*controllers];
                if limits == Limits::Lifted {
                    flags.extend(["--kube-api-qps=0", "--watchers=0"]);
                }
                Running::Endpointd(Box::new(cluster.start_endpointd("endpointd", 100, &flags).await?))
            }
        })
    }
}

// === impl Limits ===

impl Limits {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Lifted => "lifted",
        }
    }
}

// === impl Running ===

impl Running {
    pub(super) fn pid(&self) -> i32 {
        match self {
            Self::Upstream(process) => process.pid(),
            Self::Endpointd(endpointd) => endpointd.pid(),
        }
    }

    /// Where its metrics are, if they can be read without credentials.
    pub(super) fn metrics_url(&self) -> Option<String> {
        match self {
            Self::Upstream(_) => None,
            Self::Endpointd(endpointd) => Some(endpointd.metrics_url()),
        }
    }

    /// Runs `work`, which fails as soon as the controller is gone.
    pub(super) async fn during<T>(
        &mut self,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        match self {
            Self::Upstream(process) => process.during(work).await,
            Self::Endpointd(endpointd) => endpointd.during(work).await,
        }
    }

    pub(super) async fn stop(self) -> anyhow::Result<()> {
        match self {
            Self::Upstream(process) => process.end_or_kill(PATIENCE).await,
            Self::Endpointd(endpointd) => endpointd.stop().await,
        }
    }
}
