//! Differences of slices that mirror Endpoints.

use super::{Difference, Found, Rank, Subject};
use crate::core::facts::{EndpointFacts, SliceFacts};
use crate::core::mirror::{MirroredEndpoint, observed_endpoint};
use crate::core::namespace::NamespaceState;
use std::collections::BTreeMap;

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

fn changed(found: &mut Found, stored: &SliceFacts, desired: &SliceFacts, namespace: &str) {
    let by_address = |slice: &SliceFacts| -> BTreeMap<String, EndpointFacts> {
        let endpoints = slice.endpoints.iter();
        endpoints
            .map(|endpoint| (endpoint.addresses.join(" "), endpoint.clone()))
            .collect()
    };
    let mut left = by_address(stored);
    for (address, wanted) in by_address(desired) {
        let Some(there) = left.remove(&address) else {
            found.add(Rank::Missing, format!("{address} is missing"));
            continue;
        };
        match [&there, &wanted].map(|endpoint| observed_endpoint(namespace, endpoint)) {
            [Some(there), Some(wanted)] => endpoint(found, &address, &there, &wanted),
            _ => found.add(
                Rank::Endpoint,
                format!("{address}: has fields that are never written"),
            ),
        }
    }
    for address in left.into_keys() {
        found.add(Rank::Extra, format!("{address} should not be there"));
    }
    found.ports(&*stored.ports, &*desired.ports, "", None);
    found.labels(&stored.labels, &desired.labels, |_| true);
    annotations(found, stored, desired);
    if !stored.meta.owner.meet(&desired.meta.owner) {
        found.add(Rank::Metadata, "is not owned by the Endpoints");
    }
}

fn endpoint(found: &mut Found, address: &str, stored: &MirroredEndpoint, wanted: &MirroredEndpoint) {
    let of = Subject { address, pod: None };
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
