//! The sizes of Endpoints and of the slices that mirror them, as JSON and nearly to the byte.

use super::MirroredEndpoint;
use crate::core::facts::{AddressFacts, ObjectReference};
use crate::core::labels::Labels;
use crate::core::ports::SlicePort;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A subset without its addresses and ports.
pub(super) const SUBSET: usize = 30;
/// A slice without the labels and annotations of its Endpoints, its endpoints and its ports.
pub(super) const SLICE: usize = 600;
/// A reference without its texts.
const REFERENCE: usize = 60;
/// The UID of a pod.
const UID: usize = 36;

/// Returns the size of labels and annotations.
pub(super) fn metadata(labels: &Labels, annotations: &BTreeMap<Box<str>, Box<str>>) -> usize {
    let annotations = annotations.iter().map(|(key, value)| key.len() + value.len() + 6);
    3 * labels.as_str().len() + annotations.sum::<usize>()
}

fn field(text: Option<&str>) -> usize {
    text.map_or(0, |text| 14 + text.len())
}

fn reference(target: &ObjectReference) -> usize {
    let texts = [
        &target.kind,
        &target.namespace,
        &target.name,
        &target.uid,
        &target.api_version,
        &target.resource_version,
        &target.field_path,
    ];
    REFERENCE + texts.into_iter().map(|text| text.len()).sum::<usize>()
}

/// Returns the size of an address of Endpoints.
pub(super) fn address(address: &AddressFacts) -> usize {
    let pod = address.pod.as_ref().map(|(name, _)| REFERENCE + UID + name.len());
    let target = address.target.as_deref().map(reference).or(pod);
    10 + address.ip.len()
        + field(address.hostname.as_deref())
        + field(address.node.as_deref())
        + target.unwrap_or_default()
}

/// Returns the size of an endpoint of a slice.
pub(super) fn endpoint(endpoint: &MirroredEndpoint) -> usize {
    let ip = match endpoint.ip {
        IpAddr::V4(_) => 12,
        IpAddr::V6(_) => 30,
    };
    47 + ip
        + field(endpoint.hostname.as_deref())
        + field(endpoint.node.as_deref())
        + endpoint.target.as_deref().map_or(0, reference)
}

/// Returns the size of a port.
pub(super) fn port(port: &SlicePort) -> usize {
    35 + port.name.as_deref().map_or(0, str::len) + field(port.app_protocol.as_deref())
}
