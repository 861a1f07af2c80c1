//! Deletions: at once, gracefully, held up.

use crate::client::{Api, PODS, SERVICES, SLICES, pod, service, slice, version};
use memory_apiserver::Config;
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn a_pod_on_a_node_goes_in_two_steps() {
    let start: jiff::Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
    let api = Api::new(Config::default().gc(false).start_time(start)).await;
    let made = api.create(PODS, pod("p")).await;
    let path = format!("{PODS}/p");
    let mut watch = api
        .watch(&format!("{PODS}?watch=1&resourceVersion={}", version(&made)))
        .await;
    let pending = api.delete(&path, Value::Null).await;
    assert_eq!(pending["metadata"]["deletionTimestamp"], "2030-01-01T00:00:30Z");
    assert_eq!(pending["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(pending["metadata"]["generation"], 2);
    assert_eq!(watch.next().await.unwrap()["object"], pending);
    // Asked again, or for longer: nothing changes.
    assert_eq!(api.delete(&path, json!({})).await, pending);
    assert_eq!(
        api.delete(&path, json!({"gracePeriodSeconds": 60})).await,
        pending
    );
    let shorter = api.delete(&path, json!({"gracePeriodSeconds": 10})).await;
    assert_eq!(shorter["metadata"]["deletionTimestamp"], "2030-01-01T00:00:10Z");
    assert_eq!(watch.told().await, "MODIFIED p");
    // A replacement cannot take the deletion back.
    let mut alive = made.clone();
    alive["metadata"]["resourceVersion"] = shorter["metadata"]["resourceVersion"].clone();
    assert_eq!(api.put(&path, alive).await, shorter);
    api.remove(&path).await;
    assert_eq!(watch.told().await, "MODIFIED p");
    assert_eq!(watch.told().await, "DELETED p");
    assert!(api.is_gone(&path).await);
    api.refuses(404, "DELETE", &path, Value::Null).await;
}

#[tokio::test(start_paused = true)]
async fn a_service_takes_the_endpoints_of_its_name_along_and_leaves_its_slices() {
    let api = Api::plain().await;
    let endpoints = SERVICES.replace("services", "endpoints");
    for (name, finalizers) in [("at-once", json!([])), ("held", json!(["example.com/hold"]))] {
        let mut made = service(name);
        made["metadata"]["finalizers"] = finalizers;
        api.create(SERVICES, made).await;
        api.create(&endpoints, json!({"metadata": {"name": name}})).await;
    }
    api.create(&endpoints, json!({"metadata": {"name": "other"}}))
        .await;
    api.create(SLICES, slice("at-once-1")).await;
    for name in ["at-once", "held"] {
        api.delete(&format!("{SERVICES}/{name}"), json!({})).await;
    }
    assert!(api.is_gone(&format!("{endpoints}/at-once")).await);
    assert!(
        !api.is_gone(&format!("{endpoints}/held")).await,
        "its Service is there yet"
    );
    assert!(!api.is_gone(&format!("{SLICES}/at-once-1")).await);
    let released = json!({"metadata": {"finalizers": null}});
    api.patch(&format!("{SERVICES}/held"), released).await;
    assert!(api.is_gone(&format!("{endpoints}/held")).await);
    assert!(!api.is_gone(&format!("{endpoints}/other")).await);
}

#[tokio::test(start_paused = true)]
async fn pods_that_need_no_grace_go_at_once() {
    let api = Api::plain().await;
    let mut unscheduled = pod("unscheduled");
    unscheduled["spec"].as_object_mut().unwrap().remove("nodeName");
    api.create(PODS, unscheduled).await;
    api.create(PODS, pod("finished")).await;
    api.patch(
        &format!("{PODS}/finished/status"),
        json!({"status": {"phase": "Succeeded"}}),
    )
    .await;
    let mut quick = pod("quick");
    quick["spec"]["terminationGracePeriodSeconds"] = 0.into();
    api.create(PODS, quick).await;
    for name in ["unscheduled", "finished", "quick"] {
        let last = api.delete(&format!("{PODS}/{name}"), Value::Null).await;
        assert_eq!(last["kind"], "Pod", "a pod's deletion is answered with the pod");
        assert!(api.is_gone(&format!("{PODS}/{name}")).await, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn finalizers_hold_an_object() {
    let api = Api::plain().await;
    let mut held = slice("s");
    held["metadata"]["finalizers"] = json!(["example.com/a", "example.com/b"]);
    api.create(SLICES, held).await;
    let path = format!("{SLICES}/s");
    let pending = api.delete(&path, json!({})).await;
    assert_eq!(pending["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(pending["metadata"]["generation"], 2);
    assert_eq!(api.delete(&path, json!({})).await, pending);
    let more = json!({"metadata": {"finalizers": ["example.com/a", "example.com/b", "example.com/c"]}});
    api.refuses(422, "PATCH", &path, more).await;
    let mut watch = api
        .watch(&format!("{SLICES}?watch=1&resourceVersion={}", version(&pending)))
        .await;
    api.patch(&path, json!({"metadata": {"finalizers": ["example.com/b"]}}))
        .await;
    assert_eq!(watch.told().await, "MODIFIED s");
    api.patch(&path, json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(watch.told().await, "DELETED s");
    assert!(api.is_gone(&path).await);

    // A pod with a finalizer waits for both, the grace and the finalizer.
    let mut held = pod("p");
    held["metadata"]["finalizers"] = json!(["example.com/a"]);
    api.create(PODS, held).await;
    let path = format!("{PODS}/p");
    api.delete(&path, json!({})).await;
    api.patch(&path, json!({"metadata": {"finalizers": null}})).await;
    assert!(!api.is_gone(&path).await);
    api.remove(&path).await;
    assert!(api.is_gone(&path).await);
}

#[tokio::test(start_paused = true)]
async fn preconditions() {
    let api = Api::plain().await;
    let made = api.create(SLICES, slice("s")).await;
    let path = format!("{SLICES}/s");
    for wrong in [
        json!({"preconditions": {"uid": "00000000-0000-4000-8000-000000000000"}}),
        json!({"preconditions": {"resourceVersion": "1"}}),
    ] {
        api.refuses(409, "DELETE", &path, wrong).await;
    }
    api.refuses(422, "DELETE", &path, json!({"propagationPolicy": "Sideways"}))
        .await;
    let right = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {
        "uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"],
    }});
    let status = api.delete(&path, right).await;
    assert_eq!(
        (&status["status"], &status["details"]["name"]),
        (&json!("Success"), &json!("s"))
    );
}

#[tokio::test(start_paused = true)]
async fn collections_are_deleted() {
    let api = Api::plain().await;
    for name in ["a", "b", "c"] {
        let mut labelled = slice(name);
        labelled["metadata"]["labels"] = json!({"name": name});
        api.create(SLICES, labelled).await;
    }
    let list = api
        .delete(&format!("{SLICES}?labelSelector=name%20notin%20(b)"), json!({}))
        .await;
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    assert_eq!(crate::client::names(&api.get(SLICES).await), ["b"]);
    api.refuses(405, "DELETE", "/api/v1/namespaces", json!({})).await;
    api.refuses(405, "DELETE", "/api/v1/pods", json!({})).await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_without_its_controller_stays() {
    let api = Api::plain().await;
    api.create(SLICES, slice("s")).await;
    let path = "/api/v1/namespaces/ns";
    let pending = api.delete(path, json!({})).await;
    assert_eq!(pending["status"]["phase"], "Terminating");
    assert!(pending["metadata"].get("deletionGracePeriodSeconds").is_none());
    assert_eq!(api.delete(path, json!({})).await, pending);
    let refusal = api.refused("POST", SLICES, slice("t")).await;
    assert_eq!(refusal["details"]["causes"][0]["reason"], "NamespaceTerminating");
    // Objects that are there can still be changed and deleted.
    api.label(&format!("{SLICES}/s"), json!({"a": "b"})).await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert!(!api.is_gone(&format!("{SLICES}/s")).await);
    // The finalizer is taken off by its own subresource only.
    let mut freed = api.get(path).await;
    freed["spec"] = json!({});
    assert_eq!(
        api.put(path, freed.clone()).await["spec"]["finalizers"],
        json!(["kubernetes"])
    );
    api.put(&format!("{path}/finalize"), freed).await;
    assert!(api.is_gone(path).await);
    for name in ["default", "kube-system", "kube-public"] {
        let kept = format!("/api/v1/namespaces/{name}");
        api.refuses(403, "DELETE", &kept, json!({})).await;
    }
}
