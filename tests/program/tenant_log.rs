//! The log of the real binary, while owners of namespaces do what they can to fill it.

use crate::cluster::{self, Api};
use crate::process::Process;
use memory_apiserver::{Config, Failure, Fault, FaultPlan, Handle, Rule, Stage, Verbs};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

fn service(name: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "annotations": annotations},
        "spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]},
    })
}

async fn namespace(api: &Api, name: &str) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    api.create(&namespace, "").await.unwrap();
}

/// How many lines and Events about the loud namespace the log says to have left out.
fn left_out(log: &str) -> usize {
    let left_out = log.lines().filter_map(|line| {
        let (_, rest) = line.split_once("namespace=loud left_out=")?;
        rest.split_whitespace().next()?.parse::<usize>().ok()
    });
    left_out.sum()
}

/// A namespace of 200 Services, and one that is empty yet.
async fn loud_and_quiet() -> (Handle, Api) {
    let (handle, api) = cluster::serve(Config::default().request_log(100_000)).await;
    for name in ["loud", "quiet"] {
        namespace(&api, name).await;
    }
    for number in 0..200 {
        api.create(&service(&format!("s{number}"), &json!({})), "loud")
            .await
            .unwrap();
    }
    (handle, api)
}

#[tokio::test]
async fn a_namespace_whose_writes_are_refused_does_not_bury_the_lines_about_others() {
    let (handle, api) = loud_and_quiet().await;
    let mut plan = FaultPlan::new(1);
    for name in ["loud", "quiet"] {
        plan = plan.rule(
            Rule::on(Verbs::WRITES, ["endpoints", "endpointslices"])
                .namespace(name)
                .fault(Fault::Fail(Stage::Before, Failure::Invalid)),
        );
    }
    handle.server().set_faults(plan);
    let mut process = Process::start(&["run", "--server", &handle.url()]);
    sleep(Duration::from_secs(3)).await;
    api.create(&service("late", &json!({})), "quiet").await.unwrap();
    sleep(Duration::from_secs(2)).await;
    let log = process.terminate().await;

    let refused = |namespace: &str| {
        let of = |line: &&str| line.contains("refused a request") && line.contains(namespace);
        log.lines().filter(of).count()
    };
    assert!((1..=20).contains(&refused("namespace=loud ")), "{log}");
    assert!(refused("namespace=quiet ") >= 1, "{log}");
    // The log says at the end at the latest how many lines were left out, Events among them.
    let logged = refused("namespace=loud ") + left_out(&log);
    let asked = handle.server().requests().into_iter().filter(|request| {
        let write = request.method != "GET" && request.path.contains("endpoint");
        write && request.path.contains("/namespaces/loud/")
    });
    assert!(logged >= asked.count(), "{log}");
}

#[tokio::test]
async fn a_namespace_that_is_out_of_sync_does_not_bury_a_dry_runs_lines_about_others() {
    let (handle, api) = loud_and_quiet().await;
    let mut process = Process::start(&[
        "run",
        "--server",
        &handle.url(),
        "--dry-run",
        "--dry-run-patience=1s",
    ]);
    sleep(Duration::from_secs(3)).await;
    api.create(&service("late", &json!({})), "quiet").await.unwrap();
    sleep(Duration::from_secs(3)).await;
    let log = process.terminate().await;
    let lines = |namespace: &str| {
        let of = |line: &&str| line.contains("dry run: out of sync") && line.contains(namespace);
        log.lines().filter(of).count()
    };
    assert!((1..=12).contains(&lines("namespace=loud ")), "{log}");
    assert_eq!(lines("namespace=quiet "), 1, "{log}");
    let why = "the empty IPv4 slice of a Service without endpoints is missing; there is no such object";
    assert!(log.contains(&format!("why={why:?}")), "{log}");
}

const ANNOTATION: &str = "service.alpha.kubernetes.io/tolerate-unready-endpoints";

#[tokio::test]
async fn an_annotation_is_logged_by_its_beginning_and_cannot_forge_a_line() {
    let (handle, api) = cluster::serve(Config::default()).await;
    namespace(&api, "forger").await;
    let value = format!(
        "no\n2026-01-01T00:00:00Z ERROR forged: {}\u{1b}[2J",
        "x".repeat(255 * 1024)
    );
    api.create(&service("s", &json!({ ANNOTATION: value })), "forger")
        .await
        .unwrap();
    let mut process = Process::start(&[
        "run",
        "--server",
        &handle.url(),
        "--legacy-tolerate-unready-annotation=true",
    ]);
    sleep(Duration::from_secs(2)).await;
    let log = process.terminate().await;
    let about: Vec<_> = log.lines().filter(|line| line.contains(ANNOTATION)).collect();
    assert_eq!(about.len(), 1, "{}", &log[..log.len().min(10_000)]);
    assert!(about[0].len() < 500, "{} bytes", about[0].len());
    assert!(
        about[0].contains(r"not a boolean: no\n2026-01-01") && about[0].contains("... (261"),
        "{}",
        about[0]
    );
    assert!(
        !log.lines().any(|line| line.starts_with("2026-01-01T00:00:00Z")),
        "{log}"
    );
}

/// After an incident, the log has to show who had opted in; and a tenant that has a hundred changes must not bury the lines
/// about others, nor forge any.
#[tokio::test]
async fn annotations_are_logged_and_cannot_flood_or_forge() {
    const CHANGES: u32 = 100;
    let (handle, api) = cluster::serve(Config::default()).await;
    let annotated = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "s", "annotations": {"endpointd.io/selector": "app=a"}},
        "spec": {"ports": [{"port": 80}]},
    });
    for name in ["loud", "quiet"] {
        namespace(&api, name).await;
        api.create(&annotated, name).await.unwrap();
    }
    let mut process = Process::start(&[
        "run",
        "--server",
        &handle.url(),
        "--controllers=custom-selector-controller",
    ]);
    sleep(Duration::from_secs(3)).await;
    let annotate = async |namespace: &str, annotations: Value| {
        let patch = json!({"metadata": {"annotations": annotations}});
        api.patch("Service", namespace, "s", None, &patch).await.unwrap();
        sleep(Duration::from_millis(20)).await;
    };
    for number in 0..CHANGES {
        let selector = format!("app in (a{number})");
        annotate("loud", json!({"endpointd.io/selector": selector})).await;
    }
    annotate(
        "quiet",
        json!({"endpointd.io/selector": "app in (a)\nERROR forged"}),
    )
    .await;
    annotate(
        "quiet",
        json!({"endpointd.io/selector": null, "endpointd.io/selecter": "app=a"}),
    )
    .await;
    sleep(Duration::from_secs(2)).await;
    let log = process.terminate().await;
    let about = |parts: &[&str]| {
        let is = |line: &&str| parts.iter().all(|part| line.contains(part));
        log.lines().filter(is).count()
    };
    assert!((1..=30).contains(&about(&["INFO", "namespace=loud "])), "{log}");
    for reason in ["OptedOut", "UnknownAnnotation"] {
        let reason = format!("reason=\"{reason}\"");
        assert_eq!(about(&["namespace=quiet ", &reason]), 1, "{log}");
    }
    assert!(!log.lines().any(|line| line.starts_with("ERROR forged")), "{log}");
    let left_out = left_out(&log);
    assert!(left_out >= 70, "{left_out} lines were left out\n{log}");
}
