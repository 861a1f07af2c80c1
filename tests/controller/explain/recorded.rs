//! The recorded scenarios: of what upstream had settled on, nothing is said to be amiss; and a pod that is said
//! to be published is published.

use super::{explain, of};
use crate::store::{Store, Totals, scenario, scenarios};
use crate::world::{World, items, text};
use endpointd::inspect::explain::{Explanation, State};
use std::collections::BTreeSet;

fn in_virtual_time<T>(test: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(test)
}

#[test]
fn nothing_is_amiss_where_upstream_has_settled() {
    let (mut services, mut pods, mut unpublished) = (0, 0, 0);
    for scenario in scenarios("") {
        let name = text(&scenario["name"]);
        // Upstream is still to give this Service a slice.
        if name == "slice-disowned" {
            continue;
        }
        in_virtual_time(async {
            let mut store = Store::new(&scenario);
            let world = World::new(store.limit);
            store.begin(&world.api).await;
            for (i, step) in items(&scenario["steps"]).enumerate() {
                store.play(&world.api, step, &mut Totals::default()).await;
                for service in world.api.list("Service", &store.namespace).await.unwrap() {
                    let service = text(&service["metadata"]["name"]);
                    let found = explain(&world, &store.namespace, &service).await.unwrap();
                    let at = || format!("{name} step {i}, Service {service}: {}", found.to_text(true));
                    assert_eq!(found.in_sync, Some(true), "{}", at());
                    services += 1;
                    if !found.managed {
                        assert!(found.pods.is_empty() && !found.notes.is_empty(), "{}", at());
                        continue;
                    }
                    assert!(found.strays.is_empty(), "{}", at());
                    check(&world, &store.namespace, &found, &at).await;
                    pods += found.pods.len();
                    unpublished += found
                        .pods
                        .iter()
                        .filter(|pod| pod.state == State::NotPublished)
                        .count();
                }
            }
            assert!(
                world
                    .gate
                    .take_all()
                    .iter()
                    .all(|sent| sent.verb == "GET" && !sent.watch),
                "explain sends only reads"
            );
        });
    }
    assert!(
        services > 150 && pods > 2500 && unpublished > 50,
        "{services} {pods} {unpublished}"
    );
}

async fn check(world: &World, namespace: &str, found: &Explanation, at: &dyn Fn() -> String) {
    let mut published = BTreeSet::new();
    for slice in world.api.slices_of(namespace, &found.service).await.unwrap() {
        if slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"]
            == "endpointslice-controller.k8s.io"
        {
            published.extend(items(&slice["endpoints"]).map(|e| text(&e["targetRef"]["name"])));
        }
    }
    let said = found.pods.iter().filter(|pod| pod.state != State::NotPublished);
    assert_eq!(
        said.map(|pod| pod.name.clone()).collect::<BTreeSet<_>>(),
        published,
        "{}",
        at()
    );
    for pod in &found.pods {
        assert!(pod.amiss.is_empty(), "{}: {}", pod.name, at());
        assert!(
            pod.state == State::Ready || !pod.why.is_empty(),
            "{} is given no reason: {}",
            pod.name,
            at()
        );
    }
}

/// The last state of a scenario, explained.
async fn last(name: &str) -> Explanation {
    let scenario = scenario(name);
    let mut store = Store::new(&scenario);
    let world = World::new(store.limit);
    store.begin(&world.api).await;
    for step in items(&scenario["steps"]).take(1) {
        store.play(&world.api, step, &mut Totals::default()).await;
    }
    explain(&world, &store.namespace, "s").await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_the_named_port() {
    let found = last("named-port-missing").await;
    let pod = of(&found, "p2");
    assert_eq!(pod.state, State::Ready);
    assert_eq!(
        pod.why,
        [
            "no container of it has a port named http: it is published without port http",
            "no port of the Service is left: nothing can reach it, and Endpoints leave it out"
        ]
    );
    assert_eq!((pod.endpoints, of(&found, "p1").endpoints), (None, Some(true)));
}

#[tokio::test(start_paused = true)]
async fn a_pod_on_an_unknown_node() {
    let found = last("node-missing").await;
    let pod = of(&found, "p2");
    assert_eq!((pod.state, pod.endpoints), (State::NotPublished, Some(true)));
    assert!(
        pod.why[0].starts_with("its Node n2 does not exist, which keeps new endpoints out"),
        "{pod:?}"
    );
    assert_eq!(found.pods[0].name, "p2", "what needs attention comes first");
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_another_family_and_one_without_an_address() {
    let found = last("dual").await;
    let lacking = |pod: &&endpointd::inspect::explain::PodFinding| {
        pod.why.iter().any(|why| why.contains("it has no IPv6 address"))
    };
    assert!(
        found
            .pods
            .iter()
            .any(|pod| lacking(&pod) && pod.state == State::Ready),
        "{found:?}"
    );
    let found = last("no-ip-then-ip").await;
    assert_eq!(of(&found, "p1").state, State::NotPublished);
    assert!(
        of(&found, "p1").why[0].starts_with("it has no IP yet (phase Pending"),
        "{found:?}"
    );
    let found = last("phases").await;
    assert_eq!(
        of(&found, "p1").why,
        ["phase Succeeded: it has ended, so slices leave it out"]
    );
    assert_eq!(
        of(&found, "p2").why,
        ["phase Failed: it has ended, so slices leave it out"]
    );
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_are_truncated() {
    let found = last("truncate").await;
    assert!(found.endpoints.as_ref().unwrap().truncated);
    let note = "Endpoints are truncated: they hold 1000 addresses at most, and leave out 3 published pods; slices have all";
    assert!(found.warnings.iter().any(|n| n == note), "{:?}", found.warnings);
    let text = found.to_text(false);
    assert!(
        text.lines().count() < 60,
        "a Service of a thousand pods fits a screen or two: {text}"
    );
    assert!(found.to_text(true).lines().count() > 1000);
}

#[tokio::test(start_paused = true)]
async fn slices_of_others() {
    let found = last("slice-foreign").await;
    let foreign = found.slices.iter().find(|slice| slice.name == "foreign").unwrap();
    assert_eq!(foreign.managed_by.as_deref(), Some("someone"));
    assert_eq!(foreign.note.as_deref(), Some("not ours: left alone"));
    assert!(found.strays.is_empty());
}
