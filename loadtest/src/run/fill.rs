//! Creates everything that a run begins with.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use futures::{TryStreamExt, stream};
use memory_apiserver::ApiServer;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    objects,
    sizes::Layout,
    world::{Pod, State, World},
};
use crate::api::{self, Http, Resource};

/// Requests under way at once. Each is a connection.
const CONCURRENCY: usize = 32;
/// Copies that are stored before others have their turn.
const BATCH: u64 = 64;
/// A namespace's service account, without which no pod is admitted, is made a while after the namespace.
const ACCOUNT_LIMIT: Duration = Duration::from_secs(30);
const ACCOUNT_PAUSE: Duration = Duration::from_millis(200);

/// Makes the namespaces, which must not be there.
pub(super) async fn namespaces(http: &Http, world: &World) -> anyhow::Result<()> {
    let namespaces = world.namespaces.iter();
    let bodies = namespaces.map(|name| (String::new(), objects::namespace(world, name)));
    create_all(http, Resource::Namespaces, bodies).await
}

/// Makes everything but the namespaces, with `progress` told how many pods there are so far.
pub(super) async fn fill(http: &Http, world: &World, progress: impl Fn(u64)) -> anyhow::Result<()> {
    services(http, world).await?;
    if world.layout == Layout::Mirror {
        return endpoints(http, world).await;
    }
    let filled = AtomicU64::new(0);
    stream::iter(world.pods().map(Ok))
        .try_for_each_concurrent(CONCURRENCY, async |pod| {
            create(http, world, pod).await?;
            progress(filled.fetch_add(1, Ordering::Relaxed) + 1);
            Ok(())
        })
        .await
}

/// As [`fill`], but the server makes one pod only, and stores copies of it as the others: a request for each of a million
/// pods, and one for its status, would take half an hour. For layouts whose pods differ in names, nodes and status alone.
pub(super) async fn restore(
    http: &Http,
    server: &ApiServer,
    world: &World,
    progress: impl Fn(u64),
) -> anyhow::Result<()> {
    services(http, world).await?;
    let mut pods = world.pods();
    let Some(first) = pods.next() else { return Ok(()) };
    create(http, world, first).await?;
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

async fn services(http: &Http, world: &World) -> anyhow::Result<()> {
    let nodes = world.nodes.iter();
    let nodes = nodes.map(|node| (String::new(), objects::node(world, node)));
    create_all(http, Resource::Nodes, nodes).await?;
    let services = world.services.iter().map(|service| {
        let namespace = world.namespaces[service.namespace].clone();
        (namespace, objects::service(world, service))
    });
    create_all(http, Resource::Services, services).await
}

/// The Endpoints of Services without a selector.
async fn endpoints(http: &Http, world: &World) -> anyhow::Result<()> {
    let endpoints = world.services.iter().map(|service| {
        let namespace = world.namespaces[service.namespace].clone();
        (namespace, objects::endpoints(world, service))
    });
    create_all(http, Resource::Endpoints, endpoints).await
}

/// A pod, and its status if it runs.
async fn create(http: &Http, world: &World, pod: &Pod) -> anyhow::Result<()> {
    let namespace = &world.namespaces[world.groups[pod.group].namespace];
    let collection = Resource::Pods.path(namespace, "");
    create_pod(http, &collection, &objects::pod(world, pod)).await?;
    if matches!(pod.state, State::Running { .. }) {
        let status = objects::first_status(world, pod, pod.ready());
        let path = path(world, pod) + "/status";
        api::retrying(async || http.patch(&path, &status).await).await?;
    }
    Ok(())
}

/// The path of a pod.
pub(super) fn path(world: &World, pod: &Pod) -> String {
    let namespace = &world.namespaces[world.groups[pod.group].namespace];
    Resource::Pods.path(namespace, &objects::pod_name(world, pod))
}

async fn create_pod(http: &Http, collection: &str, body: &Value) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        match api::retrying(async || http.create(collection, body).await).await {
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

/// Creates objects of a kind, each in its namespace.
async fn create_all(
    http: &Http,
    kind: Resource,
    objects: impl Iterator<Item = (String, Value)>,
) -> anyhow::Result<()> {
    stream::iter(objects.map(Ok))
        .try_for_each_concurrent(CONCURRENCY, async |(namespace, body)| {
            let collection = kind.path(&namespace, "");
            api::retrying(async || http.create(&collection, &body).await).await
        })
        .await
}
