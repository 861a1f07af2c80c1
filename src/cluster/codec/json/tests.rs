use super::encode::target_head;
use super::endpoints::push_address;
use super::slices::push_endpoint;
use crate::core::body::{AddressBody, EndpointBody, PodReference};
use crate::core::hints::Hint;
use crate::core::ids::Uid;
use crate::core::slices::Conditions;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::net::IpAddr;

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
