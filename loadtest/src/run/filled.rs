//! A cluster that is filled once, and put under load again and again: for comparisons of controllers that take turns on the
//! same objects, and for tests in which something happens while pods change.

use super::generator::Generator;
use super::phase::Phase;
use super::{Args, Session, World, judged, measure};
use crate::api::Http;
use crate::observe::watch::{OutputWatch, Scope};
use crate::oracle;
use crate::report::model::Report;
use crate::wait::until;
use anyhow::{Context, ensure};
use clap::Parser;
use parking_lot::Mutex;
use std::ffi::OsString;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The changes that are made while something else happens come in rounds of this length.
const ROUND: Duration = Duration::from_secs(1);

/// A filled cluster. Its objects stay there.
pub(crate) struct Filled {
    args: Args,
    name: String,
    seed: u64,
    world: Arc<Mutex<World>>,
}

/// A command line of `loadtest run`.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(flatten)]
    args: Args,
}

// === impl Filled ===

impl Filled {
    /// Fills a cluster. The words are those of `loadtest run`, and name the profile, the sizes and the cluster.
    pub(crate) async fn fill(words: Vec<OsString>) -> anyhow::Result<Self> {
        let args = parse(words)?;
        let session = Session::prepare(&args).await?;
        let (name, seed) = (session.name.clone(), session.plan.seed);
        let world = World::new(&session.plan, &name);
        measure::fill(&Http::new(session.writing.clone()), &world, &session).await?;
        drop(session);
        Ok(Self {
            args,
            name,
            seed,
            world: Arc::new(Mutex::new(world)),
        })
    }

    /// Puts it under load, and measures what becomes of it. The words name the same profile and the same sizes; rates, lengths,
    /// processes to measure and watchers may differ.
    pub(crate) async fn measure(&self, words: Vec<OsString>) -> anyhow::Result<Report> {
        let mut args = parse(words)?;
        self.adapt(&mut args);
        let session = Session::prepare(&args).await?;
        ensure!(
            session.plan.sizes == self.session().await?.plan.sizes,
            "the cluster was filled with other sizes"
        );
        // Boxed: it holds the whole run.
        let measured = Box::pin(measure::measure_filled(&session, Arc::clone(&self.world))).await?;
        Ok(judged(measured))
    }

    /// Changes pods for as long as this takes.
    pub(crate) async fn churn_during<T>(
        &self,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let mut work = pin!(work);
        loop {
            let mut round = pin!(self.churn(ROUND));
            tokio::select! {
                biased;
                outcome = &mut work => {
                    round.await?;
                    return outcome;
                }
                done = &mut round => done?,
            }
        }
    }

    /// Changes pods for so long.
    pub(crate) async fn churn(&self, lasting: Duration) -> anyhow::Result<()> {
        let session = self.session().await?;
        let (outputs, services) = {
            let world = self.world.lock();
            (session.options().outputs, world.outputs())
        };
        let scope = Scope {
            outputs,
            label: Some(self.world.lock().label()),
            services,
        };
        let watch = OutputWatch::start(session.watching.clone(), scope).await?;
        let followed = measure::followed(&session, &self.world.lock());
        let http = Http::new(session.writing.clone());
        let generator = Generator::new(http, Arc::clone(&self.world), Arc::clone(watch.seen()), followed);
        let phase = session.plan.phases.first().context("there is no phase")?;
        let phase = Phase {
            duration: Some(lasting),
            ..phase.clone()
        };
        generator.run(&phase).await
    }

    /// Waits until everything in it is published as it should be, and says how long that took from now.
    pub(crate) async fn right_within(&self, limit: Duration) -> anyhow::Result<Duration> {
        let session = self.session().await?;
        let label = self.world.lock().label();
        let start = Instant::now();
        until("all is right", limit, async || {
            let report = oracle::check_labelled(&session.watching, &session.options(), &label).await?;
            ensure!(report.is_correct(), "{report:.10}");
            Ok(())
        })
        .await?;
        Ok(Instant::now().saturating_duration_since(start))
    }

    async fn session(&self) -> anyhow::Result<Session<'_>> {
        Session::prepare(&self.args).await
    }

    /// Makes a run one on this cluster.
    fn adapt(&self, args: &mut Args) {
        args.seed = Some(self.seed);
        args.target.run = Some(self.name.clone());
        args.target.kubeconfig.clone_from(&self.args.target.kubeconfig);
    }
}

fn parse(words: Vec<OsString>) -> anyhow::Result<Args> {
    Ok(Line::try_parse_from(words)?.args)
}
