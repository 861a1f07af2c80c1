//! The answers of a real server, compared with ours.

use crate::client::{Answer, Api};
use serde_json::{Map, Value, json};

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/wirc-0/endpointslices";
const PODS: &str = "/api/v1/namespaces/wirc-0/pods";
const SLICE: &str = "svc-0-vgbxg";

/// The bytes of a recorded answer or request.
pub(crate) fn recorded(file: &str) -> Vec<u8> {
    let path = format!("{}/tests/wire/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn text(file: &str) -> String {
    let path = format!("{}/tests/wire/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub(crate) fn capture(file: &str) -> Value {
    serde_json::from_str(&text(file)).unwrap()
}

fn events(file: &str) -> Vec<Value> {
    text(file)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Keys and types all the way down; the items of a list are merged.
fn shape(value: &Value) -> Value {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "boolean".into(),
        Value::Number(_) => "number".into(),
        Value::String(_) => "text".into(),
        Value::Array(items) => {
            let mut shapes: Vec<Value> = Vec::new();
            for item in items.iter().map(shape) {
                if !shapes.contains(&item) {
                    shapes.push(item);
                }
            }
            shapes.sort_by_key(Value::to_string);
            shapes.into()
        }
        Value::Object(fields) => fields
            .iter()
            .map(|(k, v)| (k.clone(), shape(v)))
            .collect::<Map<_, _>>()
            .into(),
    }
}

/// Without the bookkeeping of field managers, which this server does not do.
fn unmanaged(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("managedFields");
    object
}

/// A message without what differs from run to run.
fn plain(message: &Value) -> String {
    let mut out = String::new();
    for c in message.as_str().unwrap_or("").chars() {
        if !c.is_ascii_digit() {
            out.push(c);
        } else if !out.ends_with('#') {
            out.push('#');
        }
    }
    match out.split_once("gen-") {
        Some((before, after)) if !after.starts_with('"') => {
            let rest = after.split_once('"').map_or("", |(_, rest)| rest);
            format!("{before}gen-*\"{rest}")
        }
        _ => out,
    }
}

fn same_status(file: &str, code: u16, answer: &Answer) {
    let want = capture(file);
    assert_eq!(answer.status, code, "{file}: {}", answer.body);
    assert_eq!(answer.media, "application/json", "{file}");
    assert_eq!(answer.raw.last(), Some(&b'\n'), "{file}");
    for field in ["kind", "apiVersion", "metadata", "status", "reason", "code"] {
        assert_eq!(answer.body[field], want[field], "{file}: {field}");
    }
    assert_eq!(plain(&answer.body["message"]), plain(&want["message"]), "{file}");
    assert_eq!(
        shape(&answer.body["details"]),
        shape(&want["details"]),
        "{file}: details"
    );
    for field in ["group", "kind", "causes", "retryAfterSeconds"] {
        assert_eq!(
            answer.body["details"][field], want["details"][field],
            "{file}: details.{field}"
        );
    }
    assert_eq!(
        plain(&json!(format!("\"{}\"", answer.body["details"]["name"]))),
        plain(&json!(format!("\"{}\"", want["details"]["name"]))),
        "{file}: details.name"
    );
}

pub(crate) fn clean(object: &Value) -> Value {
    let mut object = object.clone();
    for field in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    object
}

/// A server with what the real one had.
pub(crate) async fn api() -> Api {
    let api = Api::plain().await;
    for name in ["wirc-0", "wire-gone3"] {
        api.create("/api/v1/namespaces", json!({"metadata": {"name": name}}))
            .await;
    }
    for (file, path) in [
        ("nodes.list.json", "/api/v1/nodes"),
        ("services.list.json", "/api/v1/namespaces/wirc-0/services"),
        ("endpoints.list.json", "/api/v1/namespaces/wirc-0/endpoints"),
        ("endpointslices.list.json", SLICES),
        ("pods.list.json", PODS),
    ] {
        for item in capture(file)["items"].as_array().unwrap() {
            let made = api.create(path, clean(item)).await;
            if file == "pods.list.json" {
                let mut with_status = made.clone();
                with_status["status"] = item["status"].clone();
                let path = format!("{path}/{}/status", made["metadata"]["name"].as_str().unwrap());
                api.put(&path, with_status).await;
            }
        }
    }
    api
}

#[tokio::test(start_paused = true)]
async fn lists_have_the_same_shape() {
    let api = api().await;
    for (file, path) in [
        ("nodes.list.json", "/api/v1/nodes"),
        ("services.list.json", "/api/v1/namespaces/wirc-0/services"),
        ("endpoints.list.json", "/api/v1/namespaces/wirc-0/endpoints"),
        ("endpointslices.list.json", SLICES),
    ] {
        let (got, want) = (api.get(path).await, capture(file));
        assert_eq!(shape(&got), shape(&want), "{file}");
        for (got, want) in got["items"]
            .as_array()
            .unwrap()
            .iter()
            .zip(want["items"].as_array().unwrap())
        {
            let (mut got, mut want) = (clean(got), clean(want));
            if file == "endpoints.list.json" {
                // Ports of a subset are ordered by a hash there, by their text here.
                for object in [&mut got, &mut want] {
                    for subset in object["subsets"].as_array_mut().unwrap() {
                        subset["ports"]
                            .as_array_mut()
                            .unwrap()
                            .sort_by_key(Value::to_string);
                    }
                }
            }
            assert_eq!(got, want, "{file}");
        }
    }
    let (got, want) = (
        api.get(&format!("{PODS}?limit=4")).await,
        capture("pods.list.json"),
    );
    assert_eq!(shape(&got["metadata"]), shape(&want["metadata"]));
    let got = api.get(PODS).await;
    for (got, want) in got["items"]
        .as_array()
        .unwrap()
        .iter()
        .zip(want["items"].as_array().unwrap())
    {
        assert_eq!(clean(got), clean(want));
        assert_eq!(shape(got), shape(want));
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_lists_have_the_same_shape() {
    let api = api().await;
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let answer = api.raw("GET", SLICES, &[("accept", accept)], b"").await;
    assert_eq!((answer.status, answer.media.as_str()), (200, "application/json"));
    assert_eq!(
        shape(&answer.body),
        shape(&capture("endpointslices.metadata.json"))
    );
}

#[tokio::test(start_paused = true)]
async fn refusals_are_the_same() {
    let api = api().await;
    api.delete("/api/v1/namespaces/wire-gone3", json!({})).await;
    let nowhere = "/apis/discovery.k8s.io/v1/namespaces/nowhere/endpointslices";
    let terminating = "/apis/discovery.k8s.io/v1/namespaces/wire-gone3/endpointslices";
    let bad_field = format!("{PODS}?fieldSelector=spec.nope%3Db");
    let bad_label = format!("{PODS}?labelSelector=a%3D%3D%3Db");
    let future = format!("{PODS}?resourceVersion=99999999");
    let no_match = format!("{PODS}?watch=1&sendInitialEvents=true");
    for (name, code, method, path) in [
        ("delete.not-found", 404, "DELETE", &format!("{SLICES}/nope")),
        ("get.not-found", 404, "GET", &format!("{PODS}/nope")),
        ("list.bad-field", 400, "GET", &bad_field),
        ("list.bad-selector", 400, "GET", &bad_label),
        ("list.future", 504, "GET", &future),
        ("watch.send-initial-no-match", 422, "GET", &no_match),
        ("method.not-allowed", 405, "PUT", &SLICES.to_owned()),
        ("post.bad-json", 400, "POST", &SLICES.to_owned()),
        ("post.exists", 409, "POST", &SLICES.to_owned()),
        ("post.invalid", 422, "POST", &SLICES.to_owned()),
        ("post.namespace-missing", 404, "POST", &nowhere.to_owned()),
        ("post.namespace-terminating", 403, "POST", &terminating.to_owned()),
        ("post.too-many-endpoints", 422, "POST", &SLICES.to_owned()),
        ("post.wrong-kind", 400, "POST", &SLICES.to_owned()),
        ("put.conflict", 409, "PUT", &format!("{SLICES}/{SLICE}")),
        ("put.immutable", 422, "PUT", &format!("{SLICES}/{SLICE}")),
        ("put.not-found", 404, "PUT", &format!("{SLICES}/gone")),
    ] {
        let mut body = if method == "GET" {
            String::new()
        } else {
            text(&format!("request.{name}.txt"))
        };
        if name.starts_with("put.") && name != "put.not-found" {
            body = as_stored(&api, &body, name != "put.conflict").await;
        }
        let before = api.everything().await;
        let answer = api
            .raw(
                method,
                path,
                &[("content-type", "application/json")],
                body.as_bytes(),
            )
            .await;
        same_status(&format!("{name}.json"), code, &answer);
        assert_eq!(api.everything().await, before, "{name} changed something");
    }
}

/// A captured request with our uid (and version).
async fn as_stored(api: &Api, body: &str, with_version: bool) -> String {
    let stored = api.get(&format!("{SLICES}/{SLICE}")).await;
    let mut body: Value = serde_json::from_str(body).unwrap();
    body["metadata"]["uid"] = stored["metadata"]["uid"].clone();
    if with_version {
        body["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
    }
    body.to_string()
}

#[tokio::test(start_paused = true)]
async fn unknown_media_are_refused_with_what_is_accepted() {
    let api = api().await;
    let want = capture("post.unsupported-media.json");
    let patches = "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, \
         application/apply-patch+yaml";
    for (method, path, media, accepted) in [
        (
            "POST",
            SLICES.to_owned(),
            "text/plain",
            "application/json, application/yaml, application/vnd.kubernetes.protobuf",
        ),
        (
            "PATCH",
            format!("{SLICES}/{SLICE}"),
            "application/x-patch",
            patches,
        ),
    ] {
        let answer = api.raw(method, &path, &[("content-type", media)], b"x").await;
        assert_eq!(answer.status, 415);
        let message = want["message"].as_str().unwrap().split_once(": ").unwrap().0;
        assert_eq!(answer.body["message"], format!("{message}: {accepted}"));
        assert_eq!(answer.body["reason"], want["reason"]);
        assert_eq!(shape(&answer.body), shape(&want));
    }
}

#[tokio::test(start_paused = true)]
async fn writes_are_answered_the_same() {
    let api = api().await;
    let generated = api
        .call("POST", SLICES, capture("request.post.generate-name.txt"))
        .await;
    let want = capture("post.generate-name.json");
    assert_eq!(generated.status, 201);
    let mut wanted = shape(&want);
    wanted["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("managedFields");
    assert_eq!(shape(&generated.body), wanted);
    assert_eq!(generated.body["metadata"]["generation"], 1);
    assert!(
        generated.body["metadata"]["name"]
            .as_str()
            .unwrap()
            .starts_with("gen-")
    );

    let stored = api.get(&format!("{SLICES}/{SLICE}")).await;
    let mut same = stored.clone();
    // The field managers alone are no change.
    same["metadata"]["managedFields"] = capture("put.no-change.json")["metadata"]["managedFields"].clone();
    let answer = api.call("PUT", &format!("{SLICES}/{SLICE}"), same).await;
    assert_eq!((answer.status, &answer.body), (200, &stored));
    let unchanged = capture("put.no-change.json");
    let body = as_stored(&api, &text("request.put.no-change.txt"), true).await;
    let first = api
        .call(
            "PUT",
            &format!("{SLICES}/{SLICE}"),
            serde_json::from_str(&body).unwrap(),
        )
        .await;
    assert_eq!(shape(&first.body), shape(&unchanged));
    let body = as_stored(&api, &text("request.put.no-change.txt"), true).await;
    let second = api
        .call(
            "PUT",
            &format!("{SLICES}/{SLICE}"),
            serde_json::from_str(&body).unwrap(),
        )
        .await;
    assert_eq!((second.status, second.body), (200, first.body));

    let gone = api.call("DELETE", &format!("{SLICES}/{SLICE}"), json!({})).await;
    let want = capture("delete.ok.json");
    assert_eq!((gone.status, shape(&gone.body)), (200, shape(&want)));
    assert_eq!(gone.body["details"]["group"], want["details"]["group"]);
    assert_eq!(gone.body["details"]["kind"], want["details"]["kind"]);

    api.delete("/api/v1/namespaces/wire-gone3", json!({})).await;
    let mut want = capture("namespace.terminating.json");
    want["metadata"].as_object_mut().unwrap().remove("managedFields");
    let got = api.get("/api/v1/namespaces/wire-gone3").await;
    assert_eq!(shape(&got), shape(&want));
    assert_eq!((&got["spec"], &got["status"]), (&want["spec"], &want["status"]));
}

#[tokio::test(start_paused = true)]
async fn discovery_is_the_same_for_what_is_served() {
    let api = Api::plain().await;
    assert_eq!(
        api.get("/apis/discovery.k8s.io/v1").await,
        capture("discovery.endpointslices.json")
    );
    let (got, want) = (api.get("/api/v1").await, capture("discovery.core.json"));
    for resource in got["resources"].as_array().unwrap() {
        assert!(
            want["resources"].as_array().unwrap().contains(resource),
            "{resource}"
        );
    }
    assert_eq!(got["resources"].as_array().unwrap().len(), 14);
    assert_eq!(
        shape(&api.get("/api").await),
        shape(&capture("discovery.api.json"))
    );
    let (got, want) = (api.get("/apis").await, capture("discovery.apis.json"));
    for group in got["groups"].as_array().unwrap() {
        assert!(want["groups"].as_array().unwrap().contains(group), "{group}");
    }
    assert_eq!(shape(&api.get("/version").await), shape(&capture("version.json")));
    assert_eq!(api.get("/apis/discovery.k8s.io").await["kind"], "APIGroup");
    for path in ["/healthz", "/livez", "/readyz"] {
        let answer = api.call("GET", path, Value::Null).await;
        assert_eq!((answer.status, &answer.raw[..]), (200, &b"ok"[..]));
    }
    for path in [
        "/openapi/v1",
        "/openapi/v3/apis/batch/v1",
        "/apis/batch/v1",
        "/apis/batch",
        "/apis/apps/v1beta1",
        "/x",
        "/api/v1/limitranges",
    ] {
        let answer = api.call("GET", path, Value::Null).await;
        assert_eq!(
            (answer.status, &answer.body["reason"]),
            (404, &json!("NotFound")),
            "{path}"
        );
    }
}

/// Returns the parts of an event that matter.
fn gist(event: &Value) -> Value {
    let (object, metadata) = (&event["object"], &event["object"]["metadata"]);
    json!([
        event["type"],
        object["kind"],
        metadata["name"],
        metadata["generation"],
        metadata["deletionGracePeriodSeconds"],
        metadata.get("deletionTimestamp").is_some(),
        object["status"]["phase"],
        metadata["labels"],
    ])
}

/// The changes the captured watches saw.
async fn drive_pods(api: &Api) {
    let seen = events("pods.watch.jsonl");
    let object = |i: usize| seen[i]["object"].clone();
    let path = |i: usize| format!("{PODS}/{}", object(i)["metadata"]["name"].as_str().unwrap());
    let status = |i: usize| json!({"status": object(i)["status"]});
    for i in 0..4 {
        api.patch(&format!("{}/status", path(i)), status(i)).await;
    }
    api.patch(
        &path(4),
        json!({"metadata": {"labels": object(4)["metadata"]["labels"]}}),
    )
    .await;
    api.delete(&path(5), json!({})).await;
    api.delete(&path(6), json!({"gracePeriodSeconds": 0})).await;
    api.patch(&format!("{}/status", path(8)), status(8)).await;
}

/// Creates the pods that the captured watches tell of and a page of the list does not show.
async fn watched_pods(api: &Api) {
    let seen = events("pods.watch.selector.jsonl");
    for event in &seen[..9] {
        let mut object = clean(&event["object"]);
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        if !api.is_gone(&format!("{PODS}/{name}")).await {
            continue;
        }
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
            object["metadata"].as_object_mut().unwrap().remove(field);
        }
        object["metadata"]["labels"]["version"] = "v1".into();
        let mut made = api.create(PODS, object.clone()).await;
        made["status"] = object["status"].clone();
        made["status"]["phase"] = "Running".into();
        api.put(&format!("{PODS}/{name}/status"), made).await;
    }
}

#[tokio::test(start_paused = true)]
async fn watches_tell_the_same() {
    let selector = "&fieldSelector=status.phase!%3DSucceeded,status.phase!%3DFailed";
    for (file, extra) in [("pods.watch.jsonl", ""), ("pods.watch.selector.jsonl", selector)] {
        let api = api().await;
        watched_pods(&api).await;
        let want = events(file);
        let names: Vec<&Value> = want.iter().map(|e| &e["object"]["metadata"]["name"]).collect();
        // Each status must really change: the captured ones follow on one another, ours on what the list showed.
        for name in names.iter().filter_map(|n| n.as_str()) {
            api.patch(
                &format!("{PODS}/{name}/status"),
                json!({"status": {"message": "before"}}),
            )
            .await;
        }
        let from = api.server.resource_version();
        let watch = api
            .watch(&format!(
                "{PODS}?watch=1&allowWatchBookmarks=true&resourceVersion={from}&timeoutSeconds=9{extra}"
            ))
            .await;
        drive_pods(&api).await;
        let got = watch.rest().await;
        let (marks, got): (Vec<Value>, Vec<Value>) = got.into_iter().partition(|e| e["type"] == "BOOKMARK");
        let (want_marks, want): (Vec<Value>, Vec<Value>) =
            want.into_iter().partition(|e| e["type"] == "BOOKMARK");
        assert_eq!(
            got.iter().map(gist).collect::<Vec<_>>(),
            want.iter().map(gist).collect::<Vec<_>>(),
            "{file}"
        );
        let mut last = from;
        for event in &got {
            let version = crate::client::version(&event["object"]);
            assert!(version > last, "{file}: versions go up");
            last = version;
        }
        assert!(!marks.is_empty());
        for mark in marks {
            assert_eq!(shape(&mark), shape(&want_marks[0]), "{file}");
            assert_eq!(mark["object"]["spec"], json!({"containers": null}));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_watches_tell_the_same() {
    let api = api().await;
    let from = api.server.resource_version();
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let mut watch = api
        .watch_as(
            &format!("{SLICES}?watch=1&resourceVersion={from}&timeoutSeconds=9"),
            accept,
        )
        .await;
    let want = &events("endpointslices.metadata.watch.jsonl")[0];
    let change = json!({"metadata": {"annotations": null}, "ports": [{"name": "http", "port": 9}]});
    api.patch(&format!("{SLICES}/{SLICE}"), change).await;
    let got = watch.next().await.unwrap();
    assert_eq!(got["type"], want["type"]);
    assert_eq!(
        shape(&unmanaged(&got["object"])),
        shape(&unmanaged(&want["object"]))
    );
    assert_eq!(got["object"]["metadata"]["generation"], 2);
}

#[tokio::test(start_paused = true)]
async fn initial_events_are_told_the_same() {
    let api = api().await;
    let watch = api
        .watch(&format!(
            "{PODS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true\
             &resourceVersion=0&timeoutSeconds=4"
        ))
        .await;
    let got = watch.rest().await;
    let want = events("pods.streaming-list.jsonl");
    let count = capture("pods.list.json")["items"].as_array().unwrap().len();
    assert_eq!(got.iter().filter(|e| e["type"] == "ADDED").count(), count);
    assert_eq!(
        shape(&unmanaged(&got[0]["object"])),
        shape(&unmanaged(&want[0]["object"]))
    );
    assert_eq!(
        clean(&got[0]["object"])["spec"],
        clean(&want[0]["object"])["spec"]
    );
    assert_eq!(shape(&got[count]), shape(&want[2]));
    let mark = &got[count]["object"]["metadata"];
    assert_eq!(mark["annotations"], want[2]["object"]["metadata"]["annotations"]);
    assert_eq!(mark["resourceVersion"], api.server.resource_version().to_string());
    assert_eq!(shape(&got[count + 1]), shape(&want[3]));
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_too_old_a_version_is_told_so() {
    let api = api().await;
    api.server.compact();
    let watch = api
        .watch(&format!("{PODS}?watch=1&resourceVersion=1&timeoutSeconds=3"))
        .await;
    let (got, want) = (watch.rest().await, events("watch.too-old.jsonl"));
    assert_eq!(got.len(), want.len());
    assert_eq!(shape(&got[0]), shape(&want[0]));
    for field in ["reason", "code", "status", "kind"] {
        assert_eq!(got[0]["object"][field], want[0]["object"][field]);
    }
    let message = format!("too old resource version: 1 ({})", api.server.resource_version());
    assert_eq!(got[0]["object"]["message"], message);
}
