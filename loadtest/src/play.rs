//! `loadtest serve --play`: the parts of a cluster beside its API server, in the simplest form that lets users try
//! things by hand. Three nodes; a scheduler that gives each pod the node with the fewest; a kubelet that gives it
//! addresses and makes it ready after a second; Deployments that have as many pods as they should, without replica
//! sets. No containers are run.
//!
//! All of it looks at everything again whenever anything has changed. That is enough for some thousand pods.

mod deployments;
mod pods;

use self::pods::Kubelets;
use crate::api::{self, Http, Resource};
use crate::objects::{ZONE_LABEL, condition, object};
use http::Method;
use kube::Client;
use memory_apiserver::ApiServer;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The nodes, each in a zone of its own.
const NODES: [(&str, &str); 3] = [("node-a", "zone-a"), ("node-b", "zone-b"), ("node-c", "zone-c")];
const LOOK: Duration = Duration::from_millis(200);
/// The pause after a turn that failed.
const PAUSE: Duration = Duration::from_secs(2);

/// The parts of the cluster, and how they reach its server.
pub(crate) struct Play {
    server: ApiServer,
    http: Http,
    kubelets: Kubelets,
    /// The UIDs of Deployments that have not worked out, each of which was told of.
    failing: HashSet<String>,
}

// === impl Play ===

impl Play {
    /// Makes the nodes.
    pub(crate) async fn begin(server: &ApiServer) -> anyhow::Result<Self> {
        let http = Http::new(Client::new(server.service(), "default"));
        for (name, zone) in NODES {
            let labels = json!({ "kubernetes.io/hostname": name, ZONE_LABEL: zone });
            let node = object("Node", name, labels);
            http.create(&Resource::Nodes.path("", ""), &node).await?;
            let ready = json!({ "status": { "conditions": [condition("Ready", true, &now())] } });
            http.patch(&format!("{}/status", Resource::Nodes.path("", name)), &ready)
                .await?;
        }
        Ok(Self {
            server: server.clone(),
            http,
            kubelets: Kubelets::default(),
            failing: HashSet::new(),
        })
    }

    /// Plays its parts for as long as it is polled.
    pub(crate) async fn run(mut self) {
        let mut seen = None;
        let mut last = Instant::now();
        loop {
            let version = self.server.resource_version();
            // A Deployment that has not worked out is tried again, but not as fast as all else goes on.
            let passed = Instant::now().saturating_duration_since(last);
            let again = !self.failing.is_empty() && passed >= PAUSE;
            if seen != Some(version) || self.kubelets.are_waiting() || again {
                (seen, last) = (Some(version), Instant::now());
                if let Err(error) = self.turn().await {
                    tracing::warn!("--play: {error:#}");
                    // A turn that failed is tried again, but not as fast as that.
                    seen = None;
                    sleep(PAUSE).await;
                }
            }
            sleep(LOOK).await;
        }
    }

    async fn turn(&mut self) -> anyhow::Result<()> {
        let deployments = self.http.list(deployments::PATH).await?;
        let pods = self.http.list(&Resource::Pods.path("", "")).await?;
        for deployment in &deployments {
            let outcome = deployments::reconcile(&self.http, deployment, &pods).await;
            self.tell(deployment, outcome);
        }
        let uids: HashSet<&str> = deployments.iter().map(uid).collect();
        self.failing.retain(|failing| uids.contains(&**failing));
        let nodes = self.http.list(&Resource::Nodes.path("", "")).await?;
        pods::schedule(&self.http, &nodes, &pods).await?;
        self.kubelets.turn(&self.http, &nodes, &pods).await
    }

    /// Says why a Deployment does not work out, once until it does. The server may refuse its pods, for example, which is no
    /// reason for anything else to stop.
    fn tell(&mut self, deployment: &Value, outcome: anyhow::Result<()>) {
        match outcome {
            Ok(()) => {
                self.failing.remove(uid(deployment));
            }
            Err(error) if self.failing.insert(uid(deployment).to_owned()) => {
                let (namespace, name) = (
                    text(deployment, "/metadata/namespace"),
                    text(deployment, "/metadata/name"),
                );
                tracing::warn!("--play: Deployment {namespace}/{name}: {error:#}");
            }
            Err(_) => {}
        }
    }
}

/// The UID of an object.
fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// Sends a request whose object may be gone, or may have changed since it was read: then the next turn sees it.
async fn send(http: &Http, method: Method, path: &str, body: &Value) -> anyhow::Result<()> {
    match http.request(method, path, body).await {
        Err(error) if !matches!(api::code(&error), Some(403 | 404 | 409)) => Err(error),
        _ => Ok(()),
    }
}

/// The text at a JSON pointer, or an empty one.
fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn is_terminating(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

/// The path of a pod that was read.
fn path_of(pod: &Value) -> String {
    Resource::Pods.path(text(pod, "/metadata/namespace"), text(pod, "/metadata/name"))
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn now() -> String {
    crate::objects::seconds(jiff::Timestamp::now())
}
