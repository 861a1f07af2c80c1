//! The scheduler and the kubelets.

use super::{is_ready, is_terminating, now, path_of, send, text};
use crate::api::Http;
use crate::objects::condition;
use http::Method;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use tokio::time::Instant;

/// A pod with this annotation and the value "false" is not ready, as if its readiness probe failed.
const READY: &str = "play.endpointd.io/ready";
/// How long containers take to start.
const STARTING: Duration = Duration::from_secs(1);
/// How long they take to stop: long enough to see that the pod is terminating.
const STOPPING: Duration = Duration::from_secs(2);

/// The kubelets of all nodes.
#[derive(Debug, Default)]
pub(super) struct Kubelets {
    /// By the UID of a pod, since when its containers start, or stop.
    since: HashMap<String, (Stage, Instant)>,
    /// How many addresses were given out.
    addresses: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Starting,
    Stopping,
}

/// Gives each pod that has none the node with the fewest pods, of those that are not cordoned.
pub(super) async fn schedule(http: &Http, nodes: &[Value], pods: &[Value]) -> anyhow::Result<()> {
    let open = nodes.iter().filter(|node| node["spec"]["unschedulable"] != true);
    let mut load: BTreeMap<&str, usize> = open.map(|node| (text(node, "/metadata/name"), 0)).collect();
    for pod in pods {
        if let Some(count) = load.get_mut(text(pod, "/spec/nodeName")) {
            *count += 1;
        }
    }
    for pod in pods {
        let is_gated = pod.pointer("/spec/schedulingGates").is_some();
        if is_terminating(pod) || is_gated || !text(pod, "/spec/nodeName").is_empty() {
            continue;
        }
        let Some((node, count)) = load.iter_mut().min_by_key(|(_, count)| **count) else {
            return Ok(());
        };
        *count += 1;
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": { "name": text(pod, "/metadata/name") },
            "target": { "apiVersion": "v1", "kind": "Node", "name": node },
        });
        send(http, Method::POST, &format!("{}/binding", path_of(pod)), &binding).await?;
    }
    Ok(())
}

// === impl Kubelets ===

impl Kubelets {
    /// Something is due that no change of an object will announce.
    pub(super) fn are_waiting(&self) -> bool {
        !self.since.is_empty()
    }

    /// Does for each pod on a node that is there what is due.
    pub(super) async fn turn(&mut self, http: &Http, nodes: &[Value], pods: &[Value]) -> anyhow::Result<()> {
        let names: HashSet<&str> = nodes.iter().map(|node| text(node, "/metadata/name")).collect();
        let is_ours = |pod: &&Value| names.contains(text(pod, "/spec/nodeName"));
        let ours: Vec<&Value> = pods.iter().filter(is_ours).collect();
        let uids: HashSet<&str> = ours.iter().map(|pod| text(pod, "/metadata/uid")).collect();
        self.since.retain(|uid, _| uids.contains(uid.as_str()));
        for pod in &ours {
            if is_terminating(pod) {
                self.stop(http, pod).await?;
            } else if !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
                self.keep_running(http, pod, pods).await?;
            }
        }
        Ok(())
    }

    /// Takes a pod away whose containers have had the time to stop.
    async fn stop(&mut self, http: &Http, pod: &Value) -> anyhow::Result<()> {
        let grace = pod.pointer("/metadata/deletionGracePeriodSeconds");
        let grace = Duration::from_secs(grace.and_then(Value::as_u64).unwrap_or_default());
        if self.been(pod, Stage::Stopping) < STOPPING.min(grace) {
            return Ok(());
        }
        let uid = text(pod, "/metadata/uid");
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": { "uid": uid },
        });
        send(http, Method::DELETE, &path_of(pod), &options).await?;
        self.since.remove(uid);
        Ok(())
    }

    /// Starts a pod, and has its readiness be what it should.
    async fn keep_running(&mut self, http: &Http, pod: &Value, all: &[Value]) -> anyhow::Result<()> {
        let is_started = !text(pod, "/status/podIP").is_empty();
        let uid = text(pod, "/metadata/uid");
        if is_started && self.since.contains_key(uid) {
            if self.been(pod, Stage::Starting) < STARTING {
                return Ok(());
            }
            self.since.remove(uid);
        }
        let annotations = &pod["metadata"]["annotations"];
        let should_be_ready = is_started && annotations[READY] != "false";
        if is_started && is_ready(pod) == should_be_ready {
            return Ok(());
        }
        let mut status = status(pod, should_be_ready);
        if !is_started {
            self.been(pod, Stage::Starting);
            let (v4, v6) = self.addresses(all);
            status["podIP"] = json!(v4);
            status["podIPs"] = json!([{ "ip": v4 }, { "ip": v6 }]);
            status["startTime"] = json!(now());
        }
        let patch = json!({ "status": status });
        send(http, Method::PATCH, &format!("{}/status", path_of(pod)), &patch).await
    }

    /// How long a pod has been in a stage, which it may enter now.
    fn been(&mut self, pod: &Value, stage: Stage) -> Duration {
        let uid = text(pod, "/metadata/uid").to_owned();
        let now = Instant::now();
        let since = self.since.entry(uid).or_insert((stage, now));
        if since.0 != stage {
            *since = (stage, now);
        }
        now.saturating_duration_since(since.1)
    }

    /// Addresses that no pod has.
    fn addresses(&mut self, pods: &[Value]) -> (Ipv4Addr, Ipv6Addr) {
        let taken: HashSet<&str> = pods.iter().map(|pod| text(pod, "/status/podIP")).collect();
        // There are 65,536, and no more pods than that are looked at here.
        loop {
            self.addresses = self.addresses.wrapping_add(1);
            let [high, low] = self.addresses.to_be_bytes();
            let v4 = Ipv4Addr::new(10, 244, high, low);
            if !taken.contains(v4.to_string().as_str()) {
                return (v4, Ipv6Addr::new(0xfd00, 0x10, 0x244, 0, 0, 0, 0, self.addresses));
            }
        }
    }
}

/// The status of a pod whose containers run.
fn status(pod: &Value, ready: bool) -> Value {
    let since = now();
    let mut conditions = vec![
        condition("Ready", ready, &since),
        condition("ContainersReady", ready, &since),
    ];
    if !ready {
        for condition in &mut conditions {
            condition["reason"] = json!("ContainersNotReady");
            condition["message"] = json!("loadtest serve --play has not made its containers ready");
        }
    }
    conditions.push(condition("Initialized", true, &since));
    conditions.push(condition("PodScheduled", true, &since));
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
    let containers = containers.into_iter().flatten().map(|container| {
        json!({
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": ready,
            "started": true,
            "restartCount": 0,
            "state": { "running": { "startedAt": since } },
        })
    });
    json!({
        "phase": "Running",
        "conditions": conditions,
        "containerStatuses": containers.collect::<Vec<Value>>(),
    })
}
