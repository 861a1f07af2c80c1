//! The differences that Endpoints objects can have.

use super::*;
use k8s_openapi::api::core::v1::EndpointSubset;

fn differences(cluster: &Cluster) -> Vec<String> {
    lines(&cluster.check(&options(Outputs::ENDPOINTS)))
}

fn subset(cluster: &mut Cluster) -> &mut EndpointSubset {
    &mut cluster.endpoints[0].subsets.as_mut().unwrap()[0]
}

fn publish(cluster: &mut Cluster, subsets: &Value) {
    cluster.endpoints = vec![object(subsets)];
}

fn status(cluster: &mut Cluster, pod: usize) -> &mut k8s_openapi::api::core::v1::PodStatus {
    cluster.pods[pod].status.as_mut().unwrap()
}

const P1: &str = "ns/s [http 8080/TCP] Endpoints address 10.1.0.1 (UID uid-p1) of Pod ns/p1";
const P2: &str = "ns/s [http 8080/TCP] Endpoints address 10.1.0.2 (UID uid-p2) of Pod ns/p2";

#[test]
fn an_address_is_missing() {
    let mut cluster = cluster();
    subset(&mut cluster).addresses.as_mut().unwrap().remove(0);
    assert_eq!(differences(&cluster), [format!("{P1}: missing")]);
}

#[test]
fn an_address_is_unexpected() {
    let mut cluster = cluster();
    let alien = from_json(json!({ "ip": "10.1.0.3" }));
    subset(&mut cluster).addresses.as_mut().unwrap().push(alien);
    let expected =
        "ns/s [http 8080/TCP] Endpoints address 10.1.0.3 (UID none) of nothing: unexpected".to_owned();
    assert_eq!(differences(&cluster), [expected]);
    cluster.pods.remove(0);
    assert_eq!(differences(&cluster)[0], format!("{P1}: unexpected"));
}

#[test]
fn the_object_is_missing() {
    let mut cluster = cluster();
    cluster.endpoints.clear();
    assert_eq!(differences(&cluster), ["ns/s Endpoints: missing"]);
    cluster.pods.clear();
    assert_eq!(
        differences(&cluster),
        ["ns/s Endpoints: missing"],
        "also with no pods"
    );
    publish(&mut cluster, &Value::Null);
    assert_eq!(differences(&cluster), [""; 0]);
    publish(&mut cluster, &json!([]));
    assert_eq!(differences(&cluster), [""; 0]);
}

#[test]
fn every_field_of_an_address_is_compared() {
    type Spoil = fn(&mut k8s_openapi::api::core::v1::EndpointAddress);
    let cases: [(Spoil, &str); 6] = [
        (
            |a| a.node_name = None,
            "differs in nodeName: expected node, found none",
        ),
        (
            |a| a.node_name = Some(String::new()),
            "differs in nodeName: expected node, found an empty text",
        ),
        (
            |a| a.hostname = Some("h".into()),
            "differs in hostname: expected none, found h",
        ),
        (
            |a| a.target_ref.as_mut().unwrap().name = Some("p9".into()),
            "differs in targetRef: expected Pod ns/p1, found Pod ns/p9",
        ),
        (
            |a| a.target_ref.as_mut().unwrap().kind = None,
            "differs in targetRef: expected Pod ns/p1, found  ns/p1",
        ),
        (
            |a| a.target_ref.as_mut().unwrap().namespace = Some("other".into()),
            "differs in targetRef: expected Pod ns/p1, found Pod other/p1",
        ),
    ];
    for (spoil, expected) in cases {
        let mut cluster = cluster();
        spoil(&mut subset(&mut cluster).addresses.as_mut().unwrap()[0]);
        assert_eq!(differences(&cluster), [format!("{P1}: {expected}")]);
    }
    let mut other_uid = cluster();
    let address = &mut subset(&mut other_uid).addresses.as_mut().unwrap()[0];
    address.target_ref.as_mut().unwrap().uid = Some("old".into());
    let old = "ns/s [http 8080/TCP] Endpoints address 10.1.0.1 (UID old) of Pod ns/p1: unexpected";
    assert_eq!(
        differences(&other_uid),
        [format!("{P1}: missing"), old.to_owned()]
    );
}

#[test]
fn ready_and_not_ready_addresses_are_told_apart() {
    let mut swapped = cluster();
    let subset = subset(&mut swapped);
    subset.not_ready_addresses = Some(vec![subset.addresses.as_mut().unwrap().remove(0)]);
    let expected = "differs in ready: expected addresses, found notReadyAddresses";
    assert_eq!(differences(&swapped), [format!("{P1}: {expected}")]);

    status(&mut swapped, 0).conditions = None;
    assert_eq!(differences(&swapped), [""; 0]);

    spec(&mut swapped).publish_not_ready_addresses = Some(true);
    assert_eq!(differences(&swapped), [format!("{P1}: {expected}")]);
}

#[test]
fn an_address_stands_in_both_lists() {
    let mut cluster = cluster();
    let subset = subset(&mut cluster);
    subset.not_ready_addresses = Some(vec![subset.addresses.as_ref().unwrap()[0].clone()]);
    let expected = "stands more than once: addresses, notReadyAddresses";
    assert_eq!(differences(&cluster), [format!("{P1}: {expected}")]);
}

#[test]
fn ports_are_compared_in_every_field() {
    let wrong = [
        json!([{ "name": "http", "port": 8081, "protocol": "TCP" }]),
        json!([{ "name": "web", "port": 8080, "protocol": "TCP" }]),
        json!([{ "name": "http", "port": 8080, "protocol": "UDP" }]),
        json!([{ "name": "http", "port": 8080, "appProtocol": "h2c" }]),
        json!([]),
    ];
    for ports in wrong {
        let mut cluster = cluster();
        subset(&mut cluster).ports = from_json(ports.clone());
        let found = differences(&cluster);
        assert_eq!(found.len(), 4, "two missing, two unexpected: {found:?}");
        assert!(found.contains(&format!("{P1}: missing")), "{found:?}");
    }
    let mut too_many = cluster();
    subset(&mut too_many).ports = from_json(json!([
        { "name": "http", "port": 8080 },
        { "name": "more", "port": 8081 },
    ]));
    let found = differences(&too_many);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].starts_with("ns/s [more 8081/TCP] Endpoints address 10.1.0.1 "),
        "{found:?}"
    );
}

#[test]
fn an_address_stands_under_the_ports_that_its_pod_has() {
    let mut cluster = cluster();
    cluster.pods[1].spec.as_mut().unwrap().containers[0].ports = None;
    assert_eq!(differences(&cluster), [format!("{P2}: unexpected")]);
    let other = json!([{ "name": "http", "containerPort": 8000 }]);
    cluster.pods[1].spec.as_mut().unwrap().containers[0].ports = from_json(other);
    publish(
        &mut cluster,
        &json!([
            { "addresses": [address("p1", "10.1.0.1")], "ports": http() },
            { "addresses": [address("p2", "10.1.0.2")], "ports": [{ "name": "http", "port": 8000 }] },
        ]),
    );
    assert_eq!(differences(&cluster), [""; 0]);
}

#[test]
fn a_service_without_ports_has_addresses_without_ports() {
    let mut cluster = cluster();
    spec(&mut cluster).ports = None;
    spec(&mut cluster).cluster_ip = Some("None".into());
    let found = differences(&cluster);
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(
        found[0].starts_with("ns/s [no ports] Endpoints address 10.1.0.1 "),
        "{found:?}"
    );
    subset(&mut cluster).ports = None;
    assert_eq!(differences(&cluster), [""; 0]);
}

#[test]
fn pods_that_have_ended_or_have_no_address_are_not_published() {
    let spoil: [fn(&mut Pod); 4] = [
        |pod| pod.status.as_mut().unwrap().phase = Some("Succeeded".into()),
        |pod| pod.status.as_mut().unwrap().phase = Some("Failed".into()),
        |pod| {
            let status = pod.status.as_mut().unwrap();
            (status.pod_ip, status.pod_ips) = (None, None);
        },
        |pod| drop(pod.labels_mut().insert("app".into(), "b".into())),
    ];
    for spoil in spoil {
        let mut cluster = cluster();
        spec(&mut cluster).publish_not_ready_addresses = Some(true);
        spoil(&mut cluster.pods[0]);
        assert_eq!(differences(&cluster), [format!("{P1}: unexpected")]);
        subset(&mut cluster).addresses.as_mut().unwrap().remove(0);
        assert_eq!(differences(&cluster), [""; 0]);
    }
}

#[test]
fn terminating_pods_are_published_only_where_readiness_does_not_count() {
    let mut cluster = cluster();
    cluster.pods[0].metadata.deletion_timestamp = Some(from_json(json!("2024-01-02T03:04:05Z")));
    assert_eq!(differences(&cluster), [format!("{P1}: unexpected")]);
    spec(&mut cluster).publish_not_ready_addresses = Some(true);
    assert_eq!(differences(&cluster), [""; 0]);
    status(&mut cluster, 0).conditions = None;
    assert_eq!(differences(&cluster), [""; 0], "and as ready");
}

#[test]
fn a_hostname_needs_the_service_for_its_subdomain() {
    let mut cluster = cluster();
    let pod = cluster.pods[0].spec.as_mut().unwrap();
    (pod.hostname, pod.subdomain) = (Some("h".into()), Some("other".into()));
    assert_eq!(differences(&cluster), [""; 0]);
    cluster.pods[0].spec.as_mut().unwrap().subdomain = Some("s".into());
    let expected = "differs in hostname: expected h, found none";
    assert_eq!(differences(&cluster), [format!("{P1}: {expected}")]);
}

#[test]
fn labels_are_those_of_the_service() {
    let rest = format!("{MANAGED_BY}=endpoint-controller, kubernetes.io/service-name=liar");
    let expected = format!("ns/s Endpoints: differs in labels: expected {{{rest}, team=x}}, found");
    for (key, value, found) in [
        ("team", Some("y"), format!("{{{rest}, team=y}}")),
        ("team", None, format!("{{{rest}}}")),
        ("zeal", Some("z"), format!("{{{rest}, team=x, zeal=z}}")),
        (
            MANAGED_BY,
            None,
            "{kubernetes.io/service-name=liar, team=x}".to_owned(),
        ),
    ] {
        let mut cluster = cluster();
        let labels = cluster.endpoints[0].labels_mut();
        match value {
            Some(value) => drop(labels.insert(key.into(), value.into())),
            None => drop(labels.remove(key)),
        }
        assert_eq!(differences(&cluster), [format!("{expected} {found}")]);
    }
    let mut claimed = cluster();
    claimed.services[0]
        .labels_mut()
        .insert(MANAGED_BY.into(), "someone".into());
    assert_eq!(differences(&claimed), [""; 0], "ours goes before the Service's");
}

#[test]
fn the_label_of_headless_services_alone_is_no_difference_unless_asked_for() {
    let strict = Options {
        headless_label: true,
        ..options(Outputs::ENDPOINTS)
    };
    let mut cluster = cluster();
    assert_eq!(lines(&cluster.check(&strict)), [""; 0]);
    spec(&mut cluster).cluster_ip = Some("None".into());
    assert_eq!(differences(&cluster), [""; 0]);
    assert_eq!(lines(&cluster.check(&strict)).len(), 1);
    cluster.endpoints[0]
        .labels_mut()
        .insert(HEADLESS.into(), String::new());
    assert_eq!(lines(&cluster.check(&strict)), [""; 0]);
    spec(&mut cluster).cluster_ip = Some("10.0.0.9".into());
    assert_eq!(differences(&cluster), [""; 0]);
    assert_eq!(lines(&cluster.check(&strict)).len(), 1);
}

#[test]
fn nothing_is_left_of_a_service_that_is_gone() {
    let gone = || {
        let mut cluster = cluster();
        cluster.services.clear();
        cluster
    };
    assert_eq!(
        differences(&gone()),
        ["ns/s Endpoints: unexpected: its Service is gone"]
    );
    let excuses: [fn(&mut Endpoints); 3] = [
        |object| {
            let annotations = object.annotations_mut();
            annotations.insert("control-plane.alpha.kubernetes.io/leader".into(), "{}".into());
        },
        |object| drop(object.labels_mut().remove(MANAGED_BY)),
        |object| object.metadata.deletion_timestamp = Some(from_json(json!("2024-01-02T03:04:05Z"))),
    ];
    for excuse in excuses {
        let mut cluster = gone();
        excuse(&mut cluster.endpoints[0]);
        assert_eq!(differences(&cluster), [""; 0]);
    }
    let mut elsewhere = cluster();
    elsewhere.services[0].metadata.namespace = Some("other".into());
    let expected = [
        "other/s Endpoints: missing",
        "ns/s Endpoints: unexpected: its Service is gone",
    ];
    assert_eq!(differences(&elsewhere), expected);
}

#[test]
fn objects_of_services_that_are_not_managed_are_left_alone() {
    let mut cluster = cluster();
    spec(&mut cluster).selector = None;
    cluster.endpoints[0].metadata.labels = None;
    subset(&mut cluster).addresses = from_json(json!([{ "ip": "192.0.2.1" }]));
    assert_eq!(differences(&cluster), [""; 0]);
    spec(&mut cluster).type_ = Some("ExternalName".into());
    assert_eq!(differences(&cluster), [""; 0]);
}
