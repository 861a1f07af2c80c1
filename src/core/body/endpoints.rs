//! The body of an Endpoints object.

use super::endpoint::{AddressBody, push_all};
use super::{Metadata, push};
use crate::core::facts::{
    ENDPOINTS_MANAGED_BY, Extras, LABEL_ENDPOINTS_MANAGED_BY, LABEL_HEADLESS, ServiceFacts,
};
use crate::core::hash::{KeyedState, hash_long};
use crate::core::object::Remote;
use crate::core::ports::SlicePort;
use crate::core::subsets::{Address, Published, Subset};
use crate::core::time::Time;
use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};
use std::hash::{BuildHasher as _, Hasher as _};

/// The content of an Endpoints object to be written, without the parts that depend on the server.
pub struct EndpointsBody<'a> {
    service: &'a ServiceFacts,
    truncated: bool,
    addresses: usize,
    /// The JSON up to the end of the subsets. The parts that depend on the server come after them, so that hundreds of
    /// kilobytes need not be moved.
    json: Vec<u8>,
}

/// The beginning of the JSON.
const HEAD: &[u8] = br#"{"apiVersion":"v1","kind":"Endpoints","subsets":"#;

impl<'a> EndpointsBody<'a> {
    /// Builds the body, with the addresses that the handles stand for.
    pub fn new<A: Address>(
        service: &'a ServiceFacts,
        published: &Published<SlicePort, A>,
        address: impl Fn(A) -> AddressBody<'a>,
    ) -> Self {
        let count: usize = published
            .subsets
            .iter()
            .map(|subset| subset.ready.len() + subset.not_ready.len())
            .sum();
        let mut json = Vec::with_capacity(1024 + 256 * count);
        json.extend_from_slice(HEAD);
        json.push(b'[');
        push_all(&mut json, published.subsets.iter(), |subset, out| {
            push_subset(out, subset, &address);
        });
        json.push(b']');
        Self {
            service,
            truncated: published.truncated,
            addresses: count,
            json,
        }
    }

    /// Returns the number of addresses in all subsets.
    pub fn addresses(&self) -> usize {
        self.addresses
    }

    /// Returns a 64-bit hash that differs if the body differs from the one written before. It covers the labels (except
    /// the headless one, which is no reason to write), whether addresses are left out, and the subsets.
    pub fn fingerprint(&self) -> u64 {
        // If two bodies had the same fingerprint, the change would never be written.
        let mut hasher = KeyedState.build_hasher();
        for (key, value) in labels(self.service) {
            hasher.write(key.as_bytes());
            hasher.write_u8(0);
            hasher.write(value.as_bytes());
            hasher.write_u8(0);
        }
        hasher.write_u8(u8::from(self.truncated));
        hash_long(&self.json[HEAD.len()..], &mut hasher);
        hasher.finish()
    }

    /// Completes the JSON.
    pub fn into_json(
        self,
        namespace: &str,
        remote: Option<&Remote>,
        extras: Option<&Extras>,
        trigger: Option<Time>,
    ) -> Vec<u8> {
        let metadata = Metadata {
            namespace,
            name: &self.service.name,
            generate_name_of: None,
            remote,
            extras,
            owner: None,
            labels: EndpointsLabels(self.service),
            trigger,
            truncated: self.truncated,
        };
        let mut out = self.json;
        out.extend_from_slice(br#","metadata":"#);
        push(&mut out, &metadata);
        out.push(b'}');
        out
    }
}

/// Returns the labels that an Endpoints object must have, the Service's and our own, except the one that marks a
/// headless Service.
pub fn labels(service: &ServiceFacts) -> impl Iterator<Item = (&str, &str)> {
    let own = [(LABEL_ENDPOINTS_MANAGED_BY, ENDPOINTS_MANAGED_BY)];
    let others = service.labels.iter();
    others
        .filter(|(key, _)| !matches!(*key, LABEL_ENDPOINTS_MANAGED_BY | LABEL_HEADLESS))
        .chain(own)
}

struct EndpointsLabels<'a>(&'a ServiceFacts);

impl Serialize for EndpointsLabels<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(None)?;
        for (key, value) in labels(self.0) {
            out.serialize_entry(key, value)?;
        }
        if self.0.headless {
            out.serialize_entry(LABEL_HEADLESS, "")?;
        }
        out.end()
    }
}

/// Appends a subset as JSON. Empty fields are left out.
fn push_subset<'a, A: Address>(
    out: &mut Vec<u8>,
    subset: &Subset<SlicePort, A>,
    address: &impl Fn(A) -> AddressBody<'a>,
) {
    let mut open = b'{';
    for (field, list) in [
        ("addresses", &subset.ready),
        ("notReadyAddresses", &subset.not_ready),
    ] {
        if !list.is_empty() {
            out.push(std::mem::replace(&mut open, b','));
            push(out, field);
            out.extend_from_slice(b":[");
            push_all(out, list.iter(), |&handle, out| address(handle).push_to(out));
            out.push(b']');
        }
    }
    if !subset.ports.is_empty() {
        out.push(std::mem::replace(&mut open, b','));
        out.extend_from_slice(br#""ports":"#);
        push(out, &subset.ports);
    }
    if open == b'{' {
        out.push(open);
    }
    out.push(b'}');
}
