//! Differences of slices that mirror Endpoints.

use super::{Difference, Found, NamedEndpoint, Rank};
use crate::core::facts::{EndpointFacts, SliceFacts};
use crate::core::mirror::{MirroredEndpoint, observed_endpoint};
use crate::core::namespace::NamespaceState;
use std::collections::{BTreeMap, VecDeque};

/// Returns why a mirrored slice is to be created, updated or deleted, given the stored and the desired slice.
pub(in crate::inspect) fn of(
    stored: Option<&SliceFacts>,
    desired: Option<&SliceFacts>,
    core: &NamespaceState,
) -> Vec<Difference> {
    let mut found = Found::default();
    match (stored, desired) {
        (Some(stored), Some(desired)) => changed(&mut found, stored, desired, core.namespace()),
        (None, Some(desired)) => {
            let count = desired.endpoints.len();
            let family = desired.family.map_or("", |family| family.as_str());
            let text = format!("Endpoints with {count} {family} addresses of these ports are not mirrored");
            found.add(Rank::Object, text);
        }
        (Some(stored), None) => {
            let service = core.service(&stored.meta.service);
            let why = match service {
                None => "its Service does not exist",
                Some(service) if service.selector.is_some() => "its Service has a selector",
                Some(service) if !service.selectorless => "its Service is an ExternalName",
                Some(_) => "the Endpoints have nothing that it would mirror, or are not to be mirrored",
            };
            found.add(Rank::Object, format!("{why}, so it should not exist"));
        }
        (None, None) => {}
    }
    found.finish()
}

/// The endpoints of an address: those that are stored, and those that should be.
type Both<'a> = (Vec<&'a EndpointFacts>, Vec<&'a EndpointFacts>);

fn changed(found: &mut Found, stored: &SliceFacts, desired: &SliceFacts, namespace: &str) {
    let mut by_address: BTreeMap<String, Both<'_>> = BTreeMap::new();
    for endpoint in &stored.endpoints {
        let address = endpoint.addresses.join(" ");
        by_address.entry(address).or_default().0.push(endpoint);
    }
    for endpoint in &desired.endpoints {
        let address = endpoint.addresses.join(" ");
        by_address.entry(address).or_default().1.push(endpoint);
    }
    for (address, (stored, desired)) in by_address {
        addressed(found, &address, stored, desired, namespace);
    }
    found.ports(&*stored.ports, &*desired.ports, "", None);
    found.labels(&stored.labels, &desired.labels, |_| true);
    annotations(found, stored, desired);
    if !stored.meta.owner.meet(&desired.meta.owner) {
        found.add(Rank::Metadata, "is not owned by the Endpoints");
    }
}

/// Compares the endpoints of one address. Several are told apart by what they stand for.
fn addressed<'a>(
    found: &mut Found,
    address: &str,
    stored: Vec<&'a EndpointFacts>,
    desired: Vec<&'a EndpointFacts>,
    namespace: &str,
) {
    let several = stored.len() > 1 || desired.len() > 1;
    let name = |endpoint: &EndpointFacts| {
        if several {
            format!("{address} ({})", stands_for(endpoint))
        } else {
            address.to_owned()
        }
    };
    let mut left: BTreeMap<String, VecDeque<&EndpointFacts>> = BTreeMap::new();
    for there in stored {
        left.entry(stands_for(there)).or_default().push_back(there);
    }
    let mut pairs = Vec::new();
    let mut missing = Vec::new();
    for wanted in desired {
        match left.get_mut(&stands_for(wanted)).and_then(VecDeque::pop_front) {
            Some(there) => pairs.push((there, wanted)),
            None => missing.push(wanted),
        }
    }
    let mut extra: Vec<_> = left.into_values().flatten().collect();
    if let ([there], [wanted]) = (&*extra, &*missing)
        && !several
    {
        // The one endpoint that is left stands for something else now.
        pairs.push((there, wanted));
        extra.clear();
        missing.clear();
    }
    for (there, wanted) in pairs {
        match [there, wanted].map(|endpoint| observed_endpoint(namespace, endpoint)) {
            [Some(there), Some(expected)] => endpoint(found, &name(wanted), &there, &expected),
            _ => found.add(
                Rank::Endpoint,
                format!("{}: has fields that are never written", name(wanted)),
            ),
        }
    }
    for wanted in missing {
        found.add(Rank::Missing, format!("{} is missing", name(wanted)));
    }
    for there in extra {
        found.add(Rank::Extra, format!("{} should not be there", name(there)));
    }
}

/// Says what an endpoint stands for beside its address, as `Pod web-1`.
fn stands_for(endpoint: &EndpointFacts) -> String {
    let target = match (&endpoint.pod, &endpoint.target) {
        (_, Some(target)) => format!("{} {}", target.kind, target.name),
        (Some(pod), None) => format!("Pod {pod}"),
        (None, None) => "no target".to_owned(),
    };
    match endpoint.hostname.as_deref().filter(|name| !name.is_empty()) {
        Some(hostname) => format!("{target}, hostname {hostname}"),
        None => target,
    }
}

fn endpoint(found: &mut Found, address: &str, stored: &MirroredEndpoint, wanted: &MirroredEndpoint) {
    let of = NamedEndpoint { address, pod: None };
    let spell = |ready: bool| Some(if ready { "true" } else { "false" });
    found.field(of, "ready", spell(stored.ready), spell(wanted.ready));
    found.field(of, "node", stored.node.as_deref(), wanted.node.as_deref());
    found.field(
        of,
        "hostname",
        stored.hostname.as_deref(),
        wanted.hostname.as_deref(),
    );
    let target = |endpoint: &MirroredEndpoint| {
        let target = endpoint.target.as_deref()?;
        Some(format!(
            "{} {}/{} {}",
            target.kind, target.namespace, target.name, target.uid
        ))
    };
    let targets = [stored, wanted].map(target);
    found.field(of, "target", targets[0].as_deref(), targets[1].as_deref());
    if stored.target != wanted.target && targets[0] == targets[1] {
        found.add(Rank::Endpoint, format!("{address}: target differs"));
    }
}

fn annotations(found: &mut Found, stored: &SliceFacts, desired: &SliceFacts) {
    let (stored, desired) = (&stored.extras.annotations, &desired.extras.annotations);
    // Values may be 256 KiB, so only the keys are named.
    for (key, value) in desired {
        if stored.get(key) != Some(value) {
            let what = if stored.contains_key(key) {
                "differs"
            } else {
                "is missing"
            };
            found.add(Rank::Metadata, format!("annotation {key} {what}"));
        }
    }
    for key in stored.keys().filter(|key| !desired.contains_key(*key)) {
        found.add(Rank::Metadata, format!("annotation {key} should not be there"));
    }
}
