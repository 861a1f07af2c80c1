//! The demo's flags, and how large the cluster is.

use std::{ffi::OsString, time::Duration};

use crate::parse::{count, duration};

/// Flags of `loadtest demo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) sizes: Sizes,
    /// Duration of the churn, such as 15s or 2m.
    #[arg(long, default_value = "15s", value_parser = duration)]
    pub(super) duration: Duration,
    /// Churn operations per second.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) rate: u32,
    /// Seed of the cluster and of the churn's choices; random by default.
    #[arg(long)]
    pub(super) seed: Option<u64>,
    /// How long the controller may take to be in sync after the last change.
    #[arg(long, default_value = "60s", value_parser = duration)]
    pub(super) time_limit: Duration,
    /// Maximum number of endpoints in a slice, for the controller and for the verification.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(super) max_endpoints_per_slice: u16,
    /// Spoil one endpoint before the verification, which must then fail.
    #[arg(long, hide = true, value_enum)]
    pub(super) tamper: Option<Tamper>,
    /// More flags for `endpointd run`.
    #[arg(last = true, value_name = "CONTROLLER FLAGS")]
    pub(super) controller: Vec<OsString>,
}

/// How many of everything there are.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Sizes {
    /// Number of pods.
    #[arg(long, default_value_t = 5000, value_parser = count(200_000))]
    pub(super) pods: usize,
    /// Number of Services, of many kinds.
    #[arg(long, default_value_t = 200, value_parser = count(20_000))]
    pub(super) services: usize,
    /// Number of namespaces.
    #[arg(long, default_value_t = 10, value_parser = count(1_000))]
    pub(super) namespaces: usize,
    /// Number of nodes, in three zones.
    #[arg(long, default_value_t = 50, value_parser = count(10_000))]
    pub(super) nodes: usize,
}

/// How an endpoint is spoilt.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Tamper {
    /// Its address is changed.
    Corrupt,
    /// It is taken out.
    Drop,
    /// One that belongs to no pod is put beside it.
    Add,
}
