//! A small cluster in which everything is right, spoilt in one way after another.

mod endpoints;
mod hints;
mod kept;
mod nodes;
mod slices;
mod truncation;
mod worlds;

use super::*;
use k8s_openapi::api::core::v1::ServiceSpec;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const HEADLESS: &str = "service.kubernetes.io/headless";

fn from_json<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn pod(name: &str, ip: &str) -> Pod {
    from_json(json!({
        "metadata": { "namespace": "ns", "name": name, "uid": format!("uid-{name}"), "labels": { "app": "a" } },
        "spec": {
            "nodeName": "node",
            "containers": [{ "name": "c", "ports": [{ "name": "http", "containerPort": 8080 }] }],
        },
        "status": {
            "phase": "Running",
            "podIP": ip,
            "podIPs": [{ "ip": ip }],
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    }))
}

fn endpoint(name: &str, ip: &str) -> Value {
    json!({
        "addresses": [ip],
        "conditions": { "ready": true, "serving": true, "terminating": false },
        "targetRef": { "kind": "Pod", "namespace": "ns", "name": name, "uid": format!("uid-{name}") },
        "nodeName": "node",
        "zone": "z1",
    })
}

fn slice(name: &str, ports: &Value, endpoints: &[Value]) -> EndpointSlice {
    from_json(json!({
        "metadata": {
            "namespace": "ns",
            "name": name,
            "labels": {
                "team": "x",
                "kubernetes.io/service-name": "s",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
            "ownerReferences": [{
                "apiVersion": "v1",
                "kind": "Service",
                "name": "s",
                "uid": "uid-s",
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "addressType": "IPv4",
        "ports": ports,
        "endpoints": endpoints,
    }))
}

fn http() -> Value {
    json!([{ "name": "http", "port": 8080, "protocol": "TCP" }])
}

fn service() -> Service {
    from_json(json!({
        "metadata": {
            "namespace": "ns",
            "name": "s",
            "uid": "uid-s",
            "labels": { "team": "x", "service.kubernetes.io/headless": "", "kubernetes.io/service-name": "liar" },
        },
        "spec": {
            "clusterIP": "10.0.0.9",
            "ipFamilies": ["IPv4"],
            "selector": { "app": "a" },
            "ports": [{ "name": "http", "port": 80, "targetPort": "http", "protocol": "TCP" }],
        },
    }))
}

fn node(name: &str, zone: &str, cpu: &str) -> Node {
    from_json(json!({
        "metadata": { "name": name, "labels": { "topology.kubernetes.io/zone": zone } },
        "status": {
            "allocatable": { "cpu": cpu },
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    }))
}

/// An Endpoints object of the Service.
fn object(subsets: &Value) -> Endpoints {
    from_json(json!({
        "metadata": {
            "namespace": "ns",
            "name": "s",
            "labels": { "team": "x", "kubernetes.io/service-name": "liar", MANAGED_BY: "endpoint-controller" },
            "annotations": { "endpoints.kubernetes.io/last-change-trigger-time": "2024-01-02T03:04:05Z" },
        },
        "subsets": subsets,
    }))
}

fn address(name: &str, ip: &str) -> Value {
    json!({
        "ip": ip,
        "nodeName": "node",
        "targetRef": { "kind": "Pod", "namespace": "ns", "name": name, "uid": format!("uid-{name}") },
    })
}

/// Two pods of one Service, in one slice and one subset.
fn cluster() -> Cluster {
    Cluster {
        nodes: vec![node("node", "z1", "4")],
        services: vec![service()],
        pods: vec![pod("p1", "10.1.0.1"), pod("p2", "10.1.0.2")],
        slices: vec![slice(
            "s-1",
            &http(),
            &[endpoint("p1", "10.1.0.1"), endpoint("p2", "10.1.0.2")],
        )],
        endpoints: vec![object(&json!([{
            "addresses": [address("p1", "10.1.0.1"), address("p2", "10.1.0.2")],
            "ports": http(),
        }]))],
    }
}

fn options(outputs: Outputs) -> Options {
    Options {
        outputs,
        ..Options::default()
    }
}

fn lines(report: &Report) -> Vec<String> {
    report.differences.iter().map(ToString::to_string).collect()
}

fn spec(cluster: &mut Cluster) -> &mut ServiceSpec {
    cluster.services[0].spec.as_mut().unwrap()
}

/// The Service is deleted, but a finalizer keeps it.
fn leaving(service: &mut Service) {
    service.metadata.deletion_timestamp = Some(from_json(json!("2024-01-02T03:04:05Z")));
}

#[test]
fn a_cluster_that_is_right_is_verified() {
    let report = cluster().check(&Options::default());
    assert_eq!(report.differences, []);
    let expected = "verified: 1 services, 2 endpoints, 1 slices, 1 Endpoints objects";
    assert_eq!(report.to_string(), expected);
}

#[test]
fn a_long_report_can_be_cut() {
    let mut cluster = cluster();
    cluster.slices[0].endpoints.as_mut().unwrap().clear();
    cluster.slices[0].ports = None;
    let report = cluster.check(&options(Outputs::SLICES));
    assert_eq!(
        report.differences.len(),
        3,
        "two endpoints, and a needless placeholder"
    );
    let text = format!("{report:.1}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "wrong: 3 differences in 1 services, 2 endpoints, 1 slices"
    );
    assert_eq!(lines[2..], ["  and 2 more"], "{text}");
    assert_eq!(report.to_string().lines().count(), 4, "one line for each");
}

#[test]
fn only_the_outputs_that_are_asked_for_are_checked() {
    let mut without_slices = cluster();
    without_slices.slices.clear();
    let report = without_slices.check(&options(Outputs::ENDPOINTS));
    let expected = "verified: 1 services, 2 endpoints, 1 Endpoints objects";
    assert_eq!(report.to_string(), expected);
    assert!(!without_slices.check(&options(Outputs::SLICES)).is_correct());

    let mut without_endpoints = cluster();
    without_endpoints.endpoints.clear();
    let report = without_endpoints.check(&options(Outputs::SLICES));
    assert_eq!(report.to_string(), "verified: 1 services, 2 endpoints, 1 slices");
    assert!(!without_endpoints.check(&options(Outputs::ENDPOINTS)).is_correct());
}

#[test]
fn services_that_nobody_publishes_are_not_looked_at() {
    let selector_less: fn(&mut Service) = |service| service.spec.as_mut().unwrap().selector = None;
    let empty: fn(&mut Service) = |service| {
        service.spec.as_mut().unwrap().selector.as_mut().unwrap().clear();
    };
    let external: fn(&mut Service) =
        |service| service.spec.as_mut().unwrap().type_ = Some("ExternalName".into());
    for change in [selector_less, empty, external, leaving] {
        let mut cluster = cluster();
        change(&mut cluster.services[0]);
        cluster.pods.clear();
        let report = cluster.check(&Options::default());
        assert_eq!((report.services, report.differences), (0, vec![]));
    }
}
