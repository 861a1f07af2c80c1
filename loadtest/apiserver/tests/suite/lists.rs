//! Lists: versions, pages, selectors, forms.

use crate::client::{Api, PODS, SLICES, names, pod, slice, version};
use memory_apiserver::Config;
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
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    api.delete(&format!("{PODS}/c"), json!({"gracePeriodSeconds": 0}))
        .await;
    api.patch(
        &format!("{PODS}/d"),
        json!({"metadata": {"labels": {"new": "1"}}}),
    )
    .await;
    api.create(PODS, pod("bb")).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = api.get(&format!("{PODS}?limit=2&continue={token}")).await;
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(second["items"][1]["metadata"]["labels"], json!({"app": "web"}));
    assert_eq!(
        second["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    assert_eq!(second["metadata"]["remainingItemCount"], 1);
    let token = second["metadata"]["continue"].as_str().unwrap();
    let third = api.get(&format!("{PODS}?limit=2&continue={token}")).await;
    assert_eq!(names(&third), ["e"]);
    assert!(third["metadata"].get("continue").is_none());
    assert!(third["metadata"].get("remainingItemCount").is_none());
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
    api.delete(&format!("{PODS}/c"), json!({"gracePeriodSeconds": 0}))
        .await;
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
        assert_eq!(
            api.refused("GET", &format!("{PODS}?continue={bad}"), Value::Null)
                .await["code"],
            400
        );
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
        assert_eq!(
            api.refused("GET", &format!("{PODS}?{query}"), Value::Null).await["code"],
            code,
            "{query}"
        );
    }
    api.server.compact();
    let query = format!("resourceVersion={past}&resourceVersionMatch=Exact");
    assert_eq!(
        api.refused("GET", &format!("{PODS}?{query}"), Value::Null).await["code"],
        410
    );
    let single = format!("{PODS}/a?resourceVersion=999999");
    assert_eq!(api.refused("GET", &single, Value::Null).await["code"], 504);
}

#[tokio::test(start_paused = true)]
async fn selectors_select() {
    let api = five().await;
    api.patch(
        &format!("{PODS}/a"),
        json!({"metadata": {"labels": {"tier": "x"}}}),
    )
    .await;
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
            "fieldSelector=spec.hostNetwork%3Dfalse,metadata.name%3D%3Dd",
            vec!["d"],
        ),
        (
            "fieldSelector=spec.restartPolicy%3DAlways&labelSelector=tier%3Dx",
            vec!["a"],
        ),
    ] {
        assert_eq!(names(&api.get(&format!("{PODS}?{query}")).await), want, "{query}");
    }
    // Under a selector what remains is not counted, and pages skip what is not selected.
    let page = api.get(&format!("{PODS}?limit=1&labelSelector=!tier")).await;
    assert!(page["metadata"].get("continue").is_some());
    assert!(page["metadata"].get("remainingItemCount").is_none());
    for query in [
        "fieldSelector=spec.nope%3D1",
        "labelSelector=a%20b",
        "fieldSelector=x",
    ] {
        assert_eq!(
            api.refused("GET", &format!("{PODS}?{query}"), Value::Null).await["code"],
            400
        );
    }
    let refusal = api
        .refused(
            "GET",
            &format!("{SLICES}?fieldSelector=addressType%3DIPv4"),
            Value::Null,
        )
        .await;
    assert_eq!(
        refusal["message"],
        "\"addressType\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
    );
}

#[tokio::test(start_paused = true)]
async fn events_are_selected_by_what_they_are_about() {
    let api = Api::plain().await;
    for (name, about) in [("e1", "web"), ("e2", "db")] {
        let event = json!({
            "metadata": {"name": name},
            "involvedObject": {"kind": "Service", "namespace": "ns", "name": about},
            "reason": "Why", "type": "Warning", "source": {"component": "c"},
        });
        api.create("/api/v1/namespaces/ns/events", event).await;
    }
    let query = "fieldSelector=involvedObject.name%3Ddb,reason%3DWhy,source%3Dc,type!%3DNormal";
    assert_eq!(
        names(&api.get(&format!("/api/v1/namespaces/ns/events?{query}")).await),
        ["e2"]
    );
}

#[tokio::test(start_paused = true)]
async fn forms_of_an_answer() {
    let api = five().await;
    let single = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let answer = api
        .raw("GET", &format!("{PODS}/a"), &[("accept", single)], b"")
        .await;
    assert_eq!(answer.body["kind"], "PartialObjectMetadata");
    assert!(answer.body.get("spec").is_none());
    assert_eq!(
        answer.body["metadata"],
        api.get(&format!("{PODS}/a")).await["metadata"]
    );
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let both = format!("{table},application/json");
    let cases = [
        (PODS.to_owned(), single, 406),
        (format!("{PODS}/a"), list, 406),
        (PODS.to_owned(), list, 200),
        (PODS.to_owned(), table, 200),
        (PODS.to_owned(), both.as_str(), 200),
        (PODS.to_owned(), "application/vnd.kubernetes.protobuf", 200),
        (PODS.to_owned(), "application/vnd.kubernetes.protobuf, */*", 200),
    ];
    for (path, accept, status) in cases {
        assert_eq!(
            api.raw("GET", &path, &[("accept", accept)], b"").await.status,
            status,
            "{path} as {accept}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn long_lists_come_in_pieces_and_whole() {
    let api = Api::new(Config::default().gc(false).seed(3)).await;
    for i in 0..120 {
        let mut big = slice(&format!("s{i:03}"));
        let endpoints: Vec<Value> = (0..100)
            .map(|e| json!({"addresses": [format!("10.1.{i}.{e}")]}))
            .collect();
        big["endpoints"] = endpoints.into();
        api.create(SLICES, big).await;
    }
    let answer = api.call("GET", SLICES, Value::Null).await;
    assert!(answer.raw.len() > 500_000);
    let list = names(&answer.body);
    assert_eq!(list.len(), 120);
    assert!(list.is_sorted());
}
