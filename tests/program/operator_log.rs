//! Lines of the log that an operator looks for: who leads, and why writes are late.

use crate::cluster::{self, Api};
use crate::objects::{node, pod, service};
use crate::process::Process;
use http::Method;
use memory_apiserver::{Config, Failure, Fault, FaultPlan, Rule, Verb};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Waits until the log has a line with all of these. Returns it.
async fn line(process: &Process, parts: &[&str]) -> String {
    line_within(Duration::from_secs(40), process, parts).await
}

async fn line_within(limit: Duration, process: &Process, parts: &[&str]) -> String {
    let start = Instant::now();
    loop {
        let log = process.log();
        let found = log
            .lines()
            .find(|line| parts.iter().all(|part| line.contains(part)));
        if let Some(found) = found {
            return found.to_owned();
        }
        let waited = Instant::now().saturating_duration_since(start);
        assert!(waited < limit, "no line with {parts:?}\n{log}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Starts a process that serves annotated Services, and waits until it has done something.
async fn serving_annotations(server: &str, is_done: impl AsyncFn() -> bool) -> Process {
    let process = Process::start(&[
        "run",
        "--server",
        server,
        "--leader-elect=false",
        "--controllers=custom-selector-controller",
    ]);
    let start = Instant::now();
    while !is_done().await {
        let waited = Instant::now().saturating_duration_since(start);
        assert!(waited < Duration::from_secs(40), "{}", process.log());
        sleep(Duration::from_millis(20)).await;
    }
    process
}

/// Changes the Lease as another process would.
async fn change(api: &Api, spec: &Value) {
    let patch = json!({"spec": spec});
    api.patch("Lease", "kube-system", "endpointd", None, &patch)
        .await
        .unwrap();
}

/// Another process takes the Lease, and is not heard of again.
async fn hold(api: &Api, seconds: u32) {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "endpointd", "namespace": "kube-system"},
        "spec": {
            "holderIdentity": "first",
            "leaseDurationSeconds": seconds,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    });
    api.create(&lease, "kube-system").await.unwrap();
}

/// A standby that takes over asks for the present resourceVersion of what would be long to list, and goes on watching.
#[tokio::test]
async fn a_version_that_cannot_be_read_at_first_is_an_outage_that_ends() {
    let (handle, api) = cluster::serve(Config::default()).await;
    api.create(&node("n1", None, None), "").await.unwrap();
    for number in 0..510 {
        let address = format!("10.1.{}.{}", number / 250, number % 250);
        let pod = pod(&format!("p{number}"), &address, "n1");
        api.create(&pod, "default").await.unwrap();
    }
    hold(&api, 10).await;
    let mut process = Process::start(&["run", "--server", &handle.url()]);
    line(&process, &["another process holds the lease"]).await;
    // The state has been listed by way of watches by then.
    sleep(Duration::from_secs(2)).await;
    let refused = Rule::on(Verb::List, "pods")
        .at_most(2)
        .fault(Fault::before(Failure::Internal));
    handle.server().set_faults(FaultPlan::new(1).rule(refused));
    line(&process, &["this process holds the lease"]).await;
    line(
        &process,
        &[" WARN ", "a request failed; it is retried", "resource=\"pods\""],
    )
    .await;
    // No object changes here, and the next bookmark of the watch is a minute away.
    let soon = Duration::from_secs(25);
    line_within(soon, &process, &["requests to the API server succeed again"]).await;
    let log = process.terminate().await;
    assert_eq!(log.matches("a request failed").count(), 1, "{log}");
}

#[tokio::test]
async fn a_standby_logs_who_holds_the_lease_once_for_each_holder() {
    let (handle, api) = cluster::serve(Config::default()).await;
    hold(&api, 3600).await;
    let mut process = Process::start(&["run", "--server", &handle.url()]);
    let text = "another process holds the lease";
    line(&process, &[text, "holder=\"first\""]).await;
    change(&api, &json!({"holderIdentity": "second"})).await;
    line(&process, &[text, "holder=\"second\""]).await;
    change(&api, &json!({"renewTime": "2026-01-01T00:00:05.000000Z"})).await;
    sleep(Duration::from_secs(3)).await;
    let log = process.terminate().await;
    assert_eq!(log.matches(text).count(), 2, "{log}");
}

#[tokio::test]
async fn writes_that_the_rate_limit_holds_back_for_long_are_logged_once_and_so_is_their_end() {
    let (handle, api) = cluster::serve(Config::default()).await;
    api.create(&node("n1", None, None), "").await.unwrap();
    for number in 0..12 {
        let namespace = format!("ns-{number}");
        let name = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        api.create(&name, "").await.unwrap();
        api.create(&pod("p", &format!("10.1.0.{number}"), "n1"), &namespace)
            .await
            .unwrap();
        api.create(&service(), &namespace).await.unwrap();
    }
    // 24 objects at two a second.
    let flags = ["--kube-api-qps=2", "--kube-api-burst=1", "--leader-elect=false"];
    let url = handle.url();
    let mut process = Process::start(&[&["run", "--server", &url][..], &flags].concat());
    let began = line(&process, &["WARN", "writes are held back", "--kube-api-qps"]).await;
    assert!(began.contains("seconds=10 "), "{began}");
    // The writer looks again when something happens.
    sleep(Duration::from_secs(6)).await;
    api.delete("Pod", "ns-0", "p", Some(0)).await.unwrap();
    line(&process, &["INFO", "writes are no longer held back"]).await;
    let log = process.terminate().await;
    assert_eq!(log.matches("writes are held back").count(), 1, "{log}");
    assert_eq!(log.matches("no longer held back").count(), 1, "{log}");
}

#[tokio::test]
async fn a_client_that_keeps_changing_an_object_is_named() {
    let (handle, api) = cluster::serve(Config::default().managed_fields(true)).await;
    api.create(&node("n1", None, None), "").await.unwrap();
    api.create(&pod("p", "10.1.0.1", "n1"), "default").await.unwrap();
    api.create(&service(), "default").await.unwrap();
    let mut process = Process::start(&["run", "--server", &handle.url(), "--leader-elect=false"]);
    let published = async || {
        let endpoints = api.get("Endpoints", "default", "s").await.unwrap();
        let slices = api.slices_of("default", "s").await.unwrap();
        slices.into_iter().next().filter(|_| endpoints.is_some())
    };
    let start = Instant::now();
    let slice = loop {
        if let Some(slice) = published().await {
            break slice;
        }
        let waited = Instant::now().saturating_duration_since(start);
        assert!(waited < Duration::from_secs(40), "{}", process.log());
        sleep(Duration::from_millis(20)).await;
    };
    let fields = slice["metadata"]["managedFields"][0].clone();
    assert_eq!(
        fields["manager"], "endpointd",
        "the User-Agent names this program"
    );
    let name = slice["metadata"]["name"].as_str().unwrap();
    let path = format!(
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/{name}?fieldManager=kubectl-edit"
    );
    for _ in 0..3 {
        let ports = json!({"ports": [{"name": "", "port": 81, "protocol": "TCP"}]});
        let patch = ("application/merge-patch+json", &ports);
        api.call(Method::PATCH, &path, Some(patch)).await.unwrap();
        let start = Instant::now();
        while published().await.unwrap()["ports"] != slice["ports"] {
            let waited = Instant::now().saturating_duration_since(start);
            assert!(waited < Duration::from_secs(40), "{}", process.log());
            sleep(Duration::from_millis(20)).await;
        }
    }
    let told = line(&process, &["WARN", "AnotherControllerWrites"]).await;
    for part in [
        "namespace=default",
        "kind=Service name=s",
        "kubectl-edit keeps changing",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let log = process.terminate().await;
    assert_eq!(log.matches("AnotherControllerWrites").count(), 1, "{log}");
}

#[tokio::test]
async fn the_line_that_says_that_the_process_has_stopped_is_the_last() {
    let (handle, api) = cluster::serve(Config::default()).await;
    let wrong = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "wrong", "annotations": {"endpointd.io/selector": "app in"}}, "spec": {"ports": [{"port": 80}]}});
    api.create(&wrong, "default").await.unwrap();
    let mut process = serving_annotations(&handle.url(), async || {
        !api.list("Event", "default").await.unwrap().is_empty()
    })
    .await;
    let log = process.terminate().await;
    let at = log.find("InvalidSelector");
    assert!(at.is_some_and(|at| at < log.find(" stopped").unwrap()), "{log}");
    assert!(
        log.trim_end().lines().last().unwrap().contains(" stopped"),
        "{log}"
    );
}
