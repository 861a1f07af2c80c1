//! The objects that playing a scenario puts into a cluster, to be deleted afterwards, and no others.

use anyhow::{bail, ensure};
use scenario::{Api, Error, MARK, Play};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The kinds that scenarios put into a namespace, in the order in which they are deleted. Services come first, because
/// a controller would have much to write for Services whose pods go.
const KINDS: [&str; 4] = ["Service", "Pod", "Endpoints", "EndpointSlice"];
/// How long objects may take to go.
const LIMIT: Duration = Duration::from_secs(20);
/// How long a namespace of an earlier run may take to go.
const TERMINATING_LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(200);

/// The namespace and the Nodes of a scenario.
pub(crate) struct Footprint {
    api: Api,
    namespace: String,
    /// The mark of what was created by this play. Without it, another's namespace or Node would be deleted that was
    /// created between the check and the play.
    mark: String,
    /// The namespace was there before, and stays.
    existing: bool,
    nodes: BTreeSet<String>,
    /// The finalizers that the scenario itself sets. No other client takes them away.
    finalizers: BTreeSet<String>,
}

impl Footprint {
    pub(crate) fn new(play: &Play<'_>, mark: String, existing: bool) -> Self {
        let (mut nodes, mut finalizers) = (BTreeSet::new(), BTreeSet::new());
        for operation in play.scenario.operations() {
            let created = &operation["create"];
            if created["kind"] == "Node" {
                nodes.extend(created["metadata"]["name"].as_str().map(str::to_owned));
            }
            for meta in [&created["metadata"], &operation["patch"]["patch"]["metadata"]] {
                finalizers.extend(strings(&meta["finalizers"]).map(str::to_owned));
            }
        }
        Self {
            api: play.api.clone(),
            namespace: play.namespace.clone(),
            mark,
            existing,
            nodes,
            finalizers,
        }
    }

    /// The places, in words.
    pub(crate) fn places(&self) -> String {
        let nodes: Vec<&str> = self.nodes.iter().map(String::as_str).collect();
        match &nodes[..] {
            [] => format!("namespace {}", self.namespace),
            nodes => format!("namespace {} and the nodes {}", self.namespace, nodes.join(", ")),
        }
    }

    /// Fails if something would be overwritten, or deleted afterwards, that the scenario did not create.
    pub(crate) async fn check_free(&self) -> anyhow::Result<()> {
        let namespace = &*self.namespace;
        let deadline = Instant::now() + TERMINATING_LIMIT;
        while let Some(found) = self.api.get("Namespace", "", namespace).await? {
            if self.existing {
                break;
            }
            let terminating = !found["metadata"]["deletionTimestamp"].is_null();
            ensure!(
                terminating,
                "namespace {namespace} exists already: give --namespace another name, or add --existing-namespace"
            );
            ensure!(
                Instant::now() < deadline,
                "namespace {namespace} is still being deleted: give --namespace another name if the cluster runs no \
                 namespace controller"
            );
            sleep(PAUSE).await;
        }
        for name in &self.nodes {
            let found = self.api.get("Node", "", name).await?;
            ensure!(
                found.is_none(),
                "node {name}, which the scenario creates, exists already"
            );
        }
        let (found, _) = self.contents().await?;
        ensure!(
            found.is_empty(),
            "namespace {namespace} is not empty: it holds {}",
            found.join(", ")
        );
        Ok(())
    }

    /// Deletes everything that was created. It goes on when something fails, and then fails in the end.
    pub(crate) async fn remove(&self) -> anyhow::Result<()> {
        let mut failed = self.remove_namespace().await.err();
        // Nodes go last: a controller would have much to write for pods whose nodes go.
        for name in &self.nodes {
            failed = failed.or(self.remove_node(name).await.err());
        }
        failed.map_or(Ok(()), Err)
    }

    async fn remove_namespace(&self) -> anyhow::Result<()> {
        if self.existing {
            return self.empty().await;
        }
        let Some(namespace) = self.created("Namespace", &self.namespace).await? else {
            return Ok(());
        };
        let emptied = self.empty().await;
        let deleted = self.api.delete_this("Namespace", "", &namespace, None).await;
        emptied.and(unless_gone(deleted))
    }

    async fn remove_node(&self, name: &str) -> anyhow::Result<()> {
        match self.created("Node", name).await? {
            Some(node) => self.delete("Node", "", &node).await,
            None => Ok(()),
        }
    }

    /// The object of this name, if this play has created it.
    async fn created(&self, kind: &str, name: &str) -> Result<Option<Value>, Error> {
        let found = self.api.get(kind, "", name).await?;
        Ok(found.filter(|object| object["metadata"]["annotations"][MARK] == *self.mark))
    }

    /// Deletes what is in the namespace until nothing is left.
    async fn empty(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let (names, objects) = self.contents().await?;
            if objects.is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                bail!("{} are still there after {LIMIT:?}", names.join(", "));
            }
            for (kind, object) in &objects {
                self.delete(kind, &self.namespace, object).await?;
            }
            sleep(PAUSE).await;
        }
    }

    async fn delete(&self, kind: &str, namespace: &str, object: &Value) -> anyhow::Result<()> {
        let meta = &object["metadata"];
        let name = meta["name"].as_str().unwrap_or_default();
        unless_gone(self.api.delete_this(kind, namespace, object, Some(0)).await)?;
        let foreign: Vec<&str> = strings(&meta["finalizers"])
            .filter(|finalizer| !self.finalizers.contains(*finalizer))
            .collect();
        if foreign.len() < strings(&meta["finalizers"]).count() {
            let patch = json!({"metadata": {"uid": meta["uid"], "finalizers": foreign}});
            unless_gone(self.api.patch(kind, namespace, name, None, &patch).await)?;
        }
        Ok(())
    }

    /// The objects of the namespace that are the business of scenarios: their names, and they themselves by kind.
    async fn contents(&self) -> Result<(Vec<String>, Vec<(&'static str, Value)>), Error> {
        let (mut names, mut objects) = (Vec::new(), Vec::new());
        for kind in KINDS {
            for object in self.api.list(kind, &self.namespace).await? {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                names.push(format!("{kind} {name}"));
                objects.push((kind, object));
            }
        }
        Ok((names, objects))
    }
}

/// The outcome of a write to an object, which may be gone.
fn unless_gone(outcome: Result<Value, Error>) -> anyhow::Result<()> {
    match outcome {
        // 409: a namespace that is being deleted already, or another object of that name.
        Err(error) if !matches!(error.code(), Some(404 | 409)) => Err(error.into()),
        _ => Ok(()),
    }
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}
