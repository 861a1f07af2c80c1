//! Tables, as `kubectl get` asks for them.

use crate::client::{Api, PODS, SERVICES, SLICES, pod, slice};
use crate::conformance::capture;
use memory_apiserver::Config;
use serde_json::{Value, json};
use std::time::Duration;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

async fn table(api: &Api, path: &str) -> Value {
    let answer = api.raw("GET", path, &[("accept", TABLE)], b"").await;
    assert_eq!((answer.status, answer.media.as_str()), (200, "application/json"));
    assert_eq!(answer.body["kind"], "Table");
    answer.body
}

/// The first row.
fn row(table: &Value) -> String {
    cells(table)[0].join("|")
}

fn cells(table: &Value) -> Vec<Vec<String>> {
    let text = |cell: &Value| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned);
    let row = |row: &Value| row["cells"].as_array().unwrap().iter().map(text).collect();
    table["rows"].as_array().unwrap().iter().map(row).collect()
}

async fn api() -> Api {
    Api::new(
        Config::default()
            .gc(false)
            .seed(1)
            .start_time("2030-05-06T07:08:09Z".parse().unwrap()),
    )
    .await
}

#[tokio::test(start_paused = true)]
async fn a_list_of_pods_has_the_form_of_the_real_one() {
    let api = api().await;
    let want = capture("pods.table.json");
    for row in want["rows"].as_array().unwrap() {
        let name = row["cells"][0].as_str().unwrap();
        let mut given = pod(name);
        given["spec"]["nodeName"] = row["cells"][6].clone();
        api.create(PODS, given).await;
        let status = json!({"status": {
            "phase": "Running", "podIP": row["cells"][5],
            "containerStatuses": [{"name": "c", "ready": true, "restartCount": 0, "image": "i", "imageID": "",
                "state": {"running": {"startedAt": "2030-05-06T07:08:09Z"}}}],
        }});
        api.patch(&format!("{PODS}/{name}/status"), status).await;
    }
    tokio::time::advance(Duration::from_secs(3)).await;
    let got = table(&api, &format!("{PODS}?limit=3")).await;
    assert_eq!(cells(&got), cells(&want));
    let columns = |table: &Value| -> Vec<Value> {
        let mut columns = table["columnDefinitions"].as_array().unwrap().clone();
        for column in &mut columns {
            // We have none.
            column["description"] = "".into();
        }
        columns
    };
    assert_eq!(columns(&got), columns(&want));
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&got), keys(&want));
    assert_eq!(keys(&got["rows"][0]), keys(&want["rows"][0]));
    assert_eq!(keys(&got["rows"][0]["object"]), keys(&want["rows"][0]["object"]));
    // Pages go on as lists do.
    let first = table(&api, &format!("{PODS}?limit=2")).await;
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    let token = first["metadata"]["continue"]
        .as_str()
        .unwrap()
        .replace('=', "%3D");
    let rest = table(&api, &format!("{PODS}?limit=2&continue={token}")).await;
    assert_eq!(cells(&rest).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn services_endpoints_and_slices() {
    let api = api().await;
    api.create(
        SERVICES,
        json!({"metadata": {"name": "web"}, "spec": {"type": "NodePort", "clusterIP": "10.0.0.9", "selector": {"app": "web", "a": "b"},
            "ports": [{"port": 80, "nodePort": 30080, "name": "http"}, {"port": 53, "nodePort": 30053, "protocol": "UDP", "name": "dns"}]}}),
    )
    .await;
    assert_eq!(
        row(&table(&api, SERVICES).await),
        "web|NodePort|10.0.0.9|<none>|80:30080/TCP,53:30053/UDP|0s|a=b,app=web"
    );
    let balancer = json!({"metadata": {"name": "lb"}, "spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.8",
        "allocateLoadBalancerNodePorts": false, "ports": [{"port": 443}]}});
    api.create(SERVICES, balancer).await;
    let lb = format!("{SERVICES}/lb");
    assert_eq!(
        row(&table(&api, &lb).await),
        "lb|LoadBalancer|10.0.0.8|<none>|443/TCP|0s|<none>"
    );
    let ingress =
        json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.2"}, {"hostname": "a.example"}]}}});
    api.patch(&format!("{lb}/status"), ingress).await;
    assert!(row(&table(&api, &lb).await).contains("|192.0.2.2,a.example|443/TCP|"));
    let other =
        json!({"metadata": {"name": "ext"}, "spec": {"type": "ExternalName", "externalName": "db.example"}});
    api.create(SERVICES, other).await;
    let ext = table(&api, &format!("{SERVICES}/ext")).await;
    assert_eq!(row(&ext), "ext|ExternalName|<none>|db.example|<none>|0s|<none>");

    let endpoints = "/api/v1/namespaces/ns/endpoints";
    let addresses: Vec<Value> = (1..=5).map(|i| json!({"ip": format!("10.1.0.{i}")})).collect();
    let object = json!({"metadata": {"name": "web"}, "subsets": [{"addresses": addresses, "ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}]});
    api.create(endpoints, object).await;
    api.create(endpoints, json!({"metadata": {"name": "x"}})).await;
    api.create(endpoints, json!({"metadata": {"name": "y"}, "subsets": [{"addresses": [{"ip": "fd00::1"}], "ports": [{"port": 1}]}]}))
        .await;
    let got = cells(&table(&api, endpoints).await);
    assert_eq!(
        got[0],
        ["web", "10.1.0.1:80,10.1.0.2:80,10.1.0.3:80 + 7 more...", "0s"]
    );
    assert_eq!(
        (got[1][1].as_str(), got[2][1].as_str()),
        ("<none>", "[fd00::1]:1")
    );

    let mut given = slice("s");
    given["ports"] = json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}, {"name": "c", "port": 82}, {"name": "d", "port": 83}]);
    given["endpoints"] = json!([{"addresses": ["10.1.0.1"]}, {"addresses": ["10.1.0.2"]}]);
    api.create(SLICES, given).await;
    api.create(
        SLICES,
        json!({"metadata": {"name": "t"}, "addressType": "IPv6", "endpoints": null}),
    )
    .await;
    let got = cells(&table(&api, SLICES).await);
    assert_eq!(
        got[0],
        ["s", "IPv4", "80,81,82 + 1 more...", "10.1.0.1,10.1.0.2", "0s"]
    );
    assert_eq!(got[1], ["t", "IPv6", "<unset>", "<unset>", "0s"]);
}

#[tokio::test(start_paused = true)]
async fn every_other_kind_has_its_columns() {
    let api = api().await;
    let node = json!({"metadata": {"name": "n", "labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/edge": ""}}, "spec": {"unschedulable": true}});
    api.create("/api/v1/nodes", node).await;
    assert_eq!(
        row(&table(&api, "/api/v1/nodes").await),
        "n|Unknown,SchedulingDisabled|edge,worker|0s|"
    );
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}],
        "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}], "nodeInfo": {"kubeletVersion": "v1.36.0", "osImage": "Debian"}}});
    api.patch("/api/v1/nodes/n/status", status).await;
    assert_eq!(
        row(&table(&api, "/api/v1/nodes").await),
        "n|Ready,SchedulingDisabled|edge,worker|0s|v1.36.0"
    );

    let namespaces = cells(&table(&api, "/api/v1/namespaces").await);
    assert!(namespaces.contains(&vec!["ns".to_owned(), "Active".to_owned(), "0s".to_owned()]));
    let leases = "/apis/coordination.k8s.io/v1/namespaces/ns/leases";
    api.create(
        leases,
        json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}),
    )
    .await;
    tokio::time::advance(Duration::from_secs(130)).await;
    assert_eq!(row(&table(&api, leases).await), "l|me|2m10s");

    let events = "/api/v1/namespaces/ns/events";
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "ns", "fieldPath": "spec"},
        "reason": "Killing", "message": "over", "type": "Normal", "count": 4, "source": {"component": "kubelet", "host": "n"},
        "firstTimestamp": "2030-05-06T07:08:19Z", "lastTimestamp": "2030-05-06T07:10:09Z"});
    api.create(events, event).await;
    assert_eq!(
        row(&table(&api, events).await),
        "10s|Normal|Killing|pod/p|kubelet|over|4|e"
    );
    let event = json!({"metadata": {"name": "f"}, "regarding": {"kind": "Service", "name": "web", "namespace": "ns"}, "action": "Sync",
        "reason": "Failed", "note": "no", "type": "Warning", "eventTime": "2030-05-06T07:09:09.000000Z",
        "reportingController": "endpointd", "reportingInstance": "endpointd-1"});
    api.create("/apis/events.k8s.io/v1/namespaces/ns/events", event)
        .await;
    assert_eq!(
        row(&table(&api, "/apis/events.k8s.io/v1/events").await),
        "70s|Warning|Failed|service/web|endpointd|no||f"
    );
}

#[tokio::test(start_paused = true)]
async fn what_rows_carry() {
    let api = api().await;
    let made = api.create(PODS, pod("p")).await;
    let one = format!("{PODS}/p");
    let got = table(&api, &one).await;
    assert_eq!(
        got["metadata"]["resourceVersion"],
        made["metadata"]["resourceVersion"]
    );
    assert_eq!(got["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(got["rows"][0]["object"]["metadata"], made["metadata"]);
    let whole = table(&api, &format!("{one}?includeObject=Object")).await;
    assert_eq!(whole["rows"][0]["object"], made);
    let none = table(&api, &format!("{PODS}?includeObject=None")).await;
    assert!(none["rows"][0]["object"].is_null());
    let answer = api
        .raw(
            "GET",
            &format!("{PODS}?includeObject=All"),
            &[("accept", TABLE)],
            b"",
        )
        .await;
    assert_eq!(answer.status, 400);
    // Refusals stay what they are.
    let answer = api
        .raw("GET", &format!("{PODS}/q"), &[("accept", TABLE)], b"")
        .await;
    assert_eq!((answer.status, &answer.body["kind"]), (404, &json!("Status")));
}

#[tokio::test(start_paused = true)]
async fn watches_tell_columns_once() {
    let api = api().await;
    api.create(PODS, pod("p")).await;
    let mut watch = api
        .watch_as(&format!("{PODS}?watch=1&allowWatchBookmarks=true"), TABLE)
        .await;
    let first = watch.next().await.unwrap();
    assert_eq!(
        (&first["type"], &first["object"]["kind"]),
        (&json!("ADDED"), &json!("Table"))
    );
    assert_eq!(first["object"]["columnDefinitions"].as_array().unwrap().len(), 9);
    assert_eq!(cells(&first["object"])[0][2], "Pending");
    api.patch(
        &format!("{PODS}/p/status"),
        json!({"status": {"phase": "Running"}}),
    )
    .await;
    let second = watch.next().await.unwrap();
    assert!(second["object"]["columnDefinitions"].is_null());
    assert_eq!(
        (&second["type"], cells(&second["object"])[0][2].as_str()),
        (&json!("MODIFIED"), "Running")
    );
    let bookmark = watch.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["kind"], "Table");
    assert!(bookmark["object"]["rows"][0]["object"]["metadata"]["resourceVersion"].is_string());
}
