//! The log of a healthy cluster, which users should be able to read.

use crate::log::Log;
use crate::objects::{pod, ready_condition, service_with};
use crate::world::World;
use serde_json::json;
use std::time::Duration;
use tokio::time::sleep;

const SERVICES: usize = 1000;
/// Shares of the log go by namespace, and no other test has this one.
const NAMESPACE: &str = "healthy";
/// The time between two changes.
const PAUSE: Duration = Duration::from_secs(2);
/// The lines at INFO and above that an hour may take.
const MOST: usize = 5;

fn service(number: usize) -> serde_json::Value {
    let name = format!("s{number}");
    service_with(&json!({"metadata": {"name": name}, "spec": {"selector": {"app": name}}}))
}

fn pod_of(number: usize, generation: usize) -> serde_json::Value {
    let address = format!(
        "10.{}.{}.{}",
        1 + generation % 200,
        number / 250,
        number % 250 + 1
    );
    let mut made = pod(&format!("p{number}-{generation}"), &address, "n1");
    made["metadata"]["labels"] = json!({"app": format!("s{number}")});
    made
}

/// In an hour of rollouts, flips, scaling and Services that are made anew, the log had a line for each Service that came
/// back while the deletion of its old Endpoints was in flight.
#[tokio::test(start_paused = true)]
async fn an_hour_of_a_healthy_cluster_takes_few_lines() {
    let log = Log::record();
    let mut world = World::of(true, 100);
    let api = world.api.clone();
    world.nodes(1).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    api.create(&namespace, "").await.unwrap();
    for number in 0..SERVICES {
        api.create(&service(number), NAMESPACE).await.unwrap();
        api.create(&pod_of(number, 0), NAMESPACE).await.unwrap();
    }
    world.start_up().await;
    log.take();
    let mut generations = vec![0_usize; SERVICES];
    let mut random = fastrand::Rng::with_seed(11);
    let changes = 3600 / u32::try_from(PAUSE.as_secs()).unwrap();
    for change in 0..changes {
        let number = random.usize(..SERVICES);
        let name = format!("p{number}-{}", generations[number]);
        match change % 10 {
            // A rollout: a new pod is ready, and then the old one goes.
            0..4 => {
                generations[number] += 1;
                let new = pod_of(number, generations[number]);
                api.create(&new, NAMESPACE).await.unwrap();
                sleep(Duration::from_millis(200)).await;
                api.delete("Pod", NAMESPACE, &name, Some(0)).await.unwrap();
            }
            4 => {
                let service = format!("s{number}");
                api.delete("Service", NAMESPACE, &service, None).await.unwrap();
                // Its deletion is being dealt with when it comes back.
                for _ in 0..change / 10 % 8 {
                    tokio::task::yield_now().await;
                }
                api.create(&self::service(number), NAMESPACE).await.unwrap();
            }
            _ => {
                let status =
                    json!({"status": {"conditions": [ready_condition(change % 2 == 0, change % 3000)]}});
                api.patch("Pod", NAMESPACE, &name, Some("status"), &status)
                    .await
                    .unwrap();
            }
        }
        sleep(PAUSE).await;
    }
    let lines = log.take();
    assert!(
        lines.len() <= MOST,
        "{} lines in an hour: {:#?}",
        lines.len(),
        &lines[..lines.len().min(20)]
    );
    // A deletion by another client is still told.
    let slices = api.slices_of(NAMESPACE, "s1").await.unwrap();
    let name = slices[0]["metadata"]["name"].as_str().unwrap();
    api.delete("EndpointSlice", NAMESPACE, name, Some(0))
        .await
        .unwrap();
    // It is told once it is certain that the Service is still there.
    sleep(PAUSE * 2).await;
    let lines = log.take();
    assert!(
        matches!(&lines[..], [line] if line.contains("had been deleted") && line.contains("service=s1 ")),
        "{lines:?}"
    );
    world.stop().await;
}

/// Each new leader had a line for each problem that was there before: 315 at once for 360 Services with an annotation.
#[tokio::test(start_paused = true)]
async fn a_new_leader_tells_standing_problems_by_kind() {
    const EACH: usize = 8;
    const NAMESPACES: usize = 40;
    let log = Log::record();
    let mut world = World::of(true, 100);
    world.options.settings.outputs.custom = true;
    let api = world.api.clone();
    world.nodes(1).await;
    let made = |number: usize| {
        let annotation = match number % 4 {
            0 => json!({"endpointd.io/selector": "app in"}),
            1 => json!({"endpointd.io/selecter": "app=a"}),
            _ => json!({"endpointd.io/selector": "app=a"}),
        };
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s{number}"), "annotations": annotation},
            "spec": {"ports": [{"port": 80}]}})
    };
    for namespace in 0..NAMESPACES {
        let namespace = format!("standing-{namespace}");
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        api.create(&object, "").await.unwrap();
        for number in 0..EACH {
            api.create(&made(number), &namespace).await.unwrap();
        }
    }
    world.start_up().await;
    sleep(Duration::from_secs(20)).await;
    let lines = log.take();
    for reason in ["InvalidSelector", "UnknownAnnotation"] {
        let about: Vec<_> = lines.iter().filter(|line| line.contains(reason)).collect();
        assert!(
            matches!(&about[..], [line] if line.contains(" services=80 namespaces=40 ") && line.contains("example=standing-")
                // One tenant's Services do not hide those of the others.
                && line.contains(" named=standing-0/s") && line.contains(", standing-1/s")
                && line.contains(" and those of 20 more namespaces ")),
            "{about:#?}"
        );
    }
    assert!(lines.len() <= 6, "{} lines: {lines:#?}", lines.len());
    // An annotation that breaks later is told at once and by itself.
    sleep(Duration::from_secs(60)).await;
    let patch = json!({"metadata": {"annotations": {"endpointd.io/selector": "app in"}}});
    api.patch("Service", "standing-0", "s3", None, &patch)
        .await
        .unwrap();
    sleep(PAUSE).await;
    let lines = log.take();
    assert!(
        lines
            .iter()
            .any(|line| line.contains("reason=InvalidSelector") && line.contains("service=s3")),
        "{lines:?}"
    );
    world.stop().await;
}

/// A mistake in an annotation in a leader's first minute was told five seconds late, as of something old.
#[tokio::test(start_paused = true)]
async fn what_comes_about_in_a_leaders_first_minute_is_told_at_once_by_service() {
    const NAMESPACE: &str = "fresh";
    let log = Log::record();
    let mut world = World::of(true, 100);
    world.options.settings.outputs.custom = true;
    let api = world.api.clone();
    world.nodes(1).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    api.create(&namespace, "").await.unwrap();
    for (name, selector) in [("old", "app in"), ("new", "app=a")] {
        let service = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "annotations": {"endpointd.io/selector": selector}}, "spec": {"ports": [{"port": 80}]}});
        api.create(&service, NAMESPACE).await.unwrap();
    }
    world.start_up().await;
    log.take();
    let wrong = json!({"metadata": {"annotations": {"endpointd.io/selector": "app in"}}});
    api.patch("Service", NAMESPACE, "new", None, &wrong)
        .await
        .unwrap();
    sleep(Duration::from_secs(1)).await;
    let about = |lines: &[String], service: &str| -> Vec<String> {
        let service = format!(" service={service} ");
        let ours = lines
            .iter()
            .filter(|line| line.contains("reason=InvalidSelector") && line.contains(&service));
        ours.cloned().collect()
    };
    let mut lines = log.take();
    assert!(
        matches!(&about(&lines, "new")[..], [line] if !line.contains("before this process led")),
        "{lines:#?}"
    );
    sleep(Duration::from_secs(20)).await;
    lines.extend(log.take());
    assert_eq!(about(&lines, "new").len(), 1, "{lines:#?}");
    assert!(
        matches!(&about(&lines, "old")[..], [line] if line.contains("this came about before this process led")),
        "{lines:#?}"
    );
    world.stop().await;
}
