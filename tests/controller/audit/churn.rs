//! A cluster that is never at rest: what is on its way to be put right is not reported, and what stays wrong is.

use super::look;
use crate::world::{World, pod, service};
use serde_json::json;
use std::time::Duration;
use tokio::time::sleep;

const PODS: usize = 20;

/// Flips the pods' readiness, one after the other with a pause in between, for as long as it is polled.
async fn flip(world: &World, pause: Duration) {
    for second in 1.. {
        for i in 1..=PODS {
            sleep(pause).await;
            world.flip(&format!("p{i}"), second % 2 == 0, second).await;
        }
    }
}

async fn busy() -> World {
    let mut world = World::new(4);
    world.nodes(1).await;
    for i in 1..=PODS {
        world
            .make(pod(&format!("p{i}"), &format!("10.1.0.{i}"), "n1"))
            .await;
    }
    world.make(service()).await;
    // Half a second late with everything, as a controller that is short of time.
    world.options.pacing.slice_batch = Duration::from_millis(500);
    world.options.pacing.endpoints_batch = Duration::from_millis(500);
    world.start_up().await;
    world
}

/// Audits a busy cluster in which each pod flips once in this time: how often it seems out of sync to an
/// audit that does not look twice, and what one that does reports.
async fn audits(each: Duration) -> (usize, Vec<String>) {
    let world = busy().await;
    let audits = async {
        let (mut hasty, mut patient) = (0, Vec::new());
        for _ in 0..30 {
            sleep(Duration::from_millis(730)).await;
            hasty += usize::from(!look(&world, Duration::ZERO).await.unwrap().is_in_sync());
            let report = look(&world, Duration::from_secs(2)).await.unwrap();
            if !report.is_in_sync() {
                patient.push(report.to_text());
            }
        }
        (hasty, patient)
    };
    tokio::select! {
        found = audits => found,
        () = flip(&world, each / PODS as u32) => unreachable!("it does not end"),
    }
}

#[tokio::test(start_paused = true)]
async fn differences_that_are_being_repaired_are_not_reported() {
    let (hasty, patient) = audits(Duration::from_secs(2)).await;
    assert!(hasty >= 15, "there was something to be seen: {hasty}");
    assert!(patient.is_empty(), "{}", patient.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn pods_that_flip_in_step_with_the_looks_are_not_reported() {
    // Two seconds later each pod is as it was, and so is the slice that is half a second late.
    let (hasty, patient) = audits(Duration::from_millis(500)).await;
    assert!(hasty >= 15, "there was something to be seen: {hasty}");
    assert!(patient.is_empty(), "{}", patient.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn lasting_differences_are_reported_and_nothing_else() {
    let mut world = busy().await;
    world.stop().await;
    world.make(pod("new", "10.1.1.1", "n1")).await;
    world.delete("Pod", "p7").await;
    let wait = async {
        sleep(Duration::from_secs(10)).await;
        look(&world, Duration::from_secs(2)).await.unwrap()
    };
    let churn = async {
        // Each pod but the one that is gone changes within the two seconds between the looks.
        for second in 1_u32.. {
            for i in (1..=PODS).filter(|i| *i != 7) {
                world.flip(&format!("p{i}"), second % 2 == 0, second).await;
            }
            sleep(Duration::from_millis(300)).await;
        }
    };
    let report = tokio::select! {
        found = wait => found,
        () = churn => unreachable!("it does not end"),
    };
    let mut why: Vec<_> = report
        .findings
        .iter()
        .flat_map(|f| f.why.iter().map(|(d, _)| &*d.text))
        .collect();
    why.sort_unstable();
    why.dedup();
    assert_eq!(
        why,
        [
            "10.1.0.7 (pod p7) should not be there",
            "10.1.1.1 (pod new) is missing"
        ]
    );
    assert_eq!(json!(report)["outOfSync"], 1);
}
