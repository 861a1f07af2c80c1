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
use crate::api::{self, Http};

/// Requests under way at once. Each is a connection.
const CONCURRENCY: usize = 32;
/// A namespace's service account, without which no pod is admitted, is made a while after the namespace.
const ACCOUNT_LIMIT: Duration = Duration::from_secs(30);
const ACCOUNT_PAUSE: Duration = Duration::from_millis(200);

/// Makes the namespaces, which must not be there.
pub(super) async fn namespaces(http: &Http, world: &World) -> anyhow::Result<()> {
    let bodies = world
        .namespaces
        .iter()
        .map(|name| objects::namespace(world, name));
    create_all(
        http,
        bodies
            .map(|body| ("/api/v1/namespaces".to_owned(), body))
            .collect(),
    )
    .await
}

/// Makes the rest, with `progress` told how many pods there are so far.
pub(super) async fn fill(http: &Http, world: &World, progress: impl Fn(u64)) -> anyhow::Result<()> {
    let nodes = world.nodes.iter().map(|node| objects::node(world, node));
    create_all(
        http,
        nodes.map(|body| ("/api/v1/nodes".to_owned(), body)).collect(),
    )
    .await?;
    let services = world.services.iter().map(|service| {
        let namespace = &world.namespaces[service.namespace];
        (
            format!("/api/v1/namespaces/{namespace}/services"),
            objects::service(world, service),
        )
    });
    create_all(http, services.collect()).await?;
    let filled = AtomicU64::new(0);
    stream::iter(world.pods().map(Ok))
        .try_for_each_concurrent(CONCURRENCY, async |pod| {
            let (collection, path) = paths(world, pod);
            create_pod(http, &collection, &objects::pod(world, pod)).await?;
            if matches!(pod.state, State::Running { .. }) {
                let status = objects::first_status(world, pod, pod.ready());
                let path = format!("{path}/status");
                api::retrying(async || http.patch(&path, &status).await).await?;
            }
            progress(filled.fetch_add(1, Ordering::Relaxed) + 1);
            Ok(())
        })
        .await
}

/// The paths of a pod's collection and of the pod.
pub(super) fn paths(world: &World, pod: &Pod) -> (String, String) {
    let namespace = &world.namespaces[world.groups[pod.group].namespace];
    let collection = format!("/api/v1/namespaces/{namespace}/pods");
    let path = format!("{collection}/{}", objects::pod_name(world, pod));
    (collection, path)
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

async fn create_all(http: &Http, objects: Vec<(String, Value)>) -> anyhow::Result<()> {
    stream::iter(objects.into_iter().map(Ok))
        .try_for_each_concurrent(CONCURRENCY, async |(path, body)| {
            api::retrying(async || http.create(&path, &body).await).await
        })
        .await
}
