//! Services whose selector is an annotation.

mod told;
mod withdrawn;

use crate::cluster::{self, Api};
use crate::world::{NS, World, ip, items, outlines, pod, text};
use endpointd::cluster::read::Reader;
use endpointd::core::outputs::Outputs;
use endpointd::inspect::explain::PodFinding;
use endpointd::ops::audit::{Scope, audit};
use endpointd::ops::explain::look;
use http::Method;
use kube::Client;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::sleep;

pub(crate) const CUSTOM: Outputs = Outputs {
    custom: true,
    ..Outputs::NONE
};
const EVERYTHING: Outputs = Outputs {
    custom: true,
    ..Outputs::ALL
};
const OURS: &str = "endpointd.io";
const BUILTIN: &str = "endpointslice-controller.k8s.io";
pub(crate) const ANNOTATION: &str = "endpointd.io/selector";

fn annotated(selector: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "s", "labels": {"team": "a"}, "annotations": {ANNOTATION: selector}},
        "spec": {"ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
    })
}

fn labelled(name: &str, number: usize, labels: Value) -> Value {
    let mut made = pod(name, &ip(number), "n1");
    made["metadata"]["labels"] = labels;
    made
}

/// A controller for such Services, with three pods: `web` and `api` of app `web` and `api`, and `old` of app `web` that is
/// a canary.
async fn world(outputs: Outputs, selector: &str) -> World {
    let mut world = World::new(100);
    world.options.settings.outputs = outputs;
    world.nodes(1).await;
    for (number, (name, labels)) in [
        ("web", json!({"app": "web"})),
        ("api", json!({"app": "api"})),
        ("old", json!({"app": "web", "tier": "canary"})),
    ]
    .into_iter()
    .enumerate()
    {
        world.make(labelled(name, number + 1, labels)).await;
    }
    world.make(annotated(selector)).await;
    world.start_up().await;
    world
}

/// The slices of Service `s` that name a controller.
async fn slices_by(api: &Api, manager: &str) -> Vec<Value> {
    let slices = api.slices_of(NS, "s").await.unwrap().into_iter();
    let of = |slice: &Value| text(&slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"]);
    slices.filter(|slice| of(slice) == manager).collect()
}

/// The pods in slices that name a controller.
async fn pods_by(world: &World, manager: &str) -> Vec<String> {
    let slices = slices_by(&world.api, manager).await;
    let endpoints = slices.iter().flat_map(|slice| items(&slice["endpoints"]));
    let mut pods: Vec<_> = endpoints
        .map(|endpoint| text(&endpoint["targetRef"]["name"]))
        .collect();
    pods.sort();
    pods
}

async fn annotate(world: &World, selector: Value) {
    let patch = json!({"metadata": {"annotations": {ANNOTATION: selector}}});
    world.patch("Service", "s", patch).await;
}

/// The reasons and messages of the Events of this controller.
async fn told(world: &World) -> Vec<(String, String)> {
    let events = world.events().await;
    let of = |event: &&Value| event["source"]["component"] == "custom-selector-controller";
    let told = events.iter().filter(of);
    told.map(|event| (text(&event["reason"]), text(&event["message"])))
        .collect()
}

fn reader(world: &World) -> Reader {
    Reader::new(Client::new(world.gate.clone(), "default"))
}

async fn assert_in_sync(world: &World) {
    let scope = Scope {
        labels: None,
        problems: false,
        namespace: None,
        settings: world.options.settings,
        settle: Duration::from_secs(2),
    };
    let report = audit(&reader(world), &scope).await.unwrap();
    assert!(report.is_in_sync(), "{}", report.to_text());
}

/// Everything but names, versions and the label of the controller.
fn content(mut slice: Value) -> Value {
    for field in [
        "name",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
    ] {
        slice["metadata"].as_object_mut().unwrap().remove(field);
    }
    slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = json!("");
    slice["metadata"]["ownerReferences"][0]["uid"] = json!("");
    slice
}

#[tokio::test(start_paused = true)]
async fn pods_are_published_as_for_a_service_with_a_selector() {
    let mut world = world(EVERYTHING, "app in (web, api), tier != canary, !legacy").await;
    assert_eq!(pods_by(&world, OURS).await, ["api", "web"]);
    assert_eq!(world.get("Endpoints", "s").await, None);
    assert_in_sync(&world).await;

    // The same Service with a selector that has the same pods.
    let other = slices_by(&world.api, OURS).await.remove(0);
    world.delete("Service", "s").await;
    let name = text(&other["metadata"]["name"]);
    world.delete("EndpointSlice", &name).await;
    for pod in ["web", "api"] {
        let chosen = json!({"metadata": {"labels": {"chosen": "yes"}}});
        world.patch("Pod", pod, chosen).await;
    }
    let mut service = annotated("");
    service["metadata"].as_object_mut().unwrap().remove("annotations");
    service["spec"]["selector"] = json!({"chosen": "yes"});
    world.make(service).await;
    world.rest().await;
    let mut same = slices_by(&world.api, BUILTIN).await.remove(0);
    // The order of endpoints does not matter.
    let mut other = other;
    for slice in [&mut same, &mut other] {
        let endpoints = slice["endpoints"].as_array_mut().unwrap();
        endpoints.sort_by_key(|endpoint| text(&endpoint["addresses"][0]));
        slice["metadata"].as_object_mut().unwrap().remove("annotations");
    }
    assert_eq!(content(other), content(same));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn changes_of_pods_and_of_the_selector_are_followed() {
    let mut world = world(CUSTOM, "app in (web,api)").await;
    assert_eq!(pods_by(&world, OURS).await, ["api", "old", "web"]);
    world.flip("api", false, 5).await;
    world.rest().await;
    let ready: Vec<_> = world
        .in_slices()
        .await
        .into_iter()
        .filter(|(_, ready)| *ready)
        .collect();
    assert_eq!(ready.len(), 2);
    world
        .patch("Pod", "api", json!({"metadata": {"labels": {"app": "other"}}}))
        .await;
    world.rest().await;
    assert_eq!(pods_by(&world, OURS).await, ["old", "web"]);
    annotate(&world, json!("tier")).await;
    world.rest().await;
    assert_eq!(pods_by(&world, OURS).await, ["old"]);
    annotate(&world, json!("!tier,app")).await;
    world.rest().await;
    assert_eq!(pods_by(&world, OURS).await, ["api", "web"]);
    assert_in_sync(&world).await;
    // A restart changes nothing.
    world.stop().await;
    let sent = world.start_up().await;
    assert_eq!(outlines(&sent), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_selector_that_cannot_be_used_adds_nobody_and_follows_those_that_are_published() {
    let values: Vec<_> = (0..33_000).map(|n| format!("v{n}")).collect();
    let many = format!("app in ({})", values.join(","));
    for (selector, problem) in [
        (
            &*many,
            "column 399: a selector here may have no more than 100 values",
        ),
        ("app in web", "column 8: found \"web\", expected \"(\""),
        ("", "it is empty, and would select every pod of the namespace"),
    ] {
        let mut world = world(CUSTOM, "app in (web,api)").await;
        annotate(&world, json!(selector)).await;
        world.make(labelled("new", 9, json!({"app": "web"}))).await;
        world.rest().await;
        assert_eq!(pods_by(&world, OURS).await, ["api", "old", "web"], "{selector}");
        let expected = format!(
            "The selector in the annotation endpointd.io/selector is not used: {problem}; no pods are added, and those \
             that are published stay until they are gone"
        );
        let told = told(&world).await;
        assert_eq!(told[0].0, "OptInChanged");
        assert_eq!(told[1..], [("InvalidSelector".to_owned(), expected)]);
        assert_in_sync(&world).await;
        let found = look(&reader(&world), NS, "s", world.options.settings, false)
            .await
            .unwrap();
        let warnings = &found.warnings;
        assert!(warnings.iter().any(|text| text.contains(problem)), "{warnings:?}");
        // The pods that stay are known with their nodes, and are where they should be.
        assert_eq!(found.in_sync, Some(true), "{found:?}");
        assert_eq!(found.strays, [""; 0]);
        assert_eq!(found.pods.len(), 3);
        assert!(found.pods.iter().all(PodFinding::is_plain), "{:?}", found.pods);

        // Labels no longer matter, and a pod of the same name is another pod.
        world
            .patch("Pod", "web", json!({"metadata": {"labels": {"app": "x"}}}))
            .await;
        world.flip("api", false, 5).await;
        world.rest().await;
        let in_slices = world.in_slices().await;
        assert_eq!(
            in_slices.iter().filter(|(_, ready)| !ready).count(),
            1,
            "{selector}"
        );
        assert_eq!(pods_by(&world, OURS).await, ["api", "old", "web"], "{selector}");

        // After a restart, too.
        world.stop().await;
        world.delete("Pod", "old").await;
        world.make(labelled("old", 3, json!({"app": "web"}))).await;
        world.start_up().await;
        assert_eq!(pods_by(&world, OURS).await, ["api", "web"], "{selector}");
        assert_in_sync(&world).await;
        world.delete("Pod", "web").await;
        world.delete("Pod", "api").await;
        world.rest().await;
        assert_eq!(pods_by(&world, OURS).await, [""; 0], "{selector}");

        annotate(&world, json!("app=web")).await;
        world.rest().await;
        assert_eq!(pods_by(&world, OURS).await, ["new", "old"], "{selector}");
    }
}

#[tokio::test(start_paused = true)]
async fn slices_of_others_beside_ours_are_told_of_and_left_alone() {
    let mut world = World::new(100);
    world.options.settings.outputs = EVERYTHING;
    world.nodes(1).await;
    world.make(labelled("web", 1, json!({"app": "web"}))).await;
    let mut service = annotated("app=web");
    service["spec"]["selector"] = json!({"app": "web"});
    world.make(service).await;
    world.start_up().await;
    assert_eq!(pods_by(&world, BUILTIN).await, ["web"]);
    // The selector goes, and the annotation counts from then on.
    world
        .patch("Service", "s", json!({"spec": {"selector": null}}))
        .await;
    world.rest().await;
    assert_eq!(pods_by(&world, OURS).await, ["web"]);
    assert_eq!(pods_by(&world, BUILTIN).await, ["web"]);
    let reasons: Vec<_> = told(&world).await.into_iter().map(|(reason, _)| reason).collect();
    assert_eq!(reasons, ["SelectorIgnored", "OptedIn", "OtherEndpointSlices"]);
    let warnings = look(&reader(&world), NS, "s", world.options.settings, false)
        .await
        .unwrap()
        .warnings;
    let command = "kubectl -n default delete endpointslices -l kubernetes.io/service-name=s,\
                   endpointslice.kubernetes.io/managed-by=endpointslice-controller.k8s.io";
    assert!(
        warnings.iter().any(|text| text.ends_with(command)),
        "{warnings:?}"
    );
    let command = "kubectl -n default delete endpoints s";
    assert!(
        warnings.iter().any(|text| text.ends_with(command)),
        "{warnings:?}"
    );
    // Slices of any other manager are told of too, and those without one.
    for (name, labels) in [
        (
            "s-foreign",
            json!({"endpointslice.kubernetes.io/managed-by": "somebody.example"}),
        ),
        ("s-nobody", json!({})),
    ] {
        let mut labels = labels;
        labels["kubernetes.io/service-name"] = json!("s");
        world
            .make(
                json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": {"name": name, "labels": labels}, "endpoints": [], "ports": []}),
            )
            .await;
    }
    let found = look(&reader(&world), NS, "s", world.options.settings, false)
        .await
        .unwrap();
    for says in [
        "1 slice of somebody.example names this Service too, and clients use their endpoints beside ours; if they are \
         not wanted: whoever manages them must stop to, or they come back",
        "1 slice of no manager names this Service too, and clients use their endpoints beside ours; if they are not \
         wanted: kubectl -n default delete endpointslices -l kubernetes.io/service-name=s,\
         '!endpointslice.kubernetes.io/managed-by'",
    ] {
        assert!(
            found.warnings.iter().any(|text| text == says),
            "{:?}",
            found.warnings
        );
    }
    assert_eq!(found.in_sync, Some(true));
}

#[tokio::test(start_paused = true)]
async fn the_service_of_the_api_servers_is_refused() {
    let mut world = World::new(100);
    world.options.settings.outputs = CUSTOM;
    world.nodes(1).await;
    world.make(labelled("web", 1, json!({"app": "web"}))).await;
    let mut service = annotated("app=web");
    service["metadata"]["name"] = json!("kubernetes");
    world.make(service).await;
    let sent = world.start_up().await;
    assert!(
        !outlines(&sent).iter().any(|sent| sent.contains("endpointslices")),
        "{sent:?}"
    );
    assert_eq!(told(&world).await[0].0, "SelectorIgnored");
}

#[tokio::test(start_paused = true)]
async fn without_its_controller_the_annotation_means_nothing() {
    let world = world(Outputs::ALL, "app=web").await;
    assert_eq!(world.slices().await.len(), 0);
    assert_eq!(told(&world).await, []);
}

/// Two controllers on one cluster: one in the place of upstream's three, and one for annotated Services alone. Each Service
/// with an annotation has a twin with a selector.
#[tokio::test(start_paused = true)]
async fn beside_the_built_in_controllers_neither_touches_what_the_other_publishes() {
    const SERVICES: usize = 1000;
    let mut world = World::new(100);
    let mut builtin = cluster::options(100);
    builtin.settings.seed = 2;
    let builtin = cluster::controller(&world.server, builtin);
    world.options.settings.outputs = CUSTOM;
    world.nodes(3).await;
    let mut random = fastrand::Rng::with_seed(11);
    let app = |number: usize| format!("app-{}", number % 50);
    for number in 0..SERVICES {
        let (mut custom, mut plain) = (annotated(""), annotated(""));
        let selector = match number % 3 {
            0 => format!("app in ({})", app(number)),
            1 => format!("app={},!never", app(number)),
            _ => format!("app=={},tier!=nothing", app(number)),
        };
        custom["metadata"]["name"] = json!(format!("custom-{number}"));
        custom["metadata"]["annotations"][ANNOTATION] = json!(selector);
        plain["metadata"]["name"] = json!(format!("plain-{number}"));
        plain["metadata"].as_object_mut().unwrap().remove("annotations");
        plain["spec"]["selector"] = json!({"app": app(number)});
        world.make(custom).await;
        world.make(plain).await;
    }
    world.start();
    let mut pods = Vec::new();
    for step in 0..400 {
        match random.u8(..6) {
            0 | 1 => {
                let name = format!("p{step}");
                let labels = json!({"app": app(random.usize(..))});
                let mut made = labelled(&name, step + 1, labels);
                made["spec"]["nodeName"] = json!(format!("n{}", random.usize(1..4)));
                world.make(made).await;
                pods.push(name);
            }
            2 if !pods.is_empty() => {
                let name = pods.swap_remove(random.usize(..pods.len()));
                world.delete("Pod", &name).await;
            }
            3 if !pods.is_empty() => {
                let labels = json!({"metadata": {"labels": {"app": app(random.usize(..))}}});
                world
                    .patch("Pod", &pods[random.usize(..pods.len())], labels)
                    .await;
            }
            _ if !pods.is_empty() => {
                let pod = &pods[random.usize(..pods.len())];
                world.flip(pod, random.bool(), 60 + step as u32).await;
            }
            _ => {}
        }
        if step % 40 == 0 {
            sleep(Duration::from_secs(1)).await;
        }
    }
    let sent = world.rest_for(Duration::from_secs(30)).await;
    for request in outlines(&sent) {
        assert!(
            !request.contains(" 409") && !request.contains(" 404"),
            "{request}"
        );
    }
    let path = "/apis/discovery.k8s.io/v1/endpointslices";
    let list = world.api.call(Method::GET, path, None).await.unwrap();
    let mut slices: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for slice in items(&list["items"]) {
        let service = text(&slice["metadata"]["labels"]["kubernetes.io/service-name"]);
        slices.entry(service).or_default().push(slice);
    }
    let shown = |name: &str, manager: &str| {
        for slice in &slices[name] {
            let by = &slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"];
            assert_eq!(by, manager, "{name}");
        }
        let mut endpoints: Vec<_> = slices[name]
            .iter()
            .flat_map(|slice| {
                items(&slice["endpoints"]).map(|endpoint| {
                    let ports = &slice["ports"];
                    format!("{endpoint} {ports}")
                })
            })
            .collect();
        endpoints.sort();
        endpoints
    };
    let mut endpoints = 0;
    for number in 0..SERVICES {
        let custom = shown(&format!("custom-{number}"), OURS);
        assert_eq!(custom, shown(&format!("plain-{number}"), BUILTIN), "{number}");
        endpoints += custom.len();
        assert_eq!(world.get("Endpoints", &format!("custom-{number}")).await, None);
    }
    assert!(endpoints > SERVICES, "{endpoints}");
    assert_in_sync(&world).await;
    world.options.settings.outputs = Outputs::ALL;
    assert_in_sync(&world).await;
    assert!(!builtin.is_finished());
}
