//! Describes in plain words how a stored object differs from the one that would be written.

mod endpoints;
mod slices;

pub(super) use slices::hints;

use super::desired::{Desired, Due};
use super::published::Around;
use crate::core::facts::ObjectReference;
use crate::core::hash::KeyedMap;
use crate::core::ids::Uid;
use crate::core::namespace::NamespaceState;
use crate::core::object::Output;
use crate::core::ports::SlicePort;
use crate::core::slices::Conditions;
use crate::core::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// One difference between a stored object and the desired one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Difference {
    /// The severity, by which differences are sorted.
    pub rank: Rank,
    /// The description.
    pub text: String,
    /// The pod that it is about, if any.
    pub pod: Option<Box<str>>,
    /// Where the text begins to say what is stored and what should be, if it is about a field of an endpoint.
    pub(super) field: Option<usize>,
}

/// The kind of a difference, most severe first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rank {
    /// The object should not exist, or is missing.
    Object,
    /// An endpoint should not be there, and traffic to it is lost.
    Extra,
    /// An endpoint is missing.
    Missing,
    /// A field of an endpoint is wrong.
    Endpoint,
    /// The ports differ.
    Port,
    /// Labels or annotations differ.
    Metadata,
}

/// An object, flattened.
#[derive(Default)]
struct Flat<'a> {
    endpoints: Vec<Endpoint<'a>>,
    ports: BTreeSet<&'a SlicePort>,
    /// The ports of the endpoints that have ports of their own.
    groups: Vec<BTreeSet<&'a SlicePort>>,
    /// The labels that are a reason to write.
    labels: BTreeMap<&'a str, &'a str>,
    /// The annotations. Values may be 256 KiB, so only the keys are named.
    annotations: BTreeMap<&'a str, &'a str>,
}

/// What an object says of one endpoint.
struct Endpoint<'a> {
    name: String,
    pod: Option<&'a str>,
    /// A stored and a desired endpoint are the same if they have the first key in common, or else the second, or else the
    /// third.
    keys: [Option<String>; 3],
    /// The same fields in the same order for each endpoint of a kind of object.
    fields: Vec<(&'static str, Option<String>)>,
    /// The index of its ports in `groups`.
    group: usize,
}

/// An endpoint of which more ports than this differ is reported once.
const MANY_PORTS: usize = 32;

/// Returns why an object is to be created, updated or deleted.
pub(super) fn of(due: &Due, core: &NamespaceState, around: &Around<'_>) -> Vec<Difference> {
    let (namespace, service) = (core.namespace(), core.service(&due.service));
    let stored = around.slice(&due.object.name);
    let is_mirrored = due.object.output == Output::Mirrored;
    let mut found = Found::default();
    match (&due.desired, stored, around.endpoints) {
        (Some(Desired::Endpoints(wanted)), _, None) => endpoints::absent(&mut found, wanted, namespace),
        (Some(Desired::Endpoints(wanted)), _, Some(stored)) => {
            endpoints::changed(&mut found, stored, wanted, namespace);
        }
        (None, ..) if due.object.output == Output::Endpoints => found.add(
            Rank::Object,
            "left over: no such Service; a controller deletes it when it starts",
        ),
        (Some(Desired::Slice(wanted)), Some(stored), _) => {
            slices::changed(&mut found, stored, wanted, namespace, around);
        }
        (Some(Desired::Slice(wanted)), None, _) if is_mirrored => slices::not_mirrored(&mut found, wanted),
        (Some(Desired::Slice(wanted)), None, _) => slices::absent(&mut found, wanted, around),
        (None, Some(stored), _) if is_mirrored => slices::mirrored_for_nothing(&mut found, stored, core),
        (None, Some(stored), _) => slices::superfluous(&mut found, stored, service, around),
        (None, None, _) => {}
    }
    if found.0.is_empty() {
        found.add(Rank::Metadata, "would be written anew");
    }
    found.0.sort();
    found.0.dedup();
    found.0
}

/// Collects differences.
#[derive(Debug, Default)]
struct Found(Vec<Difference>);

impl Found {
    fn add(&mut self, rank: Rank, text: impl Into<String>) {
        self.about(rank, None, text);
    }

    fn about(&mut self, rank: Rank, pod: Option<&str>, text: impl Into<String>) {
        self.0.push(Difference {
            rank,
            text: text.into(),
            pod: pod.map(Into::into),
            field: None,
        });
    }

    /// Adds what differs between two objects. `elsewhere` names another object that has an endpoint.
    fn compare<'n>(
        &mut self,
        stored: &Flat<'_>,
        desired: &Flat<'_>,
        elsewhere: impl Fn(&Endpoint<'_>) -> Option<&'n str>,
    ) {
        let mut left: Vec<_> = stored.endpoints.iter().map(Some).collect();
        let mut missing: Vec<_> = desired.endpoints.iter().collect();
        // Endpoints of one template have the same ports.
        let mut ports = KeyedMap::default();
        for level in 0..3 {
            let mut by_key: KeyedMap<&str, Vec<usize>> = KeyedMap::default();
            for (at, endpoint) in left.iter().enumerate().rev() {
                if let Some(key) = endpoint.and_then(|endpoint| endpoint.keys[level].as_deref()) {
                    by_key.entry(key).or_default().push(at);
                }
            }
            missing.retain(|wanted| {
                let key = wanted.keys[level].as_deref();
                let at = key.and_then(|key| by_key.get_mut(key)?.pop());
                let Some(there) = at.and_then(|at| left[at].take()) else {
                    return true;
                };
                self.fields(there, wanted);
                let (is, should) = ports
                    .entry((there.group, wanted.group))
                    .or_insert_with(|| own_ports(stored, desired, there.group, wanted.group));
                let of = format!("{}: ", wanted.name);
                if is.symmetric_difference(should).nth(MANY_PORTS).is_some() {
                    let text = format!("{of}many of its ports differ");
                    self.about(Rank::Port, wanted.pod, text);
                } else {
                    self.ports(is, should, &of, wanted.pod);
                }
                false
            });
        }
        for wanted in missing {
            self.about(Rank::Missing, wanted.pod, format!("{} is missing", wanted.name));
        }
        for extra in left.into_iter().flatten() {
            let text = match elsewhere(extra) {
                Some(other) => format!("{} is in {other} too", extra.name),
                None => format!("{} should not be there", extra.name),
            };
            self.about(Rank::Extra, extra.pod, text);
        }
        self.ports(&stored.ports, &desired.ports, "", None);
        self.metadata("label", &stored.labels, &desired.labels);
        self.metadata("annotation", &stored.annotations, &desired.annotations);
    }

    /// Adds the fields of an endpoint that differ.
    fn fields(&mut self, stored: &Endpoint<'_>, desired: &Endpoint<'_>) {
        let both = stored.fields.iter().zip(&desired.fields);
        let both = both.filter(|(is, should)| is != should);
        let mut differ: Vec<_> = both
            .map(|((what, is), (_, should))| (*what, is, should))
            .collect();
        // The two are mostly wrong together, and then reported as one.
        if let [("ready", is, should), ("serving", serves, should_serve), ..] = differ[..]
            && (is, should) == (serves, should_serve)
        {
            differ.splice(..2, [("ready and serving", is, should)]);
        }
        for (what, is, should) in differ {
            let is = is.as_deref().unwrap_or("not set");
            let should = should.as_ref();
            let should = should.map_or_else(|| "not be set".to_owned(), |should| format!("be {should}"));
            self.0.push(Difference {
                // Traffic to a wrong address is lost.
                rank: if what == "address" {
                    Rank::Extra
                } else {
                    Rank::Endpoint
                },
                text: format!("{}: {what} {is}, should {should}", desired.name),
                pod: desired.pod.map(Into::into),
                field: Some(desired.name.len() + 2),
            });
        }
    }

    /// Adds labels or annotations that differ.
    fn metadata(&mut self, what: &str, stored: &BTreeMap<&str, &str>, desired: &BTreeMap<&str, &str>) {
        let shown = what == "label";
        for (key, value) in desired {
            let text = match stored.get(key) {
                None if shown => format!("{what} {key}={value} is missing"),
                None => format!("{what} {key} is missing"),
                Some(other) if other == value => continue,
                Some(other) if shown => format!("{what} {key} differs: {other}, should be {value}"),
                Some(_) => format!("{what} {key} differs"),
            };
            self.add(Rank::Metadata, text);
        }
        for key in stored.keys().filter(|key| !desired.contains_key(*key)) {
            self.add(Rank::Metadata, format!("{what} {key} should not be there"));
        }
    }

    /// Adds ports that differ; `of` names their owner, if that is not the whole object.
    fn ports(
        &mut self,
        stored: &BTreeSet<&SlicePort>,
        desired: &BTreeSet<&SlicePort>,
        of: &str,
        pod: Option<&str>,
    ) {
        // One with the same name as a port that is missing stands in its place.
        let extra = stored.difference(desired);
        let mut extra: BTreeMap<_, _> = extra.map(|port| (&port.name, *port)).collect();
        for port in desired.difference(stored) {
            let text = match extra.remove(&port.name) {
                Some(other) => format!("{of}port {} should be {}", spelled(other), spelled(port)),
                None => format!("{of}port {} is missing", spelled(port)),
            };
            self.about(Rank::Port, pod, text);
        }
        for port in extra.into_values() {
            let text = format!("{of}port {} should not be there", spelled(port));
            self.about(Rank::Port, pod, text);
        }
    }
}

/// Returns the ports of a stored and of a desired endpoint, of those that both objects have: the others are reported once.
fn own_ports<'a>(
    stored: &Flat<'a>,
    desired: &Flat<'a>,
    is: usize,
    should: usize,
) -> (BTreeSet<&'a SlicePort>, BTreeSet<&'a SlicePort>) {
    let of = |flat: &Flat<'a>, group: usize, other: &Flat<'a>| {
        let ports = flat.groups.get(group).into_iter().flatten();
        ports
            .filter(|port| other.ports.contains(*port))
            .copied()
            .collect()
    };
    (of(stored, is, desired), of(desired, should, stored))
}

/// Formats what an endpoint refers to, as `Pod shop/web-1` and the UID.
fn referred(target: &ObjectReference) -> String {
    let name = format!("{}/{}", target.namespace, target.name);
    let rest = [&target.api_version, &target.resource_version, &target.field_path];
    let all = [&target.kind, &*name, &target.uid]
        .into_iter()
        .chain(rest.map(|text| &**text));
    all.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Returns a text, unless it is empty, which is the same as unset.
fn set(text: Option<&str>) -> Option<String> {
    text.filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Formats an address as `10.0.0.5 (pod web-1)`.
fn addressed(address: &str, pod: Option<&str>) -> String {
    match pod {
        Some(pod) => format!("{address} (pod {pod})"),
        None => address.to_owned(),
    }
}

/// Formats a port as `http 8080/TCP`.
pub(super) fn spelled(port: &SlicePort) -> String {
    let mut text = String::new();
    if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
        let _ = write!(text, "{name} ");
    }
    match port.number {
        Some(number) => {
            let _ = write!(text, "{number}/{}", port.protocol.as_str());
        }
        None => {
            let _ = write!(text, "any/{}", port.protocol.as_str());
        }
    }
    if let Some(app) = &port.app_protocol {
        let _ = write!(text, " ({app})");
    }
    text
}

/// The state in which a pod was seen: what its endpoints depend on, and since when it has been ready or not. Two findings
/// about a pod are the same only if its state was the same too.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PodState(Uid, Conditions, Option<Time>);

impl PodState {
    /// Captures the state of a pod, if there is such a pod.
    pub(super) fn of(core: &NamespaceState, pod: &str) -> Option<Self> {
        let (uid, conditions, ready_time) = core.pod(pod)?;
        Some(Self(uid.clone(), conditions, ready_time))
    }
}
