//! `loadtest run`: a cluster, something that happens to it, and what a controller makes of that.
//!
//! ```text
//!  Plan (flags, profile, file) ──► World ──► fill ──► controller ──► Script ──► Generator ──► API server
//!                                                                                               │
//!           Report ◄── oracle ◄── settle ◄────────────────────────────── OutputWatch ◄──────────┘
//! ```
//!
//! `loadtest demo` is such a run with flags, figures and a verification of its own (`demo.rs`).
//!
//! Only API objects are looked at, so any controller can be measured.

mod args;
mod budget;
pub mod demo;
mod fill;
mod filled;
mod generator;
mod kinds;
mod measure;
mod objects;
mod part;
mod phase;
mod plan;
mod record;
mod repeat;
mod scrape;
mod script;
mod session;
mod sizes;
mod usage;
mod world;

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::ListParams;
use kube::core::Resource;
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use std::collections::HashSet;
use std::process::ExitCode;

pub use self::args::Args;
pub(crate) use self::filled::Filled;
use self::measure::{Measured, followed, measure};
pub(crate) use self::repeat::merged;
use self::session::Session;
use self::world::World;
use crate::clean::{self, Cleaned};
use crate::oracle::Outputs;
use crate::report::model::Report;
use crate::{report, serve};

/// The exit code of a command that Ctrl-C ended.
pub(crate) const INTERRUPTED: u8 = 130;

/// Does a run, or as many as are wanted; a failed verification is an exit code of its own, not an error.
pub async fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    let mut rounds = Vec::new();
    // The same in all rounds.
    let mut measured = Outputs::ALL;
    for number in 1..=args.repeat {
        if args.repeat > 1 {
            eprintln!("round {number} of {}", args.repeat);
        }
        let session = Session::prepare(&args).await?;
        let seed = session.plan.seed;
        let world = World::new(&session.plan, &session.name);
        measured = followed(&session, &world);
        let Some(report) = round(&session, world, number).await? else {
            return Ok(ExitCode::from(INTERRUPTED));
        };
        rounds.push(report);
        // All rounds are alike and on the same cluster, so the user confirms only the first.
        args.seed = Some(seed);
        args.target.yes = true;
    }
    let report = if args.repeat > 1 {
        let mut report = repeat::merged(rounds).context("there was no round")?;
        report.budgets = budget::judge(&args.budget, &report, measured);
        record::show(&report, args.report.as_deref())?;
        report
    } else {
        rounds.pop().context("there was no round")?
    };
    Ok(if !report.verdict.verified {
        ExitCode::FAILURE
    } else if report.budgets.iter().any(|budget| !budget.met) {
        ExitCode::from(report::ABOVE_LIMIT)
    } else {
        ExitCode::SUCCESS
    })
}

/// Does one run, shows its report, and takes away what it made; none if the user interrupted it.
async fn round(session: &Session<'_>, world: World, number: u8) -> anyhow::Result<Option<Report>> {
    let Session { args, plan, name, .. } = session;
    eprintln!("{}: {}; run {name}, seed {}", plan.name, plan.sizes, plan.seed);
    let measured = followed(session, &world);
    let stop = serve::asked_to_stop()?;
    if !session.target.is_embedded() {
        refuse_foreign(&session.writing, &world).await?;
    }
    // Boxed: it holds the whole run.
    let mut outcome = tokio::select! {
        biased;
        () = stop => None,
        outcome = Box::pin(measure(session, world)) => Some(outcome.map(judged)),
    };
    // Before cleaning up, which may fail.
    let shown = match &mut outcome {
        Some(Ok(report)) => show_round(args, number, measured, report),
        _ => Ok(()),
    };
    if let Some(path) = &args.target.kubeconfig {
        let again = format!("loadtest clean --kubeconfig {} --run {name}", path.display());
        let cleaned = clean_up(&session.writing, name, outcome.is_none())
            .await
            .with_context(|| format!("what the run left is not all gone; this goes on with it: {again}"));
        match cleaned {
            Err(left) if matches!(outcome, Some(Ok(_))) => return Err(left),
            Err(left) => eprintln!("error: {left:#}"),
            Ok(()) => {}
        }
    }
    shown?;
    outcome.transpose()
}

/// Shows the report of the only round, or saves that of one of several.
fn show_round(args: &Args, number: u8, measured: Outputs, report: &mut Report) -> anyhow::Result<()> {
    if args.repeat == 1 {
        report.budgets = budget::judge(&args.budget, report, measured);
        return record::show(report, args.report.as_deref());
    }
    if let Some(dir) = &args.report {
        report::save(report, &dir.join(format!("round-{number}")))?;
    }
    Ok(())
}

/// The report of a run whose controller has to end well, too.
fn judged(measured: Measured) -> Report {
    let Measured {
        mut report, stopped, ..
    } = measured;
    if let Err(error) = stopped {
        report.verdict.verified = false;
        report.verdict.problems.push(format!("{error:#}"));
    }
    report
}

fn exit_code(is_verified: bool) -> ExitCode {
    if is_verified {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Refuses to begin when there is anything of this run's names already: it would not be this run's to take away.
async fn refuse_foreign(client: &Client, world: &World) -> anyhow::Result<()> {
    let namespaces = names::<Namespace>(client).await?;
    let nodes = names::<Node>(client).await?;
    let taken = world.namespaces.iter().find(|name| namespaces.contains(*name));
    let taken = taken.or_else(|| {
        world
            .nodes
            .iter()
            .map(|node| &node.name)
            .find(|name| nodes.contains(*name))
    });
    match taken {
        Some(name) => bail!("{name} is there already, and not this run's: give another --run"),
        None => Ok(()),
    }
}

async fn names<K>(client: &Client) -> anyhow::Result<HashSet<String>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let list = Api::<K>::all(client.clone());
    let list = list.list_metadata(&ListParams::default()).await;
    let list = list.with_context(|| format!("listing {}", K::plural(&())))?;
    Ok(list.items.iter().map(ResourceExt::name_any).collect())
}

/// Takes away what the run made, until it is asked to stop once more.
async fn clean_up(client: &Client, run: &str, was_interrupted: bool) -> anyhow::Result<()> {
    let stop = serve::asked_to_stop()?;
    if was_interrupted {
        eprintln!("cleaning up; Ctrl-C once more leaves it undone");
    }
    tokio::select! {
        biased;
        () = stop => bail!("interrupted"),
        cleaned = clean::clean(client, Some(run)) => {
            let cleaned = cleaned?;
            let Cleaned { namespaces, nodes, .. } = cleaned;
            eprintln!("cleaned up: {namespaces} namespaces, {nodes} nodes");
            if let Some(remark) = cleaned.remark() {
                eprintln!("{remark}");
            }
            Ok(())
        }
    }
}
