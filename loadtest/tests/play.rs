//! `loadtest serve --play` and endpointd beside it, as the README has users try them by hand.
#![allow(
    clippy::unwrap_used,
    reason = "clippy does not see that helpers of a test are tests"
)]

use http::Method;
use kube::{Client, Config};
use scenario::Api;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

#[path = "support/program.rs"]
mod program;

use program::{Program, until};

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const PODS: &str = "/api/v1/namespaces/default/pods";
const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";

/// A server with everything that is played, and endpointd; both end with this value.
struct Cluster {
    server: Child,
    _endpointd: Program,
    api: Api,
    url: String,
    home: PathBuf,
}

// === impl Cluster ===

impl Cluster {
    fn start(name: &str) -> Self {
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("play-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&home).unwrap();
        let mut server = Command::new(env!("CARGO_BIN_EXE_loadtest"))
            .args(["serve", "--play", "--kubeconfig-out"])
            .arg(home.join("kubeconfig"))
            .stdout(Stdio::piped())
            .stderr(File::create(home.join("stderr")).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(server.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("serving on ").unwrap().to_owned();
        let flags = ["--leader-elect=false".to_owned()];
        let endpointd = Program::start(&url, &flags);
        let client = Client::try_from(Config::new(url.parse().unwrap())).unwrap();
        Self {
            server,
            _endpointd: endpointd,
            api: Api(client),
            url,
            home,
        }
    }

    async fn send(&self, method: Method, path: &str, media: &str, body: &Value) -> Value {
        let body = (!body.is_null()).then_some((media, body));
        self.api.call(method, path, body).await.unwrap()
    }

    async fn get(&self, path: &str) -> Value {
        self.send(Method::GET, path, "application/json", &Value::Null)
            .await
    }

    async fn patch(&self, path: &str, body: Value) -> Value {
        self.send(Method::PATCH, path, "application/merge-patch+json", &body)
            .await
    }

    /// Applies the sample as `kubectl apply --server-side` does.
    async fn apply_sample(&self) {
        let sample = std::fs::read_to_string(sample()).unwrap();
        for document in sample.split("\n---\n") {
            let object: Value = serde_saphyr::from_str(document).unwrap();
            let (kind, name) = (&object["kind"], object["metadata"]["name"].as_str().unwrap());
            let collection = match kind.as_str().unwrap() {
                "Service" => "/api/v1/namespaces/default/services",
                "Deployment" => "/apis/apps/v1/namespaces/default/deployments",
                kind => panic!("{kind}"),
            };
            let path = format!("{collection}/{name}?fieldManager=kubectl");
            self.send(Method::PATCH, &path, "application/apply-patch+yaml", &object)
                .await;
        }
    }

    /// The endpoints of the Service `web`, of all its slices.
    async fn endpoints(&self) -> Vec<Value> {
        let path = format!("{SLICES}?labelSelector=kubernetes.io/service-name=web");
        let slices = self.get(&path).await;
        let slices = slices["items"].as_array().unwrap().iter();
        let endpoints = slices.filter_map(|slice| slice["endpoints"].as_array());
        endpoints.flatten().cloned().collect()
    }

    /// Waits until so many endpoints are there, so many of them ready.
    async fn has_endpoints(&self, all: usize, ready: usize) {
        until(&format!("{all} endpoints, {ready} ready"), async || {
            let endpoints = self.endpoints().await;
            let is_ready = |endpoint: &&Value| endpoint["conditions"]["ready"] == true;
            endpoints.len() == all && endpoints.iter().filter(is_ready).count() == ready
        })
        .await;
    }

    async fn pods(&self) -> Vec<Value> {
        self.get(PODS).await["items"].as_array().unwrap().clone()
    }

    /// Returns the output of kubectl; none if it is not installed.
    fn kubectl(&self, arguments: &str) -> Option<String> {
        let output = Command::new("kubectl")
            .arg(format!("--cache-dir={}", self.home.join("cache").display()))
            .args(arguments.split_whitespace())
            .env("KUBECONFIG", self.home.join("kubeconfig"))
            .env("HOME", &self.home)
            .output()
            .ok()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let wrong = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {arguments}: {said}{wrong}");
        Some(said)
    }

    /// Returns the output of a command of endpointd.
    fn endpointd(&self, arguments: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_loadtest"))
            .arg("endpointd")
            .args(arguments)
            .env("KUBECONFIG", self.home.join("kubeconfig"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let wrong = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}{wrong}");
        said
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("play/web.yaml")
}

#[tokio::test]
async fn a_deployment_gets_pods_and_its_service_their_endpoints() {
    let cluster = Cluster::start("deployment");
    cluster.apply_sample().await;
    cluster.has_endpoints(3, 3).await;
    let endpoints = cluster.endpoints().await;
    let mut nodes: Vec<&str> = endpoints
        .iter()
        .map(|endpoint| endpoint["nodeName"].as_str().unwrap())
        .collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["node-a", "node-b", "node-c"], "each node has a pod");
    for endpoint in &endpoints {
        assert_eq!(endpoint["targetRef"]["kind"], "Pod");
        assert!(
            endpoint["zone"].as_str().unwrap().starts_with("zone-"),
            "{endpoint}"
        );
    }

    // Scaled as kubectl does it.
    cluster
        .patch(&format!("{WEB}/scale"), json!({ "spec": { "replicas": 5 } }))
        .await;
    cluster.has_endpoints(5, 5).await;
    until("the status has all pods", async || {
        let status = cluster.get(WEB).await["status"].take();
        status["readyReplicas"] == 5 && status["observedGeneration"] == 2
    })
    .await;
    cluster
        .patch(&format!("{WEB}/scale"), json!({ "spec": { "replicas": 2 } }))
        .await;
    cluster.has_endpoints(2, 2).await;

    // A pod that is not ready stays, and is published as such.
    let pods = cluster.pods().await;
    let name = pods[0]["metadata"]["name"].as_str().unwrap();
    let not_ready = json!({ "metadata": { "annotations": { "play.endpointd.io/ready": "false" } } });
    cluster.patch(&format!("{PODS}/{name}"), not_ready).await;
    cluster.has_endpoints(2, 1).await;

    // One that is deleted is replaced by another, which has another address.
    let addresses = |pods: &[Value]| -> Vec<String> {
        pods.iter()
            .map(|pod| pod["status"]["podIP"].to_string())
            .collect()
    };
    let before = addresses(&pods);
    cluster
        .send(
            Method::DELETE,
            &format!("{PODS}/{name}"),
            "application/json",
            &Value::Null,
        )
        .await;
    cluster.has_endpoints(2, 2).await;
    let after = addresses(&cluster.pods().await);
    assert_ne!(before, after);

    // Another template replaces all pods, and at no time is there none that is ready.
    let kept: Vec<Value> = cluster
        .pods()
        .await
        .iter()
        .map(|pod| pod["metadata"]["uid"].clone())
        .collect();
    let restarted =
        json!({ "spec": { "template": { "metadata": { "annotations": { "restarted": "now" } } } } });
    cluster.patch(WEB, restarted).await;
    until("all pods are of the new template", async || {
        let endpoints = cluster.endpoints().await;
        assert!(
            endpoints
                .iter()
                .any(|endpoint| endpoint["conditions"]["ready"] == true)
        );
        let is_new = |endpoint: &Value| !kept.contains(&endpoint["targetRef"]["uid"]);
        endpoints.len() == 2 && endpoints.iter().all(is_new)
    })
    .await;

    assert!(
        cluster
            .endpointd(&["explain", "default/web"])
            .contains("2 pods match: 2 ready")
    );
    assert!(cluster.endpointd(&["audit"]).contains("0 out of sync"));

    cluster
        .send(Method::DELETE, WEB, "application/json", &Value::Null)
        .await;
    cluster.has_endpoints(0, 0).await;
    until("no pod is left", async || cluster.pods().await.is_empty()).await;
}

#[tokio::test]
async fn a_deployment_whose_pods_are_refused_stops_no_other() {
    let cluster = Cluster::start("refused");
    let bad = json!({
        "metadata": { "name": "bad" },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "app": "bad" } },
            "template": {
                "metadata": { "labels": { "app": "bad", "tier": "no label may be like this!" } },
                "spec": { "containers": [{ "name": "bad", "image": "any" }] },
            },
        },
    });
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    cluster
        .send(Method::POST, deployments, "application/json", &bad)
        .await;
    let told = || {
        let log = std::fs::read_to_string(cluster.home.join("stderr")).unwrap();
        log.matches("Deployment default/bad: ").count()
    };
    until("the refusal is told", async || told() > 0).await;
    cluster.apply_sample().await;
    cluster.has_endpoints(3, 3).await;
    // Once, though it is tried again at each change.
    assert_eq!(told(), 1);
}

#[tokio::test]
async fn bare_pods_run_too() {
    let cluster = Cluster::start("bare");
    // Cordoned nodes get no pods.
    for node in ["node-a", "node-c"] {
        let cordoned = json!({ "spec": { "unschedulable": true } });
        cluster.patch(&format!("/api/v1/nodes/{node}"), cordoned).await;
    }
    let service = json!({
        "metadata": { "name": "web" },
        "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }], "ipFamilyPolicy": "PreferDualStack" },
    });
    let services = "/api/v1/namespaces/default/services";
    cluster
        .send(Method::POST, services, "application/json", &service)
        .await;
    let pod = json!({
        "metadata": { "name": "web-0", "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "web", "image": "any" }] },
    });
    cluster.send(Method::POST, PODS, "application/json", &pod).await;
    until("the pod is ready", async || {
        let endpoints = cluster.endpoints().await;
        !endpoints.is_empty()
            && endpoints
                .iter()
                .all(|endpoint| endpoint["conditions"]["ready"] == true)
    })
    .await;
    let pod = cluster.get(&format!("{PODS}/web-0")).await;
    assert_eq!(
        (&pod["status"]["phase"], &pod["spec"]["nodeName"]),
        (&json!("Running"), &json!("node-b"))
    );
    assert_eq!(pod["status"]["podIPs"].as_array().unwrap().len(), 2);
    assert_eq!(pod["status"]["containerStatuses"][0]["ready"], true);
}

/// Runs the commands of the README, where there is kubectl.
#[tokio::test]
async fn kubectl_does_it_all() {
    let cluster = Cluster::start("kubectl");
    if Command::new("kubectl")
        .args(["version", "--client"])
        .output()
        .is_err()
    {
        println!("skipped: kubectl is not installed");
        return;
    }
    assert!(cluster.url.starts_with("http://127.0.0.1:"));
    let said = cluster.kubectl("get nodes").unwrap();
    assert_eq!(said.matches(" Ready ").count(), 3, "{said}");
    let said = cluster
        .kubectl(&format!("apply -f {}", sample().display()))
        .unwrap();
    assert!(
        said.contains("service/web created") && said.contains("deployment.apps/web created"),
        "{said}"
    );
    cluster
        .kubectl("rollout status deployment/web --timeout=60s")
        .unwrap();
    cluster.has_endpoints(3, 3).await;
    let said = cluster.kubectl("scale deployment web --replicas=5").unwrap();
    assert!(said.contains("scaled"), "{said}");
    cluster.has_endpoints(5, 5).await;
    let said = cluster
        .kubectl("get endpointslices -l kubernetes.io/service-name=web")
        .unwrap();
    assert!(said.contains("8080") && said.contains("10.244.0."), "{said}");
    let pods = cluster.kubectl("get pods -l app=web -o name").unwrap();
    let first = pods.lines().next().unwrap();
    cluster
        .kubectl(&format!("annotate {first} play.endpointd.io/ready=false"))
        .unwrap();
    cluster.has_endpoints(5, 4).await;
    cluster.kubectl(&format!("delete {first} --timeout=60s")).unwrap();
    cluster.has_endpoints(5, 5).await;
    cluster
        .kubectl(&format!("delete -f {} --timeout=60s", sample().display()))
        .unwrap();
    until("the slices are gone", async || {
        cluster.endpoints().await.is_empty()
    })
    .await;
}
