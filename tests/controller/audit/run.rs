//! The command: what it prints, and how it exits.

use super::reads::all_but;
use crate::cluster::{controller, options};
use crate::command::{access, endpointd, kubeconfig, serve, until_in_sync};
use crate::world::{node, pod, service};
use memory_apiserver::{Failure, Fault, FaultPlan, Rule, Verb};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::sleep;

#[tokio::test]
async fn audit_exits_with_0_in_sync_and_1_if_not() {
    let (handle, api) = serve().await;
    api.create(&node("n1", Some("z1"), None), "").await.unwrap();
    api.create(&pod("p1", "10.1.0.1", "n1"), "default").await.unwrap();
    api.create(&service(), "default").await.unwrap();
    let url = handle.url();
    let look = async |more: &[&str]| {
        let args = [&["audit", "--server", &url, "--settle", "100ms"], more].concat();
        endpointd(&args).await
    };

    let ended = look(&[]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.stdout.contains("default/s") && ended.stdout.contains("10.1.0.1 (pod p1) is missing"),
        "{ended:?}"
    );
    assert!(
        ended
            .stdout
            .ends_with("1 Service in 1 namespace checked: 1 out of sync\n"),
        "{ended:?}"
    );
    let ended = look(&["-o", "json", "--namespace=default"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let json: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        (&json["inSync"], &json["findings"][0]["service"]),
        (&json!(false), &json!("s"))
    );

    let running = controller(handle.server(), options(100));
    let mut ended = look(&[]).await;
    for _ in 0..50 {
        if ended.code == Some(0) {
            break;
        }
        sleep(Duration::from_millis(100)).await;
        ended = look(&[]).await;
    }
    running.abort();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.stdout, "1 Service in 1 namespace checked: 0 out of sync\n");
    assert_eq!(ended.stderr, "");
    let elsewhere = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}});
    api.create(&elsewhere, "").await.unwrap();
    let ended = look(&["-n", "elsewhere"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended
            .stderr
            .contains("no Service with a selector in namespace elsewhere"),
        "{ended:?}"
    );
    // The flags that say how objects should be count here too.
    let ended = look(&["--controllers=endpoint"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[tokio::test]
async fn services_that_annotations_decide_are_said_to_be_left_out_if_they_are() {
    let (handle, api) = serve().await;
    let mut annotated = service();
    annotated["spec"]["selector"] = json!(null);
    annotated["metadata"]["annotations"] = json!({"endpointd.io/selector": "app in (a, b)"});
    api.create(&annotated, "default").await.unwrap();
    let url = handle.url();
    let look = async |controllers: &str| {
        let ended = endpointd(&["audit", "--server", &url, "--settle=0s", controllers]).await;
        ended.stdout.contains(
            "1 Service with the annotation endpointd.io/selector is left out: what its slices should hold is checked if --controllers names custom-selector-controller",
        )
    };
    assert!(look("--controllers=*").await);
    assert!(!look("--controllers=*,custom-selector-controller").await);
}

#[tokio::test]
async fn slices_that_nobody_cares_for_any_more_are_named() {
    let (handle, api) = serve().await;
    let mut annotated = service();
    annotated["spec"]["selector"] = json!(null);
    annotated["metadata"]["annotations"] = json!({"endpointd.io/selector": "app in (a, b)"});
    api.create(&annotated, "default").await.unwrap();
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "s-abcde",
            "labels": {
                "kubernetes.io/service-name": "s",
                "endpointslice.kubernetes.io/managed-by": "endpointd.io",
            },
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.0.1"]}],
    });
    api.create(&slice, "default").await.unwrap();
    let url = handle.url();
    let look = async || {
        let ended = endpointd(&["audit", "--server", &url, "--settle=0s"]).await;
        ended.stdout.contains(
            "1 slice labelled endpointd.io belongs to no Service that opts in by an annotation: default/s-abcde; traffic goes",
        )
    };
    assert!(!look().await, "the Service is annotated");
    let selector = json!({"spec": {"selector": {"app": "a"}}});
    api.patch("Service", "default", "s", None, &selector)
        .await
        .unwrap();
    assert!(look().await);
}

#[tokio::test]
async fn a_namespace_that_does_not_exist_is_an_error_unless_nobody_may_tell() {
    let (handle, api) = serve().await;
    api.create(&service(), "default").await.unwrap();
    let url = handle.url();
    let ended = endpointd(&["audit", "--server", &url, "-n", "nowhere"]).await;
    assert_eq!(ended.refused(), "there is no namespace nowhere");
    let ended = endpointd(&["explain", "nowhere/s", "--server", &url]).await;
    assert_eq!(ended.refused(), "there is no namespace nowhere");
    // With -A, the namespace does not count.
    let ended = endpointd(&["audit", "--server", &url, "-A", "-n", "nowhere", "--settle=0s"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");

    handle.server().set_access(Some(all_but("namespaces")));
    let path = kubeconfig("namespaces", &url);
    let ended = endpointd(&["audit", "--kubeconfig", path.to_str().unwrap(), "-n", "nowhere"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(
        ended.stdout,
        "0 Services in 0 namespaces checked: 0 out of sync\n"
    );
    let ended = endpointd(&["explain", "nowhere/s", "--kubeconfig", path.to_str().unwrap()]).await;
    assert!(
        ended.refused().starts_with("there is no Service nowhere/s"),
        "{ended:?}"
    );
    std::fs::remove_file(path).unwrap();
}

#[tokio::test]
async fn audit_exits_with_2_and_one_line_if_it_cannot_tell() {
    let (handle, api) = serve().await;
    api.create(&service(), "default").await.unwrap();
    let url = handle.url();

    // No server listens there.
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let nobody = format!("http://{free}");
    let ended = endpointd(&["audit", "--server", &nobody]).await;
    assert!(
        ended.refused().starts_with("cannot list nodes: ") && ended.refused().contains("refused"),
        "{ended:?}"
    );
    assert!(
        ended
            .refused()
            .ends_with(&format!("; the API server is {nobody}")),
        "{ended:?}"
    );

    // A server listens that is no API server.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await;
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 13\r\nconnection: close\r\n\r\n<html></html>";
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    let ended = endpointd(&["audit", "--server", &other]).await;
    assert!(
        ended
            .refused()
            .starts_with("cannot list nodes: malformed answer: "),
        "{ended:?}"
    );
    server.abort();

    handle.server().set_access(Some(all_but("endpointslices")));
    let path = std::env::temp_dir().join(format!("endpointd-audit-{}.kubeconfig", std::process::id()));
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "nobody",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "token"}}],
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}]});
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    let path = path.to_str().unwrap();
    let ended = endpointd(&["audit", "--kubeconfig", path, "--context=one"]).await;
    let said = ended.refused();
    assert!(
        said.starts_with("cannot list endpointslices in all namespaces: forbidden: "),
        "{said}"
    );
    assert!(said.contains("system:serviceaccount:default:looker"), "{said}");
    // The kubeconfig's own current context is none.
    let ended = endpointd(&["audit", "--kubeconfig", path]).await;
    assert_eq!(
        ended.refused(),
        format!("kubeconfig {path}, current-context: there is no context of that name")
    );
    // One that is asked for is named.
    let ended = endpointd(&["audit", "--kubeconfig", path, "--context=somebody"]).await;
    assert!(
        ended.refused().ends_with(": there is no context somebody"),
        "{ended:?}"
    );
    std::fs::remove_file(path).unwrap();

    for (args, says) in [
        (&["audit"][..], "not a pod"),
        (&["audit", "--output=xml"], "json"),
        (&["audit", "--settle=-1s"], "--settle"),
        (&["audit", "--controllers=deployment"], "endpointslice-controller"),
        (&["audit", "--leader-elect"], "--leader-elect"),
    ] {
        let ended = endpointd(args).await;
        assert!(ended.refused().contains(says), "{args:?}: {ended:?}");
    }
}

/// An audit that may not read something that it was asked for called everything in sync, with the exit code of one that could not
/// tell. What is out of sync goes first.
#[tokio::test]
async fn what_may_not_be_read_is_neither_in_sync_nor_out_of_sync() {
    let (handle, api) = serve().await;
    api.create(&node("n1", Some("z1"), None), "").await.unwrap();
    api.create(&pod("p1", "10.1.0.1", "n1"), "default").await.unwrap();
    api.create(&service(), "default").await.unwrap();
    let url = handle.url();
    let running = controller(handle.server(), options(100));
    until_in_sync(&url).await;
    running.abort();
    let path = kubeconfig("unjudged", &url);
    let audit = async |resources: &str, more: &[&str]| {
        handle.server().set_access(Some(access(resources)));
        let kubeconfig = path.to_str().unwrap();
        let common = ["audit", "--kubeconfig", kubeconfig, "--settle=0s"];
        let ended = endpointd(&[&common[..], more].concat()).await;
        let json = endpointd(&[&common[..], more, &["-o=json"]].concat()).await;
        assert_eq!(ended.code, json.code, "{json:?}");
        (ended, serde_json::from_str::<Value>(&json.stdout).unwrap())
    };
    let all = "namespaces, pods, services, nodes, endpoints, endpointslices";
    for (without, more, says) in [(
        "endpoints",
        &[][..],
        "Endpoints, and slices that mirror them, are left out: cannot list endpoints in all namespaces: forbidden",
    )] {
        let (ended, json) = audit(all, more).await;
        let known = (&json["unjudged"], &json["inSync"]);
        assert_eq!(
            (ended.code, known),
            (Some(0), (&json!(false), &json!(true))),
            "{ended:?}"
        );
        let rest: Vec<_> = all.split(", ").filter(|resource| *resource != without).collect();
        let (ended, json) = audit(&rest.join(", "), more).await;
        let unknown = (&json["unjudged"], &json["inSync"]);
        assert_eq!(
            (ended.code, unknown),
            (Some(2), (&json!(true), &Value::Null)),
            "{ended:?}"
        );
        assert!(ended.stdout.contains(says), "{ended:?}");
        let last = ended.stdout.trim_end().lines().last().unwrap();
        assert!(
            last.contains(" checked: 0 out of sync") && last.ends_with("; some could not be judged"),
            "{last}"
        );
    }
    let mut late = service();
    late["metadata"]["name"] = json!("late");
    handle.server().set_access(None);
    // Actors of the controller above may live on for a while.
    let fails = Rule::on(Verb::Create, "endpointslices").fault(Fault::before(Failure::Internal));
    handle.server().set_faults(FaultPlan::new(1).rule(fails));
    api.create(&late, "default").await.unwrap();
    let (ended, json) = audit("pods, services, nodes, endpointslices", &[]).await;
    assert_eq!(
        (ended.code, &json["unjudged"], &json["inSync"]),
        (Some(1), &json!(true), &json!(false)),
        "{ended:?}"
    );
    std::fs::remove_file(path).unwrap();
}

/// Endpoints that the controller did not delete failed no audit any more, not even where nothing else writes Endpoints.
#[tokio::test]
async fn what_is_left_over_fails_an_audit_that_is_told_to() {
    let (handle, api) = serve().await;
    let left = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "left",
        "labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}}});
    api.create(&left, "default").await.unwrap();
    let url = handle.url();
    let audit =
        async |more: &[&str]| endpointd(&[&["audit", "--server", &url, "--settle=0s"], more].concat()).await;
    for (more, code) in [
        (&[][..], 0),
        (&["--left-over=report"], 0),
        (&["--left-over=fail"], 1),
    ] {
        let ended = audit(more).await;
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.stdout.ends_with("; 1 object left over\n"), "{ended:?}");
    }
    api.delete("Endpoints", "default", "left", None).await.unwrap();
    let ended = audit(&["--left-over=fail"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
}
