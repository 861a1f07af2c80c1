//! Namespaces that behave, and a probe of the server.

use super::delays::{Delays, announce};
use super::{NAMESPACES, START_LIMIT, objects};
use crate::api::Http;
use crate::observe::latencies::Latencies;
use crate::observe::watch::Seen;
use crate::observe::{PodNumber, pod_ip};
use crate::oracle::Family;
use anyhow::Context;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

/// Their Services have it, and so do their slices.
pub(super) const LABEL: &str = "hostile.example/neighbour=yes";
/// Pods of each namespace.
const PODS: usize = 300;
/// Between two flips, of all namespaces together.
const FLIP: Duration = Duration::from_millis(50);
/// So many pods flip in turn, each every four seconds, and as often to ready as to unready. A flip that takes longer than
/// that counts as missed.
const FLIPPED: u64 = 80;
/// Between two writes of the probe.
const PROBE: Duration = Duration::from_millis(50);
const SERVICE: &str = "svc";

/// Namespaces with a Service and its pods each.
pub(super) struct Neighbours {
    http: Http,
}

/// Something that goes on until it is told to end.
pub(super) struct Going<T> {
    task: JoinHandle<anyhow::Result<T>>,
    stop: Arc<AtomicBool>,
}

impl<T> Going<T> {
    pub(super) async fn stop(self) -> anyhow::Result<T> {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await?
    }
}

fn namespace(number: usize) -> String {
    format!("neighbour-{number}")
}

/// The pods' numbers are the same in all namespaces' order, so that neighbouring ones are of different namespaces.
fn status_path(pod: usize) -> String {
    format!(
        "/api/v1/namespaces/{}/pods/pod-{pod}/status",
        namespace(pod % NAMESPACES)
    )
}

impl Neighbours {
    pub(super) async fn create(http: Http) -> anyhow::Result<Self> {
        http.create("/api/v1/nodes", &objects::node(objects::NODE))
            .await?;
        let (key, value) = LABEL.split_once('=').expect("a label has a value");
        for number in 0..NAMESPACES {
            let name = namespace(number);
            http.create("/api/v1/namespaces", &objects::namespace(&name))
                .await?;
            let service = objects::service(SERVICE, &json!({ key: value }), &json!({ "app": "a" }));
            http.create(&format!("/api/v1/namespaces/{name}/services"), &service)
                .await?;
        }
        for pod in 0..PODS * NAMESPACES {
            let path = format!("/api/v1/namespaces/{}/pods", namespace(pod % NAMESPACES));
            let body = objects::pod(
                &format!("pod-{pod}"),
                objects::NODE,
                &json!({ "app": "a" }),
                &json!({}),
            );
            http.create(&path, &body).await?;
            let status = objects::status(pod_ip(pod as u32, Family::V4), true, 0);
            http.patch(&status_path(pod), &status).await?;
        }
        Ok(Self { http })
    }

    /// Their Services: the positions by which they are known, and their families.
    pub(super) fn services() -> HashMap<(String, String), (usize, Family)> {
        let service = |number| ((namespace(number), SERVICE.to_owned()), (number, Family::V4));
        (0..NAMESPACES).map(service).collect()
    }

    /// Waits until all of their pods are published. The first pod of each flips until it is.
    pub(super) async fn published(&self, seen: &Seen) -> anyhow::Result<()> {
        let all = async {
            for pod in 0..NAMESPACES {
                for (at, ready) in [(1, false), (2, true)] {
                    let change = announce(&mut seen.slices.lock(), pod as PodNumber, ready);
                    let ip = pod_ip(pod as u32, Family::V4);
                    self.http
                        .patch(&status_path(pod), &objects::status(ip, ready, at))
                        .await?;
                    seen.slices.lock().answered(&change, Instant::now());
                    while seen.slices.lock().latency().never_seen > 0 {
                        sleep(Duration::from_millis(20)).await;
                    }
                }
            }
            anyhow::Ok(())
        };
        timeout(START_LIMIT, all)
            .await
            .with_context(|| format!("the neighbours were not published within {START_LIMIT:?}"))?
    }

    /// Flips a pod after the other, whether the last ones are published or not, of all namespaces in turn or of `one` alone.
    /// How many, in the end.
    pub(super) fn flip(self: &Arc<Self>, seen: &Arc<Seen>, delays: &Arc<Delays>, one: bool) -> Going<u64> {
        let apart = if one { NAMESPACES } else { 1 };
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, neighbours) = (Arc::clone(&stop), Arc::clone(self));
        let (seen, delays) = (Arc::clone(seen), Arc::clone(delays));
        let task = tokio::spawn(async move {
            let mut flips = 0u64;
            let mut under_way = JoinSet::new();
            let mut tick = interval(FLIP);
            tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
            while !stopped.load(Ordering::Relaxed) {
                tick.tick().await;
                let (pod, round) = ((flips % FLIPPED) as usize * apart, flips / FLIPPED);
                flips += 1;
                let (neighbours, seen, delays) =
                    (Arc::clone(&neighbours), Arc::clone(&seen), Arc::clone(&delays));
                under_way.spawn(async move { neighbours.flip_pod(&seen, &delays, pod, round).await });
                while let Some(done) = under_way.try_join_next() {
                    done??;
                }
            }
            while let Some(done) = under_way.join_next().await {
                done??;
            }
            Ok(flips)
        });
        Going { task, stop }
    }

    async fn flip_pod(&self, seen: &Seen, delays: &Delays, pod: usize, round: u64) -> anyhow::Result<()> {
        let ready = round % 2 == 1;
        let change = announce(&mut seen.slices.lock(), pod as PodNumber, ready);
        let flip = delays.announce(pod as PodNumber, ready);
        let status = objects::status(pod_ip(pod as u32, Family::V4), ready, 10 + round);
        self.http.patch(&status_path(pod), &status).await?;
        delays.answered(&flip);
        seen.slices.lock().answered(&change, Instant::now());
        Ok(())
    }
}

/// Writes that concern no controller, and how long the server takes for them.
pub(super) struct Probe;

impl Probe {
    pub(super) async fn start(http: Http) -> anyhow::Result<Going<Latencies>> {
        let collection = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", namespace(0));
        http.create(&collection, &json!({ "metadata": { "name": "probe" } }))
            .await?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let mut latencies = Latencies::new();
            let mut tick = interval(PROBE);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let path = format!("{collection}/probe");
            let mut number = 0;
            while !stopped.load(Ordering::Relaxed) {
                // The lateness of the tick itself counts as well, because a busy machine causes it.
                let due = tick.tick().await;
                number += 1;
                let patch = json!({ "spec": { "leaseTransitions": number } });
                http.patch(&path, &patch).await?;
                latencies.record(Instant::now().saturating_duration_since(due));
            }
            Ok(latencies)
        });
        Ok(Going { task, stop })
    }
}
