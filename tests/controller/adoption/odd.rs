//! Representations that upstream, older versions of it, and users have left in stores.

use crate::world::{NS, TRIGGER, World, dual_pod, ip, items, outlines, pod, service_with, text, version};
use serde_json::{Value, json};
use std::time::Duration;

/// A cluster that is up to date, its controller stopped. Nothing has been sent since, as far as the gate knows.
async fn converged(limit: usize, pods: usize, over: &Value) -> World {
    let mut world = World::new(limit);
    world.nodes(2).await;
    world.pods(pods).await;
    world.make(service_with(over)).await;
    world.start_up().await;
    world.stop().await;
    world.gate.take();
    world
}

/// Starts a controller, twice; neither may write.
async fn assert_adopted(world: &mut World, what: &str) {
    for run in ["first", "second"] {
        let sent = world.start_up().await;
        assert_eq!(outlines(&sent), [""; 0], "{what}, {run} start: {sent:#?}");
        world.stop().await;
        world.gate.take();
    }
}

/// Writes an object as it is, changed by the test, as another client would.
async fn rewrite(world: &World, kind: &str, name: &str, change: impl FnOnce(&mut Value)) {
    let mut object = world.get(kind, name).await.unwrap();
    change(&mut object);
    let path = crate::cluster::Api::path(kind, NS, Some(name)).unwrap();
    let body = Some(("application/json", &object));
    let done = world.api.call(http::Method::PUT, &path, body).await;
    done.unwrap_or_else(|e| panic!("{object}: {e:?}"));
}

async fn slice_name(world: &World) -> String {
    text(&world.slices().await[0]["metadata"]["name"])
}

fn two_ports() -> Value {
    json!({"spec": {"ports": [
        {"name": "http", "port": 80, "targetPort": 8080}, {"name": "admin", "port": 81, "targetPort": 9090}]}})
}

fn array(value: &mut Value) -> &mut Vec<Value> {
    value.as_array_mut().unwrap()
}

#[tokio::test(start_paused = true)]
async fn endpoints_packed_and_ordered_otherwise_stay() {
    let mut world = converged(100, 3, &two_ports()).await;
    rewrite(&world, "Endpoints", "s", |endpoints| {
        let subset = endpoints["subsets"][0].clone();
        // A subset for each port, the last first, and its addresses from the end.
        let subsets = items(&subset["ports"]).map(|port| {
            let mut one = subset.clone();
            one["ports"] = json!([port]);
            array(&mut one["addresses"]).reverse();
            for address in array(&mut one["addresses"]) {
                address["targetRef"]["resourceVersion"] = json!("12345");
            }
            one["notReadyAddresses"] = Value::Null;
            one
        });
        let mut subsets: Vec<Value> = subsets.collect();
        subsets.reverse();
        endpoints["subsets"] = subsets.into();
    })
    .await;
    let before = world.endpoints().await;
    assert_eq!(before["subsets"].as_array().unwrap().len(), 2);
    assert_adopted(&mut world, "subsets").await;
    assert_eq!(world.endpoints().await, before);

    // A subset for each address.
    rewrite(&world, "Endpoints", "s", |endpoints| {
        let one = endpoints["subsets"][0].clone();
        let ports: Vec<Value> = items(&endpoints["subsets"])
            .map(|s| s["ports"][0].clone())
            .collect();
        let subsets = items(&one["addresses"]).map(|a| json!({"addresses": [a], "ports": ports}));
        endpoints["subsets"] = subsets.collect();
    })
    .await;
    assert_adopted(&mut world, "a subset for each address").await;
    // The first real change is one write, and makes it ours.
    world.start_up().await;
    world.flip("p1", false, 1).await;
    assert_eq!(
        outlines(&world.rest().await),
        ["PUT endpointslices 200", "PUT endpoints 200"]
    );
    assert_eq!(world.endpoints().await["subsets"].as_array().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn slices_ordered_otherwise_stay() {
    let mut world = converged(100, 4, &two_ports()).await;
    let name = slice_name(&world).await;
    rewrite(&world, "EndpointSlice", &name, |slice| {
        array(&mut slice["ports"]).reverse();
        array(&mut slice["endpoints"]).reverse();
        for endpoint in array(&mut slice["endpoints"]) {
            endpoint["targetRef"]["resourceVersion"] = json!("12345");
        }
    })
    .await;
    assert_adopted(&mut world, "order").await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_nothing_however_it_is_written() {
    for empty in [Value::Null, json!([])] {
        let mut world = converged(100, 0, &json!({})).await;
        let name = slice_name(&world).await;
        rewrite(&world, "EndpointSlice", &name, |slice| {
            slice["endpoints"] = empty.clone();
            slice["ports"] = empty.clone();
        })
        .await;
        rewrite(&world, "Endpoints", "s", |endpoints| {
            endpoints["subsets"] = empty.clone();
        })
        .await;
        assert_adopted(&mut world, "a placeholder").await;
        // The first pod goes into the placeholder.
        world.start_up().await;
        world.pods(1).await;
        let sent = world.rest().await;
        assert_eq!(outlines(&sent), ["PUT endpointslices 200", "PUT endpoints 200"]);
        assert_eq!(sent[0].name(), Some(&*name));
    }
    // A headless Service without ports.
    for empty in [Value::Null, json!([])] {
        let bare = json!({"spec": {"clusterIP": "None", "ports": null}});
        let mut world = converged(100, 2, &bare).await;
        let name = slice_name(&world).await;
        rewrite(&world, "EndpointSlice", &name, |slice| {
            slice["ports"] = empty.clone();
        })
        .await;
        rewrite(&world, "Endpoints", "s", |endpoints| {
            endpoints["subsets"][0]["ports"] = empty.clone();
        })
        .await;
        assert_adopted(&mut world, "no ports").await;
    }
}

#[tokio::test(start_paused = true)]
async fn slices_above_the_limit_are_left_as_they_are() {
    let mut world = converged(100, 10, &json!({})).await;
    world.options.settings.max_endpoints = 4;
    assert_adopted(&mut world, "10 of 4").await;
    let large = slice_name(&world).await;
    world.start_up().await;
    world.flip("p1", false, 1).await;
    let sent = world.rest().await;
    assert_eq!(outlines(&sent), ["PUT endpointslices 200", "PUT endpoints 200"]);
    assert_eq!(
        sent[0].body["endpoints"].as_array().unwrap().len(),
        10,
        "the slice is not split"
    );
    world.make(pod("p11", &ip(11), "n1")).await;
    let sent = world.rest().await;
    assert_eq!(
        outlines(&sent),
        ["POST endpointslices 201", "PUT endpoints 200"],
        "the slice is not filled"
    );
    for i in 2..=9 {
        world.delete("Pod", &format!("p{i}")).await;
    }
    world.rest().await;
    let sizes = |slices: Vec<Value>| {
        let size = |s: &Value| {
            (
                text(&s["metadata"]["name"]) == large,
                items(&s["endpoints"]).count(),
            )
        };
        let mut sizes: Vec<_> = slices.iter().map(size).collect();
        sizes.sort_unstable();
        sizes
    };
    assert_eq!(
        sizes(world.slices().await),
        [(false, 1), (true, 2)],
        "the slice shrinks, and is not replaced"
    );
}

/// Old API servers took addresses with leading zeros, which some parsers read as octal.
#[tokio::test(start_paused = true)]
async fn addresses_are_compared_by_what_they_mean() {
    let mut world = World::new(100);
    world.nodes(1).await;
    world.make(dual_pod("p1", &ip(1), "fd00:0:0::00a1", "n1")).await;
    world
        .make(service_with(&json!({"spec": {
            "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]}})))
        .await;
    world.start_up().await;
    world.stop().await;
    world.gate.take();
    assert_eq!(
        world.in_slices().await,
        [(ip(1), true), ("fd00::a1".to_owned(), true)],
        "the addresses are written in canonical form"
    );
    assert_adopted(&mut world, "a pod's spelling").await;
    let slices = world.slices().await;
    let six = slices
        .iter()
        .find(|slice| slice["addressType"] == "IPv6")
        .unwrap();
    let name = text(&six["metadata"]["name"]);
    rewrite(&world, "EndpointSlice", &name, |slice| {
        slice["endpoints"][0]["addresses"] = json!(["fd00:0:0::00a1"]);
    })
    .await;
    rewrite(&world, "Endpoints", "s", |endpoints| {
        endpoints["subsets"][0]["addresses"][0]["ip"] = json!("fd00:0::00a1");
    })
    .await;
    assert_adopted(&mut world, "the spelling of what is stored").await;
}

#[tokio::test(start_paused = true)]
async fn labels_and_annotations_of_others_are_kept() {
    let mut world = converged(100, 1, &json!({})).await;
    let name = slice_name(&world).await;
    let others = json!({"metadata": {"annotations": {"someone.example.com/note": "mine"},
        "finalizers": ["someone.example.com/hold"]}});
    for (kind, name) in [("EndpointSlice", &*name), ("Endpoints", "s")] {
        world.patch(kind, name, others.clone()).await;
    }
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p1", "uid": "11111111-1111-4111-8111-111111111111"});
    rewrite(&world, "EndpointSlice", &name, |slice| {
        array(&mut slice["metadata"]["ownerReferences"]).push(owner.clone());
    })
    .await;
    rewrite(&world, "Endpoints", "s", |endpoints| {
        endpoints["metadata"]["ownerReferences"] = json!([owner]);
    })
    .await;
    assert_adopted(&mut world, "annotations, finalizers and owners of others").await;

    world.start_up().await;
    for second in [10, 20] {
        world.flip("p1", second == 20, second).await;
        assert_eq!(
            outlines(&world.rest().await),
            ["PUT endpointslices 200", "PUT endpoints 200"]
        );
        for object in [world.slices().await.remove(0), world.endpoints().await] {
            let meta = &object["metadata"];
            assert_eq!(meta["annotations"]["someone.example.com/note"], "mine");
            assert!(meta["annotations"][TRIGGER].is_string(), "beside ours");
            assert_eq!(meta["finalizers"], json!(["someone.example.com/hold"]));
            assert!(items(&meta["ownerReferences"]).any(|o| *o == owner), "{meta}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn hints_in_old_forms_stay() {
    for empty in [
        json!({}),
        json!({"forZones": []}),
        json!({"forZones": null, "forNodes": null}),
        Value::Null,
    ] {
        let mut world = converged(100, 2, &json!({})).await;
        let name = slice_name(&world).await;
        rewrite(&world, "EndpointSlice", &name, |slice| {
            for endpoint in array(&mut slice["endpoints"]) {
                endpoint["hints"] = empty.clone();
            }
        })
        .await;
        assert_adopted(&mut world, &format!("hints {empty}")).await;
    }
    // The deprecated annotation, and the field's first value.
    let mut world = World::new(100);
    world.nodes(2).await;
    for i in 1..=4 {
        world
            .make(pod(&format!("p{i}"), &ip(i), &format!("n{}", i % 2 + 1)))
            .await;
    }
    let old = json!({"metadata": {"annotations": {"service.kubernetes.io/topology-aware-hints": "auto"}}});
    world.make(service_with(&old)).await;
    world.start_up().await;
    world.stop().await;
    world.gate.take();
    let name = slice_name(&world).await;
    // Any balanced choice is as good as ours.
    rewrite(&world, "EndpointSlice", &name, |slice| {
        for endpoint in array(&mut slice["endpoints"]) {
            let zone = &endpoint["hints"]["forZones"][0]["name"];
            let other = if zone == "z1" { "z2" } else { "z1" };
            endpoint["hints"] = json!({"forZones": [{"name": other}], "forNodes": null});
        }
    })
    .await;
    let before = world.slices().await;
    assert_adopted(&mut world, "another's choice of zones").await;
    assert_eq!(world.slices().await, before);
    let mut world = converged(100, 2, &json!({"spec": {"trafficDistribution": "PreferClose"}})).await;
    assert_eq!(
        world.slices().await[0]["endpoints"][0]["hints"]["forZones"],
        json!([{"name": "z1"}])
    );
    assert_adopted(&mut world, "PreferClose").await;
}

/// A slice that is wrong, and not only odd, is put right once.
#[tokio::test(start_paused = true)]
async fn a_wrong_slice_is_put_right_in_one_write() {
    let mut world = converged(100, 2, &json!({})).await;
    let name = slice_name(&world).await;
    rewrite(&world, "EndpointSlice", &name, |slice| {
        slice["endpoints"][0]["hints"] = json!({"forZones": [{"name": "z9"}]});
        slice["endpoints"][1]["addresses"] = json!(["10.9.9.9"]);
    })
    .await;
    rewrite(&world, "Endpoints", "s", |endpoints| {
        endpoints["subsets"][0]["addresses"][0]["ip"] = json!("10.9.9.9");
    })
    .await;
    let mut written = outlines(&world.start_up().await);
    written.sort();
    assert_eq!(written, ["PUT endpoints 200", "PUT endpointslices 200"]);
    assert_eq!(world.in_slices().await, [(ip(1), true), (ip(2), true)]);
    assert_eq!(world.in_endpoints().await, [(ip(1), true), (ip(2), true)]);
    assert_eq!(
        outlines(&world.rest_for(Duration::from_secs(3600)).await),
        [""; 0]
    );
    let stored = [
        version(&world.slices().await[0]),
        version(&world.endpoints().await),
    ];
    world.stop().await;
    world.gate.take();
    assert_adopted(&mut world, "what was put right").await;
    assert_eq!(
        [
            version(&world.slices().await[0]),
            version(&world.endpoints().await)
        ],
        stored
    );
}
