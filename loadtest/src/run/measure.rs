//! The course of a run, from the first object to the report.

use super::generator::{Generator, Operations};
use super::part::Part;
use super::phase::{Phase, Profile};
use super::record::{self, Sampler};
use super::scrape::{self, Reading};
use super::session::Session;
use super::sizes::Layout;
use super::usage::{MeasuredProcess, name_of};
use super::world::World;
use super::{fill, objects};
use crate::api::{Http, Resource};
use crate::controller::{self, Server};
use crate::figures::{number, time};
use crate::observe::marks::Marks;
use crate::observe::watch::{OutputWatch, Scope, Seen};
use crate::oracle::{self, Outputs};
use crate::process::Process;
use crate::progress::{Stage, every_so_often};
use crate::report::model::{self, Report, Restart};
use crate::settle::{self, Settled};
use crate::watchers::Watchers;
use futures::{StreamExt, stream};
use http::Uri;
use kube::Client;
use parking_lot::Mutex;
use rustix::process::Signal;
use std::ffi::OsString;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};

/// Nodes say that they live far more often than controllers look.
const HEARTBEAT: Duration = Duration::from_secs(15);
const HEARTBEATS_AT_ONCE: usize = 8;
/// Outputs that did not change for so long are done with what happened before.
const QUIET: Duration = Duration::from_secs(1);
const SAMPLE: Duration = Duration::from_millis(500);
/// How long the controller's metrics may take to be read.
const READING: Duration = Duration::from_secs(5);
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

/// The controller, if this run started it, and the processes whose use of the machine is measured.
struct Processes {
    server: Server,
    max_endpoints_per_slice: u16,
    flags: Vec<OsString>,
    /// Where the controller's metrics are, if that is known.
    metrics: Option<Uri>,
    controller: Option<Process>,
    measured: Arc<Mutex<Vec<MeasuredProcess>>>,
}

/// A run with a full cluster.
struct Run<'a> {
    session: &'a Session<'a>,
    label: String,
    world: Arc<Mutex<World>>,
    seen: &'a Arc<Seen>,
}

/// Does the whole run.
pub(super) async fn measure(session: &Session<'_>, world: World) -> anyhow::Result<Measured> {
    fill(&Http::new(session.writing.clone()), &world, session).await?;
    measure_filled(session, Arc::new(Mutex::new(world))).await
}

/// Does a run on a cluster that was filled before.
pub(super) async fn measure_filled(
    session: &Session<'_>,
    world: Arc<Mutex<World>>,
) -> anyhow::Result<Measured> {
    let http = Http::new(session.writing.clone());
    let (scope, exceeds_endpoints, followed) = {
        let world = world.lock();
        let outputs = session.options().outputs;
        let scope = Scope {
            outputs,
            label: Some(world.label()),
            services: world.outputs(),
        };
        let exceeds_endpoints = outputs.endpoints && world.exceeds_endpoints();
        (scope, exceeds_endpoints, followed(session, &world))
    };
    let label = world.lock().label();
    let watch = OutputWatch::start(session.watching.clone(), scope).await?;
    let run = Run {
        session,
        label,
        world: Arc::clone(&world),
        seen: watch.seen(),
    };
    let _heartbeats = (!session.target.is_embedded()).then(|| heartbeats(http.clone(), Arc::clone(&world)));
    let mut processes = Processes::start(session)?;
    let converged_in = run.converge(&mut processes).await?;

    let marks = Arc::new(Marks::default());
    run.seen.slices.lock().tell(Arc::clone(&marks));
    let flags = &session.args.watchers;
    let watchers = Watchers::start(&session.target, flags, marks, session.time_limit());
    let watchers = processes.during(watchers).await?;

    let generator = Generator::new(http, Arc::clone(&world), Arc::clone(run.seen), followed);
    let mut report = record::begin(session);
    if exceeds_endpoints {
        let warning =
            "Endpoints show no more than 1,000 addresses: of larger Services only slices are measured";
        report.verdict.warnings.push(warning.to_owned());
    }
    report.converge_seconds = session.spawn.then_some(converged_in.as_secs_f64());
    let begun = match &watchers {
        Some(watchers) => Some(watchers.begin().await),
        None => None,
    };
    let check = run
        .churn(&mut processes, &generator, watchers.as_ref(), &mut report)
        .await?;
    record::judge(&mut report, &check, generator.tally());
    if let (Some(watchers), Some(begun)) = (&watchers, begun) {
        let finish = async { Ok(watchers.finish(begun, session.time_limit()).await) };
        record::add(&mut report, processes.during(finish).await?);
    }
    let pods = world.lock().pod_count();
    Ok(Measured {
        report,
        check,
        operations: generator.tally().operations(),
        pods,
        stopped: processes.stop().await,
    })
}

/// Returns the outputs whose latencies are measured.
pub(super) fn followed(session: &Session<'_>, world: &World) -> Outputs {
    let mut outputs = session.options().outputs;
    // There, Endpoints may be of several groups, of which it is not known whether they show all.
    outputs.endpoints &= world.layout != Layout::Demo && world.fits_endpoints();
    outputs
}

/// Makes everything that a run begins with.
pub(super) async fn fill(http: &Http, world: &World, session: &Session<'_>) -> anyhow::Result<()> {
    let all = world.pod_count() + session.plan.sizes.services;
    let stage = Stage::begin("fill", all as u64);
    let show = |made| stage.set(made, || format!("{} Services and pods", number(made)));
    let target = &session.target;
    let server = target.server();
    // Without a socket where there is none in between.
    let direct = server.map(|server| Http::new(Client::new(server.service(), "default")));
    let http = direct.as_ref().unwrap_or(http);
    fill::namespaces(http, world).await?;
    fill::fill(http, server, world, show).await?;
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
    let sampling = Arc::clone(&sampler);
    tasks.spawn(async move {
        let mut ticks = interval(SAMPLE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            sampling.lock().sample();
        }
    });
    if let Some(url) = metrics {
        tasks.spawn(async move {
            loop {
                sleep(scrape::INTERVAL).await;
                if let Some(reading) = read(Some(&url)).await {
                    sampler.lock().read(reading);
                }
            }
        });
    }
    tasks
}

/// Reads the controller's metrics, where they are known to be; a server that does not answer is not waited for.
async fn read(metrics: Option<&Uri>) -> Option<Reading> {
    timeout(READING, scrape::read(metrics?)).await.ok()?
}

// === impl Processes ===

impl Processes {
    fn start(session: &Session<'_>) -> anyhow::Result<Self> {
        let flags = &session.args.controller;
        let of_session = session.controller_flags().into_iter().map(OsString::from);
        let metrics = flags.metrics_url.clone();
        let metrics = metrics.or_else(|| session.spawn.then(|| scrape::free_url(&flags.flags))?);
        let mut processes = Self {
            server: session.target.reached_by(),
            max_endpoints_per_slice: flags.max_endpoints_per_slice,
            flags: of_session.chain(flags.of_controller(metrics.as_ref())).collect(),
            metrics,
            controller: None,
            measured: Arc::default(),
        };
        if session.spawn {
            let controller = processes.spawn()?;
            let measured = MeasuredProcess::new("endpointd".to_owned(), controller.pid());
            processes.measured.lock().push(measured);
            processes.controller = Some(controller);
        }
        for pid in &flags.pid {
            let name = name_of(*pid).unwrap_or_else(|| pid.to_string());
            processes.measured.lock().push(MeasuredProcess::new(name, *pid));
        }
        Ok(processes)
    }

    fn spawn(&self) -> anyhow::Result<Process> {
        controller::start(&self.server, self.max_endpoints_per_slice, &self.flags)
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

    /// Ends the controller and starts it again now and then while `work` goes on. Fails when it ends by itself.
    async fn restarting(
        &mut self,
        every: Duration,
        start: Instant,
        seen: &Seen,
        restarts: &mut Vec<Restart>,
        work: impl Future<Output = anyhow::Result<()>>,
    ) -> anyhow::Result<()> {
        let mut work = pin!(work);
        loop {
            let pause = async {
                sleep(every).await;
                Ok(())
            };
            tokio::select! {
                biased;
                paused = self.during(pause) => paused?,
                outcome = &mut work => return outcome,
            }
            if let Some(()) = to_the_end(self.restart(start, seen, restarts), work.as_mut()).await? {
                return Ok(());
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
            return Ok(());
        };
        let (signal, name) = if restarts.len().is_multiple_of(2) {
            (Signal::KILL, "SIGKILL")
        } else {
            (Signal::TERM, "SIGTERM")
        };
        finish(restarts, seen, start);
        self.measured.lock()[0].ends();
        let at = Instant::now().saturating_duration_since(start).as_secs_f64();
        controller.end(signal).await?;
        // No controller writes now, but events of the last writes may still arrive: those of the next writer need
        // longer.
        let controller = self.spawn()?;
        seen.expect_change();
        self.measured.lock()[0].starts(controller.pid());
        self.controller = Some(controller);
        restarts.push(Restart {
            at,
            signal: name.to_owned(),
            without_writer_seconds: f64::NAN,
        });
        Ok(())
    }

    /// Stops the controller, if it was started here.
    async fn stop(self) -> anyhow::Result<()> {
        match self.controller {
            Some(controller) => controller.stop().await,
            None => Ok(()),
        }
    }
}

/// Goes on with `work` during a step, which is finished even if `work` ends before it; then this has the outcome of
/// `work`.
async fn to_the_end<T>(
    step: impl Future<Output = anyhow::Result<()>>,
    work: Pin<&mut impl Future<Output = anyhow::Result<T>>>,
) -> anyhow::Result<Option<T>> {
    let mut step = pin!(step);
    tokio::select! {
        biased;
        done = &mut step => done.map(|()| None),
        outcome = work => {
            step.await?;
            outcome.map(Some)
        }
    }
}

/// Notes how long the last restart left no controller to write.
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
    async fn settle(
        &self,
        processes: &mut Processes,
        stage: &Stage,
        limit: Duration,
    ) -> anyhow::Result<Settled> {
        let watching = &self.session.watching;
        let options = self.session.options();
        let show = || {
            let [slices, endpoints] = self.seen.present().map(|count| count as u64);
            stage.set(slices + endpoints, || {
                let writes = number(self.seen.writes().all());
                let (slices, endpoints) = (number(slices), number(endpoints));
                format!("{writes} writes, {slices} slices, {endpoints} Endpoints objects")
            });
        };
        let is_missing = || {
            let fewest = self.world.lock().fewest_outputs();
            let [slices, endpoints] = self.seen.present();
            let Outputs {
                slices: of_slices,
                endpoints: of_endpoints,
            } = options.outputs;
            (of_slices && slices < fewest) || (of_endpoints && endpoints < fewest)
        };
        let settling = settle::settle(self.seen, limit, is_missing, async || {
            oracle::check_labelled(watching, &options, &self.label).await
        });
        processes.during(every_so_often(show, settling)).await
    }

    /// Waits until a controller has everything right, and says how long that took from now.
    async fn converge(&self, processes: &mut Processes) -> anyhow::Result<Duration> {
        let outputs = self.session.options().outputs;
        let fewest = self.world.lock().fewest_outputs();
        let expected = fewest * (usize::from(outputs.slices) + usize::from(outputs.endpoints));
        let stage = Stage::begin("converge", expected as u64);
        let (start, limit) = (Instant::now(), self.session.start_limit());
        let Settled { report, last_change } = self.settle(processes, &stage, limit).await?;
        if !report.is_correct() {
            drop(stage);
            let limit = time(limit);
            let what =
                format!("the controller did not converge within {limit}; {report:.SHOWN_DIFFERENCES$}");
            return Err(processes.failure(&what));
        }
        let converged_in = last_change.saturating_duration_since(start);
        let pid = processes.controller.as_ref().map(Process::pid);
        let took = if converged_in.is_zero() {
            "nothing had to be written".to_owned()
        } else {
            time(converged_in)
        };
        stage.end(&format!(
            "{took}: {} endpoints in {} slices{}",
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
        processes: &mut Processes,
        generator: &Generator,
        watchers: Option<&Watchers>,
        report: &mut Report,
    ) -> anyhow::Result<oracle::Report> {
        for measured in processes.measured.lock().iter_mut() {
            measured.begin(self.session.spawn);
        }
        for visibility in [&self.seen.slices, &self.seen.endpoints] {
            visibility.lock().clear();
        }
        let metrics = processes.metrics.clone();
        let before = read(metrics.as_ref()).await;
        let start = Instant::now();
        let sampler = Sampler::new(start, generator.tally(), self.seen, &processes.measured, before);
        let sampler = Arc::new(Mutex::new(sampler));
        let _sampling = sample(Arc::clone(&sampler), metrics.clone());
        let mut part = Part::begin(self.seen, false);
        for phase in &self.session.plan.phases {
            let is_loss = phase.profile == Profile::ZoneLoss;
            if !report.phases.is_empty() {
                if is_loss {
                    processes.during(self.quiet()).await?;
                }
                part.end(self.seen, report);
                part = Part::begin(self.seen, is_loss);
            } else if is_loss {
                part = Part::begin(self.seen, true);
            }
            self.phase(processes, generator, phase, start, report).await?;
        }
        let end = Instant::now();
        if let Some(watchers) = watchers {
            watchers.settle();
        }
        let stage = Stage::begin("settle", 0);
        let limit = self.session.time_limit();
        let Settled {
            report: check,
            last_change,
        } = self.settle(processes, &stage, limit).await?;
        stage.end(&if check.is_correct() {
            match last_change.saturating_duration_since(end) {
                Duration::ZERO => "nothing was left to write after the last change".to_owned(),
                settled_in => format!("{} after the last change", time(settled_in)),
            }
        } else {
            format!("not within {}", time(limit))
        });
        part.end(self.seen, report);
        // The writes that a restart was followed by may have come after the last change.
        finish(&mut report.restarts, self.seen, start);
        report.seconds = end.saturating_duration_since(start).as_secs_f64();
        if let Some(reading) = read(metrics.as_ref()).await {
            sampler.lock().read(reading);
        }
        sampler.lock().end(report);
        Ok(check)
    }

    /// Waits until the writes for what happened so far are over, so that those to come are told from them.
    async fn quiet(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + self.session.time_limit();
        loop {
            let quiet_at = (self.seen.last_change() + QUIET).min(deadline);
            if quiet_at <= Instant::now() {
                return Ok(());
            }
            sleep_until(quiet_at).await;
        }
    }

    async fn phase(
        &self,
        processes: &mut Processes,
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
            let restarts = &mut report.restarts;
            let restarting = processes.restarting(phase.every, start, self.seen, restarts, work);
            restarting.await?;
        } else {
            processes.during(work).await?;
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
            ..model::Phase::default()
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_restart_that_has_begun_is_not_cut_off() {
        let mut restarts = 0;
        let mut work = pin!(async {
            sleep(Duration::from_secs(3)).await;
            Ok("done")
        });
        for expected in [None, Some("done")] {
            let restart = async {
                sleep(Duration::from_secs(2)).await;
                restarts += 1;
                Ok(())
            };
            assert_eq!(to_the_end(restart, work.as_mut()).await.unwrap(), expected);
        }
        assert_eq!(restarts, 2);
    }
}
