//! Objects that are written, as JSON.
//!
//! A slice has up to 1,000 endpoints and is written whole, so this is the most expensive part of a change. Serde's
//! writer looks up each byte of a text in a table to escape it, which takes two thirds of the instructions of a body.
//! Here a text is scanned in one go, and only one that needs escaping takes that path.

use super::{endpoints, slices};
use crate::core::body::{
    AddressBody, Encode, EndpointBody, EndpointsBody, Metadata, PodReference, SliceBody,
};
use crate::core::facts::OwnerReference;
use crate::core::ids::Uid;
use crate::core::ports::SlicePort;
use crate::core::subsets::Address;
use serde::Serialize;
use std::io::Write as _;
use std::net::IpAddr;

/// JSON, as the API server takes it.
#[derive(Clone, Copy, Debug)]
pub struct Json;

impl Encode for Json {
    type Body = Vec<u8>;

    fn slice<'a>(&mut self, slice: SliceBody<'a, impl Iterator<Item = EndpointBody<'a>>>) -> Vec<u8> {
        slices::encode(slice)
    }

    fn endpoints<'a, A: Address>(
        &mut self,
        endpoints: EndpointsBody<'a, A, impl Fn(A) -> AddressBody<'a>>,
    ) -> Vec<u8> {
        endpoints::encode(&endpoints)
    }
}

pub(super) fn push_metadata(out: &mut Vec<u8>, metadata: &Metadata<'_>) {
    push_field(out, br#"{"name":"#, Some(metadata.name));
    push_field(out, br#","generateName":"#, metadata.generate_name().as_deref());
    push_field(out, br#","namespace":"#, Some(metadata.namespace));
    if let Some(remote) = metadata.remote {
        out.extend_from_slice(br#","uid":"#);
        push_uid(out, &remote.uid);
        push_value(out, format_args!(r#","resourceVersion":"{}""#, remote.version));
    }
    push_map(out, br#","labels":{"#, metadata.labels());
    push_map(out, br#","annotations":{"#, metadata.annotations());
    let mut owners = metadata.owners().peekable();
    if owners.peek().is_some() {
        out.extend_from_slice(br#","ownerReferences":"#);
        push_all(out, owners, |out, owner| {
            push_serialized::<OwnerReference>(out, &owner);
        });
    }
    if !metadata.finalizers().is_empty() {
        out.extend_from_slice(br#","finalizers":"#);
        push_all(out, metadata.finalizers(), |out, text| push_text(out, text));
    }
    out.push(b'}');
}

/// Appends a map, unless it is empty.
fn push_map<V: AsRef<str>>(
    out: &mut Vec<u8>,
    open: &[u8],
    pairs: impl Iterator<Item = (impl AsRef<str>, V)>,
) {
    let mut before = open;
    for (key, value) in pairs {
        push_field(out, before, Some(key.as_ref()));
        push_field(out, b":", Some(value.as_ref()));
        before = b",";
    }
    if before != open {
        out.push(b'}');
    }
}

pub(super) fn push_port(out: &mut Vec<u8>, port: &SlicePort) {
    push_serialized(out, port);
}

/// Appends a list.
pub(super) fn push_all<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    push: impl Fn(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        push(out, item);
    }
    out.push(b']');
}

fn push_serialized<T: Serialize>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("strings and numbers can always be written to memory");
}

fn push_value(out: &mut Vec<u8>, value: std::fmt::Arguments<'_>) {
    out.write_fmt(value).expect("memory takes all that is written");
}

/// Returns what all references to pods begin with.
pub(super) fn target_head(namespace: &str) -> Vec<u8> {
    let mut head = Vec::new();
    push_field(
        &mut head,
        br#","targetRef":{"kind":"Pod","namespace":"#,
        Some(namespace),
    );
    head.extend_from_slice(br#","name":"#);
    head
}

pub(super) fn push_target(out: &mut Vec<u8>, head: &[u8], target: PodReference<'_>) {
    out.extend_from_slice(head);
    push_text(out, target.name);
    out.extend_from_slice(br#","uid":"#);
    push_uid(out, target.uid);
    out.push(b'}');
}

fn push_uid(out: &mut Vec<u8>, uid: &Uid) {
    match uid {
        Uid::Text(text) => push_text(out, text),
        Uid::Uuid(bytes) => {
            out.push(b'"');
            out.extend_from_slice(&Uid::spelled(bytes));
            out.push(b'"');
        }
    }
}

pub(super) fn push_field(out: &mut Vec<u8>, key: &[u8], text: Option<&str>) {
    if let Some(text) = text {
        out.extend_from_slice(key);
        push_text(out, text);
    }
}

pub(super) fn push_bool(out: &mut Vec<u8>, value: bool) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

pub(super) fn push_text(out: &mut Vec<u8>, text: &str) {
    // There is no early exit, so that many bytes are examined in one step.
    let escaped = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    if text.bytes().fold(false, |any, byte| any | escaped(byte)) {
        push_serialized(out, &text);
    } else {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    }
}

pub(super) fn push_ip(out: &mut Vec<u8>, ip: IpAddr) {
    out.push(b'"');
    match ip {
        IpAddr::V4(ip) => {
            let mut buffer = [b'.'; 16];
            let mut end = 0;
            for octet in ip.octets() {
                if octet >= 100 {
                    buffer[end] = b'0' + octet / 100;
                    end += 1;
                }
                if octet >= 10 {
                    buffer[end] = b'0' + octet / 10 % 10;
                    end += 1;
                }
                buffer[end] = b'0' + octet % 10;
                // The buffer is filled with dots already.
                buffer[end + 1] = b'.';
                end += 2;
            }
            out.extend_from_slice(&buffer[..end - 1]);
        }
        IpAddr::V6(ip) => push_value(out, format_args!("{ip}")),
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::super::endpoints::push_address;
    use super::super::slices::push_endpoint;
    use super::*;
    use crate::core::hints::Hint;
    use crate::core::slices::Conditions;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn parsed(push: impl Fn(&mut Vec<u8>)) -> Value {
        let mut out = Vec::new();
        push(&mut out);
        serde_json::from_slice(&out).unwrap()
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            r"[a-z0-9.-]{0,40}",
            ".{0,12}",
            Just("\"\\\u{1}\n é€😀".to_owned())
        ]
    }

    fn uid() -> impl Strategy<Value = Uid> {
        prop_oneof![
            any::<[u8; 16]>().prop_map(Uid::Uuid),
            text().prop_map(|text| Uid::Text(text.into())),
        ]
    }

    proptest! {
        #[test]
        fn an_endpoint_says_what_it_holds(
            (ip, uid, conditions) in (any::<IpAddr>(), uid(), any::<[bool; 3]>()),
            texts in proptest::array::uniform2(text()),
            optional in proptest::array::uniform5(proptest::option::of(text())),
        ) {
            let [namespace, name] = &texts;
            let [hostname, node, zone, zone_hint, node_hint] = optional.each_ref().map(Option::as_deref);
            let target = PodReference { name, uid: &uid };
            let head = target_head(namespace);
            let [ready, serving, terminating] = conditions;
            let endpoint = EndpointBody {
                ip, hostname, node, zone, target,
                conditions: Conditions::new(ready, serving, terminating),
                hints: Hint { zone: zone_hint, node: node_hint },
            };
            let mut expected = json!({
                "addresses": [ip.to_string()],
                "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
                "targetRef": {"kind": "Pod", "namespace": namespace, "name": name, "uid": uid.to_string()},
            });
            for (key, value) in [("hostname", hostname), ("nodeName", node), ("zone", zone)] {
                if let Some(value) = value {
                    expected[key] = json!(value);
                }
            }
            for (key, value) in [("forZones", zone_hint), ("forNodes", node_hint)] {
                if let Some(value) = value {
                    expected["hints"][key] = json!([{"name": value}]);
                }
            }
            prop_assert_eq!(parsed(|out| push_endpoint(out, &head, endpoint)), expected);

            let address = AddressBody { ip, hostname, node, target };
            let mut expected = json!({
                "ip": ip.to_string(),
                "targetRef": {"kind": "Pod", "namespace": namespace, "name": name, "uid": uid.to_string()},
            });
            for (key, value) in [("hostname", hostname), ("nodeName", node)] {
                if let Some(value) = value {
                    expected[key] = json!(value);
                }
            }
            prop_assert_eq!(parsed(|out| push_address(out, &head, address)), expected);
        }
    }
}
