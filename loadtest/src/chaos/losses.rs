//! Endpoints that the controller lost: a write of its took a pod out of the last slice of its Service, though nothing had
//! asked for that. The journal of the server, which has every write, is replayed for them.
//!
//! A controller may be late, so that the present state of a pod proves nothing: it is asked of every version of the pod
//! and of its Service that the controller can have seen last. A slice that shows a pod as ready proves that one was seen in
//! which it was, so versions before the first of these do not count.

use super::world::{MANAGED_BY, OURS, SERVICE_NAME};
use crate::oracle::{self, Family};
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use memory_apiserver::JournalEntry;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

const CUSTOM: &str = "endpointd.io";

/// The writes of a history, by which it is told from the controller.
#[derive(Debug, Default)]
pub(super) struct Writes {
    versions: HashSet<u64>,
    /// UIDs of objects that were deleted, and are gone now or later.
    deleted: HashSet<String>,
}

/// A pod in the slices of a Service, of one family and one controller.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    service: String,
    family: Family,
    /// True for the slices that are published for the Service's annotation.
    custom: bool,
    pod: String,
}

/// The versions of an object.
#[derive(Debug)]
struct Past<T> {
    versions: Vec<T>,
    gone: bool,
}

#[derive(Default)]
struct Replay {
    /// Their content goes with them.
    deleted_namespaces: HashSet<String>,
    services: HashMap<String, Past<Service>>,
    pods: HashMap<String, Past<Pod>>,
    /// What each slice holds, by namespace and name, and whether as ready.
    slices: BTreeMap<(String, String), BTreeMap<Place, bool>>,
    /// The controller has shown them as ready.
    shown: BTreeSet<Place>,
    /// The history has taken them out of a slice, and the controller need not know it.
    spared: BTreeSet<Place>,
}

/// Replays the journal, and returns the losses in words.
pub(super) fn of(journal: &[JournalEntry], history: &Writes) -> Vec<String> {
    let mut replay = Replay::default();
    let mut losses = Vec::new();
    for entry in journal {
        match entry.resource() {
            "namespaces" => replay.namespace(entry),
            "services" => note(&mut replay.services, entry),
            "pods" => note(&mut replay.pods, entry),
            "endpointslices" => {
                let slice: EndpointSlice = read(entry.object());
                let by_history = history.has(entry, slice.metadata.uid.as_deref());
                for place in replay.slice(&slice, entry.deleted, by_history) {
                    losses.push(replay.describe(entry, &slice, &place));
                }
            }
            _ => {}
        }
    }
    losses
}

fn read<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("the server has checked its objects")
}

fn note<T: DeserializeOwned + ResourceExt>(past: &mut HashMap<String, Past<T>>, entry: &JournalEntry) {
    let object: T = read(entry.object());
    let past = past.entry(object.uid().unwrap_or_default());
    let past = past.or_insert_with(|| Past {
        versions: Vec::new(),
        gone: false,
    });
    past.versions.push(object);
    past.gone = entry.deleted;
}

/// The pods that a slice holds, if it is one of ours.
fn held(slice: &EndpointSlice) -> BTreeMap<Place, bool> {
    let manager = slice.labels().get(MANAGED_BY).map(String::as_str);
    let is_ours = matches!(manager, Some(OURS | CUSTOM));
    let name = slice.labels().get(SERVICE_NAME);
    let mut owners = slice.owner_references().iter();
    let owner = owners.find(|owner| is_ours && owner.kind == "Service" && Some(&owner.name) == name);
    let (Some(owner), Some(family)) = (owner, Family::from_name(&slice.address_type)) else {
        return BTreeMap::new();
    };
    let endpoints = slice.endpoints.iter().flatten().filter_map(|endpoint| {
        let target = endpoint.target_ref.as_ref()?;
        let conditions = endpoint.conditions.clone().unwrap_or_default();
        let place = Place {
            service: owner.uid.clone(),
            family,
            custom: manager == Some(CUSTOM),
            pod: target.uid.clone()?,
        };
        let ready = conditions.ready == Some(true) && conditions.serving == Some(true);
        Some((place, ready))
    });
    endpoints.collect()
}

// === impl Writes ===

impl Writes {
    /// Notes the answer to a write.
    pub(super) fn note(&mut self, answer: &Value) {
        let metadata = &answer["metadata"];
        let version = metadata["resourceVersion"].as_str();
        self.versions
            .extend(version.and_then(|version| version.parse::<u64>().ok()));
        let deleted = match metadata["deletionTimestamp"].as_str() {
            Some(_) => &metadata["uid"],
            None => &answer["details"]["uid"],
        };
        self.deleted.extend(deleted.as_str().map(str::to_owned));
    }

    fn has(&self, entry: &JournalEntry, uid: Option<&str>) -> bool {
        let deleted = || uid.is_some_and(|uid| self.deleted.contains(uid));
        self.versions.contains(&entry.version()) || (entry.deleted && deleted())
    }
}

// === impl Replay ===

impl Replay {
    fn namespace(&mut self, entry: &JournalEntry) {
        let object = entry.object();
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if entry.deleted || object["metadata"]["deletionTimestamp"].is_string() {
            self.deleted_namespaces.insert(name);
        } else {
            self.deleted_namespaces.remove(&name);
        }
    }

    /// Takes over a write of a slice, and returns what was lost with it.
    fn slice(&mut self, slice: &EndpointSlice, deleted: bool, by_history: bool) -> Vec<Place> {
        let after = if deleted { BTreeMap::new() } else { held(slice) };
        let key = (slice.namespace().unwrap_or_default(), slice.name_any());
        let before = self.slices.insert(key, after.clone()).unwrap_or_default();
        let out = before.into_keys().filter(|place| !after.contains_key(place));
        if by_history {
            self.spared.extend(out);
            return Vec::new();
        }
        for (place, ready) in &after {
            self.spared.remove(place);
            if *ready {
                self.shown.insert(place.clone());
            }
        }
        let namespace = slice.namespace().unwrap_or_default();
        if self.deleted_namespaces.contains(&namespace) {
            return Vec::new();
        }
        out.filter(|place| self.is_lost(place)).collect()
    }

    /// Whether no slice holds the pod, though one should.
    fn is_lost(&self, place: &Place) -> bool {
        let is_held = self.slices.values().any(|slice| slice.contains_key(place));
        let (Some(service), Some(pod)) = (self.services.get(&place.service), self.pods.get(&place.pod))
        else {
            return false;
        };
        if is_held || self.spared.contains(place) || service.gone || pod.gone {
            return false;
        }
        let keeps = |pod: &Pod| {
            let mut services = service.versions.iter();
            services.all(|service| oracle::keeps(service, pod, place.family, place.custom))
        };
        let since = pod.versions.iter().position(keeps);
        let lasting = since.is_some_and(|since| pod.versions[since..].iter().all(keeps));
        lasting && self.shown.contains(place)
    }

    fn describe(&self, entry: &JournalEntry, slice: &EndpointSlice, place: &Place) -> String {
        let pod = &self.pods[&place.pod].versions[0];
        let namespace = slice.namespace().unwrap_or_default();
        format!(
            "{:?}, version {}: slice {namespace}/{} lost pod {} ({}), which no other {} slice of Service {} holds",
            entry.at,
            entry.version(),
            slice.name_any(),
            pod.name_any(),
            place.pod,
            place.family,
            self.services[&place.service].versions[0].name_any(),
        )
    }
}
