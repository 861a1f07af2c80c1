//! `endpointd explain`: reads one Service, its pods, and the objects that are published for it.

use super::audit::{is_missing, node_table, published_slices};
use crate::cluster::codec::{NamedNode, Namespaced};
use crate::cluster::read::{Item, ReadError, Reader, Selection};
use crate::core::facts::observed::{ObservedPod, ObservedService};
use crate::core::facts::{ENDPOINTS_MANAGED_BY, EndpointsFacts, LABEL_ENDPOINTS_MANAGED_BY, ServiceFacts};
use crate::core::hints::HintMode;
use crate::core::namespace::{Kind, Settings};
use crate::core::nodes::NodeTable;
use crate::core::selector::Selector;
use crate::inspect::census::opts_in;
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
    /// There is no such namespace.
    #[error("there is no namespace {0}")]
    NoNamespace(String),
    /// There is no Service with such labels.
    #[error("there is no Service{labels} in namespace {namespace}")]
    NoneLabelled {
        /// The namespace.
        namespace: String,
        /// The labels in words, behind a space.
        labels: String,
    },
    /// There is no such Service.
    #[error("there is no Service {name}{more}")]
    NotFound {
        /// `namespace/name`.
        name: String,
        /// Hints that may help, each behind a semicolon.
        more: String,
    },
}

/// Reads a Service and everything that its endpoints depend on, and explains it. Writes nothing. The settings are those by
/// which the controller computes the desired objects. With `as_served`, they are those of the controller that would serve the
/// Service: if its annotations decide what is published for it, they are heeded even if the settings leave them out.
pub async fn look(
    reader: &Reader,
    namespace: &str,
    name: &str,
    mut settings: Settings,
    as_served: bool,
) -> Result<Explanation, ExplainError> {
    let Namespaced {
        namespace,
        facts: mut service,
    } = read_service(reader, namespace, name).await?;
    let opts_in = opts_in(&service.facts, &namespace);
    settings.outputs.custom |= opts_in && as_served;
    let left_out = opts_in && !settings.outputs.custom;
    let asked = settings;
    service.facts = service.facts.resolve(&namespace, settings.outputs);
    let facts = &service.facts;
    let mut objects = Objects {
        services: vec![facts.clone()],
        ..Objects::default()
    };
    let (pods, nodes) = read_pods_and_slices(reader, &namespace, facts, &mut objects).await?;
    let found = reader.get(Kind::Endpoints, Some(&namespace), name).await;
    let (endpoints, endpoints_unreadable): (Option<Namespaced<EndpointsFacts>>, _) = match found {
        // Where only annotated Services are published for, there may be no permission to read them.
        Err(error) if error.is_forbidden() => {
            (settings.outputs.endpoints, settings.outputs.mirrored) = (false, false);
            (None, Some(error.to_string()))
        }
        found => (found?, None),
    };
    let (nodes, mut table) = match nodes {
        Ok((known, table)) => (SeenNodes::Known(known), table),
        // Endpoints do not depend on nodes.
        Err(why) => {
            settings.outputs.slices = false;
            (SeenNodes::Unreadable(why), NodeTable::default())
        }
    };
    // All that is there is shown, and judged is only what an audit with these settings reads.
    let slices = objects.slices.clone();
    if !Kind::Slice.is_needed(settings.outputs) {
        objects.slices.clear();
    }
    let endpoints = endpoints.map(|endpoints| endpoints.facts);
    if Kind::Endpoints.is_needed(settings.outputs) {
        objects.endpoints.extend(endpoints.clone());
    }
    let (_, mut wrong) = objects.take_up(&namespace, settings, &mut table);
    if matches!(nodes, SeenNodes::Unreadable(_)) && facts.custom {
        wrong.clear();
    }
    Ok(explain(Seen {
        namespace,
        service,
        pods,
        nodes,
        slices,
        endpoints,
        endpoints_unreadable,
        wrong: wrong.into_values().flatten().collect(),
        settings: asked,
        left_out,
    }))
}

/// Reads the pods of a Service and their nodes, and the slices that are published for it. The inner error says why nodes may
/// not be read.
async fn read_pods_and_slices(
    reader: &Reader,
    namespace: &str,
    service: &ServiceFacts,
    objects: &mut Objects,
) -> Result<(Option<Pods>, Result<Nodes, String>), ReadError> {
    // Published objects are read last, as when a controller starts; but without a selector, which pods matter shows only in
    // what is published.
    let selects = service.selector.is_some();
    if !selects {
        objects.slices = published_slices(reader, namespace, &service.name).await?;
    }
    let pods = if service.is_managed() {
        Some(read_pods(reader, namespace, service, objects).await?)
    } else {
        None
    };
    let matching = pods.iter().flat_map(|pods| &pods.matching);
    let names: BTreeSet<_> = matching.filter_map(|pod| pod.facts.node.clone()).collect();
    let nodes = match nodes(reader, &names, service.hints == HintMode::Auto).await {
        Err(error) if error.is_forbidden() => Err(error.to_string()),
        read => Ok(read?),
    };
    if selects {
        objects.slices = published_slices(reader, namespace, &service.name).await?;
    }
    Ok((pods, nodes))
}

/// Reads the Service. The error says whether it or its namespace does not exist.
async fn read_service(
    reader: &Reader,
    namespace: &str,
    name: &str,
) -> Result<Namespaced<ObservedService>, ExplainError> {
    if let Some(found) = reader.get(Kind::Service, Some(namespace), name).await? {
        return Ok(found);
    }
    // The Service is what was asked for: if nothing can be learnt of its namespace, that is no error of its own.
    if let Ok(true) = is_missing(reader, namespace).await {
        return Err(ExplainError::NoNamespace(namespace.to_owned()));
    }
    Err(not_found(reader, namespace, name).await)
}

/// Returns the names of the Services of a namespace that have certain labels, sorted. There is at least one.
pub(super) async fn labelled(
    reader: &Reader,
    namespace: &str,
    labels: Option<&Selector>,
) -> Result<Vec<Arc<str>>, ExplainError> {
    let here = Selection {
        labels: labels.map(ToString::to_string).unwrap_or_default(),
        ..Selection::in_namespace(namespace)
    };
    let services: Vec<Namespaced<ServiceFacts>> = reader.all(Kind::Service, &here).await?;
    let mut names: Vec<_> = services.into_iter().map(|service| service.facts.name).collect();
    names.sort_unstable();
    if !names.is_empty() {
        return Ok(names);
    }
    if let Ok(true) = is_missing(reader, namespace).await {
        return Err(ExplainError::NoNamespace(namespace.to_owned()));
    }
    let labels = labels.map(|labels| format!(" that has the labels {labels}"));
    Err(ExplainError::NoneLabelled {
        namespace: namespace.to_owned(),
        labels: labels.unwrap_or_default(),
    })
}

/// Reads the pods of a managed Service: those that its selector matches, or, without one, those that its slices
/// hold. The slices must have been read.
async fn read_pods(
    reader: &Reader,
    namespace: &str,
    service: &ServiceFacts,
    objects: &mut Objects,
) -> Result<Pods, ReadError> {
    let here = Selection::in_namespace(namespace);
    let endpoints = objects.slices.iter().flat_map(|slice| &slice.endpoints);
    let held: BTreeSet<&str> = endpoints.filter_map(|endpoint| endpoint.pod.as_deref()).collect();
    let new = || Pods::new(service.selector.clone());
    let mut seen = new();
    reader
        .list(Kind::Pod, &here, |item| match item {
            Item::Object(Namespaced::<ObservedPod> { facts, .. }) => {
                if service.selector.is_some() || held.contains(&*facts.facts.name) {
                    seen.see(facts);
                }
            }
            Item::Restart => seen = new(),
        })
        .await?;
    objects.pods = seen.matching.iter().map(|pod| pod.facts.clone()).collect();
    Ok(seen)
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
    let here = Selection::in_namespace(namespace);
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
