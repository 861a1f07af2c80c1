//! Recording against endpointd on an API server in this process.

use super::{Args, Ended, Job};
use crate::serve;
use clap::Parser;
use endpointd::actors::writer::Pacing;
use endpointd::cluster::connect::Clients;
use endpointd::core::namespace::Settings;
use endpointd::ops::run;
use futures::{StreamExt, stream};
use kube::Client;
use memory_apiserver::{Fault, FaultPlan, Handle, Latency, Rule, Stage, Verb};
use serde_json::{Value, json};
use std::future::pending;
use std::path::PathBuf;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::sleep;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

/// An API server and a controller on it.
struct Cluster {
    server: Handle,
    api: scenario::Api,
    controller: JoinHandle<()>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.controller.abort();
    }
}

impl Cluster {
    async fn start(gc: bool, max_endpoints: usize) -> Self {
        let server = memory_apiserver::start(serve::config(gc)).await.unwrap();
        let client = || Client::new(server.server().service(), "default");
        let clients = Clients {
            watches: client(),
            objects: client().into(),
            events: client(),
            in_pod: false,
        };
        let options = run::Options {
            settings: Settings {
                max_endpoints,
                ..Settings::default()
            },
            pacing: Pacing::unlimited(16),
            deadline: Duration::from_secs(30),
            drain: Duration::from_secs(10),
        };
        Self {
            api: scenario::Api(client()),
            controller: tokio::spawn(async move {
                run::run(clients, options, pending()).await.unwrap();
            }),
            server,
        }
    }

    /// Runs the command on this cluster until it ends, or until `stop` does: how it ended, and what it printed.
    async fn record(&self, args: &[&str], stop: impl Future<Output = ()>) -> (anyhow::Result<Ended>, String) {
        let url = self.server.url();
        let common = ["record", "--quiet=500ms", "--server", &*url];
        let args = Cli::try_parse_from(common.iter().chain(args)).unwrap().args;
        let mut stops = stream::once(stop).chain(stream::pending()).boxed_local();
        let mut out = Vec::new();
        let ended = match Job::prepare(&args).await {
            Ok(mut job) => job.record(&mut stops, &mut out).await,
            Err(error) => Err(error),
        };
        (ended, String::from_utf8(out).unwrap())
    }

    /// Waits until an object is there and fulfils a condition.
    async fn until(&self, kind: &str, namespace: &str, name: &str, condition: impl Fn(&Value) -> bool) {
        for _ in 0..1000 {
            let found = self.api.get(kind, namespace, name).await.unwrap();
            if found.is_some_and(|object| condition(&object)) {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("{kind} {name} does not come about");
    }

    /// Everything that scenarios create, by kind and name.
    async fn objects(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (kind, path) in [
            ("Node", "/api/v1/nodes"),
            ("Pod", "/api/v1/pods"),
            ("Service", "/api/v1/services"),
            ("Endpoints", "/api/v1/endpoints"),
            ("EndpointSlice", "/apis/discovery.k8s.io/v1/endpointslices"),
            ("Namespace", "/api/v1/namespaces"),
        ] {
            let list = self.api.call(http::Method::GET, path, None).await.unwrap();
            for object in list["items"].as_array().unwrap() {
                found.push(format!("{kind}/{}", object["metadata"]["name"].as_str().unwrap()));
            }
        }
        found.sort();
        found
    }

    /// Asserts that nothing is there but what was there before. The namespace goes a little later.
    async fn has_only(&self, before: &[String]) {
        for _ in 0..100 {
            if self.objects().await == before {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(self.objects().await, before);
    }
}

/// A scenario file that is removed with this.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Scratch {
    fn new(test: &str, content: &Value) -> Self {
        let name = content["name"].as_str().unwrap();
        let file = format!("loadtest-record-{}-{test}-{name}.json", std::process::id());
        let path = std::env::temp_dir().join(file);
        std::fs::write(&path, content.to_string()).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn read(&self) -> Value {
        serde_json::from_slice(&std::fs::read(&self.0).unwrap()).unwrap()
    }
}

/// A scenario that was recorded from kube-controller-manager.
fn recorded(name: &str) -> Value {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/goldens");
    serde_json::from_slice(&std::fs::read(format!("{directory}/{name}.json")).unwrap()).unwrap()
}

/// The same without its states.
fn unrecorded(name: &str) -> Value {
    let mut scenario = recorded(name);
    for step in scenario["steps"].as_array_mut().unwrap() {
        step.as_object_mut().unwrap().remove("then");
    }
    scenario
}

#[tokio::test(flavor = "multi_thread")]
async fn recording_gives_what_was_recorded_from_upstream() {
    // Without garbage collection, as upstream was recorded.
    let cluster = Cluster::start(false, 100).await;
    let before = cluster.objects().await;
    // The first once more: its namespace must not stay.
    for name in [
        "basic",
        "dual",
        "two-services-one-pod",
        "service-finalizer",
        "basic",
    ] {
        let file = Scratch::new("again", &unrecorded(name));
        let (ended, out) = cluster.record(&[file.path()], pending()).await;
        assert_eq!(ended.unwrap(), Ended::Well, "{out}");
        assert!(out.starts_with(&format!("{name}: recorded ")), "{out}");
        assert_eq!(file.read(), recorded(name));
        cluster.has_only(&before).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn free_packing_is_recorded_by_group() {
    let cluster = Cluster::start(true, 4).await;
    let file = Scratch::new("packing", &unrecorded("pack-10-of-4"));
    let flags = ["--max-endpoints-per-slice=4", file.path()];
    let (ended, out) = cluster.record(&flags, pending()).await;
    assert_eq!(ended.unwrap(), Ended::Well, "{out}");
    let file = Scratch::new("packing", &recorded("pack-10-of-4"));
    let flags = ["--check", "--max-endpoints-per-slice=4", file.path()];
    let (ended, out) = cluster.record(&flags, pending()).await;
    assert_eq!(ended.unwrap(), Ended::Well, "{out}");
    let (ended, _) = cluster.record(&[file.path()], pending()).await;
    assert!(format!("{:#}", ended.unwrap_err()).contains("slices of 4 endpoints"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_names_the_step_and_the_lines_that_differ_and_writes_nothing() {
    let cluster = Cluster::start(true, 100).await;
    let mut scenario = recorded("basic");
    let same = Scratch::new("same", &scenario);
    scenario["steps"][1]["then"]["endpointslices"][0]["endpoints"][0]["zone"] = json!("elsewhere");
    let other = Scratch::new("other", &scenario);
    let (ended, out) = cluster
        .record(&["--check", same.path(), other.path()], pending())
        .await;
    assert_eq!(ended.unwrap(), Ended::Badly, "{out}");
    let lines: Vec<&str> = out.lines().map(str::trim_end).collect();
    assert_eq!(lines[0], "basic: equal");
    assert_eq!(lines[1], "basic: differs (- recorded, + found)");
    assert!(lines[2].starts_with("  step 1, after patch Pod "), "{out}");
    let changed = |sign: &str| {
        lines
            .iter()
            .filter(|line| line.trim_start().starts_with(sign))
            .count()
    };
    assert_eq!((changed("- "), changed("+ ")), (1, 1), "{out}");
    let zone = lines.iter().find(|line| line.trim_start().starts_with("- "));
    assert!(zone.unwrap().ends_with(r#""zone": "elsewhere""#), "{out}");
    assert_eq!(other.read(), scenario, "the file is as it was");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_exists_already_is_neither_overwritten_nor_deleted() {
    let cluster = Cluster::start(true, 100).await;
    let file = Scratch::new("exists", &unrecorded("basic"));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}});
    cluster.api.create(&namespace, "").await.unwrap();
    let before = cluster.objects().await;
    let flags = ["--namespace=mine", file.path()];
    let (ended, out) = cluster.record(&flags, pending()).await;
    assert_eq!((ended.unwrap(), &*out), (Ended::Badly, ""));
    cluster.has_only(&before).await;

    let flags = ["--namespace=mine", "--existing-namespace", file.path()];
    let (ended, out) = cluster.record(&flags, pending()).await;
    assert_eq!(ended.unwrap(), Ended::Well, "{out}");
    assert_eq!(file.read(), recorded("basic"));
    cluster.has_only(&before).await;

    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    cluster.api.create(&pod, "mine").await.unwrap();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    let before = cluster.objects().await;
    let (ended, _) = cluster.record(&flags, pending()).await;
    assert_eq!(ended.unwrap(), Ended::Badly, "the namespace is not empty");
    cluster.has_only(&before).await;
    cluster.api.create(&node, "").await.unwrap();
    let before = cluster.objects().await;
    let (ended, _) = cluster.record(&[file.path()], pending()).await;
    assert_eq!(ended.unwrap(), Ended::Badly, "the node is somebody else's");
    cluster.has_only(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interruption_and_a_failure_leave_nothing_behind() {
    let cluster = Cluster::start(true, 100).await;
    let before = cluster.objects().await;
    let mut scenario = unrecorded("basic");
    let file = Scratch::new("stop", &scenario);
    let stop = async {
        while cluster
            .api
            .list("EndpointSlice", "g-basic")
            .await
            .unwrap()
            .is_empty()
        {
            sleep(Duration::from_millis(10)).await;
        }
    };
    let (ended, out) = cluster.record(&[file.path()], stop).await;
    assert_eq!((ended.unwrap(), &*out), (Ended::Interrupted, ""));
    assert_eq!(file.read(), scenario, "the file is as it was");
    cluster.has_only(&before).await;

    let missing = json!({"delete": {"kind": "Pod", "name": "nobody"}});
    scenario["steps"][1]["do"].as_array_mut().unwrap().push(missing);
    let file = Scratch::new("fails", &scenario);
    let (ended, out) = cluster.record(&[file.path()], pending()).await;
    assert_eq!((ended.unwrap(), &*out), (Ended::Badly, ""));
    assert_eq!(file.read(), scenario, "the file is as it was");
    cluster.has_only(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_creates_meanwhile_is_not_deleted() {
    let cluster = Cluster::start(true, 100).await;
    // Between the look at the namespace and its creation there is time for another.
    let wait = Fault::Delay(Stage::Before, Latency::Constant(Duration::from_secs(1)));
    let slow = FaultPlan::new(1).rule(Rule::on(Verb::Get, "nodes").fault(wait));
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    let mut scenario = unrecorded("basic");
    let first = scenario["steps"][0]["do"].as_array_mut().unwrap();
    first.retain(|operation| operation["create"]["kind"] != "Node");
    first.insert(0, json!({"create": node}));
    first.insert(0, json!({"sleep": 1}));
    let file = Scratch::new("meanwhile", &scenario);

    cluster.server.server().set_faults(slow);
    let args = [file.path()];
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "g-basic"}});
    let another = async {
        sleep(Duration::from_millis(300)).await;
        cluster.api.create(&namespace, "").await.unwrap();
        cluster.server.server().clear_faults();
        cluster.objects().await
    };
    let ((ended, _), there) = tokio::join!(cluster.record(&args, pending()), another);
    assert_eq!(ended.unwrap(), Ended::Badly, "the namespace was taken");
    sleep(Duration::from_millis(300)).await;
    assert_eq!(cluster.objects().await, there);

    // A Node that comes after the namespace was created: the namespace goes, the Node stays.
    cluster
        .api
        .delete("Namespace", "", "g-basic", None)
        .await
        .unwrap();
    let another = async {
        cluster
            .until("Namespace", "", "g-basic", |it| it["status"]["phase"] == "Active")
            .await;
        cluster.api.create(&node, "").await.unwrap();
    };
    while cluster
        .api
        .get("Namespace", "", "g-basic")
        .await
        .unwrap()
        .is_some()
    {
        sleep(Duration::from_millis(10)).await;
    }
    let mut expected = cluster.objects().await;
    let ((ended, _), ()) = tokio::join!(cluster.record(&args, pending()), another);
    assert_eq!(ended.unwrap(), Ended::Badly, "the Node was taken");
    expected.insert(
        expected.partition_point(|name| &**name < "Node/n1"),
        "Node/n1".to_owned(),
    );
    cluster.has_only(&expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_played_is_refused_before_anything_is_sent() {
    let cluster = Cluster::start(true, 100).await;
    let before = cluster.objects().await;
    for (steps, why) in [
        (json!(["x"]), "step 0: \"x\" is not an object"),
        (
            json!([{"do": [{"delete": {"kind": "Namespace", "name": "default"}}]}]),
            "operations on Namespaces are refused",
        ),
        (
            json!([{"do": [{"delete": {"kind": "Node", "name": "prod"}}]}]),
            "has not created the Node prod",
        ),
    ] {
        let file = Scratch::new("refused", &json!({"name": "refused", "steps": steps}));
        let (ended, _) = cluster.record(&[file.path()], pending()).await;
        let error = format!("{:#}", ended.unwrap_err());
        assert!(error.contains(why), "{error}");
    }
    let file = Scratch::new("quiet", &unrecorded("basic"));
    let (ended, _) = cluster
        .record(&["--settle-limit=500ms", file.path()], pending())
        .await;
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("must be shorter than --settle-limit"), "{error}");
    cluster.has_only(&before).await;
}
