//! A common client library against the server, in the process and over a socket.

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt};
use memory_apiserver::{ApiServer, Config};
use serde_json::json;
use std::time::Duration;

fn pod(name: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]},
    }))
    .unwrap()
}

async fn exercise(client: Client) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    for i in 0..5 {
        pods.create(&PostParams::default(), &pod(&format!("p{i}")))
            .await
            .unwrap();
    }
    let list = pods.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(list.items.len(), 2);
    let token = list.metadata.continue_.clone().unwrap();
    let rest = pods
        .list(&ListParams::default().continue_token(&token))
        .await
        .unwrap();
    assert_eq!(rest.items.len(), 3);
    let from = rest.metadata.resource_version.clone().unwrap();
    let events = pods
        .watch(&WatchParams::default().timeout(20), &from)
        .await
        .unwrap();
    tokio::pin!(events);
    let patch = json!({"status": {"phase": "Running", "podIP": "10.1.1.1"}});
    let patched = pods
        .patch_status("p1", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    match events.try_next().await.unwrap() {
        Some(WatchEvent::Modified(told)) => assert_eq!(told, patched),
        other => panic!("{other:?}"),
    }
    pods.delete("p1", &DeleteParams::default()).await.unwrap();
    assert!(matches!(
        events.try_next().await.unwrap(),
        Some(WatchEvent::Modified(_))
    ));
    match events.try_next().await.unwrap() {
        Some(WatchEvent::Deleted(told)) => assert_eq!(told.name_any(), "p1"),
        other => panic!("{other:?}"),
    }
    let metadata = pods.list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(metadata.items.len(), 4);
    let refused = pods.get("p1").await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 404 && status.reason == "NotFound"));
    let slices: Api<EndpointSlice> = Api::all(client.clone());
    assert_eq!(slices.list(&ListParams::default()).await.unwrap().items.len(), 0);
    let nodes: Api<Node> = Api::all(client.clone());
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    let mut made = nodes.create(&PostParams::default(), &node).await.unwrap();
    made.labels_mut().insert("a".into(), "b".into());
    let replaced = nodes.replace("n", &PostParams::default(), &made).await.unwrap();
    assert_eq!(replaced.labels()["a"], "b");
    let stale = nodes
        .replace("n", &PostParams::default(), &made)
        .await
        .unwrap_err();
    assert!(matches!(stale, kube::Error::Api(status) if status.code == 409));
    assert_eq!(client.apiserver_version().await.unwrap().minor, "36");
}

#[tokio::test(start_paused = true)]
async fn in_the_process() {
    let server = ApiServer::new(Config::default());
    exercise(Client::new(server.service(), "default")).await;
}

#[tokio::test]
async fn over_a_socket() {
    let handle = memory_apiserver::start(Config::default()).await.unwrap();
    let config = kube::Config::new(handle.url().parse().unwrap());
    let client = Client::try_from(config).unwrap();
    tokio::time::timeout(Duration::from_secs(30), exercise(client.clone()))
        .await
        .unwrap();
    assert!(handle.kubeconfig().contains(&handle.url()));
    let pods: Api<Pod> = Api::namespaced(client, "default");
    let events = pods.watch(&WatchParams::default(), "0").await.unwrap();
    tokio::pin!(events);
    assert!(matches!(
        events.try_next().await.unwrap(),
        Some(WatchEvent::Added(_))
    ));
    let addr = handle.addr();
    handle.shutdown().await;
    // Watches end with the server, and its port is free.
    let drained = async { while let Ok(Some(_)) = events.try_next().await {} };
    tokio::time::timeout(Duration::from_secs(10), drained)
        .await
        .unwrap();
    drop(tokio::net::TcpListener::bind(addr).await.unwrap());
}

#[tokio::test]
async fn a_dropped_handle_stops_the_server() {
    let handle = memory_apiserver::start(Config::default()).await.unwrap();
    let addr = handle.addr();
    tokio::net::TcpStream::connect(addr).await.unwrap();
    drop(handle);
    let closed = async {
        while tokio::net::TcpStream::connect(addr).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), closed)
        .await
        .unwrap();
}
