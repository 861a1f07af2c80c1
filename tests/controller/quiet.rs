//! The log of a healthy cluster, which users should be able to read.

use crate::log::Log;
use crate::objects::{pod, ready_condition, service_with};
use crate::world::World;
use serde_json::json;
use std::time::Duration;
use tokio::time::sleep;

const SERVICES: usize = 1000;
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
    world.stop().await;
}

/// A new leader tells what is wrong with annotations, by Service, within the share that each namespace has of the log.
#[tokio::test(start_paused = true)]
async fn a_new_leader_tells_the_problems_that_were_there_before() {
    const EACH: usize = 40;
    let log = Log::record();
    let mut world = World::of(true, 100);
    world.options.settings.outputs.custom = true;
    let api = world.api.clone();
    world.nodes(1).await;
    let made = |number: usize| {
        let selector = if number.is_multiple_of(2) {
            "app in"
        } else {
            "app=a"
        };
        json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": format!("s{number}"), "annotations": {"endpointd.io/selector": selector}},
            "spec": {"ports": [{"port": 80}]}})
    };
    for (namespace, services) in [("many", EACH), ("one", 1)] {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        api.create(&object, "").await.unwrap();
        for number in 0..services {
            api.create(&made(number), namespace).await.unwrap();
        }
    }
    world.start_up().await;
    let lines = log.take();
    let about = |namespace: &str| {
        let of = format!("namespace={namespace} ");
        let about = |line: &&String| line.contains("reason=InvalidSelector") && line.contains(&of);
        lines.iter().filter(about).count()
    };
    assert_eq!((about("many"), about("one")), (10, 1), "{lines:#?}");
    // An annotation that breaks later is told too, with the number of those that were left out.
    sleep(Duration::from_secs(60)).await;
    let patch = json!({"metadata": {"annotations": {"endpointd.io/selector": "app in"}}});
    api.patch("Service", "many", "s3", None, &patch).await.unwrap();
    sleep(PAUSE).await;
    let lines = log.take();
    let has = |parts: [&str; 2]| {
        lines
            .iter()
            .any(|line| parts.iter().all(|part| line.contains(part)))
    };
    assert!(has(["namespace=many ", "left_out=10"]), "{lines:#?}");
    assert!(has(["reason=InvalidSelector", "name=s3 "]), "{lines:#?}");
    world.stop().await;
}
