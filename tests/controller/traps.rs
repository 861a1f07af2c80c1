//! Orders of events that have misled controllers, each forced.

use crate::cluster;
use crate::model::{Fate, Model, PodSpec, ServiceSpec};
use crate::scene::{self, Scene};
use endpointd::core::body::Request;
use endpointd::core::namespace::{Content, Outcome};
use endpointd::core::object::{ObjectName, Output};
use memory_apiserver::{Fault, FaultPlan, Latency, Rule, Stage, Verbs};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::sleep;

/// One Service with one pod, nothing written yet.
fn begin(limit: usize) -> Model {
    let mut model = Model::new(limit);
    for node in 0..2 {
        model.node(node, Some(node));
    }
    model.pod(PodSpec::plain().facts());
    model.service(ServiceSpec::plain().facts());
    model
}

fn done(model: &mut Model) {
    model.converge();
    assert_eq!(model.published(), model.expected());
    assert_eq!(model.published_endpoints(), model.expected_endpoints());
}

/// Grants all pending objects of one kind.
fn grant_all(model: &mut Model, output: Output) -> Vec<(ObjectName, Request)> {
    let mut granted = Vec::new();
    while let Some(at) = model.pending.iter().position(|object| object.output == output) {
        let object = model.pending[at].clone();
        granted.extend(model.grant(at).map(|request| (object, request)));
    }
    granted
}

#[test]
fn our_own_event_comes_before_the_answer() {
    for output in [Output::Slice, Output::Endpoints] {
        let mut model = begin(3);
        // A create, and then an update: each is shown by the watch while its answer is still on its way.
        for ready in [true, false] {
            model.pod(
                PodSpec {
                    ready,
                    ..PodSpec::plain()
                }
                .facts(),
            );
            model.plan();
            let [(object, request)] = &grant_all(&mut model, output)[..] else {
                panic!("one write of {output}");
            };
            model.in_flight.remove(object);
            let outcome = model.carry_out(object, request);
            while !model.watch.is_empty() {
                model.watch_one();
            }
            assert_eq!(
                model
                    .plan()
                    .iter()
                    .filter(|item| item.object.output == output)
                    .count(),
                0,
                "an unknown version waits for the answer in flight"
            );
            assert!(matches!(outcome, Outcome::Written(_)));
            assert_eq!(
                model.state.apply_outcome(object, outcome, None),
                None,
                "the version is then known as our own"
            );
        }
        done(&mut model);
    }
}

#[test]
fn an_answer_to_a_fetch_is_older_than_what_the_watch_has_shown_since() {
    let mut model = begin(3);
    model.converge();
    let name = model.store.keys().next().unwrap().clone();
    let tamper = |model: &mut Model, address: &str| {
        let mut slice = model.store[&name].clone();
        slice.endpoints[0].addresses = vec![address.into()];
        model.put_slice(slice);
    };
    tamper(&mut model, "192.0.2.1");
    model.watch_one();
    model.plan();
    let [(object, Request::Fetch)] = &grant_all(&mut model, Output::Slice)[..] else {
        panic!("somebody else wrote: it is fetched");
    };
    // The server answers, and before that answer is here, it writes once more and the watch shows that.
    let old = Outcome::fetched(Content::Slice(Box::new(model.store[&name].clone())));
    tamper(&mut model, "192.0.2.2");
    model.watch_one();
    model.in_flight.remove(object);
    let item = model
        .state
        .apply_outcome(object, old, None)
        .expect("what was fetched is old");
    model.enqueue(item.object);
    let granted = grant_all(&mut model, Output::Slice);
    assert!(
        matches!(&granted[..], [(_, Request::Fetch)]),
        "the object is fetched again, not overwritten with a version that must conflict: {granted:?}"
    );
    done(&mut model);
}

#[test]
fn two_pods_swap_their_port_groups() {
    // With one endpoint in a slice, each pod's new slice is the other's old one.
    for limit in [1, 2] {
        let mut model = begin(limit);
        model.service(
            ServiceSpec {
                ports: 1,
                ..ServiceSpec::plain()
            }
            .facts(),
        );
        let pod = |name, ports| {
            PodSpec {
                name,
                ports,
                ..PodSpec::plain()
            }
            .facts()
        };
        for (name, ports) in [(0, 1), (1, 2)] {
            model.pod(pod(name, ports));
        }
        done(&mut model);
        for (name, ports) in [(0, 2), (1, 1)] {
            model.pod(pod(name, ports));
        }
        // Each pod's new slice is the other's old one, so a write that waited until its pods are elsewhere would
        // wait for ever: both are sent at once.
        model.plan();
        let granted = grant_all(&mut model, Output::Slice);
        assert_eq!(granted.len(), 2, "limit {limit}: {granted:?}");
        for (object, _) in granted {
            model.answer(&object, Fate::Carried);
        }
        assert_eq!(
            model.published(),
            model.expected(),
            "limit {limit}: there was another write"
        );
        done(&mut model);
    }
}

#[test]
fn a_node_appears_while_a_pod_that_runs_on_it_is_looked_at() {
    let mut model = begin(3);
    done(&mut model);
    let pod = PodSpec {
        name: 1,
        node: Some(2),
        ..PodSpec::plain()
    };
    // The pod's look-up finds no node, and registers interest in the same step; so the node, which comes next,
    // is told to the namespace, whatever was planned in between.
    for plans_between in [false, true] {
        model.pod(pod.facts());
        if plans_between {
            model.plan();
        }
        model.node(2, Some(1));
        done(&mut model);
        assert_eq!(model.published().values().map(BTreeSet::len).sum::<usize>(), 2);
        model.node_gone(2);
        model.pod_gone("pod-1");
        done(&mut model);
    }
}

#[test]
fn an_id_is_reused_before_anybody_has_looked() {
    let mut model = begin(3);
    done(&mut model);
    // The pod goes, another takes its place in the tables, with other labels, address and UID; and back again.
    for generation in 1..6 {
        model.pod_gone(&format!("pod-{}", (generation + 1) % 2));
        model.pod(
            PodSpec {
                name: generation % 2,
                generation,
                labels: generation % 2 * 4,
                ready: generation % 3 != 0,
                ..PodSpec::plain()
            }
            .facts(),
        );
        if generation % 2 == 0 {
            model.service_gone("svc-0");
            model.service(
                ServiceSpec {
                    generation,
                    ..ServiceSpec::plain()
                }
                .facts(),
            );
        }
        if generation == 5 {
            model.plan();
        }
    }
    done(&mut model);
    // One that was queued for a place and is gone when the place is given.
    model.pod(
        PodSpec {
            name: 5,
            ..PodSpec::plain()
        }
        .facts(),
    );
    model.pod_gone("pod-5");
    model.pod(
        PodSpec {
            name: 6,
            labels: 7,
            ..PodSpec::plain()
        }
        .facts(),
    );
    done(&mut model);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_empties_and_fills_while_its_requests_are_in_flight() {
    let mut options = cluster::options(100);
    options.pacing.in_flight = 2;
    let scene = Scene::start(options).await;
    scene.node("n0", Some("z0")).await;
    let latency = Latency::Uniform(Duration::ZERO, Duration::from_millis(20));
    scene.server.set_faults(
        FaultPlan::new(3)
            .rule(Rule::on(Verbs::WRITES, "*").fault(Fault::Delay(Stage::After, latency)))
            .only_client("controller"),
    );
    // Each round leaves the namespace with nothing but what is in flight, so that its shard is retired while
    // grants, answers and the next round's events are on their way.
    for round in 0..100u64 {
        scene.pod(1, "n0", true).await;
        scene.service(json!({}), json!({})).await;
        sleep(Duration::from_millis(round % 30)).await;
        scene.service_gone().await;
        scene
            .api
            .delete("Pod", scene::NAMESPACE, "p1", Some(0))
            .await
            .unwrap();
        for slice in scene.api.slices_of(scene::NAMESPACE, "s").await.unwrap() {
            let name = slice["metadata"]["name"].as_str().unwrap();
            // As the garbage collector would; it may be gone already.
            let _ = scene
                .api
                .delete("EndpointSlice", scene::NAMESPACE, name, None)
                .await;
        }
        sleep(Duration::from_millis(round % 7)).await;
    }
    scene.pod(1, "n0", true).await;
    scene.service(json!({}), json!({})).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(
        scene.addresses("addresses").await,
        1,
        "all places in flight are free again"
    );
    let slices = scene.api.slices_of(scene::NAMESPACE, "s").await.unwrap();
    let uid = &scene.api.list("Service", scene::NAMESPACE).await.unwrap()[0]["metadata"]["uid"];
    let ours = slices
        .iter()
        .filter(|slice| slice["metadata"]["ownerReferences"][0]["uid"] == *uid);
    assert_eq!(ours.count(), 1);
}
