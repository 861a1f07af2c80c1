//! Slices that mirror the Endpoints of Services without a selector: what they should hold, and what they do. The layout
//! is worked out address by address, not as the controller does it.

use super::annotated::{has_selector, is_external};
use super::endpoints::LEADER;
use super::report::Comparison;
use super::slices::MANAGED_BY_LABEL;
use super::{Difference, Problem};
use k8s_openapi::api::core::v1::{EndpointAddress, Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use std::collections::BTreeMap;

const MIRRORED_BY: &str = "endpointslicemirroring-controller.k8s.io";
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";

/// Under each port (none for addresses without ports), addresses with the name of their target, and whether they are
/// ready.
type Shown = BTreeMap<Option<String>, BTreeMap<String, bool>>;

/// Compares the mirrored slices among those of a Service with its Endpoints, and returns the number of addresses that
/// they should hold. A Service with a selector has none.
pub(super) fn compare(
    service: &Service,
    endpoints: Option<&Endpoints>,
    slices: &[&EndpointSlice],
    differences: &mut Vec<Difference>,
) -> usize {
    let leaving = endpoints.is_some_and(|object| object.metadata.deletion_timestamp.is_some());
    if service.metadata.deletion_timestamp.is_some() || leaving {
        return 0;
    }
    let endpoints = endpoints.filter(|object| is_mirrored(service, object));
    let (mut expected, found) = (endpoints.map(expected).unwrap_or_default(), found(slices));
    if expected.get(&None).is_some_and(|bare| {
        let mut others = expected.iter().filter(|(port, _)| port.is_some());
        others.any(|(_, addresses)| addresses == bare)
    }) {
        // Addresses without ports join a port that has the same ones.
        expected.remove(&None);
    }
    let mut comparison = Comparison::of(service, differences);
    let mut tell = |port: &Option<String>, subject: String, problem| {
        let port = port.as_ref().map(|port| port as &dyn ToString);
        comparison.add(None, port, subject, problem);
    };
    for (port, addresses) in &expected {
        for (address, ready) in addresses {
            match found.get(port).and_then(|found| found.get(address)) {
                None => tell(port, format!("mirrored {address}"), Problem::Missing),
                Some(other) if other != ready => {
                    let problem = Problem::Differs {
                        field: "ready",
                        expected: ready.to_string(),
                        found: other.to_string(),
                    };
                    tell(port, format!("mirrored {address}"), problem);
                }
                Some(_) => {}
            }
        }
    }
    for (port, addresses) in &found {
        for address in addresses.keys() {
            if !expected
                .get(port)
                .is_some_and(|known| known.contains_key(address))
            {
                let problem = Problem::Unexpected("the Endpoints do not have it");
                tell(port, format!("mirrored {address}"), problem);
            }
        }
    }
    let uid = endpoints.and_then(ResourceExt::uid);
    for slice in slices.iter().filter(|slice| is_ours(slice)) {
        let owners = slice.metadata.owner_references.iter().flatten();
        let owned = owners
            .clone()
            .any(|owner| owner.kind == "Endpoints" && Some(&owner.uid) == uid.as_ref());
        if endpoints.is_some() && !owned {
            let problem = Problem::Unexpected("its Endpoints do not own it");
            tell(&None, format!("mirrored slice {}", slice.name_any()), problem);
        }
    }
    expected.values().map(BTreeMap::len).sum()
}

fn is_ours(slice: &EndpointSlice) -> bool {
    slice.labels().get(MANAGED_BY_LABEL).map(String::as_str) == Some(MIRRORED_BY)
        && slice.metadata.deletion_timestamp.is_none()
}

fn is_mirrored(service: &Service, endpoints: &Endpoints) -> bool {
    service.spec.is_some()
        && !has_selector(service)
        && !is_external(service)
        && endpoints.labels().get(SKIP).map(String::as_str) != Some("true")
        && !endpoints.annotations().contains_key(LEADER)
}

fn expected(endpoints: &Endpoints) -> Shown {
    let mut shown = Shown::new();
    for subset in endpoints.subsets.iter().flatten() {
        let ports = subset.ports.iter().flatten();
        let ports: Vec<_> = ports
            .map(|port| {
                let protocol = port.protocol.as_deref().unwrap_or("TCP");
                Some(format!(
                    "{} {}/{protocol}",
                    port.name.as_deref().unwrap_or_default(),
                    port.port
                ))
            })
            .collect();
        let lists = [(&subset.addresses, true), (&subset.not_ready_addresses, false)];
        for port in if ports.is_empty() { vec![None] } else { ports } {
            for (list, ready) in lists {
                for address in list.iter().flatten() {
                    let known = shown.entry(port.clone()).or_default();
                    *known.entry(key(address)).or_insert(true) &= ready;
                }
            }
        }
    }
    shown
}

fn key(address: &EndpointAddress) -> String {
    let target = address.target_ref.as_ref();
    let name = target
        .and_then(|target| target.name.as_deref())
        .unwrap_or_default();
    let uid = target
        .and_then(|target| target.uid.as_deref())
        .unwrap_or_default();
    // As it is printed in slices.
    let ip = address.ip.parse::<std::net::IpAddr>();
    let ip = ip.map_or_else(|_| address.ip.clone(), |ip| ip.to_string());
    format!("{ip} {name} {uid}")
}

fn found(slices: &[&EndpointSlice]) -> Shown {
    let mut shown = Shown::new();
    for slice in slices.iter().filter(|slice| is_ours(slice)) {
        let ports = slice.ports.iter().flatten();
        let ports: Vec<_> = ports
            .map(|port| {
                let protocol = port.protocol.as_deref().unwrap_or("TCP");
                let name = port.name.as_deref().unwrap_or_default();
                Some(format!("{name} {}/{protocol}", port.port.unwrap_or_default()))
            })
            .collect();
        for port in if ports.is_empty() { vec![None] } else { ports } {
            let known = shown.entry(port).or_default();
            for endpoint in slice.endpoints.iter().flatten() {
                let conditions = endpoint.conditions.as_ref();
                let ready = conditions.and_then(|conditions| conditions.ready);
                for ip in &endpoint.addresses {
                    let address = EndpointAddress {
                        ip: ip.clone(),
                        target_ref: endpoint.target_ref.clone(),
                        ..EndpointAddress::default()
                    };
                    known.insert(key(&address), ready.unwrap_or(true));
                }
            }
        }
    }
    shown
}
