//! Lines of the log that an operator looks for: who leads, and why writes are late.

use crate::cluster::{self, Api};
use crate::objects::{node, pod, service};
use crate::process::Process;
use memory_apiserver::Config;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Waits until the log has a line with all of these. Returns it.
async fn line(process: &Process, parts: &[&str]) -> String {
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
        assert!(waited < Duration::from_secs(40), "no line with {parts:?}\n{log}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Changes the Lease as another process would.
async fn change(api: &Api, spec: &Value) {
    let patch = json!({"spec": spec});
    api.patch("Lease", "kube-system", "endpointd", None, &patch)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_standby_logs_who_holds_the_lease_once_for_each_holder() {
    let (handle, api) = cluster::serve(Config::default()).await;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "endpointd", "namespace": "kube-system"},
        "spec": {
            "holderIdentity": "first",
            "leaseDurationSeconds": 3600,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    });
    api.create(&lease, "kube-system").await.unwrap();
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
