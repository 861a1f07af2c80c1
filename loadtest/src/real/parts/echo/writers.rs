//! Slices that are written at a fixed rate.

use super::Load;
use crate::api::{Http, Resource};
use crate::objects::object;
use crate::observe::marks::{Mark, Marks};
use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

const NAMESPACE: &str = "echo";
const ENDPOINTS: usize = 100;
/// As many are created at a time.
const CREATED_AT_ONCE: usize = 16;
/// How many writes may be in flight; each is of another slice.
const IN_FLIGHT: usize = 64;
/// How often one that waits for a place looks for it.
const LOOK: Duration = Duration::from_millis(1);
const GRACE_SECONDS: u32 = 0;

/// The slices, with their endpoints.
pub(super) struct Writers {
    http: Http,
    slices: Vec<Arc<Mutex<Value>>>,
}

// === impl Writers ===

impl Writers {
    /// Creates so many slices. They have the label of those that endpointd writes, and are no Service's.
    pub(super) async fn fill(http: Http, slices: usize) -> anyhow::Result<Self> {
        let namespace = object("Namespace", NAMESPACE, json!({}));
        http.create(&Resource::Namespaces.path("", ""), &namespace)
            .await?;
        let slices: Vec<Value> = (0..slices).map(slice).collect();
        let path = Resource::Slices.path(NAMESPACE, "");
        let creating = stream::iter(&slices).map(|slice| http.create(&path, slice));
        creating
            .buffer_unordered(CREATED_AT_ONCE)
            .try_collect::<()>()
            .await?;
        let slices = slices.into_iter().map(|slice| Arc::new(Mutex::new(slice)));
        Ok(Self {
            slices: slices.collect(),
            http,
        })
    }

    /// Flips one endpoint of a slice so many times a second, each time of the slice that was written longest ago, and notes
    /// when each write was answered. A write that has to wait for a place is sent later, and none is left out. `echoed` says
    /// which version was shown last.
    pub(super) async fn write(
        &self,
        load: &Load,
        marks: &Arc<Marks>,
        echoed: impl Fn() -> u64,
    ) -> anyhow::Result<usize> {
        let Load {
            rate,
            lasting,
            window,
            ..
        } = *load;
        let all = (f64::from(rate) * lasting.as_secs_f64()) as usize;
        let mut ticks = interval(Duration::from_secs(1) / rate);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut free: VecDeque<usize> = (0..self.slices.len()).collect();
        let mut writing = JoinSet::<anyhow::Result<(usize, u64)>>::new();
        let mut answered: Vec<u64> = Vec::new();
        for number in 0..all {
            ticks.tick().await;
            let slice = loop {
                while let Some(done) = writing.try_join_next() {
                    let (slice, version) = done??;
                    free.push_back(slice);
                    answered.push(version);
                }
                let shown = echoed();
                answered.retain(|version| *version > shown);
                let has_place = writing.len() < IN_FLIGHT
                    && window.is_none_or(|window| writing.len() + answered.len() < window);
                if has_place && let Some(slice) = free.pop_front() {
                    break slice;
                }
                sleep(LOOK).await;
            };
            let (http, marks) = (self.http.clone(), Arc::clone(marks));
            let object = Arc::clone(&self.slices[slice]);
            writing.spawn(async move {
                let version = write(&http, &object, number % ENDPOINTS, &marks).await?;
                Ok((slice, version))
            });
        }
        while let Some(done) = writing.join_next().await {
            done??;
        }
        Ok(all)
    }

    /// Deletes the slices and their namespace.
    pub(super) async fn clear(self) -> anyhow::Result<()> {
        let path = Resource::Slices.path(NAMESPACE, "");
        self.http.delete(&path, GRACE_SECONDS).await?;
        let path = Resource::Namespaces.path("", NAMESPACE);
        self.http.delete(&path, GRACE_SECONDS).await
    }
}

/// Flips an endpoint, writes the slice, and notes the version that the answer has, which is returned.
async fn write(http: &Http, object: &Mutex<Value>, endpoint: usize, marks: &Marks) -> anyhow::Result<u64> {
    let (path, body) = {
        let mut object = object.lock();
        let conditions = &mut object["endpoints"][endpoint]["conditions"];
        let ready = conditions["ready"] != Value::Bool(true);
        *conditions = json!({ "ready": ready, "serving": ready, "terminating": false });
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        (Resource::Slices.path(NAMESPACE, name), object.clone())
    };
    let answer: Value = http.request(Method::PUT, &path, &body).await?;
    let answered = Instant::now();
    let version = answer["metadata"]["resourceVersion"].as_str();
    let version = version.and_then(|version| version.parse().ok());
    let version = version.context("the answer to a write has no version")?;
    marks.add(Mark { version, answered });
    Ok(version)
}

/// One slice with all of its endpoints, as large as those of pods are.
fn slice(number: usize) -> Value {
    let name = format!("echo-{number:04}");
    let endpoints: Vec<Value> = (0..ENDPOINTS)
        .map(|endpoint| {
            json!({
                "addresses": [format!("10.{}.{}.{endpoint}", 128 + number / 256, number % 256)],
                "conditions": { "ready": true, "serving": true, "terminating": false },
                "nodeName": format!("node-{:03}", endpoint % 300),
                "zone": format!("zone-{}", endpoint % 3),
                "targetRef": {
                    "kind": "Pod",
                    "namespace": NAMESPACE,
                    "name": format!("{name}-{endpoint:03}-{number:08x}"),
                    "uid": format!("00000000-0000-4000-8000-{:012x}", number * ENDPOINTS + endpoint),
                },
            })
        })
        .collect();
    let labels = json!({
        "kubernetes.io/service-name": "echo",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    });
    let mut slice = object("EndpointSlice", &name, labels);
    slice["apiVersion"] = json!("discovery.k8s.io/v1");
    slice["metadata"]["namespace"] = json!(NAMESPACE);
    slice["addressType"] = json!("IPv4");
    slice["ports"] = json!([{ "name": "http", "port": 8080, "protocol": "TCP" }]);
    slice["endpoints"] = json!(endpoints);
    slice
}
