//! Protobuf: what a client is told and what it sends, in this form as in JSON. The bytes are compared with a real server's where
//! they are made (`src/protobuf/tests.rs`).

use crate::client::{Answer, Api, MERGE, PODS, SERVICES, SLICES, Watch, pod, service, slice};
use http::Request;
use http_body_util::Full;
use memory_apiserver::{
    After, Config, Ending, ErrorEvent, Failure, Fault, FaultPlan, Protobuf, Rule, Verb, WatchFault, event_of,
    object_of, split_events,
};
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::time::Duration;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const WATCH: &str = "/api/v1/namespaces/ns/pods?watch=1&timeoutSeconds=100";

async fn get(api: &Api, path: &str, accept: &str) -> Answer {
    api.raw("GET", path, &[("accept", accept)], b"").await
}

async fn send(api: &Api, method: &str, path: &str, accept: &str, body: &[u8]) -> Answer {
    let headers = [("content-type", PROTOBUF), ("accept", accept)];
    api.raw(method, path, &headers, body).await
}

/// The object of an answer in protobuf.
fn object(answer: &Answer) -> Value {
    assert_eq!(answer.media, PROTOBUF, "{}", answer.body);
    object_of(&answer.raw).unwrap()
}

/// An object without what is null or empty, which protobuf does not tell from what is absent.
fn bare(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null() && *field != "");
            fields.values_mut().for_each(|field| *field = bare(field.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = bare(item.take())),
        _ => {}
    }
    value
}

/// A message in its envelope; both are short.
fn envelope(kind: &str, message: &[u8]) -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8][..], bytes].concat();
    let meta = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &meta), field(2, message)].concat()
}

/// Objects that have a bit of everything.
async fn zoo(api: &Api) -> Vec<String> {
    let core = "/api/v1/namespaces/ns";
    let mut rich = pod("rich");
    rich["spec"]["containers"][0]["livenessProbe"] =
        json!({"httpGet": {"port": "http"}, "timeoutSeconds": 2});
    rich["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
    rich["spec"]["volumes"] = json!([{"name": "e", "emptyDir": {"sizeLimit": "1Gi"}}]);
    rich["spec"]["securityContext"] = json!({"runAsUser": 9_000_000_000_i64, "supplementalGroups": [1, 2]});
    rich["spec"]["tolerations"] = json!([{"operator": "Exists", "tolerationSeconds": -5}]);
    let deployed = json!({"metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "resources": {}}]}},
        "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": "10%"}},
    }});
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
        ("/apis/apps/v1/namespaces/ns/deployments".to_owned(), deployed),
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
async fn both_forms_say_the_same_of_every_kind() {
    let api = Api::plain().await;
    for path in zoo(&api).await {
        let json = api.get(&path).await;
        let answer = get(&api, &path, PROTOBUF).await;
        assert_eq!(bare(object(&answer)), bare(json.clone()), "{path}");
        let written = send(&api, "PUT", &path, "application/json", &answer.raw).await;
        assert_eq!(
            (written.status, &written.body),
            (200, &json),
            "{path}: nothing has changed"
        );
        let partial = object(&get(&api, &path, METADATA).await);
        assert_eq!(partial["kind"], "PartialObjectMetadata");
        assert_eq!(partial["metadata"], json["metadata"]);
        // A copy that comes in protobuf is kept as one that comes in JSON. A create with a version is refused.
        let collection = path.rsplit_once('/').unwrap().0;
        let refused = send(&api, "POST", collection, "application/json", &answer.raw).await;
        assert_eq!(refused.status, 500, "{path}: {}", refused.body);
    }
    let patch = br#"{"metadata":{"labels":{"x":"y"}}}"#;
    let path = format!("{SLICES}/s");
    let headers = [("content-type", MERGE), ("accept", PROTOBUF)];
    let patched = object(&api.raw("PATCH", &path, &headers, patch).await);
    assert_eq!(bare(patched), bare(api.get(&path).await));
    assert_eq!(send(&api, "PATCH", &path, "*/*", patch).await.status, 415);
}

#[tokio::test(start_paused = true)]
async fn long_lists_come_in_pieces_and_whole() {
    let api = Api::plain().await;
    for i in 0..300 {
        let mut big = slice(&format!("s{i:03}"));
        let endpoint = |e: u32| json!({"addresses": [format!("10.1.{}.{e}", i % 250)], "nodeName": "a-node"});
        big["endpoints"] = (0..100).map(endpoint).collect();
        api.create(SLICES, big).await;
    }
    let json = api.get(SLICES).await;
    // Twice: lengths are remembered. The list has no type of its own here: its items are told apart by their lengths.
    for _ in 0..2 {
        for (accept, most) in [(PROTOBUF, usize::MAX), (METADATA_LIST, 100_000)] {
            let list = get(&api, SLICES, accept).await;
            assert!(list.raw.len() < most && list.raw.ends_with(b"\x1a\0\"\0"));
            for item in json["items"].as_array().unwrap().iter().step_by(60) {
                let uid = item["metadata"]["uid"].as_str().unwrap().as_bytes();
                assert!(list.raw.windows(uid.len()).any(|window| window == uid));
            }
        }
        let whole = get(&api, SLICES, PROTOBUF).await.raw;
        assert!(whole.len() > 500_000 && get(&api, SLICES, PROTOBUF).await.raw == whole);
    }
}

/// The pieces of a watch in protobuf within ten seconds, or until it ends.
async fn told(api: &Api, path: &str, accept: &str) -> (Vec<u8>, Option<ErrorKind>) {
    let request = Request::get(path).header("accept", accept);
    let response = api.send(request.body(Full::default()).unwrap()).await;
    let media = response.headers()["content-type"].to_str().unwrap().to_owned();
    assert_eq!(media, format!("{PROTOBUF};stream=watch"));
    let mut watch = Watch::of(response.into_body());
    let mut all = Vec::new();
    while let Ok(Some(piece)) = tokio::time::timeout(Duration::from_secs(101), watch.piece()).await {
        match piece {
            Ok(piece) => all.extend_from_slice(&piece),
            Err(error) => return (all, Some(error.kind())),
        }
    }
    (all, None)
}

#[tokio::test(start_paused = true)]
async fn watches_tell_the_same_in_both() {
    let api = Api::plain().await;
    for name in ["a", "b"] {
        api.create(PODS, pod(name)).await;
    }
    let from = api.server.resource_version();
    api.create(PODS, pod("c")).await;
    let label = json!({"metadata": {"labels": {"app": "other"}}});
    api.patch(&format!("{PODS}/a"), label).await;
    api.remove(&format!("{PODS}/b")).await;
    for query in [
        format!("resourceVersion={from}&allowWatchBookmarks=true"),
        format!("resourceVersion={from}&labelSelector=app%3Dweb"),
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true".to_owned(),
    ] {
        let path = format!("{WATCH}&{query}");
        let json = api.watch(&path).await.rest().await;
        let (whole, _) = told(&api, &path, PROTOBUF).await;
        let (metadata, _) = told(&api, &path, METADATA).await;
        let (whole, metadata) = (split_events(&whole), split_events(&metadata));
        assert_eq!((whole.len(), metadata.len()), (json.len(), json.len()), "{query}");
        for (line, (whole, metadata)) in json.into_iter().zip(whole.into_iter().zip(metadata)) {
            let (told, object) = event_of(whole).unwrap();
            assert_eq!(line["type"], told);
            let (told, partial) = event_of(metadata).unwrap();
            assert_eq!(
                (line["type"].as_str().unwrap(), &partial["kind"]),
                (&*told, &json!("PartialObjectMetadata"))
            );
            assert_eq!(
                bare(partial["metadata"].clone()),
                bare(line["object"]["metadata"].clone())
            );
            // A bookmark of a pod has a spec without containers.
            if told != "BOOKMARK" {
                assert_eq!(bare(object), bare(line["object"].clone()));
            }
        }
    }
    api.server.compact();
    let (event, _) = told(&api, &format!("{WATCH}&resourceVersion=1"), PROTOBUF).await;
    let (told, status) = event_of(&event).unwrap();
    assert_eq!((&*told, &status["reason"]), ("ERROR", &json!("Expired")));
}

#[tokio::test(start_paused = true)]
async fn bodies_that_are_none_and_options_of_a_deletion() {
    let api = Api::plain().await;
    let before = api.everything().await;
    for (body, says) in [
        (&b""[..], "must be of type Pod): empty data"),
        (b"k8s\0", "empty body"),
        (b"{}", "provided data does not appear to be a protobuf message"),
        (
            &envelope("Pod", b"\x0a\x7f"),
            "cannot be handled as a Pod: unexpected EOF",
        ),
        (
            &envelope("Pod", b"\x12\x02\x18\x01"),
            "proto: wrong wireType = 0 for field restartPolicy",
        ),
        (
            &envelope("Service", b""),
            "cannot be handled as a Pod: it is a \"Service\"",
        ),
    ] {
        let answer = send(&api, "POST", PODS, "*/*", body).await;
        let message = answer.body["message"].as_str().unwrap();
        assert!(answer.status == 400 && message.contains(says), "{message}");
    }
    let empty = send(&api, "POST", PODS, PROTOBUF, &envelope("Pod", b"")).await;
    assert_eq!(
        (empty.status, object(&empty)["reason"].as_str()),
        (422, Some("Invalid"))
    );
    // A Status has no metadata to be asked for.
    let refusal = get(&api, &format!("{PODS}/nope"), METADATA).await;
    assert_eq!((refusal.status, &refusal.body["kind"]), (404, &json!("Status")));
    assert_eq!(api.everything().await, before);

    api.create(PODS, pod("a")).await;
    let path = format!("{PODS}/a");
    let options = |message: &[u8]| envelope("DeleteOptions", message);
    let other = [&[0x12, 38, 0x0a, 36][..], b"00000000-0000-0000-0000-000000000000"].concat();
    for (body, status, grace) in [
        (options(&other), 409, Value::Null),
        (b"k8s\0\x0a".to_vec(), 400, Value::Null),
        (options(&[8, 5]), 200, json!(5)),
    ] {
        assert_eq!(send(&api, "DELETE", &path, PROTOBUF, &body).await.status, status);
        assert_eq!(
            api.get(&path).await["metadata"]["deletionGracePeriodSeconds"],
            grace
        );
    }
    let gone = send(&api, "DELETE", &path, PROTOBUF, &options(&[8, 0])).await;
    assert_eq!(object(&gone)["kind"], "Pod");
    assert!(api.is_gone(&path).await);
    api.create(SLICES, slice("s")).await;
    let gone = send(&api, "DELETE", &format!("{SLICES}/s"), PROTOBUF, b"").await;
    assert_eq!(object(&gone)["status"], "Success");
}

#[tokio::test(start_paused = true)]
async fn servers_and_proxies_that_have_json_alone() {
    let some = Protobuf::Unsupported(["endpointslices", "leases"].into());
    let api = Api::new(Config::default().gc(false).protobuf(some)).await;
    api.create(SLICES, slice("s")).await;
    let both = format!("{PROTOBUF},application/json");
    for (accept, status) in [(PROTOBUF, 406), (METADATA_LIST, 406), (&both, 200)] {
        let answer = get(&api, SLICES, accept).await;
        assert_eq!(
            (answer.status, answer.media.as_str()),
            (status, "application/json")
        );
        assert_eq!(get(&api, PODS, accept).await.media, PROTOBUF, "{accept}");
    }
    assert_eq!(send(&api, "POST", SLICES, "*/*", b"").await.status, 415);
    let none = Config::default().protobuf(Protobuf::Unsupported("*".into()));
    let api = Api::new(none.gc(false)).await;
    assert_eq!(get(&api, PODS, PROTOBUF).await.status, 406);

    let proxied = Config::default().protobuf(Protobuf::AcceptIgnored);
    let api = Api::new(proxied.gc(false)).await;
    for (path, accept, kind) in [
        (PODS, PROTOBUF, "PodList"),
        (PODS, METADATA_LIST, "PartialObjectMetadataList"),
        ("/api/v1/namespaces/ns/pods/nope", PROTOBUF, "Status"),
    ] {
        assert_eq!(get(&api, path, accept).await.body["kind"], kind);
    }
    let empty = send(&api, "POST", PODS, PROTOBUF, &envelope("Pod", b"")).await;
    assert_eq!((empty.status, &empty.body["reason"]), (422, &json!("Invalid")));
}

#[tokio::test(start_paused = true)]
async fn faults_hit_frames_as_they_hit_lines() {
    let api = Api::plain().await;
    for i in 0..5 {
        api.create(PODS, pod(&format!("p{i}"))).await;
    }
    let under = async |fault: WatchFault, accept: &str| {
        let rule = Rule::on(Verb::Watch, "pods").fault(fault.into());
        api.server.set_faults(FaultPlan::new(1).rule(rule));
        told(&api, WATCH, accept).await
    };
    let (whole, _) = told(&api, WATCH, PROTOBUF).await;
    let healthy = split_events(&whole);
    let first = healthy[0].len();
    for bytes in [2, first - 1, first, first + 3] {
        let after = After::Bytes(bytes as u64);
        let how = Ending::Reset;
        let (all, error) = under(WatchFault::End { after, how }, PROTOBUF).await;
        assert_eq!(
            (&all[..], error),
            (&whole[..bytes], Some(ErrorKind::ConnectionReset))
        );
    }
    let after = After::Events(1);
    for accept in [PROTOBUF, METADATA] {
        let event = ErrorEvent::Expired;
        let (all, _) = under(WatchFault::Error { after, event }, accept).await;
        let (told, status) = event_of(split_events(&all)[1]).unwrap();
        assert_eq!((&*told, &status["code"]), ("ERROR", &json!(410)));
        let field = "/metadata/labels".to_owned();
        let (all, _) = under(WatchFault::WrongType { field, after }, accept).await;
        let can_be_read = split_events(&all)
            .into_iter()
            .map(|event| event_of(event).is_some());
        assert_eq!(can_be_read.collect::<Vec<_>>(), [true, false, true, true, true]);
    }
    let (all, _) = under(WatchFault::Malformed { after }, PROTOBUF).await;
    for (i, (ours, healthy)) in split_events(&all).into_iter().zip(healthy).enumerate() {
        assert_eq!((ours == healthy, event_of(ours).is_some()), (i != 1, i != 1));
    }
    let (all, _) = under(WatchFault::Repeat { rate: 1.0 }, PROTOBUF).await;
    assert!(split_events(&all).chunks(2).all(|pair| pair[0] == pair[1]));

    // A create is known by the name in its body, and refused in the form that is accepted.
    let rule = Rule::on(Verb::Create, "pods").name("made");
    let rule = rule.fault(Fault::before(Failure::AlreadyExists));
    api.server.set_faults(FaultPlan::new(1).rule(rule));
    let body = envelope("Pod", b"\x0a\x06\x0a\x04made");
    let refused = send(&api, "POST", PODS, PROTOBUF, &body).await;
    assert_eq!(object(&refused)["details"]["name"], "made");
}
