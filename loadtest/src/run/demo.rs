//! `loadtest demo`: a run of the profile `demo` on a server in memory, with fewer flags, the figures that users want to
//! see first, and a verification of the whole cluster in the end.

mod summary;
mod tamper;

use self::summary::Summary;
use super::args::{self, ControllerFlags, OutputsFlag, TargetFlags};
use super::exit_code;
use super::measure::{Measured, measure};
use super::phase::{Profile, Tuning};
use super::plan::Source;
use super::session::Session;
use super::sizes::SizeFlags;
use super::world::World;
use crate::parse::{count, duration};
use crate::{oracle, watchers};
use anyhow::ensure;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

/// Flags of `loadtest demo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    sizes: Sizes,
    /// Duration of the churn, such as 15s or 2m.
    #[arg(long, default_value = "15s", value_parser = duration)]
    duration: Duration,
    /// Churn operations per second.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,
    /// Seed of the cluster and of the churn's choices; random by default.
    #[arg(long)]
    seed: Option<u64>,
    /// How long the controller may take to be in sync after the last change.
    #[arg(long, default_value = "60s", value_parser = duration)]
    time_limit: Duration,
    /// Maximum number of endpoints in a slice, for the controller and for the verification.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    max_endpoints_per_slice: u16,
    /// Spoil one endpoint before the verification, which must then fail.
    #[arg(long, hide = true, value_enum)]
    tamper: Option<Tamper>,
    /// More flags for `endpointd run`.
    #[arg(last = true, value_name = "CONTROLLER FLAGS")]
    controller: Vec<OsString>,
}

/// How many of everything there are.
#[derive(Clone, Copy, Debug, clap::Args)]
struct Sizes {
    /// Number of pods.
    #[arg(long, default_value_t = 5000, value_parser = count(200_000))]
    pods: usize,
    /// Number of Services, of many kinds.
    #[arg(long, default_value_t = 200, value_parser = count(20_000))]
    services: usize,
    /// Number of namespaces.
    #[arg(long, default_value_t = 10, value_parser = count(1_000))]
    namespaces: usize,
    /// Number of nodes, in three zones.
    #[arg(long, default_value_t = 50, value_parser = count(10_000))]
    nodes: usize,
}

/// How an endpoint is spoilt.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Tamper {
    /// Its address is changed.
    Corrupt,
    /// The endpoint is taken out.
    Drop,
    /// One that belongs to no pod is put beside it.
    Add,
}

/// Runs the demo; a failed verification is an exit code of its own, not an error.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let tamper = args.tamper;
    let args = args.of_run();
    let session = Session::prepare(&args).await?;
    let plan = &session.plan;
    eprintln!("{}; seed {}", plan.sizes, plan.seed);
    let world = World::new(plan, &session.name);
    let measured = Box::pin(measure(&session, world)).await?;
    let warnings = measured.report.verdict.warnings.join("; ");
    ensure!(measured.report.changes.failed == 0, "{warnings}");
    println!("\n{}", Summary::of(&measured, plan));
    let Measured { stopped, .. } = measured;
    stopped?;

    if let Some(how) = tamper {
        println!("tampered with {}", tamper::tamper(&session.writing, how).await?);
    }
    let report = oracle::check(&session.writing, &session.options()).await?;
    println!("{report}");
    Ok(exit_code(report.is_correct()))
}

// === impl Args ===

impl Args {
    /// The run that the demo is.
    fn of_run(self) -> args::Args {
        // No other client asks this server anything, and the churn is worth more writes than the 500 a second that a
        // shared one is spared above.
        let flags = std::iter::once("--kube-api-qps=0".into()).chain(self.controller);
        args::Args {
            source: Source::Profile(Profile::Demo),
            sizes: SizeFlags {
                pods: Some(self.sizes.pods),
                namespaces: Some(self.sizes.namespaces),
                services: Some(self.sizes.services),
                nodes: Some(self.sizes.nodes),
                ..SizeFlags::default()
            },
            tuning: Tuning {
                rate: Some(self.rate),
                duration: Some(self.duration),
                ..Tuning::default()
            },
            seed: self.seed,
            target: TargetFlags {
                kubeconfig: None,
                run: Some("demo".to_owned()),
                yes: false,
            },
            controller: ControllerFlags {
                spawn: true,
                pid: Vec::new(),
                metrics_url: None,
                outputs: OutputsFlag::All,
                max_endpoints_per_slice: self.max_endpoints_per_slice,
                flags: flags.collect(),
            },
            watchers: watchers::Flags::default(),
            report: None,
            budget: Vec::new(),
            repeat: 1,
            title: None,
            time_limit: Some(self.time_limit),
        }
    }
}
