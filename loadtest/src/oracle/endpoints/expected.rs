//! The contents that the Endpoints object of a Service should have, worked out from Services and Pods alone.

use crate::oracle::Family;
use crate::oracle::facts::{self, Port};
use k8s_openapi::api::core::v1::{EndpointAddress, Endpoints, ObjectReference, Pod, Service};
use kube::ResourceExt;
use std::collections::BTreeMap;
use std::fmt;

/// The meaning of an object's subsets: for each port, the addresses that offer it. How ports share subsets
/// says nothing. A headless Service without ports has its addresses under no port.
pub(in crate::oracle) type Offers = BTreeMap<Option<Port>, BTreeMap<AddressKey, Address>>;

/// Tells one address from another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::oracle) struct AddressKey {
    ip: String,
    /// Pods in the host's network share its addresses.
    uid: Option<String>,
}

/// The published properties of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::oracle) struct Address {
    pub(super) ready: bool,
    pub(super) hostname: Option<String>,
    pub(super) node: Option<String>,
    /// Kind, namespace and name of what it belongs to.
    pub(super) target: Option<String>,
}

/// Works out the addresses of `service`; `pods` are those of its namespace.
pub(in crate::oracle) fn of_service(service: &Service, pods: &[&Pod]) -> Offers {
    let not_ready_too = facts::publishes_not_ready(service);
    let mut offers = Offers::new();
    for pod in pods
        .iter()
        .filter(|pod| facts::is_selected(service, pod) && facts::is_published(pod))
        .filter(|pod| not_ready_too || !facts::is_terminating(pod))
    {
        let Some(ip) = facts::addresses(pod, family(service, pod)).next() else {
            continue;
        };
        let key = AddressKey { ip, uid: pod.uid() };
        let address = Address {
            ready: not_ready_too || facts::is_ready(pod),
            hostname: facts::hostname(service, pod),
            node: facts::pod_node_name(pod).map(str::to_owned),
            target: Some(format!(
                "Pod {}/{}",
                pod.namespace().unwrap_or_default(),
                pod.name_any()
            )),
        };
        let ports = if facts::service_ports(service).is_empty() {
            vec![None]
        } else {
            facts::ports(service, pod).into_iter().map(Some).collect()
        };
        for port in ports {
            let addresses = offers.entry(port).or_default();
            addresses.insert(key.clone(), address.clone());
        }
    }
    offers
}

/// Every address as it stands in an object, for each mention of it.
pub(super) fn published(object: &Endpoints) -> BTreeMap<Option<Port>, BTreeMap<AddressKey, Vec<Address>>> {
    let mut offers: BTreeMap<_, BTreeMap<_, Vec<_>>> = BTreeMap::new();
    for subset in object.subsets.iter().flatten() {
        let port = |port: &k8s_openapi::api::core::v1::EndpointPort| {
            Some(Port::published(
                port.name.as_ref(),
                Some(port.port),
                port.protocol.as_ref(),
                port.app_protocol.as_ref(),
            ))
        };
        let mut ports: Vec<_> = subset.ports.iter().flatten().map(port).collect();
        if ports.is_empty() {
            ports.push(None);
        }
        for port in ports {
            let offer = offers.entry(port).or_default();
            for (addresses, ready) in [(&subset.addresses, true), (&subset.not_ready_addresses, false)] {
                for address in addresses.iter().flatten() {
                    let (key, address) = read(address, ready);
                    offer.entry(key).or_default().push(address);
                }
            }
        }
    }
    offers
}

fn read(address: &EndpointAddress, ready: bool) -> (AddressKey, Address) {
    let target = address.target_ref.as_ref();
    let key = AddressKey {
        ip: address.ip.clone(),
        uid: target.and_then(|target| target.uid.clone()),
    };
    let address = Address {
        ready,
        hostname: address.hostname.clone(),
        node: address.node_name.clone(),
        target: target.map(|target| {
            let ObjectReference {
                kind,
                namespace,
                name,
                ..
            } = target;
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            format!("{} {}/{}", text(kind), text(namespace), text(name))
        }),
    };
    (key, address)
}

/// The family of a pod's address in the object of the Service: there is only one.
fn family(service: &Service, pod: &Pod) -> Family {
    let first = facts::listed_families(service).first().copied();
    let by_cluster_ip = || facts::parse_ip(facts::cluster_ip(service)?).map(Family::of);
    let by_pod = || facts::parse_ip(pod.status.as_ref()?.pod_ip.as_ref()?).map(Family::of);
    first.or_else(by_cluster_ip).or_else(by_pod).unwrap_or(Family::V4)
}

// === impl AddressKey ===

impl fmt::Display for AddressKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uid = self.uid.as_deref().unwrap_or("none");
        write!(f, "{} (UID {uid})", self.ip)
    }
}
