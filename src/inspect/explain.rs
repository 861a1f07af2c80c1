//! Builds the explanation of a Service for `endpointd explain`.

mod near;
mod notes;
mod pods;
mod print;

pub(super) use near::Near;
pub use near::{NearPod, Pods, meant};
pub use pods::{Place, PodFinding, State};

use super::differences::{Difference, spelled};
use super::findings::Finding;
use super::text::plural;
use crate::core::address::Family;
use crate::core::facts::observed::{ObservedPod, ObservedService};
use crate::core::facts::{
    AddressFacts, ENDPOINTS_MANAGED_BY, EndpointsFacts, LABEL_ENDPOINTS_MANAGED_BY, ServiceFacts, SliceFacts,
    SubsetFacts,
};
use crate::core::namespace::Settings;
use crate::core::outputs::Outputs;
use crate::core::ports::{ServicePort, TargetPort};
use crate::core::selector::Selector;
use crate::core::subsets::{MAX_ADDRESSES, TRUNCATED};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The nodes of a Service's pods, as far as they are known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SeenNodes {
    /// The nodes that exist among those that the pods run on, each with its zone.
    Known(BTreeMap<Arc<str>, Option<Arc<str>>>),
    /// Reading nodes is forbidden, for this reason.
    Unreadable(String),
}

/// Everything that was read: the Service, its inputs, and the objects that are published for it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The Service.
    pub service: ObservedService,
    /// The pods of its namespace, or, if its selector does not choose them, those that are published; none if it is not
    /// managed.
    pub pods: Option<Pods>,
    /// Their nodes.
    pub nodes: SeenNodes,
    /// All slices that name the Service.
    pub slices: Vec<SliceFacts>,
    /// The Endpoints object of the same name.
    pub endpoints: Option<EndpointsFacts>,
    /// The reason why Endpoints could not be read, if that is forbidden.
    pub endpoints_unreadable: Option<String>,
    /// The writes that the controller would make; of Endpoints only, if nodes are unreadable.
    pub wrong: Vec<Finding>,
    /// The settings by which the controller computes the desired objects, as they were asked for.
    pub settings: Settings,
    /// Whether annotations decide what is published for it, and `--controllers` does not name the controller that heeds them.
    pub left_out: bool,
}

impl Seen {
    /// Returns whether the settings ask for slices with the pods of this Service, which depend on nodes.
    fn judges_slices(&self) -> bool {
        let facts = &self.service.facts;
        facts.custom || (facts.is_managed() && self.settings.outputs.slices)
    }

    /// Returns whether the settings ask for Endpoints of this Service, or for slices that mirror those that others write.
    fn judges_endpoints(&self) -> bool {
        let (facts, outputs) = (&self.service.facts, self.settings.outputs);
        let mirrored = facts.selectorless && !facts.external && outputs.mirrored;
        !facts.custom && (mirrored || (facts.is_managed() && outputs.endpoints))
    }
}

/// The explanation of a Service.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The namespace.
    pub namespace: String,
    /// The Service's name.
    pub service: String,
    /// `spec.type`.
    pub r#type: String,
    /// Whether it is managed: the controller writes its slices and Endpoints.
    pub managed: bool,
    /// Whether it has no cluster IP.
    pub headless: bool,
    /// Its IP families, as the API spells them.
    pub families: Vec<&'static str>,
    /// Its selector, `key=value` each.
    pub selector: Vec<String>,
    /// Its ports, in readable form.
    pub ports: Vec<String>,
    /// `spec.publishNotReadyAddresses`.
    pub publish_not_ready_addresses: bool,
    /// Whether the published objects are as desired; unknown if something cannot be read that decides it, or if the Service
    /// is left out.
    pub in_sync: Option<bool>,
    /// `in_sync` in an audit with the same settings, which says nothing of a Service that is left out.
    #[serde(skip)]
    pub verdict: Option<bool>,
    /// Whether nothing was judged but what its annotations would not change, since `--controllers` does not name the
    /// controller that heeds them.
    pub left_out: bool,
    /// The outputs that were judged.
    #[serde(skip)]
    pub outputs: Outputs,
    /// The writes that the controller would make, and why.
    pub out_of_sync: Vec<Finding>,
    /// Other facts that are worth knowing.
    pub notes: Vec<String>,
    /// Other things that may be wrong.
    pub warnings: Vec<String>,
    /// The pods that the selector matches, those with a problem first. If no selector chooses them, those that are
    /// published.
    pub pods: Vec<PodFinding>,
    /// Pods that it nearly matches.
    pub nearly: Vec<NearPod>,
    /// The total number of those pods.
    pub nearly_total: usize,
    /// Endpoints that are published for no matching pod.
    pub strays: Vec<String>,
    /// The slices.
    pub slices: Vec<SliceSummary>,
    /// The Endpoints object.
    pub endpoints: Option<EndpointsSummary>,
    /// Whether it is not known if there is one.
    pub endpoints_unknown: bool,
}

/// A summary of a slice.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceSummary {
    /// Its name.
    pub name: String,
    /// `addressType`; none if it is not an IP family.
    pub family: Option<&'static str>,
    /// The name of its manager.
    pub managed_by: Option<String>,
    /// Whether it is managed by this controller.
    pub ours: bool,
    /// Its ports.
    pub ports: Vec<String>,
    /// The number of its endpoints.
    pub endpoints: usize,
    /// The number of endpoints that are ready.
    pub ready: usize,
    /// A remark, if there is something special about it.
    pub note: Option<String>,
}

/// A summary of an Endpoints object.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointsSummary {
    /// Whether it has the label of objects that are managed by this controller.
    pub ours: bool,
    /// The number of addresses that are ready.
    pub ready: usize,
    /// The number of addresses that are not ready.
    pub not_ready: usize,
    /// Whether it was truncated to 1,000 addresses.
    pub truncated: bool,
}

/// Builds the explanation from the objects that were read.
pub fn explain(mut seen: Seen) -> Explanation {
    let facts = &seen.service.facts;
    let managed = facts.is_managed();
    let notes = notes::notes(&seen);
    let mut warnings = notes::warnings(&seen);
    let (mut nearly, mut nearly_total) = (Vec::new(), 0);
    if let Some(pods) = &mut seen.pods {
        (nearly, nearly_total) = pods.near.pods();
        if let Some(selector) = pods.selector.as_ref().filter(|_| pods.matching.is_empty()) {
            warnings.extend(pods.near.why_none(selector));
        }
    }
    let findings = find_pods(&seen);
    if let Some(endpoints) = &seen.endpoints
        && let Some(note) = truncation(endpoints, &findings)
    {
        warnings.push(note);
    }
    let facts = &seen.service.facts;
    let known = matches!(seen.nodes, SeenNodes::Known(_)) || !seen.judges_slices();
    // Unless Endpoints can be read, it is unknown whether they, or the slices that mirror them, are right.
    let unseen = seen.endpoints_unreadable.is_some() && seen.judges_endpoints();
    let in_sync = Some(seen.wrong.is_empty()).filter(|in_sync| known && !(*in_sync && unseen));
    Explanation {
        namespace: seen.namespace.to_string(),
        service: facts.name.to_string(),
        r#type: seen.service.kind.to_string(),
        managed,
        headless: facts.no_cluster_ip,
        families: Family::ALL
            .into_iter()
            .filter(|f| facts.has(*f))
            .map(Family::as_str)
            .collect(),
        selector: selector(facts),
        ports: ports(&seen.service),
        publish_not_ready_addresses: facts.publish_not_ready,
        in_sync: in_sync.filter(|in_sync| !(*in_sync && seen.left_out)),
        verdict: in_sync,
        endpoints_unknown: seen.endpoints_unreadable.is_some(),
        strays: if managed { strays(&seen) } else { Vec::new() },
        slices: seen
            .slices
            .iter()
            .map(|slice| summary(slice, facts, seen.settings.outputs))
            .collect(),
        left_out: seen.left_out,
        outputs: seen.settings.outputs,
        endpoints: seen.endpoints.as_ref().map(endpoints_summary),
        out_of_sync: if known { seen.wrong } else { Vec::new() },
        notes,
        warnings,
        pods: findings,
        nearly,
        nearly_total,
    }
}

/// Returns the findings about the pods that the Service selects, in the order in which they are shown.
fn find_pods(seen: &Seen) -> Vec<PodFinding> {
    let Some(pods) = &seen.pods else {
        return Vec::new();
    };
    let mut by_pod: BTreeMap<&str, Vec<(&Finding, &Difference)>> = BTreeMap::new();
    for finding in &seen.wrong {
        for (difference, _) in &finding.why {
            let pod = difference.pod.as_deref().unwrap_or_default();
            by_pod.entry(pod).or_default().push((finding, difference));
        }
    }
    let differences = |pod: &ObservedPod| by_pod.get(&*pod.facts.name).map_or(&[][..], |found| found);
    let found = pods
        .matching
        .iter()
        .map(|pod| pods::find(pod, seen, differences(pod)));
    let mut findings: Vec<PodFinding> = found.collect();
    findings.sort_by(|a, b| (a.rank(), &a.name).cmp(&(b.rank(), &b.name)));
    findings
}

fn selector(facts: &ServiceFacts) -> Vec<String> {
    let pairs = facts.selector.iter().flat_map(Selector::pairs);
    let pairs = pairs.map(|(key, value)| format!("{key}={value}"));
    let others = facts.selector.iter().flat_map(Selector::requirements);
    pairs
        .chain(others.map(|requirement| requirement.to_string()))
        .collect()
}

/// Formats the Service's ports as `http 80 to 8080/TCP`.
fn ports(service: &ObservedService) -> Vec<String> {
    let spell = |(port, number): (&ServicePort, &i64)| {
        let target = match &port.target {
            TargetPort::Number(number) => number.to_string(),
            TargetPort::Name(name) => name.to_string(),
        };
        let text = format!("{} {number} to {target}/{}", port.name, port.protocol.as_str());
        text.trim_start().to_owned()
    };
    service
        .facts
        .ports
        .iter()
        .zip(&service.port_numbers)
        .map(spell)
        .collect()
}

fn truncation(endpoints: &EndpointsFacts, pods: &[PodFinding]) -> Option<String> {
    if endpoints.over_capacity.as_deref() != Some(TRUNCATED) {
        return None;
    }
    let left_out = pods
        .iter()
        .filter(|pod| !pod.published.is_empty() && pod.endpoints.is_none());
    Some(format!(
        "Endpoints are truncated: they hold {MAX_ADDRESSES} addresses at most, and leave out {}; slices have all",
        plural(left_out.count(), "published pod")
    ))
}

/// Returns the endpoints of managed slices, and the addresses of Endpoints, that belong to no matching pod.
fn strays(seen: &Seen) -> Vec<String> {
    let known: BTreeSet<&str> = seen
        .pods
        .iter()
        .flat_map(|pods| &pods.matching)
        .map(|pod| &*pod.facts.name)
        .collect();
    let mut strays = Vec::new();
    let service = &seen.service.facts;
    let gone = if service.selector.is_some() {
        "is gone or does not match any more"
    } else {
        "is gone"
    };
    let see = |place: &str, address: &str, pod: Option<&str>, gone: &str| match pod {
        Some(pod) if known.contains(pod) => None,
        Some(pod) => Some(format!("{address} in {place}: pod {pod} {gone}")),
        None => Some(format!("{address} in {place}: of no pod")),
    };
    for slice in seen.slices.iter().filter(|slice| slice.is_for(service)) {
        let place = format!("slice {}", slice.meta.name);
        let each = slice.endpoints.iter();
        strays.extend(each.filter_map(|e| see(&place, &e.addresses.join(" "), e.pod.as_deref(), gone)));
    }
    // If a Service's annotations say what is published, its Endpoints are not ours.
    let endpoints = seen.endpoints.iter().filter(|_| !service.custom);
    let subsets = endpoints.flat_map(|endpoints| &endpoints.subsets);
    let addresses = subsets.flat_map(|subset| subset.ready.iter().chain(&subset.not_ready));
    let addresses: BTreeSet<_> = addresses
        .filter_map(|address| {
            let pod = address.pod.as_ref().map(|(pod, _)| &**pod);
            see(
                "Endpoints",
                &address.ip,
                pod,
                "is gone or does not match any more",
            )
        })
        .collect();
    strays.extend(addresses);
    strays
}

fn summary(slice: &SliceFacts, service: &ServiceFacts, outputs: Outputs) -> SliceSummary {
    // Whatever controllers are asked for.
    let selects = !(service.selectorless || service.external);
    let note = if slice.meta.deleting {
        Some("is being deleted")
    } else if slice.is_mirrored() && selects && !service.custom {
        Some("from when the Service had no selector: goes when the slices for the selector are created")
    } else if slice.is_mirrored() {
        Some("mirrors the Endpoints")
    } else if slice.is_custom() && !outputs.custom {
        Some("of custom-selector-controller, which --controllers does not name: left alone")
    } else if slice.is_custom() && !service.custom {
        Some(if selects {
            "from when the annotation selected its pods: goes when slices for the selector hold endpoints, after half a \
             minute at the earliest, and after ten at the latest"
        } else {
            "from when the annotation selected its pods: to be deleted"
        })
    } else if !slice.is_written() || (service.custom && slice.is_ours()) {
        Some("not ours: left alone")
    } else if !service.custom && !selects {
        Some("from when the Service had a selector: left alone")
    } else if slice.is_ours() && !outputs.slices {
        Some("of endpointslice-controller, which --controllers does not name: left alone")
    } else if slice.meta.owner.is_none() {
        Some("has no owner: to be replaced")
    } else if !slice.meta.owner.includes(&service.uid) {
        Some("of an earlier Service of that name: to be replaced")
    } else if slice.endpoints.is_empty() {
        Some("empty")
    } else {
        None
    };
    SliceSummary {
        name: slice.meta.name.to_string(),
        family: slice.family.map(Family::as_str),
        managed_by: slice.manager().map(str::to_owned),
        ours: slice.is_for(service),
        ports: slice.ports.iter().map(spelled).collect(),
        endpoints: slice.endpoints.len(),
        ready: slice.endpoints.iter().filter(|e| e.ready != Some(false)).count(),
        note: note.map(str::to_owned),
    }
}

fn endpoints_summary(endpoints: &EndpointsFacts) -> EndpointsSummary {
    let count = |of: fn(&SubsetFacts) -> &Vec<AddressFacts>| {
        let all = endpoints.subsets.iter().flat_map(of);
        all.map(|address| (&address.ip, address.pod.as_ref().map(|(name, _)| name)))
            .collect::<BTreeSet<_>>()
            .len()
    };
    EndpointsSummary {
        ours: endpoints.labels.get(LABEL_ENDPOINTS_MANAGED_BY) == Some(ENDPOINTS_MANAGED_BY),
        ready: count(|subset| &subset.ready),
        not_ready: count(|subset| &subset.not_ready),
        truncated: endpoints.over_capacity.as_deref() == Some(TRUNCATED),
    }
}
