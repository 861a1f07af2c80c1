//! The parts of a run.

mod contestants;
mod control_plane;
mod differential;
mod echo;
mod guard;
pub(super) mod loads;
mod manifests;
mod outages;
mod sandbox;
mod scenarios;
mod take_over;

use super::cluster::Cluster;
use super::folder::{Folder, Program};
use super::table::Outcome;
use crate::run::Filled;
use std::ffi::OsString;
use std::path::PathBuf;

/// A part, which can be run alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// A control plane starts, is restarted, gets an older store, and leaves nothing behind
    ControlPlane,
    /// endpointd settles on what was recorded, in all configurations
    Scenarios,
    /// kube-controller-manager settles on what was recorded from it; one of another version may not
    Recordings,
    /// The same random changes to two control planes end in the same state with kube-controller-manager and with endpointd
    Differential,
    /// Every object of the manifests is accepted, and endpointd does its work with the flags and rights of each overlay
    Manifests,
    /// The admission policy allows and refuses what it should, and lets endpointd do its work
    Guard,
    /// Two replicas take over from each other under churn, with a clean audit after each time
    TakeOver,
    /// The API server is restarted, etcd restored from an older snapshot, watches are cut: right again within 30 seconds
    Outages,
    /// Changes of pods at fixed rates, with kube-controller-manager and endpointd in turns
    Load,
    /// The same, with many simulated kube-proxies
    FanOut,
    /// Pods with a Service of their own come and go at fixed rates, with kube-controller-manager and endpointd in turns
    Sandbox,
    /// How late a watch of metadata, such as endpointd's own, and many simulated kube-proxies are shown each write of a slice
    Echo,
}

/// How much the parts that end and stop processes work on.
const SIZES: [&str; 5] = [
    "--pods=600",
    "--namespaces=3",
    "--services=12",
    "--nodes=6",
    "--rate=40",
];

/// The data that all parts work with.
pub(super) struct Work {
    /// The programs, unless there is a server.
    pub(super) folder: Option<Folder>,
    pub(super) server: Option<String>,
    pub(super) quick: bool,
    /// Control planes that work at the same time where a part can use several.
    pub(super) planes: usize,
    /// The folder of recorded scenarios.
    pub(super) scenarios: PathBuf,
    /// The folder of manifests.
    pub(super) deploy: PathBuf,
    /// Changes of the differential run, in all.
    pub(super) steps: usize,
    pub(super) seed: u64,
    /// The seed and the number of the only history of the differential run.
    pub(super) history: Option<(u64, u64)>,
    /// Pods of the loads, and sandboxes that stand.
    pub(super) pods: Option<usize>,
    /// Rounds of each load.
    pub(super) rounds: Option<usize>,
    /// Simulated kube-proxies of the fan-out loads.
    pub(super) watchers: Option<u16>,
    /// They speak HTTP/2.
    pub(super) watchers_http2: bool,
    /// Where logs and reports go.
    pub(super) out: PathBuf,
}

/// A command line, in words.
fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// Makes pods and Services in a cluster, as many as the flags say, so that pods can change.
async fn filled(cluster: &Cluster, sizes: &[&str]) -> anyhow::Result<Filled> {
    let kubeconfig = format!("--kubeconfig={}", cluster.admin().display());
    Filled::fill(words(&[&["steady", &kubeconfig], sizes].concat())).await
}

// === impl Part ===

impl Part {
    /// The programs without which it cannot be run.
    pub(super) fn needs(self) -> &'static [Program] {
        match self {
            Self::ControlPlane | Self::Scenarios | Self::TakeOver | Self::Outages | Self::Echo => {
                &[Program::Etcd, Program::ApiServer]
            }
            Self::Manifests | Self::Guard => &Program::ALL,
            Self::Recordings | Self::Differential | Self::Load | Self::FanOut | Self::Sandbox => {
                &[Program::Etcd, Program::ApiServer, Program::ControllerManager]
            }
        }
    }

    /// Whether an API server is all that it needs.
    pub(super) fn fits_any_server(self) -> bool {
        matches!(self, Self::Scenarios | Self::TakeOver | Self::Echo)
    }

    pub(super) async fn run(self, work: &Work) -> anyhow::Result<Outcome> {
        match self {
            Self::ControlPlane => control_plane::run(work).await,
            Self::Scenarios => scenarios::endpointd(work).await,
            Self::Recordings => scenarios::upstream(work).await,
            Self::Differential => differential::run(work).await,
            Self::Manifests => manifests::run(work).await,
            Self::Guard => guard::run(work).await,
            Self::TakeOver => take_over::run(work).await,
            Self::Outages => outages::run(work).await,
            Self::Load => loads::steady(work).await,
            Self::FanOut => loads::fan_out(work).await,
            Self::Sandbox => sandbox::run(work).await,
            Self::Echo => echo::run(work).await,
        }
    }
}

// === impl Work ===

impl Work {
    /// The programs. Parts that need them are not run without.
    pub(super) fn folder(&self) -> &Folder {
        self.folder
            .as_ref()
            .expect("a part that needs programs is skipped without a folder")
    }

    /// A cluster for a part: a new control plane whose API server has these options, or the server that was given.
    async fn cluster(&self, name: &str, options: &[&str]) -> anyhow::Result<Cluster> {
        match &self.server {
            Some(url) => Cluster::given(url, name, &self.out),
            None => Cluster::start(self.folder(), name, &self.out, options).await,
        }
    }
}
