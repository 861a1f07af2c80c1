//! The collector of dependents and of namespaces.

use crate::client::{Api, PODS, SERVICES, SLICES, pod, service, slice};
use memory_apiserver::Config;
use serde_json::{Value, json};
use std::time::Duration;

async fn api() -> Api {
    Api::new(Config::default().seed(5)).await
}

async fn settle() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

fn owned_by(mut object: Value, owners: &[&Value]) -> Value {
    let reference = |owner: &&Value| {
        json!({
            "apiVersion": "v1", "kind": "Service", "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "controller": false, "blockOwnerDeletion": true,
        })
    };
    object["metadata"]["ownerReferences"] = owners.iter().map(reference).collect();
    object
}

#[tokio::test(start_paused = true)]
async fn dependents_go_with_their_owner() {
    let api = api().await;
    let (a, b) = (
        api.create(SERVICES, service("a")).await,
        api.create(SERVICES, service("b")).await,
    );
    api.create(SLICES, owned_by(slice("of-a"), &[&a])).await;
    api.create(SLICES, owned_by(slice("of-both"), &[&a, &b])).await;
    api.create(SLICES, slice("of-none")).await;
    api.delete(&format!("{SERVICES}/a"), json!({})).await;
    settle().await;
    assert!(api.is_gone(&format!("{SLICES}/of-a")).await);
    let both = api.get(&format!("{SLICES}/of-both")).await;
    assert_eq!(both["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
    assert!(!api.is_gone(&format!("{SLICES}/of-none")).await);
    // Born without its owner.
    api.create(SLICES, owned_by(slice("late"), &[&a])).await;
    settle().await;
    assert!(api.is_gone(&format!("{SLICES}/late")).await);
    // The owner's name with another uid is another owner.
    api.create(SERVICES, service("a")).await;
    api.create(SLICES, owned_by(slice("later"), &[&a])).await;
    settle().await;
    assert!(api.is_gone(&format!("{SLICES}/later")).await);
}

#[tokio::test(start_paused = true)]
async fn owners_of_unknown_kinds_are_left_alone() {
    let api = api().await;
    let mut of_replica_set = pod("p");
    of_replica_set["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "00000000-0000-0000-0000-000000000000",
    }]);
    api.create(PODS, of_replica_set).await;
    settle().await;
    assert!(!api.is_gone(&format!("{PODS}/p")).await);
}

#[tokio::test(start_paused = true)]
async fn owners_are_looked_for_by_name_and_in_the_namespace_of_their_dependents() {
    let api = api().await;
    let other = json!({"metadata": {"name": "other"}});
    api.create("/api/v1/namespaces", other).await;
    let a = api.create(SERVICES, service("a")).await;
    let elsewhere = SLICES.replace("/ns/", "/other/");
    let mut renamed = a.clone();
    renamed["metadata"]["name"] = "b".into();
    api.create(&elsewhere, owned_by(slice("elsewhere"), &[&a])).await;
    api.create(SLICES, owned_by(slice("renamed"), &[&renamed])).await;
    api.create(SLICES, owned_by(slice("right"), &[&a])).await;
    // An object without a namespace cannot be owned by an object that has one, and is left alone.
    let node = owned_by(json!({"metadata": {"name": "n"}}), &[&a]);
    api.create("/api/v1/nodes", node).await;
    settle().await;
    assert!(api.is_gone(&format!("{elsewhere}/elsewhere")).await);
    assert!(api.is_gone(&format!("{SLICES}/renamed")).await);
    assert!(!api.is_gone(&format!("{SLICES}/right")).await);
    assert!(!api.is_gone("/api/v1/nodes/n").await);
}

#[tokio::test(start_paused = true)]
async fn the_namespace_controller_runs_without_the_collector() {
    let api = Api::new(Config::default().gc(false).namespace_controller(true)).await;
    let owner = api.create(SERVICES, service("a")).await;
    api.create(SLICES, owned_by(slice("s"), &[&owner])).await;
    api.delete(&format!("{SERVICES}/a"), json!({})).await;
    settle().await;
    assert!(!api.is_gone(&format!("{SLICES}/s")).await);
    api.delete("/api/v1/namespaces/ns", json!({})).await;
    settle().await;
    assert!(api.is_gone("/api/v1/namespaces/ns").await);
    assert!(api.is_gone(&format!("{SLICES}/s")).await);
}

#[tokio::test(start_paused = true)]
async fn orphans_and_foreground() {
    let api = api().await;
    let owner = api.create(SERVICES, service("a")).await;
    api.create(SLICES, owned_by(slice("s"), &[&owner])).await;
    let pending = api
        .delete(&format!("{SERVICES}/a"), json!({"propagationPolicy": "Orphan"}))
        .await;
    assert_eq!(pending["metadata"]["finalizers"], json!(["orphan"]));
    settle().await;
    assert!(api.is_gone(&format!("{SERVICES}/a")).await);
    assert!(
        api.get(&format!("{SLICES}/s")).await["metadata"]
            .get("ownerReferences")
            .is_none()
    );

    let owner = api.create(SERVICES, service("b")).await;
    let mut held = owned_by(slice("held"), &[&owner]);
    held["metadata"]["finalizers"] = json!(["example.com/x"]);
    api.create(SLICES, held).await;
    let pending = api
        .delete(
            &format!("{SERVICES}/b"),
            json!({"propagationPolicy": "Foreground"}),
        )
        .await;
    assert_eq!(pending["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    settle().await;
    assert!(
        !api.is_gone(&format!("{SERVICES}/b")).await,
        "the owner waits for what blocks it"
    );
    api.patch(
        &format!("{SLICES}/held"),
        json!({"metadata": {"finalizers": null}}),
    )
    .await;
    settle().await;
    assert!(api.is_gone(&format!("{SLICES}/held")).await);
    assert!(api.is_gone(&format!("{SERVICES}/b")).await);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_emptied_and_removed() {
    let api = api().await;
    for i in 0..100 {
        api.create(SLICES, slice(&format!("s{i}"))).await;
    }
    api.create(PODS, pod("p")).await;
    let mut watch = api
        .watch("/api/v1/namespaces?watch=1&fieldSelector=metadata.name%3Dns")
        .await;
    assert_eq!(watch.told().await, "ADDED ns");
    api.delete("/api/v1/namespaces/ns", json!({})).await;
    settle().await;
    assert_eq!(api.get(SLICES).await["items"], json!([]));
    // The pod has its grace, and with it the namespace.
    assert_eq!(
        api.get(&format!("{PODS}/p")).await["metadata"]["deletionGracePeriodSeconds"],
        30
    );
    assert_eq!(watch.told().await, "MODIFIED ns");
    api.remove(&format!("{PODS}/p")).await;
    settle().await;
    assert!(api.is_gone("/api/v1/namespaces/ns").await);
    assert_eq!(watch.told().await, "DELETED ns");
    api.refuses(404, "POST", PODS, pod("q")).await;
    // It can come back.
    api.create("/api/v1/namespaces", json!({"metadata": {"name": "ns"}}))
        .await;
    api.create(PODS, pod("q")).await;
}
