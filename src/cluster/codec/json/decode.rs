//! Decodes API objects into facts. The codec is JSON; only this module and `wire` know it.

mod endpoints;
mod observed;
mod slices;

use super::items::ItemSplitter;
use super::wire::{self, BookmarkMeta, Str, StrMap};
use crate::core::address::{Family, parse_sloppy};
use crate::core::excerpt::Excerpt;
use crate::core::facts::{
    ANNOTATION_TOLERATE_UNREADY, Extras, HostName, LABEL_MANAGED_BY, LABEL_ZONE, MANAGED_BY, NodeFacts,
    OwnerReference, PodFacts, ServiceFacts, TolerateUnready,
};
use crate::core::hints::{
    ANNOTATION_TOPOLOGY_AWARE_HINTS, ANNOTATION_TOPOLOGY_MODE, HintMode, LABEL_CONTROL_PLANE, LABEL_MASTER,
    NodeCapacity, milli_cpu,
};
use crate::core::ids::Uid;
use crate::core::labels::Labels;
use crate::core::ports::{ContainerPort, Protocol, ServicePort, SlicePort, TargetPort};
use crate::core::selector::Selector;
use crate::core::time::Time;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::net::IpAddr;
use std::sync::Arc;

/// Annotation of the bookmark after the last object of a list that a watch began with.
const ANNOTATION_LISTED: &str = "k8s.io/initial-events-end";

/// Maximum length of an object's name.
const LONGEST_NAME: usize = 253;

/// Reasons why an object cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The object does not match the schema.
    #[error("{}", malformed(.0))]
    Json(#[from] serde_json::Error),
    /// A required field is missing or malformed.
    #[error("{0} is missing or malformed")]
    Field(&'static str),
}

/// Describes malformed JSON. The library's own message quotes the text, which is of any length, and may be a proxy's;
/// only what was expected is taken from it.
fn malformed(error: &serde_json::Error) -> String {
    let place = format!(
        "malformed JSON at line {}, column {}",
        error.line(),
        error.column()
    );
    let text = error.to_string();
    // In the library's message, the text that was found comes first.
    let expected = text.rsplit_once(", expected ").filter(|_| error.is_data());
    let expected = expected.and_then(|(_, rest)| rest.rsplit_once(" at line "));
    match expected {
        Some((expected, _)) => format!("{place}: {} was expected", Excerpt::value(expected)),
        None => place,
    }
}

/// An object that is left out, since it cannot be decoded. Prints as one line.
#[derive(Debug, thiserror::Error)]
#[error("{}/{}: {error}", Excerpt::new(.namespace, LONGEST_NAME), Excerpt::new(.name, LONGEST_NAME))]
pub struct Undecodable {
    /// The object's namespace; empty if it has none, or not even that can be decoded.
    pub namespace: String,
    /// The object's name; empty if not even that can be decoded.
    pub name: String,
    /// The error.
    pub error: DecodeError,
}

impl Undecodable {
    /// Creates the error for an object of any kind.
    pub fn new(json: &[u8], error: DecodeError) -> Self {
        let named = serde_json::from_slice::<wire::IdentityOnly<'_>>(json);
        let (namespace, name) = named.map_or_else(
            |_| Default::default(),
            |object| {
                (
                    (*object.metadata.namespace).to_owned(),
                    (*object.metadata.name).to_owned(),
                )
            },
        );
        Self {
            namespace,
            name,
            error,
        }
    }
}

/// A type that is decoded from the wire.
pub trait Decode: Sized + Send + 'static {
    /// The wire form.
    type Wire<'a>: Deserialize<'a>;

    /// Cuts the wire form to facts. `namespace` is that of the object.
    fn decode(wire: Self::Wire<'_>) -> Result<Self, DecodeError>;

    /// Returns the resourceVersion in the wire form.
    fn version_of<'w>(wire: &'w Self::Wire<'_>) -> &'w str;
}

/// Facts, and the namespace of their object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Namespaced<T> {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// The facts.
    pub facts: T,
}

/// A node's facts and its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedNode {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// The facts that endpoints depend on.
    pub facts: NodeFacts,
    /// The capacity that the node adds to its zone.
    pub capacity: NodeCapacity,
}

/// Decodes one object.
pub fn object<T: Decode>(json: &[u8]) -> Result<T, DecodeError> {
    T::decode(serde_json::from_slice(json)?)
}

/// Decodes the object that the data begin with. Returns its length too.
fn leading<T: Decode>(data: &[u8]) -> Option<(T, usize)> {
    let mut objects = serde_json::Deserializer::from_slice(data).into_iter::<T::Wire<'_>>();
    let object = T::decode(objects.next()?.ok()?).ok()?;
    Some((object, objects.byte_offset()))
}

/// Decodes a list as it arrives, item by item. An item that cannot be decoded does not affect the others.
#[derive(Debug)]
pub struct ListReader<T> {
    splitter: ItemSplitter,
    /// Decoded items that were not taken yet.
    pub items: Vec<T>,
    /// Items that could not be decoded, and why; not taken yet.
    pub errors: Vec<Undecodable>,
}

/// The metadata of a list, or of a page of one.
#[derive(Debug)]
pub struct ListEnd {
    /// The version that the list shows.
    pub version: String,
    /// The token of the next page; empty on the last one.
    pub next: String,
}

impl<T: Decode> Default for ListReader<T> {
    fn default() -> Self {
        Self {
            splitter: ItemSplitter::default(),
            items: Vec::new(),
            errors: Vec::new(),
        }
    }
}

impl<T: Decode> ListReader<T> {
    /// Adds data, and decodes the items that are complete now.
    pub fn feed(&mut self, data: &[u8]) {
        let Self {
            splitter,
            items,
            errors,
        } = self;
        splitter.feed(data);
        // Most items have arrived whole, and are parsed without a search for their end. One that has not, or that
        // cannot be parsed, is cut out first.
        while let Some(json) = splitter.next_item(|data| {
            let (item, length) = leading(data)?;
            items.push(item);
            Some(length)
        }) {
            match object(&json) {
                Ok(item) => items.push(item),
                Err(error) => errors.push(Undecodable::new(&json, error)),
            }
        }
    }

    /// Takes the items decoded, and the errors found, since this was last called.
    pub fn take(&mut self) -> (Vec<T>, Vec<Undecodable>) {
        (std::mem::take(&mut self.items), std::mem::take(&mut self.errors))
    }

    /// Returns the list's metadata, once all of it has been fed. Fails if it was not a list, or cut off.
    pub fn finish(self) -> Result<ListEnd, DecodeError> {
        let list: wire::List = serde_json::from_slice(&self.splitter.into_envelope())?;
        Ok(ListEnd {
            version: list.metadata.resource_version,
            next: list.metadata.next,
        })
    }
}

/// Parses a resourceVersion. Since 1.35 they may be compared as numbers.
pub fn version(text: &str) -> Result<u64, DecodeError> {
    text.parse()
        .map_err(|_| DecodeError::Field("metadata.resourceVersion"))
}

fn required(text: &Str<'_>, field: &'static str) -> Result<Box<str>, DecodeError> {
    if text.is_empty() {
        Err(DecodeError::Field(field))
    } else {
        Ok((**text).into())
    }
}

fn labels(map: &mut StrMap<'_>) -> Labels {
    Labels::new(&mut map.0)
}

fn set<'s>(text: Option<&'s Str<'_>>) -> Option<&'s str> {
    text.map(|text| &**text).filter(|text| !text.is_empty())
}

/// Returns the named ports of a pod's containers, and of its init containers that keep running.
fn container_ports(spec: &wire::PodSpec<'_>) -> impl Iterator<Item = ContainerPort> {
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|c| c.restart_policy.as_deref() == Some("Always"));
    let containers = spec.containers.iter().flatten().chain(sidecars);
    let ports = containers.flat_map(|c| c.ports.iter().flatten());
    ports.filter_map(|port| {
        Some(ContainerPort {
            name: set(port.name.as_ref())?.into(),
            protocol: Protocol::from(port.protocol.as_deref().unwrap_or_default()),
            number: u16::try_from(port.number).ok()?,
        })
    })
}

impl Decode for Namespaced<PodFacts> {
    type Wire<'a> = wire::Pod<'a>;

    fn decode(mut pod: wire::Pod<'_>) -> Result<Self, DecodeError> {
        let name = required(&pod.metadata.name, "metadata.name")?;
        let namespace = Arc::from(required(&pod.metadata.namespace, "metadata.namespace")?);
        let (mut v4, mut v6) = (None, None);
        let listed = pod.status.pod_ips.iter().flatten().map(|ip| &ip.ip);
        for ip in listed
            .chain(pod.status.pod_ip.iter())
            .filter_map(|ip| parse_sloppy(ip))
        {
            match ip {
                IpAddr::V4(ip) => v4 = v4.or(Some(ip)),
                IpAddr::V6(ip) => v6 = v6.or(Some(ip)),
            }
        }
        let ready = pod
            .status
            .conditions
            .iter()
            .flatten()
            .find(|condition| &*condition.kind == "Ready");
        let spec = &pod.spec;
        let host = set(spec.hostname.as_ref()).zip(set(spec.subdomain.as_ref()));
        let facts = PodFacts {
            name,
            uid: Uid::from(&*pod.metadata.uid),
            node: set(spec.node_name.as_ref()).map(Arc::from),
            v4,
            v6,
            primary: pod
                .status
                .pod_ip
                .as_deref()
                .and_then(parse_sloppy)
                .map(Family::of),
            ports: container_ports(spec).collect(),
            host: host.map(|(hostname, subdomain)| {
                Box::new(HostName {
                    hostname: hostname.into(),
                    subdomain: subdomain.into(),
                })
            }),
            ready: ready.is_some_and(|condition| &*condition.status == "True"),
            terminating: pod.metadata.deletion_timestamp.is_some(),
            terminal: matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed")),
            ready_time: ready.and_then(|condition| Time::parse(condition.last_transition_time.as_deref()?)),
            labels: labels(&mut pod.metadata.labels),
        };
        Ok(Self { namespace, facts })
    }

    fn version_of<'w>(wire: &'w wire::Pod<'_>) -> &'w str {
        &wire.metadata.resource_version
    }
}

impl Decode for NamedNode {
    type Wire<'a> = wire::Node<'a>;

    fn decode(node: wire::Node<'_>) -> Result<Self, DecodeError> {
        let name = Arc::from(required(&node.metadata.name, "metadata.name")?);
        let zone: Option<Arc<str>> = set(node.metadata.labels.get(LABEL_ZONE)).map(Arc::from);
        let (labels, status) = (&node.metadata.labels, &node.status);
        let ready = status
            .conditions
            .iter()
            .flatten()
            .find(|condition| &*condition.kind == "Ready");
        let capacity = NodeCapacity {
            ready: ready.is_some_and(|condition| &*condition.status == "True"),
            excluded: labels.get(LABEL_CONTROL_PLANE).is_some() || labels.get(LABEL_MASTER).is_some(),
            zone: zone.clone(),
            cpu: status.allocatable.get("cpu").and_then(|cpu| milli_cpu(cpu)),
        };
        Ok(Self {
            name,
            facts: NodeFacts { zone },
            capacity,
        })
    }

    fn version_of<'w>(wire: &'w wire::Node<'_>) -> &'w str {
        &wire.metadata.resource_version
    }
}

impl Decode for Namespaced<ServiceFacts> {
    type Wire<'a> = wire::Service<'a>;

    fn decode(mut service: wire::Service<'_>) -> Result<Self, DecodeError> {
        let (meta, spec) = (&mut service.metadata, &mut service.spec);
        let namespace = Arc::from(required(&meta.namespace, "metadata.namespace")?);
        let selector = match spec.kind.as_deref() {
            Some("ExternalName") => None,
            _ => Selector::new(labels(&mut spec.selector)),
        };
        let cluster_ip = set(spec.cluster_ip.as_ref());
        let listed = || {
            let families = spec.ip_families.iter().flatten();
            families.filter_map(|family| Family::parse(family))
        };
        let mut families = [false; 2];
        for family in listed() {
            families[family.index()] = true;
        }
        let endpoints_family = listed()
            .next()
            .or_else(|| cluster_ip.and_then(parse_sloppy).map(Family::of));
        if families == [false; 2] {
            // Services from before the field: derive it from the cluster IP, or assume both families if there is none.
            match cluster_ip.and_then(parse_sloppy) {
                Some(ip) => families[Family::of(ip).index()] = true,
                None => families = [true; 2],
            }
        }
        let annotation = |key| meta.annotations.get(key).map(|value| &**value);
        let ports = spec
            .ports
            .iter()
            .flatten()
            .map(service_port)
            .collect::<Result<_, _>>()?;
        let facts = ServiceFacts {
            name: Arc::from(required(&meta.name, "metadata.name")?),
            uid: Uid::from(&*meta.uid),
            created: meta.creation_timestamp.as_deref().and_then(Time::parse),
            deleting: meta.deletion_timestamp.is_some(),
            selector,
            headless: cluster_ip.is_none_or(|ip| ip == "None"),
            no_cluster_ip: cluster_ip == Some("None"),
            families,
            endpoints_family,
            ports,
            publish_not_ready: spec.publish_not_ready_addresses.unwrap_or_default(),
            tolerate_unready: annotation(ANNOTATION_TOLERATE_UNREADY)
                .map_or(TolerateUnready::Unset, TolerateUnready::from),
            hints: HintMode::of(
                annotation(ANNOTATION_TOPOLOGY_AWARE_HINTS),
                annotation(ANNOTATION_TOPOLOGY_MODE),
                spec.traffic_distribution.as_deref(),
            ),
            labels: labels(&mut meta.labels),
        };
        Ok(Self { namespace, facts })
    }

    fn version_of<'w>(wire: &'w wire::Service<'_>) -> &'w str {
        &wire.metadata.resource_version
    }
}

fn service_port(port: &wire::ServicePort<'_>) -> Result<ServicePort, DecodeError> {
    let number = |number: i64| u16::try_from(number).map_err(|_| DecodeError::Field("spec.ports"));
    let target = match &port.target_port {
        None | Some(wire::IntOrString::Int(0)) => TargetPort::Number(number(port.port)?),
        Some(wire::IntOrString::Int(target)) => TargetPort::Number(number(*target)?),
        Some(wire::IntOrString::String(name)) if name.is_empty() => TargetPort::Number(number(port.port)?),
        Some(wire::IntOrString::String(name)) => TargetPort::Name((**name).into()),
    };
    Ok(ServicePort {
        name: port.name.as_deref().unwrap_or_default().into(),
        protocol: Protocol::from(port.protocol.as_deref().unwrap_or_default()),
        target,
        app_protocol: port.app_protocol.as_deref().map(Into::into),
    })
}

/// Returns whether a slice is managed by this controller, by its managed-by label.
pub fn is_ours(json: &[u8]) -> Result<bool, DecodeError> {
    let object: wire::MetaOnly<'_> = serde_json::from_slice(json)?;
    Ok(object
        .metadata
        .labels
        .get(LABEL_MANAGED_BY)
        .is_some_and(|by| &**by == MANAGED_BY))
}

fn slice_port(port: &wire::SlicePort<'_>) -> SlicePort {
    SlicePort {
        name: port.name.as_deref().map(Into::into),
        protocol: Protocol::from(port.protocol.as_deref().unwrap_or_default()),
        number: port.port.and_then(|number| u16::try_from(number).ok()),
        app_protocol: port.app_protocol.as_deref().map(Into::into),
    }
}

/// Collects the metadata to preserve: `generateName`, finalizers, and all other owners and annotations than those
/// given.
fn extras(wire: &wire::Meta<'_>, owner: Option<&str>, without: &[&str]) -> Extras {
    let annotations = wire
        .annotations
        .0
        .iter()
        .filter(|(key, _)| !without.contains(&&**key));
    let others = wire
        .owner_references
        .iter()
        .flatten()
        .filter(|o| Some(&*o.uid) != owner);
    Extras {
        generate_name: set(wire.generate_name.as_ref()).map(Into::into),
        annotations: annotations
            .map(|(key, value)| ((**key).into(), (**value).into()))
            .collect(),
        owners: others
            .map(|owner| OwnerReference {
                api_version: (*owner.api_version).into(),
                kind: (*owner.kind).into(),
                name: (*owner.name).into(),
                uid: (*owner.uid).into(),
                controller: owner.controller,
                block_owner_deletion: owner.block_owner_deletion,
            })
            .collect(),
        finalizers: wire
            .finalizers
            .iter()
            .flatten()
            .map(|name| (**name).into())
            .collect(),
    }
}

/// Returns an IP in canonical form, and any other text unchanged.
fn canonical(text: &str) -> Box<str> {
    parse_sloppy(text).map_or_else(|| text.into(), |ip| ip.to_string().into())
}

/// Returns a reference if it is a plain one to a pod of the namespace.
fn plain_pod<'r, 'a>(
    target: Option<&'r wire::TargetRef<'a>>,
    namespace: &str,
) -> Option<&'r wire::TargetRef<'a>> {
    target.filter(|target| {
        &*target.kind == "Pod"
            && &*target.namespace == namespace
            && set(target.api_version.as_ref()).is_none()
            && set(target.field_path.as_ref()).is_none()
    })
}

/// An event of a watch, not yet decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event<'a> {
    /// The event's type.
    pub kind: EventKind,
    /// The object's JSON.
    pub object: &'a [u8],
}

/// Types of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// `ADDED` or `MODIFIED`.
    Applied,
    /// `DELETED`.
    Deleted,
    /// `BOOKMARK`.
    Bookmark,
    /// `ERROR`: the object is a `Status`.
    Error,
}

/// A line of a watch in another spelling than that of API servers.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Str<'a>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// Splits a line of a watch without parsing the object.
pub fn event(line: &[u8]) -> Result<Event<'_>, DecodeError> {
    // The server writes the type first; then the object needs to be read only once.
    for (head, kind) in [
        (&br#"{"type":"MODIFIED","object":"#[..], EventKind::Applied),
        (br#"{"type":"ADDED","object":"#, EventKind::Applied),
        (br#"{"type":"DELETED","object":"#, EventKind::Deleted),
        (br#"{"type":"BOOKMARK","object":"#, EventKind::Bookmark),
        (br#"{"type":"ERROR","object":"#, EventKind::Error),
    ] {
        if let Some(object) = line.strip_prefix(head).and_then(|rest| rest.strip_suffix(b"}")) {
            return Ok(Event { kind, object });
        }
    }
    let line: Line<'_> = serde_json::from_slice(line)?;
    let kind = match &*line.kind {
        "ADDED" | "MODIFIED" => EventKind::Applied,
        "DELETED" => EventKind::Deleted,
        "BOOKMARK" => EventKind::Bookmark,
        "ERROR" => EventKind::Error,
        _ => return Err(DecodeError::Field("type")),
    };
    Ok(Event {
        kind,
        object: line.object.get().as_bytes(),
    })
}

/// Returns the version of a bookmark, and whether it ends the list that a watch began with.
pub fn bookmark(json: &[u8]) -> Result<(String, bool), DecodeError> {
    let bookmark: wire::Bookmark<'_> = serde_json::from_slice(json)?;
    let BookmarkMeta {
        resource_version,
        annotations,
    } = bookmark.metadata;
    let listed = annotations
        .get(ANNOTATION_LISTED)
        .is_some_and(|value| **value == *"true");
    Ok((resource_version.to_string(), listed))
}

/// Returns the version that a list shows.
pub fn list_version(json: &[u8]) -> Result<u64, DecodeError> {
    let list: wire::List = serde_json::from_slice(json)?;
    version(&list.metadata.resource_version)
}

/// Returns the resourceVersion of an object of any kind.
pub fn object_version(json: &[u8]) -> Result<String, DecodeError> {
    let object: wire::IdentityOnly<'_> = serde_json::from_slice(json)?;
    Ok(object.metadata.resource_version.to_string())
}

/// The identity of an object, as the answer to a request shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// `kind`, which is `PartialObjectMetadata` where only that was asked for.
    pub kind: Box<str>,
    /// `metadata.namespace`.
    pub namespace: Box<str>,
    /// `metadata.name`.
    pub name: Box<str>,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`, if it is a number.
    pub version: Option<u64>,
}

/// Returns the identity of an object of any kind.
pub fn identity(json: &[u8]) -> Result<Identity, DecodeError> {
    let object: wire::KindAndMeta<'_> = serde_json::from_slice(json)?;
    let meta = &object.metadata;
    Ok(Identity {
        kind: (*object.kind).into(),
        namespace: (*meta.namespace).into(),
        name: (*meta.name).into(),
        uid: Uid::from(&*meta.uid),
        version: version(&meta.resource_version).ok(),
    })
}

/// Decodes an object and its resourceVersion.
pub fn versioned<T: Decode>(json: &[u8]) -> Result<(T, String), DecodeError> {
    let wire: T::Wire<'_> = serde_json::from_slice(json)?;
    let version = T::version_of(&wire).to_owned();
    Ok((T::decode(wire)?, version))
}

/// Returns the sentence with which an API server refuses a request at an early stage (429 by its limit of requests in
/// flight), if the body is just that.
fn plain_refusal(body: &[u8]) -> Option<&'static str> {
    const BUSY: &str = "Too many requests, please try again later.";
    (body.trim_ascii() == BUSY.as_bytes()).then_some(BUSY)
}

/// Decodes a `Status`, and cuts its texts to a line each. Nothing is kept of any other body: a proxy that answers in
/// the server's place may quote the request with its credentials.
pub fn status(code: u16, body: &[u8]) -> wire::Status {
    let mut status = serde_json::from_slice::<wire::Status>(body)
        .ok()
        .filter(|status| status.kind == "Status")
        .unwrap_or_else(|| wire::Status {
            message: plain_refusal(body)
                .unwrap_or("the answer is not the API server's")
                .to_owned(),
            ..wire::Status::default()
        });
    status.reason = Excerpt::value(&status.reason).to_string();
    status.message = Excerpt::sentence(&status.message).to_string();
    if status.code == 0 {
        status.code = code;
    }
    status
}
