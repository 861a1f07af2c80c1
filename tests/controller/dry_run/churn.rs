//! Random histories beside a controller that writes: whenever that has come to rest, nothing differs, however it has
//! laid its slices out; and when it is gone, something does.

use crate::cluster::Api;
use crate::dry_run::{DryRun, SURE};
use crate::world::{NS, World, items, node, pod, ready_condition, service_with};
use fastrand::Rng;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

/// Names to choose from.
const PODS: usize = 24;
const SERVICES: [(&str, &str); 4] = [("s0", "a"), ("s1", "b"), ("s2", "a"), ("s3", "c")];

struct Churn {
    world: World,
    random: Rng,
    second: u32,
}

impl Churn {
    async fn new(seed: u64) -> Self {
        let world = World::new(4);
        world.nodes(3).await;
        Self {
            world,
            random: Rng::with_seed(seed),
            second: 0,
        }
    }

    /// Makes one change, or none if there is no object for it.
    async fn step(&mut self) {
        self.second += 1;
        let number = self.random.usize(1..=PODS);
        let pod_name = format!("p{number}");
        let (service, app) = SERVICES[self.random.usize(..SERVICES.len())];
        let api = self.world.api.clone();
        let patch = async |kind: &str, name: &str, sub: Option<&str>, patch: Value| {
            // The object may not be there.
            let _ = api.patch(kind, NS, name, sub, &patch).await;
        };
        match self.random.u32(..16) {
            0..=3 => {
                let label = ["a", "b", "c"][self.random.usize(..3)];
                let node = format!("n{}", self.random.usize(1..=4));
                let mut pod = pod(&pod_name, &format!("10.2.{}.{number}", self.second % 200), &node);
                pod["metadata"]["labels"]["app"] = json!(label);
                let _ = api.create(&pod, NS).await;
            }
            4 => {
                let _ = api.delete("Pod", NS, &pod_name, Some(0)).await;
            }
            5..=7 => {
                let conditions = json!([ready_condition(self.random.bool(), self.second)]);
                patch(
                    "Pod",
                    &pod_name,
                    Some("status"),
                    json!({"status": {"conditions": conditions}}),
                )
                .await;
            }
            8 => {
                let label = ["a", "b", "c"][self.random.usize(..3)];
                patch(
                    "Pod",
                    &pod_name,
                    None,
                    json!({"metadata": {"labels": {"app": label}}}),
                )
                .await;
            }
            9 => {
                let over = json!({"metadata": {"name": service}, "spec": {"selector": {"app": app}}});
                let _ = api.create(&service_with(&over), NS).await;
            }
            10 if self.random.u8(..3) == 0 => {
                let _ = api.delete("Service", NS, service, None).await;
            }
            10 => {
                let port = 8000 + self.random.u32(..3);
                let ports = json!([{"name": "http", "port": 80, "targetPort": port}]);
                patch("Service", service, None, json!({"spec": {"ports": ports}})).await;
            }
            11 => {
                let spec = match self.random.u8(..4) {
                    0 => json!({"publishNotReadyAddresses": self.random.bool()}),
                    1 => json!({"trafficDistribution": "PreferClose"}),
                    2 => json!({"selector": {"app": app}}),
                    _ => json!({ "selector": null }),
                };
                patch("Service", service, None, json!({ "spec": spec })).await;
            }
            12 => {
                let mode = [json!("Auto"), Value::Null][self.random.usize(..2)].clone();
                let annotations = json!({"service.kubernetes.io/topology-mode": mode});
                let labels = json!({"tier": self.random.u8(..2).to_string()});
                patch(
                    "Service",
                    service,
                    None,
                    json!({"metadata": {"annotations": annotations, "labels": labels}}),
                )
                .await;
            }
            13 => {
                let zone = format!("z{}", self.random.usize(1..=3));
                let _ = api.create(&node("n4", Some(&zone), Some("4")), "").await;
                patch_node(&api, "n4", &zone).await;
            }
            _ => self.tamper().await,
        }
    }

    /// Changes or deletes an object that the controller publishes, as another client might.
    async fn tamper(&mut self) {
        let kind = ["EndpointSlice", "Endpoints"][self.random.usize(..2)];
        let objects = self.world.api.list(kind, NS).await.unwrap();
        let Some(object) = self.random.choice(&objects) else {
            return;
        };
        let name = object["metadata"]["name"].as_str().unwrap();
        if self.random.u8(..3) == 0 {
            let _ = self.world.api.delete(kind, NS, name, None).await;
            return;
        }
        let patch = match (kind, self.random.u8(..3)) {
            (_, 0) => json!({"metadata": {"labels": {"odd": "yes"}}}),
            ("Endpoints", _) => json!({ "subsets": null }),
            (_, 1) => json!({"endpoints": items(&object["endpoints"]).skip(1).collect::<Vec<_>>()}),
            _ => {
                let mut twice = objects
                    .iter()
                    .filter(|other| other["metadata"]["labels"] == object["metadata"]["labels"])
                    .flat_map(|other| items(&other["endpoints"]));
                json!({"endpoints": twice.by_ref().take(6).collect::<Vec<_>>()})
            }
        };
        let _ = self.world.api.patch(kind, NS, name, None, &patch).await;
    }
}

async fn patch_node(api: &Api, name: &str, zone: &str) {
    let patch = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}});
    let _ = api.patch("Node", "", name, None, &patch).await;
}

async fn history(seed: u64) {
    let mut churn = Churn::new(seed).await;
    churn.world.start();
    let dry_run = DryRun::start(&churn.world.server, churn.world.options);
    for phase in 0..4 {
        for _ in 0..30 {
            churn.step().await;
            let pause = churn.random.u64(0..400);
            sleep(Duration::from_millis(pause)).await;
        }
        if phase == 1 {
            // Another one takes over, with other names for what it makes.
            churn.world.stop().await;
            churn.step().await;
            churn.world.options.settings.seed += 1;
            churn.world.start();
        }
        sleep(SURE).await;
        churn.world.gate.take();
        assert_eq!(dry_run.out_of_sync(), 0, "seed {seed}, phase {phase}");
    }
    churn.world.stop().await;
    let over = json!({"metadata": {"name": "unserved"}, "spec": {"selector": {"app": "a"}}});
    churn.world.make(service_with(&over)).await;
    sleep(SURE).await;
    assert_eq!(
        dry_run.out_of_sync(),
        1,
        "seed {seed}: the new Service has no objects"
    );
    // Everything goes, and nothing is left to differ.
    for kind in ["Service", "Pod", "Endpoints", "EndpointSlice"] {
        for object in churn.world.api.list(kind, NS).await.unwrap() {
            let name = object["metadata"]["name"].as_str().unwrap();
            let _ = churn.world.api.delete(kind, NS, name, Some(0)).await;
        }
    }
    sleep(SURE).await;
    assert_eq!(dry_run.out_of_sync(), 0, "seed {seed}: nothing is there");
    dry_run.stop().await;
}

#[test]
fn beside_any_history_of_a_writer_nothing_differs_in_the_end() {
    let only = std::env::var("SEED").ok().map(|seed| seed.parse().unwrap());
    for seed in only.map_or(0..25, |seed: u64| seed..seed + 1) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(history(seed));
    }
}
