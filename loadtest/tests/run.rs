//! `loadtest run` and `loadtest clean` as a user runs them, on small clusters.
#![allow(
    clippy::unwrap_used,
    reason = "clippy does not see that helpers of a test are tests"
)]

use std::{
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Output, Stdio},
};

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::{Api, Client, ResourceExt, api::ListParams};
use loadtest::report::model::Report;
use memory_apiserver::{Config, Failure, Fault, FaultPlan, Handle, Rule, Verb};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

fn loadtest(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadtest"));
    // Where a controller that fails leaves its log.
    command
        .args(args)
        .stdin(Stdio::null())
        .env("TMPDIR", env!("CARGO_TARGET_TMPDIR"));
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("run-{}-{name}", std::process::id()))
}

/// Runs a profile on the server in memory, sees that it ends verified, and reads its report.
fn verified(profile: &str, flags: &[&str]) -> Report {
    let dir = scratch(&profile.replace(['/', '.'], "-"));
    let output = loadtest(&["run", profile, "--seed=7"])
        .args(flags)
        .arg("--report")
        .arg(&dir)
        .output()
        .unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{profile}: {out}{err}");
    let report: Report = serde_json::from_slice(&std::fs::read(dir.join("report.json")).unwrap()).unwrap();
    std::fs::remove_dir_all(dir).unwrap();
    assert!(
        report.verdict.verified && report.verdict.problems.is_empty(),
        "{out}"
    );
    assert_eq!(report.changes.failed, 0, "{out}");
    let seen = [&report.slices, &report.endpoints];
    assert_eq!(seen.map(|latency| latency.never_seen), [0, 0], "{out}");
    let controller = &report.processes[0];
    assert!(
        controller.cold_cpu_seconds > 0.0 && controller.rss_bytes > 0,
        "{out}"
    );
    assert!(controller.peak_rss_bytes >= controller.rss_bytes, "{out}");
    assert!(report.converge_seconds.unwrap() > 0.0, "{out}");
    report
}

#[test]
fn steady_flips_are_all_seen_in_slices_and_endpoints() {
    let report = verified(
        "steady",
        &["--pods=300", "--namespaces=3", "--rate=100", "--duration=2s"],
    );
    assert_eq!(report.changes.made, 200);
    assert_eq!(report.parameters["pods"], "300");
    assert_eq!(report.phases[0].changes, 200);
    for latency in [&report.slices, &report.endpoints] {
        assert_eq!(latency.count + latency.overtaken, 200, "{latency:?}");
        assert!(latency.count > 150 && latency.p50 > 0, "{latency:?}");
        assert!(latency.p50 <= latency.p90 && latency.p99 <= latency.p999 && latency.p999 <= latency.max);
        let sampled: u64 = latency.over_time.iter().map(|sample| sample.count).sum();
        assert_eq!(sampled, latency.count);
    }
    assert_eq!(report.generator_lag.count, 200);
    let writes = &report.writes;
    assert!(
        writes.slices.updated >= 100 && writes.endpoints.updated >= 100,
        "{writes:?}"
    );
    assert!(writes.slices.bytes > 0 && writes.per_change > 0.9, "{writes:?}");
    let counted: u64 = report.changes.over_time.iter().map(|count| count.count).sum();
    assert_eq!(counted, 200);
}

#[test]
fn rolling_update() {
    let report = verified(
        "rolling-update",
        &["--pods=200", "--namespaces=2", "--share=0.5", "--rate=100"],
    );
    // One of two Services: each of its pods is made, starts, ends, stops being ready, and is gone.
    assert!(
        report.changes.made > 400 && report.changes.made <= 500,
        "{}",
        report.changes.made
    );
    assert!(report.slices.count >= 200, "{:?}", report.slices);
}

#[test]
fn node_loss() {
    let report = verified(
        "node-loss",
        &[
            "--pods=200",
            "--namespaces=2",
            "--nodes=8",
            "--lost-nodes=2",
            "--outage=200ms",
        ],
    );
    // About fifty pods stop being ready, are deleted, made anew and started.
    assert!(report.changes.made > 100, "{}", report.changes.made);
}

#[test]
fn scale() {
    let report = verified("scale", &["--pods=200", "--namespaces=2", "--rate=200"]);
    // Made and started; then ending, not ready, and gone.
    assert_eq!(report.changes.made, 200 * 5);
}

#[test]
fn flap() {
    let report = verified(
        "flap",
        &[
            "--pods=100",
            "--namespaces=1",
            "--flapping=3",
            "--rate=60",
            "--duration=2s",
        ],
    );
    assert!(report.changes.made > 100, "{}", report.changes.made);
}

#[test]
fn restart() {
    let report = verified(
        "restart",
        &[
            "--pods=200",
            "--namespaces=2",
            "--rate=50",
            "--duration=2500ms",
            "--every=1s",
        ],
    );
    let signals: Vec<&str> = report
        .restarts
        .iter()
        .map(|restart| restart.signal.as_str())
        .collect();
    assert_eq!(signals, ["SIGKILL", "SIGTERM"]);
    for restart in &report.restarts {
        assert!(restart.without_writer_seconds > 0.0, "{restart:?}");
    }
}

#[test]
fn huge_service() {
    let report = verified("huge-service", &["--pods=1200", "--rate=40", "--duration=1s"]);
    assert_eq!(report.changes.made, 40);
    // Each flip shows in a Service that has a cluster IP, and in a headless one.
    assert_eq!(report.slices.count + report.slices.overtaken, 80);
    assert_eq!(
        report.endpoints.count, 0,
        "Endpoints show no more than 1,000 addresses"
    );
    assert!(
        report
            .verdict
            .warnings
            .iter()
            .any(|warning| warning.contains("1,000 addresses"))
    );
}

#[test]
fn many_services() {
    let report = verified(
        "many-services",
        &["--pods=50", "--services=40", "--rate=5", "--duration=1s"],
    );
    assert_eq!(report.changes.made, 5);
    assert_eq!(report.slices.count + report.slices.overtaken, 5 * 40);
}

#[test]
fn service_churn() {
    let report = verified(
        "service-churn",
        &[
            "--pods=100",
            "--namespaces=2",
            "--services=20",
            "--rate=60",
            "--duration=2s",
        ],
    );
    assert!(report.changes.made >= 120, "{}", report.changes.made);
    assert!(
        report.writes.endpoints.created > 0 && report.writes.endpoints.deleted > 0,
        "{:?}",
        report.writes
    );
}

#[test]
fn mix() {
    let report = verified(
        "mix",
        &["--pods=600", "--namespaces=2", "--rate=80", "--duration=2s"],
    );
    assert!(report.changes.made >= 160, "{}", report.changes.made);
}

#[test]
fn a_file_combines_phases() {
    let path = scratch("phases.yaml");
    std::fs::write(
        &path,
        "name: two\npods: 100\nnamespaces: 2\nservices: 4\nphases:\n\
         - { profile: steady, rate: 50, duration: 1s }\n- { profile: node-loss, outage: 100ms }\n",
    )
    .unwrap();
    let report = verified(path.to_str().unwrap(), &[]);
    let names: Vec<&str> = report.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(
        (report.profile.as_str(), names),
        ("two", vec!["steady", "node-loss"])
    );
    assert!(report.phases[0].to <= report.phases[1].from);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn one_sort_of_outputs_can_be_measured_alone() {
    let report = verified(
        "steady",
        &[
            "--pods=60",
            "--namespaces=1",
            "--rate=50",
            "--duration=1s",
            "--outputs=slices",
        ],
    );
    assert!(report.slices.count > 0);
    assert_eq!((report.endpoints.count, report.writes.endpoints.created), (0, 0));
}

/// A command that fails, whose standard error says why.
fn assert_refused(args: &[&str], expected: &str) {
    let output = loadtest(args).output().unwrap();
    let err = text(&output.stderr);
    assert!(!output.status.success(), "{args:?}");
    let line = err
        .lines()
        .find(|line| line.starts_with("error: "))
        .unwrap_or_else(|| panic!("{args:?}: {err}"));
    assert!(line.contains(expected), "{args:?}: {err}");
}

#[test]
fn bad_input_is_refused_before_anything_is_started() {
    let missing = scratch("missing.yaml");
    let missing = missing.to_str().unwrap();
    let (steady, own) = (["run", "steady"], std::process::id().to_string());
    let cases: [(&[&str], &str); 12] = [
        (
            &["run", "stedy"],
            "invalid value 'stedy' for '<PROFILE>': expected steady, ",
        ),
        (&["run", missing], "reading "),
        (&[steady[0], steady[1], "--rate=0"], "0 is not in 1..=20000"),
        (&[steady[0], steady[1], "--pods=0"], "0 is not in 1..=200000"),
        (&[steady[0], steady[1], "--duration=5"], "expected a time such as"),
        (
            &[steady[0], steady[1], "--surge=0.5"],
            "--surge means nothing to steady",
        ),
        (
            &[steady[0], steady[1], "--namespaces=5", "--services=2"],
            "too few for 5 namespaces",
        ),
        (
            &[steady[0], steady[1], "--run=Not_A_Name"],
            "invalid value 'Not_A_Name'",
        ),
        (
            &[steady[0], steady[1], "--spawn", "--pid", &own],
            "cannot be used with",
        ),
        (&[steady[0], steady[1], "--kubeconfig", missing], "reading "),
        (&["run", "restart", "--kubeconfig", missing], "give --spawn"),
        (&["clean", "--kubeconfig", missing], "reading "),
    ];
    for (args, expected) in cases {
        assert_refused(args, expected);
    }
}

/// A server of a test's own, with something on it that no run made, and a kubeconfig for it.
struct Cluster {
    handle: Handle,
    client: Client,
    kubeconfig: PathBuf,
    runtime: tokio::runtime::Runtime,
}

impl Cluster {
    fn start(name: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        let handle = runtime
            .block_on(memory_apiserver::start(Config::default()))
            .unwrap();
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
            .block_on(api.create(&Default::default(), &namespace))
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
        use k8s_openapi::api::{
            core::v1::{Endpoints, Service},
            discovery::v1::EndpointSlice,
        };
        vec![
            self.names::<Namespace>(),
            self.names::<Node>(),
            self.names::<Pod>(),
            self.names::<Service>(),
            self.names::<Endpoints>(),
            self.names::<EndpointSlice>(),
        ]
    }

    fn loadtest(&self, args: &[&str]) -> Command {
        let mut command = loadtest(args);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        command
    }

    fn output(&self, args: &[&str]) -> Output {
        self.loadtest(args).output().unwrap()
    }

    fn set_faults(&self, plan: FaultPlan) {
        let server = self.handle.server();
        self.runtime.block_on(async { server.set_faults(plan) });
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // It is in the way of nobody if it stays.
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
    let output = cluster.output(&SMALL);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(
        err.contains("error: loadtest-small-02 is there already, and not this run's"),
        "{err}"
    );
    assert_eq!(cluster.objects(), before);

    let output = cluster.output(&["clean"]);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
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
fn a_server_that_refuses_pods_is_left_as_it_was() {
    let cluster = Cluster::start("refused");
    let before = cluster.objects();
    cluster.set_faults(
        FaultPlan::new(1).rule(Rule::on(Verb::Create, "pods").fault(Fault::before(Failure::Forbidden))),
    );
    let output = cluster.output(&SMALL);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
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
    let output = cluster.output(&SMALL);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
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

    // Nobody is asked who is not at a terminal, and nothing is sent to a server that is not on loopback.
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

/// Reads what a run says until it churns.
fn until_it_churns(run: &mut Child) -> BufReader<ChildStderr> {
    let mut progress = BufReader::new(run.stderr.take().unwrap());
    let mut lines = progress.by_ref().lines().map(Result::unwrap);
    lines
        .find(|line| line.starts_with("converge") && line.contains(" endpoints in "))
        .expect("it converges");
    progress
}

#[test]
fn ctrl_c_cleans_up() {
    let cluster = Cluster::start("interrupted");
    let before = cluster.objects();
    let mut run = cluster
        .loadtest(&[
            "run",
            "steady",
            "--spawn",
            "--pods=60",
            "--namespaces=2",
            "--duration=1h",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut rest = until_it_churns(&mut run);
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
    let mut run = cluster
        .loadtest(&[
            "run",
            "steady",
            "--spawn",
            "--pods=60",
            "--namespaces=2",
            "--duration=1h",
            "--run=twice",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut rest = until_it_churns(&mut run);
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
        err.contains("loadtest clean --kubeconfig") && err.contains("--run twice"),
        "{err}"
    );
}
