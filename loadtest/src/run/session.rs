//! A run that can begin: everything is decided, and the server answers.

use super::args::Args;
use super::plan::Plan;
use super::usage;
use crate::api::Http;
use crate::target::Target;
use crate::{oracle, watchers};
use anyhow::{Context, ensure};
use kube::Client;
use std::time::Duration;

const NAME_LENGTH: usize = 6;
/// Events of each kind that the server remembers in a large cluster; half of the most that a kube-apiserver does.
const LARGE_HISTORY: usize = 50_000;
/// Services or pods of a large cluster.
const LARGE: usize = 20_000;
/// How long a controller may take to be in sync.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// How much longer a controller may take at its start for each Service, of which it writes a slice and Endpoints: ten times
/// what two writes take at its default limit.
const TIME_FOR_SERVICE: Duration = Duration::from_millis(40);

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
    /// Prepares a run. It writes nothing to the cluster yet, and asks the user at the terminal before anything is
    /// written.
    pub(super) async fn prepare(args: &'a Args) -> anyhow::Result<Self> {
        let plan = Plan::new(&args.source, &args.sizes, &args.tuning, args.seed)?;
        let spawn = args.controller.spawn || args.target.kubeconfig.is_none();
        ensure!(
            spawn || !plan.has_restarts(),
            "only a controller that was started here can be started again: give --spawn"
        );
        ensure!(
            args.watchers.watchers.is_none() || args.controller.outputs.outputs().slices,
            "watchers watch slices: --outputs=endpoints means nothing here"
        );
        watchers::reserve_files(&args.watchers)?;
        for pid in &args.controller.pid {
            usage::name_of(*pid).with_context(|| format!("there is no process {pid}, or no /proc"))?;
        }
        if let Some(dir) = &args.report {
            std::fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
        }
        let target = match &args.target.kubeconfig {
            Some(path) => Target::cluster(path).await?,
            None => Target::embedded(server_config(&plan)).await?,
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

    /// How long the controller may take to be in sync after the last change.
    pub(super) fn time_limit(&self) -> Duration {
        self.args.time_limit.unwrap_or(TIME_LIMIT)
    }

    /// How long the controller may take at its start. It writes all that there is to write; what the user said is taken as
    /// it is.
    pub(super) fn start_limit(&self) -> Duration {
        let of_services = TIME_FOR_SERVICE * self.plan.sizes.services as u32;
        self.args
            .time_limit
            .unwrap_or_else(|| self.time_limit().max(of_services))
    }

    /// Flags of a controller that is started, before those that the user chose. It counts a watcher for each node, but nodes
    /// are played here, and nothing watches beside the proxies of the run.
    pub(super) fn controller_flags(&self) -> Vec<String> {
        let of_plan = self.plan.controller_flags().iter();
        let mut flags: Vec<String> = of_plan.copied().map(str::to_owned).collect();
        let watchers = self.args.watchers.watchers;
        if watchers.is_some() || self.args.target.kubeconfig.is_none() {
            flags.push(format!("--watchers={}", watchers.unwrap_or_default()));
        }
        flags
    }

    /// The oracle's options.
    pub(super) fn options(&self) -> oracle::Options {
        oracle::Options {
            outputs: self.args.controller.outputs.outputs(),
            max_endpoints_per_slice: self.args.controller.max_endpoints_per_slice.into(),
            // Here alone Services are made, and their cluster IPs stay. A sandbox's name never comes back.
            headless_label: true,
            mirrored: false,
            custom: false,
        }
    }
}

/// The settings of the server in memory. In a large cluster many thousand objects change within a second; with the default
/// history the controller's watch would be cut off whenever it gets no CPU for that long, and it would list them all again.
fn server_config(plan: &Plan) -> memory_apiserver::Config {
    let config = memory_apiserver::Config::default().seed(plan.seed);
    let sizes = &plan.sizes;
    if sizes.pods.max(sizes.services) >= LARGE {
        config.history(LARGE_HISTORY).watch_buffer(LARGE_HISTORY)
    } else {
        config
    }
}

/// Not from the seed: two runs of one seed may meet on a cluster.
fn random_name() -> String {
    let mut rng = fastrand::Rng::new();
    (0..NAME_LENGTH).map(|_| rng.lowercase()).collect()
}
