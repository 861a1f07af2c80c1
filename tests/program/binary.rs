//! The real binary, as a process, against memory-apiserver on loopback.

use crate::cluster::{self, Api};
use crate::http_client;
use crate::objects::{node, pod, service};
use crate::process::Process;
use memory_apiserver::{Config, Handle};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::time::{Instant, sleep};

async fn server() -> (Handle, Api) {
    cluster::serve(Config::default().request_log(10_000)).await
}

fn ready_pod(number: u8) -> Value {
    pod(&format!("p{number}"), &format!("10.1.0.{number}"), "n1")
}

async fn fill(api: &Api) {
    api.create(&node("n1", None, None), "").await.unwrap();
    for number in 1..=3 {
        api.create(&ready_pod(number), "default").await.unwrap();
    }
    api.create(&service(), "default").await.unwrap();
}

/// Waits until the Service has this many endpoints.
async fn endpoints(api: &Api, count: usize) {
    let start = Instant::now();
    loop {
        let slices = api.slices_of("default", "s").await.unwrap();
        let found: usize = slices
            .iter()
            .map(|slice| slice["endpoints"].as_array().map_or(0, Vec::len))
            .sum();
        if found == count {
            return;
        }
        let waited = Instant::now().saturating_duration_since(start);
        assert!(
            waited < Duration::from_secs(20),
            "{found} endpoints instead of {count}"
        );
        sleep(Duration::from_millis(5)).await;
    }
}

fn writes(handle: &Handle) -> Vec<String> {
    let requests = handle.server().requests().into_iter();
    let writes = requests.filter(|r| r.path.contains("endpointslices") && !matches!(&*r.method, "GET"));
    writes.map(|r| format!("{} {}", r.method, r.path)).collect()
}

#[tokio::test]
async fn endpointd_runs_until_sigterm_and_a_restart_writes_nothing() {
    let (handle, api) = server().await;
    fill(&api).await;
    let url = handle.url();
    let mut first = Process::start(&["run", "--server", &url]);
    endpoints(&api, 3).await;
    api.delete("Pod", "default", "p3", Some(0)).await.unwrap();
    endpoints(&api, 2).await;
    first.signal("TERM");
    let (code, log) = first.end().await;
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("stopped"), "{log}");

    let before = writes(&handle);
    assert_eq!(before.len(), 2, "one create and one update: {before:?}");
    let second = Process::start(&["run", "--server", &url, "--log-format=json"]);
    // A change that it must write shows that it has taken over everything else.
    api.create(&ready_pod(4), "default").await.unwrap();
    endpoints(&api, 3).await;
    assert_eq!(
        writes(&handle).len(),
        3,
        "nothing but the change was written: {:?}",
        writes(&handle)
    );
    second.signal("INT");
}

#[tokio::test]
async fn a_kubeconfig_is_read() {
    let (handle, api) = server().await;
    fill(&api).await;
    let path = std::env::temp_dir().join(format!("endpointd-test-{}.kubeconfig", std::process::id()));
    std::fs::write(&path, handle.kubeconfig()).unwrap();
    let _process = Process::start(&["run", "--kubeconfig", path.to_str().unwrap()]);
    endpoints(&api, 3).await;
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn flags_without_an_effect_are_told_once() {
    let (handle, api) = server().await;
    fill(&api).await;
    let path = std::env::temp_dir().join(format!("endpointd-test-{}.elsewhere", std::process::id()));
    // The kubeconfig leads nowhere; --master leads to the server.
    let elsewhere = handle.kubeconfig().replace(&handle.url(), "http://127.0.0.1:1");
    assert!(elsewhere.contains("http://127.0.0.1:1"), "{elsewhere}");
    std::fs::write(&path, elsewhere).unwrap();
    let mut process = Process::start(&[
        "run",
        "--leader-elect=true",
        "--kube-api-content-type",
        "application/json",
        "--controllers=*,deployment",
        "--kubeconfig",
        path.to_str().unwrap(),
        "--master",
        &handle.url(),
    ]);
    endpoints(&api, 3).await;
    process.signal("TERM");
    let (code, log) = process.end().await;
    assert_eq!(code, Some(0), "{log}");
    for told in ["--kube-api-content-type", "deployment-controller"] {
        let warns = |line: &&str| line.contains("WARN") && line.contains(told);
        assert_eq!(log.lines().filter(warns).count(), 1, "{told}: {log}");
    }
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn metrics_are_served_on_the_admin_port() {
    let (handle, api) = server().await;
    fill(&api).await;
    // A port that was free a moment ago.
    let address = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let port = format!("--secure-port={}", address.port());
    let _process = Process::start(&["run", "--server", &handle.url(), &port]);
    endpoints(&api, 3).await;
    // The slice is seen here as soon as the server has it, which may be before its writer has the answer.
    let start = Instant::now();
    loop {
        let text = http_client::get(address, "/metrics").await.unwrap().body;
        if text.contains(r#"endpointd_requests_total{verb="create"} 2"#) {
            return;
        }
        let waited = Instant::now().saturating_duration_since(start);
        assert!(waited < Duration::from_secs(20), "{text}");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn bad_input_is_named_in_the_first_line_and_exits_2() {
    let missing = "/nonexistent/kubeconfig";
    let broken = std::env::temp_dir().join(format!("endpointd-test-{}.broken", std::process::id()));
    std::fs::write(&broken, "clusters: [").unwrap();
    let broken = broken.to_str().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken_port = listener.local_addr().unwrap().port().to_string();
    let taken = format!("--admin-port={taken_port}");
    for (args, says) in [
        (&["run", "--nonsense"][..], "--nonsense"),
        (
            &["run", "--max-endpoints-per-slice=0"],
            "--max-endpoints-per-slice",
        ),
        (&["run", "--max-endpoints-per-slice=1001"], "1001"),
        (&["run", "--log-level=a=b=c"], "--log-level"),
        (&["run", "--kubeconfig", missing], missing),
        (&["run", "--kubeconfig", broken], broken),
        (&["run", "--server", "127.0.0.1:80"], "http://"),
        (&["run", "--server=ftp://a"], "http://"),
        (
            &["run", "--controllers=-endpoint-controller,*"],
            "known controllers",
        ),
        (&["run", "--controllers=deployment"], "endpointslice-controller"),
        (&["run", "--leader-elect=maybe"], "--leader-elect"),
        (&["run", "--dry-run=maybe"], "--dry-run"),
        (&["run", "--dry-run-patience=-1s"], "must not be negative"),
        (
            &["run", "--leader-elect-renew-deadline=15s"],
            "the lease duration must be greater than the renew deadline",
        ),
        (
            &["run", "--leader-elect-resource-lock=endpoints"],
            "--leader-elect-resource-lock",
        ),
        (&["run", "--leader-elect-resource-name=a/b"], "a/b"),
        (&["run", "--cluster-cidr"], "--cluster-cidr"),
        (&["run", "-leader-elect"], "-l"),
        (
            &["run", "--endpointslice-updates-batch-period=-1s"],
            "must not be negative",
        ),
        (&["run", "--endpoint-updates-batch-period=1d"], "Go"),
        (&["run", "--legacy-tolerate-unready-annotation=yes"], "yes"),
        (
            &[
                "run",
                "--server=http://127.0.0.1:1",
                "--bind-address=192.0.2.1",
                "--admin-port=1",
            ],
            "192.0.2.1:1",
        ),
        (&["run", "--server=http://127.0.0.1:1", &taken], &*taken_port),
        (&["run", "--bind-address=localhost"], "--bind-address"),
        (&["run", "--tls-cert-file=a"], "--tls-private-key-file"),
        (
            &[
                "run",
                "--server=http://127.0.0.1:1",
                "--secure-port=10271",
                "--bind-address=127.0.0.1",
                "--tls-cert-file=/nonexistent/crt",
                "--tls-private-key-file=/nonexistent/key",
            ],
            "/nonexistent/crt",
        ),
        (&["run", "--metrics-address=127.0.0.1:1"], "--metrics-address"),
        (&["run"], "not a pod"),
        (&["walk"], "walk"),
    ] {
        let (code, stderr) = Process::start(args).end().await;
        assert_eq!(code, Some(2), "{args:?}: {stderr}");
        let first = stderr.lines().next().unwrap();
        assert!(
            first.starts_with("error: ") && stderr.contains(says),
            "{args:?}: {stderr}"
        );
    }
    std::fs::remove_file(broken).unwrap();
}

#[tokio::test]
async fn a_server_that_is_not_there_yet_is_waited_for() {
    let address = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let _process = Process::start(&["run", "--server", &format!("http://{address}")]);
    sleep(Duration::from_millis(300)).await;
    let (_handle, api) = cluster::serve(Config::default().port(address.port())).await;
    fill(&api).await;
    endpoints(&api, 3).await;
}

#[tokio::test]
async fn a_log_that_nobody_reads_any_more_ends_nothing() {
    let (handle, api) = server().await;
    let mut child = Command::new(env!("CARGO_BIN_EXE_endpointd"))
        .args([
            "run",
            "--admin-port=0",
            "--log-level=debug",
            "--server",
            &handle.url(),
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    assert_ne!(log.read_line(&mut String::new()).unwrap(), 0);
    drop(log);
    fill(&api).await;
    endpoints(&api, 3).await;
    let kill = format!("kill -TERM {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let ended = tokio::task::spawn_blocking(move || child.wait().unwrap())
        .await
        .unwrap();
    assert_eq!(ended.code(), Some(0));
}
