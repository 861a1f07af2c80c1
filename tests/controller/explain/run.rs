//! The command: what it prints, and how it exits.

use crate::cluster::{controller, options};
use crate::command::{access, endpointd, endpointd_at_home, kubeconfig, serve, until_in_sync};
use crate::world::{node, pod, service};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

#[tokio::test]
async fn explain_prints_text_colours_or_json() {
    let (handle, api) = serve().await;
    api.create(&node("n1", Some("z1"), None), "").await.unwrap();
    api.create(&pod("p1", "10.1.0.1", "n1"), "default").await.unwrap();
    api.create(&service(), "default").await.unwrap();
    let running = controller(handle.server(), options(100));
    let url = handle.url();
    let look =
        async |more: &[&str]| endpointd(&[&["explain", "default/s", "--server", &url], more].concat()).await;
    let mut ended = look(&[]).await;
    for _ in 0..50 {
        if ended.stdout.contains("in sync:") {
            break;
        }
        sleep(Duration::from_millis(100)).await;
        ended = look(&[]).await;
    }
    running.abort();
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    let slice = api.slices_of("default", "s").await.unwrap().remove(0)["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        ended.stdout,
        format!(
            "Service default/s  ClusterIP, IPv4\n\
             \u{20} selector  app=a\n\
             \u{20} ports     http 80 to 8080/TCP\n\
             \u{20} in sync: slices and Endpoints are what they should be\n\
             \n\
             1 pod matches: 1 ready\n\
             \u{20} ready  p1  10.1.0.1  in {slice}  n1 (z1)\n\
             \n\
             1 slice\n\
             \u{20} {slice}  IPv4  1 of 1 ready  http 8080/TCP\n\
             Endpoints: 1 ready, 0 not ready\n"
        )
    );
    let coloured = look(&["--color=always"]).await.stdout;
    assert!(coloured.contains("\u{1b}[32m"), "{coloured:?}");
    assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), ended.stdout);
    assert!(!look(&["--color=never"]).await.stdout.contains('\u{1b}'));
    let json: Value = serde_json::from_str(&look(&["-o", "json", "--color=always"]).await.stdout).unwrap();
    assert_eq!(
        (&json["inSync"], &json["pods"][0]["state"]),
        (&json!(true), &json!("ready"))
    );
    assert_eq!(json["pods"][0]["published"][0]["slice"], json!(slice));
}

#[tokio::test]
async fn an_object_that_cannot_be_explained_gets_one_line() {
    let (handle, api) = serve().await;
    api.create(&service(), "default").await.unwrap();
    let mut web = service();
    web["metadata"]["name"] = json!("web");
    api.create(&web, "default").await.unwrap();
    let left = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "left",
        "labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}}});
    api.create(&left, "default").await.unwrap();
    let empty = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "empty"}});
    api.create(&empty, "").await.unwrap();
    let url = handle.url();
    for (service, says) in [
        (
            "default/wbe",
            "there is no Service default/wbe; is default/web meant?",
        ),
        (
            "default/left",
            "there is no Service default/left; its Endpoints are left over, and are deleted when a controller starts",
        ),
        (
            "empty/s",
            "there is no Service empty/s; there is no Service at all in namespace empty",
        ),
        ("nowhere/s", "there is no namespace nowhere"),
        ("default/other", "there is no Service default/other"),
    ] {
        let ended = endpointd(&["explain", service, "--server", &url]).await;
        assert_eq!(ended.refused(), says);
    }
    for args in [
        &["explain"][..],
        &["explain", "s"],
        &["explain", "a/b/c"],
        &["explain", "a/s", "--color=x"],
    ] {
        endpointd(args).await.refused();
    }
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let ended = endpointd(&["explain", "default/s", "--server", &format!("http://{free}")]).await;
    assert!(
        ended.refused().starts_with("cannot get services default/s: "),
        "{ended:?}"
    );
}

#[tokio::test]
async fn nodes_and_endpoints_may_be_out_of_bounds_and_nothing_else() {
    let (handle, api) = serve().await;
    api.create(&pod("p1", "10.1.0.1", "n1"), "default").await.unwrap();
    api.create(&service(), "default").await.unwrap();
    let path = kubeconfig("explain", &handle.url());
    let path = path.to_str().unwrap();
    // Where kubectl finds it, a tool that users call finds it too.
    let home = std::env::temp_dir().join(format!("endpointd-explain-{}.home", std::process::id()));
    std::fs::create_dir_all(home.join(".kube")).unwrap();
    std::fs::copy(path, home.join(".kube/config")).unwrap();
    let look = async || endpointd_at_home(home.to_str().unwrap(), &["explain", "default/s"]).await;

    handle
        .server()
        .set_access(Some(access("services, pods, endpoints, endpointslices")));
    let ended = look().await;
    assert_eq!(
        ended.code,
        Some(2),
        "nothing can be said of its slices: {ended:?}"
    );
    assert!(
        ended.stdout.contains("cannot tell whether it is in sync"),
        "{ended:?}"
    );
    assert!(ended.stdout.contains("nodes could not be read"), "{ended:?}");
    assert!(
        ended.stdout.contains("cannot get nodes n1: forbidden"),
        "{ended:?}"
    );
    assert!(
        ended.stdout.contains("p1") && !ended.stdout.contains("does not exist"),
        "{ended:?}"
    );
    handle
        .server()
        .set_access(Some(access("services, nodes, endpoints, endpointslices")));
    assert!(
        look()
            .await
            .refused()
            .starts_with("cannot list pods in namespace default: forbidden: ")
    );
    handle
        .server()
        .set_access(Some(access("services, nodes, pods, endpoints")));
    assert!(
        look()
            .await
            .refused()
            .starts_with("cannot list endpointslices in namespace default: forbidden: ")
    );
    handle
        .server()
        .set_access(Some(access("services, nodes, pods, endpointslices")));
    let ended = look().await;
    assert_eq!(ended.code, Some(1), "its slice is missing: {ended:?}");
    assert!(
        ended.stdout.contains("OUT OF SYNC; the controller would\n"),
        "{ended:?}"
    );
    let note = "Endpoints could not be read, so nothing can be said about them: cannot get endpoints default/s: forbidden";
    assert_eq!(ended.stdout.matches(note).count(), 1, "{ended:?}");
    assert!(ended.stdout.contains("Endpoints: could not be read"), "{ended:?}");
    assert!(!ended.stdout.contains("create  endpoints"), "{ended:?}");
    handle.server().set_access(Some(access("nodes, pods, endpoints")));
    assert!(
        look()
            .await
            .refused()
            .starts_with("cannot get services default/s: forbidden: ")
    );
    let ended = endpointd(&["explain", "default/s"]).await;
    assert!(ended.refused().contains("not a pod"), "{ended:?}");
    std::fs::remove_file(path).unwrap();
    std::fs::remove_dir_all(home).unwrap();
}

/// `explain` took every annotation to count and every slice of an annotation that is gone to be left alone, whatever
/// `--controllers` said, and so came to another verdict than `audit`.
#[tokio::test]
async fn explain_and_audit_come_to_the_same_verdict() {
    let (handle, api) = serve().await;
    api.create(&node("n1", Some("z1"), None), "").await.unwrap();
    api.create(&pod("p1", "10.1.0.1", "n1"), "default").await.unwrap();
    let made = |name: &str, annotations: Value| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "annotations": annotations},
            "spec": {"ports": [{"port": 80}]}})
    };
    let annotated = made("annotated", json!({"endpointd.io/selector": "app=a"}));
    api.create(&annotated, "default").await.unwrap();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "left"}});
    api.create(&namespace, "").await.unwrap();
    let left = api.create(&made("left", json!({})), "left").await.unwrap();
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "left-abcde", "labels": {"kubernetes.io/service-name": "left",
            "endpointslice.kubernetes.io/managed-by": "endpointd.io"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "left", "uid": left["metadata"]["uid"],
                "controller": true, "blockOwnerDeletion": true}]},
        "endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": true}}], "ports": []});
    api.create(&slice, "left").await.unwrap();
    let url = handle.url();
    for (namespace, service, controllers, code, says) in [
        (
            "default",
            "annotated",
            "*",
            0,
            "the Service is left out: its endpointd.io/selector is heeded if --controllers",
        ),
        (
            "default",
            "annotated",
            "*,custom-selector-controller",
            1,
            "create  10.1.0.1 (pod p1) is missing",
        ),
        (
            "left",
            "left",
            "*",
            0,
            "of custom-selector-controller, which --controllers does not name: left alone",
        ),
        ("left", "left", "*,custom-selector-controller", 1, "delete"),
        ("left", "left", "custom-selector-controller", 1, "delete"),
    ] {
        let controllers = format!("--controllers={controllers}");
        let common = ["--server", &url, "--settle=0s", &controllers, "-n", namespace];
        let explained = endpointd(&[&["explain", service][..], &common].concat()).await;
        let audited = endpointd(&[&["audit"][..], &common].concat()).await;
        assert_eq!(
            (explained.code, audited.code),
            (Some(code), Some(code)),
            "{controllers}: {explained:?} {audited:?}"
        );
        assert!(explained.stdout.contains(says), "{explained:?}");
    }
    let left_out = &[
        "explain",
        "default/annotated",
        "--server",
        &url,
        "--controllers=*",
    ];
    let ended = endpointd(&[&left_out[..], &["-o=json"]].concat()).await;
    let json: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        (ended.code, &json["leftOut"], &json["inSync"]),
        (Some(0), &json!(true), &Value::Null),
        "{json}"
    );
    assert!(!endpointd(left_out).await.stdout.contains("in sync"));
    let audited = endpointd(&["audit", "--server", &url, "-o=json"]).await;
    let json: Value = serde_json::from_str(&audited.stdout).unwrap();
    assert_eq!(
        (&json["inSync"], &json["leftOut"]),
        (&json!(true), &json!(1)),
        "{json}"
    );
    // A Service without pods of its own is not one of those that were checked.
    let audited = endpointd(&[
        "audit",
        "--server",
        &url,
        "-n=left",
        "--controllers=custom-selector-controller",
    ])
    .await;
    let sum = "0 Services in 0 namespaces checked: 0 out of sync; 1 other Service out of sync";
    assert!(audited.stdout.contains(sum), "{audited:?}");
}

/// Plain `explain`, which the runbook and the guides call, said of each Service that opts in by an annotation that it is left out
/// and in sync: without its pods, or what is wrong with its selector.
#[tokio::test]
async fn without_controllers_an_annotated_service_is_explained_by_its_annotations() {
    let (handle, api) = serve().await;
    api.create(&node("n1", Some("z1"), None), "").await.unwrap();
    api.create(&pod("p1", "10.1.0.1", "n1"), "default").await.unwrap();
    for (name, annotations) in [
        ("annotated", json!({"endpointd.io/selector": "app=a"})),
        ("broken", json!({"endpointd.io/selector": "app in"})),
    ] {
        let made = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "annotations": annotations},
            "spec": {"ports": [{"port": 80}]}});
        api.create(&made, "default").await.unwrap();
    }
    let url = handle.url();
    let explain = async |service: &str, more: &[&str]| {
        let service = format!("default/{service}");
        endpointd(&[&["explain", &service, "--server", &url, "--settle=0s"], more].concat()).await
    };
    for (service, code, says) in [
        ("annotated", 1, "create  10.1.0.1 (pod p1) is missing"),
        (
            "broken",
            1,
            "the selector in the annotation endpointd.io/selector is not used: ",
        ),
    ] {
        let plain = explain(service, &[]).await;
        assert!(plain.stdout.contains(says), "{plain:?}");
        assert!(
            plain
                .stdout
                .contains(": custom-selector-controller does that, and is off unless --controllers"),
            "{plain:?}"
        );
        let json: Value = serde_json::from_str(&explain(service, &["-o=json"]).await.stdout).unwrap();
        assert_eq!(
            (plain.code, &json["managed"], &json["leftOut"], &json["inSync"]),
            (Some(code), &json!(true), &json!(false), &json!(false)),
            "{plain:?}"
        );
        let audited = endpointd(&["audit", "--server", &url, "--settle=0s"]).await;
        assert_eq!(audited.code, Some(0), "an audit goes by the flag: {audited:?}");
    }
}

/// With custom-selector-controller alone, `explain` called the live slices of a Service with a selector left over.
#[tokio::test]
async fn slices_of_a_service_with_a_selector_are_not_left_over_from_one() {
    let (handle, api) = serve().await;
    let made = api.create(&service(), "default").await.unwrap();
    let slice = |name: &str, manager: &str| {
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "s",
            "endpointslice.kubernetes.io/managed-by": manager},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "s", "uid": made["metadata"]["uid"],
                "controller": true, "blockOwnerDeletion": true}]},
        "endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": true}}], "ports": []})
    };
    for (name, manager) in [
        ("s-live", "endpointslice-controller.k8s.io"),
        ("s-mirror", "endpointslicemirroring-controller.k8s.io"),
        ("s-before", "endpointd.io"),
    ] {
        api.create(&slice(name, manager), "default").await.unwrap();
    }
    let explain = ["explain", "default/s", "--server", &handle.url(), "--settle=0s"];
    let ended = endpointd(&[&explain[..], &["--controllers=custom-selector-controller"]].concat()).await;
    let line = |name: &str| {
        let mut lines = ended.stdout.lines();
        lines.find(|line| line.trim_start().starts_with(name)).unwrap()
    };
    assert!(
        ended
            .stdout
            .contains("no controller that --controllers names publishes the pods of a selector"),
        "{ended:?}"
    );
    for (name, says) in [
        (
            "s-live",
            "of endpointslice-controller, which --controllers does not name: left alone",
        ),
        (
            "s-mirror",
            "from when the Service had no selector: goes when the slices for the selector are created",
        ),
        (
            "s-before",
            "from when the annotation selected its pods: goes when slices for the selector hold endpoints",
        ),
    ] {
        assert!(line(name).contains(says), "{ended:?}");
    }
}

/// For a Service that lost its selector and whose annotation no controller heeds, `explain` printed the command that
/// deletes the only slice that it has.
#[tokio::test]
async fn no_command_deletes_the_only_endpoints_of_a_service() {
    let (handle, api) = serve().await;
    api.create(&node("n1", Some("z1"), None), "").await.unwrap();
    api.create(&pod("p1", "10.1.0.1", "n1"), "default").await.unwrap();
    let lost = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "lost", "annotations": {"endpointd.io/selector": "app=a"}}, "spec": {"ports": [{"port": 80}]}});
    api.create(&lost, "default").await.unwrap();
    let slice = |name: &str, manager: &str| {
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "lost",
                "endpointslice.kubernetes.io/managed-by": manager}},
            "endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": true}}], "ports": []})
    };
    let builtin = slice("lost-abcde", "endpointslice-controller.k8s.io");
    api.create(&builtin, "default").await.unwrap();
    let url = handle.url();
    let explain = async |more: &[&str]| {
        let args = ["explain", "default/lost", "--server", &url, "--settle=0s"];
        endpointd(&[&args[..], more].concat()).await.stdout
    };
    for more in [&["--controllers=*"][..], &[]] {
        let said = explain(more).await;
        assert!(!said.contains("kubectl"), "{said}");
        assert!(
            said.contains(
                "1 slice of endpointslice-controller.k8s.io names this Service too; no slice of ours holds endpoints, so clients \
                 have no others than theirs"
            ),
            "{said}"
        );
    }
    api.create(&slice("lost-fghij", "endpointd.io"), "default")
        .await
        .unwrap();
    let said = explain(&[]).await;
    assert!(
        said.contains("if they are not wanted: kubectl -n default delete endpointslices"),
        "{said}"
    );
}

/// Where nodes or Endpoints may not be read, `explain` could not tell whether a Service is in sync of which nothing depends on them, and
/// `audit` could.
#[tokio::test]
async fn what_a_service_does_not_depend_on_may_be_out_of_bounds() {
    let (handle, api) = serve().await;
    api.create(&node("n1", Some("z1"), None), "").await.unwrap();
    api.create(&pod("p1", "10.1.0.1", "n1"), "default").await.unwrap();
    api.create(&service(), "default").await.unwrap();
    for (name, annotations) in [
        ("plain", json!({})),
        ("left-out", json!({"endpointd.io/selector": "app=b"})),
    ] {
        let made = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "annotations": annotations},
            "spec": {"ports": [{"port": 80}]}});
        api.create(&made, "default").await.unwrap();
    }
    let running = controller(handle.server(), options(100));
    let url = handle.url();
    until_in_sync(&url).await;
    running.abort();
    let path = kubeconfig("depends", &url);
    let look = async |command: &[&str], controllers: &str| {
        let common = ["--kubeconfig", path.to_str().unwrap(), "--settle=0s", controllers];
        endpointd(&[command, &common].concat()).await
    };

    handle
        .server()
        .set_access(Some(access("services, pods, endpoints, endpointslices")));
    let endpoints = "--controllers=endpoints-controller";
    let explained = look(&["explain", "default/s"], endpoints).await;
    assert_eq!(
        (explained.code, look(&["audit"], endpoints).await.code),
        (Some(0), Some(0)),
        "{explained:?}"
    );
    assert!(
        explained
            .stdout
            .contains("nodes could not be read, so nothing can be said about them: ")
            && explained
                .stdout
                .contains("in sync: Endpoints are what they should be"),
        "{explained:?}"
    );
    let slices = look(
        &["explain", "default/s"],
        "--controllers=endpointslice-controller",
    )
    .await;
    assert_eq!(slices.code, Some(2), "{slices:?}");

    handle
        .server()
        .set_access(Some(access("services, pods, nodes, endpointslices")));
    for service in ["default/plain", "default/left-out"] {
        for (controllers, code) in [
            ("endpoints-controller,endpointslice-controller", 0),
            // Its Endpoints may be mirrored, or may have been.
            ("*", 2),
        ] {
            let explained = look(&["explain", service], &format!("--controllers={controllers}")).await;
            assert_eq!(explained.code, Some(code), "{controllers}: {explained:?}");
            // Though no pods are published for it here.
            let says = explained
                .stdout
                .contains("cannot tell whether it is in sync: see above");
            assert_eq!(says, code == 2, "{controllers}: {explained:?}");
        }
    }
    std::fs::remove_file(path).unwrap();
}
