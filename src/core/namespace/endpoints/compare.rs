//! Differences of Endpoints, for a process that compares and does not write.

use super::by_uid;
use super::server::Verdict;
use crate::core::body::endpoints_labels;
use crate::core::drift::{Difference, Drift, Operation};
use crate::core::facts::{EndpointsFacts, LABEL_HEADLESS};
use crate::core::hash::{IdMap, hash_of};
use crate::core::ids::{ServiceId, Uid};
use crate::core::namespace::NamespaceState;
use crate::core::namespace::addresses::ServiceEndpoints;
use crate::core::object::Output;
use crate::core::ports::SlicePort;
use crate::core::subsets::MAX_ADDRESSES;
use std::sync::Arc;

/// All that an Endpoints object says of one address at one port.
#[derive(Hash)]
struct Entry<'a> {
    /// One of [`each`].
    port: u64,
    ready: bool,
    ip: &'a str,
    hostname: Option<&'a str>,
    node: Option<&'a str>,
    pod: Option<(&'a str, &'a Uid)>,
}

/// A subset with more ports than this is taken as a whole: it may have thousands, each at a thousand addresses.
const MANY_PORTS: usize = 32;

/// Returns a hash for each port of a subset, or one for the whole if it has no ports or more than `MANY_PORTS`.
fn each(ports: &[SlicePort]) -> Vec<u64> {
    if ports.is_empty() || ports.len() > MANY_PORTS {
        let mut ports: Vec<_> = ports.iter().collect();
        ports.sort_unstable();
        return vec![hash_of(&ports)];
    }
    ports.iter().map(hash_of).collect()
}

fn deviation(operation: Operation, name: &Arc<str>) -> Drift {
    Drift {
        operation,
        output: Output::Endpoints,
        name: Some(name.clone()),
        ordinal: 0,
    }
}

impl NamespaceState {
    /// Adds the differences of a managed Service's object.
    pub(in crate::core::namespace) fn differing_endpoints(&self, id: ServiceId, found: &mut Vec<Difference>) {
        let service = &self.services[id];
        let name = &service.facts.name;
        let (Some(shown), Some(endpoints)) = (&self.shown, &service.endpoints) else {
            return;
        };
        let mut add = |operation, key| {
            let deviation = deviation(operation, name);
            found.push(Difference { key, deviation });
        };
        let Some(shown) = shown.endpoints.get(name) else {
            add(Operation::Create, hash_of(&("create", name)));
            return;
        };
        let facts = &shown.facts;
        if matches!(self.judge_endpoints(id, facts), Verdict::Same(_)) {
            return;
        }
        let mut keys = Vec::new();
        let wanted = endpoints_labels(&service.facts).collect();
        if facts.labels.project(|key| key != LABEL_HEADLESS) != wanted {
            keys.push(hash_of(&("labels", name)));
        }
        if endpoints.members.is_over(MAX_ADDRESSES) {
            // Which addresses are left out is anyone's choice, and any pod may change it.
            keys.push(hash_of(&(name, self.endpoints_fingerprint(id))));
        } else {
            self.other_addresses(id, endpoints, facts, &mut keys);
        }
        if keys.is_empty() {
            keys.push(hash_of(&("update", name)));
        }
        for key in keys {
            add(Operation::Update, key);
        }
    }

    /// Finds addresses that should be there and are not, or the other way round.
    fn other_addresses(
        &self,
        id: ServiceId,
        endpoints: &ServiceEndpoints,
        facts: &EndpointsFacts,
        keys: &mut Vec<u64>,
    ) {
        let service = &self.services[id].facts;
        let members = &endpoints.members;
        // By what is published of it, and what tells it from the same a while ago.
        let mut wanted = IdMap::default();
        for subset in members.publish(MAX_ADDRESSES, by_uid(&self.pods)).subsets {
            let ports = each(&subset.ports);
            for (list, ready) in [(&subset.ready, true), (&subset.not_ready, false)] {
                for &pod_id in list {
                    let Some((ip, ..)) = members.get(pod_id) else {
                        continue;
                    };
                    let address = self.address_body(pod_id, ip, service);
                    let ip = ip.to_string();
                    for &port in &ports {
                        let key = hash_of(&Entry {
                            port,
                            ready,
                            ip: &ip,
                            hostname: address.hostname,
                            node: address.node,
                            pod: Some((address.target.name, address.target.uid)),
                        });
                        wanted.insert(key, hash_of(&(key, self.pods[pod_id].ready_time)));
                    }
                }
            }
        }
        for subset in &facts.subsets {
            let ports = each(&subset.ports);
            for (list, ready) in [(&subset.ready, true), (&subset.not_ready, false)] {
                for address in list {
                    let pod = address.pod.as_ref().map(|(name, uid)| (&**name, uid));
                    for &port in &ports {
                        let key = hash_of(&Entry {
                            port,
                            ready,
                            ip: &address.ip,
                            hostname: address.hostname.as_deref(),
                            node: address.node.as_deref(),
                            pod,
                        });
                        // A pod that should be there otherwise is counted as that.
                        let member = || {
                            let pod = pod.and_then(|(name, _)| self.pods.find(name));
                            pod.is_some_and(|pod| members.get(pod).is_some())
                        };
                        if wanted.remove(&key).is_none() && !member() {
                            keys.push(key);
                        }
                    }
                }
            }
        }
        keys.extend(wanted.into_values());
    }

    /// Finds what is left of a Service that is gone: an object that has lost it, or one of our making without one.
    pub(in crate::core::namespace) fn leftover_endpoints(
        &self,
        name: &Arc<str>,
        found: &mut Vec<Difference>,
    ) {
        let shown = self.shown.as_ref().and_then(|shown| shown.endpoints.get(name));
        let left = shown.filter(|shown| {
            let meta = &shown.facts.meta;
            shown.doomed || (meta.ours && !meta.leader)
        });
        if let Some(left) = left.filter(|_| self.settings.outputs.endpoints) {
            found.push(Difference {
                key: hash_of(&("delete", &left.facts.meta.uid)),
                deviation: deviation(Operation::Delete, name),
            });
        }
    }
}
