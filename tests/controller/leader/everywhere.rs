//! Services that follow Leases in many namespaces.

use super::{CUSTOM, LEADER, seconds};
use crate::gate::Sent;
use crate::world::{World, items, node, pod, text};
use serde_json::{Value, json};

/// More namespaces than are watched one by one.
const NAMESPACES: usize = 100;

fn namespace(number: usize) -> String {
    format!("team-{number}")
}

fn lease(renewal: usize) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "db"},
        "spec": {
            "holderIdentity": "db-0", "leaseDurationSeconds": 10,
            "renewTime": format!("2026-01-01T00:00:00.{renewal:06}Z"),
        },
    })
}

/// Makes a Service with a pod and a Lease in a namespace of its own.
async fn make(world: &World, number: usize) {
    let namespace = namespace(number);
    let made = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "annotations": {LEADER: "db"}},
        "spec": {"ports": [{"port": 5432}], "ipFamilies": ["IPv4"]},
    });
    world.api.create(&made, "").await.unwrap();
    let ip = format!("10.2.{}.{}", number / 250, number % 250 + 1);
    for object in [pod("db-0", &ip, "n1"), lease(1), service] {
        world.api.create(&object, &namespace).await.unwrap();
    }
}

async fn renew(world: &World, number: usize, renewal: usize) {
    let patch = json!({"spec": lease(renewal)["spec"]});
    let namespace = namespace(number);
    let renewed = world.api.patch("Lease", &namespace, "db", None, &patch);
    renewed.await.unwrap();
}

/// In how many of the namespaces the leader is published.
async fn led(world: &World, count: usize) -> usize {
    let mut led = 0;
    for number in 0..count {
        let slices = world.api.slices_of(&namespace(number), "s").await.unwrap();
        let endpoints = slices.iter().flat_map(|slice| items(&slice["endpoints"]));
        let names: Vec<_> = endpoints.map(|e| text(&e["targetRef"]["name"])).collect();
        led += usize::from(names == ["db-0"]);
    }
    led
}

/// The numbers of watches of single namespaces, and of all.
fn watches(sent: &[Sent]) -> (usize, usize) {
    let watches = sent.iter().filter(|sent| sent.watch && sent.kind() == "leases");
    let (alone, all): (Vec<_>, Vec<_>) = watches.partition(|sent| sent.path.contains("/namespaces/"));
    (alone.len(), all.len())
}

async fn many() -> World {
    let mut world = World::new(100);
    world.options.settings.outputs = CUSTOM;
    world.make(node("n1", None, None)).await;
    for number in 0..NAMESPACES {
        make(&world, number).await;
    }
    world
}

#[tokio::test(start_paused = true)]
async fn leases_of_many_namespaces_need_one_watch() {
    let mut world = many().await;
    world.start();
    seconds(5).await;
    let (alone, all) = watches(&world.gate.take_all());
    assert!(alone < 70 && all == 1, "{alone} alone, {all} of all");
    for renewal in 2..6 {
        for number in 0..NAMESPACES {
            renew(&world, number, renewal).await;
        }
        seconds(4).await;
        assert_eq!(led(&world, NAMESPACES).await, NAMESPACES);
    }
    // One that comes later is followed as well.
    make(&world, NAMESPACES).await;
    seconds(1).await;
    renew(&world, NAMESPACES, 2).await;
    seconds(1).await;
    assert_eq!(led(&world, NAMESPACES + 1).await, NAMESPACES + 1);
    // All watches end within ten minutes; those that are begun again are two.
    world.gate.take_all();
    for minute in 0..11 {
        for round in 0..8 {
            for number in 0..=NAMESPACES {
                renew(&world, number, 100 + minute * 8 + round).await;
            }
            seconds(8).await;
        }
    }
    let (alone, all) = watches(&world.gate.take_all());
    assert!(
        (1..=3).contains(&alone) && (1..=3).contains(&all),
        "{alone} alone, {all} of all"
    );
    assert_eq!(led(&world, NAMESPACES + 1).await, NAMESPACES + 1);
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_watch_all_leases_each_namespace_is_watched_and_it_is_not_asked_again() {
    let mut world = many().await;
    world.gate.stub(std::sync::Arc::new(|sent| {
        let everywhere = sent.kind() == "leases" && !sent.path.contains("/namespaces/");
        let (constant, sent) = (crate::constant::Constant::Status(403), sent.clone());
        let answer: std::pin::Pin<Box<dyn Future<Output = _> + Send>> =
            Box::pin(async move { constant.answer(&sent).await });
        everywhere.then_some(answer)
    }));
    world.start();
    seconds(5).await;
    for renewal in 2..4 {
        for number in 0..NAMESPACES {
            renew(&world, number, renewal).await;
        }
        seconds(4).await;
        assert_eq!(led(&world, NAMESPACES).await, NAMESPACES);
    }
    let everywhere = |sent: &&Sent| sent.kind() == "leases" && !sent.path.contains("/namespaces/");
    let sent = world.gate.take_all();
    assert_eq!(sent.iter().filter(everywhere).count(), 1);
    make(&world, NAMESPACES).await;
    seconds(60).await;
    let sent = world.gate.take_all();
    assert_eq!(sent.iter().filter(everywhere).count(), 0);
}
