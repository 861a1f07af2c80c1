//! Services that follow Leases, and these.

use crate::world::{NS, World, pod};
use serde_json::{Value, json};

/// The Leases whose times run out at once, where they are many.
const EXPIRED: usize = 40;

/// A Service that follows the Lease `db` of its namespace.
pub(super) fn led() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "s", "annotations": {"endpointd.io/leader": "db"}},
        "spec": {"ports": [{"port": 5432}], "ipFamilies": ["IPv4"]},
    })
}

pub(super) fn lease(renewal: u32) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "db"},
        "spec": {
            "holderIdentity": "db-0", "leaseDurationSeconds": 10,
            "renewTime": format!("2026-01-01T00:00:00.{renewal:06}Z"),
        },
    })
}

/// Makes Services that follow a Lease in so many namespaces.
pub(super) async fn follow_leases(world: &mut World, namespaces: usize) {
    for number in 0..namespaces {
        let namespace = format!("team-{number}");
        let made = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        world.api.create(&made, "").await.unwrap();
        world.api.create(&led(), &namespace).await.unwrap();
        world.api.create(&lease(1), &namespace).await.unwrap();
    }
}

/// Publishes the leaders of many Services in one namespace, whose Leases are not renewed from then on.
pub(super) async fn many_expire(world: &mut World) {
    world.make(pod("db-0", "10.1.0.1", "n1")).await;
    let named = |mut object: Value, name: String| {
        object["metadata"]["name"] = name.into();
        object
    };
    for number in 0..EXPIRED {
        let name = format!("db-{number}");
        let mut led = named(led(), name.clone());
        led["metadata"]["annotations"]["endpointd.io/leader"] = name.clone().into();
        world.make(led).await;
        world.make(named(lease(1), name)).await;
    }
    world.start_up().await;
    let renewed = json!({"spec": lease(2)["spec"]});
    for number in 0..EXPIRED {
        let name = format!("db-{number}");
        world.api.patch("Lease", NS, &name, None, &renewed).await.unwrap();
    }
    world.rest().await;
}
