use super::*;
use crate::cluster::codec::protobuf;
use crate::core::ids::Uid;
use serde_json::{Value, json};

/// Returns the outcome of a request for the slice `s` of namespace `ns` that is answered like this.
fn of_slice(verb: RequestKind, code: u16, body: impl AsRef<[u8]>) -> Outcome {
    of(Output::Slice, verb, code, body)
}

fn of(output: Output, verb: RequestKind, code: u16, body: impl AsRef<[u8]>) -> Outcome {
    let asked = Asked {
        verb,
        bytes: 5000,
        output,
        namespace: "ns",
        name: "s",
    };
    judge(&asked, StatusCode::from_u16(code).unwrap(), body.as_ref()).0
}

fn status(reason: &str, kind: &str, name: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason,
        "details": {"name": name, "kind": kind},
    })
}

fn object(kind: &str, over: &Value) -> Vec<u8> {
    let mut object = json!({
        "metadata": {"name": "s", "namespace": "ns", "uid": "u", "resourceVersion": "7",
            "labels": {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
    });
    for (key, value) in over.as_object().unwrap() {
        object["metadata"][key] = value.clone();
    }
    protobuf::object(kind, &object)
}

const PAGE: &str = "<html><head><title>404 Not Found</title></head></html>";
const VERBS: [RequestKind; 5] = [
    RequestKind::Create,
    RequestKind::Update,
    RequestKind::Delete,
    RequestKind::Fetch,
    RequestKind::Probe,
];

#[test]
fn refusals_mean_what_they_mean() {
    let about = |reason| status(reason, "endpointslices", "s").to_string();
    let mut terminating = status("Forbidden", "endpointslices", "s");
    terminating["details"]["causes"] = json!([{"reason": "NamespaceTerminating"}]);
    let terminating = terminating.to_string();
    for (verb, code, body, outcome) in [
        (
            RequestKind::Create,
            409,
            &*about("AlreadyExists"),
            Outcome::Exists,
        ),
        (RequestKind::Update, 409, &about("Conflict"), Outcome::Conflict),
        (RequestKind::Delete, 409, &about("Conflict"), Outcome::Conflict),
        (RequestKind::Create, 403, &terminating, Outcome::Terminating),
        (RequestKind::Update, 403, &terminating, Outcome::Rejected),
        (RequestKind::Create, 403, &about("Forbidden"), Outcome::Rejected),
        (RequestKind::Update, 422, &about("Invalid"), Outcome::Rejected),
        (
            RequestKind::Update,
            429,
            "Too many requests, please try again later.",
            Outcome::Throttled,
        ),
        (RequestKind::Update, 500, "", Outcome::Unknown),
        (RequestKind::Update, 504, &about("Timeout"), Outcome::Unknown),
    ] {
        assert_eq!(of_slice(verb, code, body), outcome, "{verb:?} {code} {body}");
    }
}

/// As real servers write them.
#[test]
fn a_status_not_found_about_the_object_is_believed() {
    let recorded = |text: &str, name: &str| {
        let mut status: Value = serde_json::from_str(text).unwrap();
        status["details"]["name"] = name.into();
        status.to_string()
    };
    let put = recorded(
        include_str!("../../../../loadtest/apiserver/tests/wire/put.not-found.json"),
        "s",
    );
    let delete = recorded(
        include_str!("../../../../loadtest/apiserver/tests/wire/delete.not-found.json"),
        "s",
    );
    for verb in [RequestKind::Update, RequestKind::Delete, RequestKind::Fetch] {
        assert_eq!(of_slice(verb, 404, &put), Outcome::NotFound);
        assert_eq!(of_slice(verb, 404, &delete), Outcome::NotFound);
    }
    let endpoints = status("NotFound", "endpoints", "s").to_string();
    assert_eq!(
        of(Output::Endpoints, RequestKind::Update, 404, &endpoints),
        Outcome::NotFound
    );
    let service = status("NotFound", "services", "s").to_string();
    assert_eq!(
        of(Output::Endpoints, RequestKind::Probe, 404, &service),
        Outcome::NotFound
    );
    // Without its namespace there is no object, and none can be made.
    let namespace = recorded(
        include_str!("../../../../loadtest/apiserver/tests/wire/post.namespace-missing.json"),
        "ns",
    );
    assert_eq!(
        of_slice(RequestKind::Create, 404, &namespace),
        Outcome::Terminating
    );
    assert_eq!(of_slice(RequestKind::Update, 404, &namespace), Outcome::NotFound);
}

#[test]
fn any_other_404_says_nothing() {
    let mut other_group = status("NotFound", "endpointslices", "s");
    other_group["details"]["group"] = "example.com".into();
    let mut no_status = status("NotFound", "endpointslices", "s");
    no_status["kind"] = "Error".into();
    let bodies = [
        String::new(),
        PAGE.to_owned(),
        "404 page not found\n".to_owned(),
        "{}".to_owned(),
        // From a path that nothing is served at.
        json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "details": {}, "code": 404})
            .to_string(),
        status("NotFound", "endpointslices", "other").to_string(),
        status("NotFound", "pods", "s").to_string(),
        status("NotFound", "namespaces", "other").to_string(),
        status("", "endpointslices", "s").to_string(),
        other_group.to_string(),
        no_status.to_string(),
    ];
    for body in &bodies {
        for verb in VERBS {
            for output in [Output::Slice, Output::Endpoints] {
                assert_eq!(of(output, verb, 404, body), Outcome::Unknown, "{verb:?} {body}");
            }
        }
    }
    let about_it = status("NotFound", "endpointslices", "s").to_string();
    assert_eq!(
        of_slice(RequestKind::Create, 404, &about_it),
        Outcome::Unknown,
        "what is to be created is missing anyway"
    );
    let mut about_another = status("Forbidden", "pods", "x");
    about_another["details"]["causes"] = json!([{"reason": "NamespaceTerminating"}]);
    assert_eq!(
        of_slice(RequestKind::Create, 403, about_another.to_string()),
        Outcome::Rejected
    );
}

#[test]
fn an_answer_shows_the_object_or_says_nothing() {
    let none = json!({});
    let written = Outcome::Written(Remote {
        uid: Uid::from("u"),
        version: 7,
    });
    for verb in [RequestKind::Create, RequestKind::Update] {
        for kind in ["PartialObjectMetadata", "EndpointSlice"] {
            assert_eq!(of_slice(verb, 200, object(kind, &none)), written);
        }
    }
    let slice = of_slice(RequestKind::Fetch, 200, object("EndpointSlice", &none));
    assert!(
        matches!(
            slice,
            Outcome::Fetched {
                content: Content::Slice(_),
                ..
            }
        ),
        "{slice:?}"
    );
    let endpoints = of(
        Output::Endpoints,
        RequestKind::Fetch,
        200,
        object("Endpoints", &none),
    );
    assert!(
        matches!(
            endpoints,
            Outcome::Fetched {
                content: Content::Endpoints(_),
                ..
            }
        ),
        "{endpoints:?}"
    );
    let unlabelled = object("EndpointSlice", &json!({"labels": null}));
    assert!(matches!(
        of_slice(RequestKind::Fetch, 200, &unlabelled),
        Outcome::Foreign { .. }
    ));
    for kind in ["Service", "PartialObjectMetadata"] {
        assert_eq!(
            of_slice(RequestKind::Probe, 200, object(kind, &none)),
            Outcome::Exists
        );
    }

    let mut wrong: Vec<Vec<u8>> = ["", PAGE, "{}"].map(Into::into).to_vec();
    for over in [
        json!({"name": "other"}),
        json!({"namespace": "other"}),
        json!({"uid": null}),
    ] {
        for kind in ["PartialObjectMetadata", "EndpointSlice", "Endpoints", "Service"] {
            wrong.push(object(kind, &over));
        }
    }
    wrong.push(object("Pod", &none));
    for body in &wrong {
        for verb in VERBS {
            for output in [Output::Slice, Output::Endpoints] {
                assert_eq!(of(output, verb, 200, body), Outcome::Unknown, "{verb:?} {body:?}");
            }
        }
    }
    let unversioned = object("PartialObjectMetadata", &json!({"resourceVersion": null}));
    assert_eq!(of_slice(RequestKind::Update, 200, &unversioned), Outcome::Unknown);
    let partial = object("PartialObjectMetadata", &none);
    assert_eq!(
        of_slice(RequestKind::Fetch, 200, &partial),
        Outcome::Unknown,
        "whole objects are fetched"
    );
}

#[test]
fn a_delete_is_done_when_the_server_says_so_of_the_object() {
    let mut done: Value = serde_json::from_str(include_str!(
        "../../../../loadtest/apiserver/tests/wire/delete.ok.json"
    ))
    .unwrap();
    assert_eq!(
        of_slice(RequestKind::Delete, 200, done.to_string()),
        Outcome::Unknown,
        "of another slice"
    );
    done["details"]["name"] = "s".into();
    assert_eq!(
        of_slice(RequestKind::Delete, 200, done.to_string()),
        Outcome::Deleted(None)
    );
    assert_eq!(
        of(Output::Endpoints, RequestKind::Delete, 200, done.to_string()),
        Outcome::Unknown
    );
    // Some servers name the kind.
    done["details"]["kind"] = "EndpointSlice".into();
    assert_eq!(
        of_slice(RequestKind::Delete, 200, done.to_string()),
        Outcome::Deleted(None)
    );
    // Since 1.38, with a version at which it is gone.
    done["metadata"] = json!({"resourceVersion": "42"});
    assert_eq!(
        of_slice(RequestKind::Delete, 200, done.to_string()),
        Outcome::Deleted(Some(42))
    );
    done["metadata"] = json!({"resourceVersion": "soon"});
    assert_eq!(
        of_slice(RequestKind::Delete, 200, done.to_string()),
        Outcome::Deleted(None)
    );
    // With finalizers it is still there, and shown, as of the write that has begun its deletion.
    let kept = object(
        "EndpointSlice",
        &json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    );
    assert_eq!(
        of_slice(RequestKind::Delete, 200, &kept),
        Outcome::Deleted(Some(7))
    );
    assert_eq!(of_slice(RequestKind::Delete, 200, PAGE), Outcome::Unknown);
    assert_eq!(of_slice(RequestKind::Delete, 204, ""), Outcome::Unknown);
}

#[test]
fn an_object_that_is_too_large_is_known_by_its_answer() {
    let failed =
        |message: &str| json!({"kind": "Status", "status": "Failure", "message": message}).to_string();
    let too_large = Outcome::TooLarge { bytes: 5000 };
    for (code, body) in [
        (413, status("RequestEntityTooLarge", "", "").to_string()),
        (413, PAGE.to_owned()),
        (500, failed("etcdserver: request is too large")),
        (
            500,
            failed(
                "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2098165 vs. 2097152)",
            ),
        ),
    ] {
        for verb in [RequestKind::Create, RequestKind::Update] {
            assert_eq!(of_slice(verb, code, &body), too_large, "{body}");
        }
        assert_ne!(of_slice(RequestKind::Fetch, code, &body), too_large);
    }
    let other = failed("etcdserver: request timed out");
    assert_eq!(of_slice(RequestKind::Update, 500, &other), Outcome::Unknown);
    let said_by_a_page = "etcdserver: request is too large";
    assert_eq!(
        of_slice(RequestKind::Update, 500, said_by_a_page),
        Outcome::Unknown
    );
}

#[test]
fn an_answer_that_cannot_be_read_says_why() {
    let why = |output, verb, body: &[u8]| {
        let asked = Asked {
            verb,
            bytes: 5000,
            output,
            namespace: "ns",
            name: "s",
        };
        match judge(&asked, StatusCode::OK, body) {
            (Outcome::Unknown, Some(Remark::Unreadable(why))) => why.to_string(),
            other => panic!("{body:?}: {other:?}"),
        }
    };
    let mut endpoints =
        json!({"metadata": {"name": "s", "namespace": "ns", "uid": "u", "resourceVersion": "7"}});
    endpoints["subsets"] = json!(["none"]);
    let malformed = protobuf::object("Endpoints", &endpoints);
    let told = why(Output::Endpoints, RequestKind::Fetch, &malformed);
    assert_eq!(told, "malformed protobuf: field 13 has another type");
    let told = why(
        Output::Endpoints,
        RequestKind::Fetch,
        endpoints.to_string().as_bytes(),
    );
    assert_eq!(told, "the server answered in JSON, and was asked for protobuf");
    let slice = object("EndpointSlice", &json!({"resourceVersion": "soon"}));
    for verb in [RequestKind::Fetch, RequestKind::Update] {
        let told = why(Output::Slice, verb, &slice);
        assert_eq!(told, "metadata.resourceVersion is missing or malformed");
    }
    let other = object("EndpointSlice", &json!({"name": "other"}));
    let told = why(Output::Slice, RequestKind::Fetch, &other);
    assert_eq!(told, "it does not show the object");
}
