//! The writer under fire: what it sends, when, and how often, whatever the API server answers.

use crate::scene::{NAMESPACE, Scene};
use crate::{cluster, objects};
use memory_apiserver::{Failure, Fault, FaultPlan, Latency, RequestRecord, Rule, Stage, Verb, Verbs};
use serde_json::json;
use std::time::Duration;
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);
const WRITTEN: [&str; 2] = ["endpointslices", "endpoints"];

fn plan(rule: Rule) -> FaultPlan {
    FaultPlan::new(1).rule(rule).only_client("controller")
}

/// The writes of slices and Endpoints since the `from`th request.
fn writes(scene: &Scene, from: usize) -> Vec<RequestRecord> {
    let requests = scene.server.requests().into_iter().skip(from);
    let writes = requests.filter(|r| {
        let of = ["/endpointslices", "/namespaces/default/endpoints"];
        r.method != "GET" && of.iter().any(|of| r.path.contains(of))
    });
    writes.collect()
}

async fn scene_with_pods(count: u8, slice: usize) -> Scene {
    let scene = Scene::start(cluster::options(slice)).await;
    scene.node("n0", Some("z0")).await;
    for number in 1..=count {
        scene.pod(number, "n0", true).await;
    }
    scene.service(json!({}), json!({})).await;
    scene.rest().await;
    scene
}

#[tokio::test(start_paused = true)]
async fn a_lone_change_of_a_quiet_service_is_written_with_no_delay() {
    let scene = scene_with_pods(10, 100).await;
    for number in 1..=10 {
        let before = scene.server.requests().len();
        scene.flip(number, false, number).await;
        // No time passes on this clock while there is something to do.
        sleep(Duration::from_millis(1)).await;
        let writes = writes(&scene, before);
        assert_eq!(writes.len(), 2, "one slice, one Endpoints: {writes:?}");
        let flipped = scene.server.requests()[before].at;
        assert!(writes.iter().all(|write| write.at == flipped), "at once");
        sleep(SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_flips_while_writes_are_in_flight_cost_a_few_writes_a_slice() {
    let scene = scene_with_pods(100, 20).await;
    scene.server.set_faults(plan(
        Rule::on([Verb::Update], WRITTEN).fault(Fault::Delay(Stage::After, Latency::Constant(SECOND))),
    ));
    let before = scene.server.requests().len();
    // Ten seconds of flips: each slice can be answered ten times meanwhile.
    for flip in 0..1000u32 {
        let number = (flip % 100) as u8 + 1;
        scene.flip(number, (flip / 100) % 2 == 1, (flip % 60) as u8).await;
        sleep(Duration::from_millis(10)).await;
    }
    sleep(5 * SECOND).await;
    let writes = writes(&scene, before);
    let mut by_path: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
    for write in &writes {
        *by_path.entry(&write.path).or_default() += 1;
    }
    assert_eq!(by_path.len(), 6, "five slices and the Endpoints: {by_path:?}");
    assert!(by_path.values().all(|&count| count <= 13), "{by_path:?}");
    assert!(
        writes.iter().all(|write| write.status == 200),
        "every request was needed"
    );
    scene.server.clear_faults();
    // The last round of flips made all of them ready again.
    sleep(2 * SECOND).await;
    assert_eq!(scene.addresses("addresses").await, 100);
}

#[tokio::test(start_paused = true)]
async fn of_two_writes_one_is_a_removal_and_one_the_oldest_services() {
    let mut options = cluster::options(100);
    options.settings.outputs.endpoints = false;
    (options.pacing.qps, options.pacing.burst) = (1.0, 1);
    let scene = Scene::start(options).await;
    scene.node("n0", Some("z0")).await;
    let make = async |name: &str, ready: bool| {
        let mut pod = objects::pod(name, "10.1.0.1", "n0");
        pod["metadata"]["labels"]["app"] = json!(name);
        pod["status"]["conditions"] = json!([objects::ready_condition(ready, 0)]);
        scene.api.create(&pod, NAMESPACE).await.unwrap();
        let service = objects::service_with(&json!({
            "metadata": {"name": name}, "spec": {"selector": {"app": name}, "clusterIP": "None"},
        }));
        scene.api.create(&service, NAMESPACE).await.unwrap();
    };
    for i in 0..20 {
        make(&format!("leaving-{i}"), true).await;
    }
    for i in 0..200 {
        make(&format!("coming-{i}"), false).await;
    }
    // 220 creates at one a second.
    sleep(240 * SECOND).await;
    assert_eq!(scene.writes("/endpointslices"), 220);

    let before = scene.server.requests().len();
    let flip = async |name: String, ready: bool| {
        let patch = json!({"status": {"conditions": [objects::ready_condition(ready, 7)]}});
        scene
            .api
            .patch("Pod", NAMESPACE, &name, Some("status"), &patch)
            .await
            .unwrap();
    };
    for i in 0..200 {
        flip(format!("coming-{i}"), true).await;
    }
    sleep(3 * SECOND).await;
    for i in 0..20 {
        flip(format!("leaving-{i}"), false).await;
    }
    sleep(300 * SECOND).await;
    let order: Vec<(bool, Duration)> = writes(&scene, before)
        .iter()
        .map(|write| (write.path.contains("leaving"), write.at))
        .collect();
    assert_eq!(order.len(), 220);
    let first = order.iter().position(|(leaving, _)| *leaving).unwrap();
    assert!((3..=5).contains(&first), "some additions went before: {first}");
    let leaving = order[first..first + 40].iter().filter(|(leaving, _)| *leaving);
    assert!(leaving.count() >= 19, "every other write is a removal");
    // Without removals, the k-th addition would have gone after k seconds. They cost it twenty, less than the
    // bound of thirty.
    let start = order[0].1;
    for (k, (_, at)) in order.iter().filter(|(leaving, _)| !leaving).enumerate() {
        assert!(*at <= start + SECOND * (k as u32) + 30 * SECOND, "{k}: {at:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn additions_are_not_starved_by_removals_that_never_end() {
    let mut options = cluster::options(100);
    options.settings.outputs.endpoints = false;
    (options.pacing.qps, options.pacing.burst) = (1.0, 1);
    let scene = Scene::start(options).await;
    scene.node("n0", Some("z0")).await;
    for number in 1..=2 {
        scene.pod(number, "n0", number == 1).await;
    }
    let service = |name: &str, labels: serde_json::Value| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"selector": labels, "ports": [{"port": 80}], "clusterIP": "None"},
        })
    };
    for i in 0..40 {
        let busy = service(&format!("busy-{i}"), json!({"app": "a"}));
        scene.api.create(&busy, NAMESPACE).await.unwrap();
    }
    let label = json!({"metadata": {"labels": {"late": "1"}}});
    scene
        .api
        .patch("Pod", NAMESPACE, "p2", None, &label)
        .await
        .unwrap();
    let late = service("late", json!({"late": "1"}));
    scene.api.create(&late, NAMESPACE).await.unwrap();
    sleep(60 * SECOND).await;

    // Forty Services lose an endpoint each second: there is always a removal that waits.
    let before = scene.server.requests().len();
    let start = scene.server.requests()[before - 1].at;
    scene.flip(2, true, 1).await;
    for second in 0..90u8 {
        scene.flip(1, second % 2 == 1, second % 60).await;
        sleep(SECOND).await;
    }
    let late = writes(&scene, before)
        .into_iter()
        .find(|write| write.path.contains("/late-"));
    let at = late.expect("the addition was written").at;
    // The addition ages to the head of the queue in thirty seconds.
    assert!(at.saturating_sub(start) <= 150 * SECOND, "{at:?} {start:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_is_reported_once_and_retried_slowly() {
    for (failure, says) in [(Failure::Forbidden, "forbidden"), (Failure::Invalid, "invalid")] {
        let scene = scene_with_pods(3, 100).await;
        scene.server.set_faults(plan(
            Rule::on(Verb::Update, WRITTEN).fault(Fault::before(failure)),
        ));
        let before = scene.server.requests().len();
        // Ten minutes in which the desired state changes each second.
        for second in 0..600u32 {
            scene.flip(1, second % 2 == 1, (second % 60) as u8).await;
            sleep(SECOND).await;
        }
        let tried = writes(&scene, before).len();
        assert!(
            (20..=500).contains(&tried),
            "{tried} requests in ten minutes, for two objects"
        );
        let events = scene.events().await;
        let reasons: Vec<_> = events
            .iter()
            .map(|event| event["reason"].as_str().unwrap())
            .collect();
        for reason in ["FailedToUpdateEndpoint", "FailedToUpdateEndpointSlices"] {
            assert!(reasons.contains(&reason), "{reasons:?}");
        }
        assert!(reasons.len() <= 6, "once in a while, not each time: {reasons:?}");
        assert!(
            events
                .iter()
                .all(|event| event["message"].as_str().unwrap().to_lowercase().contains(says)),
            "the Event repeats the server's message: {events:?}"
        );
        scene.server.clear_faults();
        sleep(60 * SECOND).await;
        assert_eq!(scene.addresses("addresses").await, 3, "and it ends well");
    }
}

#[tokio::test(start_paused = true)]
async fn conflicts_are_settled_silently_and_at_once() {
    let scene = scene_with_pods(3, 100).await;
    scene.server.set_faults(plan(
        Rule::on(Verb::Update, WRITTEN)
            .at_most(2)
            .fault(Fault::before(Failure::Conflict)),
    ));
    let before = scene.server.requests().len();
    scene.flip(1, false, 1).await;
    sleep(Duration::from_millis(200)).await;
    let sent: Vec<_> = scene.server.requests()[before..]
        .iter()
        .filter(|r| r.path.contains("/endpoint") && !r.path.contains("watch"))
        .map(|r| (r.method.clone(), r.status))
        .collect();
    let count = |method: &str, status: u16| sent.iter().filter(|(m, s)| m == method && *s == status).count();
    assert_eq!(
        (count("PUT", 409), count("GET", 200), count("PUT", 200)),
        (2, 2, 2),
        "{sent:?}"
    );
    assert_eq!(scene.events().await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured_for_everything_that_is_sent() {
    let scene = scene_with_pods(10, 1).await;
    scene.server.set_faults(plan(
        Rule::on(Verbs::WRITES, WRITTEN)
            .at_most(1)
            .fault(Fault::before(Failure::Overloaded { retry_after: 7 })),
    ));
    let before = scene.server.requests().len();
    scene.flip(1, false, 1).await;
    sleep(Duration::from_millis(50)).await;
    for number in 2..=10 {
        scene.flip(number, false, 1).await;
    }
    sleep(20 * SECOND).await;
    let writes = writes(&scene, before);
    let refused = writes.iter().find(|write| write.status == 429).unwrap().at;
    let soon = |write: &&RequestRecord| {
        write.at > refused + Duration::from_millis(40) && write.at < refused + 7 * SECOND
    };
    assert_eq!(writes.iter().filter(soon).count(), 0, "quiet for seven seconds");
    assert!(writes.iter().filter(|write| write.status == 200).count() >= 11);
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_is_lost_leaves_no_second_slice() {
    for failure in [Failure::Timeout, Failure::Reset, Failure::Hang, Failure::Internal] {
        let scene = Scene::start(cluster::options(100)).await;
        scene.node("n0", Some("z0")).await;
        scene.pod(1, "n0", true).await;
        scene.server.set_faults(plan(
            Rule::on(Verb::Create, WRITTEN)
                .at_most(2)
                .fault(Fault::after(failure)),
        ));
        scene.service(json!({}), json!({})).await;
        // A request that hangs is given up after its deadline.
        sleep(60 * SECOND).await;
        let slices = scene.api.slices_of(NAMESPACE, "s").await.unwrap();
        assert_eq!(slices.len(), 1, "{failure:?}");
        assert_eq!(
            scene.writes("/endpointslices"),
            1,
            "{failure:?}: looked up, not repeated"
        );
        assert_eq!(scene.addresses("addresses").await, 1);
    }
}
