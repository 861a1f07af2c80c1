//! The course of a run, from the first object to the report.

use std::{ffi::OsString, future, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use http::Uri;
use parking_lot::Mutex;
use rustix::process::Signal;
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep},
};

use super::{
    charge::{Charged, name_of},
    fill,
    generator::{Generator, Operations},
    objects,
    phase::{Phase, Profile},
    record::{self, Sampler},
    session::Session,
    sizes::Layout,
    world::World,
};
use crate::{
    api::{Http, Resource},
    controller::{Controller, Server},
    figures::{number, time},
    observe::watch::{OutputWatch, Scope, Seen},
    oracle,
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

/// The results of a run.
pub(super) struct Measured {
    pub(super) report: Report,
    /// The oracle's findings in the end.
    pub(super) check: oracle::Report,
    pub(super) operations: Operations,
    /// How many pods there are in the end.
    pub(super) pods: usize,
    /// How the controller ended, if it was started here.
    pub(super) stopped: anyhow::Result<()>,
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
    session: &'a Session<'a>,
    label: String,
    seen: &'a Arc<Seen>,
}

/// Does the whole run.
pub(super) async fn measure(session: &Session<'_>, world: World) -> anyhow::Result<Measured> {
    let http = Http::new(session.writing.clone());
    fill(&http, &world, &session.target).await?;

    let outputs = session.options().outputs;
    let scope = Scope {
        outputs,
        label: Some(world.label()),
        services: world.outputs(),
    };
    let watch = OutputWatch::start(session.watching.clone(), scope).await?;
    let run = Run {
        session,
        label: world.label(),
        seen: watch.seen(),
    };
    let exceeds_endpoints = outputs.endpoints && world.exceeds_endpoints();
    let mut followed = outputs;
    // There, Endpoints may be of several groups, of which it is not known whether they show all.
    followed.endpoints &= world.layout != Layout::Demo;
    let world = Arc::new(Mutex::new(world));
    let _heartbeats = (!session.target.is_embedded()).then(|| heartbeats(http.clone(), Arc::clone(&world)));
    let mut charges = Charges::start(session)?;
    let converged_in = run.converge(&mut charges).await?;

    let generator = Generator::new(http, Arc::clone(&world), Arc::clone(run.seen), followed);
    let mut report = record::begin(session);
    if exceeds_endpoints {
        let warning =
            "Endpoints show no more than 1,000 addresses: of larger Services only slices are measured";
        report.verdict.warnings.push(warning.to_owned());
    }
    report.converge_seconds = session.spawn.then_some(converged_in.as_secs_f64());
    let check = run.churn(&mut charges, &generator, &mut report).await?;
    record::judge(&mut report, &check, generator.tally());
    let pods = world.lock().pod_count();
    Ok(Measured {
        report,
        check,
        operations: generator.tally().operations(),
        pods,
        stopped: charges.stop().await,
    })
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
                up.map(|node| Resource::Nodes.path("", &node.name) + "/status")
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
                && let Some(depth) = record::queue_depth(url).await
            {
                sampler.lock().queue(depth);
            }
        }
    });
    tasks
}

// === impl Charges ===

impl Charges {
    fn start(session: &Session<'_>) -> anyhow::Result<Self> {
        let flags = &session.args.controller;
        let mut charges = Self {
            server: session.target.server(),
            max_endpoints_per_slice: flags.max_endpoints_per_slice,
            flags: flags.of_controller(),
            controller: None,
            charged: Arc::default(),
        };
        if session.spawn {
            let controller = charges.spawn()?;
            let charged = Charged::new("endpointd".to_owned(), controller.pid());
            charges.charged.lock().push(charged);
            charges.controller = Some(controller);
        }
        for pid in &flags.pid {
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

    /// Ends the controller and starts it again now and then while `work` goes on.
    async fn restarting(
        &mut self,
        every: Duration,
        start: Instant,
        seen: &Seen,
        work: impl Future<Output = anyhow::Result<()>>,
    ) -> anyhow::Result<Vec<Restart>> {
        let mut restarts = Vec::new();
        tokio::select! {
            biased;
            error = self.restart_every(every, start, seen, &mut restarts) => return Err(error),
            outcome = work => outcome?,
        }
        // One that was cut off between end and start.
        if self.controller.is_none() {
            let controller = self.spawn()?;
            self.charged.lock()[0].starts(controller.pid());
            self.controller = Some(controller);
        }
        finish(&mut restarts, seen, start);
        Ok(restarts)
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
    /// Waits until the controller has everything right, or its time is up.
    async fn settle(&self, charges: &mut Charges, stage: &Stage) -> anyhow::Result<Settled> {
        let Session { args, watching, .. } = self.session;
        let options = self.session.options();
        let show = || stage.set(0, || format!("{} writes", number(self.seen.writes().all())));
        let settling = settle::settle(self.seen, args.time_limit, || {
            oracle::check_labelled(watching, &options, &self.label)
        });
        charges.during(every_so_often(show, settling)).await
    }

    /// Waits until a controller has everything right, and says how long that took from now.
    async fn converge(&self, charges: &mut Charges) -> anyhow::Result<Duration> {
        let stage = Stage::begin("converge", 0);
        let start = Instant::now();
        let Settled { report, last_change } = self.settle(charges, &stage).await?;
        if !report.is_correct() {
            drop(stage);
            let limit = time(self.session.args.time_limit);
            let what =
                format!("the controller did not converge within {limit}; {report:.SHOWN_DIFFERENCES$}");
            return Err(charges.failure(&what));
        }
        let converged_in = last_change.saturating_duration_since(start);
        let pid = charges.controller.as_ref().map(Controller::pid);
        stage.end(&format!(
            "{}: {} endpoints in {} slices{}",
            time(converged_in),
            number(report.endpoints as u64),
            number(report.slices as u64),
            pid.map(|pid| format!(", controller's PID {pid}"))
                .unwrap_or_default()
        ));
        Ok(converged_in)
    }

    /// Does what the plan says, until the controller has dealt with it all or its time is up. Puts all figures into the
    /// report, and says what the oracle found.
    async fn churn(
        &self,
        charges: &mut Charges,
        generator: &Generator,
        report: &mut Report,
    ) -> anyhow::Result<oracle::Report> {
        for charged in charges.charged.lock().iter_mut() {
            charged.begin(self.session.spawn);
        }
        for visibility in [&self.seen.slices, &self.seen.endpoints] {
            visibility.lock().clear();
        }
        let start = Instant::now();
        let sampler = Sampler::new(start, generator.tally(), self.seen, &charges.charged);
        let sampler = Arc::new(Mutex::new(sampler));
        let metrics = self.session.args.controller.metrics_url.clone();
        let _sampling = sample(Arc::clone(&sampler), metrics);
        for phase in &self.session.plan.phases {
            self.phase(charges, generator, phase, start, report).await?;
        }
        let end = Instant::now();
        let stage = Stage::begin("settle", 0);
        let Settled {
            report: check,
            last_change,
        } = self.settle(charges, &stage).await?;
        stage.end(&if check.is_correct() {
            let settled_in = time(last_change.saturating_duration_since(end));
            format!("{settled_in} after the last change")
        } else {
            format!("not within {}", time(self.session.args.time_limit))
        });
        report.seconds = end.saturating_duration_since(start).as_secs_f64();
        sampler.lock().end(report);
        Ok(check)
    }

    async fn phase(
        &self,
        charges: &mut Charges,
        generator: &Generator,
        phase: &Phase,
        start: Instant,
        report: &mut Report,
    ) -> anyhow::Result<()> {
        let length = phase.duration.map_or(0, |duration| duration.as_millis() as u64);
        let stage = Stage::begin("churn", length);
        let since = |start| Instant::now().saturating_duration_since(start).as_secs_f64();
        let (from, before) = (since(start), generator.tally().made());
        let (operations, writes) = (generator.tally().operations().all(), self.seen.writes());
        let done = || match phase.profile {
            Profile::Demo => format!(
                "{} operations",
                number(generator.tally().operations().all() - operations)
            ),
            _ => format!("{} changes", number(generator.tally().made() - before)),
        };
        let show = || {
            stage.set(stage.elapsed().as_millis() as u64, || {
                let p99 = self.seen.slices.lock().latencies().quantile(0.99);
                let p99 = p99.map(|p99| format!(", p99 {}", time(p99))).unwrap_or_default();
                let writes = number(self.seen.writes().since(&writes).all());
                format!("{}, {writes} writes{p99}", done())
            });
        };
        let work = every_so_often(show, generator.run(phase));
        if phase.profile == Profile::Restart {
            let restarts = charges.restarting(phase.every, start, self.seen, work).await?;
            report.restarts.extend(restarts);
        } else {
            charges.during(work).await?;
        }
        let took = match phase.profile {
            Profile::Demo => time(stage.elapsed()),
            profile => profile.to_string(),
        };
        stage.end(&format!("{took}: {}", done()));
        report.phases.push(model::Phase {
            name: phase.profile.to_string(),
            from,
            to: since(start),
            changes: generator.tally().made() - before,
        });
        Ok(())
    }
}
