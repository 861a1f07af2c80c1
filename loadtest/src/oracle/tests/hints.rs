//! The differences that hints can have.

use super::*;

const AUTO: (&str, &str) = ("service.kubernetes.io/topology-mode", "Auto");

fn differences(cluster: &Cluster) -> Vec<String> {
    lines(&cluster.check(&options(Outputs::SLICES)))
}

/// The Service's pods: on which node, in which zone, and the zones that they are hinted to.
fn balanced(pods: &[(&str, &str, &[&str])]) -> Cluster {
    let mut cluster = cluster();
    cluster.nodes = vec![node("n1", "z1", "4"), node("n2", "z2", "4000m")];
    annotate(&mut cluster, AUTO);
    cluster.pods.clear();
    let mut endpoints = Vec::new();
    for (number, (node, zone, hints)) in pods.iter().enumerate() {
        let (name, ip) = (format!("p{number}"), format!("10.1.0.{number}"));
        let mut pod = pod(&name, &ip);
        pod.spec.as_mut().unwrap().node_name = Some((*node).to_owned());
        cluster.pods.push(pod);
        let mut endpoint = endpoint(&name, &ip);
        endpoint["nodeName"] = json!(node);
        endpoint["zone"] = json!(zone);
        if zone.is_empty() {
            endpoint["zone"] = Value::Null;
        }
        if !hints.is_empty() {
            let zones: Vec<Value> = hints.iter().map(|zone| json!({ "name": zone })).collect();
            endpoint["hints"] = json!({ "forZones": zones });
        }
        endpoints.push(endpoint);
    }
    cluster.slices = vec![slice("s-1", &http(), &endpoints)];
    cluster
}

fn annotate(cluster: &mut Cluster, (key, value): (&str, &str)) {
    cluster.services[0]
        .annotations_mut()
        .insert(key.to_owned(), value.to_owned());
}

fn hint(cluster: &mut Cluster, endpoint: usize, hints: &Value) {
    cluster.slices[0].endpoints.as_mut().unwrap()[endpoint].hints = from_json(hints.clone());
}

fn wrong(number: usize, expected: &str, found: &str) -> String {
    format!(
        "ns/s IPv4 [http 8080/TCP] endpoint Pod ns/p{number} (10.1.0.{number}): \
         differs in hints: expected {expected}, found {found}"
    )
}

const ONE_OF: &str = "one zone of [\"z1\", \"z2\"]";

#[test]
fn traffic_distribution_hints_each_endpoint_to_its_own_surroundings() {
    let zone = json!({ "forZones": [{ "name": "z1" }] });
    let both = json!({ "forZones": [{ "name": "z1" }], "forNodes": [{ "name": "node" }] });
    for (distribution, hints, others) in [
        ("PreferClose", &zone, &both),
        ("PreferSameZone", &zone, &both),
        ("PreferSameNode", &both, &zone),
    ] {
        let mut cluster = cluster();
        spec(&mut cluster).traffic_distribution = Some(distribution.into());
        assert_eq!(differences(&cluster).len(), 2, "hints are missing");
        hint(&mut cluster, 0, hints);
        hint(&mut cluster, 1, hints);
        assert_eq!(differences(&cluster), [""; 0], "{distribution}");
        hint(&mut cluster, 1, others);
        assert_eq!(differences(&cluster).len(), 1, "{distribution}");
        hint(&mut cluster, 1, &json!({ "forZones": [{ "name": "z2" }] }));
        assert_eq!(differences(&cluster).len(), 1, "{distribution}: another zone");
    }
    let mut unknown = cluster();
    spec(&mut unknown).traffic_distribution = Some("PreferElsewhere".into());
    assert_eq!(differences(&unknown), [""; 0]);
}

#[test]
fn endpoints_that_are_not_ready_or_have_no_zone_get_no_hints() {
    let mut cluster = cluster();
    spec(&mut cluster).traffic_distribution = Some("PreferSameZone".into());
    cluster.nodes[0].metadata.labels = None;
    for endpoint in cluster.slices[0].endpoints.iter_mut().flatten() {
        endpoint.zone = None;
    }
    assert_eq!(differences(&cluster), [""; 0], "no zone");
    let node_hint = json!({ "forNodes": [{ "name": "node" }] });
    spec(&mut cluster).traffic_distribution = Some("PreferSameNode".into());
    hint(&mut cluster, 0, &node_hint);
    hint(&mut cluster, 1, &node_hint);
    assert_eq!(differences(&cluster), [""; 0], "a node but no zone");

    cluster.pods[0].status.as_mut().unwrap().conditions = None;
    let endpoint = &mut cluster.slices[0].endpoints.as_mut().unwrap()[0];
    endpoint.conditions = from_json(json!({ "ready": false, "serving": false, "terminating": false }));
    let found = differences(&cluster);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].ends_with("differs in hints.forNodes: expected [], found [\"node\"]"));
}

#[test]
fn any_sharing_within_the_bounds_is_right() {
    let own = balanced(&[("n1", "z1", &["z1"]), ("n2", "z2", &["z2"])]);
    assert_eq!(differences(&own), [""; 0]);
    let exchanged = balanced(&[("n1", "z1", &["z2"]), ("n2", "z2", &["z1"])]);
    assert_eq!(differences(&exchanged), [""; 0], "which endpoint moves is free");
    let moved = balanced(&[
        ("n1", "z1", &["z1"]),
        ("n1", "z1", &["z2"]),
        ("n1", "z1", &["z1"]),
        ("n1", "z1", &["z2"]),
    ]);
    assert_eq!(differences(&moved), [""; 0]);
}

#[test]
fn every_ready_endpoint_has_one_known_zone() {
    let cases: [(&[&str], &str); 3] = [
        (&[], "none"),
        (&["z9"], "zones [\"z9\"], nodes []"),
        (&["z1", "z2"], "zones [\"z1\", \"z2\"], nodes []"),
    ];
    for (hints, found) in cases {
        let cluster = balanced(&[("n1", "z1", hints), ("n2", "z2", &["z2"])]);
        assert_eq!(differences(&cluster), [wrong(0, ONE_OF, found)]);
    }
    let mut with_node = balanced(&[("n1", "z1", &["z1"]), ("n2", "z2", &["z2"])]);
    let both = json!({ "forZones": [{ "name": "z1" }], "forNodes": [{ "name": "n1" }] });
    hint(&mut with_node, 0, &both);
    assert_eq!(
        differences(&with_node),
        [wrong(0, ONE_OF, "zones [\"z1\"], nodes [\"n1\"]")]
    );
}

#[test]
fn no_zone_has_more_than_its_maximum() {
    // If there are four endpoints, each of two equal zones needs two, so that two is the maximum as well.
    let cluster = balanced(&[
        ("n1", "z1", &["z1"]),
        ("n1", "z1", &["z1"]),
        ("n1", "z1", &["z1"]),
        ("n2", "z2", &["z2"]),
    ]);
    let expected = "ns/s IPv4 zone z1: overloaded: 3 endpoints are hinted to it, at most 2 may be";
    assert_eq!(differences(&cluster), [expected]);
}

#[test]
fn zones_of_unequal_size_get_unequal_shares() {
    let hints = |first: usize| {
        let zone = |number: usize| -> &[&str] { if number < first { &["z1"] } else { &["z2"] } };
        let pods: Vec<_> = (0..12)
            .map(|number| {
                let node = if number % 2 == 0 {
                    ("n1", "z1")
                } else {
                    ("n2", "z2")
                };
                (node.0, node.1, zone(number))
            })
            .collect();
        let mut cluster = balanced(&pods);
        // Three quarters of the CPU, of which nine endpoints are the share, and eight the least.
        cluster.nodes[0] = node("n1", "z1", "12");
        differences(&cluster)
    };
    assert_eq!(hints(9), [""; 0]);
    assert_eq!(hints(8), [""; 0], "the least for one is the most for the other");
    let expected = "ns/s IPv4 zone z2: overloaded: 5 endpoints are hinted to it, at most 4 may be";
    assert_eq!(hints(7), [expected]);
}

#[test]
fn a_zone_may_stay_over_its_maximum_when_nothing_whole_can_be_moved() {
    // The small zones need one endpoint each, and the large one then the eight that are left. One of the small
    // ones goes without: the large zone has nine, which is its share, so that it gives none away.
    let mut pods = vec![("n1", "z1", &["z1"][..]); 9];
    pods.push(("n1", "z1", &["z2"]));
    let mut cluster = balanced(&pods);
    cluster.nodes = vec![
        node("n1", "z1", "90"),
        node("n2", "z2", "5"),
        node("n3", "z3", "5"),
    ];
    assert_eq!(differences(&cluster), [""; 0]);
    hint(&mut cluster, 9, &json!({ "forZones": [{ "name": "z1" }] }));
    let expected = "ns/s IPv4 zone z1: overloaded: 10 endpoints are hinted to it, at most 8 may be";
    assert_eq!(differences(&cluster), [expected]);
}

#[test]
fn endpoints_that_are_not_ready_do_not_count() {
    // Four can be shared by two equal zones, five cannot: each zone would need three.
    let mut cluster = balanced(&[
        ("n1", "z1", &["z1"]),
        ("n1", "z1", &["z1"]),
        ("n2", "z2", &["z2"]),
        ("n2", "z2", &["z2"]),
        ("n2", "z2", &["z2"]),
    ]);
    assert_eq!(differences(&cluster).len(), 5);
    cluster.pods[4].status.as_mut().unwrap().conditions = None;
    let endpoint = &mut cluster.slices[0].endpoints.as_mut().unwrap()[4];
    endpoint.conditions = from_json(json!({ "ready": false, "serving": false, "terminating": false }));
    assert_eq!(
        differences(&cluster),
        [wrong(4, "none", "zones [\"z2\"], nodes []")]
    );
    hint(&mut cluster, 4, &Value::Null);
    assert_eq!(differences(&cluster), [""; 0]);
}

#[test]
fn an_endpoint_of_a_zone_without_capacity_stays_there() {
    let mut cluster = balanced(&[
        ("n1", "z1", &["z1"]),
        ("n2", "z2", &["z2"]),
        ("n2", "z2", &["z2"]),
        ("n3", "z3", &["z3"]),
    ]);
    let mut control_plane = node("n3", "z3", "4");
    control_plane
        .labels_mut()
        .insert("node-role.kubernetes.io/control-plane".into(), String::new());
    cluster.nodes.push(control_plane);
    assert_eq!(differences(&cluster), [""; 0]);
    hint(&mut cluster, 0, &json!({ "forZones": [{ "name": "z3" }] }));
    assert_eq!(
        differences(&cluster),
        [wrong(0, ONE_OF, "zones [\"z3\"], nodes []")]
    );
}

#[test]
fn there_are_no_hints_where_endpoints_cannot_be_shared() {
    type Spoil = fn(&mut Cluster);
    let no_cpu: Spoil = |cluster| cluster.nodes[1] = node("n2", "z2", "0");
    let unreadable: Spoil = |cluster| cluster.nodes[1] = node("n2", "z2", "much");
    let no_allocatable: Spoil = |cluster| cluster.nodes[1].status.as_mut().unwrap().allocatable = None;
    let unclear: Spoil = |cluster| cluster.nodes.push(node("n9", "", "4"));
    let too_many_zones: Spoil = |cluster| cluster.nodes.push(node("n3", "z3", "4"));
    // The small zone needs one endpoint and the large one two.
    let too_unequal: Spoil = |cluster| cluster.nodes[0] = node("n1", "z1", "100");
    for (number, spoil) in [
        no_cpu,
        unreadable,
        no_allocatable,
        unclear,
        too_many_zones,
        too_unequal,
    ]
    .into_iter()
    .enumerate()
    {
        let mut hinted = balanced(&[("n1", "z1", &["z1"]), ("n2", "z2", &["z2"])]);
        assert_eq!(differences(&hinted), [""; 0]);
        spoil(&mut hinted);
        let expected = [
            wrong(0, "none", "zones [\"z1\"], nodes []"),
            wrong(1, "none", "zones [\"z2\"], nodes []"),
        ];
        assert_eq!(differences(&hinted), expected, "case {number}");
        let mut plain = balanced(&[("n1", "z1", &[]), ("n2", "z2", &[])]);
        spoil(&mut plain);
        assert_eq!(differences(&plain), [""; 0], "case {number}");
    }
}

#[test]
fn hints_may_stay_where_nodes_have_gone_and_one_zone_is_left() {
    type Spoil = fn(&mut Cluster);
    let not_ready: Spoil = |cluster| {
        cluster.nodes[1].status.as_mut().unwrap().conditions =
            from_json(json!([{ "type": "Ready", "status": "Unknown" }]));
    };
    let master: Spoil = |cluster| {
        let labels = cluster.nodes[1].labels_mut();
        labels.insert("node-role.kubernetes.io/master".into(), "yes".into());
    };
    let all_gone: Spoil = |cluster| cluster.nodes.clear();
    for spoil in [not_ready, master, all_gone] {
        for hints in [["z1", "z2"].map(|zone| vec![zone]), [vec![], vec![]]] {
            let mut cluster = balanced(&[("n1", "z1", &hints[0]), ("n2", "z2", &hints[1])]);
            spoil(&mut cluster);
            assert_eq!(differences(&cluster), [""; 0]);
        }
    }
}

/// Its zone may be the one that the slice shows, or another, or none.
#[test]
fn any_hints_are_right_where_the_zone_of_a_ready_endpoint_is_unknown() {
    for (hints, zone) in [(&[][..], ""), (&["z1"][..], ""), (&["z9"][..], "z9")] {
        let mut cluster = balanced(&[("n1", "z1", hints), ("n2", "z2", hints), ("n9", zone, hints)]);
        assert_eq!(differences(&cluster), [""; 0], "without a Node");
        let mut unzoned = node("n9", "z9", "4");
        unzoned.metadata.labels = None;
        // It does not count, and so does not make the zones unclear.
        unzoned.status = None;
        cluster.nodes.push(unzoned);
        assert_eq!(differences(&cluster), [""; 0], "without a label");
    }
}

#[test]
fn the_deprecated_annotation_decides_where_it_stands() {
    const DEPRECATED: &str = "service.kubernetes.io/topology-aware-hints";
    let hinted = || balanced(&[("n1", "z1", &["z1"]), ("n2", "z2", &["z2"])]);
    let mut both = hinted();
    annotate(&mut both, (DEPRECATED, "Disabled"));
    assert_eq!(differences(&both).len(), 2, "it rules the other one out");
    spec(&mut both).traffic_distribution = Some("PreferSameZone".into());
    assert_eq!(differences(&both), [""; 0], "the distribution is what is left");

    let mut alone = hinted();
    annotate(&mut alone, (AUTO.0, "Disabled"));
    annotate(&mut alone, (DEPRECATED, "auto"));
    assert_eq!(differences(&alone), [""; 0]);
    hint(&mut alone, 0, &Value::Null);
    assert_eq!(differences(&alone), [wrong(0, ONE_OF, "none")]);

    let mut annotated = hinted();
    spec(&mut annotated).traffic_distribution = Some("PreferSameNode".into());
    assert_eq!(
        differences(&annotated),
        [""; 0],
        "the annotation goes before the distribution"
    );
    annotate(&mut annotated, (AUTO.0, "AUTO"));
    assert_eq!(differences(&annotated).len(), 2, "a value that means nothing");
}
