//! Pods: the fields that are read, and how they become facts.

use super::decode::{Decode, DecodeError, DecodedPair, Namespaced, required, set};
use super::fields::{Condition, Str, StrMap, Timestamp};
use super::message::message;
use crate::core::address::{Family, parse_sloppy};
use crate::core::excerpt::Excerpt;
use crate::core::facts::observed::ObservedPod;
use crate::core::facts::{HostName, PodFacts};
use crate::core::ids::Uid;
use crate::core::ports::{self, Protocol};
use std::net::IpAddr;
use std::sync::Arc;

/// A pod. Its metadata is cut down by hand: annotations and owners can be large and are not needed.
#[derive(Debug, Default)]
pub struct Pod<'a> {
    metadata: PodMeta<'a>,
    spec: PodSpec<'a>,
    status: PodStatus<'a>,
}

message!('a, Pod<'a> { 1 => metadata, 2 => spec, 3 => status });

#[derive(Debug, Default)]
struct PodMeta<'a> {
    name: Str<'a>,
    namespace: Str<'a>,
    uid: Str<'a>,
    resource_version: Str<'a>,
    labels: StrMap<'a>,
    deletion_timestamp: Option<Timestamp>,
}

message!('a, PodMeta<'a> {
    1 => name, 3 => namespace, 5 => uid, 6 => resource_version, 9 => deletion_timestamp, 11 => labels,
});

#[derive(Debug, Default)]
struct PodSpec<'a> {
    node_name: Option<Str<'a>>,
    hostname: Option<Str<'a>>,
    subdomain: Option<Str<'a>>,
    containers: Vec<Container<'a>>,
    init_containers: Vec<Container<'a>>,
}

message!('a, PodSpec<'a> {
    2 => containers, 10 => node_name, 16 => hostname, 17 => subdomain, 20 => init_containers,
});

#[derive(Debug, Default)]
struct Container<'a> {
    ports: Vec<ContainerPort<'a>>,
    restart_policy: Option<Str<'a>>,
}

message!('a, Container<'a> { 6 => ports, 24 => restart_policy });

#[derive(Debug, Default)]
struct ContainerPort<'a> {
    name: Option<Str<'a>>,
    number: i64,
    protocol: Option<Str<'a>>,
}

message!('a, ContainerPort<'a> { 1 => name, 3 => number, 4 => protocol });

#[derive(Debug, Default)]
struct PodStatus<'a> {
    phase: Option<Str<'a>>,
    pod_ip: Option<Str<'a>>,
    pod_ips: Vec<PodIp<'a>>,
    conditions: Vec<Condition<'a>>,
}

message!('a, PodStatus<'a> { 1 => phase, 2 => conditions, 6 => pod_ip, 12 => pod_ips });

#[derive(Debug, Default)]
struct PodIp<'a> {
    ip: Str<'a>,
}

message!('a, PodIp<'a> { 1 => ip });

/// Returns the named ports of a pod's containers, and of its init containers that keep running.
fn container_ports(spec: &PodSpec<'_>) -> impl Iterator<Item = ports::ContainerPort> {
    let sidecars = spec.init_containers.iter();
    let sidecars = sidecars.filter(|c| c.restart_policy.as_deref() == Some("Always"));
    let containers = spec.containers.iter().chain(sidecars);
    let ports = containers.flat_map(|c| &c.ports);
    ports.filter_map(|port| {
        Some(ports::ContainerPort {
            name: set(port.name.as_ref())?.into(),
            protocol: Protocol::from(port.protocol.as_deref().unwrap_or_default()),
            number: u16::try_from(port.number).ok()?,
        })
    })
}

impl Decode for Namespaced<PodFacts> {
    type Wire<'a> = Pod<'a>;

    fn decode(mut pod: Pod<'_>) -> Result<Self, DecodeError> {
        let name = required(&pod.metadata.name, "metadata.name")?;
        let namespace = Arc::from(required(&pod.metadata.namespace, "metadata.namespace")?);
        let (mut v4, mut v6) = (None, None);
        let listed = pod.status.pod_ips.iter().map(|ip| &ip.ip);
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
            .find(|condition| condition.kind.is("Ready"));
        let spec = &pod.spec;
        let subdomain = set(spec.subdomain.as_ref()).unwrap_or_default();
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
            host: set(spec.hostname.as_ref()).map(|hostname| {
                Box::new(HostName {
                    hostname: hostname.into(),
                    subdomain: subdomain.into(),
                })
            }),
            ready: ready.is_some_and(|condition| condition.status.is("True")),
            terminating: pod.metadata.deletion_timestamp.is_some(),
            terminal: matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed")),
            ready_time: ready.and_then(|condition| condition.last_transition_time?.time()),
            labels: pod.metadata.labels.labels(),
        };
        Ok(Self { namespace, facts })
    }

    fn version_of<'w>(wire: &'w Pod<'_>) -> &'w str {
        &wire.metadata.resource_version
    }
}

/// The fields that explain a pod's state.
#[derive(Debug, Default)]
pub struct PodNotes<'a> {
    spec: SpecNotes<'a>,
    status: StatusNotes<'a>,
}

message!('a, PodNotes<'a> { 2 => spec, 3 => status });

#[derive(Debug, Default)]
struct SpecNotes<'a> {
    readiness_gates: Vec<GateNotes<'a>>,
}

message!('a, SpecNotes<'a> { 28 => readiness_gates });

#[derive(Debug, Default)]
struct GateNotes<'a> {
    condition_type: Str<'a>,
}

message!('a, GateNotes<'a> { 1 => condition_type });

#[derive(Debug, Default)]
struct StatusNotes<'a> {
    phase: Option<Str<'a>>,
    reason: Option<Str<'a>>,
    conditions: Vec<ConditionNotes<'a>>,
}

message!('a, StatusNotes<'a> { 1 => phase, 2 => conditions, 4 => reason });

#[derive(Debug, Default)]
struct ConditionNotes<'a> {
    kind: Str<'a>,
    status: Str<'a>,
    reason: Option<Str<'a>>,
    message: Option<Str<'a>>,
}

message!('a, ConditionNotes<'a> { 1 => kind, 2 => status, 5 => reason, 6 => message });

/// Returns a text of a pod's status in a form that a terminal can show: any client that may write the status chooses
/// the text.
fn printable(text: &str) -> Box<str> {
    Excerpt::sentence(text).to_string().into()
}

impl Decode for Namespaced<ObservedPod> {
    type Wire<'a> = DecodedPair<Pod<'a>, PodNotes<'a>>;

    fn decode(DecodedPair(pod, notes): Self::Wire<'_>) -> Result<Self, DecodeError> {
        let Namespaced { namespace, facts } = Namespaced::<PodFacts>::decode(pod)?;
        let status = notes.status;
        // An unscheduled pod is not ready either, and the former condition says more.
        let unmet = |kind: &str| {
            let conditions = status.conditions.iter();
            let mut conditions = conditions.filter(|c| &*c.kind == kind && &*c.status != "True");
            conditions.next()
        };
        let holds = |kind: &str| {
            let mut conditions = status.conditions.iter();
            conditions.any(|c| &*c.kind == kind && &*c.status == "True")
        };
        let gates = notes.spec.readiness_gates.iter();
        let gates = gates.map(|gate| &*gate.condition_type);
        let condition = unmet("PodScheduled").or_else(|| unmet("Ready"));
        let told = condition.map(|condition| {
            let parts = [set(condition.reason.as_ref()), set(condition.message.as_ref())];
            parts.into_iter().flatten().collect::<Vec<_>>().join(": ")
        });
        let seen = ObservedPod {
            facts,
            phase: printable(set(status.phase.as_ref()).unwrap_or("Unknown")),
            reason: set(status.reason.as_ref()).map(printable),
            told: told.filter(|told| !told.is_empty()).map(|told| printable(&told)),
            containers_ready: holds("ContainersReady"),
            unmet_gates: gates.filter(|gate| !holds(gate)).map(printable).collect(),
        };
        Ok(Self {
            namespace,
            facts: seen,
        })
    }

    fn version_of<'w>(DecodedPair(pod, _): &'w Self::Wire<'_>) -> &'w str {
        Namespaced::<PodFacts>::version_of(pod)
    }
}
