//! Lists: versions, pages, selectors, forms.

use crate::client::{Api, PODS, names, pod, version};
use serde_json::{Value, json};

async fn five() -> Api {
    let api = Api::plain().await;
    for name in ["a", "b", "c", "d", "e"] {
        api.create(PODS, pod(name)).await;
    }
    api
}

#[tokio::test(start_paused = true)]
async fn pages_are_of_one_snapshot() {
    let api = five().await;
    let first = api.get(&format!("{PODS}?limit=2")).await;
    assert_eq!(names(&first), ["a", "b"]);
    api.remove(&format!("{PODS}/c")).await;
    api.label(&format!("{PODS}/d"), json!({"new": "1"})).await;
    api.create(PODS, pod("bb")).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = api.get(&format!("{PODS}?limit=2&continue={token}")).await;
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(second["items"][1]["metadata"]["labels"], json!({"app": "web"}));
    assert_eq!(
        second["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    let token = second["metadata"]["continue"].as_str().unwrap();
    let third = api.get(&format!("{PODS}?limit=2&continue={token}")).await;
    assert_eq!(names(&third), ["e"]);
    assert!(third["metadata"].get("continue").is_none());
    assert_eq!(names(&api.get(PODS).await), ["a", "b", "bb", "d", "e"]);
}

#[tokio::test(start_paused = true)]
async fn pages_of_all_namespaces_follow_the_storage_order() {
    let api = five().await;
    api.create("/api/v1/namespaces", json!({"metadata": {"name": "ns-2"}}))
        .await;
    api.create("/api/v1/namespaces/ns-2/pods", pod("z")).await;
    let (mut all, mut query) = (Vec::new(), String::from("limit=4"));
    loop {
        let page = api.get(&format!("/api/v1/pods?{query}")).await;
        all.extend(names(&page).into_iter().map(str::to_owned));
        match page["metadata"]["continue"].as_str() {
            Some(token) => query = format!("limit=4&continue={token}"),
            None => break,
        }
    }
    // "ns-2/" sorts before "ns/".
    assert_eq!(all, ["z", "a", "b", "c", "d", "e"]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_page_can_be_gone_on_from() {
    let api = five().await;
    let first = api.get(&format!("{PODS}?limit=2")).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    api.remove(&format!("{PODS}/c")).await;
    api.server.compact();
    let refusal = api
        .refused("GET", &format!("{PODS}?limit=2&continue={token}"), Value::Null)
        .await;
    assert_eq!(
        (&refusal["code"], &refusal["reason"]),
        (&json!(410), &json!("Expired"))
    );
    let token = refusal["metadata"]["continue"].as_str().unwrap();
    let rest = api.get(&format!("{PODS}?continue={token}")).await;
    assert_eq!(names(&rest), ["d", "e"]);
    assert_eq!(version(&rest), api.server.resource_version());
    for bad in ["x", "e30", "!!"] {
        api.refuses(400, "GET", &format!("{PODS}?continue={bad}"), Value::Null)
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn versions_in_lists() {
    let api = five().await;
    let past = api.server.resource_version();
    api.create(PODS, pod("f")).await;
    for query in [
        "",
        "?resourceVersion=0",
        &format!("?resourceVersion={past}&resourceVersionMatch=NotOlderThan"),
    ] {
        let list = api.get(&format!("{PODS}{query}")).await;
        assert_eq!((names(&list).len(), version(&list)), (6, past + 1), "{query}");
    }
    let exact = api
        .get(&format!(
            "{PODS}?resourceVersion={past}&resourceVersionMatch=Exact"
        ))
        .await;
    assert_eq!((names(&exact).len(), version(&exact)), (5, past));
    for (query, code) in [
        ("resourceVersionMatch=Exact", 422),
        ("resourceVersionMatch=Exact&resourceVersion=0", 422),
        ("resourceVersionMatch=Newest&resourceVersion=1", 422),
        ("resourceVersion=999999", 504),
        ("resourceVersion=x", 422),
        ("limit=x", 400),
    ] {
        api.refuses(code, "GET", &format!("{PODS}?{query}"), Value::Null)
            .await;
    }
    api.server.compact();
    let query = format!("resourceVersion={past}&resourceVersionMatch=Exact");
    api.refuses(410, "GET", &format!("{PODS}?{query}"), Value::Null)
        .await;
    let single = format!("{PODS}/a?resourceVersion=999999");
    api.refuses(504, "GET", &single, Value::Null).await;
}

#[tokio::test(start_paused = true)]
async fn selectors_select() {
    let api = five().await;
    api.label(&format!("{PODS}/a"), json!({"tier": "x"})).await;
    let status = json!({"status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.7"}]}});
    api.patch(&format!("{PODS}/b/status"), status).await;
    for (query, want) in [
        ("labelSelector=tier", vec!["a"]),
        ("labelSelector=!tier", vec!["b", "c", "d", "e"]),
        ("labelSelector=app%3Dweb,tier!%3Dx", vec!["b", "c", "d", "e"]),
        ("fieldSelector=metadata.name%3Dc", vec!["c"]),
        ("fieldSelector=metadata.namespace%3Dother", vec![]),
        ("fieldSelector=status.phase%3DRunning", vec!["b"]),
        ("fieldSelector=status.podIP%3D10.0.0.7", vec!["b"]),
        ("fieldSelector=spec.nodeName!%3Dnode-1", vec![]),
        (
            "fieldSelector=status.phase%3DPending,metadata.name%3D%3Dd",
            vec!["d"],
        ),
        (
            "fieldSelector=status.phase%3DPending&labelSelector=tier%3Dx",
            vec!["a"],
        ),
    ] {
        assert_eq!(names(&api.get(&format!("{PODS}?{query}")).await), want, "{query}");
    }
    // Pages skip what is not selected.
    let page = api.get(&format!("{PODS}?limit=1&labelSelector=!tier")).await;
    assert!(page["metadata"].get("continue").is_some());
    for query in [
        "fieldSelector=spec.nope%3D1",
        "labelSelector=a%20b",
        "fieldSelector=x",
    ] {
        api.refuses(400, "GET", &format!("{PODS}?{query}"), Value::Null)
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_alone() {
    let api = five().await;
    let single = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let one = format!("{PODS}/a");
    let partial = api.raw("GET", &one, &[("accept", single)], b"").await.body;
    assert_eq!(partial["kind"], "PartialObjectMetadata");
    assert_eq!(partial["metadata"], api.get(&one).await["metadata"]);
    assert!(partial.get("spec").is_none());
    let partials = api.raw("GET", PODS, &[("accept", list)], b"").await.body;
    assert_eq!((&partials["items"][0], names(&partials).len()), (&partial, 5));
    for (path, accept) in [(PODS, single), (&one, list)] {
        assert_eq!(api.raw("GET", path, &[("accept", accept)], b"").await.status, 406);
    }
}
