//! Tables, as `kubectl get` asks for them.

use crate::client::{Api, PODS, SERVICES, SLICES, pod};
use memory_apiserver::Config;
use serde_json::{Value, json};
use std::time::Duration;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

fn cells(table: &Value) -> String {
    let cells = table["rows"][0]["cells"].as_array().unwrap().iter();
    cells
        .map(|cell| cell.as_str().unwrap())
        .collect::<Vec<_>>()
        .join("|")
}

async fn table(api: &Api, path: &str) -> Value {
    let answer = api.raw("GET", path, &[("accept", TABLE)], b"").await;
    assert_eq!(
        (answer.status, &answer.body["kind"]),
        (200, &json!("Table")),
        "{path}"
    );
    answer.body
}

#[tokio::test(start_paused = true)]
async fn every_kind_has_its_columns() {
    let start = "2030-05-06T07:08:09Z".parse().unwrap();
    let api = Api::new(Config::default().gc(false).seed(1).start_time(start)).await;
    let core = "/api/v1/namespaces/ns";
    let addresses: Vec<Value> = (1..=5).map(|i| json!({"ip": format!("10.1.0.{i}")})).collect();
    let endpoints: Vec<Value> = (1..=5)
        .map(|i| json!({"addresses": [format!("10.1.0.{i}")]}))
        .collect();
    let status = json!({"phase": "Running", "podIP": "10.1.0.1", "containerStatuses": [
        {"name": "c", "ready": true, "restartCount": 2, "image": "i", "imageID": ""}]});
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.36.0"}});
    for (collection, object, status, want) in [
        (
            PODS.to_owned(),
            pod("p"),
            status,
            "p|1/1|Running|2|2m|10.1.0.1|node-1|<none>|<none>",
        ),
        (
            SERVICES.to_owned(),
            json!({"metadata": {"name": "web"}, "spec": {"type": "NodePort", "clusterIP": "10.0.0.9", "selector": {"app": "web"},
                "ports": [{"port": 80, "nodePort": 30080, "name": "a"}, {"port": 53, "nodePort": 30053, "protocol": "UDP", "name": "b"}]}}),
            Value::Null,
            "web|NodePort|10.0.0.9|<none>|80:30080/TCP,53:30053/UDP|2m|app=web",
        ),
        (
            format!("{core}/endpoints"),
            json!({"metadata": {"name": "e"}, "subsets": [{"addresses": addresses, "ports": [{"port": 80}]}]}),
            Value::Null,
            "e|10.1.0.1:80,10.1.0.2:80,10.1.0.3:80 + 2 more...|2m",
        ),
        (
            SLICES.to_owned(),
            json!({"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": endpoints}),
            Value::Null,
            "s|IPv4|<unset>|10.1.0.1,10.1.0.2,10.1.0.3 + 2 more...|2m",
        ),
        (
            "/api/v1/nodes".to_owned(),
            json!({"metadata": {"name": "n"}, "spec": {"unschedulable": true}}),
            ready,
            "n|Ready,SchedulingDisabled|2m|v1.36.0",
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/ns/leases".to_owned(),
            json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}),
            Value::Null,
            "l|me|2m",
        ),
        (
            format!("{core}/events"),
            json!({"metadata": {"name": "v"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "ns"}, "reason": "Killing",
                "message": "over", "type": "Normal", "count": 4, "source": {"component": "k"}, "lastTimestamp": "2030-05-06T07:23:09Z"}),
            Value::Null,
            "10s|Normal|Killing|pod/p|k|over|4|v",
        ),
        (
            "/api/v1/namespaces".to_owned(),
            json!({"metadata": {"name": "x"}}),
            Value::Null,
            "x|Active|2m",
        ),
    ] {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let path = format!("{collection}/{name}");
        api.create(&collection, object).await;
        if !status.is_null() {
            api.patch(&format!("{path}/status"), json!({"status": status}))
                .await;
        }
        tokio::time::advance(Duration::from_secs(130)).await;
        assert_eq!(cells(&table(&api, &path).await), want);
    }
}

#[tokio::test(start_paused = true)]
async fn rows_carry_their_objects_and_watches_tell_columns_once() {
    let api = Api::plain().await;
    let made = api.create(PODS, pod("p")).await;
    let one = format!("{PODS}/p");
    let got = table(&api, PODS).await;
    assert_eq!(got["rows"][0]["object"]["metadata"], made["metadata"]);
    assert!(got["rows"][0]["object"].get("spec").is_none());
    let columns = got["columnDefinitions"].as_array().unwrap().iter();
    let shown = columns
        .filter(|column| column["priority"] == 0)
        .map(|column| column["name"].as_str().unwrap());
    assert_eq!(
        shown.collect::<Vec<_>>(),
        ["Name", "Ready", "Status", "Restarts", "Age"]
    );
    let whole = table(&api, &format!("{one}?includeObject=Object")).await;
    assert_eq!(whole["rows"][0]["object"], made);
    let answer = api
        .raw("GET", &format!("{PODS}/q"), &[("accept", TABLE)], b"")
        .await;
    assert_eq!((answer.status, &answer.body["kind"]), (404, &json!("Status")));

    let mut watch = api
        .watch_as(&format!("{PODS}?watch=1&allowWatchBookmarks=true"), TABLE)
        .await;
    let first = watch.next().await.unwrap();
    assert_eq!(first["object"]["columnDefinitions"].as_array().unwrap().len(), 9);
    api.patch(&format!("{one}/status"), json!({"status": {"phase": "Running"}}))
        .await;
    let second = watch.next().await.unwrap();
    assert!(second["object"]["columnDefinitions"].is_null());
    assert!(cells(&second["object"]).starts_with("p|0/1|Running|0|"));
    let bookmark = watch.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert!(bookmark["object"]["rows"][0]["object"]["metadata"]["resourceVersion"].is_string());
}
