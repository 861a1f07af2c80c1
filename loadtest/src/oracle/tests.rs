//! A small cluster whose slices are right, spoilt in one way after another.

use k8s_openapi::api::discovery::v1::EndpointHints;
use serde_json::{Value, json};

use super::*;

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

/// Two pods of one Service, in one slice.
fn cluster() -> Cluster {
    let node = from_json(json!({
        "metadata": { "name": "node", "labels": { "topology.kubernetes.io/zone": "z1" } },
    }));
    Cluster {
        nodes: vec![node],
        services: vec![service()],
        pods: vec![pod("p1", "10.1.0.1"), pod("p2", "10.1.0.2")],
        slices: vec![slice(
            "s-1",
            &http(),
            &[endpoint("p1", "10.1.0.1"), endpoint("p2", "10.1.0.2")],
        )],
    }
}

fn differences(cluster: &Cluster) -> Vec<String> {
    let report = cluster.check(&Options::default());
    report.differences.iter().map(ToString::to_string).collect()
}

fn spec(cluster: &mut Cluster) -> &mut k8s_openapi::api::core::v1::ServiceSpec {
    cluster.services[0].spec.as_mut().unwrap()
}

fn first(cluster: &mut Cluster) -> &mut k8s_openapi::api::discovery::v1::Endpoint {
    &mut cluster.slices[0].endpoints.as_mut().unwrap()[0]
}

const P1: &str = "ns/s IPv4 [http 8080/TCP] endpoint Pod ns/p1 (10.1.0.1)";

#[test]
fn a_cluster_that_is_right_is_verified() {
    let report = cluster().check(&Options::default());
    assert_eq!(report.differences, []);
    assert_eq!(report.to_string(), "verified: 1 services, 2 endpoints");
}

#[test]
fn an_endpoint_is_missing() {
    let mut cluster = cluster();
    cluster.slices[0].endpoints.as_mut().unwrap().remove(0);
    assert_eq!(differences(&cluster), [format!("{P1}: missing")]);
    let report = cluster.check(&Options::default());
    let expected = format!("wrong: 1 difference in 1 services, 2 endpoints\n  {P1}: missing");
    assert_eq!(report.to_string(), expected);
}

#[test]
fn a_long_report_can_be_cut() {
    let mut cluster = cluster();
    cluster.slices[0].endpoints.as_mut().unwrap().clear();
    cluster.slices[0].ports = None;
    let report = cluster.check(&Options::default());
    assert_eq!(
        report.differences.len(),
        3,
        "two endpoints, and a needless placeholder"
    );
    let text = format!("{report:.1}");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("wrong: 3 differences in "), "{text}");
    assert_eq!(lines[2..], ["  and 2 more"], "{text}");
}

#[test]
fn an_endpoint_is_unexpected() {
    let mut with_target = cluster();
    with_target.slices[0]
        .endpoints
        .as_mut()
        .unwrap()
        .push(from_json(endpoint("p3", "10.1.0.3")));
    let expected = "ns/s IPv4 [http 8080/TCP] endpoint Pod ns/p3 (10.1.0.3) in slice s-1: unexpected";
    assert_eq!(differences(&with_target), [expected]);

    let mut without_target = cluster();
    let alien = json!({ "addresses": ["10.1.0.3"] });
    without_target.slices[0]
        .endpoints
        .as_mut()
        .unwrap()
        .push(from_json(alien));
    let expected = "ns/s IPv4 [http 8080/TCP] endpoint without a target (10.1.0.3) in slice s-1: unexpected";
    assert_eq!(differences(&without_target), [expected]);
}

#[test]
fn every_field_of_an_endpoint_is_compared() {
    type Spoil = fn(&mut k8s_openapi::api::discovery::v1::Endpoint);
    let cases: [(Spoil, &str); 9] = [
        (
            |e| e.addresses[0] = "10.1.0.9".into(),
            "addresses: expected 10.1.0.1, found 10.1.0.9",
        ),
        (
            |e| e.conditions.as_mut().unwrap().ready = Some(false),
            "conditions.ready: expected true, found false",
        ),
        (
            |e| e.conditions.as_mut().unwrap().serving = None,
            "conditions.serving: expected true, found none",
        ),
        (
            |e| e.conditions.as_mut().unwrap().terminating = Some(true),
            "conditions.terminating: expected false, found true",
        ),
        (
            |e| e.target_ref.as_mut().unwrap().uid = Some("old".into()),
            "targetRef.uid: expected uid-p1, found old",
        ),
        (|e| e.node_name = None, "nodeName: expected node, found none"),
        (|e| e.zone = Some("z2".into()), "zone: expected z1, found z2"),
        (
            |e| e.hostname = Some("h".into()),
            "hostname: expected none, found h",
        ),
        (
            |e| e.hints = Some(EndpointHints::default()),
            "hints: expected none, found empty",
        ),
    ];
    for (spoil, expected) in cases {
        let mut cluster = cluster();
        spoil(first(&mut cluster));
        assert_eq!(differences(&cluster), [format!("{P1}: differs in {expected}")]);
    }
}

#[test]
fn hints_are_those_of_the_traffic_distribution() {
    let mut plain = cluster();
    spec(&mut plain).traffic_distribution = Some("PreferClose".into());
    let missing = "differs in hints: expected zones [\"z1\"], nodes [], found none";
    assert!(differences(&plain).contains(&format!("{P1}: {missing}")));
    for endpoint in plain.slices[0].endpoints.iter_mut().flatten() {
        endpoint.hints = Some(from_json(json!({ "forZones": [{ "name": "z1" }] })));
    }
    assert_eq!(differences(&plain), [""; 0]);
    spec(&mut plain).traffic_distribution = Some("PreferSameNode".into());
    for endpoint in plain.slices[0].endpoints.iter_mut().flatten() {
        endpoint.hints = Some(from_json(
            json!({ "forZones": [{ "name": "z1" }], "forNodes": [{ "name": "node" }] }),
        ));
    }
    assert_eq!(differences(&plain), [""; 0]);
}

#[test]
fn balanced_hints_depend_on_history_and_are_not_compared() {
    let mut cluster = cluster();
    first(&mut cluster).hints = Some(from_json(json!({ "forZones": [{ "name": "z1" }] })));
    let annotation = (
        "service.kubernetes.io/topology-mode".to_owned(),
        "Auto".to_owned(),
    );
    cluster.services[0].annotations_mut().extend([annotation]);
    assert_eq!(differences(&cluster), [""; 0]);
}

#[test]
fn an_endpoint_stands_twice() {
    let mut cluster = cluster();
    cluster
        .slices
        .push(slice("s-2", &http(), &[endpoint("p1", "10.1.0.1")]));
    assert_eq!(
        differences(&cluster),
        [format!("{P1}: stands more than once: s-1, s-2")]
    );
}

#[test]
fn an_endpoint_stands_under_the_wrong_ports() {
    let mut cluster = cluster();
    cluster.slices[0].endpoints.as_mut().unwrap().remove(0);
    let ports = json!([{ "name": "http", "port": 8081, "protocol": "TCP", "appProtocol": "h2c" }]);
    cluster
        .slices
        .push(slice("s-2", &ports, &[endpoint("p1", "10.1.0.1")]));
    let unexpected =
        "ns/s IPv4 [http 8081/TCP h2c] endpoint Pod ns/p1 (10.1.0.1) in slice s-2: unexpected".to_owned();
    assert_eq!(differences(&cluster), [format!("{P1}: missing"), unexpected]);
}

#[test]
fn a_slice_is_too_large() {
    let report = cluster().check(&Options {
        max_endpoints_per_slice: 1,
    });
    let lines: Vec<String> = report.differences.iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["ns/s IPv4 slice s-1: too large: 2 endpoints, limit 1"]);
}

#[test]
fn labels_of_a_slice_are_those_of_the_service_less_the_reserved_ones() {
    let mut cluster = cluster();
    cluster.slices[0].labels_mut().insert("team".into(), "y".into());
    let rest = "endpointslice.kubernetes.io/managed-by=endpointslice-controller.k8s.io, \
                kubernetes.io/service-name=s, team=";
    let expected = format!("ns/s IPv4 slice s-1: differs in labels: expected {{{rest}x}}, found {{{rest}y}}");
    assert_eq!(differences(&cluster), [expected]);
}

#[test]
fn slices_of_a_headless_service_say_so() {
    let mut cluster = cluster();
    spec(&mut cluster).cluster_ip = Some("None".into());
    assert_eq!(differences(&cluster).len(), 1, "the label is missing");
    cluster.slices[0]
        .labels_mut()
        .insert("service.kubernetes.io/headless".into(), String::new());
    assert_eq!(differences(&cluster), [""; 0]);
}

#[test]
fn a_slice_belongs_to_its_service() {
    let mut careless = cluster();
    careless.slices[0].owner_references_mut()[0].controller = None;
    assert_eq!(differences(&careless).len(), 1);
    assert!(differences(&careless)[0].contains("slice s-1: differs in ownerReferences"));

    let mut left_over = cluster();
    let mut old = slice("s-0", &http(), &[endpoint("p1", "10.1.0.1")]);
    old.owner_references_mut()[0].uid = "uid-gone".into();
    left_over.slices.push(old);
    let expected = "ns/s IPv4 slice s-0: unexpected: not owned by this Service's UID";
    assert_eq!(differences(&left_over), [expected]);
}

#[test]
fn a_slice_has_a_family_of_its_service() {
    let mut cluster = cluster();
    let mut other = slice("s-6", &http(), &[]);
    other.address_type = "IPv6".into();
    cluster.slices.push(other);
    let expected = "ns/s slice s-6: unexpected: the Service does not have its family";
    assert_eq!(differences(&cluster), [expected]);
}

#[test]
fn a_service_without_endpoints_has_one_placeholder() {
    let mut cluster = cluster();
    cluster.pods.clear();
    cluster.slices = vec![slice("s-1", &json!([]), &[])];
    assert_eq!(differences(&cluster), [""; 0]);

    cluster.slices.push(slice("s-2", &Value::Null, &[]));
    assert_eq!(
        differences(&cluster),
        ["ns/s IPv4 slice s-2: unexpected: a needless placeholder"]
    );

    cluster.slices.clear();
    assert_eq!(differences(&cluster), ["ns/s IPv4 placeholder slice: missing"]);

    spec(&mut cluster).ip_families = Some(vec!["IPv4".into(), "IPv6".into()]);
    let expected = [
        "ns/s IPv4 placeholder slice: missing",
        "ns/s IPv6 placeholder slice: missing",
    ];
    assert_eq!(differences(&cluster), expected);
}

#[test]
fn a_service_with_endpoints_has_no_empty_slice() {
    let mut cluster = cluster();
    cluster.slices.push(slice("s-2", &json!([]), &[]));
    cluster.slices.push(slice("s-3", &http(), &[]));
    let expected = [
        "ns/s IPv4 [http 8080/TCP] slice s-3: unexpected: it has no endpoints",
        "ns/s IPv4 slice s-2: unexpected: a needless placeholder",
    ];
    assert_eq!(differences(&cluster), expected);
}

#[test]
fn slices_of_others_and_slices_on_their_way_out_are_not_looked_at() {
    let mut cluster = cluster();
    let mut foreign = slice("x-1", &http(), &[endpoint("p9", "10.1.0.9")]);
    foreign
        .labels_mut()
        .insert("endpointslice.kubernetes.io/managed-by".into(), "someone".into());
    let mut leaving = slice("s-9", &http(), &[endpoint("p9", "10.1.0.9")]);
    leaving.metadata.deletion_timestamp = Some(from_json(json!("2024-01-02T03:04:05Z")));
    cluster.slices.extend([foreign, leaving]);
    assert_eq!(differences(&cluster), [""; 0]);
}

#[test]
fn services_that_nobody_publishes_are_not_looked_at() {
    let selector_less: fn(&mut Cluster) = |cluster| spec(cluster).selector = None;
    let external: fn(&mut Cluster) = |cluster| spec(cluster).type_ = Some("ExternalName".into());
    let leaving: fn(&mut Cluster) = |cluster| {
        cluster.services[0].metadata.deletion_timestamp = Some(from_json(json!("2024-01-02T03:04:05Z")));
    };
    for change in [selector_less, external, leaving] {
        let mut cluster = cluster();
        change(&mut cluster);
        cluster.pods.clear();
        let report = cluster.check(&Options::default());
        assert_eq!((report.services, report.differences), (0, vec![]));
    }
}

/// A change of the first pod, a change of the Service, and what is published of the pod then.
type Case = (fn(&mut Pod), fn(&mut Cluster), &'static [&'static str]);

/// Which of the two pods have an endpoint after a change of the first, for a Service changed in turn.
fn published_after(pod: fn(&mut Pod), service: fn(&mut Cluster)) -> Vec<String> {
    let mut cluster = cluster();
    pod(&mut cluster.pods[0]);
    service(&mut cluster);
    let nodes = cluster.nodes.iter().map(|node| (node.name_any(), node)).collect();
    let pods: Vec<&Pod> = cluster.pods.iter().collect();
    let expected = expected::of_service(&cluster.services[0], &pods, &nodes);
    let groups = expected
        .iter()
        .flat_map(|(family, groups)| groups.iter().map(move |group| (family, group)));
    groups
        .flat_map(|(family, (ports, endpoints))| {
            endpoints.values().map(move |endpoint| {
                format!(
                    "{family} {ports}: {} {}",
                    endpoint.addresses.join(","),
                    endpoint.ready.unwrap()
                )
            })
        })
        .filter(|line| !line.contains("10.1.0.2"))
        .collect()
}

fn as_is(_: &mut Cluster) {}

fn tolerant(cluster: &mut Cluster) {
    spec(cluster).publish_not_ready_addresses = Some(true);
}

fn numbered(cluster: &mut Cluster) {
    spec(cluster).ports.as_mut().unwrap()[0].target_port = Some(from_json(json!(7070)));
}

fn other_protocol(cluster: &mut Cluster) {
    spec(cluster).ports.as_mut().unwrap()[0].protocol = Some("UDP".into());
}

fn any_family(cluster: &mut Cluster) {
    spec(cluster).ip_families = None;
    spec(cluster).cluster_ip = Some("None".into());
}

fn by_cluster_ip(cluster: &mut Cluster) {
    spec(cluster).ip_families = None;
    spec(cluster).cluster_ip = Some("fd00::1".into());
}

fn assert_cases(cases: &[Case]) {
    for (number, (pod, service, expected)) in cases.iter().enumerate() {
        assert_eq!(published_after(*pod, *service), *expected, "case {number}");
    }
}

#[test]
fn pods_are_published_as_upstream_does() {
    assert_cases(&[
        (|_| {}, as_is, &["IPv4 http 8080/TCP: 10.1.0.1 true"]),
        (
            |p| p.status.as_mut().unwrap().phase = Some("Succeeded".into()),
            as_is,
            &[],
        ),
        (
            |p| p.status.as_mut().unwrap().phase = Some("Failed".into()),
            tolerant,
            &[],
        ),
        (
            |p| p.status.as_mut().unwrap().conditions = None,
            as_is,
            &["IPv4 http 8080/TCP: 10.1.0.1 false"],
        ),
        (
            |p| p.status.as_mut().unwrap().conditions = None,
            tolerant,
            &["IPv4 http 8080/TCP: 10.1.0.1 true"],
        ),
        (
            |p| p.metadata.deletion_timestamp = Some(from_json(json!("2024-01-02T03:04:05Z"))),
            as_is,
            &["IPv4 http 8080/TCP: 10.1.0.1 false"],
        ),
        (
            |p| p.spec.as_mut().unwrap().node_name = Some("unknown".into()),
            as_is,
            &[],
        ),
        (
            |p| p.spec.as_mut().unwrap().node_name = None,
            tolerant,
            &["IPv4 http 8080/TCP: 10.1.0.1 true"],
        ),
        (
            |p| drop(p.labels_mut().insert("app".into(), "b".into())),
            as_is,
            &[],
        ),
        (
            |p| {
                p.status.as_mut().unwrap().pod_ip = None;
                p.status.as_mut().unwrap().pod_ips = None;
            },
            as_is,
            &[],
        ),
    ]);
}

#[test]
fn ports_and_addresses_are_found_as_upstream_does() {
    assert_cases(&[
        (|_| {}, numbered, &["IPv4 http 7070/TCP: 10.1.0.1 true"]),
        (|_| {}, other_protocol, &["IPv4 no ports: 10.1.0.1 true"]),
        (
            |p| {
                let spec = p.spec.as_mut().unwrap();
                spec.containers[0].ports = None;
                spec.init_containers = Some(from_json(json!([
                    { "name": "i", "ports": [{ "name": "http", "containerPort": 1 }] },
                    { "name": "j", "restartPolicy": "Always", "ports": [{ "name": "http", "containerPort": 2 }] },
                ])));
            },
            as_is,
            &["IPv4 http 2/TCP: 10.1.0.1 true"],
        ),
        (
            |p| {
                p.status.as_mut().unwrap().pod_ips =
                    Some(from_json(json!([{ "ip": "010.1.0.01" }, { "ip": "FD00:0::A" }])));
            },
            any_family,
            &[
                "IPv4 http 8080/TCP: 10.1.0.1 true",
                "IPv6 http 8080/TCP: fd00::a true",
            ],
        ),
        (|_| {}, by_cluster_ip, &[]),
        (
            |p| p.status.as_mut().unwrap().pod_ips = Some(from_json(json!([{ "ip": "::ffff:10.1.0.1" }]))),
            as_is,
            &["IPv4 http 8080/TCP: 10.1.0.1 true"],
        ),
    ]);
}

#[test]
fn a_hostname_needs_the_service_for_its_subdomain() {
    let mut cluster = cluster();
    let spec = cluster.pods[0].spec.as_mut().unwrap();
    spec.hostname = Some("h".into());
    spec.subdomain = Some("other".into());
    assert_eq!(differences(&cluster), [""; 0]);
    cluster.pods[0].spec.as_mut().unwrap().subdomain = Some("s".into());
    assert_eq!(
        differences(&cluster),
        [format!("{P1}: differs in hostname: expected h, found none")]
    );
}
