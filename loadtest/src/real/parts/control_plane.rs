//! Shows that a control plane does what the other parts rely on.

use super::Work;
use crate::api::{Http, Resource};
use crate::figures::time;
use crate::objects::object;
use crate::real::plane::Plane;
use crate::real::table::Outcome;
use anyhow::ensure;
use serde_json::{Value, json};
use tokio::time::Instant;

/// Starts a control plane, restarts its API server, restores an older store, and ends it.
pub(super) async fn run(work: &Work) -> anyhow::Result<Outcome> {
    let start = Instant::now();
    let mut plane = Plane::start(work.folder(), "control-plane", &work.out, &[]).await?;
    let started_in = Instant::now().saturating_duration_since(start);
    let http = plane.http().await?;
    create(&http, "before").await?;
    let snapshot = plane.snapshot().await?;
    create(&http, "after").await?;
    let version = http.read("/version").await?;

    plane.stop_api_server().await?;
    ensure!(
        http.read("/version").await.is_err(),
        "the API server answers after its end"
    );
    plane.start_api_server().await?;
    ensure!(
        exists(&http, "before").await && exists(&http, "after").await,
        "the API server's restart lost objects"
    );

    plane.restore(&snapshot).await?;
    ensure!(exists(&http, "before").await, "the older store is not there");
    ensure!(!exists(&http, "after").await, "the store is not the older one");

    let pids = plane.pids();
    plane.stop().await?;
    drop(plane);
    for pid in pids {
        ensure!(
            !std::path::Path::new(&format!("/proc/{pid}")).exists(),
            "process {pid} is still there"
        );
    }
    let version = version["gitVersion"].as_str().unwrap_or("of no version");
    Ok(Outcome::passed(format!(
        "kube-apiserver {version} was ready in {}, restarted, and restored from a snapshot",
        time(started_in)
    )))
}

async fn create(http: &Http, name: &str) -> anyhow::Result<()> {
    let namespace = object("Namespace", name, json!({}));
    http.create(&Resource::Namespaces.path("", ""), &namespace).await
}

async fn exists(http: &Http, name: &str) -> bool {
    let found: anyhow::Result<Value> = http.read(&Resource::Namespaces.path("", name)).await;
    found.is_ok()
}
