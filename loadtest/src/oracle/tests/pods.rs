//! Which pods have endpoints in slices, and which.

use super::*;

/// A change of the first pod, a change of the Service, and what is published of the pod then.
type Case = (fn(&mut Pod), fn(&mut Cluster), &'static [&'static str]);

/// Which of the two pods have an endpoint after a change of the first, for a Service changed in turn.
fn published_after(pod: fn(&mut Pod), service: fn(&mut Cluster)) -> Vec<String> {
    let mut cluster = cluster();
    pod(&mut cluster.pods[0]);
    service(&mut cluster);
    let names = cluster
        .nodes
        .iter()
        .map(|node| node.metadata.name.as_deref().unwrap());
    let nodes = names.zip(&cluster.nodes).collect();
    let pods: Vec<&Pod> = cluster.pods.iter().collect();
    let expected = crate::oracle::slices::expected::of_service(&cluster.services[0], &pods, &nodes, &[]);
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
    assert_eq!(lines(&cluster.check(&options(Outputs::SLICES))), [""; 0]);
    cluster.pods[0].spec.as_mut().unwrap().subdomain = Some("s".into());
    assert_eq!(
        lines(&cluster.check(&options(Outputs::SLICES))),
        [format!(
            "{}: differs in hostname: expected h, found none",
            super::slices::P1
        )]
    );
}
