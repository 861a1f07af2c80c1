//! `loadtest real`: endpointd against real binaries of a control plane, or what of it an API server without credentials can
//! show, part by part.
//!
//! ```text
//!  Part ──► Plane (etcd, kube-apiserver; as many as the part needs) ◄── endpointd, kube-controller-manager
//!   │
//!   └──► Outcome ──► table, exit code
//! ```
//!
//! Each part starts what it needs and ends it, so each can be run alone.

mod cluster;
mod folder;
mod identity;
mod manifests;
mod parts;
mod plane;
mod relay;
mod render;
mod table;
mod workplace;

use self::folder::{Folder, Program};
use self::parts::{Part, Work};
use self::table::{Outcome, Row, Verdict};
use crate::figures::time;
use crate::{api, parse};
use anyhow::Context;
use clap::ValueEnum;
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::time::Instant;

const HELP: &str = "\
Each part starts control planes of its own on loopback, with certificates and tokens that nothing
else knows, RBAC on and free ports, and ends and removes them. Nothing is written to any other
cluster, and nothing is downloaded. What needs a program that is not in the folder is skipped.

Of etcd, any 3.5 or 3.6 will do. All programs are started with their usual flags; where one needs
others, a script of its name in the folder can translate them.

  loadtest real --bin DIR                       everything, in about an hour
  loadtest real --bin DIR --quick               everything in small, in about ten minutes
  loadtest real --bin DIR scenarios take-over   two parts
  loadtest real --server http://127.0.0.1:8080 scenarios take-over";

/// Flags of `loadtest real`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub struct Args {
    /// Parts to run; all by default
    #[arg(value_enum, value_name = "PART")]
    parts: Vec<Part>,
    /// Folder with kube-apiserver, etcd, kube-controller-manager and kubectl
    #[arg(
        long,
        value_name = "DIR",
        env = "KUBE_BIN",
        required_unless_present = "server"
    )]
    bin: Option<PathBuf>,
    /// Instead of starting control planes, use this API server that needs no credentials and on which nothing else works,
    /// such as that of `loadtest serve`; for the parts that need no other program
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Run everything in small
    #[arg(long)]
    quick: bool,
    /// Control planes that work at the same time, in parts that can use several; three for each processor by default
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=32))]
    planes: Option<u8>,
    /// Folder of recorded scenarios
    #[arg(long, value_name = "DIR", default_value = "tests/goldens")]
    scenarios: PathBuf,
    /// Folder of manifests
    #[arg(long, value_name = "DIR", default_value = "deploy")]
    deploy: PathBuf,
    /// Random changes of the differential run, in all; 10000 by default, or 400 with --quick
    #[arg(long, value_name = "COUNT", value_parser = parse::count(10_000_000))]
    steps: Option<usize>,
    /// Seed of the random changes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this history of the differential run, as in the name of its file: 3-2 for `differential-3-2.json`
    #[arg(long, value_name = "SEED-NUMBER", value_parser = history)]
    history: Option<(u64, u64)>,
    /// Pods of the loads; 20000 by default, or 2000 with --quick. Of `sandbox`, the sandboxes that stand; 1000, or 100
    #[arg(long, value_name = "COUNT", value_parser = parse::count(200_000))]
    pods: Option<usize>,
    /// Rounds of each load; 3 by default, or 1 with --quick and of `sandbox`
    #[arg(long, value_name = "COUNT", value_parser = parse::count(100))]
    rounds: Option<usize>,
    /// Simulated kube-proxies of the fan-out loads and of `echo`; 300 by default, of the second load of `echo` 100, or 40 with
    /// --quick
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    watchers: Option<u16>,
    /// Have those of the fan-out loads speak HTTP/2, as kube-proxy does
    #[arg(long)]
    watchers_http2: bool,
    /// Folder for logs and reports
    #[arg(long, value_name = "DIR", default_value = "target/real")]
    out: PathBuf,
}

/// Runs the parts, one after the other, and prints a table.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let work = Work::prepare(&args)?;
    let parts = if args.parts.is_empty() {
        Part::value_variants()
    } else {
        &args.parts
    };
    let mut rows = Vec::new();
    for part in parts {
        let name = part.to_possible_value().expect("every part has a name");
        let name = name.get_name().to_owned();
        eprintln!("== {name}");
        let start = Instant::now();
        let outcome = match work.obstacle(*part) {
            Some(why) => Outcome::skipped(why),
            None => part
                .run(&work)
                .await
                .unwrap_or_else(|error| Outcome::failed(api::in_words(&error))),
        };
        let took = Instant::now().saturating_duration_since(start);
        eprintln!("== {name}: {} ({})", outcome.words, time(took));
        rows.push(Row {
            part: name,
            took,
            outcome,
        });
    }
    print!("{}", table::table(&rows));
    let failed = rows.iter().any(|row| row.outcome.verdict == Verdict::Failed);
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// The seed and the number of a history.
fn history(text: &str) -> Result<(u64, u64), String> {
    let numbers = text
        .split_once('-')
        .and_then(|(seed, number)| Some((seed.parse().ok()?, number.parse().ok()?)));
    numbers.ok_or_else(|| "a history is two numbers, such as 3-2".to_owned())
}

/// Control planes that the machine can carry: most of the time, they wait.
fn planes() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from) * 3
}

// === impl Work ===

impl Work {
    fn prepare(args: &Args) -> anyhow::Result<Self> {
        let folder = args.bin.as_deref().filter(|_| args.server.is_none());
        let folder = folder.map(Folder::open).transpose()?;
        if let Some(folder) = &folder {
            for program in Program::ALL {
                match folder.find(program) {
                    Some(path) => {
                        let version = folder.version(program);
                        let version =
                            version.unwrap_or_else(|error| format!("of unknown version: {error:#}"));
                        eprintln!("{program} {version} ({})", path.display());
                    }
                    None => eprintln!("{program}: not there"),
                }
            }
        }
        std::fs::create_dir_all(&args.out).with_context(|| format!("creating {}", args.out.display()))?;
        Ok(Self {
            folder,
            server: args.server.clone(),
            quick: args.quick,
            deploy: args.deploy.clone(),
            steps: args.steps.unwrap_or(if args.quick { 400 } else { 10_000 }),
            seed: args.seed,
            history: args.history,
            pods: args.pods,
            rounds: args.rounds,
            watchers: args.watchers,
            watchers_http2: args.watchers_http2,
            planes: args.planes.map_or_else(planes, usize::from),
            scenarios: args.scenarios.clone(),
            out: std::path::absolute(&args.out)?,
        })
    }

    /// Why a part cannot be run here, if it cannot.
    fn obstacle(&self, part: Part) -> Option<String> {
        let Some(folder) = &self.folder else {
            return (!part.fits_any_server())
                .then(|| "needs the binaries of a control plane (--bin)".to_owned());
        };
        let missing = folder.missing(part.needs());
        let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
        (!missing.is_empty()).then(|| format!("there is no {} in the folder", missing.join(", ")))
    }
}
