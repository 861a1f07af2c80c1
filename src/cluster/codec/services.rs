//! Services: the fields that are read, and how they become facts.

use super::decode::{Decode, DecodeError, DecodedPair, Namespaced, required, set};
use super::fields::{Meta, Str, StrMap, Timestamp};
use super::message::message;
use crate::core::address::{Family, parse_sloppy};
use crate::core::facts::observed::ObservedService;
use crate::core::facts::{
    ANNOTATION_PREFIX, ANNOTATION_SELECTOR, ANNOTATION_TOLERATE_UNREADY, AnnotatedSelector, ServiceFacts,
    TolerateUnready, UnknownAnnotations,
};
use crate::core::hints::{ANNOTATION_TOPOLOGY_AWARE_HINTS, ANNOTATION_TOPOLOGY_MODE, HintMode};
use crate::core::ids::Uid;
use crate::core::ports::{self, Protocol, TargetPort};
use crate::core::selector::Selector;
use std::sync::Arc;

/// A Service.
#[derive(Debug, Default)]
pub struct Service<'a> {
    metadata: Meta<'a>,
    spec: ServiceSpec<'a>,
}

message!('a, Service<'a> { 1 => metadata, 2 => spec });

#[derive(Debug, Default)]
struct ServiceSpec<'a> {
    kind: Option<Str<'a>>,
    cluster_ip: Option<Str<'a>>,
    ip_families: Vec<Str<'a>>,
    selector: StrMap<'a>,
    ports: Vec<ServicePort<'a>>,
    publish_not_ready_addresses: Option<bool>,
    traffic_distribution: Option<Str<'a>>,
}

message!('a, ServiceSpec<'a> {
    1 => ports, 2 => selector, 3 => cluster_ip, 4 => kind, 13 => publish_not_ready_addresses, 19 => ip_families,
    23 => traffic_distribution,
});

#[derive(Debug, Default)]
struct ServicePort<'a> {
    name: Option<Str<'a>>,
    protocol: Option<Str<'a>>,
    port: i64,
    target_port: Option<IntOrString<'a>>,
    app_protocol: Option<Str<'a>>,
}

message!('a, ServicePort<'a> { 1 => name, 2 => protocol, 3 => port, 4 => target_port, 6 => app_protocol });

/// A port's number or name (`IntOrString`).
#[derive(Debug, Default)]
struct IntOrString<'a> {
    /// 1 if it is a text.
    kind: i64,
    number: i64,
    text: Str<'a>,
}

message!('a, IntOrString<'a> { 1 => kind, 2 => number, 3 => text });

/// The finalizer of an object that is deleted in the foreground: the garbage collector deletes what it owns first.
const FOREGROUND_DELETION: &str = "foregroundDeletion";

impl Decode for Namespaced<ServiceFacts> {
    type Wire<'a> = Service<'a>;

    fn decode(mut service: Service<'_>) -> Result<Self, DecodeError> {
        let (meta, spec) = (&mut service.metadata, &mut service.spec);
        let namespace = Arc::from(required(&meta.namespace, "metadata.namespace")?);
        let external = spec.kind.as_deref() == Some("ExternalName");
        let selector = Selector::new(spec.selector.labels()).filter(|_| !external);
        let cluster_ip = set(spec.cluster_ip.as_ref());
        let listed = || {
            let families = spec.ip_families.iter();
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
            // Services from before the field: derive it from the cluster IP, if there is one.
            if let Some(ip) = cluster_ip.and_then(parse_sloppy) {
                families[Family::of(ip).index()] = true;
            }
        }
        let annotation = |key| meta.annotations.get(key);
        let ports = spec.ports.iter().map(service_port).collect::<Result<_, _>>()?;
        let facts = ServiceFacts {
            name: Arc::from(required(&meta.name, "metadata.name")?),
            uid: Uid::from(&*meta.uid),
            created: meta.creation_timestamp.and_then(Timestamp::time),
            deleting: meta.deletion_timestamp.is_some(),
            foreground: meta.deletion_timestamp.is_some()
                && meta
                    .finalizers
                    .iter()
                    .any(|finalizer| **finalizer == *FOREGROUND_DELETION),
            external,
            selectorless: selector.is_none() && !external,
            selector,
            annotated: annotation(ANNOTATION_SELECTOR).map(|text| Box::new(AnnotatedSelector::from(&*text))),
            unknown_annotations: UnknownAnnotations::among(meta.annotations.keys_with(ANNOTATION_PREFIX)),
            custom: false,
            headless: cluster_ip.is_none_or(|ip| ip == "None"),
            no_cluster_ip: cluster_ip == Some("None"),
            families,
            endpoints_family,
            ports,
            publish_not_ready: spec.publish_not_ready_addresses.unwrap_or_default(),
            tolerate_unready: annotation(ANNOTATION_TOLERATE_UNREADY)
                .map_or(TolerateUnready::Unset, |text| TolerateUnready::from(&*text)),
            hints: HintMode::of(
                annotation(ANNOTATION_TOPOLOGY_AWARE_HINTS).as_deref(),
                annotation(ANNOTATION_TOPOLOGY_MODE).as_deref(),
                spec.traffic_distribution.as_deref(),
            ),
            labels: meta.labels.labels(),
        };
        Ok(Self { namespace, facts })
    }

    fn version_of<'w>(wire: &'w Service<'_>) -> &'w str {
        &wire.metadata.resource_version
    }
}

fn service_port(port: &ServicePort<'_>) -> Result<ports::ServicePort, DecodeError> {
    let number = |number: i64| u16::try_from(number).map_err(|_| DecodeError::Field("spec.ports"));
    let target = match &port.target_port {
        Some(target) if target.kind == 1 && !target.text.is_empty() => {
            TargetPort::Name((*target.text).into())
        }
        Some(target) if target.kind == 0 && target.number != 0 => TargetPort::Number(number(target.number)?),
        _ => TargetPort::Number(number(port.port)?),
    };
    Ok(ports::ServicePort {
        name: port.name.as_deref().unwrap_or_default().into(),
        protocol: Protocol::from(port.protocol.as_deref().unwrap_or_default()),
        target,
        app_protocol: port.app_protocol.as_deref().map(Into::into),
    })
}

/// The fields that describe a Service.
#[derive(Debug, Default)]
pub struct ServiceNotes<'a> {
    spec: SpecNotes<'a>,
}

message!('a, ServiceNotes<'a> { 2 => spec });

#[derive(Debug, Default)]
struct SpecNotes<'a> {
    kind: Option<Str<'a>>,
    external_name: Option<Str<'a>>,
    selector: StrMap<'a>,
    ports: Vec<PortNotes>,
}

message!('a, SpecNotes<'a> { 1 => ports, 2 => selector, 4 => kind, 10 => external_name });

#[derive(Debug, Default)]
struct PortNotes {
    port: i64,
}

message!('a, PortNotes { 3 => port });

impl Decode for Namespaced<ObservedService> {
    type Wire<'a> = DecodedPair<Service<'a>, ServiceNotes<'a>>;

    fn decode(DecodedPair(service, notes): Self::Wire<'_>) -> Result<Self, DecodeError> {
        let Namespaced { namespace, facts } = Namespaced::<ServiceFacts>::decode(service)?;
        let spec = notes.spec;
        let seen = ObservedService {
            facts,
            kind: set(spec.kind.as_ref()).unwrap_or("ClusterIP").into(),
            external_name: set(spec.external_name.as_ref()).map(Into::into),
            selects: !spec.selector.0.is_empty(),
            port_numbers: spec.ports.iter().map(|port| port.port).collect(),
        };
        Ok(Self {
            namespace,
            facts: seen,
        })
    }

    fn version_of<'w>(DecodedPair(service, _): &'w Self::Wire<'_>) -> &'w str {
        Namespaced::<ServiceFacts>::version_of(service)
    }
}
