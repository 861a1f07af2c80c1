//! Differences of slices, of pods and mirrored.

use super::{Endpoint, Flat, Found, Rank, addressed, referred, set};
use crate::core::address::Family;
use crate::core::facts::{EndpointFacts, ObjectReference, ServiceFacts, SliceFacts, is_reserved_label};
use crate::core::mirror::reference;
use crate::core::namespace::NamespaceState;
use crate::inspect::published::Around;
use std::collections::BTreeSet;

/// Describes a slice that is to be updated.
pub(super) fn changed(
    found: &mut Found,
    stored: &SliceFacts,
    desired: &SliceFacts,
    namespace: &str,
    around: &Around<'_>,
) {
    let mirrored = desired.is_mirrored();
    let shared = shared(stored).chain(shared(desired)).collect();
    let [is, should] = [stored, desired].map(|slice| {
        let endpoints = slice.endpoints.iter().map(|facts| {
            if mirrored {
                mirrored_endpoint(facts, namespace, &shared)
            } else {
                endpoint_of_pod(facts, namespace, std::ptr::eq(slice, stored))
            }
        });
        let labels = slice
            .labels
            .iter()
            .filter(|(key, _)| mirrored || !is_reserved_label(key));
        let annotations = slice.extras.annotations.iter().filter(|_| mirrored);
        Flat {
            endpoints: endpoints.collect(),
            ports: slice.ports.iter().collect(),
            labels: labels.collect(),
            annotations: annotations.map(|(key, value)| (&**key, &**value)).collect(),
            ..Flat::default()
        }
    });
    found.compare(&is, &should, |extra| {
        let other = around.elsewhere(stored, extra.pod)?;
        Some(&other.meta.name)
    });
    if mirrored && !stored.meta.owner.meet(&desired.meta.owner) {
        found.add(Rank::Metadata, "is not owned by the Endpoints");
    }
}

fn endpoint_of_pod<'a>(facts: &'a EndpointFacts, namespace: &str, is_stored: bool) -> Endpoint<'a> {
    let pod = facts.pod.as_deref();
    let uid = facts.pod_uid.as_ref();
    // A stored endpoint without a pod stands for the pod with its address.
    let by_address = !is_stored || pod.is_none();
    let keys = [
        pod.map(|pod| format!("{pod}/{}", uid.map(ToString::to_string).unwrap_or_default())),
        pod.map(str::to_owned),
        by_address.then(|| facts.addresses.join(" ")),
    ];
    let other = facts.target.as_deref().filter(|_| pod.is_none());
    let target = reference(namespace, other, pod.zip(uid));
    endpoint(facts, named(facts), pod, keys, target.as_deref())
}

/// Flattens a mirrored endpoint. Those that share an address are told apart by what they stand for.
fn mirrored_endpoint<'a>(
    facts: &'a EndpointFacts,
    namespace: &str,
    shared: &BTreeSet<String>,
) -> Endpoint<'a> {
    let address = facts.addresses.join(" ");
    let stands_for = format!("{address} ({})", stands_for(facts));
    let alone = !shared.contains(&address);
    let name = if alone { &address } else { &stands_for }.clone();
    let keys = [Some(stands_for), alone.then_some(address), None];
    let pod = facts.pod.as_deref().zip(facts.pod_uid.as_ref());
    let target = reference(namespace, facts.target.as_deref(), pod);
    endpoint(facts, name, None, keys, target.as_deref())
}

fn endpoint<'a>(
    facts: &EndpointFacts,
    name: String,
    pod: Option<&'a str>,
    keys: [Option<String>; 3],
    target: Option<&ObjectReference>,
) -> Endpoint<'a> {
    let spell = |value: Option<bool>| value.map(|value| value.to_string());
    let is_plain = facts.pod.is_some() || facts.target.is_none();
    let foreign = facts.has_foreign_fields && is_plain;
    let fields = vec![
        ("ready", spell(facts.ready)),
        ("serving", spell(facts.serving)),
        ("terminating", spell(facts.terminating)),
        ("address", Some(facts.addresses.join(" "))),
        ("target", target.map(referred)),
        ("node", set(facts.node.as_deref())),
        ("zone", set(facts.zone.as_deref())),
        ("hostname", set(facts.hostname.as_deref())),
        ("hints differ:", Some(hints(facts))),
        (
            "a field that is never written",
            foreign.then(|| "there".to_owned()),
        ),
    ];
    Endpoint {
        name,
        pod,
        keys,
        fields,
        group: 0,
    }
}

fn named(endpoint: &EndpointFacts) -> String {
    let address = endpoint.addresses.first().map_or("no address", |address| address);
    addressed(address, endpoint.pod.as_deref())
}

/// Returns the addresses of a slice that several of its endpoints have.
fn shared(slice: &SliceFacts) -> impl Iterator<Item = String> {
    let mut seen = BTreeSet::new();
    let addresses = slice
        .endpoints
        .iter()
        .map(|endpoint| endpoint.addresses.join(" "));
    addresses.filter(move |address| !seen.insert(address.clone()))
}

/// Says what an endpoint stands for beside its address, as `Pod web-1`.
fn stands_for(endpoint: &EndpointFacts) -> String {
    let target = match (&endpoint.pod, &endpoint.target) {
        (_, Some(target)) => format!("{} {}", target.kind, target.name),
        (Some(pod), None) => format!("Pod {pod}"),
        (None, None) => "no target".to_owned(),
    };
    match set(endpoint.hostname.as_deref()) {
        Some(hostname) => format!("{target}, hostname {hostname}"),
        None => target,
    }
}

/// Describes a mirrored slice that is missing.
pub(super) fn not_mirrored(found: &mut Found, desired: &SliceFacts) {
    let count = desired.endpoints.len();
    let family = desired.family.map_or("", Family::as_str);
    let text = format!("Endpoints with {count} {family} addresses of these ports are not mirrored");
    found.add(Rank::Object, text);
}

/// Describes a mirrored slice that should not exist.
pub(super) fn mirrored_for_nothing(found: &mut Found, stored: &SliceFacts, core: &NamespaceState) {
    let why = match core.service(&stored.meta.service) {
        None => "its Service does not exist",
        Some(service) if service.selector.is_some() => "its Service has a selector",
        Some(service) if !service.selectorless => "its Service is an ExternalName",
        Some(_) => "the Endpoints have nothing that it would mirror, or are not to be mirrored",
    };
    found.add(Rank::Object, format!("{why}, so it should not exist"));
}

/// Formats hints as `zone a, node n1`, or `none`.
pub(in crate::inspect) fn hints(endpoint: &EndpointFacts) -> String {
    let zones = endpoint.zone_hints.iter().map(|zone| format!("zone {zone}"));
    let nodes = endpoint.node_hints.iter().map(|node| format!("node {node}"));
    let all: Vec<_> = zones.chain(nodes).collect();
    if all.is_empty() {
        "none".to_owned()
    } else {
        all.join(", ")
    }
}

/// Describes a slice that is missing.
pub(super) fn absent(found: &mut Found, desired: &SliceFacts, around: &Around<'_>) {
    if desired.endpoints.is_empty() {
        let family = desired.family.map_or("", Family::as_str);
        let text = format!("the empty {family} slice of a Service without endpoints is missing");
        found.add(Rank::Object, text);
    }
    for wanted in &desired.endpoints {
        let text = format!("{} is missing", named(wanted));
        found.about(Rank::Missing, wanted.pod.as_deref(), text);
    }
    // Unmanaged slices are left alone, but they may be the reason.
    for foreign in around.slices.iter().filter(|slice| {
        let others = slice.family == desired.family && slice.manager() != desired.manager();
        others && slice.meta.owner.meet(&desired.meta.owner)
    }) {
        found.add(Rank::Metadata, managed_elsewhere(foreign));
    }
}

/// Formats the manager of a slice as `slice web-x7k2p is managed by example.com`.
fn managed_elsewhere(slice: &SliceFacts) -> String {
    match slice.manager() {
        Some(manager) => format!("slice {} is managed by {manager}", slice.meta.name),
        None => format!("slice {} says nobody manages it", slice.meta.name),
    }
}

/// Describes a slice that should not exist.
pub(super) fn superfluous(
    found: &mut Found,
    stored: &SliceFacts,
    service: Option<&ServiceFacts>,
    around: &Around<'_>,
) {
    let Some(service) = service else {
        found.add(Rank::Object, "left over: there is no such Service");
        return;
    };
    if !stored.meta.owner.includes(&service.uid) {
        found.add(
            Rank::Object,
            if stored.meta.owner.is_none() {
                "it does not belong to the Service: it has no owner"
            } else {
                "it belongs to an earlier Service of that name"
            },
        );
    }
    match stored.family {
        Some(family) if !service.has(family) => {
            found.add(Rank::Object, format!("the Service is not {}", family.as_str()));
        }
        None => found.add(Rank::Object, "it holds no IP addresses"),
        Some(_) => {}
    }
    if !found.0.is_empty() {
        return;
    }
    let doubles: Vec<_> = stored
        .endpoints
        .iter()
        .map(|endpoint| around.elsewhere(stored, endpoint.pod.as_deref()))
        .collect();
    if let [Some(first), rest @ ..] = &doubles[..]
        && rest.iter().all(Option::is_some)
    {
        let text = format!("slice is a duplicate: {} has its endpoints", first.meta.name);
        found.add(Rank::Object, text);
    } else if stored.endpoints.is_empty() {
        found.add(Rank::Object, "it is empty and not needed");
    }
    for (endpoint, double) in stored.endpoints.iter().zip(doubles) {
        if double.is_none() {
            let text = format!("{} should not be there", named(endpoint));
            found.about(Rank::Extra, endpoint.pod.as_deref(), text);
        }
    }
}
