use super::{Decode, ListReader, Namespaced, Protobuf, Undecodable, identity, last_editor, object, protobuf};
use crate::core::body::{
    AddressBody, Encode as _, EndpointBody, EndpointsBody, Metadata, PodReference, SliceBody, Subject,
};
use crate::core::facts::observed::{ObservedPod, ObservedService};
use crate::core::facts::{EndpointsFacts, Extras, OwnerReference, ServiceFacts, SliceFacts};
use crate::core::hints::Hint;
use crate::core::ids::Uid;
use crate::core::object::{Editor, Remote};
use crate::core::ports::{Protocol, SlicePort};
use crate::core::slices::Conditions;
use crate::core::subsets::Subset;
use crate::core::time::Time;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::net::IpAddr;

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

/// A Service with labels that are copied to its objects.
fn service() -> ServiceFacts {
    protobuf::facts(
        "Service",
        &json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "labels": {"a": "b", "c": ""}},
            "spec": {"clusterIP": "None", "selector": {"a": "b"}},
        }),
    )
}

fn port() -> impl Strategy<Value = SlicePort> {
    let protocol = prop_oneof![
        Just(Protocol::Tcp),
        Just(Protocol::Sctp),
        text().prop_map(|text| Protocol::from(&*text))
    ];
    let texts = proptest::array::uniform2(proptest::option::of(text()));
    (texts, protocol, proptest::option::of(any::<u16>())).prop_map(
        |([name, app_protocol], protocol, number)| SlicePort {
            name: name.map(Into::into),
            // Go writes an empty protocol as one that is not there.
            protocol,
            number,
            app_protocol: app_protocol.map(Into::into),
        },
    )
}

fn extras() -> impl Strategy<Value = Extras> {
    let owner = (
        proptest::array::uniform4(text()),
        proptest::array::uniform2(proptest::option::of(any::<bool>())),
    )
        .prop_map(
            |([api_version, kind, name, uid], [controller, block_owner_deletion])| OwnerReference {
                api_version: api_version.into(),
                kind: kind.into(),
                name: name.into(),
                uid: uid.into(),
                controller,
                block_owner_deletion,
            },
        );
    (
        proptest::option::of(r"[a-z]{1,200}"),
        proptest::collection::vec((r"[a-z]{1,9}", text()), 0..3),
        proptest::collection::vec(owner, 0..3),
        proptest::collection::vec(text(), 0..3),
    )
        .prop_map(|(generate_name, annotations, owners, finalizers)| Extras {
            generate_name: generate_name.map(Into::into),
            annotations: annotations
                .into_iter()
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
            owners,
            finalizers: finalizers.into_iter().map(Into::into).collect(),
        })
}

/// What a server should read of some metadata.
fn metadata(metadata: &Metadata<'_>) -> Value {
    let owner = |owner: &OwnerReference| {
        json!({
            "apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid,
            "controller": owner.controller, "blockOwnerDeletion": owner.block_owner_deletion,
        })
    };
    let labels = metadata
        .labels()
        .map(|(key, value)| (key.to_owned(), json!(value)));
    let annotations = metadata.annotations();
    let annotations: serde_json::Map<_, _> = annotations
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect();
    json!({
        "name": metadata.name, "namespace": metadata.namespace, "generateName": metadata.generate_name(),
        "uid": metadata.remote.map(|remote| remote.uid.to_string()),
        "resourceVersion": metadata.remote.map(|remote| remote.version.to_string()),
        "labels": Value::Object(labels.collect()), "annotations": (!annotations.is_empty()).then_some(annotations),
        "ownerReferences": metadata.owners().map(|one| owner(&one)).collect::<Vec<_>>(),
        "finalizers": metadata.finalizers(),
        "managedFields": metadata.clears_managed_fields().then(|| [json!({})]),
    })
}

fn ports_of(ports: &[SlicePort]) -> Value {
    let port = |port: &SlicePort| {
        json!({
            "name": port.name, "protocol": port.protocol.as_str(), "port": port.number,
            "appProtocol": port.app_protocol,
        })
    };
    ports.iter().map(port).collect()
}

fn reference(target: PodReference<'_>) -> Value {
    json!({"kind": "Pod", "namespace": "shop", "name": target.name, "uid": target.uid.to_string()})
}

proptest! {
    #[test]
    fn a_slice_says_what_it_holds(
        (extras, ports) in (extras(), proptest::collection::vec(port(), 0..3)),
        endpoints in proptest::collection::vec(
            (any::<IpAddr>(), uid(), any::<[bool; 3]>(), text(), proptest::array::uniform5(proptest::option::of(text()))),
            0..4,
        ),
        (version, trigger) in (any::<u64>(), proptest::option::of(0..4_000_000_000_i64)),
    ) {
        let service = service();
        let remote = Remote { uid: Uid::Uuid([9; 16]), version };
        let meta = Metadata {
            namespace: "shop", name: "web-x", subject: Subject::SliceOf(&service), remote: Some(&remote),
            extras: Some(&extras), trigger: trigger.map(Time::from_seconds),
            clear_managed_fields: trigger.is_some(), truncated: false,
        };
        let endpoints: Vec<_> = endpoints.iter().map(|(ip, uid, conditions, name, optional)| {
            let [hostname, node, zone, zone_hint, node_hint] = optional.each_ref().map(Option::as_deref);
            let [ready, serving, terminating] = *conditions;
            EndpointBody {
                ip: *ip, hostname, node, zone, target: PodReference { name, uid },
                conditions: Conditions::new(ready, serving, terminating),
                hints: Hint { zone: zone_hint, node: node_hint },
            }
        }).collect();
        let endpoint = |endpoint: &EndpointBody<'_>| {
            let EndpointBody { conditions, hints, .. } = *endpoint;
            let hint = |name: Option<&str>| name.map(|name| json!([{"name": name}]));
            json!({
                "addresses": [endpoint.ip.to_string()],
                "conditions": {
                    "ready": conditions.ready(), "serving": conditions.serving(),
                    "terminating": conditions.terminating(),
                },
                "hostname": endpoint.hostname, "nodeName": endpoint.node, "zone": endpoint.zone,
                "targetRef": reference(endpoint.target),
                "hints": (!hints.is_none()).then(
                    || json!({"forZones": hint(hints.zone), "forNodes": hint(hints.node)})
                ),
            })
        };
        let expected = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata(&meta),
            "addressType": "IPv6", "ports": ports_of(&ports),
            "endpoints": endpoints.iter().map(endpoint).collect::<Vec<_>>(),
        });
        let body = Protobuf.slice(SliceBody {
            metadata: meta, address_type: "IPv6", ports: &ports, endpoints: endpoints.iter().copied(),
        });
        prop_assert_eq!(server_reads(&body), set(expected).unwrap());
        let identity = identity(&body).unwrap();
        prop_assert_eq!((identity.kind, identity.version), ("EndpointSlice", Some(version)));
        object::<Namespaced<SliceFacts>>(&body).unwrap();
    }

    #[test]
    fn endpoints_say_what_they_hold(
        (extras, truncated) in (extras(), any::<bool>()),
        subsets in proptest::collection::vec(
            (proptest::collection::vec(port(), 0..3), proptest::array::uniform2(0..4_usize)),
            0..3,
        ),
        addresses in proptest::collection::vec(
            (any::<IpAddr>(), uid(), text(), proptest::array::uniform2(proptest::option::of(text()))),
            4,
        ),
        trigger in proptest::option::of(0..4_000_000_000_i64),
    ) {
        let service = service();
        let remote = Remote { uid: Uid::Uuid([9; 16]), version: 7 };
        let meta = Metadata {
            namespace: "shop", name: "web", subject: Subject::EndpointsOf(&service),
            remote: Some(&remote), extras: Some(&extras), trigger: trigger.map(Time::from_seconds),
            clear_managed_fields: trigger.is_some(), truncated,
        };
        let address = |handle: usize| {
            let (ip, uid, name, optional) = &addresses[handle];
            let [hostname, node] = optional.each_ref().map(Option::as_deref);
            AddressBody { ip: *ip, hostname, node, target: PodReference { name, uid } }
        };
        let subsets = subsets.into_iter().map(|(ports, [ready, not_ready])| Subset {
            ports,
            // A subset has at least one address.
            ready: (0..if not_ready == 0 { ready.max(1) } else { ready }).map(address).collect(),
            not_ready: (0..not_ready).map(address).collect(),
        });
        let subsets: Vec<_> = subsets.collect();
        let list = |list: &[AddressBody<'_>]| -> Value {
            let one = |address: &AddressBody<'_>| json!({
                "ip": address.ip.to_string(), "hostname": address.hostname, "nodeName": address.node,
                "targetRef": reference(address.target),
            });
            list.iter().map(one).collect()
        };
        let expected: Vec<_> = subsets.iter().map(|subset| json!({
            "addresses": list(&subset.ready), "notReadyAddresses": list(&subset.not_ready),
            "ports": ports_of(&subset.ports),
        })).collect();
        let expected = json!({
            "apiVersion": "v1", "kind": "Endpoints", "metadata": metadata(&meta), "subsets": expected,
        });
        let body = Protobuf.endpoints(EndpointsBody { metadata: meta, subsets: &subsets });
        prop_assert_eq!(server_reads(&body), set(expected).unwrap());
        object::<Namespaced<EndpointsFacts>>(&body).unwrap();
    }
}

/// Returns a value without fields that are empty: Go does not tell these from fields that are missing.
fn set(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::String(text) if text.is_empty() => None,
        Value::Array(items) if items.is_empty() => None,
        Value::Array(items) => Some(
            items
                .into_iter()
                .map(|item| set(item).unwrap_or_default())
                .collect(),
        ),
        Value::Object(fields) => {
            let fields = fields
                .into_iter()
                .filter_map(|(key, value)| Some((key, set(value)?)));
            Some(Value::Object(fields.collect()))
        }
        value => Some(value),
    }
}

/// Returns the value that a server reads from a body.
fn server_reads(body: &[u8]) -> Value {
    set(memory_apiserver::object_of(body).unwrap()).unwrap()
}

#[test]
fn lengths_of_three_bytes() {
    let service = service();
    let remote = Remote {
        uid: Uid::Uuid([9; 16]),
        version: 7,
    };
    let long = "x".repeat(20_000);
    for length in [127, 128, 16_383, 16_384, 20_000] {
        let body = Protobuf.slice(SliceBody {
            metadata: Metadata {
                namespace: "shop",
                name: "web-x",
                subject: Subject::SliceOf(&service),
                remote: Some(&remote),
                extras: None,
                trigger: None,
                clear_managed_fields: false,
                truncated: false,
            },
            address_type: "IPv4",
            ports: &[],
            endpoints: std::iter::once(EndpointBody {
                ip: [10, 0, 0, 1].into(),
                hostname: Some(&long[..length]),
                node: None,
                zone: Some(&long[..length]),
                target: PodReference {
                    name: &long[..length],
                    uid: &Uid::Text(long[..length].into()),
                },
                conditions: Conditions::new(true, true, false),
                hints: Hint {
                    zone: Some(&long[..length]),
                    node: None,
                },
            }),
        });
        let endpoint = &server_reads(&body)["endpoints"][0];
        let texts = [
            &endpoint["hostname"],
            &endpoint["zone"],
            &endpoint["targetRef"]["name"],
            &endpoint["targetRef"]["uid"],
            &endpoint["hints"]["forZones"][0]["name"],
        ];
        for text in texts {
            assert_eq!(text, &long[..length]);
        }
        object::<Namespaced<SliceFacts>>(&body).unwrap();
    }
}

/// A user who may annotate a Service may write bytes that are no text, and must not make it unreadable.
#[test]
fn bytes_that_are_no_text_are_replaced() {
    let slice = |value: &str| {
        let service = service();
        let annotations = [("note".into(), value.into())].into();
        Protobuf.slice(SliceBody {
            metadata: Metadata {
                namespace: "shop",
                name: "web-x",
                subject: Subject::SliceOf(&service),
                remote: Some(&Remote {
                    uid: Uid::Uuid([9; 16]),
                    version: 7,
                }),
                extras: Some(&Extras {
                    annotations,
                    ..Extras::default()
                }),
                trigger: None,
                clear_managed_fields: false,
                truncated: false,
            },
            address_type: "IPv4",
            ports: &[],
            endpoints: std::iter::empty(),
        })
    };
    let mut body = slice("xyz");
    let at = body.windows(3).position(|bytes| bytes == b"xyz").unwrap();
    body[at + 1] = 0xff;
    let replaced = object::<Namespaced<SliceFacts>>(&body).unwrap();
    assert_eq!(replaced, object(&slice("x\u{fffd}z")).unwrap());
}

#[test]
fn an_object_that_is_malformed_is_named_as_far_as_it_goes() {
    let service = service();
    let mut body = Protobuf.slice(SliceBody {
        metadata: Metadata {
            namespace: "shop",
            name: "web-x",
            subject: Subject::SliceOf(&service),
            remote: None,
            extras: None,
            trigger: None,
            clear_managed_fields: false,
            truncated: false,
        },
        address_type: "IPv4",
        ports: &[],
        endpoints: std::iter::empty(),
    });
    // The type of the last field, addressType, becomes one that the API does not have.
    let at = body.len() - "IPv4".len() - 2;
    assert_eq!(body[at], 4 << 3 | 2);
    body[at] = 4 << 3 | 3;
    let error = object::<Namespaced<SliceFacts>>(&body).unwrap_err();
    let error = Undecodable::new(&body, error);
    assert_eq!(
        error.to_string(),
        "shop/web-x: malformed protobuf: field 4 has another type"
    );
    for length in 0..body.len() {
        assert!(
            object::<Namespaced<SliceFacts>>(&body[..length]).is_err(),
            "{length} bytes"
        );
    }
}

/// The items of a list.
fn items<T: Decode + std::fmt::Debug>(list: &[u8]) -> String {
    let mut reader = ListReader::<T>::default();
    reader.feed(list);
    let (items, errors) = reader.take();
    assert!(errors.is_empty() && !items.is_empty(), "{errors:?}");
    format!("{items:?}")
}

/// A list that was recorded in both encodings.
macro_rules! recorded {
    ($name:literal) => {
        (
            include_bytes!(concat!(
                "../../../loadtest/apiserver/tests/wire/",
                $name,
                ".list.pb"
            )),
            serde_json::from_str(include_str!(concat!(
                "../../../loadtest/apiserver/tests/wire/",
                $name,
                ".list.json"
            )))
            .unwrap(),
        )
    };
}

#[test]
fn what_people_are_told_of_an_object_is_what_it_says() {
    let (sent, json) = recorded!("pods");
    let json = protobuf::object("PodList", &json);
    assert_eq!(
        items::<Namespaced<ObservedPod>>(sent),
        items::<Namespaced<ObservedPod>>(&json)
    );
    let (sent, json) = recorded!("services");
    let json = protobuf::object("ServiceList", &json);
    assert_eq!(
        items::<Namespaced<ObservedService>>(sent),
        items::<Namespaced<ObservedService>>(&json)
    );
}

/// The time of an entry without one.
const NEVER: &str = "never";

/// Returns who changed an object last, as `managedFields` with these entries say.
fn editor(entries: &[(&str, &str)]) -> Editor {
    let list: Vec<_> = entries
        .iter()
        .map(|(manager, time)| {
            let time = (*time != NEVER).then_some(time);
            json!({"manager": manager, "operation": "Update", "time": time})
        })
        .collect();
    let body = json!({"metadata": {"name": "web-x", "managedFields": list}});
    last_editor(&protobuf::object("EndpointSlice", &body))
}

#[test]
fn the_last_editor_is_the_newest_one() {
    const EARLY: &str = "2026-01-01T00:00:00Z";
    const LATE: &str = "2026-01-01T00:00:01Z";
    const LATEST: &str = "2026-01-01T00:00:02Z";
    let long = "m".repeat(300);
    for (entries, expected) in [
        (&[][..], None),
        (&[("endpointd", EARLY)], Some("endpointd")),
        (&[("kubectl-edit", EARLY)], Some("kubectl-edit")),
        (
            &[("endpointd", EARLY), ("kubectl-edit", LATE)],
            Some("kubectl-edit"),
        ),
        // Times are in seconds.
        (
            &[("kubectl-edit", LATE), ("endpointd", LATE)],
            Some("kubectl-edit"),
        ),
        (&[("kubectl-edit", EARLY), ("endpointd", LATE)], Some("endpointd")),
        (
            &[
                ("kube-controller-manager", EARLY),
                ("a", LATEST),
                ("endpointd", LATE),
            ],
            Some("a"),
        ),
        (&[("", LATE)], None),
        (&[("a\nb", NEVER)], Some("a\\nb")),
        (
            &[(&long, EARLY)],
            Some(&*format!("{}... (300 bytes)", &long[..64])),
        ),
    ] {
        let expected = match expected {
            None => Editor::Unknown,
            Some("endpointd") => Editor::Endpointd,
            Some(other) => Editor::Other(other.into()),
        };
        assert_eq!(editor(entries), expected, "{entries:?}");
    }
    for malformed in [&b""[..], b"{", b"k8s\0\xff", b"[]"] {
        assert_eq!(last_editor(malformed), Editor::Unknown);
    }
}

#[test]
fn what_a_pods_status_says_cannot_forge_lines_on_a_terminal() {
    let condition = json!({"type": "Ready", "status": "False", "reason": "a\u{1b}[2K", "message": "b\nc"});
    let pod = json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "1"},
        "spec": {"readinessGates": [{"conditionType": "f\n"}, {"conditionType": "g"}]},
        "status": {"phase": "d\r", "reason": "e\u{202e}",
            "conditions": [condition, {"type": "g", "status": "True"}]},
    });
    let seen: ObservedPod = protobuf::facts("Pod", &pod);
    assert_eq!(
        (&*seen.phase, seen.reason.as_deref(), seen.told.as_deref()),
        ("d\\r", Some("e\\u{202e}"), Some("a\\u{1b}[2K: b\\nc"))
    );
    assert_eq!(seen.unmet_gates, ["f\\n".into()]);
}
