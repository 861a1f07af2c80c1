//! Creates everything that a run begins with.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use futures::{TryStreamExt, stream};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    objects,
    world::{Pod, State, World},
};
use crate::api::{self, Http, Resource};

/// Requests under way at once. Each is a connection.
const CONCURRENCY: usize = 32;
/// A namespace's service account, without which no pod is admitted, is made a while after the namespace.
const ACCOUNT_LIMIT: Duration = Duration::from_secs(30);
const ACCOUNT_PAUSE: Duration = Duration::from_millis(200);

/// Makes the namespaces, which must not be there.
pub(super) async fn namespaces(http: &Http, world: &World) -> anyhow::Result<()> {
    let namespaces = world.namespaces.iter();
    let bodies = namespaces.map(|name| (String::new(), objects::namespace(world, name)));
    create_all(http, Resource::Namespaces, bodies).await
}

/// Makes the rest, with `progress` told how many pods there are so far.
pub(super) async fn fill(http: &Http, world: &World, progress: impl Fn(u64)) -> anyhow::Result<()> {
    let nodes = world.nodes.iter();
    let nodes = nodes.map(|node| (String::new(), objects::node(world, node)));
    create_all(http, Resource::Nodes, nodes).await?;
    let services = world.services.iter().map(|service| {
        let namespace = world.namespaces[service.namespace].clone();
        (namespace, objects::service(world, service))
    });
    create_all(http, Resource::Services, services).await?;
    let filled = AtomicU64::new(0);
    stream::iter(world.pods().map(Ok))
        .try_for_each_concurrent(CONCURRENCY, async |pod| {
            let namespace = &world.namespaces[world.groups[pod.group].namespace];
            let collection = Resource::Pods.path(namespace, "");
            create_pod(http, &collection, &objects::pod(world, pod)).await?;
            if matches!(pod.state, State::Running { .. }) {
                let status = objects::first_status(world, pod, pod.ready());
                let path = path(world, pod) + "/status";
                api::retrying(async || http.patch(&path, &status).await).await?;
            }
            progress(filled.fetch_add(1, Ordering::Relaxed) + 1);
            Ok(())
        })
        .await
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
