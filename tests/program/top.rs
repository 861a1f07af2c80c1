//! `endpointd top` beside a running controller, and what the log of a standby says of the leader.

use crate::cluster::{self, Api};
use crate::command::endpointd;
use crate::process::Process;
use memory_apiserver::Config;
use serde_json::json;
use std::net::TcpListener;
use std::time::Duration;
use tokio::time::{sleep, timeout};

const LIMIT: Duration = Duration::from_secs(60);

/// A port that was free a moment ago.
fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

async fn logged(process: &Process, line: &str) {
    let waiting = async {
        while !process.log().contains(line) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    let found = timeout(LIMIT, waiting).await;
    assert!(found.is_ok(), "{line:?} is not logged\n{}", process.log());
}

/// Creates Services, each of which gets an empty slice, until it is dropped.
async fn keep_creating(api: Api) {
    for number in 0.. {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s{number}")},
            "spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]},
        });
        api.create(&service, "default").await.unwrap();
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_leader_is_shown_with_its_writes_and_a_standby_says_for_whom_it_stands_by() {
    let (handle, api) = cluster::serve(Config::default()).await;
    let ports = [port(), port()];
    let start = |port: u16| {
        let port = format!("--admin-port={port}");
        Process::start(&["run", "--leader-elect=true", &port, "--server", &handle.url()])
    };
    let mut leader = start(ports[0]);
    logged(&leader, "this process holds the lease").await;
    let mut standby = start(ports[1]);
    logged(&standby, "another process holds the lease; this one stands by").await;
    let work = tokio::spawn(keep_creating(api));
    let url = |port| format!("--metrics-url=http://127.0.0.1:{port}");
    let once = ["top", "--once", "--interval=2s", "--server", &handle.url()];

    let shown = endpointd(&[&once[..], &[&url(ports[0])]].concat()).await;
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert_eq!(shown.stderr, "");
    let text = &shown.stdout;
    for words in [
        "Process    the leader",
        "holds kube-system/endpointd",
        "requests in flight",
        "Services out of sync",
        "endpointslice: p50 ",
        "Last event endpoints ",
        "default/s",
    ] {
        assert!(text.contains(words), "{words:?} is not shown\n{text}");
    }
    let rate = |name: &str| {
        let (_, rest) = text.split_once(name).unwrap();
        rest.split_whitespace().next().unwrap().parse::<f64>().unwrap()
    };
    assert!(rate("Requests/s create ") > 0.0, "{text}");

    let shown = endpointd(&[&once[..], &[&url(ports[1])]].concat()).await;
    assert!(shown.stdout.contains("Process    a standby"), "{shown:?}");
    work.abort();
    // The standby says so once, and again when the holder is another one.
    let lines = |log: &str| log.matches("another process holds the lease").count();
    assert_eq!(lines(&standby.log()), 1, "{}", standby.log());
    leader.terminate().await;
    logged(&standby, "this process holds the lease").await;
    let third = start(port());
    logged(&third, "another process holds the lease").await;
    standby.terminate().await;
}

#[tokio::test]
async fn a_controller_that_is_not_there_and_a_pipe_are_said_in_words() {
    let (handle, _api) = cluster::serve(Config::default()).await;
    let nobody = format!("--metrics-url=http://127.0.0.1:{}", port());
    let shown = endpointd(&[
        "top",
        "--once",
        "--interval=500ms",
        "--server",
        &handle.url(),
        &nobody,
    ])
    .await;
    assert_eq!(shown.code, Some(2), "{shown:?}");
    assert!(shown.stdout.contains("Metrics    not read for "), "{shown:?}");
    assert!(
        shown.stdout.contains("kube-system/endpointd does not exist"),
        "{shown:?}"
    );

    let dead = format!("http://127.0.0.1:{}", port());
    let shown = endpointd(&["top", "--once", "--interval=500ms", "--server", &dead, &nobody]).await;
    assert_eq!(shown.code, Some(2), "{shown:?}");
    // The Lease and the slices each; and what of the metrics is most often missing.
    let named = format!("; the API server is {dead}");
    assert_eq!(shown.stdout.matches(&named).count(), 2, "{shown:?}");
    assert!(shown.stdout.contains("port-forward POD 10270"), "{shown:?}");

    let piped = endpointd(&["top", "--server", &handle.url()]).await;
    assert!(piped.refused().contains("--once"), "{piped:?}");
    let bad = endpointd(&["top", "--metrics-url=localhost:1"]).await;
    assert!(bad.refused().starts_with("--metrics-url "), "{bad:?}");
    let short = endpointd(&["top", "--interval=1ms"]).await;
    assert!(short.refused().contains("500ms"), "{short:?}");
}
