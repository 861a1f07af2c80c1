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
    let metadata = &made["metadata"];
    assert_eq!(
        json!([
            metadata["creationTimestamp"],
            metadata["namespace"],
            metadata["generation"]
        ]),
        json!(["2030-05-06T07:08:14Z", "ns", 1])
    );
    let uid = metadata["uid"].as_str().unwrap();
    assert_eq!((uid.len(), &uid[14..15]), (36, "4"));
    assert_eq!(made["status"], json!({"phase": "Pending"}));
    assert!(made.get("unknown").is_none());
    assert_eq!(made["spec"]["restartPolicy"], "Always");
    assert_eq!(made, api.get(&format!("{PODS}/p")).await);
    let node = api
        .create("/api/v1/nodes", json!({"metadata": {"name": "n"}}))
        .await;
    assert_eq!(
        version(&node),
        version(&made) + 1,
        "versions are of all kinds together"
    );
    assert_eq!(
        node["status"]["daemonEndpoints"],
        json!({"kubeletEndpoint": {"Port": 0}})
    );
    let ns = api.get("/api/v1/namespaces/ns").await;
    assert_eq!(ns["metadata"]["labels"]["kubernetes.io/metadata.name"], "ns");
    assert_eq!(
        json!([ns["spec"]["finalizers"][0], ns["status"]["phase"]]),
        json!(["kubernetes", "Active"])
    );
}

#[tokio::test(start_paused = true)]
async fn generated_names() {
    let api = Api::plain().await;
    let generate = async |metadata: Value| {
        let mut given = slice("");
        given["metadata"] = metadata;
        api.create(SLICES, given).await["metadata"]["name"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let (first, second) = (
        generate(json!({"generateName": "web-"})).await,
        generate(json!({"generateName": "web-"})).await,
    );
    assert_ne!(first, second);
    let suffix = first.strip_prefix("web-").unwrap();
    assert!(
        suffix.len() == 5 && suffix.chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)),
        "{first}"
    );
    assert_eq!(
        generate(json!({"name": "named", "generateName": "web-"})).await,
        "named"
    );
    assert_eq!(generate(json!({"generateName": "x".repeat(70)})).await.len(), 63);
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
    api.refuses(409, "PUT", &path, new).await;
    // Without a version it is unconditional.
    let mut free = slice("s");
    free["ports"][0]["port"] = 82.into();
    assert_eq!(api.put(&path, free.clone()).await["ports"][0]["port"], 82);
    free["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000".into();
    api.refuses(409, "PUT", &path, free).await;
    let stale = json!({"metadata": {"resourceVersion": version(&old).to_string()}, "ports": []});
    api.refuses(409, "PATCH", &path, stale).await;

    // A lease wants a version, and may be made by a replacement.
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}});
    let path = format!("{LEASES}/l");
    let mut made = api.call("PUT", &path, lease.clone()).await;
    assert_eq!(made.status, 201);
    api.refuses(422, "PUT", &path, lease).await;
    made.body["spec"]["holderIdentity"] = "b".into();
    assert_eq!(api.put(&path, made.body).await["spec"]["holderIdentity"], "b");
    let none = format!("{PODS}/none");
    api.refuses(404, "PUT", &none, pod("none")).await;
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
    let nothing = json!({"metadata": {"annotations": {"gone": null}}});
    assert_eq!(api.patch(&path, nothing).await, old);
    assert_eq!(api.patch(&path, json!({})).await, old);
    assert_eq!(api.server.resource_version(), version(&old));
    api.label(&path, json!({"a": "b"})).await;
    assert_eq!(
        watch.next().await.unwrap()["object"]["metadata"]["labels"],
        json!({"a": "b"})
    );
}

#[tokio::test(start_paused = true)]
async fn generations() {
    let api = Api::plain().await;
    api.create(SLICES, slice("s")).await;
    api.create(PODS, pod("p")).await;
    let (slice, pod) = (format!("{SLICES}/s"), format!("{PODS}/p"));
    let image = json!({"spec": {"containers": [{"name": "c", "image": "example.com/c:2"}]}});
    for (path, patch, want) in [
        (slice.clone(), json!({"metadata": {"annotations": {"a": "b"}}}), 1),
        (slice.clone(), json!({"metadata": {"labels": {"a": "b"}}}), 2),
        (slice.clone(), json!({"ports": [{"port": 1}]}), 3),
        (slice, json!({"metadata": {"generation": 9}}), 3),
        (
            format!("{pod}/status"),
            json!({"status": {"phase": "Running"}}),
            1,
        ),
        (pod, image, 2),
    ] {
        let patched = api.patch(&path, patch.clone()).await;
        assert_eq!(patched["metadata"]["generation"], want, "{patch}");
    }
    let made = api.create("/api/v1/namespaces/ns/services", service("s")).await;
    assert!(made["metadata"].get("generation").is_none());
}

#[tokio::test(start_paused = true)]
async fn merge_patches() {
    let api = Api::plain().await;
    api.create(SLICES, slice("s")).await;
    let path = format!("{SLICES}/s");
    let labels = json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "endpoints": null, "ports": []});
    let patched = api.patch(&path, labels).await;
    // Absent endpoints are null.
    assert_eq!(
        (patched.get("endpoints"), patched.get("ports")),
        (Some(&Value::Null), Some(&Value::Null))
    );
    let patched = api.label(&path, json!({"a": null, "c": "3"})).await;
    assert_eq!(patched["metadata"]["labels"], json!({"b": "2", "c": "3"}));
    assert!(
        api.label(&path, Value::Null).await["metadata"]
            .get("labels")
            .is_none()
    );
    for (code, patch) in [
        (400, json!({"metadata": {"name": "other"}})),
        (422, json!({"addressType": "IPv6"})),
        (400, json!({"endpoints": "none"})),
        (400, json!([])),
    ] {
        api.refuses(code, "PATCH", &path, patch).await;
    }
    api.refuses(404, "PATCH", &format!("{SLICES}/none"), json!({}))
        .await;
}

#[tokio::test(start_paused = true)]
async fn status_is_apart() {
    let api = Api::plain().await;
    let made = api.create(PODS, pod("p")).await;
    let (path, status) = (format!("{PODS}/p"), format!("{PODS}/p/status"));
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
    let stored = api.put(&status, new).await;
    assert_eq!(
        (&stored["spec"], &stored["status"]["phase"]),
        (&made["spec"], &json!("Running"))
    );
    assert_eq!(stored["status"]["podIPs"], json!([{"ip": "10.0.0.9"}]));
    let both = json!({"status": {"podIPs": [{"ip": "10.0.0.9"}, {"ip": "fd00::9"}]}});
    let stored = api.patch(&status, both.clone()).await;
    assert_eq!(
        (&stored["status"]["podIP"], &stored["status"]["podIPs"]),
        (&json!("10.0.0.9"), &both["status"]["podIPs"])
    );
    assert_eq!(api.get(&status).await, api.get(&path).await);
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
