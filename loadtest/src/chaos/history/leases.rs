//! The changes of the Leases that Services follow.

use super::History;
use crate::api::{Http, Resource};
use crate::chaos::api::{Ask, list};
use crate::chaos::world::LEASES;
use crate::objects::object;
use serde_json::{Value, json};

impl History {
    /// A Lease gets another holder, is given up, or goes.
    pub(super) async fn lead(&mut self) {
        let Some(namespace) = self.world.namespace(&mut self.rng) else {
            return;
        };
        let name = LEASES[self.rng.usize(..LEASES.len())];
        let pods = self.world.pods.iter().filter(|pod| pod.namespace == namespace);
        let pods: Vec<_> = pods.map(|pod| pod.name.clone()).collect();
        let pod = self.rng.choice(pods);
        let holder = match (self.rng.u32(..10), pod) {
            (0, _) => {
                let ask = Ask::delete(Resource::Leases, &namespace, name, Value::Null);
                self.write("delete lease", ask).await;
                return;
            }
            (1, _) => String::new(),
            (2, _) | (_, None) => "nobody_x".to_owned(),
            (3..=6, Some(pod)) => pod,
            (_, Some(pod)) => format!("{pod}_x"),
        };
        self.renewals += 1;
        let spec = lease_spec(&holder, self.renewals);
        let path = Resource::Leases.path(&namespace, name);
        let ask = if self.api.read(&path).await.is_ok() {
            Ask::patch(Resource::Leases, &namespace, name, json!({ "spec": spec }))
        } else {
            let mut body = object("Lease", name, json!({}));
            body["spec"] = spec;
            Ask::create(Resource::Leases, &namespace, body)
        };
        self.write("lead", ask).await;
    }
}

/// Renews all Leases, as their holders do.
pub(in crate::chaos) async fn renew(api: &Http, renewal: u64) {
    for lease in list(api, Resource::Leases, "").await {
        let text = |field: &str| lease["metadata"][field].as_str().unwrap_or_default();
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        if !holder.is_empty() {
            let spec = json!({ "spec": lease_spec(holder, renewal) });
            let ask = Ask::patch(Resource::Leases, text("namespace"), text("name"), spec);
            // It may have gone.
            let _ = ask.send(api).await;
        }
    }
}

fn lease_spec(holder: &str, renewal: u64) -> Value {
    json!({
        "holderIdentity": holder,
        // It never runs out here: a holder that is gone is told by its pod.
        "leaseDurationSeconds": 1_000_000,
        "leaseTransitions": renewal,
    })
}
