//! Bodies in protobuf: what is kept of them, what is refused, and servers that take none.

use crate::client::{Answer, Api, PODS, SERVICES, SLICES, pod, service, slice};
use crate::conformance::clean;
use crate::protobuf::{BENCH, METADATA_LIST, NAME, PROTOBUF, WATCH, bench, get, message, send, write};
use crate::wire::{self, all, at, envelope, open};
use memory_apiserver::{Config, Protobuf};
use serde_json::{Value, json};

/// Objects that have a bit of everything.
async fn zoo(api: &Api) -> Vec<String> {
    let core = "/api/v1/namespaces/ns";
    let mut rich = pod("rich");
    rich["spec"]["containers"][0]["livenessProbe"] =
        json!({"httpGet": {"port": "http"}, "timeoutSeconds": 2});
    rich["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
    rich["spec"]["containers"][0]["env"] = json!([
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": false}}},
        {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
    ]);
    rich["spec"]["volumes"] = json!([
        {"name": "e", "emptyDir": {"sizeLimit": "1Gi"}}, {"name": "c", "configMap": {"name": "c"}},
        {"name": "p", "projected": {"sources": [{"secret": {"name": "s"}}]}},
    ]);
    rich["spec"]["securityContext"] = json!({"runAsUser": 9_000_000_000_i64, "supplementalGroups": [1, 2]});
    rich["spec"]["tolerations"] = json!([{"operator": "Exists", "tolerationSeconds": -5}]);
    let mut templated = service("deployed");
    templated["spec"] = json!({
        "selector": {"matchLabels": {"app": "web"}}, "template": pod("x"),
        "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": "10%"}},
    });
    templated["spec"]["template"]["metadata"] = json!({"labels": {"app": "web"}});
    let mut paths = Vec::new();
    for (collection, object) in [
        (PODS.to_owned(), rich),
        (SERVICES.to_owned(), service("s")),
        (SLICES.to_owned(), slice("s")),
        (
            format!("{core}/endpoints"),
            json!({"metadata": {"name": "e"}, "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1}]}]}),
        ),
        (
            format!("{core}/events"),
            json!({"metadata": {"name": "v"}, "involvedObject": {"namespace": "ns"}, "count": 3,
                "lastTimestamp": "2026-01-01T00:00:00Z"}),
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/ns/leases".to_owned(),
            json!({"metadata": {"name": "l"}, "spec": {"renewTime": "2026-01-01T00:00:00.000001Z", "leaseTransitions": 0}}),
        ),
        ("/apis/apps/v1/namespaces/ns/deployments".to_owned(), templated),
        (
            "/api/v1/nodes".to_owned(),
            json!({"metadata": {"name": "n"}, "status": {"capacity": {"pods": 110}}}),
        ),
    ] {
        let made = api.create(&collection, object).await;
        paths.push(format!(
            "{collection}/{}",
            made["metadata"]["name"].as_str().unwrap()
        ));
    }
    paths
}

#[tokio::test(start_paused = true)]
async fn what_is_read_in_protobuf_can_be_written_back() {
    let api = Api::plain().await;
    let copy = Api::plain().await;
    for path in zoo(&api).await {
        let json = api.get(&path).await;
        let answer = get(&api, &path, PROTOBUF).await;
        let written = send(&api, "PUT", &path, "application/json", &answer.raw).await;
        assert_eq!(
            (written.status, &written.body),
            (200, &json),
            "{path}: nothing has changed"
        );
        // A copy that comes in protobuf is kept as one that comes in JSON.
        let collection = path.rsplit_once('/').unwrap().0;
        let (kind, message) = open(&answer.raw);
        let (api_version, kind) = kind.split_once(' ').unwrap();
        let body = envelope(api_version, kind, &wire::clean(message));
        let made = send(&copy, "POST", collection, "application/json", &body).await;
        assert_eq!(made.status, 201, "{path}: {}", made.body);
        let mut sent = clean(&json);
        if kind != "Node" {
            sent.as_object_mut().unwrap().remove("status");
        }
        copy.delete(&path, json!({"gracePeriodSeconds": 0})).await;
        let again = copy.create(collection, sent).await;
        assert_eq!(clean(&made.body), clean(&again), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn patches_are_answered_in_protobuf_and_never_sent_in_it() {
    let api = Api::plain().await;
    api.create(PODS, pod("a")).await;
    let path = format!("{PODS}/a");
    let headers = [("content-type", crate::client::MERGE), ("accept", PROTOBUF)];
    let patch = br#"{"metadata":{"labels":{"x":"y"}}}"#;
    let answer = api.raw("PATCH", &path, &headers, patch).await;
    assert_eq!((answer.status, answer.media.as_str()), (200, PROTOBUF));
    assert_eq!(open(&answer.raw).1, message(&api, &path).await);
    assert_eq!(send(&api, "PATCH", &path, "*/*", patch).await.status, 415);
}

#[tokio::test(start_paused = true)]
async fn options_of_a_deletion() {
    let api = Api::plain().await;
    api.create(PODS, pod("a")).await;
    let path = format!("{PODS}/a");
    let options = |message: &[u8]| envelope("v1", "DeleteOptions", message);
    let other = options(&wire::field(
        2,
        &wire::field(1, b"00000000-0000-0000-0000-000000000000"),
    ));
    let answer = send(&api, "DELETE", &path, PROTOBUF, &other).await;
    assert_eq!(
        (answer.status, wire::text(open(&answer.raw).1, &[4]).as_str()),
        (409, "Conflict")
    );
    let answer = send(&api, "DELETE", &path, PROTOBUF, b"k8s\0\x0a").await;
    assert_eq!(answer.status, 400);
    // A grace of five seconds, and then of none.
    let answer = send(&api, "DELETE", &path, PROTOBUF, &options(&[8, 5])).await;
    assert_eq!((answer.status, open(&answer.raw).0.as_str()), (200, "v1 Pod"));
    assert_eq!(api.get(&path).await["metadata"]["deletionGracePeriodSeconds"], 5);
    let answer = send(&api, "DELETE", &path, PROTOBUF, &options(&[8, 0])).await;
    assert_eq!(answer.status, 200);
    assert!(api.is_gone(&path).await);
    api.create(SLICES, slice("s")).await;
    let answer = send(&api, "DELETE", &format!("{SLICES}/s"), PROTOBUF, b"").await;
    let (kind, status) = open(&answer.raw);
    assert_eq!(
        (kind.as_str(), wire::text(status, &[2]).as_str()),
        ("v1 Status", "Success")
    );
}

#[tokio::test(start_paused = true)]
async fn bodies_that_are_none() {
    let api = Api::plain().await;
    let before = api.everything().await;
    let pod = envelope("v1", "Pod", b"");
    let says = |answer: &Answer| answer.body["message"].as_str().unwrap().to_owned();
    for (body, message) in [
        (
            &b""[..],
            "the object provided is unrecognized (must be of type Pod): empty data (<empty>)",
        ),
        (
            b"k8s\0",
            "the object provided is unrecognized (must be of type Pod): empty body (6b387300)",
        ),
        (
            b"k8s\0\x0f",
            "the object provided is unrecognized (must be of type Pod): proto: illegal wireType 7 (6b3873000f)",
        ),
        (
            &envelope("v1", "Pod", b"\x0a\x7f"),
            "Pod in version \"v1\" cannot be handled as a Pod: unexpected EOF",
        ),
        (
            &envelope("v1", "Pod", b"\x12\x03\x12\x01\x08"),
            "Pod in version \"v1\" cannot be handled as a Pod: unexpected EOF",
        ),
        (
            &envelope("v1", "Pod", b"\x12\x02\x18\x01"),
            "Pod in version \"v1\" cannot be handled as a Pod: proto: wrong wireType = 0 for field RestartPolicy",
        ),
        // A length of an exabyte.
        (
            &envelope("v1", "Pod", b"\x0a\xff\xff\xff\xff\xff\xff\xff\x0f"),
            "Pod in version \"v1\" cannot be handled as a Pod: unexpected EOF",
        ),
        (
            &envelope("v1", "Service", b""),
            "Service in version \"v1\" cannot be handled as a Pod: converting (v1.Service) to (core.Pod): unknown \
             conversion",
        ),
    ] {
        let answer = send(&api, "POST", PODS, "*/*", body).await;
        assert_eq!((answer.status, says(&answer).as_str()), (400, message));
    }
    assert_eq!(
        send(&api, "POST", PODS, "*/*", &pod).await.status,
        422,
        "an empty pod is read and invalid"
    );
    assert_eq!(api.everything().await, before);
    // Unknown fields are dropped, strictness or not.
    let known = wire::field(1, &wire::field(1, b"c"));
    let body = envelope(
        "v1",
        "Endpoints",
        &[known, b"\x7a\x01x\xf8\x07\x01".to_vec()].concat(),
    );
    let path = "/api/v1/namespaces/ns/endpoints?fieldValidation=Strict";
    let answer = send(&api, "POST", path, "*/*", &body).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
}

#[tokio::test(start_paused = true)]
async fn long_lists_come_in_pieces_and_whole() {
    let api = Api::plain().await;
    for i in 0..300 {
        let mut big = slice(&format!("s{i:03}"));
        let endpoints: Vec<Value> = (0..100)
            .map(|e| json!({"addresses": [format!("10.1.{}.{e}", i % 250)], "nodeName": "a-node"}))
            .collect();
        big["endpoints"] = endpoints.into();
        api.create(SLICES, big).await;
    }
    // Twice: lengths are remembered.
    for _ in 0..2 {
        for (accept, metadata) in [(PROTOBUF, false), (METADATA_LIST, true)] {
            let list = get(&api, SLICES, accept).await;
            assert!(metadata || list.raw.len() > 500_000, "{}", list.raw.len());
            let items = all(open(&list.raw).1, 2);
            assert_eq!(items.len(), 300);
            for i in [0, 150, 299] {
                let whole = message(&api, &format!("{SLICES}/s{i:03}")).await;
                if metadata {
                    assert_eq!(at(items[i], &[1]), at(&whole, &[1]));
                } else {
                    assert_eq!(items[i], whole);
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_without_protobuf() {
    let some = Protobuf::Unsupported(["endpointslices", "leases"].into());
    let api = bench(Config::default().protobuf(some)).await;
    api.create(PODS, pod("a")).await;
    let both = format!("{PROTOBUF},application/json");
    for (accept, status, media) in [
        (PROTOBUF, 406, "application/json"),
        (METADATA_LIST, 406, "application/json"),
        (both.as_str(), 200, "application/json"),
    ] {
        let answer = get(&api, BENCH, accept).await;
        assert_eq!(
            (answer.status, answer.media.as_str()),
            (status, media),
            "{accept}"
        );
        assert_eq!(get(&api, PODS, accept).await.media, PROTOBUF, "{accept}");
    }
    let answer = send(
        &api,
        "PUT",
        &format!("{BENCH}/{NAME}"),
        "application/json",
        &write(""),
    )
    .await;
    assert_eq!(answer.status, 415);
    assert_eq!(
        answer.body["message"],
        "the body of the request was in an unknown format - accepted media types include: application/json, \
         application/yaml"
    );
    let api = bench(Config::default().protobuf(Protobuf::Unsupported("*".into()))).await;
    assert_eq!(get(&api, PODS, PROTOBUF).await.status, 406);
}

#[tokio::test(start_paused = true)]
async fn a_proxy_that_ignores_accept() {
    let api = bench(Config::default().protobuf(Protobuf::AcceptIgnored)).await;
    for (path, accept, kind) in [
        (BENCH, PROTOBUF, "EndpointSliceList"),
        (BENCH, METADATA_LIST, "PartialObjectMetadataList"),
        ("/api/v1/namespaces/ns/pods/nope", PROTOBUF, "Status"),
    ] {
        let answer = get(&api, path, accept).await;
        assert_eq!(
            (answer.media.as_str(), &answer.body["kind"]),
            ("application/json", &json!(kind))
        );
    }
    let mut watch = api.watch_as(&format!("{BENCH}?watch=1"), WATCH).await;
    assert_eq!(watch.told().await, format!("ADDED {NAME}"));
    let answer = send(&api, "PUT", &format!("{BENCH}/{NAME}"), PROTOBUF, &write("")).await;
    assert_eq!(
        (answer.status, &answer.body["kind"]),
        (200, &json!("EndpointSlice"))
    );
}
