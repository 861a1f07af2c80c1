//! Differences of slices.

use super::{Difference, Found, NamedEndpoint, Rank, addressed};
use crate::core::address::Family;
use crate::core::facts::{EndpointFacts, ServiceFacts, SliceFacts, is_reserved_label};
use crate::core::hash::KeyedMap;
use crate::inspect::published::Around;

/// Returns why a slice is to be created, updated or deleted, given the stored and the desired slice, its Service if there
/// is one, and what else is published for that.
pub(in crate::inspect) fn of(
    stored: Option<&SliceFacts>,
    desired: Option<&SliceFacts>,
    service: Option<&ServiceFacts>,
    around: &Around<'_>,
) -> Vec<Difference> {
    let mut found = Found::default();
    match (stored, desired) {
        (Some(stored), Some(desired)) => changed(&mut found, stored, desired, around),
        (None, Some(desired)) => absent(&mut found, desired, around),
        (Some(stored), None) => superfluous(&mut found, stored, service, around),
        (None, None) => {}
    }
    found.finish()
}

/// Returns the first address of an endpoint.
fn address(endpoint: &EndpointFacts) -> &str {
    endpoint.addresses.first().map_or("no address", |address| address)
}

fn named(endpoint: &EndpointFacts) -> String {
    addressed(address(endpoint), endpoint.pod.as_deref())
}

fn changed(found: &mut Found, stored: &SliceFacts, desired: &SliceFacts, around: &Around<'_>) {
    // By pod, or by addresses where there is none.
    let key = |e: &EndpointFacts| e.pod.clone().ok_or_else(|| e.addresses.clone());
    let mut left: KeyedMap<_, Vec<&EndpointFacts>> = KeyedMap::default();
    for endpoint in &stored.endpoints {
        left.entry(key(endpoint)).or_default().push(endpoint);
    }
    for wanted in &desired.endpoints {
        let same = left.entry(key(wanted)).or_default();
        let at = same.iter().position(|e| e.pod_uid == wanted.pod_uid);
        let like = match at.or_else(|| same.len().checked_sub(1)) {
            Some(at) => Some(same.remove(at)),
            None => left.entry(Err(wanted.addresses.clone())).or_default().pop(),
        };
        if let Some(like) = like {
            endpoint(found, like, wanted);
        } else {
            let text = format!("{} is missing", named(wanted));
            found.about(Rank::Missing, wanted.pod.as_deref(), text);
        }
    }
    for extra in left.into_values().flatten() {
        let text = match around.elsewhere(stored, extra.pod.as_deref()) {
            Some(other) => format!("{} is in {} too", named(extra), other.meta.name),
            None => format!("{} should not be there", named(extra)),
        };
        found.about(Rank::Extra, extra.pod.as_deref(), text);
    }
    found.ports(&*stored.ports, &*desired.ports, "", None);
    found.labels(&stored.labels, &desired.labels, |key| !is_reserved_label(key));
}

fn endpoint(found: &mut Found, stored: &EndpointFacts, wanted: &EndpointFacts) {
    let name = named(wanted);
    let pod = wanted.pod.as_deref();
    let of = NamedEndpoint { address: &name, pod };
    let subject = pod.map(|pod| format!("pod {pod}"));
    let of_it = NamedEndpoint {
        address: subject.as_deref().unwrap_or(&name),
        pod,
    };
    let addresses = [stored, wanted].map(|endpoint| endpoint.addresses.join(" "));
    found.ranked(
        Rank::Extra,
        of_it,
        "address",
        Some(&addresses[0]),
        Some(&addresses[1]),
    );
    if stored.pod_uid != wanted.pod_uid {
        let text = format!("{name}: refers to an earlier pod of that name");
        found.about(Rank::Endpoint, pod, text);
    }
    // The two are mostly wrong together, and then reported as one.
    let both = (stored.ready, wanted.ready) == (stored.serving, wanted.serving);
    let ready = if both { "ready and serving" } else { "ready" };
    for (what, stored, wanted) in [
        (ready, stored.ready, wanted.ready),
        ("serving", stored.serving, wanted.serving),
        ("terminating", stored.terminating, wanted.terminating),
    ] {
        if both && what == "serving" {
            continue;
        }
        let spell = |value: Option<bool>| value.map(|value| if value { "true" } else { "false" });
        found.field(of, what, spell(stored), spell(wanted));
    }
    found.field(of, "node", stored.node.as_deref(), wanted.node.as_deref());
    found.field(of, "zone", stored.zone.as_deref(), wanted.zone.as_deref());
    found.field(
        of,
        "hostname",
        stored.hostname.as_deref(),
        wanted.hostname.as_deref(),
    );
    if stored.zone_hints != wanted.zone_hints || stored.node_hints != wanted.node_hints {
        let text = format!(
            "{name}: hints differ: {}, should be {}",
            hints(stored),
            hints(wanted)
        );
        found.about(Rank::Endpoint, pod, text);
    }
    if stored.has_foreign_fields {
        let text = format!("{name}: has fields that are never written");
        found.about(Rank::Endpoint, pod, text);
    }
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
fn absent(found: &mut Found, desired: &SliceFacts, around: &Around<'_>) {
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
pub(in crate::inspect) fn managed_elsewhere(slice: &SliceFacts) -> String {
    match slice.manager() {
        Some(manager) => format!("slice {} is managed by {manager}", slice.meta.name),
        None => format!("slice {} says nobody manages it", slice.meta.name),
    }
}

/// Describes a slice that should not exist.
fn superfluous(found: &mut Found, stored: &SliceFacts, service: Option<&ServiceFacts>, around: &Around<'_>) {
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
