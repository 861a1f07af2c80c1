//! Creates everything that a run begins with.

use super::objects;
use super::world::{Pod, State, World};
use crate::api::{self, Http, Resource};
use memory_apiserver::ApiServer;
use serde_json::Value;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Requests under way at once. Each is a connection.
const CONCURRENCY: usize = 64;
/// Copies that are stored before others have their turn.
const BATCH: u64 = 64;
/// A namespace's service account, without which no pod is admitted, is made a while after the namespace.
const ACCOUNT_LIMIT: Duration = Duration::from_secs(30);
const ACCOUNT_PAUSE: Duration = Duration::from_millis(200);

/// Makes the namespaces, which must not be there.
pub(super) async fn namespaces(http: &Http, world: &World) -> anyhow::Result<()> {
    let namespaces = world.namespaces.iter();
    let bodies = namespaces.map(|name| (String::new(), objects::namespace(world, name)));
    create_all(http, Resource::Namespaces, bodies, |_| ()).await
}

/// Makes everything but the namespaces. `server` is the server itself, if it is in memory; `progress` is told how many
/// Services and pods there are so far.
pub(super) async fn fill(
    http: &Http,
    server: Option<&ApiServer>,
    world: &World,
    progress: impl Fn(u64),
) -> anyhow::Result<()> {
    let nodes = world.nodes.iter();
    let nodes = nodes.map(|node| (String::new(), objects::node(world, node)));
    create_all(http, Resource::Nodes, nodes, |_| ()).await?;
    let services = || world.services.iter().filter(|service| service.exists);
    let bodies = services().map(|service| {
        let namespace = world.namespaces[service.namespace].clone();
        (namespace, objects::service(world, service))
    });
    create_all(http, Resource::Services, bodies, &progress).await?;
    let before = services().count() as u64;
    let progress = |pods| progress(before + pods);
    match server.filter(|_| world.layout.has_like_pods()) {
        Some(server) => restore(http, server, world, progress).await,
        None => pods(http, world, progress).await,
    }
}

/// Makes the pods, each by a request and one for its status.
async fn pods(http: &Http, world: &World, progress: impl Fn(u64)) -> anyhow::Result<()> {
    let mut creation = Creation::new(progress);
    for pod in world.pods() {
        let request = create(http.clone(), world, pod);
        creation.add(request).await?;
    }
    creation.end().await
}

/// As [`pods`], but the server makes one pod only, and stores copies of it as the others: a request for each of a million
/// pods, and one for its status, would take half an hour. For layouts whose pods differ in names, labels, nodes and status
/// alone.
async fn restore(
    http: &Http,
    server: &ApiServer,
    world: &World,
    progress: impl Fn(u64),
) -> anyhow::Result<()> {
    let mut pods = world.pods();
    let Some(first) = pods.next() else { return Ok(()) };
    create(http.clone(), world, first).await?;
    let template = http.read(&path(world, first)).await?;
    for (pod, count) in pods.zip(2..) {
        let mut copy = template.clone();
        objects::turn_into(&mut copy, world, pod);
        server.restore(copy)?;
        if count % BATCH == 0 {
            progress(count);
            tokio::task::yield_now().await;
        }
    }
    progress(world.pod_count() as u64);
    Ok(())
}

/// A pod, and its status if it runs.
fn create(http: Http, world: &World, pod: &Pod) -> impl Future<Output = anyhow::Result<()>> + use<> {
    let namespace = &world.namespaces[world.groups[pod.group].namespace];
    let collection = Resource::Pods.path(namespace, "");
    let body = objects::pod(world, pod);
    let runs = matches!(pod.state, State::Running { .. });
    let status = runs.then(|| objects::first_status(world, pod, pod.ready()));
    let path = path(world, pod) + "/status";
    async move {
        create_pod(&http, &collection, &body).await?;
        if let Some(status) = status {
            api::retrying(|| http.patch(&path, &status)).await?;
        }
        Ok(())
    }
}

/// The path of a pod.
pub(super) fn path(world: &World, pod: &Pod) -> String {
    let namespace = &world.namespaces[world.groups[pod.group].namespace];
    Resource::Pods.path(namespace, &objects::pod_name(world, pod))
}

async fn create_pod(http: &Http, collection: &str, body: &Value) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        match api::retrying(|| http.create(collection, body)).await {
            Err(error)
                if api::message(&error).is_some_and(|message| message.contains("service account"))
                    && Instant::now().saturating_duration_since(start) < ACCOUNT_LIMIT =>
            {
                tokio::time::sleep(ACCOUNT_PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}

/// Creates objects of a kind, each in its namespace. `progress` is told how many there are so far.
async fn create_all(
    http: &Http,
    kind: Resource,
    objects: impl Iterator<Item = (String, Value)>,
    progress: impl Fn(u64),
) -> anyhow::Result<()> {
    let mut creation = Creation::new(progress);
    for (namespace, body) in objects {
        let (http, collection) = (http.clone(), kind.path(&namespace, ""));
        let request = async move { api::retrying(|| http.create(&collection, &body)).await };
        creation.add(request).await?;
    }
    creation.end().await
}

/// Requests that make objects, some of them under way at once, on all threads.
struct Creation<P> {
    requests: JoinSet<anyhow::Result<()>>,
    made: u64,
    progress: P,
}

// === impl Creation ===

impl<P: Fn(u64)> Creation<P> {
    fn new(progress: P) -> Self {
        Self {
            requests: JoinSet::new(),
            made: 0,
            progress,
        }
    }

    /// Begins one, when there is a connection for it.
    async fn add(
        &mut self,
        request: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    ) -> anyhow::Result<()> {
        if self.requests.len() >= CONCURRENCY {
            self.wait().await?;
        }
        self.requests.spawn(request);
        Ok(())
    }

    async fn end(mut self) -> anyhow::Result<()> {
        while !self.requests.is_empty() {
            self.wait().await?;
        }
        Ok(())
    }

    async fn wait(&mut self) -> anyhow::Result<()> {
        if let Some(made) = self.requests.join_next().await {
            made??;
            self.made += 1;
            (self.progress)(self.made);
        }
        Ok(())
    }
}
