//! Differences of Endpoints objects.

use super::{Endpoint, Flat, Found, Rank, addressed, referred, set};
use crate::core::facts::{EndpointsFacts, LABEL_HEADLESS};
use crate::core::hash::KeyedMap;
use crate::core::mirror::reference;
use crate::core::subsets::TRUNCATED;
use std::collections::BTreeMap;

/// Describes an object that is to be created.
pub(super) fn absent(found: &mut Found, desired: &EndpointsFacts, namespace: &str) {
    found.add(Rank::Object, "there is no such object");
    for wanted in flat(desired, namespace).endpoints {
        found.about(Rank::Missing, wanted.pod, format!("{} is missing", wanted.name));
    }
}

/// Describes an object that is to be updated.
pub(super) fn changed(found: &mut Found, stored: &EndpointsFacts, desired: &EndpointsFacts, namespace: &str) {
    let (mut is, mut should) = (flat(stored, namespace), flat(desired, namespace));
    if is.endpoints.is_empty() || should.endpoints.is_empty() {
        // Without addresses, there are no ports to compare.
        (is.ports, should.ports) = Default::default();
    }
    found.compare(&is, &should, |_| None);
    match (stored.over_capacity.as_deref(), desired.over_capacity.as_deref()) {
        (Some(_), None) => found.add(Rank::Metadata, "marked as truncated, and is not"),
        (other, Some(_)) if other != Some(TRUNCATED) => {
            found.add(Rank::Metadata, "is truncated, and not marked so");
        }
        _ => {}
    }
}

/// Flattens an object. What several subsets say of an address of a pod becomes one.
fn flat<'a>(endpoints: &'a EndpointsFacts, namespace: &str) -> Flat<'a> {
    let mut entries = BTreeMap::new();
    for (at, subset) in endpoints.subsets.iter().enumerate() {
        let ready = subset.ready.iter().map(|address| (address, true));
        let others = subset.not_ready.iter().map(|address| (address, false));
        for (address, ready) in ready.chain(others) {
            let pod = address.pod.as_ref().map(|(name, _)| &**name);
            let entry = entries.entry((&*address.ip, pod));
            // Subsets are kept by their indices: each may have thousands of ports.
            let (_, all_ready, subsets) = entry.or_insert((address, true, Vec::new()));
            *all_ready &= ready;
            if subsets.last() != Some(&at) {
                subsets.push(at);
            }
        }
    }
    let mut flat = Flat {
        labels: endpoints
            .labels
            .iter()
            .filter(|(key, _)| *key != LABEL_HEADLESS)
            .collect(),
        ..Flat::default()
    };
    // Pods of one template are in the same subsets.
    let mut groups = KeyedMap::default();
    for ((ip, pod), (address, ready, subsets)) in entries {
        let group = *groups.entry(subsets).or_insert_with_key(|subsets| {
            let subsets = subsets.iter().map(|at| &endpoints.subsets[*at]);
            flat.groups
                .push(subsets.flat_map(|subset| &subset.ports).collect());
            flat.groups.len() - 1
        });
        let other = address.target.as_deref().filter(|_| pod.is_none());
        let target = address.pod.as_ref().map(|(name, uid)| (&**name, uid));
        let target = reference(namespace, other, target);
        let name = addressed(ip, pod);
        flat.endpoints.push(Endpoint {
            keys: [Some(name.clone()), None, None],
            name,
            pod,
            fields: vec![
                ("ready", Some(ready.to_string())),
                ("node", set(address.node.as_deref())),
                ("hostname", set(address.hostname.as_deref())),
                ("target", target.as_deref().map(referred)),
            ],
            group,
        });
    }
    flat.ports = flat.groups.iter().flatten().copied().collect();
    flat
}
