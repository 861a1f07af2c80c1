//! `loadtest demo`: a cluster in memory, a controller on it, churn, and a verification of the outcome.

mod churn;
mod objects;
mod sizes;
mod summary;
mod tamper;
mod world;

use std::{process::ExitCode, sync::Arc, time::Duration};

use kube::Client;
use tokio::time::Instant;

pub use self::sizes::Args;
use self::{churn::Churn, summary::Summary, world::World};
use crate::{
    api::{self, Http},
    controller::{Controller, Server},
    figures::{number, time},
    observe::watch::{OutputWatch, Scope, Seen},
    oracle::{self, Options, Outputs, Report},
    progress::{Stage, every_so_often},
    settle::{self, Settled},
};

/// What the controller publishes and the demo checks.
const OUTPUTS: Outputs = Outputs::ALL;

/// How many differences a failure to converge shows; the verification at the end shows them all.
const SHOWN_DIFFERENCES: usize = 20;

/// Runs the demo; a failed verification is an exit code of its own, not an error.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args {
        sizes,
        duration,
        rate,
        seed,
        time_limit,
        max_endpoints_per_slice,
        tamper,
        controller: flags,
    } = args;
    let seed = seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    eprintln!(
        "{} pods, {} services, {} namespaces, {} nodes; seed {seed}",
        number(sizes.pods as u64),
        number(sizes.services as u64),
        number(sizes.namespaces as u64),
        number(sizes.nodes as u64)
    );

    let server = memory_apiserver::start(memory_apiserver::Config {
        seed: Some(seed),
        ..Default::default()
    })
    .await?;
    let url = server.url();
    let client = api::client(&url)?;
    let http = Http::new(client.clone());
    let world = World::generate(&sizes, seed);
    fill(&http, &world, &url).await?;

    let scope = Scope {
        outputs: OUTPUTS,
        label: None,
        services: world.outputs(),
    };
    let watch = OutputWatch::start(client.clone(), scope).await?;
    // Nobody else asks this server anything, and the churn is worth more writes than the 500 a second that a shared
    // one is spared above.
    let flags: Vec<_> = std::iter::once("--kube-api-qps=0".into()).chain(flags).collect();
    let controller = Controller::start(&Server::Url(url), max_endpoints_per_slice, &flags)?;
    let mut demo = Demo {
        client,
        seen: watch.seen(),
        controller,
        options: Options {
            outputs: OUTPUTS,
            // The demo alone makes the Services, and their cluster IPs stay.
            headless_label: true,
            max_endpoints_per_slice: max_endpoints_per_slice.into(),
        },
        time_limit,
    };
    let converged_in = demo.converge().await?;

    let services = world.services.len();
    let churn = Churn::new(http, world, Arc::clone(watch.seen()));
    let (writes, cpu) = (demo.seen.writes(), demo.controller.usage().map(|usage| usage.cpu));
    let churned_for = demo.churn(&churn, duration, rate).await?;
    let report = demo.settle_down().await?;

    let usage = demo.controller.usage();
    let summary = Summary {
        pods: churn.pods(),
        services,
        published: (&report).into(),
        converged_in,
        churned_for,
        counts: churn.counts(),
        writes: demo.seen.writes() - writes,
        latency: demo.seen.slices.lock().latency(),
        churn_cpu: usage
            .zip(cpu)
            .map(|(after, before)| after.cpu.saturating_sub(before)),
        usage,
    };
    let Demo {
        client,
        controller,
        options,
        ..
    } = demo;
    controller.stop().await?;

    println!("\n{summary}");
    if let Some(how) = tamper {
        println!("tampered with {}", tamper::tamper(&client, how).await?);
    }
    let report = oracle::check(&client, &options).await?;
    println!("{report}");
    drop(watch);
    server.shutdown().await;
    Ok(if report.is_correct() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn fill(http: &Http, world: &World, url: &str) -> anyhow::Result<()> {
    let stage = Stage::begin("fill", world.idle.len() as u64);
    let show = |pods| stage.set(pods, || format!("{} pods", number(pods)));
    churn::fill(http, world, show).await?;
    let elapsed = time(stage.elapsed());
    stage.end(&format!("{elapsed}: API server on {url}"));
    Ok(())
}

/// A demo with its controller running.
struct Demo<'a> {
    client: Client,
    seen: &'a Seen,
    controller: Controller,
    options: Options,
    time_limit: Duration,
}

// === impl Demo ===

impl Demo<'_> {
    /// Waits until a controller that has just started has everything right, and says how long that took.
    async fn converge(&mut self) -> anyhow::Result<Duration> {
        let stage = Stage::begin("converge", 0);
        let start = Instant::now();
        let Settled { report, last_change } = self.settle(&stage).await?;
        if !report.is_correct() {
            drop(stage);
            let limit = time(self.time_limit);
            let what =
                format!("the controller did not converge within {limit}; {report:.SHOWN_DIFFERENCES$}");
            return Err(self.controller.failure(&what));
        }
        let converged_in = last_change.saturating_duration_since(start);
        stage.end(&format!(
            "{}: {} endpoints in {} slices, controller's PID {}",
            time(converged_in),
            number(report.endpoints as u64),
            number(report.slices as u64),
            self.controller.pid()
        ));
        Ok(converged_in)
    }

    /// Churns, and says how long that took.
    async fn churn(&mut self, churn: &Churn, duration: Duration, rate: u32) -> anyhow::Result<Duration> {
        let stage = Stage::begin("churn", duration.as_millis() as u64);
        let (seen, before) = (self.seen, self.seen.writes());
        let show = || {
            stage.set(stage.elapsed().as_millis() as u64, || {
                let p99 = seen.slices.lock().latencies().quantile(0.99);
                let p99 = p99.map(|p99| format!(", p99 {}", time(p99)));
                let operations = number(churn.counts().operations());
                let writes = number((seen.writes() - before).events());
                format!(
                    "{operations} operations, {writes} writes{}",
                    p99.unwrap_or_default()
                )
            });
        };
        self.controller
            .during(every_so_often(show, churn.run(duration, rate)))
            .await?;
        let churned_for = stage.elapsed();
        stage.end(&format!(
            "{}: {} operations",
            time(churned_for),
            number(churn.counts().operations())
        ));
        Ok(churned_for)
    }

    /// Waits until the churn's last changes are dealt with, or until the time is up: then the verification
    /// says what is wrong.
    async fn settle_down(&mut self) -> anyhow::Result<Report> {
        let stage = Stage::begin("settle", 0);
        let end = Instant::now();
        let Settled { report, last_change } = self.settle(&stage).await?;
        let settled_in = time(last_change.saturating_duration_since(end));
        stage.end(&if report.is_correct() {
            format!("{settled_in} after the last change")
        } else {
            format!("not within {}", time(self.time_limit))
        });
        Ok(report)
    }

    async fn settle(&mut self, stage: &Stage) -> anyhow::Result<Settled> {
        let seen = self.seen;
        let show = || stage.set(0, || format!("{} writes", number(seen.writes().events())));
        let settling = settle::settle(seen, self.time_limit, || {
            oracle::check(&self.client, &self.options)
        });
        self.controller.during(every_so_often(show, settling)).await
    }
}
