//! The answers of a real server, compared with ours.

use crate::client::{Answer, Api};
use serde_json::{Map, Value, json};

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/wirc-0/endpointslices";
const PODS: &str = "/api/v1/namespaces/wirc-0/pods";
const SLICE: &str = "svc-0-vgbxg";

fn text(file: &str) -> String {
    let path = format!("{}/tests/wire/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn capture(file: &str) -> Value {
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

/// A Status' message without its digits and without the name of its object, which differ from run to run.
fn plain(status: &Value) -> String {
    let name = status["details"]["name"].as_str().filter(|name| !name.is_empty());
    let message = status["message"].as_str().unwrap_or("");
    let message = name.map_or(message.to_owned(), |name| message.replace(name, "NAME"));
    message.replace(|c: char| c.is_ascii_digit(), "")
}

fn same_status(file: &str, code: u16, answer: &Answer) {
    let want = capture(file);
    assert_eq!(
        (answer.status, answer.media.as_str()),
        (code, "application/json"),
        "{file}: {}",
        answer.body
    );
    for field in ["kind", "apiVersion", "metadata", "status", "reason", "code"] {
        assert_eq!(answer.body[field], want[field], "{file}: {field}");
    }
    assert_eq!(plain(&answer.body), plain(&want), "{file}");
    let (details, wanted) = (&answer.body["details"], &want["details"]);
    assert_eq!(shape(details), shape(wanted), "{file}: details");
    for field in ["group", "kind", "causes", "retryAfterSeconds"] {
        assert_eq!(details[field], wanted[field], "{file}: details.{field}");
    }
}

fn clean(object: &Value) -> Value {
    let mut object = object.clone();
    for field in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    object
}

const LISTS: [(&str, &str); 5] = [
    ("nodes.list.json", "/api/v1/nodes"),
    ("services.list.json", "/api/v1/namespaces/wirc-0/services"),
    ("endpoints.list.json", "/api/v1/namespaces/wirc-0/endpoints"),
    ("endpointslices.list.json", SLICES),
    ("pods.list.json", PODS),
];

/// A server with what the real one had.
async fn api() -> Api {
    let api = Api::plain().await;
    for name in ["wirc-0", "wire-gone3"] {
        api.create("/api/v1/namespaces", json!({"metadata": {"name": name}}))
            .await;
    }
    for (file, path) in LISTS {
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
    for (file, path) in LISTS {
        let (got, want) = (api.get(path).await, capture(file));
        let items = |list: &Value| list["items"].as_array().unwrap().clone();
        for (mut got, mut want) in items(&got).into_iter().zip(items(&want)) {
            assert_eq!(shape(&got), shape(&want), "{file}");
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
            assert_eq!(clean(&got), clean(&want), "{file}");
        }
    }
}

/// An event without what differs from one writer to another, and with the shape alone of what is left.
fn event_shape(event: &Value) -> Value {
    let mut event = event.clone();
    let metadata = event["object"]["metadata"].as_object_mut().unwrap();
    for field in [
        "managedFields",
        "generateName",
        "ownerReferences",
        "annotations",
        "labels",
    ] {
        metadata.remove(field);
    }
    shape(&event)
}

#[tokio::test(start_paused = true)]
async fn watches_tell_the_same() {
    let api = api().await;
    let from = api.server.resource_version();
    let whole = events("pods.watch.jsonl");
    let path = format!("watch=1&allowWatchBookmarks=true&resourceVersion={from}&timeoutSeconds=9");
    let pods = api.watch(&format!("{PODS}?{path}")).await;
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let slices = api.watch_as(&format!("{SLICES}?{path}"), accept).await;
    let seen = &whole.iter().find(|event| event["type"] == "MODIFIED").unwrap()["object"];
    let name = seen["metadata"]["name"].as_str().unwrap();
    if api.is_gone(&format!("{PODS}/{name}")).await {
        api.create(PODS, clean(seen)).await;
    }
    for status in [&json!({"message": "before"}), &seen["status"]] {
        api.patch(&format!("{PODS}/{name}/status"), json!({"status": status}))
            .await;
    }
    let ports = json!({"ports": [{"name": "http", "port": 9}]});
    api.patch(&format!("{SLICES}/{SLICE}"), ports).await;
    let (pods, slices) = tokio::join!(pods.rest(), slices.rest());
    for (kind, got, want) in [
        ("BOOKMARK", pods, &whole),
        ("MODIFIED", slices, &events("endpointslices.metadata.watch.jsonl")),
    ] {
        let last = |events: &[Value]| {
            let event = events.iter().rfind(|event| event["type"] == kind);
            event_shape(event.unwrap())
        };
        assert_eq!(last(&got), last(want), "{kind}");
    }
    let now = api.get(&format!("{PODS}/{name}")).await;
    assert_eq!(
        now["status"]["containerStatuses"],
        seen["status"]["containerStatuses"]
    );
}

#[tokio::test(start_paused = true)]
async fn refusals_are_the_same() {
    let api = api().await;
    api.delete("/api/v1/namespaces/wire-gone3", json!({})).await;
    let nowhere = "/apis/discovery.k8s.io/v1/namespaces/nowhere/endpointslices";
    let terminating = "/apis/discovery.k8s.io/v1/namespaces/wire-gone3/endpointslices";
    let bad_field = format!("{PODS}?fieldSelector=spec.nope%3Db");
    let future = format!("{PODS}?resourceVersion=99999999");
    for (name, code, method, path) in [
        ("delete.not-found", 404, "DELETE", &format!("{SLICES}/nope")),
        ("get.not-found", 404, "GET", &format!("{PODS}/nope")),
        ("list.bad-field", 400, "GET", &bad_field),
        ("list.future", 504, "GET", &future),
        ("method.not-allowed", 405, "PUT", &SLICES.to_owned()),
        ("post.exists", 409, "POST", &SLICES.to_owned()),
        ("post.invalid", 422, "POST", &SLICES.to_owned()),
        ("post.namespace-missing", 404, "POST", &nowhere.to_owned()),
        ("post.namespace-terminating", 403, "POST", &terminating.to_owned()),
        ("post.too-many-endpoints", 422, "POST", &SLICES.to_owned()),
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
async fn writes_are_answered_the_same() {
    let api = api().await;
    // Without the managers of fields, which this server notes where it is told to.
    let gist = |mut object: Value| {
        object["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("managedFields");
        shape(&object)
    };
    let generated = api
        .create(SLICES, capture("request.post.generate-name.txt"))
        .await;
    assert_eq!(gist(generated), gist(capture("post.generate-name.json")));
    let path = format!("{SLICES}/{SLICE}");
    let put = async || {
        let body = as_stored(&api, &text("request.put.no-change.txt"), true).await;
        api.put(&path, serde_json::from_str(&body).unwrap()).await
    };
    let (first, second) = (put().await, put().await);
    assert_eq!(first, second);
    assert_eq!(gist(first), gist(capture("put.no-change.json")));
    let (gone, want) = (api.delete(&path, json!({})).await, capture("delete.ok.json"));
    assert_eq!(shape(&gone), shape(&want));
    assert_eq!(gone["details"]["kind"], want["details"]["kind"]);
    api.delete("/api/v1/namespaces/wire-gone3", json!({})).await;
    let got = api.get("/api/v1/namespaces/wire-gone3").await;
    let want = capture("namespace.terminating.json");
    assert_eq!((&got["spec"], &got["status"]), (&want["spec"], &want["status"]));
    assert_eq!(gist(got), gist(want));
}

#[tokio::test(start_paused = true)]
async fn discovery_is_the_same_for_what_is_served() {
    let api = Api::plain().await;
    // What a client looks at.
    let gist = |resource: &Value| {
        let verbs = resource["verbs"].as_array().unwrap().iter();
        let mut verbs: Vec<&str> = verbs.filter_map(Value::as_str).collect();
        verbs.sort_unstable();
        let fields = ["name", "kind", "namespaced", "singularName"].map(|field| resource[field].clone());
        (fields, verbs.join(","))
    };
    for (path, file, count) in [
        ("/api/v1", "discovery.core.json", 14),
        ("/apis/discovery.k8s.io/v1", "discovery.endpointslices.json", 1),
    ] {
        let (got, want) = (api.get(path).await, capture(file));
        let gists = |list: &Value| {
            list["resources"]
                .as_array()
                .unwrap()
                .iter()
                .map(gist)
                .collect::<Vec<_>>()
        };
        let (got, want) = (gists(&got), gists(&want));
        assert!(
            got.len() == count && got.iter().all(|resource| want.contains(resource)),
            "{got:?}"
        );
    }
    let (got, want) = (api.get("/apis").await, capture("discovery.apis.json"));
    for group in got["groups"].as_array().unwrap() {
        assert!(want["groups"].as_array().unwrap().contains(group), "{group}");
    }
    assert_eq!(api.get("/api").await["versions"], json!(["v1"]));
    assert_eq!(api.get("/version").await["minor"], "36");
    assert_eq!(api.get("/apis/discovery.k8s.io").await["kind"], "APIGroup");
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(&api.call("GET", path, Value::Null).await.raw[..], b"ok");
    }
    for path in [
        "/openapi/v1",
        "/apis/batch/v1",
        "/apis/batch",
        "/apis/apps/v1beta1",
        "/x",
        "/api/v1/limitranges",
    ] {
        api.refuses(404, "GET", path, Value::Null).await;
    }
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
