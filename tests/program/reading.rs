//! The read-only commands, for some of the Services, and with the rights of another account.

use crate::command::{endpointd, serve};
use crate::objects::{node, pod, service_with};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::timeout;

/// A server with two Services of team `a`, and one of team `b`. Nothing is published for any of them.
async fn teams() -> (memory_apiserver::Handle, crate::cluster::Api) {
    let (handle, api) = serve().await;
    api.create(&node("n1", None, None), "").await.unwrap();
    api.create(&pod("p", "10.1.0.1", "n1"), "default").await.unwrap();
    for (name, team) in [("one", "a"), ("two", "a"), ("three", "b")] {
        let labels = json!({"metadata": {"name": name, "labels": {"team": team}}});
        api.create(&service_with(&labels), "default").await.unwrap();
    }
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": [],
        "metadata": {"name": "gone-abcde", "labels": {
            "kubernetes.io/service-name": "gone",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        }},
    });
    api.create(&slice, "default").await.unwrap();
    (handle, api)
}

#[tokio::test]
async fn an_audit_checks_the_services_with_the_labels_alone() {
    let (handle, _) = teams().await;
    let url = handle.url();
    let audit =
        async |labels: &str| endpointd(&["audit", "--server", &url, "--settle=0s", "-l", labels]).await;
    let found = audit("team=a").await;
    assert_eq!(found.code, Some(1), "{found:?}");
    assert!(
        found.stdout.contains("default/one") && found.stdout.contains("default/two"),
        "{found:?}"
    );
    assert!(
        !found.stdout.contains("three") && !found.stdout.contains("gone"),
        "{found:?}"
    );
    assert!(
        found
            .stdout
            .contains("2 Services in 1 namespace checked: 2 out of sync"),
        "{found:?}"
    );
    let none = audit("team in (c, d)").await;
    assert_eq!(none.code, Some(0), "{none:?}");
    assert!(
        none.stderr
            .contains("there is no Service with a selector that has the labels team in (c,d)"),
        "{none:?}"
    );
    let all = audit("").await;
    assert!(
        all.stdout.contains("3 Services in 1 namespace checked"),
        "{all:?}"
    );
    let refused = audit("team in a").await;
    assert!(refused.refused().contains("column 9"), "{refused:?}");
}

#[tokio::test]
async fn each_service_with_the_labels_is_explained() {
    let (handle, _) = teams().await;
    let url = handle.url();
    let explain = async |rest: &[&str]| {
        let args = [
            &["explain", "--server", &url, "--settle=0s", "-n", "default"],
            rest,
        ]
        .concat();
        endpointd(&args).await
    };
    let found = explain(&["-l", "team=a"]).await;
    assert_eq!(found.code, Some(1), "{found:?}");
    assert!(
        found.stdout.contains("default/one") && found.stdout.contains("default/two"),
        "{found:?}"
    );
    assert!(!found.stdout.contains("three"), "{found:?}");
    let found = explain(&["-l", "team=b", "-o", "json"]).await;
    let listed: serde_json::Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed[0]["service"], "three");
    let none = explain(&["-l", "team=c"]).await;
    assert_eq!(
        none.refused(),
        "there is no Service that has the labels team=c in namespace default"
    );
    explain(&["one", "-l", "team=a"]).await.refused();
    explain(&[]).await.refused();
}

/// The head of the first request that a command sends.
async fn head_of(args: &[&str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("--server=http://{}", listener.local_addr().unwrap());
    let args: Vec<&str> = args.iter().copied().chain([&*server]).collect();
    let answer = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut head).await.unwrap(), 0);
        }
        stream
            .write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
            .await
            .unwrap();
        String::from_utf8(head).unwrap().to_lowercase()
    };
    let (head, _) = timeout(Duration::from_secs(60), async {
        tokio::join!(answer, endpointd(&args))
    })
    .await
    .unwrap();
    head
}

#[tokio::test]
async fn requests_are_made_as_the_account_that_is_named() {
    let account = "--as=system:serviceaccount:shop:reader";
    let head = head_of(&["explain", "shop/web", account, "--as-group=one", "--as-group=two"]).await;
    for line in [
        "impersonate-user: system:serviceaccount:shop:reader\r\n",
        "impersonate-group: one\r\n",
        "impersonate-group: two\r\n",
    ] {
        assert!(head.contains(line), "{head}");
    }
    let head = head_of(&["audit", account]).await;
    assert!(
        head.contains("impersonate-user") && !head.contains("impersonate-group"),
        "{head}"
    );
    assert!(!head_of(&["audit"]).await.contains("impersonate"));
    let refused = endpointd(&["audit", "--as-group=one"]).await;
    assert!(refused.refused().contains("--as <USER>"), "{refused:?}");
}
