//! A deliberately plain recomputation of what the Services of a cluster should have published of them, in
//! `EndpointSlices` and in Endpoints objects, and a comparison with what there is.
//!
//! It shares no code with the controller: it reads the API with the generated types, works everything out
//! from the beginning for every Service, and compares sets. Nothing in it is incremental or clever, because
//! its only worth is that it cannot be wrong in the same way as the controller.
//!
//! The check leaves out what depends on history, or bounds it: trigger-time annotations, which slice holds which
//! endpoint, which endpoint serves which zone with `topology-mode: Auto`, which addresses are left out of an Endpoints
//! object that cannot hold them all, whether a pod is published whose Node is missing, and the zone of an endpoint
//! whose Node does not tell it; and Services that are `ExternalName`, have no selector, or are being deleted.
//!
//! ```text
//!  check(client) ──► Cluster (lists, owned) ──► Snapshot (references) ──► check ──► Report
//! ```
//!
//! The lists are read one after another, so a difference means something only when the cluster keeps still. A caller
//! that holds the objects already, in the stores of watches say, makes a [`Snapshot`] of them and needs no request:
//! checking one is a pure function, fit to be called again and again.
//!
//! In a large cluster, the pods that a Service can select are found by their labels (`candidates.rs`); in a small one every
//! Service is compared with every pod.

mod annotated;
mod candidates;
mod endpoints;
mod facts;
mod lists;
mod mirrored;
mod report;
mod slices;
#[cfg(test)]
mod tests;

use self::candidates::{Candidates, Search};
use self::lists::{list, list_if};
pub use self::report::{Difference, Family, Problem, Report};
use self::slices::hints::Zones;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Endpoints, Namespace, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Client, ResourceExt};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::pin::pin;

/// Namespaces that are read at the same time.
const NAMESPACES_AT_ONCE: usize = 2;
/// So many differences are enough to know that something is wrong.
const MANY: usize = 1_000;

/// The facts about the controller that the check needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// The outputs that the controller publishes.
    pub outputs: Outputs,
    /// The largest number of endpoints that a slice may hold.
    pub max_endpoints_per_slice: usize,
    /// Compares the label `service.kubernetes.io/headless`, too. Alone it is no reason for a write, so a wrong one is a
    /// difference only if no client but the controller sets it and no Service changes its cluster IP.
    pub headless_label: bool,
    /// Compares slices that mirror Endpoints, too, if both outputs are checked.
    pub mirrored: bool,
    /// Compares slices of Services whose annotations say what is published, too.
    pub custom: bool,
}

/// The sorts of objects that endpoints are published in. A controller may be run for one of them alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outputs {
    /// `EndpointSlices`.
    pub slices: bool,
    /// Endpoints objects.
    pub endpoints: bool,
}

/// The objects of a cluster at one time, as listed.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// All Nodes.
    pub nodes: Vec<Node>,
    /// All Services.
    pub services: Vec<Service>,
    /// All Pods.
    pub pods: Vec<Pod>,
    /// All `EndpointSlices`, of all managers.
    pub slices: Vec<EndpointSlice>,
    /// All Endpoints objects, of all managers.
    pub endpoints: Vec<Endpoints>,
}

/// The objects of a cluster at one time, wherever they are kept.
#[derive(Clone, Debug, Default)]
pub struct Snapshot<'a> {
    /// All Nodes.
    pub nodes: Vec<&'a Node>,
    /// All Services.
    pub services: Vec<&'a Service>,
    /// All Pods.
    pub pods: Vec<&'a Pod>,
    /// All `EndpointSlices`, of all managers. Not looked at unless slices are checked.
    pub slices: Vec<&'a EndpointSlice>,
    /// All Endpoints objects, of all managers. Not looked at unless Endpoints are checked.
    pub endpoints: Vec<&'a Endpoints>,
}

/// Reads the cluster and says what is wrong with what is published.
pub async fn check(client: &Client, options: &Options) -> anyhow::Result<Report> {
    // Boxed: so many lists at a time make a large future.
    let cluster = Box::pin(Cluster::read(client, options.read())).await?;
    Ok(cluster.check(options))
}

/// Like [`check`], of those objects alone that have the label, written `KEY=VALUE`.
pub async fn check_labelled(client: &Client, options: &Options, label: &str) -> anyhow::Result<Report> {
    let selected = ListParams::default().labels(label);
    let cluster = Box::pin(Cluster::read_selected(client, options.read(), &selected)).await?;
    Ok(cluster.check(options))
}

/// Like [`check_labelled`], but reads one namespace after another, so that a cluster is checked that is larger than this
/// process could hold. Stops when many differences are found, which are not all there are then. An object in a namespace
/// without the label is not looked at.
pub async fn check_by_namespaces(client: &Client, options: &Options, label: &str) -> anyhow::Result<Report> {
    let selected = ListParams::default().labels(label);
    let nodes: Vec<Node> = list(client, &selected).await?;
    let namespaces: Vec<Namespace> = list(client, &selected).await?;
    let names = namespaces.iter().map(ResourceExt::name_any);
    let reports = names.map(async |namespace| {
        let cluster = Cluster::read_namespace(client, options.outputs, &selected, &namespace);
        let cluster = Box::pin(cluster).await?;
        let mut snapshot = cluster.snapshot();
        snapshot.nodes = nodes.iter().collect();
        anyhow::Ok(snapshot.check(options))
    });
    let mut reports = pin!(stream::iter(reports).buffered(NAMESPACES_AT_ONCE));
    let mut all = Report {
        outputs: options.outputs,
        ..Report::default()
    };
    while let Some(report) = reports.next().await {
        all.add(report?);
        if all.differences.len() > MANY {
            break;
        }
    }
    Ok(all)
}

/// Whether a pod that the Service has published in slices of a family has to stay published there. `custom` tells slices for the
/// Service's annotation from those for its selector: the Service asks for one of both.
pub(crate) fn keeps(service: &Service, pod: &Pod, family: Family, custom: bool) -> bool {
    let is_published = match annotated::of(service) {
        _ if service.metadata.deletion_timestamp.is_some() => false,
        Some(text) => custom && annotated::is_valid(text),
        None => !custom && facts::is_managed(service),
    };
    is_published
        && slices::expected::families(service).contains(&family)
        && facts::is_selected(service, pod)
        && facts::is_published(pod)
        && facts::pod_node_name(pod).is_some()
        && facts::addresses(pod, family).next().is_some()
        && facts::is_ready(pod)
        && !facts::is_terminating(pod)
}

// === impl Options ===

impl Options {
    /// The objects to read: slices of annotated Services may be published by a controller of Endpoints alone.
    fn read(&self) -> Outputs {
        Outputs {
            slices: self.outputs.slices || self.custom,
            ..self.outputs
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            outputs: Outputs::default(),
            max_endpoints_per_slice: 100,
            headless_label: false,
            mirrored: false,
            custom: false,
        }
    }
}

// === impl Outputs ===

impl Outputs {
    /// Slices and Endpoints.
    pub const ALL: Self = Self {
        slices: true,
        endpoints: true,
    };
    /// Slices alone.
    pub const SLICES: Self = Self {
        slices: true,
        endpoints: false,
    };
    /// Endpoints alone.
    pub const ENDPOINTS: Self = Self {
        slices: false,
        endpoints: true,
    };
}

impl Default for Outputs {
    fn default() -> Self {
        Self::ALL
    }
}

// === impl Cluster ===

impl Cluster {
    /// Lists everything that decides what is published, and the outputs that are asked for.
    pub async fn read(client: &Client, outputs: Outputs) -> anyhow::Result<Self> {
        Self::read_selected(client, outputs, &ListParams::default()).await
    }

    async fn read_selected(client: &Client, outputs: Outputs, selected: &ListParams) -> anyhow::Result<Self> {
        let all = None;
        let (nodes, services, pods, slices, endpoints) = tokio::try_join!(
            list(client, selected),
            list(client, selected),
            list(client, selected),
            list_if(outputs.slices, client, selected, all),
            list_if(outputs.endpoints, client, selected, all)
        )?;
        Ok(Self {
            nodes,
            services,
            pods,
            slices,
            endpoints,
        })
    }

    /// The objects of a namespace, without nodes.
    async fn read_namespace(
        client: &Client,
        outputs: Outputs,
        selected: &ListParams,
        namespace: &str,
    ) -> anyhow::Result<Self> {
        let within = Some(namespace);
        let (services, pods, slices, endpoints) = tokio::try_join!(
            list_if(true, client, selected, within),
            list_if(true, client, selected, within),
            list_if(outputs.slices, client, selected, within),
            list_if(outputs.endpoints, client, selected, within)
        )?;
        Ok(Self {
            nodes: Vec::new(),
            services,
            pods,
            slices,
            endpoints,
        })
    }

    /// References to the objects.
    pub fn snapshot(&self) -> Snapshot<'_> {
        Snapshot {
            nodes: self.nodes.iter().collect(),
            services: self.services.iter().collect(),
            pods: self.pods.iter().collect(),
            slices: self.slices.iter().collect(),
            endpoints: self.endpoints.iter().collect(),
        }
    }

    /// Compares what is published with what it should be.
    pub fn check(&self, options: &Options) -> Report {
        self.snapshot().check(options)
    }
}

// === impl Snapshot ===

impl<'a> Snapshot<'a> {
    /// Compares what is published with what it should be.
    pub fn check(&self, options: &Options) -> Report {
        self.check_by(options, None)
    }

    /// As [`Self::check`], but the pods of each Service are found as `search` says, however many there are.
    fn check_by(&self, options: &Options, search: Option<Search>) -> Report {
        let outputs = options.outputs;
        let mut report = Report {
            outputs,
            slices: if outputs.slices { self.slices.len() } else { 0 },
            objects: if outputs.endpoints {
                self.endpoints.len()
            } else {
                0
            },
            ..Report::default()
        };
        let names = self.nodes.iter().map(|node| node.metadata.name.as_deref());
        let nodes: HashMap<&str, &Node> = names
            .zip(&self.nodes)
            .filter_map(|(name, node)| Some((name?, *node)))
            .collect();
        let zones = Zones::of(&self.nodes);
        let candidates = self.candidates(search);
        let slices = group_by(&self.slices, |slice| {
            let service = slice.labels().get(slices::SERVICE_NAME_LABEL)?;
            Some((slice.metadata.namespace.as_deref()?, service.as_str()))
        });
        let endpoints = group_by(&self.endpoints, |object| name(object));

        for service in self.services.iter().filter(|service| facts::is_managed(service)) {
            let Some((namespace, name)) = name(*service) else {
                continue;
            };
            let pods = candidates[namespace].of(service);
            let differences = &mut report.differences;
            report.services += 1;
            let mut expected_endpoints = 0;
            if outputs.endpoints {
                let expected = endpoints::expected::of_service(service, pods);
                let object = endpoints.get(&(namespace, name)).map(|objects| objects[0]);
                let addresses: BTreeSet<_> = expected.values().flat_map(BTreeMap::keys).collect();
                expected_endpoints = addresses.len();
                endpoints::compare(service, &expected, object, options, differences);
            }
            if outputs.slices {
                let slices = slices.get(&(namespace, name)).map_or(&[][..], Vec::as_slice);
                let expected = slices::expected::of_service(service, pods, &nodes, slices);
                let groups = expected.values().flat_map(BTreeMap::values);
                expected_endpoints = groups.map(BTreeMap::len).sum();
                slices::compare(service, &expected, slices, &zones, options, differences);
            }
            report.endpoints += expected_endpoints;
        }
        if options.custom {
            for service in &self.services {
                let Some((namespace, name)) = name(*service) else {
                    continue;
                };
                let slices = slices.get(&(namespace, name)).map_or(&[][..], Vec::as_slice);
                let differences = &mut report.differences;
                let in_namespace = candidates[namespace].all();
                if is_annotated(service, slices, outputs, differences) {
                    let expected = slices::expected::of_service(service, in_namespace, &nodes, slices);
                    slices::compare(service, &expected, slices, &zones, options, differences);
                    let groups = expected.values().flat_map(BTreeMap::values);
                    report.endpoints += groups.map(BTreeMap::len).sum::<usize>();
                }
            }
        }
        if options.mirrored && outputs == Outputs::ALL {
            for service in &self.services {
                let Some(key) = name(*service) else { continue };
                let object = endpoints.get(&key).map(|objects| objects[0]);
                let slices = slices.get(&key).map_or(&[][..], Vec::as_slice);
                report.endpoints += mirrored::compare(service, object, slices, &mut report.differences);
            }
        }
        if outputs.endpoints {
            report.differences.extend(self.orphans());
        }
        report
    }

    /// The pods of each namespace that has Services.
    fn candidates(&self, search: Option<Search>) -> HashMap<&'a str, Candidates<'a>> {
        let mut pods = group_by(&self.pods, |pod| pod.metadata.namespace.as_deref());
        let services = group_by(&self.services, |service| service.metadata.namespace.as_deref());
        let candidates = services.into_iter().map(|(namespace, services)| {
            let pods = pods.remove(namespace).unwrap_or_default();
            (namespace, Candidates::new(pods, &services, search))
        });
        candidates.collect()
    }

    /// Endpoints objects that no Service is there for.
    fn orphans(&self) -> impl Iterator<Item = Difference> {
        let services = self.services.iter().filter_map(|service| name(*service));
        let services: HashSet<_> = services.collect();
        let orphans = self.endpoints.iter();
        let orphans =
            orphans.filter(move |object| name(**object).is_none_or(|name| !services.contains(&name)));
        orphans.filter_map(|object| endpoints::orphan(object))
    }
}

/// Whether an annotation says what is published for a Service, and that does not depend on what was published before. Adds
/// the slices that are left of one that does not count, unless another controller may yet take the Service over.
fn is_annotated(
    service: &Service,
    slices: &[&EndpointSlice],
    outputs: Outputs,
    differences: &mut Vec<Difference>,
) -> bool {
    if service.metadata.deletion_timestamp.is_some() {
        return false;
    }
    let Some(text) = annotated::of(service) else {
        if outputs.slices || !facts::is_managed(service) {
            slices::abandoned(service, slices, differences);
        }
        return false;
    };
    // If the annotation is not valid, the published pods depend on what was before.
    annotated::is_valid(text)
}

/// The namespace and name of an object that has both.
fn name<K: ResourceExt>(object: &K) -> Option<(&str, &str)> {
    let meta = object.meta();
    Some((meta.namespace.as_deref()?, meta.name.as_deref()?))
}

fn group_by<'a, K, Q: std::hash::Hash + Eq>(
    objects: &[&'a K],
    key: impl Fn(&'a K) -> Option<Q>,
) -> HashMap<Q, Vec<&'a K>> {
    let mut groups: HashMap<Q, Vec<&K>> = HashMap::new();
    for object in objects {
        if let Some(key) = key(object) {
            groups.entry(key).or_default().push(object);
        }
    }
    groups
}
