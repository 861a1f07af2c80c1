//! A deliberately plain recomputation of what the `EndpointSlices` of a cluster should be, and a comparison
//! with what they are.
//!
//! It shares no code with the controller: it reads the API with the generated types, works everything out
//! from the beginning for every Service, and compares sets. Nothing in it is incremental or clever, because
//! its only worth is that it cannot be wrong in the same way as the controller.
//!
//! What depends on history is left out: trigger-time annotations, which slice holds which endpoint, and
//! Services that are `ExternalName`, have no selector, or are being deleted.
//!
//! The lists are read one after another, so a difference means something only when the cluster keeps still.

mod compare;
mod expected;
mod report;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use anyhow::Context;
use k8s_openapi::api::{
    core::v1::{Node, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{Api, Client, ResourceExt, api::ListParams, core::Resource};
use serde::de::DeserializeOwned;

pub use self::report::{Difference, Family, Problem, Report};

/// What the check needs to know about the controller.
#[derive(Clone, Debug)]
pub struct Options {
    /// The largest number of endpoints that a slice may hold.
    pub max_endpoints_per_slice: usize,
}

/// The objects of a cluster at one time.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// All Nodes.
    pub nodes: Vec<Node>,
    /// All Services.
    pub services: Vec<Service>,
    /// All Pods.
    pub pods: Vec<Pod>,
    /// All `EndpointSlices`, whoever manages them.
    pub slices: Vec<EndpointSlice>,
}

/// Reads the cluster and says what is wrong with its slices.
pub async fn check(client: &Client, options: &Options) -> anyhow::Result<Report> {
    // Boxed: four lists at a time make a large future.
    let cluster = Box::pin(Cluster::read(client)).await?;
    Ok(cluster.check(options))
}

// === impl Options ===

impl Default for Options {
    fn default() -> Self {
        Self {
            max_endpoints_per_slice: 100,
        }
    }
}

// === impl Cluster ===

impl Cluster {
    /// Lists everything that decides the slices, and the slices.
    pub async fn read(client: &Client) -> anyhow::Result<Self> {
        let (nodes, services, pods, slices) =
            tokio::try_join!(list(client), list(client), list(client), list(client))?;
        Ok(Self {
            nodes,
            services,
            pods,
            slices,
        })
    }

    /// Compares the slices with what they should be.
    pub fn check(&self, options: &Options) -> Report {
        let nodes: HashMap<String, &Node> = self.nodes.iter().map(|node| (node.name_any(), node)).collect();
        let pods = by_namespace(&self.pods);
        let slices = by_namespace(&self.slices);

        let mut report = Report {
            slices: self.slices.len(),
            ..Report::default()
        };
        for service in self.services.iter().filter(|service| is_managed(service)) {
            let namespace = service.namespace().unwrap_or_default();
            let pods = pods.get(&namespace).map_or(&[][..], Vec::as_slice);
            let slices = slices.get(&namespace).map_or(&[][..], Vec::as_slice);

            let expected = expected::of_service(service, pods, &nodes);
            report.services += 1;
            report.endpoints += expected
                .values()
                .flat_map(|groups| groups.values())
                .map(BTreeMap::len)
                .sum::<usize>();
            compare::service(service, &expected, slices, options, &mut report.differences);
        }
        report
    }
}

/// Whether the controller publishes this Service. Others are left alone, whatever slices they have.
fn is_managed(service: &Service) -> bool {
    let Some(spec) = &service.spec else { return false };
    let selects = spec
        .selector
        .as_ref()
        .is_some_and(|selector| !selector.is_empty());
    selects && spec.type_.as_deref() != Some("ExternalName") && service.metadata.deletion_timestamp.is_none()
}

fn by_namespace<K: ResourceExt>(objects: &[K]) -> HashMap<String, Vec<&K>> {
    let mut map: HashMap<String, Vec<&K>> = HashMap::new();
    for object in objects {
        map.entry(object.namespace().unwrap_or_default())
            .or_default()
            .push(object);
    }
    map
}

async fn list<K>(client: &Client) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::all(client.clone());
    let list = api
        .list(&ListParams::default())
        .await
        .with_context(|| format!("listing {}", K::plural(&())))?;
    Ok(list.items)
}
