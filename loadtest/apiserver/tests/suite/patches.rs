//! Patches of all kinds, strictness, managers, and the parts of objects that are no objects themselves.

use crate::client::{Api, MERGE, PODS, SERVICES, pod, service, version};
use memory_apiserver::Config;
use serde_json::{Value, json};
use std::time::Duration;

const JSON: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/ns/deployments";

#[allow(
    clippy::needless_pass_by_value,
    reason = "bodies are made where they are sent"
)]
async fn patch(api: &Api, media: &str, path: &str, body: Value) -> (u16, Value) {
    let body = body.to_string();
    let answer = api
        .raw("PATCH", path, &[("content-type", media)], body.as_bytes())
        .await;
    (answer.status, answer.body)
}

#[tokio::test(start_paused = true)]
async fn json_patches() {
    let api = Api::plain().await;
    let made = api.create(PODS, pod("p")).await;
    let path = format!("{PODS}/p");
    let steps = json!([
        {"op": "test", "path": "/metadata/uid", "value": made["metadata"]["uid"]},
        {"op": "add", "path": "/metadata/labels", "value": {"a~b": "1", "c": "2"}},
        {"op": "remove", "path": "/metadata/labels/a~0b"},
    ]);
    let (_, got) = patch(&api, JSON, &path, steps).await;
    assert_eq!(got["metadata"]["labels"], json!({"c": "2"}));
    // A version in the patch is a condition.
    let stale = json!({"op": "replace", "path": "/metadata/resourceVersion", "value": made["metadata"]["resourceVersion"]});
    for (steps, code) in [
        (
            json!([{"op": "test", "path": "/metadata/uid", "value": "x"}]),
            422,
        ),
        (json!([{"op": "remove", "path": "/metadata/nothing"}]), 422),
        (json!([{"op": "explode"}]), 400),
        (json!({"op": "add"}), 400),
        (json!([stale]), 409),
    ] {
        assert_eq!(patch(&api, JSON, &path, steps.clone()).await.0, code, "{steps}");
    }
    assert_eq!(patch(&api, "application/x", &path, json!({})).await.0, 415);
    assert_eq!(
        api.get(&path).await,
        got,
        "a patch that fails leaves all as it was"
    );
}

#[tokio::test(start_paused = true)]
async fn strict_clients_are_told_of_unknown_fields() {
    let api = Api::plain().await;
    let mut given = pod("p");
    given["spec"]["containers"][0]["imagePullPolice"] = "Always".into();
    given["spec"]["nodname"] = "n".into();
    let strict = format!("{PODS}?fieldValidation=Strict");
    let said = api.refused("POST", &strict, given.clone()).await;
    assert_eq!(
        said["message"],
        "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: unknown field \
         \"spec.containers[0].imagePullPolice\", unknown field \"spec.nodname\""
    );
    api.create(PODS, given.clone()).await;
    let one = format!("{PODS}/p?fieldValidation=Strict");
    api.refuses(400, "PUT", &one, given).await;
    let said = api
        .refused("PATCH", &one, json!({"spec": {"nodname": "n"}}))
        .await;
    assert_eq!(said["code"], 422);
    assert!(
        said["message"]
            .as_str()
            .unwrap()
            .ends_with("unknown field \"spec.nodname\"")
    );
}

#[tokio::test(start_paused = true)]
async fn an_apply_makes_an_object_and_is_merged_into_one() {
    let api = Api::plain().await;
    let path = format!("{SERVICES}/web?fieldManager=me");
    let config = |ports: Value| {
        let mut config = service("web");
        (config["apiVersion"], config["kind"]) = ("v1".into(), "Service".into());
        config["spec"]["ports"] = ports;
        config
    };
    let web = config(
        json!([{"port": 80, "name": "a"}, {"port": 53, "name": "b"}, {"port": 53, "name": "c", "protocol": "UDP"}]),
    );
    let unmanaged = format!("{SERVICES}/web");
    assert_eq!(
        patch(&api, APPLY, &unmanaged, web.clone()).await.0,
        422,
        "no manager"
    );
    let mut unknown = web.clone();
    unknown["spec"]["prots"] = json!([]);
    assert_eq!(patch(&api, APPLY, &path, unknown).await.0, 422);
    let (status, made) = patch(&api, APPLY, &path, web.clone()).await;
    assert_eq!(status, 201, "{made}");
    tokio::time::advance(Duration::from_secs(60)).await;
    let (status, same) = patch(&api, APPLY, &path, web).await;
    assert_eq!((status, &same), (200, &made), "the same again is no write");
    let more = config(
        json!([{"port": 80, "targetPort": 8080}, {"port": 53, "protocol": "UDP", "targetPort": 5353}]),
    );
    let (_, got) = patch(&api, APPLY, &path.replace("=me", "=you&force=true"), more).await;
    assert!(version(&got) > version(&made));
    let ports = got["spec"]["ports"].as_array().unwrap().iter();
    let targets: Vec<_> = ports
        .map(|port| json!([port["name"], port["targetPort"]]))
        .collect();
    assert_eq!(
        targets,
        [json!(["a", 8080]), json!(["b", 53]), json!(["c", 5353])]
    );
    assert_eq!(got["spec"]["clusterIP"], made["spec"]["clusterIP"]);
    let yaml = b"apiVersion: v1\nkind: Service\nmetadata:\n  name: yaml\nspec:\n  ports:\n  - port: 80\n";
    let path = path.replace("web", "yaml");
    let answer = api.raw("PATCH", &path, &[("content-type", APPLY)], yaml).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
}

/// The managers of an object: name, operation, part, and seconds of the time.
fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().cloned();
    let entry = |entry: Value| {
        let text = |field: &str| entry[field].as_str().unwrap_or("").to_owned();
        let time = text("time")[17..].to_owned();
        [text("manager"), text("operation"), text("subresource"), time].join(" ")
    };
    entries.unwrap_or_default().into_iter().map(entry).collect()
}

#[tokio::test(start_paused = true)]
async fn managers_are_told_with_the_time_of_their_last_write() {
    let start = "2026-01-01T00:00:00Z".parse().unwrap();
    let config = Config::default().gc(false).seed(1).start_time(start);
    let api = Api::new(config.clone()).await;
    let made = api.create(SERVICES, service("s")).await;
    assert_eq!(managers(&made), [""; 0], "no client asked for it");
    let applied =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "labels": {"a": "b"}}});
    let (_, got) = patch(&api, APPLY, &format!("{SERVICES}/s?fieldManager=me"), applied).await;
    assert_eq!(managers(&got), ["me Apply  00Z"]);

    let api = Api::new(config.managed_fields(true)).await;
    let headers = [
        ("content-type", "application/json"),
        ("user-agent", "creator/v1 (linux)"),
    ];
    let made = api
        .raw("POST", PODS, &headers, pod("p").to_string().as_bytes())
        .await;
    assert_eq!(managers(&made.body), ["creator Update  00Z"]);
    tokio::time::advance(Duration::from_secs(5)).await;
    let path = format!("{PODS}/p");
    let label = |value: &str| json!({"metadata": {"labels": {"a": value}}});
    let running = json!({"status": {"phase": "Running"}});
    api.patch(&format!("{path}/status?fieldManager=kubelet"), running)
        .await;
    tokio::time::advance(Duration::from_secs(5)).await;
    let got = api
        .patch(&format!("{path}?fieldManager=creator"), label("c"))
        .await;
    assert_eq!(
        managers(&got),
        ["kubelet Update status 05Z", "creator Update  10Z"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_to_one_node() {
    let api = Api::plain().await;
    let mut unscheduled = pod("p");
    unscheduled["spec"].as_object_mut().unwrap().remove("nodeName");
    api.create(PODS, unscheduled).await;
    let path = format!("{PODS}/p/binding");
    let binding = |node: &str| json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": node}});
    api.refuses(400, "POST", &path, binding("")).await;
    let answer = api.create(&path, binding("n1")).await;
    assert_eq!(
        (&answer["kind"], &answer["status"]),
        (&json!("Status"), &json!("Success"))
    );
    let bound = api.get(&format!("{PODS}/p")).await;
    assert_eq!(bound["spec"]["nodeName"], "n1");
    assert_eq!(bound["status"]["conditions"][0]["type"], "PodScheduled");
    let answer = api.refused("POST", &path, binding("n2")).await;
    assert_eq!(answer["code"], 409);
    assert!(
        answer["message"]
            .as_str()
            .unwrap()
            .ends_with("already assigned to node \"n1\"")
    );
    api.refuses(405, "GET", &path, Value::Null).await;
}

#[tokio::test(start_paused = true)]
async fn a_deployment_is_kept_counted_and_scaled() {
    let api = Api::plain().await;
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let web = json!({"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template}});
    let made = api.create(DEPLOYMENTS, web).await;
    assert_eq!(
        json!([made["spec"]["replicas"], made["metadata"]["generation"]]),
        json!([1, 1])
    );
    let path = format!("{DEPLOYMENTS}/web");
    // What `kubectl rollout restart` sends.
    let restart = json!({"spec": {"template": {"metadata": {"annotations": {"restartedAt": "now"}}}}});
    let (_, now) = patch(&api, STRATEGIC, &path, restart).await;
    assert_eq!(
        (&now["metadata"]["generation"], &now["spec"]["template"]["spec"]),
        (&json!(2), &made["spec"]["template"]["spec"])
    );
    let status = json!({"spec": {"replicas": 9}, "status": {"readyReplicas": 2}});
    let now = api.patch(&format!("{path}/status"), status).await;
    assert_eq!(
        json!([now["spec"]["replicas"], now["status"]["readyReplicas"]]),
        json!([1, 2])
    );
    let scale = format!("{path}/scale");
    let (_, scaled) = patch(&api, MERGE, &scale, json!({"spec": {"replicas": 4}})).await;
    assert_eq!(
        json!([scaled["kind"], scaled["spec"]["replicas"]]),
        json!(["Scale", 4])
    );
    assert_eq!(api.get(&path).await["spec"]["replicas"], 4);
    let stale = json!({"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "spec": {"replicas": 9}});
    api.refuses(409, "PATCH", &scale, stale).await;
}

#[tokio::test(start_paused = true)]
async fn each_kind_says_that_the_server_checks_fields() {
    let api = Api::plain().await;
    let index = api.get("/openapi/v3").await;
    let mut kinds = Vec::new();
    for entry in index["paths"].as_object().unwrap().values() {
        let document = api.get(entry["serverRelativeURL"].as_str().unwrap()).await;
        for operations in document["paths"].as_object().unwrap().values() {
            let patch = &operations["patch"];
            kinds.push(patch["x-kubernetes-group-version-kind"]["kind"].clone());
            let mut parameters = patch["parameters"].as_array().unwrap().iter();
            assert!(parameters.any(|p| p["name"] == "fieldValidation" && p["in"] == "query"));
        }
    }
    assert!(kinds.contains(&"EndpointSlice".into()), "{kinds:?}");
    assert_eq!(api.call("GET", "/openapi/v2", Value::Null).await.status, 404);
}
