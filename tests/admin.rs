//! The admin server, over TCP: what it says of a controller in this process, and what hostile clients can do to it.

#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

#[path = "support/cluster.rs"]
#[allow(dead_code)] // Other tests use more of it.
mod cluster;
#[path = "support/gate.rs"]
#[allow(dead_code)] // Other tests use more of it.
mod gate;
#[path = "support/http.rs"]
mod http_client;

#[path = "admin/limits.rs"]
mod limits;
#[path = "admin/tls.rs"]
mod tls;

use endpointd::ops::admin::{Admin, HealthHandle, Limits};
use endpointd::ops::run::{Renewing, RunMode, run_observed};
use gate::Gate;
use http::Method;
use http_client::{Answer, get, request};
use kube::Client;
use memory_apiserver::{ApiServer, Config};
use serde_json::json;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// An admin server on a free port.
async fn serve(limits: Limits) -> (SocketAddr, HealthHandle) {
    let admin = Admin::bind("127.0.0.1:0".parse().unwrap())
        .await
        .unwrap()
        .with_limits(limits);
    let (address, health) = (admin.address().unwrap(), HealthHandle::default());
    tokio::spawn(admin.serve(health.clone()));
    (address, health)
}

fn run(gate: &Gate, health: &HealthHandle, elected: bool) {
    let client = || Client::new(gate.clone(), "default");
    let clients = cluster::clients(client);
    let mode = if elected {
        let candidacy = cluster::candidacy("me");
        RunMode::Candidate(Renewing::Here(client()), Box::new(candidacy))
    } else {
        RunMode::Alone
    };
    let health = health.clone();
    tokio::spawn(async move {
        run_observed(
            clients,
            cluster::options(4),
            mode,
            &health,
            std::future::pending(),
        )
        .await
        .unwrap();
    });
}

/// Asks until the answer is this.
async fn until(address: SocketAddr, target: &str, code: u16, says: &str) -> Answer {
    let start = Instant::now();
    loop {
        let answer = get(address, target).await.unwrap();
        if answer.code == code && answer.body.contains(says) {
            return answer;
        }
        let waited = Instant::now().saturating_duration_since(start);
        assert!(waited < Duration::from_secs(20), "{target}: {answer:?}");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn an_unspecified_address_is_answered_on_in_both_families() {
    for unspecified in ["0.0.0.0:0", "[::]:0"] {
        let admin = Admin::bind(unspecified.parse().unwrap()).await.unwrap();
        let port = admin.address().unwrap().port();
        let serving = tokio::spawn(admin.serve(HealthHandle::default()));
        for host in ["127.0.0.1", "::1"] {
            let address = SocketAddr::new(host.parse().unwrap(), port);
            // A machine may have no IPv6.
            if TcpListener::bind((address.ip(), 0)).is_ok() {
                let answer = get(address, "/livez").await.expect(host);
                assert_eq!(answer.code, 200, "{unspecified} {host}");
            }
        }
        serving.abort();
    }
}

#[tokio::test]
async fn the_controller_is_ready_when_every_list_has_been_applied() {
    let server = ApiServer::new(Config::default());
    let gate = Gate::new(&server);
    let (address, health) = serve(Limits::default()).await;
    // Alive, but not ready before it has begun.
    assert_eq!(get(address, "/livez").await.unwrap().code, 200);
    let answer = get(address, "/readyz").await.unwrap();
    assert_eq!(
        (answer.code, &*answer.body),
        (500, "[-]start failed: reason withheld\nreadyz check failed\n")
    );

    for kind in ["pods", "endpointslices"] {
        gate.hold(kind);
    }
    run(&gate, &health, false);
    let answer = until(address, "/readyz?verbose", 500, "[+]services ok\n").await;
    assert!(
        answer.body.contains("[-]pods failed: reason withheld\n"),
        "{answer:?}"
    );
    let inputs = until(address, "/readyz?exclude=pods", 500, "[+]nodes ok\n").await;
    assert!(inputs.body.contains("[+]pods excluded: ok\n"), "{inputs:?}");
    gate.open("pods");
    let answer = until(address, "/readyz", 500, "[+]endpoints ok\n").await;
    assert_eq!(
        answer.body,
        "[+]nodes ok\n[+]pods ok\n[+]services ok\n[-]endpointslices failed: reason withheld\n[+]endpoints ok\n\
         [-]mirrored-endpointslices failed: reason withheld\nreadyz check failed\n"
    );
    gate.open("endpointslices");
    assert_eq!(until(address, "/readyz", 200, "").await.body, "ok");

    let answer = get(address, "/livez?verbose").await.unwrap();
    assert_eq!(
        (answer.code, &*answer.body),
        (
            200,
            "[+]watchdog ok\n[+]root ok\n[+]writer ok\n[+]shards ok\nlivez check passed\n"
        )
    );
    let answer = get(address, "/healthz?verbose").await.unwrap();
    assert_eq!(
        answer.body,
        "[+]endpoints-controller ok\n[+]endpointslice-controller ok\n[+]endpointslice-mirroring-controller ok\n\
         healthz check passed\n"
    );
}

#[tokio::test]
async fn a_standby_is_ready_without_slices_and_endpoints() {
    let server = ApiServer::new(Config::default());
    let gate = Gate::new(&server);
    // Another process holds the lease, and does not renew it.
    let now = "2026-01-01T00:00:00.000000Z";
    let lease = json!({
        "metadata": {"name": "endpointd"},
        "spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 8, "renewTime": now, "acquireTime": now},
    });
    let api = cluster::Api(cluster::client(&server));
    let body = Some(("application/json", &lease));
    api.call(Method::POST, LEASES, body).await.unwrap();
    let (address, health) = serve(Limits::default()).await;
    run(&gate, &health, true);
    let answer = until(address, "/readyz?verbose", 200, "passed").await;
    assert_eq!(
        answer.body,
        "[+]nodes ok\n[+]pods ok\n[+]services ok\nreadyz check passed\n"
    );
    let answer = get(address, "/healthz?verbose").await.unwrap();
    assert_eq!(
        answer.body,
        "[+]leaderElection ok\n[+]endpoints-controller ok\n[+]endpointslice-controller ok\n\
         [+]endpointslice-mirroring-controller ok\nhealthz check passed\n"
    );
    // When it leads it is ready with those too.
    until(address, "/readyz?verbose", 200, "[+]endpointslices ok\n").await;
}

#[tokio::test]
async fn only_what_is_served_is_answered() {
    let (address, _) = serve(Limits::default()).await;
    for (method, target, code) in [
        ("GET", "/", 404),
        ("GET", "/livez/", 404),
        ("GET", "/debug/pprof", 404),
        ("GET", "/../metrics", 404),
        ("POST", "/livez", 405),
        ("DELETE", "/metrics", 405),
        ("GET", "/metrics", 200),
        ("HEAD", "/livez", 200),
    ] {
        let answer = request(address, &format!("{method} {target} HTTP/1.1\r\n"))
            .await
            .unwrap();
        assert_eq!(answer.code, code, "{method} {target}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
    let answer = get(address, "/metrics").await.unwrap();
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let answer = request(address, "HEAD /livez HTTP/1.1\r\n").await.unwrap();
    assert_eq!(
        (answer.body.as_str(), answer.header("content-length")),
        ("", Some("2"))
    );
}
