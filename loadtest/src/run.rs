//! `loadtest run`: a cluster, something that happens to it, and what a controller makes of that.
//!
//! ```text
//!  Plan (flags, profile, file) ──► World ──► fill ──► controller ──► Script ──► Generator ──► API server
//!                                                                                               │
//!           Report ◄── oracle ◄── settle ◄────────────────────────────── OutputWatch ◄──────────┘
//! ```
//!
//! Only API objects are looked at, so any controller can be measured.

mod args;
mod charge;
mod fill;
mod generator;
mod measure;
mod objects;
mod phase;
mod plan;
mod record;
mod script;
mod sizes;
mod world;

use std::{collections::HashSet, process::ExitCode};

use anyhow::{Context, bail, ensure};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::{Api, Client, ResourceExt, api::ListParams, core::Resource};
use serde::de::DeserializeOwned;

pub use self::args::Args;
use self::{
    measure::{Clients, measure},
    plan::Plan,
    world::World,
};
use crate::{
    api::Http,
    clean::{self, Cleaned},
    figures::number,
    serve,
    target::Target,
};

const NAME_LENGTH: usize = 6;
/// What a shell reports for a command that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Does a run; a failed verification is an exit code of its own, not an error.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
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
    let name = args.target.run.clone().unwrap_or_else(random_name);
    let target = match &args.target.kubeconfig {
        Some(path) => Target::cluster(path).await?,
        None => Target::embedded(plan.seed).await?,
    };
    let clients = Clients {
        writing: target.client()?,
        watching: target.client()?,
    };
    let what = format!(
        "Write {} nodes, {} namespaces, {} Services and {} pods",
        plan.sizes.nodes, plan.sizes.namespaces, plan.sizes.services, plan.sizes.pods
    );
    target.confirm(&what, args.target.yes)?;
    let version = target.version(&clients.writing).await?;
    target.check_access(&Http::new(clients.writing.clone())).await?;
    eprintln!(
        "{}: {} pods, {} services, {} namespaces, {} nodes; run {name}, seed {}",
        plan.name,
        number(plan.sizes.pods as u64),
        number(plan.sizes.services as u64),
        number(plan.sizes.namespaces as u64),
        number(plan.sizes.nodes as u64),
        plan.seed
    );

    let world = World::new(&plan, &name);
    let stop = serve::asked_to_stop()?;
    let cluster = clients.writing.clone();
    if !target.is_embedded() {
        refuse_foreign(&cluster, &world).await?;
    }
    let measured = measure(&args, &plan, &target, clients, world, version, spawn);
    // Boxed: it holds the whole run.
    let outcome = tokio::select! {
        biased;
        () = stop => None,
        outcome = Box::pin(measured) => Some(outcome),
    };
    // Before cleaning up, which may fail.
    let shown = match &outcome {
        Some(Ok(report)) => record::show(report, args.report.as_deref()),
        _ => Ok(()),
    };
    let cleaned = match &args.target.kubeconfig {
        Some(path) => {
            let again = format!("loadtest clean --kubeconfig {} --run {name}", path.display());
            clean_up(&cluster, &name, outcome.is_none())
                .await
                .with_context(|| format!("what the run left is not all gone; this goes on with it: {again}"))
        }
        None => Ok(()),
    };
    match (outcome, cleaned) {
        (Some(Err(error)), Err(left)) => {
            eprintln!("error: {left:#}");
            Err(error)
        }
        (Some(Err(error)), Ok(())) => Err(error),
        (Some(Ok(_)), Err(left)) => Err(left),
        (None, Err(left)) => {
            eprintln!("error: {left:#}");
            Ok(interrupted())
        }
        (None, Ok(())) => Ok(interrupted()),
        (Some(Ok(report)), Ok(())) => {
            shown?;
            Ok(if report.verdict.verified {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            })
        }
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

/// Takes away what the run made, until somebody asks to stop once more.
async fn clean_up(client: &Client, run: &str, was_interrupted: bool) -> anyhow::Result<()> {
    let stop = serve::asked_to_stop()?;
    if was_interrupted {
        eprintln!("cleaning up; Ctrl-C once more leaves it undone");
    }
    tokio::select! {
        biased;
        () = stop => bail!("interrupted"),
        cleaned = clean::clean(client, Some(run)) => {
            let Cleaned { namespaces, nodes } = cleaned?;
            eprintln!("cleaned up: {namespaces} namespaces, {nodes} nodes");
            Ok(())
        }
    }
}

/// The exit code of a command that was asked to end.
fn interrupted() -> ExitCode {
    ExitCode::from(INTERRUPTED)
}

/// Not from the seed: two runs of one seed may meet on a cluster.
fn random_name() -> String {
    let mut rng = fastrand::Rng::new();
    (0..NAME_LENGTH).map(|_| rng.lowercase()).collect()
}
