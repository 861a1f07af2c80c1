//! Details of objects that only people read, beside the facts.

use super::{Decode, DecodeError, Namespaced, set};
use crate::cluster::codec::json::wire::{self, Str, StrMap};
use crate::core::facts::observed::{ObservedPod, ObservedService};
use crate::core::facts::{PodFacts, ServiceFacts};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::value::RawValue;

/// One object, decoded into two forms, so that the wire forms of facts need no fields for people.
#[derive(Debug)]
pub struct Twice<A, B>(A, B);

impl<'de, A: Deserialize<'de>, B: Deserialize<'de>> Deserialize<'de> for Twice<A, B> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&'de RawValue>::deserialize(deserializer)?.get();
        let first = serde_json::from_str(json).map_err(D::Error::custom)?;
        let second = serde_json::from_str(json).map_err(D::Error::custom)?;
        Ok(Self(first, second))
    }
}

/// The fields that explain a pod's state.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodNotes<'a> {
    #[serde(borrow)]
    status: StatusNotes<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusNotes<'a> {
    #[serde(borrow)]
    phase: Option<Str<'a>>,
    reason: Option<Str<'a>>,
    conditions: Option<Vec<ConditionNotes<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ConditionNotes<'a> {
    #[serde(borrow, rename = "type")]
    kind: Str<'a>,
    status: Str<'a>,
    reason: Option<Str<'a>>,
    message: Option<Str<'a>>,
}

impl Decode for Namespaced<ObservedPod> {
    type Wire<'a> = Twice<wire::Pod<'a>, PodNotes<'a>>;

    fn decode(Twice(pod, notes): Self::Wire<'_>) -> Result<Self, DecodeError> {
        let Namespaced { namespace, facts } = Namespaced::<PodFacts>::decode(pod)?;
        let status = notes.status;
        // An unscheduled pod is not ready either, and the former condition says more.
        let unmet = |kind: &str| {
            let conditions = status.conditions.iter().flatten();
            let mut conditions = conditions.filter(|c| &*c.kind == kind && &*c.status != "True");
            conditions.next()
        };
        let condition = unmet("PodScheduled").or_else(|| unmet("Ready"));
        let told = condition.map(|condition| {
            let parts = [set(condition.reason.as_ref()), set(condition.message.as_ref())];
            parts.into_iter().flatten().collect::<Vec<_>>().join(": ")
        });
        let seen = ObservedPod {
            facts,
            phase: set(status.phase.as_ref()).unwrap_or("Unknown").into(),
            reason: set(status.reason.as_ref()).map(Into::into),
            told: told.filter(|told| !told.is_empty()).map(Into::into),
        };
        Ok(Self {
            namespace,
            facts: seen,
        })
    }

    fn version_of<'w>(Twice(pod, _): &'w Self::Wire<'_>) -> &'w str {
        Namespaced::<PodFacts>::version_of(pod)
    }
}

/// The fields that describe a Service.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceNotes<'a> {
    #[serde(borrow)]
    spec: SpecNotes<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecNotes<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Str<'a>>,
    external_name: Option<Str<'a>>,
    selector: StrMap<'a>,
    ports: Option<Vec<PortNotes>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PortNotes {
    port: i64,
}

impl Decode for Namespaced<ObservedService> {
    type Wire<'a> = Twice<wire::Service<'a>, ServiceNotes<'a>>;

    fn decode(Twice(service, notes): Self::Wire<'_>) -> Result<Self, DecodeError> {
        let Namespaced { namespace, facts } = Namespaced::<ServiceFacts>::decode(service)?;
        let spec = notes.spec;
        let seen = ObservedService {
            facts,
            kind: set(spec.kind.as_ref()).unwrap_or("ClusterIP").into(),
            external_name: set(spec.external_name.as_ref()).map(Into::into),
            selects: !spec.selector.0.is_empty(),
            port_numbers: spec.ports.iter().flatten().map(|port| port.port).collect(),
        };
        Ok(Self {
            namespace,
            facts: seen,
        })
    }

    fn version_of<'w>(Twice(service, _): &'w Self::Wire<'_>) -> &'w str {
        Namespaced::<ServiceFacts>::version_of(service)
    }
}
