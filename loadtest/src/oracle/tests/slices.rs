//! The differences that slices can have.

use super::*;
use k8s_openapi::api::discovery::v1::EndpointHints;

fn differences(cluster: &Cluster) -> Vec<String> {
    lines(&cluster.check(&options(Outputs::SLICES)))
}

fn first(cluster: &mut Cluster) -> &mut k8s_openapi::api::discovery::v1::Endpoint {
    &mut cluster.slices[0].endpoints.as_mut().unwrap()[0]
}

pub(super) const P1: &str = "ns/s IPv4 [http 8080/TCP] endpoint Pod ns/p1 (10.1.0.1)";

#[test]
fn an_endpoint_is_missing() {
    let mut cluster = cluster();
    cluster.slices[0].endpoints.as_mut().unwrap().remove(0);
    assert_eq!(differences(&cluster), [format!("{P1}: missing")]);
    let report = cluster.check(&options(Outputs::SLICES));
    let expected = format!("wrong: 1 difference in 1 services, 2 endpoints, 1 slices\n  {P1}: missing");
    assert_eq!(report.to_string(), expected);
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
        ..options(Outputs::SLICES)
    });
    assert_eq!(
        lines(&report),
        ["ns/s IPv4 slice s-1: too large: 2 endpoints, limit 1"]
    );
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
fn slices_of_a_headless_service_say_so_if_that_is_compared() {
    let strict = Options {
        headless_label: true,
        ..options(Outputs::SLICES)
    };
    let mut cluster = cluster();
    assert_eq!(lines(&cluster.check(&strict)), [""; 0]);
    spec(&mut cluster).cluster_ip = Some("None".into());
    assert_eq!(lines(&cluster.check(&strict)).len(), 1, "the label is missing");
    assert_eq!(differences(&cluster), [""; 0]);
    cluster.slices[0]
        .labels_mut()
        .insert(HEADLESS.into(), String::new());
    assert_eq!(lines(&cluster.check(&strict)), [""; 0]);
    spec(&mut cluster).cluster_ip = Some("10.0.0.9".into());
    assert_eq!(lines(&cluster.check(&strict)).len(), 1, "the label is too much");
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
fn a_service_with_endpoints_has_no_empty_slice_of_other_ports() {
    let mut cluster = cluster();
    cluster.slices.push(slice("s-2", &json!([]), &[]));
    let other = json!([{"name": "http", "port": 9090, "protocol": "TCP"}]);
    cluster.slices.push(slice("s-3", &other, &[]));
    let expected = [
        "ns/s IPv4 [http 9090/TCP] slice s-3: unexpected: it has no endpoints",
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
