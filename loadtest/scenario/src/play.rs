//! Carries out the operations of a scenario, and reads the state that they lead to.

use crate::{Api, Error, MARK, Scenario, normal};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The pause between creating pods and creating a Service. The controller must have seen the pods: if the Service
/// came first, the first trigger time would depend on a race.
const PODS_FIRST: Duration = Duration::from_millis(300);
/// The pause between two looks at whether the outputs still change.
const LOOK: Duration = Duration::from_millis(100);

/// A scenario that is carried out in a namespace.
#[derive(Debug)]
pub struct Play<'a> {
    /// The cluster.
    pub api: Api,
    /// The scenario.
    pub scenario: Scenario<'a>,
    /// The namespace of all its objects but the Nodes.
    pub namespace: String,
    /// The creation times of the Services so far, by name: a trigger time may be one of them.
    created: BTreeMap<String, BTreeSet<String>>,
    /// The step has created pods that the controller may not have seen.
    unseen_pods: bool,
    /// The value with which the Namespace and the Nodes are marked.
    mark: Option<String>,
}

impl<'a> Play<'a> {
    /// Begins to play a scenario. Nothing is sent yet.
    pub fn new(api: Api, scenario: Scenario<'a>, namespace: String) -> Self {
        Self {
            api,
            scenario,
            namespace,
            created: BTreeMap::new(),
            unseen_pods: false,
            mark: None,
        }
    }

    /// Marks the Namespace and the Nodes with this value of [`MARK`] as they are created: so they can be told from
    /// others of their names even if the answer to their creation was lost.
    #[must_use]
    pub fn marked(self, mark: String) -> Self {
        Self {
            mark: Some(mark),
            ..self
        }
    }

    /// Creates the namespace.
    pub async fn create_namespace(&self) -> Result<(), Error> {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}});
        self.create_marked(namespace).await
    }

    async fn create_marked(&self, mut object: Value) -> Result<(), Error> {
        if let Some(mark) = &self.mark {
            object["metadata"]["annotations"][MARK] = mark.as_str().into();
        }
        self.api.create(&object, "").await.map(drop)
    }

    /// Carries out one operation.
    pub async fn act(&mut self, operation: &Value) -> Result<(), Error> {
        let kind = operation["create"]["kind"].as_str();
        if kind == Some("Service") && self.unseen_pods {
            sleep(PODS_FIRST).await;
            self.unseen_pods = false;
        }
        self.unseen_pods |= kind == Some("Pod");
        if kind == Some("Node") {
            return self.create_marked(operation["create"].clone()).await;
        }
        carry_out(&self.api, &self.namespace, operation).await
    }

    /// Waits until no Endpoints and no slices of the namespace have changed for the time `quiet`. False if they still
    /// change after the time `limit`.
    pub async fn settle(&self, quiet: Duration, limit: Duration) -> Result<bool, Error> {
        let start = Instant::now();
        let (mut last, mut seen) = (start, self.versions().await?);
        loop {
            sleep(LOOK).await;
            let versions = self.versions().await?;
            let now = Instant::now();
            if versions != seen {
                (last, seen) = (now, versions);
            }
            if now.saturating_duration_since(last) >= quiet {
                return Ok(true);
            }
            if now.saturating_duration_since(start) >= limit {
                return Ok(false);
            }
        }
    }

    /// The UIDs and versions of all outputs.
    async fn versions(&self) -> Result<BTreeSet<(String, String)>, Error> {
        let mut versions = BTreeSet::new();
        for kind in ["Endpoints", "EndpointSlice"] {
            for object in self.api.list(kind, &self.namespace).await? {
                let meta = &object["metadata"];
                versions.insert((meta["uid"].to_string(), meta["resourceVersion"].to_string()));
            }
        }
        Ok(versions)
    }

    /// Reads the state at the end of a step, and normalises it.
    pub async fn state(&mut self) -> Result<Value, Error> {
        self.unseen_pods = false;
        let namespace = &*self.namespace;
        let endpoints = self.api.list("Endpoints", namespace).await?;
        let slices = self.api.list("EndpointSlice", namespace).await?;
        let services = self.api.list("Service", namespace).await?;
        let pods = self.api.list("Pod", namespace).await?;
        for service in &services {
            let meta = &service["metadata"];
            let times = self.created.entry(text(&meta["name"])).or_default();
            times.insert(text(&meta["creationTimestamp"]));
        }
        let known = [("Pod", &pods), ("Service", &services), ("Endpoints", &endpoints)];
        Ok(normal::normalise(&known, &endpoints, &slices, &self.created))
    }
}

/// Carries out one operation in a namespace.
pub async fn carry_out(api: &Api, namespace: &str, operation: &Value) -> Result<(), Error> {
    if let Some(object) = operation.get("create") {
        api.create(object, namespace).await?;
    } else if let Some(p) = operation.get("patch") {
        let (kind, name) = (text(&p["kind"]), text(&p["name"]));
        api.patch(&kind, namespace, &name, p["sub"].as_str(), &p["patch"])
            .await?;
    } else if let Some(d) = operation.get("delete") {
        let (kind, name) = (text(&d["kind"]), text(&d["name"]));
        api.delete(&kind, namespace, &name, d["grace"].as_u64()).await?;
    } else if let Some(p) = operation.get("patch_slices") {
        for slice in api.slices_of(namespace, &text(&p["service"])).await? {
            let name = text(&slice["metadata"]["name"]);
            api.patch("EndpointSlice", namespace, &name, None, &p["patch"])
                .await?;
        }
    } else if let Some(d) = operation.get("delete_slices") {
        for slice in api.slices_of(namespace, &text(&d["service"])).await? {
            let name = text(&slice["metadata"]["name"]);
            api.delete("EndpointSlice", namespace, &name, None).await?;
        }
    } else if operation.get("delete_namespace").is_some() {
        api.delete("Namespace", "", namespace, None).await?;
    } else if let Some(seconds) = operation["sleep"].as_f64() {
        let time = Duration::try_from_secs_f64(seconds)
            .map_err(|error| Error::Scenario(format!("{operation}: {error}")))?;
        sleep(time).await;
    } else {
        return Err(Error::Scenario(format!("unknown operation {operation}")));
    }
    Ok(())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
