//! Which rule gives a Service its hints, and what is a valid sharing of its endpoints over zones.
//!
//! With `topology-mode: Auto` the ready endpoints of a family are shared over zones in proportion to their CPU.
//! Which endpoint then serves which zone hangs on what was published before, so that only bounds are checked:
//! whether there are hints at all follows from the cluster; each ready endpoint has exactly one zone; and no
//! zone has more than its maximum. The exception to the last: moving endpoints stops when what is left to give,
//! or what is left to take, is no whole endpoint. With few endpoints and zones of very different sizes a zone
//! may by then still be over its maximum, and such a state is as final as any other.

use super::endpoint::Endpoint;
use crate::oracle::facts;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::ResourceExt;
use std::collections::BTreeMap;

/// The deprecated one first: where it stands, the other is not read.
const TOPOLOGY_ANNOTATIONS: [&str; 2] = [
    "service.kubernetes.io/topology-aware-hints",
    "service.kubernetes.io/topology-mode",
];
/// Nodes with one of these do not count.
const EXCLUDING_LABELS: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];
/// Room for rounding in sums of shares.
const EPSILON: f64 = 1e-9;

/// The rule by which a Service's endpoints get hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    None,
    /// `topology-mode: Auto`.
    Balanced,
    SameZone,
    SameNode,
}

/// The part of each zone in the cluster's CPU. None, unless it is known of every node that counts where it is and what it
/// has.
#[derive(Clone, Debug)]
pub(in crate::oracle) struct Zones(Option<BTreeMap<String, f64>>);

/// The rule by which the hints of a family's endpoints are compared.
#[derive(Debug)]
pub(super) enum Sharing<'a> {
    /// Each endpoint's follow from itself.
    None,
    /// The zones have shares in the endpoints.
    Among(Shares<'a>),
    /// Nodes are missing, and with them the zone of an endpoint, or all zones but one: hints that were there may stay, so
    /// any are right.
    Unknown,
}

/// The shares of the zones in the endpoints of one family.
#[derive(Debug)]
pub(super) struct Shares<'a>(BTreeMap<&'a str, Share>);

#[derive(Debug)]
struct Share {
    desired: f64,
    maximum: usize,
}

// === impl Mode ===

impl Mode {
    pub(super) fn of(service: &Service) -> Self {
        let annotations = service.annotations();
        let topology = TOPOLOGY_ANNOTATIONS.iter().find_map(|key| annotations.get(*key));
        if topology.is_some_and(|value| value == "Auto" || value == "auto") {
            return Self::Balanced;
        }
        let distribution = service
            .spec
            .as_ref()
            .and_then(|spec| spec.traffic_distribution.as_deref());
        match distribution {
            Some("PreferClose" | "PreferSameZone") => Self::SameZone,
            Some("PreferSameNode") => Self::SameNode,
            _ => Self::None,
        }
    }
}

// === impl Zones ===

impl Zones {
    /// Adds up the CPU of the ready nodes.
    pub(in crate::oracle) fn of(nodes: &[&Node]) -> Self {
        let mut zones: BTreeMap<String, u64> = BTreeMap::new();
        for node in nodes.iter().filter(|node| counts(node)) {
            let (Some(zone), Some(cpu)) = (facts::zone(node), milli_cpu(node)) else {
                return Self(None);
            };
            *zones.entry(zone.clone()).or_default() += cpu;
        }
        let all: u64 = zones.values().sum();
        let part = |(zone, cpu)| (zone, cpu as f64 / all as f64);
        Self(Some(zones.into_iter().map(part).collect()))
    }

    /// Returns the share of each zone in so many endpoints. None if they cannot be shared without giving some zone a
    /// load that is too high; then no endpoint has a hint.
    pub(super) fn share(&self, endpoints: usize) -> Option<Shares<'_>> {
        let zones = self.0.as_ref()?;
        if endpoints < zones.len() {
            return None;
        }
        // So that no endpoint carries more than 1.2 times the average load. The same operations on floats as
        // upstream's, since other ones may round to the other side of an integer.
        let minimum = |part: f64| (part * endpoints as f64 * (1.0 / (1.0 + 0.2))).ceil() as usize;
        let minimums: usize = zones.values().map(|part| minimum(*part)).sum();
        let spare = endpoints.checked_sub(minimums)?;
        let shares = zones.iter().map(|(zone, part)| {
            let minimum = minimum(*part);
            let share = Share {
                desired: (part * endpoints as f64).max(minimum as f64),
                maximum: minimum + spare,
            };
            (zone.as_str(), share)
        });
        Some(Shares(shares.collect()))
    }

    /// Shares the endpoints of a family. Where they cannot be shared no endpoint has hints, and that is what is expected
    /// of each anyway.
    pub(super) fn share_out<'a>(&self, endpoints: impl Iterator<Item = &'a Endpoint>) -> Sharing<'_> {
        let ready: Vec<_> = endpoints.filter(|endpoint| endpoint.is_ready()).collect();
        let few = self.0.as_ref().is_some_and(|zones| zones.len() < 2);
        if few || ready.iter().any(|endpoint| endpoint.zone.is_none()) {
            return Sharing::Unknown;
        }
        self.share(ready.len()).map_or(Sharing::None, Sharing::Among)
    }
}

fn counts(node: &Node) -> bool {
    let ready = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten())
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let excluded = EXCLUDING_LABELS
        .iter()
        .any(|label| node.labels().contains_key(*label));
    ready && !excluded
}

/// The node's allocatable CPU in thousandths, if it has any.
fn milli_cpu(node: &Node) -> Option<u64> {
    let text = &node.status.as_ref()?.allocatable.as_ref()?.get("cpu")?.0;
    // A suffix may follow the number, or be an exponent and thus part of it.
    let suffixes: [(&str, f64); 11] = [
        ("m", 1e-3),
        ("u", 1e-6),
        ("n", 1e-9),
        ("Ki", 1024.0),
        ("Mi", 1024.0 * 1024.0),
        ("Gi", 1024.0 * 1024.0 * 1024.0),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("", 1.0),
    ];
    let cpu = suffixes
        .into_iter()
        .find_map(|(suffix, unit)| Some(text.strip_suffix(suffix)?.parse::<f64>().ok()? * unit))?;
    let milli = cpu * 1e3;
    // Rounded up, but for what the conversion to a float has added.
    let whole = if (milli - milli.round()).abs() < 1e-6 * milli.abs() {
        milli.round()
    } else {
        milli.ceil()
    };
    (whole >= 1.0).then_some(whole as u64)
}

// === impl Shares ===

impl<'a> Shares<'a> {
    /// The zones that have a share.
    pub(super) fn zones(&self) -> Vec<&'a str> {
        self.0.keys().copied().collect()
    }

    /// Whether an endpoint that is ready may have these hints. An endpoint of a zone without a share stays in
    /// its own.
    pub(super) fn allow(&self, expected: &Endpoint, found: &Endpoint) -> bool {
        let Some(hints) = &found.hints else { return false };
        let [zone] = hints.zones.as_slice() else {
            return false;
        };
        let is_known = self.0.contains_key(zone.as_str()) || expected.zone.as_ref() == Some(zone);
        is_known && hints.nodes.is_empty()
    }

    /// The zones with more endpoints than they may have: name, how many, the most that they may have.
    pub(super) fn overloaded(&self, hinted: &BTreeMap<String, usize>) -> Vec<(&'a str, usize, usize)> {
        let has = |zone: &str| hinted.get(zone).copied().unwrap_or_default();
        let (mut surplus, mut lack) = (0.0_f64, 0.0_f64);
        for (zone, share) in &self.0 {
            let over = has(zone) as f64 - share.desired;
            surplus = surplus.max(over);
            lack = lack.max(-over);
        }
        let half = 0.5 + EPSILON;
        if surplus <= half || lack <= half || (surplus < 1.0 && lack < 1.0) {
            return Vec::new();
        }
        let overloaded = self.0.iter().filter(|(zone, share)| has(zone) > share.maximum);
        overloaded
            .map(|(zone, share)| (*zone, has(zone), share.maximum))
            .collect()
    }
}
