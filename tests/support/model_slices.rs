//! The content that slices should have by an independent computation, and the content that they have.

use super::{Model, is_ours};
use endpointd::core::address::Family;
use endpointd::core::facts::{EndpointFacts, Manager, PodFacts, ServiceFacts, SliceFacts};
use endpointd::core::hints::HintMode;
use endpointd::core::ids::Uid;
use endpointd::core::ports::TargetPort;
use endpointd::core::selector::Requirement;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An endpoint, as a set may hold it.
pub(crate) type Endpoint = String;

/// An endpoint by the UID of its Service, its family and the UID of its pod.
pub(super) type Shown = (String, Family, String);

impl Model {
    /// The endpoints that should be published, for each managed Service, family and port list.
    pub(crate) fn expected(&self) -> BTreeMap<(Arc<str>, Family, String), BTreeSet<Endpoint>> {
        let mut expected: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for service in self.services.values() {
            if !service.is_managed() || service.is_frozen() {
                continue;
            }
            let chosen = self.chosen(service);
            for family in Family::ALL.into_iter().filter(|family| service.has(*family)) {
                let mut any = false;
                for pod in &chosen {
                    let node = pod.node.as_ref().and_then(|node| self.zones.get(node));
                    let ip = match family {
                        Family::V4 => pod.v4.map(|ip| ip.to_string()),
                        Family::V6 => pod.v6.map(|ip| ip.to_string()),
                    };
                    let ready = service.publish_not_ready || (pod.ready && !pod.terminating);
                    // A missing node keeps new endpoints out, and takes none out.
                    let shown = self.shown_endpoint(service, family, &pod.uid);
                    let stays = |endpoint: &EndpointFacts| {
                        let shown = (endpoint.ready, endpoint.serving, endpoint.terminating);
                        ready || shown == (Some(ready), Some(pod.ready), Some(pod.terminating))
                    };
                    let fit = node.is_some() || service.publish_not_ready || shown.is_some_and(stays);
                    let Some(ip) = ip.filter(|_| fit) else {
                        continue;
                    };
                    let mut ports: Vec<String> = Vec::new();
                    for port in &*service.ports {
                        match &port.target {
                            TargetPort::Number(number) => ports.push(format!("{}={number}", port.name)),
                            TargetPort::Name(name) => {
                                let found = pod.ports.iter().find(|p| p.name == *name);
                                ports.extend(found.map(|p| format!("{}={}", port.name, p.number)));
                            }
                        }
                    }
                    ports.sort();
                    let hostname = pod
                        .host
                        .as_ref()
                        .filter(|h| *h.subdomain == *service.name)
                        .map(|h| &h.hostname);
                    any = true;
                    // A zone that is unknown is no reason to write.
                    let zone = node.and_then(|node| node.zone.as_deref());
                    let (shown_zone, shown_hints) = shown.map_or((None, &[][..]), |endpoint| {
                        (endpoint.zone.as_deref(), &endpoint.zone_hints[..])
                    });
                    let hinted = ready && matches!(service.hints, HintMode::SameZone | HintMode::SameNode);
                    let zone_hints = match zone {
                        Some(zone) if hinted => vec![zone],
                        Some(_) => Vec::new(),
                        None if service.hints == HintMode::Auto => Vec::new(),
                        None => shown_hints.iter().map(|hint| &**hint).collect(),
                    };
                    let zone = zone.or(shown_zone);
                    let node_hint = pod
                        .node
                        .as_deref()
                        .filter(|_| ready && service.hints == HintMode::SameNode);
                    expected
                        .entry((service.name.clone(), family, ports.join(",")))
                        .or_default()
                        .insert(format!(
                            "{ip} ready={ready} serving={} terminating={} {hostname:?} {:?} {zone:?} {} {} {:?} {:?}",
                            pod.ready,
                            pod.terminating,
                            pod.node.as_deref(),
                            pod.name,
                            pod.uid,
                            zone_hints,
                            node_hint.into_iter().collect::<Vec<_>>(),
                        ));
                }
                if !any {
                    expected.insert((service.name.clone(), family, String::new()), BTreeSet::new());
                }
            }
        }
        expected
    }

    /// What a slice of a Service shows of a pod.
    fn shown_endpoint(&self, service: &ServiceFacts, family: Family, pod: &Uid) -> Option<&EndpointFacts> {
        let slices = self
            .store
            .values()
            .filter(|slice| is_ours(slice) && slice.is_for(service));
        let mut slices = slices.filter(|slice| {
            slice.meta.service == service.name
                && slice.family == Some(family)
                && slice.meta.owner.includes(&service.uid)
        });
        slices.find_map(|slice| {
            slice
                .endpoints
                .iter()
                .find(|endpoint| endpoint.pod_uid.as_ref() == Some(pod))
        })
    }

    /// The endpoints that slices show, all or those in other slices than one.
    pub(super) fn shown(&self, except: Option<&str>) -> BTreeSet<Shown> {
        let slices = self
            .store
            .values()
            .filter(|slice| Some(&*slice.meta.name) != except && is_ours(slice));
        let endpoints = slices.flat_map(|slice| {
            let service = self.services.get(&slice.meta.service);
            let service = service.filter(|service| {
                slice.is_for(service) && slice.meta.owner.includes(&service.uid) && slice.family.is_some()
            });
            let pods = slice
                .endpoints
                .iter()
                .filter_map(|endpoint| endpoint.pod_uid.clone());
            let shown = |pod: Uid| Some((service?.uid.to_string(), slice.family?, pod.to_string()));
            pods.filter_map(shown).collect::<Vec<_>>()
        });
        endpoints.collect()
    }

    /// The pods that a Service selects.
    fn chosen(&self, service: &ServiceFacts) -> Vec<&PodFacts> {
        let selected = |pod: &&PodFacts| {
            service.selector.as_ref().is_none_or(|selector| {
                let meets = |it: Requirement<'_>| it.accepts(pod.labels.get(it.key));
                let mut pairs = selector.pairs();
                pairs.all(|(key, value)| pod.labels.get(key) == Some(value))
                    && selector.requirements().all(meets)
            })
        };
        self.pods.values().filter(selected).collect()
    }

    /// The endpoints that a Service goes on to publish if a slice shows them.
    pub(super) fn publishable(&self) -> BTreeSet<Shown> {
        let mut publishable = BTreeSet::new();
        for service in self.services.values() {
            if !service.is_managed() || service.is_frozen() {
                continue;
            }
            for pod in self.chosen(service) {
                let ready = service.publish_not_ready || (pod.ready && !pod.terminating);
                let has = |family| match family {
                    Family::V4 => pod.v4.is_some(),
                    Family::V6 => pod.v6.is_some(),
                };
                for family in Family::ALL
                    .into_iter()
                    .filter(|family| service.has(*family) && has(*family))
                {
                    if ready {
                        publishable.insert((service.uid.to_string(), family, pod.uid.to_string()));
                    }
                }
            }
        }
        publishable
    }

    /// True if old slices of a Service stay, because those for its selector hold no ready endpoints.
    pub(crate) fn keeps_old_slices(&self, name: &str) -> bool {
        let service = self.services.get(name);
        service.is_some_and(|service| {
            let mut slices = self.store.values().filter(|slice| slice.is_for(service));
            let holds = |slice: &SliceFacts| {
                slice
                    .endpoints
                    .iter()
                    .any(|endpoint| endpoint.ready == Some(true))
            };
            let empty = slices.all(|slice| *slice.meta.service != *name || !holds(slice));
            service.is_managed() && !service.custom && empty
        })
    }

    /// Checks a slice of a Service to which no pods are added: those that are in it are ready.
    fn assert_followed(&self, slice: &SliceFacts) {
        for endpoint in &slice.endpoints {
            let pod = endpoint.pod.as_deref().and_then(|name| self.pods.get(name));
            let pod = pod.unwrap_or_else(|| panic!("{}: {endpoint:?} is of no pod", slice.meta.name));
            assert_eq!(endpoint.pod_uid.as_ref(), Some(&pod.uid), "{}", slice.meta.name);
            assert_eq!(endpoint.ready, Some(true), "{}: {endpoint:?}", slice.meta.name);
        }
    }

    /// The endpoints that are published, by the same key. Panics where an endpoint stands twice, a slice is
    /// too large, or one is there that should not be.
    pub(crate) fn published(&self) -> BTreeMap<(Arc<str>, Family, String), BTreeSet<Endpoint>> {
        let mut published: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for slice in self.store.values().filter(|slice| is_ours(slice)) {
            let Some(service) = self.services.get(&slice.meta.service) else {
                continue;
            };
            if !slice.is_for(service) {
                let left = slice.meta.manager == Manager::Builtin || self.keeps_old_slices(&service.name);
                assert!(
                    left,
                    "{}: of an annotation that no longer counts",
                    slice.meta.name
                );
                continue;
            }
            if service.is_frozen() {
                self.assert_followed(slice);
            }
            if !service.is_managed() || service.is_frozen() {
                continue;
            }
            assert!(
                slice.meta.owner.includes(&service.uid),
                "{}: of an older Service",
                slice.meta.name
            );
            assert!(
                slice.endpoints.len() <= self.limit,
                "{}: over the limit",
                slice.meta.name
            );
            let family = slice.family.expect("all slices here have a family");
            let mut ports: Vec<String> = slice
                .ports
                .iter()
                .map(|p| format!("{}={}", p.name.as_deref().unwrap_or("?"), p.number.unwrap_or(0)))
                .collect();
            ports.sort();
            let group = published
                .entry((service.name.clone(), family, ports.join(",")))
                .or_default();
            for endpoint in &slice.endpoints {
                let text = format!(
                    "{} ready={} serving={} terminating={} {:?} {:?} {:?} {} {} {:?} {:?}",
                    endpoint.addresses.join("+"),
                    endpoint.ready.expect("always set"),
                    endpoint.serving.expect("always set"),
                    endpoint.terminating.expect("always set"),
                    endpoint.hostname.as_ref(),
                    endpoint.node.as_deref(),
                    endpoint.zone.as_deref(),
                    endpoint.pod.as_deref().unwrap_or_default(),
                    endpoint.pod_uid.clone().unwrap_or_else(Uid::none),
                    // Balanced hints depend on history; that they are in order shows in that no write changes them.
                    if service.hints == HintMode::Auto {
                        &[]
                    } else {
                        &endpoint.zone_hints[..]
                    },
                    endpoint.node_hints,
                );
                assert!(
                    group.insert(text.clone()),
                    "{}: {text} stands twice",
                    slice.meta.name
                );
            }
        }
        published
    }
}
