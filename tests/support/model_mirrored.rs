//! The part of the model that is about mirroring: users who write Endpoints of their own, a server that stores the
//! slices that mirror them, and an independent recompute.

use super::protobuf::with_version;
use super::{Model, Outcome, WatchEvent, codec};
use endpointd::cluster::codec::Namespaced;
use endpointd::core::body::Request;
use endpointd::core::facts::{
    AddressFacts, EndpointsFacts, EndpointsMeta, Extras, LABEL_MANAGED_BY, LABEL_SERVICE_NAME,
    LABEL_SKIP_MIRROR, SliceFacts, SubsetFacts,
};
use endpointd::core::ids::Uid;
use endpointd::core::labels::Labels;
use endpointd::core::namespace::Content;
use endpointd::core::object::{Editor, Remote};
use endpointd::core::ports::{Protocol, SlicePort};
use endpointd::core::subsets::ANNOTATION_OVER_CAPACITY;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Endpoints that a user writes, in a few numbers.
#[derive(Clone, Debug)]
pub(crate) struct CustomSpec {
    /// For each subset: a bit for each of four addresses, a bit for each that is not ready, and the ports.
    pub(crate) subsets: Vec<(u8, u8, u8)>,
    pub(crate) labels: u8,
    pub(crate) skip: bool,
    pub(crate) leader: bool,
    /// True if it is deleted first, and so gets another UID.
    pub(crate) again: bool,
}

impl CustomSpec {
    /// One subset with these of the four addresses, all ready.
    pub(crate) fn plain(addresses: u8) -> Self {
        Self {
            subsets: vec![(addresses, 0, 0)],
            labels: 0,
            skip: false,
            leader: false,
            again: false,
        }
    }
}

/// Changes that users make to mirrored slices.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MirroredTamper {
    Delete,
    DropEndpoint,
    ExtraLabel,
    ExtraAnnotation,
    Disown,
    OtherPorts,
    /// Another slice like it is made.
    Copy,
    OtherManager,
}

const ADDRESSES: [&str; 4] = ["10.9.0.1", "10.9.0.2", "fd00:9::1", "not an address"];

/// The content of the mirrored slices of a Service: labels, annotations and owner, and under each port (none for slices
/// without ports) the addresses and whether they are ready.
pub(crate) type Mirrored = (String, Uid, BTreeMap<Option<String>, BTreeMap<String, bool>>);

/// The labels and annotations that are mirrored.
fn metadata(labels: &Labels, annotations: &BTreeMap<Box<str>, Box<str>>) -> String {
    let labels = labels.project(|key| key != LABEL_MANAGED_BY && key != LABEL_SERVICE_NAME);
    format!("{labels:?} {annotations:?}")
}

fn key(ip: &str, uid: Option<&Uid>) -> String {
    format!("{ip} {uid:?}")
}

fn port(name: &str, number: u16) -> SlicePort {
    SlicePort {
        name: Some(name.into()),
        protocol: Protocol::Tcp,
        number: Some(number),
        app_protocol: None,
    }
}

fn spelled(port: &SlicePort) -> String {
    format!("{:?} {:?}", port.name, port.number)
}

impl CustomSpec {
    fn subsets(&self) -> Vec<SubsetFacts> {
        let address = |at: usize| AddressFacts {
            ip: ADDRESSES[at].into(),
            ..AddressFacts::default()
        };
        let subset = |&(addresses, not_ready, ports): &(u8, u8, u8)| {
            let (ready, waiting): (Vec<usize>, Vec<usize>) = (0..4)
                .filter(|at| addresses >> at & 1 == 1)
                .partition(|at| not_ready >> at & 1 == 0);
            SubsetFacts {
                ports: match ports % 4 {
                    0 => vec![port("a", 80)],
                    1 => vec![port("a", 80), port("b", 81)],
                    2 => vec![port("b", 81)],
                    _ => vec![],
                },
                ready: ready.into_iter().map(address).collect(),
                not_ready: waiting.into_iter().map(address).collect(),
            }
        };
        self.subsets.iter().map(subset).collect()
    }
}

impl Model {
    /// Writes the Endpoints of a Service, as a user would.
    pub(crate) fn custom_endpoints(&mut self, name: &Arc<str>, spec: &CustomSpec) {
        if spec.again {
            self.delete_endpoints(name);
        }
        let uid = self.endpoints.get(name).map(|old| old.meta.uid.clone());
        let mut labels = super::label_pairs(spec.labels);
        if spec.skip {
            labels.push((LABEL_SKIP_MIRROR.to_owned(), "true".to_owned()));
        }
        let facts = EndpointsFacts {
            meta: EndpointsMeta {
                name: name.clone(),
                uid: uid.unwrap_or_else(|| self.next_uid()),
                version: 0,
                ours: false,
                leader: spec.leader,
                skip_mirror: spec.skip,
                deleting: false,
            },
            labels: labels.into_iter().collect(),
            extras: Extras::default(),
            over_capacity: None,
            subsets: spec.subsets(),
        };
        self.custom.insert(facts.meta.uid.to_string());
        self.put_endpoints(facts);
    }

    pub(super) fn carry_out_mirrored(&mut self, name: &str, request: &Request) -> Outcome {
        let parse = |body: &[u8]| codec::object::<Namespaced<SliceFacts>>(body);
        let stored = self.mirrored.get(name);
        match request {
            Request::Fetch => match stored {
                None => Outcome::NotFound,
                Some(slice) if !slice.is_mirrored() => Outcome::Foreign {
                    editor: Editor::Unknown,
                },
                Some(slice) => Outcome::fetched(Content::Slice(Box::new(slice.clone()))),
            },
            Request::Probe => panic!("slices are not probed for"),
            Request::Delete(preconditions) => match stored {
                None => Outcome::NotFound,
                Some(slice) if preconditions.resource_version != Some(slice.meta.version.to_string()) => {
                    Outcome::Conflict
                }
                Some(_) => {
                    self.writes += 1;
                    self.delete_mirrored(name);
                    Outcome::Deleted(None)
                }
            },
            Request::Create(_) if stored.is_some() => Outcome::Exists,
            Request::Create(body) => {
                let mut slice = parse(&with_version(body)).unwrap().facts;
                slice.meta.uid = self.next_uid();
                self.writes += 1;
                self.put_mirrored(slice)
            }
            Request::Update(body) => {
                let slice = parse(body).unwrap().facts;
                match stored {
                    None => Outcome::NotFound,
                    Some(old) if slice.meta.version != old.meta.version => Outcome::Conflict,
                    Some(_) => {
                        self.writes += 1;
                        self.put_mirrored(slice)
                    }
                }
            }
        }
    }

    /// Stores a slice under a new version, and has the watch show it.
    pub(crate) fn put_mirrored(&mut self, mut slice: SliceFacts) -> Outcome {
        self.version += 1;
        slice.meta.version = self.version;
        self.watch.push_back(if slice.is_mirrored() {
            WatchEvent::Mirrored(slice.meta.clone())
        } else {
            WatchEvent::MirroredGone(slice.meta.name.clone(), self.version)
        });
        let remote = Remote {
            uid: slice.meta.uid.clone(),
            version: slice.meta.version,
        };
        self.mirrored.insert(slice.meta.name.clone(), slice);
        Outcome::Written(remote)
    }

    fn delete_mirrored(&mut self, name: &str) {
        if self.mirrored.remove(name).is_some() {
            self.version += 1;
            self.watch
                .push_back(WatchEvent::MirroredGone(name.into(), self.version));
        }
    }

    /// Changes a mirrored slice, as another client would.
    pub(crate) fn tamper_with_mirrored(&mut self, name: &str, tamper: MirroredTamper) {
        let mut slice = self.mirrored[name].clone();
        match tamper {
            MirroredTamper::Delete => return self.delete_mirrored(name),
            MirroredTamper::DropEndpoint => drop(slice.endpoints.pop()),
            MirroredTamper::ExtraLabel => {
                slice.labels = slice.labels.iter().chain([("extra", "1")]).collect();
            }
            MirroredTamper::ExtraAnnotation => {
                slice.extras.annotations.insert("extra".into(), "1".into());
            }
            MirroredTamper::Disown => slice.meta.owner = Uid::from("another").into(),
            MirroredTamper::OtherPorts => slice.ports = vec![port("other", 1)].into(),
            MirroredTamper::Copy => {
                slice.meta.name = format!("{name}-copy").into();
                slice.meta.uid = self.next_uid();
            }
            MirroredTamper::OtherManager => {
                let labels = slice.labels.project(|key| !key.ends_with("managed-by"));
                slice.labels = labels;
            }
        }
        self.put_mirrored(slice);
    }

    /// Returns what the mirrored slices of each Service hold. Fails if an address stands twice under a port.
    pub(crate) fn published_mirrored(&self) -> BTreeMap<Arc<str>, Mirrored> {
        let mut all: BTreeMap<Arc<str>, Mirrored> = BTreeMap::new();
        for slice in self.mirrored.values().filter(|slice| slice.is_mirrored()) {
            if self.keeps_old_slices(&slice.meta.service) {
                continue;
            }
            let metadata = metadata(&slice.labels, &slice.extras.annotations);
            let owner = slice.meta.owner.clone();
            let service = slice.meta.service.clone();
            let endpoints = self.endpoints.get(&service);
            let uid = endpoints.map_or_else(Uid::none, |object| object.meta.uid.clone());
            assert!(owner.includes(&uid), "its Endpoints own it");
            let (known, _, by_port) = all
                .entry(service)
                .or_insert_with(|| (metadata.clone(), uid, BTreeMap::new()));
            assert_eq!(*known, metadata);
            let named: Vec<_> = slice.ports.iter().map(|port| Some(spelled(port))).collect();
            let ports = if named.is_empty() { vec![None] } else { named };
            for port in ports {
                let known = by_port.entry(port).or_default();
                for endpoint in &slice.endpoints {
                    let ready = endpoint.ready.expect("the only condition");
                    assert_eq!((endpoint.serving, endpoint.terminating), (None, None));
                    let key = key(&endpoint.addresses[0], endpoint.pod_uid.as_ref());
                    let twice = known.insert(key, ready);
                    assert_eq!(twice, None, "an address is in one slice");
                }
            }
        }
        all
    }

    /// Returns what they should hold.
    pub(crate) fn expected_mirrored(&self) -> BTreeMap<Arc<str>, Mirrored> {
        let mut all = BTreeMap::new();
        for (name, object) in &self.endpoints {
            let selectorless = self
                .services
                .get(name)
                .is_some_and(|service| service.selectorless);
            if !selectorless || object.meta.leader || object.meta.skip_mirror {
                continue;
            }
            let mut by_port: BTreeMap<Option<String>, BTreeMap<String, bool>> = BTreeMap::new();
            for subset in &object.subsets {
                let named: Vec<_> = subset.ports.iter().map(|port| Some(spelled(port))).collect();
                let ports = if named.is_empty() { vec![None] } else { named };
                for port in ports {
                    for (list, ready) in [(&subset.ready, true), (&subset.not_ready, false)] {
                        for address in list.iter().filter(|address| &*address.ip != ADDRESSES[3]) {
                            let known = by_port.entry(port.clone()).or_default();
                            let uid = address.pod.as_ref().map(|(_, uid)| uid);
                            let at = known.entry(key(&address.ip, uid)).or_insert(true);
                            *at &= ready;
                        }
                    }
                }
            }
            // Addresses without ports join a port that has the same ones.
            if let Some(bare) = bare(object)
                && shares(object, &bare)
            {
                by_port.remove(&None);
            }
            if by_port.values().any(|addresses| !addresses.is_empty()) {
                let mut annotations = object.extras.annotations.clone();
                let over = object.over_capacity.clone();
                annotations.extend(over.map(|value| (ANNOTATION_OVER_CAPACITY.into(), value)));
                let metadata = metadata(&object.labels, &annotations);
                all.insert(name.clone(), (metadata, object.meta.uid.clone(), by_port));
            }
        }
        all
    }
}

/// The addresses of the subsets without ports.
fn bare(object: &EndpointsFacts) -> Option<BTreeSet<(String, bool)>> {
    let bare = addresses(object, |subset| subset.ports.is_empty());
    (!bare.is_empty()).then_some(bare)
}

/// Whether a port has just these addresses.
fn shares(object: &EndpointsFacts, bare: &BTreeSet<(String, bool)>) -> bool {
    let ports: BTreeSet<_> = object.subsets.iter().flat_map(|subset| &subset.ports).collect();
    ports
        .into_iter()
        .any(|port| addresses(object, |subset| subset.ports.contains(port)) == *bare)
}

/// The addresses of some subsets together; one that is not ready anywhere is not ready.
fn addresses(object: &EndpointsFacts, pass: impl Fn(&SubsetFacts) -> bool) -> BTreeSet<(String, bool)> {
    let mut found: BTreeMap<String, bool> = BTreeMap::new();
    for subset in object.subsets.iter().filter(|subset| pass(subset)) {
        for (list, ready) in [(&subset.ready, true), (&subset.not_ready, false)] {
            for address in list {
                let uid = address.pod.as_ref().map(|(_, uid)| uid);
                *found.entry(key(&address.ip, uid)).or_insert(true) &= ready;
            }
        }
    }
    found.into_iter().collect()
}
