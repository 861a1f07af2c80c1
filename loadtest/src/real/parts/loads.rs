//! Load on a real API server, with kube-controller-manager and with endpointd in turns on the same objects.
//!
//! ```text
//!  Filled (once) ──► for each round, load, limits and controller: start it, change pods, measure, end it ──► Comparisons
//! ```

use super::contestants::{Contestant, Limits, compare};
use super::{Work, words};
use crate::real::cluster::Cluster;
use crate::real::table::Outcome;
use crate::report::format::plural;
use crate::report::model::Report;
use crate::run::{Filled, merged};
use anyhow::{Context, ensure};
use std::ffi::OsString;
use std::time::Duration;
use tokio::time::sleep;

/// How long the API server has to itself between two measurements.
const PAUSE: Duration = Duration::from_secs(2);
/// How long a controller may take to have everything right, at the beginning and after the changes.
const TIME_LIMIT: &str = "--time-limit=180s";
const SEED: &str = "--seed=42";

/// The changes to be made, and the watchers.
#[derive(Clone, Copy, Debug)]
struct Load {
    rate: u32,
    /// Endpoints objects are published, too.
    endpoints: bool,
    watchers: Option<u16>,
}

/// How large everything is.
struct Sizes {
    pods: usize,
    namespaces: usize,
    services: usize,
    nodes: usize,
    loads: Vec<Load>,
    watchers_http2: bool,
    duration: &'static str,
    rounds: usize,
}

/// Changes at fixed rates, seen by one client.
pub(super) async fn steady(work: &Work) -> anyhow::Result<Outcome> {
    let load = |rate, endpoints| Load {
        rate,
        endpoints,
        watchers: None,
    };
    let sizes = if work.quick {
        Sizes {
            loads: vec![load(20, false), load(50, false)],
            ..Sizes::quick(work)
        }
    } else {
        Sizes {
            loads: vec![load(20, false), load(50, false), load(100, false), load(30, true)],
            ..Sizes::whole(work)
        }
    };
    measure(work, "load", &sizes).await
}

/// Changes that are seen by many kube-proxies.
pub(super) async fn fan_out(work: &Work) -> anyhow::Result<Outcome> {
    let load = |rate, watchers| Load {
        rate,
        endpoints: false,
        watchers: Some(watchers),
    };
    let sizes = if work.quick {
        Sizes {
            loads: vec![load(20, work.watchers.unwrap_or(40))],
            ..Sizes::quick(work)
        }
    } else {
        Sizes {
            loads: vec![load(50, work.watchers.unwrap_or(300))],
            ..Sizes::whole(work)
        }
    };
    measure(work, "fan-out", &sizes).await
}

async fn measure(work: &Work, part: &str, sizes: &Sizes) -> anyhow::Result<Outcome> {
    let mut cluster = work.cluster(part, &[]).await?;
    let kubeconfig = cluster.admin().to_string_lossy().into_owned();
    let fill = sizes.line(&kubeconfig, &sizes.loads[0]);
    let filled = Filled::fill(fill).await.context("filling the cluster")?;
    let mut cells = Vec::new();
    for load in &sizes.loads {
        for limits in [Limits::Default, Limits::Lifted] {
            for contestant in Contestant::BOTH {
                cells.push((*load, limits, contestant, Vec::new()));
            }
        }
    }
    let mut number = 0;
    for round in 1..=sizes.rounds {
        for (load, limits, contestant, reports) in &mut cells {
            number += 1;
            let what = format!("{contestant:?}, {limits:?}, {load:?}, round {round}");
            eprintln!("{part}: {what}");
            let report = turn(
                &mut cluster,
                &filled,
                sizes,
                (*load, *limits, *contestant),
                number,
            )
            .await;
            let report = report.with_context(|| what.clone())?;
            ensure!(
                report.verdict.verified,
                "{what}: not verified: {}",
                report.verdict.problems.join("; ")
            );
            reports.push(report);
            sleep(PAUSE).await;
        }
    }
    cluster.stop().await?;
    let mut merged_cells = Vec::new();
    for (load, limits, contestant, reports) in cells {
        let report = merged(reports).context("there was no round")?;
        merged_cells.push((contestant, name(load, limits), report));
    }
    compare(&work.out.join(part), merged_cells)?;
    let outcome = Outcome::passed(format!(
        "{} with default limits and without, {} each, {} pods: all verified",
        plural(sizes.loads.len() as u64, "load"),
        plural(sizes.rounds as u64, "round"),
        sizes.pods
    ));
    Ok(outcome)
}

/// A name for what both controllers were measured under.
fn name(load: Load, limits: Limits) -> String {
    let outputs = if load.endpoints { "-both-outputs" } else { "" };
    format!("{}-{}{outputs}", limits.name(), load.rate)
}

/// One controller takes its turn: it starts, pods change, and it ends.
async fn turn(
    cluster: &mut Cluster,
    filled: &Filled,
    sizes: &Sizes,
    (load, limits, contestant): (Load, Limits, Contestant),
    number: usize,
) -> anyhow::Result<Report> {
    let controllers = if load.endpoints {
        "endpoints-controller,endpointslice-controller"
    } else {
        "endpointslice-controller"
    };
    let mut running = contestant.start(cluster, controllers, limits).await?;
    let canary = format!("canary-{number}");
    running.during(cluster.serving(&canary)).await?;
    let kubeconfig = cluster.admin().to_string_lossy().into_owned();
    let mut line = sizes.line(&kubeconfig, &load);
    let pids = std::iter::once(running.pid()).chain(cluster.plane()?.pids());
    line.extend(pids.map(|pid| OsString::from(format!("--pid={pid}"))));
    line.extend(
        running
            .metrics_url()
            .map(|url| format!("--metrics-url={url}").into()),
    );
    line.push(format!("--title={}", contestant.name()).into());
    let report = running.during(Box::pin(filled.measure(line))).await?;
    running.stop().await?;
    Ok(report)
}

// === impl Sizes ===

impl Sizes {
    /// As many nodes as there are proxies in the fan-out loads, since endpointd takes each node for one.
    fn whole(work: &Work) -> Self {
        Self {
            pods: work.pods.unwrap_or(20_000),
            namespaces: 4,
            services: 40,
            nodes: usize::from(work.watchers.unwrap_or(300)),
            loads: Vec::new(),
            watchers_http2: work.watchers_http2,
            duration: "20s",
            rounds: work.rounds.unwrap_or(3),
        }
    }

    fn quick(work: &Work) -> Self {
        Self {
            pods: work.pods.unwrap_or(2_000),
            namespaces: 4,
            services: 8,
            nodes: usize::from(work.watchers.unwrap_or(40)),
            loads: Vec::new(),
            watchers_http2: work.watchers_http2,
            duration: "6s",
            rounds: work.rounds.unwrap_or(1),
        }
    }

    /// The command line of `loadtest run`.
    fn line(&self, kubeconfig: &str, load: &Load) -> Vec<OsString> {
        let outputs = if load.endpoints { "all" } else { "slices" };
        let mut line = words(&[
            "steady",
            "--kubeconfig",
            kubeconfig,
            SEED,
            TIME_LIMIT,
            &format!("--pods={}", self.pods),
            &format!("--namespaces={}", self.namespaces),
            &format!("--services={}", self.services),
            &format!("--nodes={}", self.nodes),
            &format!("--rate={}", load.rate),
            &format!("--duration={}", self.duration),
            &format!("--outputs={outputs}"),
        ]);
        if let Some(watchers) = load.watchers {
            line.push(format!("--watchers={watchers}").into());
            line.extend(self.watchers_http2.then(|| "--watchers-http2".into()));
        }
        line
    }
}
