//! Pods with a Service of their own that come and go, as for agents and previews, with kube-controller-manager and with
//! endpointd in turns.
//!
//! ```text
//!  for each round, rate, limits and controller:
//!     Cluster (new) + garbage collector ──► fill ──► controller, until all is right ──► claims, measured ──► Comparison
//! ```
//!
//! Each turn has a control plane of its own: the names of sandboxes never come back, so a second turn on the same objects
//! would have more of them than the first.

use super::contestants::{Contestant, LIFTED, Limits, PATIENCE, compare};
use super::{Work, words};
use crate::figures::time;
use crate::real::cluster::Cluster;
use crate::real::table::Outcome;
use crate::report::format::micros;
use crate::report::model::Report;
use crate::run::{Filled, merged};
use anyhow::{Context, ensure};
use std::ffi::OsString;
use std::time::Duration;

/// The controllers that publish what is measured.
const CONTROLLERS: &str = "endpoints-controller,endpointslice-controller";
/// How long a controller may take to have everything right, before the claims and after them. With its default limits
/// kube-controller-manager makes some 20 requests a second for each output.
const LIMIT: Duration = Duration::from_secs(300);

/// How large everything is.
struct Sizes {
    alive: usize,
    /// Claims a second.
    rates: &'static [u32],
    limits: &'static [Limits],
    duration: &'static str,
    life: &'static str,
    rounds: usize,
}

/// One controller under one load.
#[derive(Clone, Copy)]
struct Cell {
    rate: u32,
    limits: Limits,
    contestant: Contestant,
}

pub(super) async fn run(work: &Work) -> anyhow::Result<Outcome> {
    let sizes = Sizes::of(work);
    let mut measured = Vec::new();
    let mut words = Vec::new();
    for cell in sizes.cells() {
        let report = measure(work, &sizes, cell).await;
        let report = report.with_context(|| cell.name())?;
        let verdict = &report.verdict;
        // Of upstream it is a finding, and no failure of this run.
        ensure!(
            verdict.verified || cell.contestant == Contestant::Upstream,
            "{}: {}",
            cell.name(),
            verdict.problems.join("; ")
        );
        if let Some(claims) = &report.claims {
            let p50 = micros(claims.ready.p50 as f64);
            words.push(format!("{} {p50}", cell.name()));
        }
        measured.push((cell.contestant, cell.under(), report));
    }
    compare(&work.out.join("sandbox"), measured)?;
    Ok(Outcome::passed(format!(
        "ready to visible p50 beside {} sandboxes that stand: {}",
        sizes.alive,
        words.join(", ")
    )))
}

/// One controller under one load, over all rounds.
async fn measure(work: &Work, sizes: &Sizes, cell: Cell) -> anyhow::Result<Report> {
    let mut reports = Vec::new();
    for round in 1..=sizes.rounds {
        eprintln!("sandbox: {}, round {round}", cell.name());
        let mut cluster = work
            .cluster(&format!("sandbox-{}-{round}", cell.name()), &[])
            .await?;
        let turned = turn(&mut cluster, sizes, cell).await;
        cluster.stop().await?;
        reports.push(turned?);
    }
    merged(reports).context("there was no round")
}

/// One controller takes its turn.
async fn turn(cluster: &mut Cluster, sizes: &Sizes, cell: Cell) -> anyhow::Result<Report> {
    let mut collector = cluster.start_garbage_collector(&LIFTED)?;
    let kubeconfig = cluster.admin().to_string_lossy().into_owned();
    let mut line = sizes.line(&kubeconfig, cell.rate);
    let filled = Filled::fill(line.clone()).await.context("filling the cluster")?;
    let mut running = cell.contestant.start(cluster, CONTROLLERS, cell.limits).await?;
    let right = running.during(Box::pin(filled.right_within(LIMIT))).await?;
    eprintln!("sandbox: {} right after {}", sizes.alive, time(right));
    let pids = std::iter::once(running.pid()).chain(cluster.plane()?.pids());
    line.extend(pids.map(|pid| OsString::from(format!("--pid={pid}"))));
    let metrics = running.metrics_url();
    line.extend(metrics.map(|url| format!("--metrics-url={url}").into()));
    line.push(format!("--title={}", cell.contestant.name()).into());
    // Boxed: it holds the whole run.
    let measuring = Box::pin(filled.measure(line));
    let measured = running.during(collector.during(measuring)).await?;
    running.stop().await?;
    collector.end_or_kill(PATIENCE).await?;
    Ok(measured)
}

// === impl Cell ===

impl Cell {
    fn name(self) -> String {
        format!("{}-{}", self.contestant.name(), self.under())
    }

    /// What both controllers are measured under.
    fn under(self) -> String {
        format!("{}-{}", self.limits.name(), self.rate)
    }
}

// === impl Sizes ===

impl Sizes {
    fn of(work: &Work) -> Self {
        let (alive, rates, limits, duration, life): (_, &[u32], &[Limits], _, _) = if work.quick {
            (100, &[10], &[Limits::Default], "6s", "3s")
        } else {
            (1_000, &[20, 50], &[Limits::Default, Limits::Lifted], "30s", "10s")
        };
        Self {
            alive: work.pods.unwrap_or(alive),
            rates,
            limits,
            duration,
            life,
            rounds: work.rounds.unwrap_or(1),
        }
    }

    /// All that is measured, both controllers with the same load behind each other.
    fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for rate in self.rates {
            for limits in self.limits {
                cells.extend(Contestant::BOTH.map(|contestant| Cell {
                    rate: *rate,
                    limits: *limits,
                    contestant,
                }));
            }
        }
        cells
    }

    /// The command line of `loadtest run`.
    fn line(&self, kubeconfig: &str, rate: u32) -> Vec<OsString> {
        words(&[
            "sandbox",
            "--kubeconfig",
            kubeconfig,
            "--seed=42",
            &format!("--time-limit={}s", LIMIT.as_secs()),
            &format!("--alive={}", self.alive),
            &format!("--rate={rate}"),
            &format!("--duration={}", self.duration),
            &format!("--life={}", self.life),
            "--ready-after=200ms",
        ])
    }
}
