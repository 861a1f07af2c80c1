//! `endpointd explain`: reads one Service, its pods, and the objects that are published for it.

use super::audit::{node_table, published};
use crate::cluster::codec::{NamedNode, Namespaced};
use crate::cluster::read::{Item, ReadError, Reader, Selection};
use crate::core::facts::observed::{ObservedPod, ObservedService};
use crate::core::facts::{
    ENDPOINTS_MANAGED_BY, EndpointsFacts, LABEL_ENDPOINTS_MANAGED_BY, PodFacts, ServiceFacts,
};
use crate::core::hints::HintMode;
use crate::core::namespace::{Kind, Settings};
use crate::core::nodes::NodeTable;
use crate::core::outputs::Outputs;
use crate::inspect::examine::Objects;
use crate::inspect::explain::{Explanation, Pods, Seen, SeenNodes, explain, meant};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

/// With more nodes than this, all nodes are listed instead of being read one by one.
const FEW_NODES: usize = 20;
/// The number of nodes that are read at the same time.
const AT_ONCE: usize = 8;

/// The reason why a Service could not be explained, on one line.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// Something could not be read.
    #[error("{0}")]
    Read(#[from] ReadError),
    /// There is no such Service.
    #[error("there is no Service {name}{more}")]
    NotFound {
        /// `namespace/name`.
        name: String,
        /// Hints that may help, each behind a semicolon.
        more: String,
    },
}

/// Reads a Service and everything that its endpoints depend on, and explains it. Writes nothing. `max_mirrored` is the
/// limit of addresses that the controller mirrors of each subset.
pub async fn look(
    reader: &Reader,
    namespace: &str,
    name: &str,
    max_mirrored: usize,
) -> Result<Explanation, ExplainError> {
    let found: Option<Namespaced<ObservedService>> = reader.get(Kind::Service, Some(namespace), name).await?;
    let Some(Namespaced {
        namespace,
        facts: mut service,
    }) = found
    else {
        return Err(not_found(reader, namespace, name).await);
    };
    // Whoever annotates a Service expects that the annotation counts.
    let settings = Settings {
        outputs: Outputs {
            custom: service.facts.annotated.is_some(),
            ..Outputs::ALL
        },
        max_mirrored,
        ..Settings::default()
    };
    service.facts = service.facts.resolve(&namespace, settings.outputs);
    let mut pods = None;
    if let Some(selector) = &service.facts.selector {
        let here = Selection {
            namespace: Some(namespace.to_string()),
            ..Selection::default()
        };
        let mut seen = Pods::new(selector.clone());
        reader
            .list(Kind::Pod, &here, |item| match item {
                Item::Object(Namespaced::<ObservedPod> { facts, .. }) => seen.see(facts),
                Item::Restart => seen = Pods::new(selector.clone()),
            })
            .await?;
        pods = Some(seen);
    }
    let matching = pods.iter().flat_map(|pods| &pods.matching);
    let names: BTreeSet<_> = matching.filter_map(|pod| pod.facts.node.clone()).collect();
    let everything = service.facts.hints == HintMode::Auto;
    let nodes = match nodes(reader, &names, everything).await {
        Ok(table) => Ok(table),
        Err(error) if error.is_forbidden() => Err(error.to_string()),
        Err(error) => return Err(error.into()),
    };
    let mut objects = Objects {
        services: vec![service.facts.clone()],
        pods: pods
            .iter()
            .flat_map(|pods| &pods.matching)
            .map(|pod| pod.facts.clone())
            .collect(),
        ..Objects::default()
    };
    published(reader, settings, &namespace, name, &mut objects).await?;
    if service.facts.is_frozen() {
        objects.pods = followed(reader, &namespace, &objects).await?;
    }
    let (nodes, mut table, outputs) = match nodes {
        Ok((known, table)) => (SeenNodes::Known(known), table, settings.outputs),
        // Endpoints do not depend on nodes.
        Err(why) => {
            let endpoints = Outputs {
                slices: false,
                ..settings.outputs
            };
            (SeenNodes::Unreadable(why), NodeTable::default(), endpoints)
        }
    };
    let settings = Settings { outputs, ..settings };
    let wrong = objects.examine(&namespace, settings, &mut table);
    let Objects {
        slices, endpoints, ..
    } = objects;
    Ok(explain(Seen {
        namespace,
        service,
        pods,
        nodes,
        slices,
        endpoints: endpoints.into_iter().next(),
        wrong: wrong.into_values().flatten().collect(),
        max_mirrored,
    }))
}

/// Reads the pods that the slices of a Service hold, whatever their labels.
async fn followed(reader: &Reader, namespace: &str, objects: &Objects) -> Result<Vec<PodFacts>, ReadError> {
    let here = Selection {
        namespace: Some(namespace.to_owned()),
        ..Selection::default()
    };
    let endpoints = objects.slices.iter().flat_map(|slice| &slice.endpoints);
    let held: BTreeSet<&str> = endpoints.filter_map(|endpoint| endpoint.pod.as_deref()).collect();
    let pods: Vec<Namespaced<PodFacts>> = reader.all(Kind::Pod, &here).await?;
    let pods = pods.into_iter().map(|pod| pod.facts);
    Ok(pods.filter(|pod| held.contains(&*pod.name)).collect())
}

/// The zones of nodes by name, and the table in which the core looks nodes up.
type Nodes = (BTreeMap<Arc<str>, Option<Arc<str>>>, NodeTable);

async fn nodes(reader: &Reader, names: &BTreeSet<Arc<str>>, all: bool) -> Result<Nodes, ReadError> {
    if all || names.len() > FEW_NODES {
        let table = node_table(reader).await?;
        let known = names
            .iter()
            .filter_map(|name| Some((name.clone(), table.get(name)?.zone.clone())));
        return Ok((known.collect(), table));
    }
    let found: Vec<Option<NamedNode>> = stream::iter(names)
        .map(|name| reader.get(Kind::Node, None, name))
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    let (mut known, mut table) = (BTreeMap::new(), NodeTable::default());
    for NamedNode { name, facts, .. } in found.into_iter().flatten() {
        known.insert(name.clone(), facts.zone.clone());
        table.apply(&name, facts, 0);
    }
    Ok((known, table))
}

/// Creates the error for a Service that does not exist, with suggestions for the intended one. Objects that cannot
/// be read give no hint.
async fn not_found(reader: &Reader, namespace: &str, name: &str) -> ExplainError {
    let mut more = String::new();
    let left: Result<Option<Namespaced<EndpointsFacts>>, _> =
        reader.get(Kind::Endpoints, Some(namespace), name).await;
    if let Ok(Some(left)) = left {
        let ours = left.facts.labels.get(LABEL_ENDPOINTS_MANAGED_BY) == Some(ENDPOINTS_MANAGED_BY);
        more.push_str(if ours {
            "; its Endpoints are left over, and are deleted when a controller starts"
        } else {
            "; there are Endpoints of that name, which somebody else has made"
        });
    }
    let here = Selection {
        namespace: Some(namespace.to_owned()),
        ..Selection::default()
    };
    let services: Result<Vec<Namespaced<ServiceFacts>>, _> = reader.all(Kind::Service, &here).await;
    if let Ok(services) = services {
        let names = services.iter().map(|service| &*service.facts.name);
        if let Some(meant) = meant(name, names) {
            let _ = write!(more, "; is {namespace}/{meant} meant?");
        } else if services.is_empty() {
            let _ = write!(more, "; there is no Service at all in namespace {namespace}");
        }
    }
    ExplainError::NotFound {
        name: format!("{namespace}/{name}"),
        more,
    }
}
