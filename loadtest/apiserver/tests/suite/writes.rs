//! Creates, replacements and patches.

use crate::client::{Api, LEASES, PODS, SLICES, pod, service, slice, version};
use memory_apiserver::Config;
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn what_the_server_sets() {
    let start: jiff::Timestamp = "2030-05-06T07:08:09.9Z".parse().unwrap();
    let api = Api::new(Config::default().gc(false).start_time(start)).await;
    tokio::time::advance(std::time::Duration::from_secs(5)).await;
    let mut given = pod("p");
    given["metadata"]["uid"] = "mine".into();
    given["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z".into();
    given["status"] = json!({"phase": "Running"});
    given["unknown"] = 1.into();
    let made = api.create(PODS, given).await;
    assert_eq!(made["metadata"]["creationTimestamp"], "2030-05-06T07:08:14Z");
    assert_eq!(made["metadata"]["namespace"], "ns");
    assert_eq!(made["metadata"]["generation"], 1);
    let uid = made["metadata"]["uid"].as_str().unwrap();
    assert_eq!((uid.len(), &uid[14..15]), (36, "4"));
    assert!("89ab".contains(&uid[19..20]));
    assert_eq!(
        made["status"],
        json!({"phase": "Pending", "qosClass": "BestEffort"})
    );
    assert!(made.get("unknown").is_none());
    assert_eq!(made["spec"]["restartPolicy"], "Always");
    assert_eq!(made["spec"]["terminationGracePeriodSeconds"], 30);
    assert_eq!(made["spec"]["containers"][0]["terminationMessagePolicy"], "File");
    assert_eq!(made, api.get(&format!("{PODS}/p")).await);
    let node = api
        .create("/api/v1/nodes", json!({"metadata": {"name": "n"}}))
        .await;
    assert_eq!(
        node["status"]["daemonEndpoints"],
        json!({"kubeletEndpoint": {"Port": 0}})
    );
    let ns = api.get("/api/v1/namespaces/ns").await;
    assert_eq!(ns["metadata"]["labels"]["kubernetes.io/metadata.name"], "ns");
    assert_eq!(
        (&ns["spec"]["finalizers"][0], &ns["status"]["phase"]),
        (&json!("kubernetes"), &json!("Active"))
    );
}

#[tokio::test(start_paused = true)]
async fn versions_are_of_all_kinds_together() {
    let api = Api::plain().await;
    let versions = [
        version(&api.create(PODS, pod("p")).await),
        version(&api.create(SLICES, slice("s")).await),
        version(
            &api.patch(&format!("{PODS}/p"), json!({"metadata": {"labels": {"a": "b"}}}))
                .await,
        ),
        version(
            &api.create("/api/v1/nodes", json!({"metadata": {"name": "n"}}))
                .await,
        ),
    ];
    assert!(versions.windows(2).all(|w| w[0] + 1 == w[1]), "{versions:?}");
}

#[tokio::test(start_paused = true)]
async fn generated_names() {
    let api = Api::plain().await;
    let mut given = slice("");
    given["metadata"] = json!({"generateName": "web-"});
    let first = api.create(SLICES, given.clone()).await;
    let second = api.create(SLICES, given).await;
    let name = first["metadata"]["name"].as_str().unwrap();
    assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
    assert_eq!((name.len(), &name[..4]), (9, "web-"));
    assert!(
        name[4..]
            .chars()
            .all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)),
        "{name}"
    );
    assert_eq!(first["metadata"]["generateName"], "web-");
    let mut both = slice("named");
    both["metadata"]["generateName"] = "web-".into();
    let made = api.create(SLICES, both).await;
    assert_eq!(
        (&made["metadata"]["name"], &made["metadata"]["generateName"]),
        (&json!("named"), &json!("web-"))
    );
    let mut long = slice("");
    long["metadata"] = json!({"generateName": "x".repeat(70)});
    let made = api.create(SLICES, long).await;
    assert_eq!(made["metadata"]["name"].as_str().unwrap().len(), 63);
}

#[tokio::test(start_paused = true)]
async fn stale_and_unconditional_replacements() {
    let api = Api::plain().await;
    let old = api.create(SLICES, slice("s")).await;
    let path = format!("{SLICES}/s");
    let mut new = old.clone();
    new["ports"][0]["port"] = 81.into();
    let stored = api.put(&path, new.clone()).await;
    assert_eq!(version(&stored), version(&old) + 1);
    let refusal = api.refused("PUT", &path, new).await;
    assert_eq!(
        (&refusal["code"], &refusal["reason"]),
        (&json!(409), &json!("Conflict"))
    );
    // Without a version it is unconditional.
    let mut free = slice("s");
    free["ports"][0]["port"] = 82.into();
    assert_eq!(api.put(&path, free.clone()).await["ports"][0]["port"], 82);
    free["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000".into();
    let refusal = api.refused("PUT", &path, free).await;
    assert_eq!(refusal["code"], 409);
    assert!(
        refusal["message"]
            .as_str()
            .unwrap()
            .contains("Precondition failed: UID in precondition")
    );
    let stale = json!({"metadata": {"resourceVersion": version(&old).to_string()}, "ports": []});
    assert_eq!(api.refused("PATCH", &path, stale).await["code"], 409);

    // A lease wants a version, and may be made by a replacement.
    let lease =
        json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}});
    let path = format!("{LEASES}/l");
    let made = api.call("PUT", &path, lease.clone()).await;
    assert_eq!(made.status, 201);
    let refusal = api.refused("PUT", &path, lease).await;
    assert_eq!(refusal["code"], 422);
    assert_eq!(
        refusal["details"]["causes"][0]["field"],
        "metadata.resourceVersion"
    );
    let mut next = made.body;
    next["spec"]["holderIdentity"] = "b".into();
    assert_eq!(api.put(&path, next).await["spec"]["holderIdentity"], "b");
    assert_eq!(
        api.refused("PUT", &format!("{PODS}/none"), pod("none")).await["code"],
        404
    );
}

#[tokio::test(start_paused = true)]
async fn what_changes_nothing_is_not_a_change() {
    let api = Api::plain().await;
    let old = api.create(SLICES, slice("s")).await;
    let path = format!("{SLICES}/s");
    let mut watch = api
        .watch(&format!("{SLICES}?watch=1&resourceVersion={}", version(&old)))
        .await;
    assert_eq!(api.put(&path, old.clone()).await, old);
    // The same in other words: defaults left out, empty maps, unknown fields.
    let mut words = slice("s");
    words["metadata"]["labels"] = json!({});
    words["extra"] = json!({"a": 1});
    assert_eq!(api.put(&path, words).await, old);
    assert_eq!(
        api.patch(&path, json!({"metadata": {"annotations": {"gone": null}}}))
            .await,
        old
    );
    assert_eq!(api.patch(&path, json!({})).await, old);
    assert_eq!(api.server.resource_version(), version(&old));
    api.patch(&path, json!({"metadata": {"labels": {"a": "b"}}}))
        .await;
    assert_eq!(
        watch.next().await.unwrap()["object"]["metadata"]["labels"],
        json!({"a": "b"})
    );
}

#[tokio::test(start_paused = true)]
async fn generations() {
    let api = Api::plain().await;
    let generation = |object: &Value| object["metadata"]["generation"].clone();
    api.create(SLICES, slice("s")).await;
    let path = format!("{SLICES}/s");
    assert_eq!(
        generation(
            &api.patch(&path, json!({"metadata": {"annotations": {"a": "b"}}}))
                .await
        ),
        1
    );
    assert_eq!(
        generation(
            &api.patch(&path, json!({"metadata": {"labels": {"a": "b"}}}))
                .await
        ),
        2
    );
    assert_eq!(
        generation(&api.patch(&path, json!({"ports": [{"port": 1}]})).await),
        3
    );
    assert_eq!(
        generation(&api.patch(&path, json!({"metadata": {"generation": 9}})).await),
        3
    );
    api.create(PODS, pod("p")).await;
    let path = format!("{PODS}/p");
    assert_eq!(
        generation(
            &api.patch(&format!("{path}/status"), json!({"status": {"phase": "Running"}}))
                .await
        ),
        1
    );
    let image = json!({"spec": {"containers": [{"name": "c", "image": "example.com/c:2"}]}});
    assert_eq!(generation(&api.patch(&path, image).await), 2);
    let made = api.create("/api/v1/namespaces/ns/services", service("s")).await;
    assert!(made["metadata"].get("generation").is_none());
}

#[tokio::test(start_paused = true)]
async fn merge_patches() {
    let api = Api::plain().await;
    api.create(SLICES, slice("s")).await;
    let path = format!("{SLICES}/s");
    let patched = api
        .patch(
            &path,
            json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "endpoints": null, "ports": []}),
        )
        .await;
    assert_eq!(
        (&patched["endpoints"], &patched["ports"]),
        (&Value::Null, &Value::Null)
    );
    assert!(
        patched.as_object().unwrap().contains_key("endpoints"),
        "absent endpoints are null"
    );
    let patched = api
        .patch(&path, json!({"metadata": {"labels": {"a": null, "c": "3"}}}))
        .await;
    assert_eq!(patched["metadata"]["labels"], json!({"b": "2", "c": "3"}));
    let patched = api.patch(&path, json!({"metadata": {"labels": null}})).await;
    assert!(patched["metadata"].get("labels").is_none());
    let refusal = api
        .refused("PATCH", &path, json!({"metadata": {"name": "other"}}))
        .await;
    assert_eq!(
        refusal["message"],
        "the name of the object (other) does not match the name on the URL (s)"
    );
    assert_eq!(
        api.refused("PATCH", &path, json!({"addressType": "IPv6"})).await["code"],
        422
    );
    assert_eq!(
        api.refused("PATCH", &path, json!({"endpoints": "none"})).await["code"],
        400
    );
    assert_eq!(api.refused("PATCH", &path, json!([])).await["code"], 400);
    assert_eq!(
        api.refused("PATCH", &format!("{SLICES}/none"), json!({})).await["code"],
        404
    );
}

#[tokio::test(start_paused = true)]
async fn status_is_apart() {
    let api = Api::plain().await;
    let made = api.create(PODS, pod("p")).await;
    let path = format!("{PODS}/p");
    let mut new = made.clone();
    new["status"]["phase"] = "Running".into();
    new["metadata"]["labels"]["x"] = "y".into();
    let stored = api.put(&path, new.clone()).await;
    assert_eq!(
        (&stored["status"], &stored["metadata"]["labels"]["x"]),
        (&made["status"], &json!("y"))
    );
    new["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
    new["spec"]["nodeName"] = "elsewhere".into();
    new["status"]["podIP"] = "10.0.0.9".into();
    let stored = api.put(&format!("{path}/status"), new).await;
    assert_eq!(
        (&stored["spec"], &stored["status"]["phase"]),
        (&made["spec"], &json!("Running"))
    );
    assert_eq!(stored["status"]["podIPs"], json!([{"ip": "10.0.0.9"}]));
    assert_eq!(stored["status"]["qosClass"], "BestEffort");
    let both = json!([{"ip": "10.0.0.9"}, {"ip": "fd00::9"}]);
    let stored = api
        .patch(&format!("{path}/status"), json!({"status": {"podIPs": both}}))
        .await;
    assert_eq!(
        (&stored["status"]["podIP"], &stored["status"]["podIPs"]),
        (&json!("10.0.0.9"), &both)
    );
    assert_eq!(api.get(&format!("{path}/status")).await, api.get(&path).await);
    api.create("/api/v1/nodes", json!({"metadata": {"name": "n"}}))
        .await;
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let node = api.patch("/api/v1/nodes/n/status", ready).await;
    assert_eq!(
        node["status"]["conditions"][0],
        json!({"type": "Ready", "status": "True", "lastHeartbeatTime": null, "lastTransitionTime": null})
    );
    let changed = api
        .patch("/api/v1/nodes/n", json!({"status": {"conditions": null}}))
        .await;
    assert_eq!(changed["status"], node["status"]);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_stores_nothing() {
    let api = Api::plain().await;
    api.create(PODS, pod("p")).await;
    let before = api.everything().await;
    assert_eq!(
        api.call("POST", &format!("{PODS}?dryRun=All"), pod("q"))
            .await
            .status,
        201
    );
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let patched = api.patch(&format!("{PODS}/p?dryRun=All"), label).await;
    assert_eq!(patched["metadata"]["labels"]["a"], "b");
    api.delete(&format!("{PODS}/p?dryRun=All"), json!({"gracePeriodSeconds": 0}))
        .await;
    assert_eq!(
        api.call("POST", "/api/v1/namespaces/ns/services?dryRun=All", service("s"))
            .await
            .status,
        201
    );
    assert_eq!(api.everything().await, before);
    assert_eq!(
        api.refused("POST", &format!("{PODS}?dryRun=All"), pod("p")).await["code"],
        409
    );
}

#[tokio::test(start_paused = true)]
async fn endpoints_stay_as_they_were_packed() {
    let api = Api::plain().await;
    let given = json!({"metadata": {"name": "e"}, "subsets": [
        {"addresses": [{"ip": "10.1.0.2"}], "ports": [{"port": 80, "protocol": "TCP"}]},
        {"addresses": [{"ip": "10.1.0.1", "nodeName": "n"}], "ports": [{"port": 80, "protocol": "TCP"}]},
        {"addresses": [{"ip": "10.1.0.3"}]},
    ]});
    let made = api.create("/api/v1/namespaces/ns/endpoints", given.clone()).await;
    assert_eq!(made["subsets"], given["subsets"]);
}
