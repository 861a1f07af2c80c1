//! One seed: a history under faults, and what must be true when the faults are over.

use super::controller::{Controller, Place};
use super::history::{Count, History};
use super::shape::Shape;
use super::trace::{Trace, show};
use super::{losses, plan};
use crate::api::Http;
use crate::oracle::{self, Report};
use anyhow::Context;
use kube::Client;
use memory_apiserver::{ApiServer, Config, FaultPlan, Handle, RequestRecord};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// How many differences a failure shows.
const SHOWN: usize = 20;
const WALL: &str = "2026-01-01T00:00:00Z";

/// A seed, and where its controller is.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// Decides everything.
    pub seed: u64,
    /// The controller reaches the server over real sockets, in real time; such a run does not replay exactly.
    pub sockets: bool,
    /// Every operation and every request of the controller is printed.
    pub trace: bool,
}

/// The results of a trial that went well.
#[derive(Clone, Debug)]
pub struct Passed {
    /// All requests, in order.
    pub requests: Vec<RequestRecord>,
    /// How often which fault happened.
    pub faults: BTreeMap<String, u64>,
    /// How often the history did what.
    pub operations: BTreeMap<&'static str, Count>,
    /// The report of the verification in the end.
    pub report: Report,
    /// How long after the end of the faults everything was right.
    pub settled_in: Duration,
}

/// The time limits of a trial: on a paused clock waiting costs nothing.
struct Limits {
    /// Histories are so many times shorter than they would be.
    pace: f64,
    settle: Duration,
    look: Duration,
    quiet: Duration,
}

struct Run {
    trial: Trial,
    shape: Shape,
    limits: Limits,
    server: ApiServer,
    place: Place,
    generation: u64,
}

// === impl Trial ===

impl Trial {
    /// Runs it, on a runtime of its own.
    ///
    /// # Errors
    ///
    /// When something is wrong in the end: with the seed, the plan, and the command that does it again.
    pub fn run(self) -> anyhow::Result<Passed> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all();
        if !self.sockets {
            builder.start_paused(true);
        }
        let runtime = builder.build().context("a runtime for the trial")?;
        let outcome = runtime.block_on(self.run_here());
        runtime.shutdown_background();
        outcome.map_err(|error| anyhow::anyhow!("{}\n{error:#}", self.describe()))
    }

    async fn run_here(self) -> anyhow::Result<Passed> {
        let config = Config::default()
            .seed(self.seed)
            .start_time(
                WALL.parse()
                    .expect("the wall time of trials is written as RFC 3339"),
            )
            .request_log(1_000_000)
            .journal(true);
        let shape = Shape::of(self.seed);
        // Held until the end: the server on sockets goes with it.
        let mut _handle: Option<Handle> = None;
        let (server, place) = if self.sockets {
            let handle = memory_apiserver::start(config).await?;
            let server = handle.server().clone();
            let place = Place::Sockets(handle.url());
            _handle = Some(handle);
            (server, place)
        } else {
            let server = ApiServer::new(config);
            let place = Place::Here {
                server: server.clone(),
                lingering: shape.lingering,
            };
            (server, place)
        };
        let run = Run {
            trial: self,
            limits: Limits::of(self),
            shape,
            server,
            place,
            generation: 0,
        };
        Box::pin(run.run()).await
    }

    fn plan(self) -> FaultPlan {
        plan::of(self.seed)
    }

    /// Returns the text of a failure, beside what is wrong.
    fn describe(self) -> String {
        let mut text = format!("seed {} fails", self.seed);
        let share = u8::from(self.sockets);
        // Writing to a text does not fail.
        let _ = write!(text, "\n{}\n{}", Shape::of(self.seed), self.plan());
        let _ = write!(
            text,
            "\nto see it again: loadtest chaos --from {} --seeds 1 --sockets {share} --trace",
            self.seed
        );
        text
    }
}

impl Limits {
    fn of(trial: Trial) -> Self {
        if trial.sockets {
            Self {
                pace: 0.05,
                settle: Duration::from_secs(60),
                look: Duration::from_millis(250),
                quiet: Duration::from_secs(2),
            }
        } else {
            Self {
                pace: 1.0,
                settle: Duration::from_secs(120),
                look: Duration::from_secs(1),
                quiet: Duration::from_secs(60),
            }
        }
    }
}

// === impl Run ===

impl Run {
    async fn run(mut self) -> anyhow::Result<Passed> {
        let client = Client::new(self.server.service_without_faults(), "default");
        let wall = WALL.parse().context("the wall time of all trials")?;
        let trace = self.trial.trace.then(|| Trace::new(&self.server));
        let mut history = History::new(Http::new(client.clone()), self.trial.seed, wall, trace.clone());
        if self.shape.filled_first {
            history.fill().await;
        }
        self.server.set_faults(self.trial.plan());
        let controller = self.start()?;
        if !self.shape.filled_first {
            history.fill().await;
        }
        let lasting = self.shape.history.mul_f64(self.limits.pace);
        let pace = self.limits.pace;
        let happens = async {
            history.run(lasting, pace).await;
            history.finish(pace).await;
        };
        let (controller, ()) = tokio::join!(biased; self.restart(controller), happens);
        let controller = controller?;
        self.server.clear_faults();
        if history.has_amends() {
            sleep(self.limits.quiet / 2).await;
            history.amend().await;
        }

        let outcome = self.verify(controller, &client).await;
        if let Some(trace) = trace {
            trace.catch_up();
        }
        let (report, settled_in) = outcome?;
        if self.shape.outputs.slices {
            let losses = losses::of(&self.server.journal(), history.writes());
            let shown = losses[..losses.len().min(SHOWN)].join("\n  ");
            anyhow::ensure!(
                losses.is_empty(),
                "{} endpoints were lost:\n  {shown}",
                losses.len()
            );
        }
        Ok(Passed {
            requests: self.server.requests(),
            faults: self.server.fault_counts(),
            operations: history.operations(),
            report,
            settled_in,
        })
    }

    fn start(&mut self) -> anyhow::Result<Controller> {
        self.generation += 1;
        let options = self.shape.options(self.trial.seed, self.generation);
        self.place.start(options)
    }

    /// Ends controllers and starts others while the history goes on. Returns the last one.
    async fn restart(&mut self, mut controller: Controller) -> anyhow::Result<Controller> {
        let start = Instant::now();
        for restart in self.shape.restarts.clone() {
            sleep_until(start + restart.at.mul_f64(self.limits.pace)).await;
            if restart.kill {
                controller.kill().await?;
            } else {
                controller.stop().await?;
            }
            sleep(restart.gap.mul_f64(self.limits.pace)).await;
            controller = self.start()?;
        }
        Ok(controller)
    }

    /// Verifies what must be true from now on: soon everything is right, then nothing is written any more, and another
    /// controller finds nothing to write either.
    async fn verify(
        &mut self,
        mut controller: Controller,
        client: &Client,
    ) -> anyhow::Result<(Report, Duration)> {
        let settled_in = self.settle(&mut controller, client).await?;
        self.quiet(&mut controller, client, "after everything was right")
            .await?;
        controller.stop().await?;
        let mut fresh = self.start()?;
        let report = self
            .quiet(
                &mut fresh,
                client,
                "by a new controller on what the last one left",
            )
            .await?;
        fresh.stop().await?;
        Ok((report, settled_in))
    }

    /// Waits as long as it may take until everything is right.
    async fn settle(&self, controller: &mut Controller, client: &Client) -> anyhow::Result<Duration> {
        let start = Instant::now();
        let mut right_since = None;
        let mut last = None;
        loop {
            controller.check().await?;
            let passed = Instant::now().saturating_duration_since(start);
            let version = self.server.resource_version();
            if last != Some(version) {
                last = Some(version);
                let report = oracle::check(client, &self.shape.checks()).await?;
                if !report.is_correct() {
                    right_since = None;
                    if passed >= self.limits.settle {
                        anyhow::bail!("not right {passed:?} after the end of the faults: {report:.SHOWN$}");
                    }
                } else if right_since.is_none() {
                    right_since = Some(passed);
                }
            }
            if passed >= self.limits.settle {
                match right_since {
                    Some(at) => return Ok(at),
                    // Look once more, and say what is wrong.
                    None => last = None,
                }
            }
            // In real time the trial waits no longer than needed.
            if let Some(at) = right_since.filter(|_| self.trial.sockets)
                && passed >= at + Duration::from_secs(3)
            {
                return Ok(at);
            }
            if passed < self.limits.settle {
                sleep(self.limits.look).await;
            }
        }
    }

    /// Checks that nothing is written for a while, and that everything is as it should be afterwards.
    ///
    /// Events do not count: they are held back when there are many, so the last are written minutes later, and a new
    /// controller does not know what the one before it has said.
    async fn quiet(
        &self,
        controller: &mut Controller,
        client: &Client,
        when: &str,
    ) -> anyhow::Result<Report> {
        let before = self.server.requests().len();
        sleep(self.limits.quiet).await;
        controller.check().await?;
        let requests = self.server.requests();
        let is_event = |request: &RequestRecord| request.path.contains("/events");
        let writes = requests[before..]
            .iter()
            .filter(|request| request.method != "GET");
        let writes = writes.filter(|request| !is_event(request));
        let writes: Vec<String> = writes.map(show).collect();
        anyhow::ensure!(
            writes.is_empty(),
            "{} requests that write were sent {when}:\n  {}",
            writes.len(),
            writes[..writes.len().min(SHOWN)].join("\n  ")
        );
        let report = oracle::check(client, &self.shape.checks()).await?;
        anyhow::ensure!(report.is_correct(), "{when}: {report:.SHOWN$}");
        Ok(report)
    }
}
