//! How an audit reads: in pages, whatever happens to them; and what it says when it may not.

use super::{look, report};
use crate::command::access;
use crate::gate::Fate;
use crate::world::{World, ip, node, pod, service, service_with};
use endpointd::cluster::read::{Cause, Reader};
use endpointd::core::namespace::Settings;
use endpointd::core::outputs::Outputs;
use endpointd::inspect::findings::Report;
use endpointd::ops::audit::{AuditError, Scope, audit};
use http::Method;
use kube::Client;
use memory_apiserver::{Access, ApiServer, Failure, Fault, FaultPlan, Rule, Stage, Verb};
use serde_json::json;
use std::time::Duration;

fn one(rule: Rule) -> FaultPlan {
    FaultPlan::new(1).rule(rule)
}

/// More pods than a page of a list holds.
async fn large() -> World {
    let mut world = World::new(100);
    world.make(node("n1", Some("z1"), None)).await;
    for i in 1..=1100 {
        world.make(pod(&format!("p{i}"), &ip(i), "n1")).await;
    }
    world.make(service()).await;
    world.start_up().await;
    world.stop().await;
    world
}

/// The kinds that were asked for since the last time.
fn asked(world: &World) -> Vec<String> {
    let sent = world.gate.take_all();
    sent.iter().map(|sent| sent.kind().to_owned()).collect()
}

fn pod_lists(world: &World) -> usize {
    asked(world).iter().filter(|kind| *kind == "pods").count()
}

#[tokio::test(start_paused = true)]
async fn lists_come_in_pages_and_again_when_they_expire() {
    let world = large().await;
    world.gate.take_all();
    assert!(report(&world).await.is_in_sync());
    assert_eq!(pod_lists(&world), 3, "three pages of 500");

    // The second page is too late; the list is then asked for in one piece.
    world.server.set_faults(one(Rule::on(Verb::List, "pods")
        .continued()
        .at_most(1)
        .fault(Fault::Compact)));
    world
        .patch("Pod", "p1", json!({"metadata": {"labels": {"x": "y"}}}))
        .await;
    assert!(report(&world).await.is_in_sync());
    assert_eq!(pod_lists(&world), 3, "a page, one that had expired, and all");
    assert_eq!(world.server.faults_injected().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_asked_again_but_not_for_ever() {
    let world = large().await;
    let busy = Fault::Fail(Stage::Before, Failure::Overloaded { retry_after: 1 });
    world.server.set_faults(one(Rule::on(Verb::List, "services")
        .at_most(2)
        .fault(busy.clone())));
    assert!(report(&world).await.is_in_sync());
    world
        .server
        .set_faults(one(Rule::on(Verb::List, "services").fault(busy)));
    let error = look(&world, Duration::ZERO).await.unwrap_err();
    let AuditError::Read(error) = error else {
        panic!("{error}")
    };
    assert!(matches!(error.cause, Cause::Status { code: 429, .. }), "{error}");
    assert!(
        error
            .to_string()
            .starts_with("cannot list services in all namespaces: "),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn one_namespace_and_one_controller_are_looked_at_alone() {
    let world = World::new(100);
    for namespace in ["a", "b", "c"] {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        world.api.create(&object, "").await.unwrap();
        if namespace == "c" {
            continue;
        }
        world
            .api
            .create(&service_with(&json!({})), namespace)
            .await
            .unwrap();
    }
    let seen = async |namespace: Option<&str>, outputs: Outputs| {
        let scope = Scope {
            labels: None,
            namespace: namespace.map(str::to_owned),
            settings: Settings {
                outputs,
                ..Settings::default()
            },
            settle: Duration::ZERO,
            problems: false,
        };
        let reader = Reader::new(Client::new(world.gate.clone(), "default"));
        let report = audit(&reader, &scope).await.unwrap();
        (report.counts.services, report.findings.len())
    };
    assert_eq!(seen(None, Outputs::ALL).await, (2, 4));
    assert_eq!(seen(Some("a"), Outputs::ALL).await, (1, 2));
    assert_eq!(seen(Some("c"), Outputs::ALL).await, (0, 0));
    world.gate.take_all();
    let slices = Outputs {
        endpoints: false,
        slices: true,
        mirrored: false,
        custom: false,
    };
    assert_eq!(seen(None, slices).await, (2, 2));
    let kinds = asked(&world);
    assert!(
        !kinds.is_empty() && kinds.iter().all(|kind| kind != "endpoints"),
        "{kinds:?}"
    );
    let endpoints = Outputs {
        endpoints: true,
        slices: false,
        mirrored: false,
        custom: false,
    };
    assert_eq!(seen(Some("b"), endpoints).await, (1, 1));
    let kinds = asked(&world);
    assert!(
        !kinds.is_empty()
            && kinds
                .iter()
                .all(|kind| kind != "nodes" && kind != "endpointslices"),
        "{kinds:?}"
    );
}

/// Access to all that an audit reads but one resource.
pub(crate) fn all_but(resource: &str) -> Access {
    let all = ["pods", "services", "nodes", "endpoints", "endpointslices"];
    access(
        &all.into_iter()
            .filter(|other| *other != resource)
            .collect::<Vec<_>>()
            .join(", "),
    )
}

async fn with_access(server: &ApiServer, resource: &str) -> Result<Report, String> {
    server.set_access(Some(all_but(resource)));
    let reader = Reader::new(Client::new(server.service().with_token("token"), "default"));
    let scope = Scope {
        labels: None,
        namespace: None,
        settings: Settings::default(),
        settle: Duration::ZERO,
        problems: false,
    };
    let report = audit(&reader, &scope).await;
    report.map_err(|error| error.to_string())
}

#[tokio::test(start_paused = true)]
async fn get_and_list_are_enough_and_what_is_forbidden_is_named() {
    let world = large().await;
    let report = with_access(&world.server, "nothing").await.unwrap();
    assert!(report.is_in_sync() && report.notes.is_empty());
    assert_eq!(report.verdict(), Some(true));
    // An endpointd that serves annotated Services alone has no rights to Endpoints.
    let report = with_access(&world.server, "endpoints").await.unwrap();
    assert!(report.is_in_sync() && report.counts.services > 0);
    let [note] = &report.notes[..] else {
        panic!("{:?}", report.notes)
    };
    let start = "Endpoints, and slices that mirror them, are left out: cannot list endpoints in all namespaces: forbidden";
    assert!(note.starts_with(start), "{note}");
    let end = "; for an endpointd that serves annotated Services alone, give --controllers=custom-selector-controller";
    assert!(note.ends_with(end), "{note}");
    assert_eq!(report.verdict(), None);
    for resource in ["pods", "services", "nodes", "endpointslices"] {
        let error = with_access(&world.server, resource).await.unwrap_err();
        assert!(error.starts_with(&format!("cannot list {resource}")), "{error}");
        assert!(error.contains("forbidden"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_selector_that_is_too_long_for_a_request_is_applied_here() {
    let mut world = World::new(100);
    world.options.settings.outputs = Outputs {
        custom: true,
        ..Outputs::NONE
    };
    world.make(node("n1", Some("z1"), None)).await;
    let mut other = pod("other", &ip(2), "n1");
    other["metadata"]["labels"] = json!({"app": "b"});
    world.make(pod("p1", &ip(1), "n1")).await;
    world.make(other).await;
    let values: Vec<_> = (0..99).map(|number| format!("value-{number:040}")).collect();
    let selector = format!("app in (a,{})", values.join(","));
    world
        .make(json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "s", "annotations": {"endpointd.io/selector": selector}},
            "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8080}]}}))
        .await;
    let found = report(&world).await.findings;
    let texts: Vec<_> = found
        .iter()
        .flat_map(|found| &found.why)
        .map(|(why, _)| &*why.text)
        .collect();
    assert_eq!(texts, [format!("{} (pod p1) is missing", ip(1))]);
    let sent = world.gate.take_all();
    let longest = sent.iter().map(|sent| sent.query.len()).max();
    assert!(longest < Some(1000), "{longest:?}");
    world.start_up().await;
    world.stop().await;
    assert!(report(&world).await.is_in_sync());
}

/// API servers since 1.38 answer a path that they do not know with a Status of the reason that a missing object has.
#[tokio::test(start_paused = true)]
async fn a_path_that_is_not_known_was_taken_for_a_namespace_that_does_not_exist() {
    let world = World::new(100);
    let scope = Scope {
        namespace: Some("default".to_owned()),
        settings: Settings::default(),
        settle: Duration::ZERO,
        problems: false,
        labels: None,
    };
    let reader = Reader::new(Client::new(world.gate.clone(), "default"));
    for strange in [Fate::UnknownPath, Fate::Page(404)] {
        world.gate.next(Method::GET, "namespaces", strange);
        let error = audit(&reader, &scope).await.unwrap_err();
        let AuditError::Read(error) = error else {
            panic!("{strange:?}: {error}")
        };
        assert!(matches!(error.cause, Cause::Status { code: 404, .. }), "{error}");
    }
    assert!(audit(&reader, &scope).await.unwrap().is_in_sync());
}
