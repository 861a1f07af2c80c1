//! The manifests on a real API server: each object is checked by a dry run; then each overlay is applied to a control plane of
//! its own, and endpointd runs there with the overlay's flags, as its service account, with the rights of its roles.

use super::{Work, filled};
use crate::api::{Http, Resource};
use crate::objects::object;
use crate::real::cluster::{Cluster, Endpointd, UPSTREAM};
use crate::real::manifests::Applier;
use crate::real::render::{Rendered, charts, flags, overlays};
use crate::real::table::Outcome;
use crate::wait::until;
use anyhow::{Context, bail, ensure};
use futures::future::try_join_all;
use rustix::process::Signal;
use serde_json::json;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

/// Requires rights to finalizers of owners, which the roles grant for its sake.
const OPTIONS: [&str; 1] = ["--enable-admission-plugins=OwnerReferencesPermissionEnforcement"];
const RIGHT_LIMIT: Duration = Duration::from_secs(30);
/// How much each overlay works on.
const SIZES: [&str; 5] = [
    "--pods=120",
    "--namespaces=2",
    "--services=6",
    "--nodes=3",
    "--rate=30",
];
const CHURN: Duration = Duration::from_secs(3);
/// A namespace for what `loadtest run` does not make.
const NAMESPACE: &str = "real";
/// Words of the log when something is refused.
const REFUSED: [&str; 2] = ["forbidden", "does not permit"];

/// The purpose of an overlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// Writes Endpoints and slices.
    Writer,
    /// The same with several replicas.
    Replicas,
    /// Mirrors Endpoints, too.
    Mirroring,
    /// Compares, and writes nothing.
    Shadow,
    /// Publishes slices of annotated Services, beside the controllers of Kubernetes.
    OptIn,
}

/// Checks every object, and runs endpointd under every overlay.
pub(super) async fn run(work: &Work) -> anyhow::Result<Outcome> {
    let overlays = overlays(work.folder(), &work.deploy)?;
    let checked = dry_run(work, &overlays).await?;
    let runs = overlays.iter().map(|overlay| run_overlay(work, overlay));
    let ran = try_join_all(runs).await?;
    Ok(Outcome::passed(format!(
        "{checked}; {} applied, and endpointd run as its service account with the flags and rights of each",
        ran.join(", ")
    )))
}

/// Has an API server check all objects of all overlays and of the chart.
async fn dry_run(work: &Work, overlays: &[Rendered]) -> anyhow::Result<String> {
    let cluster = Cluster::bare(work.folder(), "manifests-dry-run", &work.out, &OPTIONS).await?;
    let http = cluster.http().await?;
    let mut applier = Applier::new(http.clone());
    let charts = charts(&work.deploy)?;
    let mut unknown = BTreeSet::new();
    let mut count = 0;
    let mut namespaces = BTreeSet::new();
    let of_charts = charts.iter().flatten();
    let all = overlays.iter().map(|overlay| (overlay, None));
    for (rendered, namespace) in all.chain(of_charts.map(|(rendered, namespace)| (rendered, Some(namespace))))
    {
        if let Some(namespace) = namespace
            && namespace != crate::real::manifests::NAMESPACE
            && namespaces.insert(namespace)
        {
            let namespace = object("Namespace", namespace, json!({}));
            http.create(&Resource::Namespaces.path("", ""), &namespace)
                .await?;
        }
        for object in &rendered.objects {
            if !applier.knows(object).await {
                unknown.insert(object["kind"].as_str().unwrap_or_default().to_owned());
                continue;
            }
            let applied = applier.apply(object, true).await;
            applied.with_context(|| format!("dry run of {}", rendered.name))?;
            count += 1;
        }
    }
    cluster.stop().await?;
    let mut words = format!("dry run of {count} objects of {} overlays", overlays.len());
    match charts {
        Some(charts) => {
            let _ = write!(words, " and {} sets of the chart's values", charts.len());
        }
        None => {
            words.push_str(" (the chart is skipped: there is neither helm nor the renderer of .ci/deploy)");
        }
    }
    if !unknown.is_empty() {
        let unknown: Vec<String> = unknown.into_iter().collect();
        let _ = write!(words, " ({} skipped: no such kind here)", unknown.join(", "));
    }
    Ok(words)
}

/// Applies an overlay to a control plane of its own, and has endpointd do what the overlay is for.
async fn run_overlay(work: &Work, overlay: &Rendered) -> anyhow::Result<String> {
    let name = &overlay.name;
    let purpose = match name.as_str() {
        "base" => Purpose::Writer,
        "ha" | "control-plane" => Purpose::Replicas,
        "mirroring" => Purpose::Mirroring,
        "shadow" => Purpose::Shadow,
        "opt-in" => Purpose::OptIn,
        other => bail!("the overlay {other} is new: this part does not know what it is for"),
    };
    let cluster_name = format!("manifests-{name}");
    let mut cluster = Cluster::bare(work.folder(), &cluster_name, &work.out, &OPTIONS).await?;
    let ran = async {
        cluster.install(&overlay.objects).await?;
        exercise(&mut cluster, purpose, &flags(&overlay.objects)?).await
    };
    ran.await.with_context(|| format!("the overlay {name}"))?;
    cluster.stop().await?;
    Ok(name.clone())
}

async fn exercise(cluster: &mut Cluster, purpose: Purpose, flags: &[String]) -> anyhow::Result<()> {
    let upstream = match purpose {
        Purpose::Shadow | Purpose::OptIn => Some(cluster.start_upstream(UPSTREAM, &[])?),
        _ => None,
    };
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let mut endpointd = cluster.start_endpointd("endpointd", 100, &flags).await?;
    let standby = match purpose {
        Purpose::Replicas => Some(cluster.start_endpointd("endpointd-2", 100, &flags).await?),
        _ => None,
    };
    let http = cluster.http().await?;
    match purpose {
        Purpose::Mirroring => mirrored(&http).await?,
        Purpose::OptIn => annotated(&http).await?,
        _ => {}
    }
    let filled = filled(cluster, &SIZES).await?;
    filled.churn(CHURN).await?;
    filled.right_within(RIGHT_LIMIT).await?;
    if let Some(standby) = standby {
        endpointd.signal(Signal::TERM)?;
        endpointd.gone(true).await?;
        endpointd = standby;
        filled.churn(CHURN).await?;
        filled
            .right_within(RIGHT_LIMIT)
            .await
            .context("after a take-over")?;
    }
    let of_controllers = flags
        .iter()
        .copied()
        .filter(|flag| flag.starts_with("--controllers="));
    let of_controllers: Vec<&str> = of_controllers.collect();
    match purpose {
        Purpose::Shadow => in_sync(&endpointd).await?,
        // Both must find their own objects in order: those of Kubernetes' controllers, and endpointd's.
        Purpose::OptIn => {
            cluster
                .audit(&[])
                .await
                .context("what kube-controller-manager publishes")?;
            cluster
                .audit(&of_controllers)
                .await
                .context("what endpointd publishes")?;
        }
        _ => cluster.audit(&of_controllers).await?,
    }
    endpointd.stop().await?;
    let holder = cluster.lease_holder().await?;
    let expected = (purpose != Purpose::Shadow).then(String::new);
    ensure!(
        holder == expected,
        "the holder of the lease is {holder:?} in the end"
    );
    if let Some(process) = upstream {
        process.end_or_kill(Duration::from_secs(10)).await?;
    }
    nothing_refused(cluster)
}

/// Fails if the log of an endpointd says that the API server has refused something.
pub(super) fn nothing_refused(cluster: &Cluster) -> anyhow::Result<()> {
    for name in ["endpointd", "endpointd-2"] {
        let log = std::fs::read_to_string(cluster.log_path(name)).unwrap_or_default();
        let mut lines = log.lines();
        let refused = lines.find(|line| REFUSED.iter().any(|word| line.contains(word)));
        ensure!(
            refused.is_none(),
            "something was refused: {}",
            refused.unwrap_or_default()
        );
    }
    Ok(())
}

async fn namespace(http: &Http) -> anyhow::Result<()> {
    let namespace = object("Namespace", NAMESPACE, json!({}));
    http.create(&Resource::Namespaces.path("", ""), &namespace).await
}

/// Endpoints of a Service without a selector, which become a slice.
async fn mirrored(http: &Http) -> anyhow::Result<()> {
    namespace(http).await?;
    let mut service = object("Service", "mirrored", json!({}));
    service["spec"] = json!({ "ports": [{ "port": 80 }] });
    http.create(&Resource::Services.path(NAMESPACE, ""), &service)
        .await?;
    let mut endpoints = object("Endpoints", "mirrored", json!({}));
    endpoints["subsets"] = json!([{ "addresses": [{ "ip": "192.0.2.7" }], "ports": [{ "port": 80 }] }]);
    http.create(&Resource::Endpoints.path(NAMESPACE, ""), &endpoints)
        .await?;
    published(http, "mirrored", "192.0.2.7").await
}

/// A Service whose selector is an annotation.
pub(super) async fn annotated(http: &Http) -> anyhow::Result<()> {
    namespace(http).await?;
    http.create(
        &Resource::Nodes.path("", ""),
        &object("Node", "annotated", json!({})),
    )
    .await?;
    for number in 1..=3 {
        let name = format!("web-{number}");
        let mut pod = object("Pod", &name, json!({ "app": "annotated" }));
        pod["spec"] =
            json!({ "nodeName": "annotated", "containers": [{ "name": "c", "image": "example.com/app:1" }] });
        http.create(&Resource::Pods.path(NAMESPACE, ""), &pod).await?;
        let ip = format!("192.0.2.{number}");
        let status = json!({ "status": {
            "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }],
            "conditions": [{ "type": "Ready", "status": "True" }],
        } });
        let path = Resource::Pods.path(NAMESPACE, &name) + "/status";
        http.patch(&path, &status).await?;
    }
    let mut service = object("Service", "selected", json!({}));
    service["metadata"]["annotations"] = json!({ "endpointd.io/selector": "app in (annotated, other)" });
    service["spec"] = json!({ "ports": [{ "port": 80 }] });
    http.create(&Resource::Services.path(NAMESPACE, ""), &service)
        .await?;
    published(http, "selected", "192.0.2.3").await
}

/// Waits until an address is in a slice of a Service.
async fn published(http: &Http, service: &str, address: &str) -> anyhow::Result<()> {
    let path = Resource::Slices.path(NAMESPACE, "")
        + &format!("?labelSelector=kubernetes.io%2Fservice-name%3D{service}");
    until("slices of a Service", RIGHT_LIMIT, async || {
        let slices = http.list(&path).await?;
        let mut endpoints = slices
            .iter()
            .flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
        ensure!(
            endpoints.any(|endpoint| endpoint["addresses"][0] == address),
            "{address} is not published for {service}"
        );
        Ok(())
    })
    .await
}

/// Waits until a dry run finds nothing out of sync, and sees that it has compared something.
async fn in_sync(endpointd: &Endpointd) -> anyhow::Result<()> {
    until("a dry run in sync", RIGHT_LIMIT, async || {
        let out = endpointd.metric("endpointd_services_out_of_sync").await;
        let compared = endpointd.metric("endpointd_dry_run_comparisons_total").await;
        ensure!(
            out == Some(0.0) && compared.is_some_and(|compared| compared > 0.0),
            "the dry run finds {out:?} Services out of sync after {compared:?} comparisons"
        );
        Ok(())
    })
    .await
}
