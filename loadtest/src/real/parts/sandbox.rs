//! Pods with a Service of their own that come and go, as for agents and previews, with kube-controller-manager and with
//! endpointd in turns.
//!
//! ```text
//!  for each round, rate, limits and controller:
//!     Cluster (new) + garbage collector ──► fill ──► controller, until all is right ──► claims, measured ──► Row
//! ```
//!
//! Each turn has a control plane of its own: the names of sandboxes never come back, so a second turn on the same objects
//! would have more of them than the first.

mod requests;

use self::requests::Requests;
use super::contestants::{Contestant, LIFTED, Limits, PATIENCE};
use super::{Work, words};
use crate::figures::time;
use crate::real::cluster::Cluster;
use crate::real::table::Outcome;
use crate::report;
use crate::report::format::{bytes, micros};
use crate::report::model::Report;
use crate::run::{Filled, merged};
use anyhow::{Context, ensure};
use std::ffi::OsString;
use std::fmt::Write;
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

/// The figures of a cell.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    rate: u32,
    limits: &'static str,
    controller: &'static str,
    /// How many of all claims were shown to take traffic while they lived.
    shown: [u64; 2],
    /// Microseconds: p50, and p99.
    ready: [f64; 2],
    gone: [f64; 2],
    requests: String,
    /// Of the controller and of kube-apiserver, in microseconds for each claim.
    cpu: [f64; 2],
    /// The most memory that the controller had, in bytes.
    memory: f64,
    /// A result that was not as the oracle has it, in the end.
    problem: Option<String>,
}

pub(super) async fn run(work: &Work) -> anyhow::Result<Outcome> {
    let sizes = Sizes::of(work);
    let mut rows = Vec::new();
    for cell in sizes.cells() {
        let row = measure(work, &sizes, cell).await;
        let row = row.with_context(|| cell.name())?;
        if let Some(problem) = &row.problem {
            // Of upstream it is a finding, and no failure of this run.
            ensure!(
                cell.contestant == Contestant::Upstream,
                "{}: {problem}",
                cell.name()
            );
            eprintln!("sandbox: {}: not verified: {problem}", cell.name());
        }
        rows.push(row);
    }
    eprintln!("{}", table(&rows));
    Ok(Outcome::passed(words_for(&sizes, &rows)))
}

/// One cell of the table, over all rounds.
async fn measure(work: &Work, sizes: &Sizes, cell: Cell) -> anyhow::Result<Row> {
    let (mut reports, mut requests) = (Vec::new(), Requests::default());
    for round in 1..=sizes.rounds {
        eprintln!("sandbox: {}, round {round}", cell.name());
        let mut cluster = work
            .cluster(&format!("sandbox-{}-{round}", cell.name()), &[])
            .await?;
        let turned = turn(&mut cluster, sizes, cell).await;
        cluster.stop().await?;
        let (report, made) = turned?;
        reports.push(report);
        requests.add(&made);
    }
    let claims = reports.iter().map(claims).sum();
    let report = merged(reports).context("there was no round")?;
    report::save(&report, &work.out.join("sandbox").join(cell.name()))?;
    Ok(Row::of(cell, &report, requests.each(claims)))
}

/// One controller takes its turn.
async fn turn(cluster: &mut Cluster, sizes: &Sizes, cell: Cell) -> anyhow::Result<(Report, Requests)> {
    let mut collector = cluster.start_garbage_collector(&LIFTED)?;
    let http = cluster.http().await?;
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
    let measuring = Box::pin(async {
        let before = Requests::read(&http).await?;
        let report = filled.measure(line).await?;
        let after = Requests::read(&http).await?;
        Ok((report, after.since(&before)))
    });
    let measured = running.during(collector.during(measuring)).await?;
    running.stop().await?;
    collector.end_or_kill(PATIENCE).await?;
    Ok(measured)
}

fn claims(report: &Report) -> u64 {
    report.claims.as_ref().map_or(0, |claims| claims.made)
}

/// The result in a line, with a figure of both controllers at the first rate with default limits.
fn words_for(sizes: &Sizes, rows: &[Row]) -> String {
    let first = rows.iter().take(Contestant::BOTH.len());
    let first: Vec<String> = first
        .map(|row| format!("{} {}", row.controller, micros(row.ready[0])))
        .collect();
    let rates: Vec<String> = sizes.rates.iter().map(u32::to_string).collect();
    format!(
        "{} claims a second beside {} sandboxes that stand; ready to visible p50 at {} a second: {}",
        rates.join(" and "),
        sizes.alive,
        sizes.rates[0],
        first.join(", ")
    )
}

/// The rows in Markdown.
fn table(rows: &[Row]) -> String {
    let mut out = "| claims a second | limits | controller | shown | ready to visible p50 / p99 | gone to unseen p50 / p99 | requests for each \
                   claim that changed something, and refused ones | CPU a claim | CPU of the API server a claim | peak memory |\n"
        .to_owned();
    let _ = writeln!(out, "{}|", "|---".repeat(10));
    for row in rows {
        let both = |[p50, p99]: [f64; 2]| format!("{} / {}", micros(p50), micros(p99));
        let ([own, server], [shown, made]) = (row.cpu, row.shown);
        let _ = writeln!(
            out,
            "| {} | {} | {}{} | {shown} of {made} | {} | {} | {} | {} | {} | {} |",
            row.rate,
            row.limits,
            row.controller,
            row.problem.as_ref().map_or("", |_| " (not verified)"),
            both(row.ready),
            both(row.gone),
            row.requests,
            micros(own),
            micros(server),
            bytes(row.memory)
        );
    }
    out
}

// === impl Cell ===

impl Cell {
    fn name(self) -> String {
        let (controller, limits) = (self.contestant.name(), self.limits.name());
        format!("{controller}-{limits}-{}", self.rate)
    }
}

// === impl Row ===

impl Row {
    /// The figures of a report. The first two processes are the controller and kube-apiserver.
    fn of(cell: Cell, report: &Report, requests: String) -> Self {
        let both = |of: fn(&report::model::Claims) -> &report::model::Latency| {
            let latency = report.claims.as_ref().map(of);
            latency.map_or([0.0; 2], |latency| [latency.p50 as f64, latency.p99 as f64])
        };
        let made = claims(report).max(1) as f64;
        let cpu = |at: usize| {
            let process = report.processes.get(at);
            process.map_or(0.0, |process| process.cpu_seconds * 1e6 / made)
        };
        let verdict = &report.verdict;
        Self {
            rate: cell.rate,
            limits: cell.limits.name(),
            controller: cell.contestant.name(),
            shown: report
                .claims
                .as_ref()
                .map_or([0; 2], |claims| [claims.ready.count, claims.made]),
            ready: both(|claims| &claims.ready),
            gone: both(|claims| &claims.gone),
            requests,
            cpu: [cpu(0), cpu(1)],
            memory: report
                .processes
                .first()
                .map_or(0.0, |process| process.peak_rss_bytes as f64),
            problem: (!verdict.verified).then(|| verdict.problems.join("; ")),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::{Claims, Latency, Process, Verdict};

    fn report() -> Report {
        let latency = |p50| Latency {
            count: 400,
            p50,
            p99: 10 * p50,
            ..Latency::default()
        };
        let process = |cpu_seconds| Process {
            cpu_seconds,
            peak_rss_bytes: 30 << 20,
            ..Process::default()
        };
        Report {
            verdict: Verdict {
                verified: true,
                ..Verdict::default()
            },
            claims: Some(Claims {
                alive: 1_000,
                made: 400,
                ready: latency(5_000),
                gone: latency(4_000),
                ..Claims::default()
            }),
            processes: vec![process(0.4), process(20.0)],
            ..Report::default()
        }
    }

    #[test]
    fn a_row_has_the_figures_of_each_claim_and_says_if_they_were_not_verified() {
        let cell = Cell {
            rate: 20,
            limits: Limits::Default,
            contestant: Contestant::Endpointd,
        };
        let row = |report: &Report| Row::of(cell, report, "slices: 2.00 created".to_owned());
        let mut unverified = report();
        unverified.verdict.verified = false;
        let table = table(&[row(&report()), row(&unverified)]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines[2],
            "| 20 | default | endpointd | 400 of 400 | 5.00 ms / 50.0 ms | 4.00 ms / 40.0 ms | slices: 2.00 created | 1.00 ms | 50.0 ms | 30.0 MiB |"
        );
        assert!(
            lines[3].starts_with("| 20 | default | endpointd (not verified) |"),
            "{table}"
        );
        for line in lines {
            assert_eq!(line.matches('|').count(), 11, "{line}");
        }
    }
}
