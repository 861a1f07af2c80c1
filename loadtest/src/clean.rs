//! `loadtest clean`: takes away what runs left behind in a cluster, and nothing else.

use crate::api::{self, Http, Resource};
use crate::names::{LABEL, is_ours};
use crate::target::Target;
use anyhow::{Context, bail};
use futures::{TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::ListParams;
use kube::{Api, Client, Resource as Object, ResourceExt};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Namespaces that are emptied at once, and requests under way.
const CONCURRENCY: usize = 8;
const LOOK: Duration = Duration::from_millis(200);
/// How long namespaces may take to go once they are empty.
const LIMIT: Duration = Duration::from_secs(120);
/// If no deleted namespace has gone after so long, and none shows that a controller has looked at it, the cluster has
/// none that removes them. kube-controller-manager begins five seconds after a namespace was deleted.
const UNATTENDED: Duration = Duration::from_secs(15);
/// How many names are written out.
const SHOWN: usize = 5;

/// Flags of `loadtest clean`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Kubeconfig file; the cluster is that of its current context
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// Delete only the objects of this run; by default those of all runs, including runs in progress
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Do not ask before deleting on a server that is not on loopback
    #[arg(long)]
    yes: bool,
}

/// The numbers of objects that were deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cleaned {
    pub(crate) namespaces: usize,
    pub(crate) nodes: usize,
    /// Namespaces that are empty and deleted, and stay, since the cluster has no controller that would remove them.
    pub(crate) left: usize,
}

/// The objects of one kind that were found.
struct Found {
    ours: Vec<String>,
    /// They have the label, but a name that no run gives.
    foreign: Vec<String>,
}

/// Cleans a cluster.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { kubeconfig, run, yes } = args;
    let target = Target::cluster(&kubeconfig).await?;
    let what = match &run {
        Some(run) => format!("Delete what the run {run} left"),
        None => "Delete what all runs left".to_owned(),
    };
    let client = target.client()?;
    target.confirm(&what, yes)?;
    target.version(&client).await?;
    let cleaned = clean(&client, run.as_deref()).await?;
    let Cleaned {
        namespaces, nodes, ..
    } = cleaned;
    println!("deleted {namespaces} namespaces and {nodes} nodes");
    if let Some(remark) = cleaned.remark() {
        println!("{remark}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Deletes the namespaces and nodes of a run, or of all runs, with all that is in them. Objects that only look like a
/// run's are not touched, and then this fails.
pub(crate) async fn clean(client: &Client, run: Option<&str>) -> anyhow::Result<Cleaned> {
    let http = Http::new(client.clone());
    let namespaces = Found::list::<Namespace>(client, run).await?;
    stream::iter(namespaces.ours.iter().map(Ok))
        .try_for_each_concurrent(CONCURRENCY, async |name| empty(&http, name).await)
        .await?;
    // Nodes go after their pods: a pod whose node is gone would be the business of other controllers, too.
    let nodes = Found::list::<Node>(client, run).await?;
    stream::iter(nodes.ours.iter().map(Ok))
        .try_for_each_concurrent(CONCURRENCY, async |name| {
            delete(&http, &Resource::Nodes.path("", name)).await
        })
        .await?;
    let start = Instant::now();
    loop {
        let left_namespaces = Found::list::<Namespace>(client, run).await?;
        let left_nodes = Found::list::<Node>(client, run).await?;
        let left: Vec<&String> = left_namespaces.ours.iter().chain(&left_nodes.ours).collect();
        if left.is_empty() {
            let foreign: Vec<&String> = left_namespaces
                .foreign
                .iter()
                .chain(&left_nodes.foreign)
                .collect();
            if !foreign.is_empty() {
                bail!(
                    "not touched, because no run makes objects of such names: {}",
                    some(&foreign)
                );
            }
            return Ok(Cleaned {
                namespaces: namespaces.ours.len(),
                nodes: nodes.ours.len(),
                left: 0,
            });
        }
        let waited = Instant::now().saturating_duration_since(start);
        if waited >= UNATTENDED
            && left_nodes.ours.is_empty()
            && left_namespaces.ours.len() == namespaces.ours.len()
            && are_unattended(client, run).await?
        {
            return Ok(Cleaned {
                namespaces: 0,
                nodes: nodes.ours.len(),
                left: left_namespaces.ours.len(),
            });
        }
        if waited >= LIMIT {
            bail!("still there after {LIMIT:?}: {}", some(&left));
        }
        sleep(LOOK).await;
    }
}

/// All these namespaces are deleted, and no controller has noted what it found in any of them.
async fn are_unattended(client: &Client, run: Option<&str>) -> anyhow::Result<bool> {
    let namespaces = Api::<Namespace>::all(client.clone())
        .list(&selection(run))
        .await
        .context("listing namespaces")?;
    let mut ours = namespaces.items.iter().filter(|namespace| {
        let run = namespace.labels().get(LABEL);
        run.is_some_and(|run| is_ours(&namespace.name_any(), run))
    });
    Ok(ours.all(|namespace| {
        let status = namespace.status.as_ref();
        let noted = status.and_then(|status| status.conditions.as_ref());
        namespace.metadata.deletion_timestamp.is_some() && noted.is_none_or(Vec::is_empty)
    }))
}

/// Deletes what is in a namespace, and then the namespace. Not everywhere is there a controller that would do it.
async fn empty(http: &Http, namespace: &str) -> anyhow::Result<()> {
    // Services first: for Services without pods a controller would have much to write.
    for kind in [
        Resource::Services,
        Resource::Endpoints,
        Resource::Slices,
        Resource::Pods,
    ] {
        let collection = kind.path(namespace, "");
        let emptied = api::retrying(|| http.delete(&collection, 0)).await;
        if let Err(error) = emptied
            && api::code(&error) != Some(404)
        {
            return Err(error);
        }
    }
    delete(http, &Resource::Namespaces.path("", namespace)).await
}

/// Deletes an object that may be gone, or going, already.
async fn delete(http: &Http, path: &str) -> anyhow::Result<()> {
    match api::retrying(|| http.delete(path, 0)).await {
        Err(error) if !matches!(api::code(&error), Some(404 | 409)) => Err(error),
        _ => Ok(()),
    }
}

fn some(names: &[&String]) -> String {
    let shown: BTreeSet<&str> = names.iter().map(|name| name.as_str()).take(SHOWN).collect();
    let shown = shown.into_iter().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        rest => format!("{shown} and {rest} more"),
    }
}

/// The objects of a run, or of all runs.
fn selection(run: Option<&str>) -> ListParams {
    let label = run.map_or_else(|| LABEL.to_owned(), |run| format!("{LABEL}={run}"));
    ListParams::default().labels(&label)
}

// === impl Cleaned ===

impl Cleaned {
    /// Returns the text that the user should read beside the counts.
    pub(crate) fn remark(&self) -> Option<String> {
        (self.left > 0).then(|| {
            format!(
                "{} empty namespaces stay Terminating: this cluster seems to have no namespace controller (part of \
                 kube-controller-manager) to remove them",
                self.left
            )
        })
    }
}

// === impl Found ===

impl Found {
    async fn list<K>(client: &Client, run: Option<&str>) -> anyhow::Result<Self>
    where
        K: Object<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let list = Api::<K>::all(client.clone()).list(&selection(run)).await;
        let list = list.with_context(|| format!("listing {}", K::plural(&())))?;
        let (ours, foreign): (Vec<K>, Vec<K>) = list.items.into_iter().partition(|object| {
            let run = object.labels().get(LABEL);
            run.is_some_and(|run| is_ours(&object.name_any(), run))
        });
        let names = |objects: Vec<K>| objects.iter().map(ResourceExt::name_any).collect();
        Ok(Self {
            ours: names(ours),
            foreign: names(foreign),
        })
    }
}
