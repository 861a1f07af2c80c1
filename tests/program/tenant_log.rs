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
    // The log says at the end at the latest how many lines were left out, and together they are all.
    let left_out = log.lines().filter_map(|line| {
        let (_, rest) = line.split_once("namespace=loud lines=")?;
        rest.split_whitespace().next()?.parse::<usize>().ok()
    });
    let logged = refused("namespace=loud ") + left_out.sum::<usize>();
    let asked = handle.server().requests().into_iter().filter(|request| {
        let write = request.method != "GET" && request.path.contains("endpoint");
        write && request.path.contains("/namespaces/loud/")
    });
    assert_eq!(logged, asked.count(), "{log}");
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
        about[0].contains(r"value=no\n2026-01-01") && about[0].contains("... (261"),
        "{}",
        about[0]
    );
    assert!(
        !log.lines().any(|line| line.starts_with("2026-01-01T00:00:00Z")),
        "{log}"
    );
}

fn lease(holder: &str, renewal: u32) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "db"},
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 60,
            "renewTime": format!("2026-01-01T00:00:00.{renewal:06}Z"),
        },
    })
}

/// After an incident, the log has to show which pod led when, and who had opted in; and a tenant that has a hundred
/// take-overs must not bury the lines about others.
#[tokio::test]
async fn takeovers_and_annotations_are_logged_and_cannot_flood_or_forge() {
    const TAKEOVERS: u32 = 100;
    let (handle, api) = cluster::serve(Config::default()).await;
    namespace(&api, "loud").await;
    namespace(&api, "quiet").await;
    api.create(&crate::objects::node("n1", None, None), "")
        .await
        .unwrap();
    let led = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "s", "annotations": {"endpointd.io/leader": "db"}},
        "spec": {"ports": [{"port": 80}]},
    });
    for name in ["loud", "quiet"] {
        for number in 0..2 {
            let pod = crate::objects::pod(&format!("db-{number}"), &format!("10.1.0.{}", number + 1), "n1");
            api.create(&pod, name).await.unwrap();
        }
        api.create(&lease("db-0_x", 1), name).await.unwrap();
        api.create(&led, name).await.unwrap();
    }
    let mut process = Process::start(&[
        "run",
        "--server",
        &handle.url(),
        "--controllers=custom-selector-controller",
    ]);
    sleep(Duration::from_secs(3)).await;
    let hold = async |namespace: &str, holder: &str, renewal| {
        let spec = json!({"spec": lease(holder, renewal)["spec"]});
        api.patch("Lease", namespace, "db", None, &spec).await.unwrap();
        sleep(Duration::from_millis(20)).await;
    };
    for number in 0..TAKEOVERS {
        hold("loud", &format!("db-{}_a\nERROR forged", number % 2), 10 + number).await;
    }
    hold("quiet", "db-0_x", 2).await;
    hold("quiet", "db-1_y", 3).await;
    let annotations =
        json!({"metadata": {"annotations": {"endpointd.io/leader": null, "endpointd.io/leeder": "db"}}});
    api.patch("Service", "quiet", "s", None, &annotations)
        .await
        .unwrap();
    sleep(Duration::from_secs(2)).await;
    let log = process.terminate().await;
    let about = |parts: &[&str]| {
        let is = |line: &&str| parts.iter().all(|part| line.contains(part));
        log.lines().filter(is).count()
    };
    let told = "pod is published as the holder of the Lease";
    assert!((1..=12).contains(&about(&[told, "namespace=loud "])), "{log}");
    assert_eq!(about(&["INFO", told, "namespace=quiet "]), 2, "{log}");
    assert_eq!(
        about(&[
            told,
            "namespace=quiet ",
            "lease=db identity=db-1_y from=\"db-0\" to=db-1"
        ]),
        1,
        "{log}"
    );
    assert_eq!(
        about(&["INFO", "namespace=quiet ", "reason=\"OptedOut\""]),
        1,
        "{log}"
    );
    assert_eq!(
        about(&["INFO", "namespace=quiet ", "reason=\"UnknownAnnotation\""]),
        1,
        "{log}"
    );
    assert!(!log.lines().any(|line| line.starts_with("ERROR forged")), "{log}");
    let left_out = log.lines().filter_map(|line| {
        let (_, rest) = line.split_once("namespace=loud lines=")?;
        rest.split_whitespace().next()?.parse::<usize>().ok()
    });
    let left_out: usize = left_out.sum();
    assert!(left_out + 12 >= 90, "{left_out} lines were left out\n{log}");
}

#[tokio::test]
async fn a_lease_that_is_released_and_held_again_is_logged() {
    let (handle, api) = cluster::serve(Config::default()).await;
    namespace(&api, "quiet").await;
    api.create(&crate::objects::node("n1", None, None), "")
        .await
        .unwrap();
    api.create(&crate::objects::pod("db-0", "10.1.0.1", "n1"), "quiet")
        .await
        .unwrap();
    api.create(&lease("db-0_x", 1), "quiet").await.unwrap();
    let led = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "s", "annotations": {"endpointd.io/leader": "db"}},
        "spec": {"ports": [{"port": 80}]},
    });
    api.create(&led, "quiet").await.unwrap();
    let mut process = Process::start(&[
        "run",
        "--server",
        &handle.url(),
        "--controllers=custom-selector-controller",
    ]);
    sleep(Duration::from_secs(3)).await;
    for (number, holder) in ["db-0_x", "", "db-0_x"].into_iter().enumerate() {
        let spec = json!({"spec": lease(holder, 2 + number as u32)["spec"]});
        api.patch("Lease", "quiet", "db", None, &spec).await.unwrap();
        sleep(Duration::from_millis(500)).await;
    }
    let log = process.terminate().await;
    let about = |text: &str, fields: &str| {
        let is =
            |line: &&str| line.contains(text) && line.contains("namespace=quiet ") && line.contains(fields);
        log.lines().filter(is).count()
    };
    for (text, fields) in [
        ("a pod is published as the holder of the Lease", "to=db-0"),
        (
            "no pod is published as the holder of the Lease any more",
            "from=db-0 why=the Lease has no holder",
        ),
        (
            "the same pod is published as the holder of the Lease again",
            "from=\"db-0\" to=db-0",
        ),
    ] {
        assert_eq!(about(&format!(" {text}"), fields), 1, "{text}\n{log}");
    }
}
