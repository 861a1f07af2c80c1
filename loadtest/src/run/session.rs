//! A run that can begin: everything is decided, and the server answers.

use anyhow::{Context, ensure};
use kube::Client;

use super::{args::Args, charge, plan::Plan};
use crate::{api::Http, oracle, target::Target};

const NAME_LENGTH: usize = 6;

/// A run that can begin.
pub(super) struct Session<'a> {
    pub(super) args: &'a Args,
    pub(super) plan: Plan,
    /// The run's name in the cluster.
    pub(super) name: String,
    pub(super) target: Target,
    /// The version that the server reports.
    pub(super) version: String,
    /// The controller is started here.
    pub(super) spawn: bool,
    /// Clients for two purposes, each with connections of its own.
    pub(super) writing: Client,
    pub(super) watching: Client,
}

// === impl Session ===

impl<'a> Session<'a> {
    /// Writes nothing to the cluster yet; asks whoever sits at the terminal before anything is.
    pub(super) async fn prepare(args: &'a Args) -> anyhow::Result<Self> {
        let plan = Plan::new(&args.source, &args.sizes, &args.tuning, args.seed)?;
        let spawn = args.controller.spawn || args.target.kubeconfig.is_none();
        ensure!(
            spawn || !plan.has_restarts(),
            "only a controller that was started here can be started again: give --spawn"
        );
        for pid in &args.controller.pid {
            charge::name_of(*pid).with_context(|| format!("there is no process {pid}, or no /proc"))?;
        }
        if let Some(dir) = &args.report {
            std::fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
        }
        let target = match &args.target.kubeconfig {
            Some(path) => Target::cluster(path).await?,
            None => Target::embedded(plan.seed).await?,
        };
        let (writing, watching) = (target.client()?, target.client()?);
        target.confirm(&format!("Write {}", plan.sizes), args.target.yes)?;
        let version = target.version(&writing).await?;
        target.check_access(&Http::new(writing.clone())).await?;
        Ok(Self {
            args,
            plan,
            name: args.target.run.clone().unwrap_or_else(random_name),
            target,
            version,
            spawn,
            writing,
            watching,
        })
    }

    /// The oracle's options.
    pub(super) fn options(&self) -> oracle::Options {
        oracle::Options {
            outputs: self.args.controller.outputs.outputs(),
            max_endpoints_per_slice: self.args.controller.max_endpoints_per_slice.into(),
            // Here alone Services are made, and their cluster IPs stay.
            headless_label: !self.plan.replaces_services(),
        }
    }
}

/// Not from the seed: two runs of one seed may meet on a cluster.
fn random_name() -> String {
    let mut rng = fastrand::Rng::new();
    (0..NAME_LENGTH).map(|_| rng.lowercase()).collect()
}
