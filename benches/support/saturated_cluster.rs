//! The case of a simulation, played by the controller and memory-apiserver on a paused clock.

use crate::cluster::{self, Api};
use crate::objects;
use crate::saturation::{Case, Figures};
use endpointd::actors::writer::Pacing;
use endpointd::core::outputs::Outputs;
use endpointd::ops::run::Options;
use futures::TryStreamExt;
use kube::Client;
use kube::core::WatchEvent;
use memory_apiserver::{ApiServer, Config, Fault, FaultPlan, Latency, Rule, Verbs};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices?watch=true";
/// Tries to find a pod that has no change on its way.
const TRIES: usize = 100;

/// The pods with a change that no slice shows yet: since when, and whether it made them ready.
type Awaited = Arc<Mutex<HashMap<String, (Instant, bool)>>>;

pub(crate) fn play(case: &Case) -> Figures {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime can be built");
    runtime.block_on(flip(case))
}

fn name(pod: usize) -> String {
    format!("pod-{pod}")
}

/// Makes the cluster. The pods of a Service follow one another, and so do the Services of a namespace.
async fn fill(case: &Case, api: &Api, ready: &[bool]) {
    let of_service = case.slices * case.pods;
    let node = objects::node("node", None, Some("4"));
    api.create(&node, "").await.expect("a node can be made");
    for number in 0..case.namespaces {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("ns{number}")}});
        api.create(&namespace, "").await.expect("a namespace can be made");
    }
    for service in 0..case.namespaces * case.services {
        let namespace = format!("ns{}", service / case.services);
        let app = format!("app{service}");
        let over =
            json!({"metadata": {"name": app}, "spec": {"selector": {"app": app}, "clusterIP": "None"}});
        let object = objects::service_with(&over);
        api.create(&object, &namespace)
            .await
            .expect("a Service can be made");
        for (at, ready) in ready[service * of_service..][..of_service].iter().enumerate() {
            let pod = service * of_service + at;
            let mut object = objects::pod(&name(pod), &objects::ip(pod), "node");
            object["metadata"]["labels"]["app"] = json!(app);
            object["status"]["conditions"] = json!([objects::ready_condition(*ready, 0)]);
            api.create(&object, &namespace).await.expect("a pod can be made");
        }
    }
}

/// Takes the times from changes to the events that show them.
fn watch(client: Client, awaited: Awaited, figures: Arc<Mutex<Figures>>) {
    tokio::spawn(async move {
        let request = http::Request::get(SLICES)
            .body(Vec::new())
            .expect("the path is one");
        let events = client.request_events::<Value>(request).await;
        let mut events = Box::pin(events.expect("slices can be watched"));
        while let Ok(Some(event)) = events.try_next().await {
            let (WatchEvent::Added(slice) | WatchEvent::Modified(slice)) = event else {
                continue;
            };
            let (mut awaited, mut figures) = (awaited.lock(), figures.lock());
            for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
                let pod = endpoint["targetRef"]["name"].as_str().unwrap_or_default();
                let ready = endpoint["conditions"]["ready"] == true;
                if awaited.get(pod).is_some_and(|(_, wanted)| *wanted == ready)
                    && let Some((since, _)) = awaited.remove(pod)
                {
                    let times = if ready {
                        &mut figures.additions
                    } else {
                        &mut figures.removals
                    };
                    times.push(Instant::now().saturating_duration_since(since));
                }
            }
        }
    });
}

async fn flip(case: &Case) -> Figures {
    let pods = case.objects() * case.pods;
    let mut random = fastrand::Rng::with_seed(case.seed);
    let mut ready: Vec<bool> = (0..pods).map(|_| random.bool()).collect();
    let server = ApiServer::new(
        Config::default()
            .gc(false)
            .seed(case.seed)
            .request_log(0)
            .start_time("2026-01-01T00:00:00Z".parse().expect("a time"))
            // Watches shall be told everything, and not begin again with a list.
            .history(1_000_000)
            .watch_buffer(1_000_000),
    );
    let client = Client::new(server.service_without_faults(), "default");
    let api = Api(client.clone());
    fill(case, &api, &ready).await;
    let mut options = cluster::options(case.pods);
    options.settings.outputs = Outputs {
        endpoints: false,
        ..Outputs::ALL
    };
    let options = Options {
        pacing: Pacing::unlimited(case.limit),
        ..options
    };
    let controller = cluster::controller(&server, options);
    sleep(Duration::from_secs(60)).await;

    let (awaited, figures) = (Awaited::default(), Arc::new(Mutex::new(Figures::default())));
    watch(client, Arc::clone(&awaited), Arc::clone(&figures));
    let (least, most) = (1.0 - case.jitter, 1.0 + case.jitter);
    let workers = Fault::Workers {
        count: case.workers,
        each: Latency::Uniform(case.each.mul_f64(least), case.each.mul_f64(most)),
    };
    let rule = Rule::on(Verbs::WRITES, "endpointslices").fault(workers);
    server.set_faults(FaultPlan::new(case.seed).only_client("controller").rule(rule));
    sleep(Duration::from_secs(5)).await;

    let start = Instant::now();
    let gap = Duration::from_secs_f64(1.0 / (case.capacity() * case.load));
    let count = (case.lasting.as_secs_f64() / gap.as_secs_f64()) as usize;
    for number in 0..count {
        sleep_until(start + gap * number as u32).await;
        let free = (0..TRIES)
            .map(|_| random.usize(..pods))
            .find(|pod| !awaited.lock().contains_key(&name(*pod)));
        let pod = free.expect("most pods have no change on their way");
        ready[pod] = !ready[pod];
        awaited.lock().insert(name(pod), (Instant::now(), ready[pod]));
        let second = 1 + number as u32 % 3000;
        let patch = json!({"status": {"conditions": [objects::ready_condition(ready[pod], second)]}});
        let namespace = format!("ns{}", pod / (case.services * case.slices * case.pods));
        api.patch("Pod", &namespace, &name(pod), Some("status"), &patch)
            .await
            .expect("a pod's status can be changed");
    }
    sleep(Duration::from_secs(60)).await;
    assert!(!controller.is_finished(), "the controller has ended");
    assert!(awaited.lock().is_empty(), "each change is seen");
    controller.abort();
    let mut figures = std::mem::take(&mut *figures.lock());
    figures.changes = count;
    figures.writes = server.fault_counts().into_values().sum::<u64>() as usize;
    figures
}
