//! Leases that Services follow: the fields that are read, and how they become facts.

use super::decode::{Decode, DecodeError, Namespaced, required, version};
use super::fields::{Str, Timestamp};
use super::protobuf::message::message;
use crate::core::excerpt::cut;
use crate::core::followed_leases::lease::LeaseFacts;
use crate::core::lease::Record;
use serde::Deserialize;
use std::sync::Arc;

/// A Lease.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Lease<'a> {
    #[serde(borrow)]
    metadata: LeaseMeta<'a>,
    spec: LeaseSpec<'a>,
}

message!('a, Lease<'a> { 1 => metadata, 2 => spec });

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LeaseMeta<'a> {
    #[serde(borrow)]
    name: Str<'a>,
    namespace: Str<'a>,
    resource_version: Str<'a>,
}

message!('a, LeaseMeta<'a> { 1 => name, 3 => namespace, 6 => resource_version });

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LeaseSpec<'a> {
    #[serde(borrow)]
    holder_identity: Option<Str<'a>>,
    lease_duration_seconds: Option<i64>,
    acquire_time: Option<Timestamp<'a>>,
    renew_time: Option<Timestamp<'a>>,
    lease_transitions: Option<i64>,
}

message!('a, LeaseSpec<'a> {
    1 => holder_identity, 2 => lease_duration_seconds, 3 => acquire_time, 4 => renew_time, 5 => lease_transitions,
});

/// Bytes of an identity that are kept. It begins with the name of a pod or node, which have 253 at most, and renewals
/// change the times.
const IDENTITY: usize = 1024;

impl Decode for Namespaced<LeaseFacts> {
    type Wire<'a> = Lease<'a>;

    fn decode(lease: Lease<'_>) -> Result<Self, DecodeError> {
        let Lease { metadata, spec } = lease;
        let number = |number: Option<i64>| i32::try_from(number.unwrap_or_default()).unwrap_or_default();
        let time = |time: Option<&Timestamp<'_>>| time.and_then(Timestamp::time);
        let facts = LeaseFacts {
            name: Arc::from(required(&metadata.name, "metadata.name")?),
            version: version(&metadata.resource_version)?,
            record: Record {
                holder: cut(spec.holder_identity.as_deref().unwrap_or_default(), IDENTITY).to_owned(),
                seconds: number(spec.lease_duration_seconds),
                acquired: time(spec.acquire_time.as_ref()),
                renewed: time(spec.renew_time.as_ref()),
                transitions: number(spec.lease_transitions),
            },
        };
        Ok(Self {
            namespace: Arc::from(required(&metadata.namespace, "metadata.namespace")?),
            facts,
        })
    }

    fn version_of<'w>(wire: &'w Lease<'_>) -> &'w str {
        &wire.metadata.resource_version
    }
}
