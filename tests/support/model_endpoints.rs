//! The part of the model that is about Endpoints: a server that stores them, users who change them, and an independent
//! recompute.

use super::protobuf::with_version;
use super::{Model, Outcome, WatchEvent, codec};
use endpointd::cluster::codec::Namespaced;
use endpointd::core::body::Request;
use endpointd::core::facts::{EndpointsFacts, LABEL_HEADLESS, SubsetFacts};
use endpointd::core::namespace::Content;
use endpointd::core::object::Remote;
use endpointd::core::ports::TargetPort;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Changes that users make to Endpoints.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EndpointsTamper {
    Delete,
    DropSubset,
    WrongAddress,
    NotReady,
    ExtraLabel,
    NoLabels,
    OverCapacity,
    ForeignAnnotation,
    Reorder,
}

/// The content of Endpoints: labels, and under each port (none for addresses without ports) the addresses.
pub(crate) type Meaning = (
    BTreeMap<String, String>,
    BTreeMap<Option<String>, BTreeSet<String>>,
);

impl Model {
    pub(super) fn carry_out_endpoints(&mut self, name: &Arc<str>, request: &Request) -> Outcome {
        let stored = self.endpoints.get(name);
        match request {
            Request::Probe if self.services.contains_key(name) => Outcome::Exists,
            Request::Probe => Outcome::NotFound,
            Request::Fetch => stored.map_or(Outcome::NotFound, |stored| {
                Outcome::fetched(Content::Endpoints(Box::new(stored.clone())))
            }),
            Request::Delete(preconditions) => {
                let Some(stored) = stored else {
                    return Outcome::NotFound;
                };
                let version = preconditions
                    .resource_version
                    .as_ref()
                    .expect("deletes name the version");
                assert!(preconditions.uid.is_some());
                if *version != stored.meta.version.to_string() {
                    return Outcome::Conflict;
                }
                self.writes += 1;
                self.delete_endpoints(name);
                Outcome::Deleted(None)
            }
            Request::Create(_) if stored.is_some() => Outcome::Exists,
            Request::Create(body) => {
                let mut new = parse(&with_version(body));
                assert_eq!(new.meta.name, *name);
                new.meta.uid = self.next_uid();
                self.writes += 1;
                self.put_endpoints(new)
            }
            Request::Update(body) => {
                let new = parse(body);
                let Some(stored) = stored else {
                    return Outcome::NotFound;
                };
                if new.meta.version != stored.meta.version || new.meta.uid != stored.meta.uid {
                    return Outcome::Conflict;
                }
                self.writes += 1;
                self.put_endpoints(new)
            }
        }
    }

    /// Stores an object under a new version, and has the watch show it.
    pub(crate) fn put_endpoints(&mut self, mut new: EndpointsFacts) -> Outcome {
        if self.endpoints.get(&new.meta.name) != Some(&new) {
            self.version += 1;
            new.meta.version = self.version;
            self.watch.push_back(WatchEvent::Endpoints(new.meta.clone()));
        }
        let remote = Remote {
            uid: new.meta.uid.clone(),
            version: new.meta.version,
        };
        self.endpoints.insert(new.meta.name.clone(), new);
        Outcome::Written(remote)
    }

    pub(crate) fn delete_endpoints(&mut self, name: &Arc<str>) {
        if self.endpoints.remove(name).is_some() {
            self.version += 1;
            self.watch
                .push_back(WatchEvent::EndpointsGone(name.clone(), self.version));
        }
    }

    pub(crate) fn tamper_with_endpoints(&mut self, name: &Arc<str>, tamper: EndpointsTamper) {
        let mut object = self.endpoints[name].clone();
        let first = object.subsets.first_mut();
        match tamper {
            EndpointsTamper::Delete => return self.delete_endpoints(name),
            EndpointsTamper::DropSubset => drop(object.subsets.pop()),
            EndpointsTamper::WrongAddress => {
                if let Some(address) = first.and_then(|subset| subset.ready.first_mut()) {
                    address.ip = "192.0.2.1".into();
                }
            }
            EndpointsTamper::NotReady => {
                if let Some(SubsetFacts { ready, not_ready, .. }) = first {
                    std::mem::swap(ready, not_ready);
                }
            }
            EndpointsTamper::ExtraLabel => {
                object.labels = object.labels.iter().chain([("extra", "1")]).collect();
            }
            EndpointsTamper::NoLabels => {
                object.labels = endpointd::core::labels::Labels::default();
                object.meta.ours = false;
            }
            EndpointsTamper::OverCapacity => object.over_capacity = Some("truncated".into()),
            EndpointsTamper::ForeignAnnotation => {
                object.extras.annotations.insert("keep".into(), "me".into());
            }
            EndpointsTamper::Reorder => {
                object.subsets.reverse();
                for subset in &mut object.subsets {
                    subset.ready.reverse();
                    subset.ports.reverse();
                }
            }
        }
        self.put_endpoints(object);
    }

    /// The content that Endpoints should have, by Service.
    pub(crate) fn expected_endpoints(&self) -> BTreeMap<Arc<str>, Meaning> {
        let managed = self
            .services
            .values()
            .filter(|service| service.selector.is_some() && !service.custom);
        let expected = managed.map(|service| {
            let selector = service.selector.as_ref().unwrap();
            let mut labels: BTreeMap<String, String> = BTreeMap::new();
            labels.extend(service.labels.iter().map(|(k, v)| (k.to_owned(), v.to_owned())));
            labels.insert(
                "endpoints.kubernetes.io/managed-by".into(),
                "endpoint-controller".into(),
            );
            let mut ports: BTreeMap<Option<String>, BTreeSet<String>> = BTreeMap::new();
            for pod in self.pods.values() {
                let selected = selector
                    .pairs()
                    .all(|(key, value)| pod.labels.get(key) == Some(value));
                let first = service.endpoints_family.or(pod.primary);
                let ip = first.and_then(|family| match family {
                    endpointd::core::address::Family::V4 => pod.v4.map(|ip| ip.to_string()),
                    endpointd::core::address::Family::V6 => pod.v6.map(|ip| ip.to_string()),
                });
                let Some(ip) = ip.filter(|_| selected) else {
                    continue;
                };
                if pod.terminating && !service.publish_not_ready {
                    continue;
                }
                let ready = pod.ready || service.publish_not_ready;
                let host = pod.host.as_ref().filter(|h| *h.subdomain == *service.name);
                let host = host.map(|host| &*host.hostname);
                let text = format!("{ip} {ready} {host:?} {:?} {} {}", pod.node, pod.name, pod.uid);
                let mut found = Vec::new();
                for port in &*service.ports {
                    let number = match &port.target {
                        TargetPort::Number(number) => Some(*number),
                        TargetPort::Name(name) => {
                            pod.ports.iter().find(|p| p.name == *name).map(|p| p.number)
                        }
                    };
                    found.extend(number.map(|number| Some(format!("{}={number}", port.name))));
                }
                if service.headless && service.ports.is_empty() {
                    found.push(None);
                }
                for port in found {
                    ports.entry(port).or_default().insert(text.clone());
                }
            }
            (service.name.clone(), (labels, ports))
        });
        expected.collect()
    }

    /// Returns the content of the Endpoints of managed Services. Those of others do not matter.
    pub(crate) fn published_endpoints(&self) -> BTreeMap<Arc<str>, Meaning> {
        let mut published = BTreeMap::new();
        for (name, object) in &self.endpoints {
            if self
                .services
                .get(name)
                .is_none_or(|service| service.selector.is_none() || service.custom)
            {
                continue;
            }
            assert_eq!(
                object.over_capacity, None,
                "{name}: nothing here is over capacity"
            );
            let labels = object.labels.iter().filter(|(key, _)| *key != LABEL_HEADLESS);
            let labels = labels.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
            let mut ports: BTreeMap<Option<String>, BTreeSet<String>> = BTreeMap::new();
            for subset in &object.subsets {
                let lists = [(true, &subset.ready), (false, &subset.not_ready)];
                for (ready, address) in lists
                    .iter()
                    .flat_map(|(r, list)| list.iter().map(move |a| (*r, a)))
                {
                    let (pod, uid) = address.pod.as_ref().unwrap();
                    let host = address.hostname.as_deref();
                    let text = format!("{} {ready} {host:?} {:?} {pod} {uid}", address.ip, address.node);
                    let named = subset.ports.iter();
                    let named = named.map(|p| {
                        Some(format!(
                            "{}={}",
                            p.name.as_deref().unwrap_or_default(),
                            p.number.unwrap()
                        ))
                    });
                    for port in named.chain(subset.ports.is_empty().then_some(None)) {
                        assert!(
                            ports.entry(port).or_default().insert(text.clone()),
                            "{name}: {text} stands twice"
                        );
                    }
                }
            }
            published.insert(name.clone(), (labels, ports));
        }
        published
    }
}

fn parse(body: &[u8]) -> EndpointsFacts {
    codec::object::<Namespaced<EndpointsFacts>>(body).unwrap().facts
}
