//! A cluster that changes all the time, and processes that stand for election in it.

use crate::program::{LIMIT, LOOK, Program, until};
use crate::proxy::{Proxy, Sent};
use fastrand::Rng;
use kube::Client;
use loadtest::oracle;
use memory_apiserver::{Config, Handle, start};
use scenario::Api;
use serde_json::{Value, json};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const MAX_ENDPOINTS: usize = 4;
const SERVICES: usize = 5;
const PODS: usize = 60;

/// The times of an election, for the flags.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) lease: Duration,
    pub(crate) renew: Duration,
    pub(crate) retry: Duration,
}

impl Times {
    /// Short, with two seconds between the last write of one and the first of the next: a machine that is busy
    /// with other things may be that late.
    pub(crate) const SHORT: Self = Self {
        lease: Duration::from_secs(4),
        renew: Duration::from_secs(2),
        retry: Duration::from_millis(400),
    };
    /// The defaults.
    pub(crate) const USUAL: Self = Self {
        lease: Duration::from_secs(15),
        renew: Duration::from_secs(10),
        retry: Duration::from_secs(2),
    };
}

/// A candidate, and its line to the server.
pub(crate) struct Process {
    program: Program,
    pub(crate) proxy: Proxy,
}

impl Deref for Process {
    type Target = Program;

    fn deref(&self) -> &Program {
        &self.program
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Program {
        &mut self.program
    }
}

impl Process {
    /// Writes of slices and Endpoints, from a moment on.
    pub(crate) fn outputs_since(&self, since: Instant) -> Vec<Sent> {
        let mut sent = self.proxy.sent();
        sent.retain(|sent| sent.is_output() && sent.at >= since);
        sent
    }

    /// Whether it has got the lease, and has not given it up. Another may have taken it.
    pub(crate) fn has_led(&self) -> bool {
        let sent = self.proxy.sent();
        let last = sent
            .iter()
            .rfind(|s| s.is_lease() && s.is_write() && s.succeeded());
        last.is_some_and(Sent::holds)
    }
}

/// An API server with Services whose pods come, go, and become ready and not ready.
pub(crate) struct Cluster {
    handle: Handle,
    pub(crate) client: Client,
    stop: Arc<AtomicBool>,
    churn: Option<JoinHandle<()>>,
}

impl Cluster {
    pub(crate) async fn start(seed: u64) -> Self {
        let config = Config::default().seed(seed);
        let handle = start(config).await.unwrap();
        let cluster = Self {
            client: Client::new(handle.server().service_without_faults(), "default"),
            handle,
            stop: Arc::default(),
            churn: None,
        };
        let changes = Changes(cluster.api());
        let node = json!({ "kind": "Node", "metadata": { "name": "n" } });
        changes.create(&node).await;
        for service in 0..SERVICES {
            let service = json!({
                "kind": "Service",
                "metadata": { "name": format!("s{service}") },
                "spec": { "selector": { "app": format!("a{service}") }, "ports": [{ "port": 80 }] },
            });
            changes.create(&service).await;
        }
        for pod in 0..PODS {
            changes.pod(pod).await;
        }
        cluster
    }

    fn api(&self) -> Api {
        Api(self.client.clone())
    }

    /// Starts a process of its own on the server, with a line of its own to it.
    pub(crate) async fn process(&self, times: Times) -> Process {
        let proxy = Proxy::start(self.handle.addr()).await;
        let millis = |time: Duration| format!("{}ms", time.as_millis());
        let flags = [
            format!("--max-endpoints-per-slice={MAX_ENDPOINTS}"),
            format!("--leader-elect-lease-duration={}", millis(times.lease)),
            format!("--leader-elect-renew-deadline={}", millis(times.renew)),
            format!("--leader-elect-retry-period={}", millis(times.retry)),
        ];
        Process {
            program: Program::start(&proxy.url(), &flags),
            proxy,
        }
    }

    /// Which of these holds the lease.
    pub(crate) async fn leader(&self, processes: &[Process]) -> Option<usize> {
        let lease = self.api().get("Lease", "kube-system", "endpointd").await.unwrap();
        let lease = lease.unwrap_or_default();
        let holder = &lease["spec"]["holderIdentity"];
        processes.iter().position(|process| {
            let sent = process.proxy.sent();
            sent.iter()
                .any(|sent| sent.holds() && sent.body["spec"]["holderIdentity"] == *holder)
        })
    }

    /// A process that leads, and one that stands by and has seen it all.
    pub(crate) async fn pair(&self, times: Times) -> (Process, Process) {
        let first = self.process(times).await;
        until("the first leads", async || first.has_led()).await;
        let second = self.process(times).await;
        until("the second watches", async || {
            let sent = second.proxy.sent();
            let watches = |kind: &str| {
                sent.iter()
                    .any(|s| s.path.contains(kind) && s.path.contains("watch=1"))
            };
            ["/nodes", "/pods", "/services", "/leases"]
                .iter()
                .all(|kind| watches(kind))
        })
        .await;
        (first, second)
    }

    /// Pods change from now on, some dozens of times a second.
    pub(crate) fn churn(&mut self, seed: u64) {
        self.stop.store(false, Ordering::Relaxed);
        let (changes, stop) = (Changes(self.api()), self.stop.clone());
        self.churn = Some(tokio::spawn(async move {
            let mut rng = Rng::with_seed(seed);
            while !stop.load(Ordering::Relaxed) {
                let pod = rng.usize(..PODS);
                match rng.u32(..6) {
                    0 => changes.pod_gone(pod).await,
                    1 => changes.pod(pod).await,
                    _ => changes.ready(pod, rng.bool()).await,
                }
                sleep(Duration::from_millis(rng.u64(..40))).await;
            }
        }));
    }

    pub(crate) async fn calm(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(churn) = self.churn.take() {
            churn.await.unwrap();
        }
    }

    /// Returns the Services for which outputs of this kind are wrong at this moment.
    pub(crate) async fn wrong(&self, outputs: oracle::Outputs) -> Vec<String> {
        let report = oracle::check(&self.client, &checks(outputs)).await.unwrap();
        let mut services: Vec<String> = report.differences.into_iter().map(|d| d.service).collect();
        services.sort();
        services.dedup();
        services
    }

    /// Waits until everything is as it should be, no endpoint twice among that, and stays so for a while.
    pub(crate) async fn converge(&self) {
        let start = Instant::now();
        loop {
            let before = self.outputs_version().await;
            let report = oracle::check(&self.client, &checks(oracle::Outputs::ALL))
                .await
                .unwrap();
            if report.is_correct() {
                sleep(Duration::from_secs(1)).await;
                if self.outputs_version().await == before {
                    assert!(report.endpoints >= 10, "{report}");
                    return;
                }
            }
            let waited = Instant::now().saturating_duration_since(start);
            assert!(waited < LIMIT, "{report:.20}");
            sleep(LOOK).await;
        }
    }

    /// The versions of all that is published. Leases go on being renewed.
    async fn outputs_version(&self) -> Vec<Value> {
        let mut versions = Vec::new();
        for kind in ["Endpoints", "EndpointSlice"] {
            let items = self.api().list(kind, "").await.unwrap();
            versions.extend(
                items
                    .iter()
                    .map(|item| item["metadata"]["resourceVersion"].clone()),
            );
        }
        versions
    }
}

fn checks(outputs: oracle::Outputs) -> oracle::Options {
    oracle::Options {
        outputs,
        max_endpoints_per_slice: MAX_ENDPOINTS,
        ..oracle::Options::default()
    }
}

/// Makes the changes that happen in the cluster.
struct Changes(Api);

impl Changes {
    async fn create(&self, object: &Value) {
        // It may be there already.
        let _ = self.0.create(object, "default").await;
    }

    async fn pod(&self, number: usize) {
        let app = format!("a{}", number % SERVICES);
        let pod = json!({
            "kind": "Pod",
            "metadata": { "name": format!("p{number}"), "labels": { "app": app } },
            "spec": { "nodeName": "n", "containers": [{ "name": "c", "image": "i" }] },
        });
        self.create(&pod).await;
        self.ready(number, true).await;
    }

    async fn ready(&self, number: usize, ready: bool) {
        let ip = format!("10.1.0.{}", number + 1);
        let patch = json!({ "status": {
            "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }],
            "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }],
        }});
        let name = format!("p{number}");
        // It may be gone.
        let _ = self
            .0
            .patch("Pod", "default", &name, Some("status"), &patch)
            .await;
    }

    async fn pod_gone(&self, number: usize) {
        let _ = self
            .0
            .delete("Pod", "default", &format!("p{number}"), Some(0))
            .await;
    }
}
