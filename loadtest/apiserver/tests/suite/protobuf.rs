//! Objects in protobuf, beside what a real server answered.

use crate::client::{Answer, Api, PODS, pod};
use crate::conformance::{capture, clean, recorded};
use crate::wire::{self, all, at, envelope, event, frames, open};
use memory_apiserver::Config;
use serde_json::{Value, json};

pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
pub(crate) const WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";
pub(crate) const METADATA: &str =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
pub(crate) const METADATA_LIST: &str =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
pub(crate) const BENCH: &str = "/apis/discovery.k8s.io/v1/namespaces/bench-0/endpointslices";
pub(crate) const NAME: &str = "svc-0-tgfhf";
pub(crate) async fn get(api: &Api, path: &str, accept: &str) -> Answer {
    api.raw("GET", path, &[("accept", accept)], b"").await
}

/// The message of an answer that is one.
pub(crate) async fn message(api: &Api, path: &str) -> Vec<u8> {
    let answer = get(api, path, PROTOBUF).await;
    assert_eq!((answer.status, answer.media.as_str()), (200, PROTOBUF), "{path}");
    open(&answer.raw).1.to_vec()
}

pub(crate) async fn send(api: &Api, method: &str, path: &str, accept: &str, body: &[u8]) -> Answer {
    let headers = [("content-type", PROTOBUF), ("accept", accept)];
    api.raw(method, path, &headers, body).await
}

fn sorted(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.sort_unstable();
    bytes
}

#[tokio::test(start_paused = true)]
async fn lists_are_the_real_servers() {
    let api = crate::conformance::api().await;
    for (file, path) in [
        ("nodes.list.pb", "/api/v1/nodes"),
        ("services.list.pb", "/api/v1/namespaces/wirc-0/services"),
        ("endpoints.list.pb", "/api/v1/namespaces/wirc-0/endpoints"),
        (
            "endpointslices.list.pb",
            "/apis/discovery.k8s.io/v1/namespaces/wirc-0/endpointslices",
        ),
        ("pods.list.pb", "/api/v1/namespaces/wirc-0/pods"),
    ] {
        let answer = get(&api, path, PROTOBUF).await;
        assert_eq!((answer.status, answer.media.as_str()), (200, PROTOBUF), "{file}");
        let real = recorded(file);
        let ((kind, ours), (real_kind, theirs)) = (open(&answer.raw), open(&real));
        assert_eq!(kind, real_kind);
        let (ours, theirs) = (all(ours, 2), all(theirs, 2));
        assert_eq!(ours.len(), theirs.len(), "{file}");
        for (ours, theirs) in ours.into_iter().zip(theirs) {
            let (ours, theirs) = (wire::clean(ours), wire::clean(theirs));
            if file == "endpoints.list.pb" {
                // Ports of a subset are ordered by a hash there, by their text here.
                assert_eq!(sorted(&ours), sorted(&theirs));
            } else {
                assert_eq!(
                    ours.escape_ascii().to_string(),
                    theirs.escape_ascii().to_string(),
                    "{file}"
                );
            }
        }
    }
    // The metadata of a page: its continue token and how many are left.
    let page = get(&api, "/api/v1/namespaces/wirc-0/pods?limit=4", PROTOBUF).await;
    let meta = at(open(&page.raw).1, &[1]).to_vec();
    let (json, real) = (
        api.get("/api/v1/namespaces/wirc-0/pods?limit=4").await,
        recorded("pods.list.pb"),
    );
    assert_eq!(
        wire::text(&meta, &[3]),
        json["metadata"]["continue"].as_str().unwrap()
    );
    let numbers = |meta: &[u8]| wire::fields(meta).iter().map(|f| f.number).collect::<Vec<_>>();
    assert_eq!(numbers(&meta), numbers(at(open(&real).1, &[1])));
}

#[tokio::test(start_paused = true)]
async fn metadata_lists_are_the_real_servers() {
    let api = crate::conformance::api().await;
    let path = "/apis/discovery.k8s.io/v1/namespaces/wirc-0/endpointslices";
    let answer = get(&api, path, METADATA_LIST).await;
    assert_eq!((answer.status, answer.media.as_str()), (200, PROTOBUF));
    let real = recorded("endpointslices.metadata.pb");
    let ((kind, ours), (real_kind, theirs)) = (open(&answer.raw), open(&real));
    assert_eq!(kind, real_kind);
    let (ours, theirs) = (all(ours, 2), all(theirs, 2));
    assert!(!ours.is_empty());
    let cleaned = |items: Vec<&[u8]>| items.into_iter().map(wire::clean).collect::<Vec<_>>();
    assert_eq!(cleaned(ours), cleaned(theirs));
}

/// A server with the slice that the recorded writes are about.
pub(crate) async fn bench(config: Config) -> Api {
    let api = Api::new(config.gc(false).seed(1)).await;
    api.create("/api/v1/namespaces", json!({"metadata": {"name": "bench-0"}}))
        .await;
    api.create(BENCH, clean(&capture("put.slice.json-answer.json")))
        .await;
    api
}

/// The recorded write without the uid of the real server's object, and with this version in place of its own.
pub(crate) fn write(version: &str) -> Vec<u8> {
    let body = recorded("request.put.slice.txt");
    let (_, object) = open(&body);
    let metadata = wire::without(at(object, &[1]), &[5, 6]);
    let metadata = [metadata, wire::field(6, version.as_bytes())].concat();
    let object = [wire::field(1, &metadata), wire::without(object, &[1])].concat();
    envelope("discovery.k8s.io/v1", "EndpointSlice", &object)
}

#[tokio::test(start_paused = true)]
async fn writes_are_answered_as_by_a_real_server() {
    let api = bench(Config::default()).await;
    let path = format!("{BENCH}/{NAME}");
    let version = api.get(&path).await["metadata"]["resourceVersion"].clone();
    let body = write(version.as_str().unwrap());

    let got = get(&api, &path, PROTOBUF).await;
    let (real_get, real) = (recorded("get.slice.pb"), recorded("put.slice.pb"));
    assert_eq!(wire::clean(open(&got.raw).1), wire::clean(open(&real_get).1));
    let whole = send(&api, "PUT", &path, PROTOBUF, &body).await;
    assert_eq!(
        (whole.status, whole.media.as_str()),
        (200, PROTOBUF),
        "{}",
        whole.body
    );
    assert_eq!(open(&whole.raw).0, open(&real).0);
    assert_eq!(wire::clean(open(&whole.raw).1), wire::clean(open(&real).1));

    let version = api.get(&path).await["metadata"]["resourceVersion"].clone();
    let body = write(version.as_str().unwrap());
    let partial = send(&api, "PUT", &path, METADATA, &body).await;
    let real = recorded("put.slice.metadata.pb");
    assert_eq!((partial.status, partial.media.as_str()), (200, PROTOBUF));
    assert_eq!(open(&partial.raw).0, open(&real).0);
    assert_eq!(wire::clean(open(&partial.raw).1), wire::clean(open(&real).1));

    let json = send(&api, "PUT", &path, "application/json", &body).await;
    assert_eq!((json.status, json.media.as_str()), (200, "application/json"));
    let unmanaged = |object: &Value| {
        let mut object = clean(object);
        object["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("managedFields");
        object
    };
    assert_eq!(
        unmanaged(&json.body),
        unmanaged(&capture("put.slice.json-answer.json"))
    );
}

#[tokio::test(start_paused = true)]
async fn refusals_are_the_real_servers() {
    let api = bench(Config::default()).await;
    let before = api.everything().await;
    let with_version = recorded("request.put.slice.txt");
    let (missing, stored) = (format!("{BENCH}/nope"), format!("{BENCH}/{NAME}"));
    let (bad, json) = (
        recorded("request.post.bad-protobuf.txt"),
        recorded("request.post.json-as-protobuf.txt"),
    );
    for (file, status, method, path, body) in [
        (
            "put.conflict.from-pb.json",
            409,
            "PUT",
            stored.as_str(),
            &write("948"),
        ),
        ("put.wrong-name.from-pb.json", 400, "PUT", &missing, &with_version),
        ("post.version-set.from-pb.json", 500, "POST", BENCH, &with_version),
        ("post.bad-protobuf.json", 400, "POST", BENCH, &bad),
        ("post.json-as-protobuf.json", 400, "POST", BENCH, &json),
    ] {
        let answer = send(&api, method, path, METADATA, body).await;
        let media = "application/json";
        assert_eq!((answer.status, answer.media.as_str()), (status, media), "{file}");
        same_refusal(file, &answer);
        // The same as a message, for clients that accept it.
        let answer = send(&api, method, path, PROTOBUF, body).await;
        assert_eq!(
            (answer.status, answer.media.as_str()),
            (status, PROTOBUF),
            "{file}"
        );
        let (kind, refusal) = open(&answer.raw);
        assert_eq!(kind, "v1 Status");
        assert_eq!(
            wire::text(refusal, &[3]),
            capture(file)["message"].as_str().unwrap()
        );
    }
    assert_eq!(api.everything().await, before);
    let answer = get(&api, &missing, PROTOBUF).await;
    assert_eq!((answer.status, answer.media.as_str()), (404, PROTOBUF));
    assert_eq!(answer.raw, recorded("get.not-found.pb"));
    for (file, accept) in [
        ("list.not-acceptable.txt", "application/x-nothing"),
        ("list.cbor.txt", "application/cbor"),
    ] {
        let answer = get(&api, "/api/v1/namespaces?limit=1", accept).await;
        assert_eq!((answer.status, answer.media.as_str()), (406, "application/json"));
        same_refusal(file, &answer);
    }
}

/// The recorded refusal, as it was laid out: only the order of fields within an object is another.
fn same_refusal(file: &str, answer: &Answer) {
    let real = recorded(file);
    assert_eq!(
        answer.body,
        serde_json::from_slice::<Value>(&real).unwrap(),
        "{file}"
    );
    assert_eq!(sorted(&answer.raw), sorted(&real), "{file}");
}

#[tokio::test(start_paused = true)]
async fn parameters_that_are_not_known_change_nothing() {
    let api = crate::conformance::api().await;
    let path = "/api/v1/namespaces/wirc-0/pods?limit=1";
    for (accept, plain, file) in [
        (
            "application/json;drop=metadata.managedFields",
            "application/json",
            "list.drop.json",
        ),
        (
            "application/json;drop=metadata.managedFields,application/json",
            "application/json",
            "list.drop-and-plain.json",
        ),
        (
            "application/cbor,application/json",
            "application/json",
            "list.cbor-or-json.json",
        ),
        (
            "application/vnd.kubernetes.protobuf;drop=metadata.managedFields",
            PROTOBUF,
            "list.drop.pb",
        ),
    ] {
        let answer = get(&api, path, accept).await;
        assert_eq!((answer.status, answer.media.as_str()), (200, plain), "{accept}");
        assert_eq!(answer.raw, get(&api, path, plain).await.raw);
        let real = recorded(file);
        assert_eq!(real.starts_with(b"k8s\0"), answer.raw.starts_with(b"k8s\0"));
    }
}

/// The frames of a watch that ends.
pub(crate) async fn stream(api: &Api, path: &str, accept: &str) -> Vec<u8> {
    let answer = get(api, path, accept).await;
    assert_eq!((answer.status, answer.media.as_str()), (200, WATCH), "{path}");
    answer.raw.to_vec()
}

#[tokio::test(start_paused = true)]
async fn watches_tell_the_same_in_both() {
    let api = Api::plain().await;
    for name in ["a", "b"] {
        api.create(PODS, pod(name)).await;
    }
    let from = api.server.resource_version();
    api.create(PODS, pod("c")).await;
    api.patch(
        &format!("{PODS}/a"),
        json!({"metadata": {"labels": {"app": "other"}}}),
    )
    .await;
    api.delete(&format!("{PODS}/b"), json!({"gracePeriodSeconds": 0}))
        .await;
    for query in [
        format!("watch=1&resourceVersion={from}&timeoutSeconds=100&allowWatchBookmarks=true"),
        format!("watch=1&resourceVersion={from}&timeoutSeconds=100&labelSelector=app%3Dweb"),
        "watch=1&timeoutSeconds=100&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
            .to_owned(),
        "watch=1&timeoutSeconds=1&resourceVersion=1000000".to_owned(),
    ] {
        let path = format!("{PODS}?{query}");
        let json = api.watch(&path).await.rest().await;
        for accept in [PROTOBUF, WATCH] {
            let bytes = stream(&api, &path, accept).await;
            let (frames, rest) = frames(&bytes);
            assert_eq!((frames.len(), rest.len()), (json.len(), 0), "{query}");
            for (frame, line) in frames.into_iter().zip(&json) {
                let (told, kind, object) = event(frame);
                assert_eq!((told.as_str(), kind.as_str()), (line["type"].as_str().unwrap(), "v1 Pod"));
                let version = &line["object"]["metadata"]["resourceVersion"];
                assert_eq!(wire::text(object, &[1, 6]), version.as_str().unwrap());
                let name = line["object"]["metadata"]["name"].as_str().unwrap_or("");
                assert_eq!(wire::text(object, &[1, 1]), name);
            }
        }
    }
    // The last event of an object is the object.
    let bytes = stream(
        &api,
        &format!("{PODS}?watch=1&resourceVersion={from}&timeoutSeconds=1"),
        WATCH,
    )
    .await;
    let (all, _) = frames(&bytes);
    let (_, _, changed) = event(all[1]);
    assert_eq!(changed, message(&api, &format!("{PODS}/a")).await);
}

#[tokio::test(start_paused = true)]
async fn metadata_watches_are_the_real_servers() {
    let api = bench(Config::default()).await;
    let path = format!(
        "{BENCH}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true\
         &timeoutSeconds=2"
    );
    let real = recorded("watch.metadata.pb");
    let (theirs, _) = frames(&real);
    for accept in [METADATA.to_owned(), format!("{METADATA};stream=watch")] {
        let bytes = stream(&api, &path, &accept).await;
        let (ours, rest) = frames(&bytes);
        assert_eq!((ours.len(), rest.len()), (theirs.len(), 0));
        for (ours, theirs) in ours.into_iter().zip(&theirs) {
            let (ours, theirs) = (event(ours), event(theirs));
            assert_eq!((&ours.0, &ours.1), (&theirs.0, &theirs.1));
            // The recorded slice had one label more by then.
            let unlabelled = |object: &[u8]| wire::without(at(&wire::clean(object), &[1]), &[11]);
            assert_eq!(unlabelled(ours.2), unlabelled(theirs.2));
        }
    }
    let from = api.server.resource_version();
    let change = json!({"metadata": {"annotations": {"a": "b"}}});
    api.patch(&format!("{BENCH}/{NAME}"), change).await;
    let later = format!("{BENCH}?watch=1&resourceVersion={from}&timeoutSeconds=1");
    let bytes = stream(&api, &later, METADATA).await;
    let (told, kind, partial) = event(frames(&bytes).0[0]);
    assert_eq!(
        (told.as_str(), kind.as_str()),
        ("MODIFIED", "meta.k8s.io/v1 PartialObjectMetadata")
    );
    let whole = message(&api, &format!("{BENCH}/{NAME}")).await;
    assert_eq!(at(partial, &[1]), at(&whole, &[1]));
    // Whether whole objects have been asked for before or not.
    stream(&api, &later, WATCH).await;
    assert_eq!(stream(&api, &later, METADATA).await, bytes);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_too_old_a_version_is_told_in_a_frame() {
    let api = Api::plain().await;
    api.create(PODS, pod("a")).await;
    api.server.compact();
    for accept in [WATCH, METADATA] {
        let bytes = stream(&api, &format!("{PODS}?watch=1&resourceVersion=1"), accept).await;
        let (told, kind, status) = event(frames(&bytes).0[0]);
        assert_eq!((told.as_str(), kind.as_str()), ("ERROR", "v1 Status"));
        assert_eq!(wire::text(status, &[4]), "Expired");
    }
}
