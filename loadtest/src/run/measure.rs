//! The course of a run, from the first object to the report.

use std::{ffi::OsString, future, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use http::Uri;
use jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use rustix::process::Signal;
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep},
};

use super::{
    args::Args,
    charge::{Charged, name_of},
    fill,
    generator::Generator,
    objects,
    phase::{Phase, Profile},
    plan::Plan,
    record::{Record, Sampler},
    world::World,
};
use crate::{
    api::Http,
    controller::{Controller, Server},
    figures::{number, time},
    observe::watch::{OutputWatch, Scope, Seen},
    oracle::{self, Options},
    progress::{Stage, every_so_often},
    report::model::{self, Report, Restart},
    settle::{self, Settled},
    target::Target,
};

/// Nodes say that they live far more often than controllers look.
const HEARTBEAT: Duration = Duration::from_secs(15);
const HEARTBEATS_AT_ONCE: usize = 8;
const SAMPLE: Duration = Duration::from_millis(500);
/// How many differences a failure to converge shows.
const SHOWN_DIFFERENCES: usize = 20;

/// Clients for two purposes, each with connections of its own.
pub(super) struct Clients {
    pub(super) writing: Client,
    pub(super) watching: Client,
}

/// The controller, if this run started it, and whatever is charged.
struct Charges {
    server: Server,
    max_endpoints_per_slice: u16,
    flags: Vec<OsString>,
    controller: Option<Controller>,
    charged: Arc<Mutex<Vec<Charged>>>,
}

/// A run with a full cluster.
struct Run<'a> {
    client: Client,
    label: String,
    options: Options,
    time_limit: Duration,
    seen: &'a Seen,
}

/// Does the whole run.
pub(super) async fn measure(
    args: &Args,
    plan: &Plan,
    target: &Target,
    clients: Clients,
    world: World,
    version: String,
    spawn: bool,
) -> anyhow::Result<Report> {
    let http = Http::new(clients.writing);
    fill(&http, &world, target).await?;

    let outputs = args.controller.outputs.outputs();
    let scope = Scope {
        outputs,
        label: Some(world.label()),
        services: world.outputs(),
    };
    let watch = OutputWatch::start(clients.watching.clone(), scope).await?;
    let run = Run {
        client: clients.watching,
        label: world.label(),
        options: Options {
            outputs,
            max_endpoints_per_slice: args.controller.max_endpoints_per_slice.into(),
            // Here alone Services are made, and their cluster IPs stay.
            headless_label: !plan.edits_services(),
        },
        time_limit: args.time_limit,
        seen: watch.seen(),
    };
    let exceeds_endpoints = outputs.endpoints && world.exceeds_endpoints();
    let world = Arc::new(Mutex::new(world));
    let _heartbeats = (!target.is_embedded()).then(|| heartbeats(http.clone(), Arc::clone(&world)));
    let mut charges = Charges::start(args, target, spawn)?;
    let converged_in = run.converge(&mut charges, plan).await?;

    let generator = Generator::new(http, world, Arc::clone(watch.seen()), outputs);
    let mut record = Record::begin(plan, args.title.clone(), version, spawn, Timestamp::now());
    if exceeds_endpoints {
        record
            .warn("Endpoints show no more than 1,000 addresses: of larger Services only slices are measured");
    }
    for charged in charges.charged.lock().iter_mut() {
        charged.begin(spawn);
    }
    for visibility in [&run.seen.slices, &run.seen.endpoints] {
        visibility.lock().clear();
    }
    let start = Instant::now();
    let sampler = Sampler::new(start, generator.tally(), watch.seen(), &charges.charged);
    let sampler = Arc::new(Mutex::new(sampler));
    let _sampling = sample(Arc::clone(&sampler), args.controller.metrics_url.clone());
    for phase in &plan.phases {
        run.phase(&mut charges, &generator, phase, start, &mut record)
            .await?;
    }
    let churned_for = Instant::now().saturating_duration_since(start);
    let Settled { report, .. } = run.settle(&mut charges, "settle").await?;
    let sampled = sampler.lock().end();
    let mut report = record.end(
        churned_for,
        spawn.then_some(converged_in),
        &report,
        sampled,
        &generator,
        run.seen,
    );
    if let Err(error) = charges.stop().await {
        report.verdict.verified = false;
        report.verdict.problems.push(format!("{error:#}"));
    }
    Ok(report)
}

async fn fill(http: &Http, world: &World, target: &Target) -> anyhow::Result<()> {
    let stage = Stage::begin("fill", world.pod_count() as u64);
    fill::namespaces(http, world).await?;
    let show = |pods| stage.set(pods, || format!("{} pods", number(pods)));
    fill::fill(http, world, show).await?;
    let elapsed = time(stage.elapsed());
    stage.end(&format!("{elapsed}: API server on {}", target.url()));
    Ok(())
}

/// Says for all nodes that are up that they live, as their kubelets would. Ended when dropped.
fn heartbeats(http: Http, world: Arc<Mutex<World>>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        loop {
            sleep(HEARTBEAT).await;
            let paths: Vec<String> = {
                let world = world.lock();
                let up = world.nodes.iter().filter(|node| node.up);
                up.map(|node| format!("/api/v1/nodes/{}/status", node.name))
                    .collect()
            };
            stream::iter(&paths)
                .for_each_concurrent(HEARTBEATS_AT_ONCE, async |path| {
                    if let Err(error) = http.patch(path, &objects::node_status(true)).await {
                        tracing::warn!("a node could not say that it lives: {error:#}");
                    }
                })
                .await;
        }
    });
    tasks
}

/// Takes samples until it is dropped.
fn sample(sampler: Arc<Mutex<Sampler>>, metrics: Option<Uri>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut ticks = interval(SAMPLE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            sampler.lock().sample();
            if let Some(url) = &metrics
                && let Some(depth) = super::record::queue_depth(url).await
            {
                sampler.lock().queue(depth);
            }
        }
    });
    tasks
}

// === impl Charges ===

impl Charges {
    fn start(args: &Args, target: &Target, spawn: bool) -> anyhow::Result<Self> {
        let mut flags: Vec<OsString> = Vec::new();
        if let Some(flag) = args.controller.outputs.controllers() {
            flags.push(flag.into());
        }
        if let Some(authority) = args.controller.metrics_url.as_ref().and_then(Uri::authority) {
            let host = authority.host().trim_matches(['[', ']']);
            flags.push(format!("--bind-address={host}").into());
            flags.push(format!("--admin-port={}", authority.port_u16().unwrap_or(80)).into());
        }
        flags.extend(args.controller.flags.iter().cloned());
        let mut charges = Self {
            server: target.server(),
            max_endpoints_per_slice: args.controller.max_endpoints_per_slice,
            flags,
            controller: None,
            charged: Arc::default(),
        };
        if spawn {
            let controller = charges.spawn()?;
            let charged = Charged::new("endpointd".to_owned(), controller.pid());
            charges.charged.lock().push(charged);
            charges.controller = Some(controller);
        }
        for pid in &args.controller.pid {
            let name = name_of(*pid).unwrap_or_else(|| pid.to_string());
            charges.charged.lock().push(Charged::new(name, *pid));
        }
        Ok(charges)
    }

    fn spawn(&self) -> anyhow::Result<Controller> {
        Controller::start(&self.server, self.max_endpoints_per_slice, &self.flags)
    }

    /// Runs `work`, which fails as soon as a controller that was started here is gone.
    async fn during<T>(&mut self, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        match &mut self.controller {
            Some(controller) => controller.during(work).await,
            None => work.await,
        }
    }

    fn failure(&mut self, what: &str) -> anyhow::Error {
        match &mut self.controller {
            Some(controller) => controller.failure(what),
            None => anyhow::anyhow!("{what}"),
        }
    }

    /// Ends the controller and starts it again now and then, for ever. Fails when it ends by itself.
    async fn restart_every(
        &mut self,
        every: Duration,
        start: Instant,
        seen: &Seen,
        restarts: &mut Vec<Restart>,
    ) -> anyhow::Error {
        loop {
            let pause = async {
                sleep(every).await;
                Ok(())
            };
            if let Err(error) = self.during(pause).await {
                return error;
            }
            if let Err(error) = self.restart(start, seen, restarts).await {
                return error;
            }
        }
    }

    async fn restart(
        &mut self,
        start: Instant,
        seen: &Seen,
        restarts: &mut Vec<Restart>,
    ) -> anyhow::Result<()> {
        let Some(controller) = self.controller.take() else {
            return future::pending().await;
        };
        let (signal, name) = if restarts.len().is_multiple_of(2) {
            (Signal::KILL, "SIGKILL")
        } else {
            (Signal::TERM, "SIGTERM")
        };
        finish(restarts, seen, start);
        self.charged.lock()[0].ends();
        let at = Instant::now().saturating_duration_since(start).as_secs_f64();
        controller.end(signal).await?;
        // Nobody writes now, but events of the last writes may still arrive: those of the next writer need longer.
        let controller = self.spawn()?;
        seen.expect_change();
        self.charged.lock()[0].starts(controller.pid());
        self.controller = Some(controller);
        restarts.push(Restart {
            at,
            signal: name.to_owned(),
            without_writer_seconds: f64::NAN,
        });
        Ok(())
    }

    async fn stop(self) -> anyhow::Result<()> {
        match self.controller {
            Some(controller) => controller.stop().await,
            None => Ok(()),
        }
    }
}

/// Notes how long the last restart left nobody to write.
fn finish(restarts: &mut [Restart], seen: &Seen, start: Instant) {
    if let Some(restart) = restarts.last_mut()
        && restart.without_writer_seconds.is_nan()
    {
        let written = seen.next_change().unwrap_or_else(Instant::now);
        restart.without_writer_seconds = written.saturating_duration_since(start).as_secs_f64() - restart.at;
    }
}

// === impl Run ===

impl Run<'_> {
    async fn check(&self) -> anyhow::Result<oracle::Report> {
        oracle::check_labelled(&self.client, &self.options, &self.label).await
    }

    async fn settle(&self, charges: &mut Charges, label: &'static str) -> anyhow::Result<Settled> {
        let stage = Stage::begin(label, 0);
        let start = Instant::now();
        let show = || stage.set(0, || format!("{} writes", number(self.seen.writes().events())));
        let settling = settle::settle(self.seen, self.time_limit, || self.check());
        let settled = charges.during(every_so_often(show, settling)).await?;
        let settled_in = time(settled.last_change.saturating_duration_since(start));
        stage.end(&if settled.report.is_correct() {
            format!(
                "{settled_in}: {} endpoints in {} slices",
                number(settled.report.endpoints as u64),
                number(settled.report.slices as u64)
            )
        } else {
            format!("not within {}", time(self.time_limit))
        });
        Ok(settled)
    }

    /// Waits until a controller has everything right, and says how long that took from now.
    async fn converge(&self, charges: &mut Charges, plan: &Plan) -> anyhow::Result<Duration> {
        let start = Instant::now();
        let Settled { report, last_change } = self.settle(charges, "converge").await?;
        if !report.is_correct() {
            let limit = time(self.time_limit);
            let what = format!(
                "{}: the controller did not converge within {limit}; {report:.SHOWN_DIFFERENCES$}",
                plan.name
            );
            return Err(charges.failure(&what));
        }
        Ok(last_change.saturating_duration_since(start))
    }

    async fn phase(
        &self,
        charges: &mut Charges,
        generator: &Generator,
        phase: &Phase,
        start: Instant,
        record: &mut Record,
    ) -> anyhow::Result<()> {
        let length = phase.duration.map_or(0, |duration| duration.as_millis() as u64);
        let stage = Stage::begin("churn", length);
        let since = |start| Instant::now().saturating_duration_since(start).as_secs_f64();
        let (from, before) = (since(start), generator.tally().made());
        let show = || {
            stage.set(stage.elapsed().as_millis() as u64, || {
                let changes = number(generator.tally().made() - before);
                let p99 = self.seen.slices.lock().latencies().quantile(0.99);
                let p99 = p99.map(|p99| format!(", p99 {}", time(p99))).unwrap_or_default();
                format!("{}: {changes} changes{p99}", phase.profile)
            });
        };
        let work = every_so_often(show, generator.run(phase));
        if phase.profile == Profile::Restart {
            let mut restarts = Vec::new();
            let outcome = tokio::select! {
                biased;
                error = charges.restart_every(phase.every, start, self.seen, &mut restarts) => Err(error),
                outcome = work => outcome,
            };
            outcome?;
            // One that was cut off between end and start.
            if charges.controller.is_none() {
                let controller = charges.spawn()?;
                charges.charged.lock()[0].starts(controller.pid());
                charges.controller = Some(controller);
            }
            finish(&mut restarts, self.seen, start);
            record.restarts(restarts);
        } else {
            charges.during(work).await?;
        }
        let changes = generator.tally().made() - before;
        stage.end(&format!("{}: {} changes", phase.profile, number(changes)));
        record.phase(model::Phase {
            name: phase.profile.to_string(),
            from,
            to: since(start),
            changes,
        });
        Ok(())
    }
}
