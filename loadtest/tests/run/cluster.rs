//! Runs on a cluster that was there before.

use super::{loadtest, scratch, text};
use k8s_openapi::api::core::v1::{Endpoints, Namespace, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use memory_apiserver::{Config, Failure, Fault, FaultPlan, Handle, Rule, Verb};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

/// A server of a test's own, with something on it that no run made, and a kubeconfig for it.
pub(super) struct Cluster {
    handle: Handle,
    client: Client,
    kubeconfig: PathBuf,
    runtime: tokio::runtime::Runtime,
}

impl Cluster {
    pub(super) fn start(name: &str) -> Self {
        Self::start_with(name, Config::default())
    }

    pub(super) fn start_with(name: &str, config: Config) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        let handle = runtime.block_on(memory_apiserver::start(config)).unwrap();
        let kubeconfig = scratch(&format!("{name}.kubeconfig"));
        std::fs::write(&kubeconfig, handle.kubeconfig()).unwrap();
        let client = runtime.block_on(async { Client::new(handle.server().service(), "default") });
        let cluster = Self {
            handle,
            client,
            kubeconfig,
            runtime,
        };
        cluster.create_namespace("production", None);
        cluster
    }

    fn create_namespace(&self, name: &str, run: Option<&str>) {
        let labels = run.map(|run| json!({ "endpointd.io/loadtest": run }));
        let namespace = json!({ "metadata": { "name": name, "labels": labels } });
        let namespace: Namespace = serde_json::from_value(namespace).unwrap();
        let api: Api<Namespace> = Api::all(self.client.clone());
        self.runtime
            .block_on(api.create(&PostParams::default(), &namespace))
            .unwrap();
    }

    fn names<K>(&self) -> Vec<String>
    where
        K: kube::Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let list = self.runtime.block_on(api.list(&ListParams::default())).unwrap();
        let mut names: Vec<String> = list.items.iter().map(ResourceExt::name_any).collect();
        names.sort();
        names
    }

    /// Everything that a run could leave behind, by name.
    fn objects(&self) -> Vec<Vec<String>> {
        vec![
            self.names::<Namespace>(),
            self.names::<Node>(),
            self.names::<Pod>(),
            self.names::<Service>(),
            self.names::<Endpoints>(),
            self.names::<EndpointSlice>(),
        ]
    }

    pub(super) fn loadtest(&self, args: &[&str]) -> Command {
        let mut command = loadtest(args);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        command
    }

    fn output(&self, args: &[&str]) -> Output {
        self.loadtest(args).output().unwrap()
    }

    /// Runs a command that fails, and returns what it says.
    fn failure(&self, args: &[&str]) -> String {
        let output = self.output(args);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{err}");
        err
    }

    pub(super) fn set_faults(&self, plan: FaultPlan) {
        let server = self.handle.server();
        self.runtime.block_on(async { server.set_faults(plan) });
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // It does no harm if it stays.
        let _ = std::fs::remove_file(&self.kubeconfig);
    }
}

const SMALL: [&str; 8] = [
    "run",
    "steady",
    "--spawn",
    "--pods=60",
    "--namespaces=2",
    "--rate=50",
    "--duration=1s",
    "--run=small",
];

#[test]
fn a_run_on_a_cluster_leaves_nothing_behind() {
    let cluster = Cluster::start("leaves-nothing");
    let before = cluster.objects();
    let output = cluster.output(&SMALL);
    let err = text(&output.stderr);
    assert!(output.status.success(), "{}{err}", text(&output.stdout));
    assert!(err.contains("cleaned up: 2 namespaces, 3 nodes"), "{err}");
    assert_eq!(cluster.objects(), before);
    assert!(before[0].contains(&"production".to_owned()));
}

#[test]
fn foreign_namespaces_are_refused_and_not_touched() {
    let cluster = Cluster::start("foreign");
    cluster.create_namespace("loadtest-small-02", None);
    cluster.create_namespace("labelled", Some("small"));
    let before = cluster.objects();
    let err = cluster.failure(&SMALL);
    assert!(
        err.contains("error: loadtest-small-02 is there already, and not this run's"),
        "{err}"
    );
    assert_eq!(cluster.objects(), before);

    let err = cluster.failure(&["clean"]);
    assert!(
        err.contains("error: not touched, because no run makes objects of such names: labelled"),
        "{err}"
    );
    assert_eq!(cluster.objects(), before);
}

#[test]
fn clean_takes_away_one_run_or_all() {
    let cluster = Cluster::start("clean");
    let before = cluster.objects();
    for run in ["one", "two", "three"] {
        cluster.create_namespace(&format!("loadtest-{run}-01"), Some(run));
    }
    let output = cluster.output(&["clean", "--run=two"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "deleted 1 namespaces and 0 nodes\n");
    assert!(cluster.objects()[0].contains(&"loadtest-one-01".to_owned()));
    assert!(cluster.output(&["clean"]).status.success());
    assert_eq!(cluster.objects(), before);
}

#[test]
fn clean_says_where_nobody_removes_namespaces() {
    let cluster = Cluster::start_with("unattended", Config::default().gc(false));
    cluster.create_namespace("loadtest-one-01", Some("one"));
    cluster.create_namespace("loadtest-one-02", Some("one"));
    for _ in 0..2 {
        let output = cluster.output(&["clean"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let out = text(&output.stdout);
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines.len(), 2, "{out}");
        assert_eq!(lines[0], "deleted 0 namespaces and 0 nodes");
        assert!(
            lines[1].starts_with("2 empty namespaces stay Terminating: "),
            "{out}"
        );
    }
}

#[test]
fn a_server_that_refuses_pods_is_left_as_it_was() {
    let cluster = Cluster::start("refused");
    let before = cluster.objects();
    cluster.set_faults(
        FaultPlan::new(1).rule(Rule::on(Verb::Create, "pods").fault(Fault::before(Failure::Forbidden))),
    );
    let err = cluster.failure(&SMALL);
    let errors: Vec<&str> = err.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{err}");
    assert!(
        errors[0].contains("POST /api/v1/namespaces/loadtest-small-0"),
        "{err}"
    );
    assert_eq!(cluster.objects(), before);
}

#[test]
fn what_cannot_be_taken_away_is_named_with_the_command_that_does() {
    let cluster = Cluster::start("stuck");
    let before = cluster.objects();
    let refuse = |verb| Rule::on(verb, "*").fault(Fault::before(Failure::Forbidden));
    let plan =
        FaultPlan::new(1).rule(Rule::on(Verb::Create, "pods").fault(Fault::before(Failure::Forbidden)));
    cluster.set_faults(
        plan.rule(refuse(Verb::Delete))
            .rule(refuse(Verb::DeleteCollection)),
    );
    let err = cluster.failure(&SMALL);
    let command = format!(
        "loadtest clean --kubeconfig {} --run small",
        cluster.kubeconfig.display()
    );
    assert!(err.contains(&command), "{err}");
    cluster
        .runtime
        .block_on(async { cluster.handle.server().clear_faults() });
    assert!(cluster.output(&["clean", "--run", "small"]).status.success());
    assert_eq!(cluster.objects(), before);
}

#[test]
fn a_server_that_is_not_there_is_one_line() {
    let cluster = Cluster::start("gone");
    let kubeconfig = scratch("gone-for-good.kubeconfig");
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    std::fs::write(
        &kubeconfig,
        cluster
            .handle
            .kubeconfig()
            .replace(&cluster.handle.addr().to_string(), &closed.to_string()),
    )
    .unwrap();
    let output = loadtest(&SMALL)
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .output()
        .unwrap();
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.starts_with("error: asking http://127.0.0.1:"), "{err}");

    // Without a terminal the user is not asked, and nothing is sent to a server that is not on loopback.
    let elsewhere = cluster.handle.kubeconfig().replace("127.0.0.1", "192.0.2.1");
    std::fs::write(&kubeconfig, elsewhere).unwrap();
    let output = loadtest(&SMALL)
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .output()
        .unwrap();
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(
        err.contains("is not on loopback") && err.contains("give --yes"),
        "{err}"
    );
    std::fs::remove_file(kubeconfig).unwrap();
}

/// Starts a long run and reads what it says until it churns.
fn until_it_churns(cluster: &Cluster) -> (Child, BufReader<ChildStderr>) {
    let args = "run steady --spawn --pods=60 --namespaces=2 --duration=1h --run=long";
    let mut run = cluster
        .loadtest(&args.split(' ').collect::<Vec<_>>())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut progress = BufReader::new(run.stderr.take().unwrap());
    let mut lines = progress.by_ref().lines().map(Result::unwrap);
    lines
        .find(|line| line.starts_with("converge") && line.contains(" endpoints in "))
        .expect("it converges");
    (run, progress)
}

#[test]
fn ctrl_c_cleans_up() {
    let cluster = Cluster::start("interrupted");
    let before = cluster.objects();
    let (mut run, mut rest) = until_it_churns(&cluster);
    assert_ne!(cluster.objects(), before);
    kill_process(Pid::from_raw(run.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    let mut err = String::new();
    rest.read_to_string(&mut err).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130), "{err}");
    assert!(
        err.contains("cleaning up; Ctrl-C once more leaves it undone"),
        "{err}"
    );
    assert!(err.contains("cleaned up: 2 namespaces"), "{err}");
    assert_eq!(cluster.objects(), before);
}

#[test]
fn a_second_ctrl_c_gives_up_and_says_what_to_do() {
    let cluster = Cluster::start("interrupted-twice");
    let (mut run, mut rest) = until_it_churns(&cluster);
    // Deleting hangs, so that there is time for a second one.
    let hang = Rule::on(Verb::DeleteCollection, "*").fault(Fault::before(Failure::Hang));
    cluster.set_faults(FaultPlan::new(1).rule(hang));
    let pid = Pid::from_raw(run.id().cast_signed()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let mut line = String::new();
    while !line.contains("cleaning up") {
        line.clear();
        assert!(rest.read_line(&mut line).unwrap() > 0, "it cleans up");
    }
    kill_process(pid, Signal::INT).unwrap();
    let mut err = String::new();
    rest.read_to_string(&mut err).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130), "{err}");
    assert!(
        err.contains("loadtest clean --kubeconfig") && err.contains("--run long"),
        "{err}"
    );
}
