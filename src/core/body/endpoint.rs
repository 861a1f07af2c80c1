//! Encodes one endpoint, or one address, as JSON.
//!
//! A slice has up to 1,000 endpoints and is written whole, so this is the most expensive part of a change. Serde's
//! writer looks up each byte of a text in a table to escape it, which takes two thirds of the instructions of a body.
//! Here a text is scanned in one go, and only one that needs escaping takes that path.

use super::PodReference;
use crate::core::hints::Hint;
use crate::core::ids::Uid;
use crate::core::slices::Conditions;
use std::fmt::Write as _;
use std::net::IpAddr;

/// An endpoint to be written.
#[derive(Clone, Copy)]
pub struct EndpointBody<'a> {
    /// Its only address.
    pub ip: IpAddr,
    /// Its conditions.
    pub conditions: Conditions,
    /// `hostname`.
    pub hostname: Option<&'a str>,
    /// `targetRef`.
    pub target: PodReference<'a>,
    /// `nodeName`.
    pub node: Option<&'a str>,
    /// `zone`.
    pub zone: Option<&'a str>,
    /// `hints`.
    pub hints: Hint<'a>,
}

/// An address of an Endpoints object, to be written.
#[derive(Clone, Copy)]
pub struct AddressBody<'a> {
    /// `ip`.
    pub ip: IpAddr,
    /// `hostname`.
    pub hostname: Option<&'a str>,
    /// `nodeName`.
    pub node: Option<&'a str>,
    /// `targetRef`.
    pub target: PodReference<'a>,
}

impl EndpointBody<'_> {
    pub(super) fn push_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"addresses":["#);
        push_ip(out, self.ip);
        out.extend_from_slice(br#"],"conditions":{"ready":"#);
        push_bool(out, self.conditions.ready());
        out.extend_from_slice(br#","serving":"#);
        push_bool(out, self.conditions.serving());
        out.extend_from_slice(br#","terminating":"#);
        push_bool(out, self.conditions.terminating());
        out.push(b'}');
        push_field(out, br#","hostname":"#, self.hostname);
        push_field(out, br#","nodeName":"#, self.node);
        push_target(out, self.target);
        push_field(out, br#","zone":"#, self.zone);
        if !self.hints.is_none() {
            out.extend_from_slice(br#","hints":{"#);
            push_hint(out, br#""forZones":[{"name":"#, self.hints.zone);
            if self.hints.zone.is_some() && self.hints.node.is_some() {
                out.push(b',');
            }
            push_hint(out, br#""forNodes":[{"name":"#, self.hints.node);
            out.push(b'}');
        }
        out.push(b'}');
    }
}

impl AddressBody<'_> {
    pub(super) fn push_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"ip":"#);
        push_ip(out, self.ip);
        push_field(out, br#","hostname":"#, self.hostname);
        push_field(out, br#","nodeName":"#, self.node);
        push_target(out, self.target);
        out.push(b'}');
    }
}

/// Appends the output of each item, separated by commas.
pub(super) fn push_all<T>(out: &mut Vec<u8>, items: impl Iterator<Item = T>, push: impl Fn(T, &mut Vec<u8>)) {
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        push(item, out);
    }
}

fn push_target(out: &mut Vec<u8>, target: PodReference<'_>) {
    out.extend_from_slice(br#","targetRef":{"kind":"Pod","namespace":"#);
    push_text(out, target.namespace);
    out.extend_from_slice(br#","name":"#);
    push_text(out, target.name);
    out.extend_from_slice(br#","uid":"#);
    match target.uid {
        Uid::Text(text) => push_text(out, text),
        Uid::Uuid(bytes) => {
            out.push(b'"');
            out.extend_from_slice(&Uid::spelled(bytes));
            out.push(b'"');
        }
    }
    out.push(b'}');
}

fn push_hint(out: &mut Vec<u8>, key: &[u8], name: Option<&str>) {
    if let Some(name) = name {
        out.extend_from_slice(key);
        push_text(out, name);
        out.extend_from_slice(b"}]");
    }
}

fn push_field(out: &mut Vec<u8>, key: &[u8], text: Option<&str>) {
    if let Some(text) = text {
        out.extend_from_slice(key);
        push_text(out, text);
    }
}

fn push_bool(out: &mut Vec<u8>, value: bool) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    // There is no early exit, so that many bytes are examined in one step.
    let escaped = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    if text.bytes().fold(false, |any, byte| any | escaped(byte)) {
        serde_json::to_writer(out, text).expect("strings can always be written to memory");
    } else {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    }
}

fn push_ip(out: &mut Vec<u8>, ip: IpAddr) {
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
        IpAddr::V6(ip) => {
            let mut text = String::new();
            write!(text, "{ip}").expect("strings take all that is written");
            out.extend_from_slice(text.as_bytes());
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
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
            let target = PodReference { namespace, name, uid: &uid };
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
            prop_assert_eq!(parsed(|out| endpoint.push_to(out)), expected);

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
            prop_assert_eq!(parsed(|out| address.push_to(out)), expected);
        }
    }
}
