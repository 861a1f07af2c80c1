//! Pods whose Node is missing, or does not tell its zone.

use super::slices::P1;
use super::*;
use k8s_openapi::api::discovery::v1::EndpointHints;

fn differences(cluster: &Cluster) -> Vec<String> {
    lines(&cluster.check(&options(Outputs::SLICES)))
}

/// The first pod's Node is missing.
fn without_node() -> Cluster {
    let mut cluster = cluster();
    cluster.pods[0].spec.as_mut().unwrap().node_name = Some("gone".into());
    first(&mut cluster).node_name = Some("gone".into());
    cluster
}

fn first(cluster: &mut Cluster) -> &mut k8s_openapi::api::discovery::v1::Endpoint {
    &mut cluster.slices[0].endpoints.as_mut().unwrap()[0]
}

fn unpublish(cluster: &mut Cluster) {
    cluster.slices[0].endpoints.as_mut().unwrap().remove(0);
}

fn hints(zone: &str, nodes: &[&str]) -> EndpointHints {
    let nodes: Vec<Value> = nodes.iter().map(|node| json!({ "name": node })).collect();
    from_json(json!({ "forZones": [{ "name": zone }], "forNodes": nodes }))
}

#[test]
fn a_pod_whose_node_is_missing_may_be_published_or_not() {
    let mut cluster = without_node();
    assert_eq!(differences(&cluster), [""; 0], "it was before the Node went");
    assert_eq!(cluster.check(&options(Outputs::SLICES)).endpoints, 2);
    unpublish(&mut cluster);
    assert_eq!(differences(&cluster), [""; 0], "it came after that");
    assert_eq!(cluster.check(&options(Outputs::SLICES)).endpoints, 1);
    cluster.nodes.push(node("gone", "z2", "4"));
    assert_eq!(
        differences(&cluster),
        [format!("{P1}: missing")],
        "the Node is there"
    );
}

#[test]
fn a_pod_whose_node_is_missing_is_published_once_and_as_it_is() {
    let mut wrong = without_node();
    first(&mut wrong).addresses[0] = "10.1.0.9".into();
    let expected = format!("{P1}: differs in addresses: expected 10.1.0.1, found 10.1.0.9");
    assert_eq!(differences(&wrong), [expected]);

    let mut twice = without_node();
    let mut copy = slice("s-2", &http(), &[]);
    copy.endpoints = Some(vec![first(&mut twice).clone()]);
    twice.slices.push(copy);
    let expected = format!("{P1}: stands more than once: s-1, s-2");
    assert_eq!(differences(&twice), [expected]);

    let mut moved = without_node();
    let mut other = slice(
        "s-2",
        &json!([{ "name": "http", "port": 9090, "protocol": "TCP" }]),
        &[],
    );
    other.endpoints = Some(vec![first(&mut moved).clone()]);
    unpublish(&mut moved);
    moved.slices.push(other);
    let left = "ns/s IPv4 [http 9090/TCP] endpoint Pod ns/p1 (10.1.0.1) in slice s-2: unexpected";
    assert_eq!(differences(&moved), [format!("{P1}: missing"), left.to_owned()]);
}

#[test]
fn a_pod_whose_node_is_missing_is_not_shown_as_it_was() {
    type Spoil = fn(&mut Pod);
    let not_ready: Spoil = |pod| pod.status.as_mut().unwrap().conditions = None;
    let terminating: Spoil =
        |pod| pod.metadata.deletion_timestamp = Some(from_json(json!("2024-01-02T03:04:05Z")));
    for (spoil, serving) in [(not_ready, false), (terminating, true)] {
        let mut cluster = without_node();
        spoil(&mut cluster.pods[0]);
        let found = differences(&cluster);
        assert!(
            found[0].contains("differs in conditions.ready: expected false, found true"),
            "{found:?}"
        );
        first(&mut cluster).conditions =
            from_json(json!({ "ready": false, "serving": serving, "terminating": serving }));
        assert_eq!(
            differences(&cluster),
            [""; 0],
            "it was not ready before the Node went"
        );
        unpublish(&mut cluster);
        assert_eq!(differences(&cluster), [""; 0]);
    }
    let mut another = without_node();
    another.pods[0].metadata.uid = Some("uid-new".into());
    assert_eq!(differences(&another), [format!("{P1} in slice s-1: unexpected")]);
}

#[test]
fn a_slice_of_another_service_or_controller_does_not_hold_the_pod() {
    type Spoil = fn(&mut EndpointSlice);
    let owner: Spoil = |slice| slice.owner_references_mut()[0].uid = "uid-old".into();
    let manager: Spoil = |slice| {
        let key = "endpointslice.kubernetes.io/managed-by";
        slice.labels_mut().insert(key.into(), "someone".into());
    };
    let leaving: Spoil = |slice| {
        slice.metadata.deletion_timestamp = Some(from_json(json!("2024-01-02T03:04:05Z")));
    };
    for spoil in [owner, manager, leaving] {
        let mut cluster = without_node();
        let mut other = slice("s-2", &http(), &[]);
        other.endpoints = Some(vec![first(&mut cluster).clone()]);
        spoil(&mut other);
        unpublish(&mut cluster);
        cluster.slices.push(other);
        let report = cluster.check(&options(Outputs::SLICES));
        assert_eq!(report.endpoints, 1, "{:?}", lines(&report));
    }
}

#[test]
fn a_pod_whose_node_is_missing_has_to_be_published_with_publish_not_ready_addresses() {
    let mut cluster = without_node();
    spec(&mut cluster).publish_not_ready_addresses = Some(true);
    cluster.pods[0].status.as_mut().unwrap().conditions = None;
    first(&mut cluster).conditions.as_mut().unwrap().serving = Some(false);
    assert_eq!(differences(&cluster), [""; 0]);
    unpublish(&mut cluster);
    assert_eq!(differences(&cluster), [format!("{P1}: missing")]);
}

#[test]
fn the_zone_is_not_compared_where_the_node_does_not_tell_it() {
    let mut unlabelled = without_node();
    unlabelled.nodes.push(node("gone", "", "4"));
    for mut cluster in [without_node(), unlabelled] {
        for zone in [Some("z1"), Some("z9"), None] {
            first(&mut cluster).zone = zone.map(str::to_owned);
            assert_eq!(differences(&cluster), [""; 0], "{zone:?}");
        }
        first(&mut cluster).hints = Some(hints("z9", &[]));
        assert_eq!(differences(&cluster), [""; 0], "of the zone that the slice shows");
        first(&mut cluster).hints = Some(hints("z9", &["gone"]));
        let expected = format!("{P1}: differs in hints.forNodes: expected [], found [\"gone\"]");
        assert_eq!(differences(&cluster), [expected]);
        spec(&mut cluster).traffic_distribution = Some("PreferSameNode".into());
        cluster.slices[0].endpoints.as_mut().unwrap()[1].hints = Some(hints("z1", &["node"]));
        assert_eq!(differences(&cluster), [""; 0], "the Node's name is known");
    }
}
