//! Random small clusters, in which pods are found by their labels and by comparing every Service with every pod.

use super::*;
use proptest::prelude::*;
use proptest::{collection, option};

const LABELS: usize = 3;
const VALUES: usize = 3;

/// The values of labels that a pod has or a selector names; none of a label that is not there.
type Labels = [Option<usize>; LABELS];

/// A Service: its namespace, its selector, and the one in its annotation.
type ServiceSeed = (usize, Labels, Option<usize>);

const ANNOTATIONS: [&str; 5] = [
    "l0=v0",
    "l0 in (v0, v1),!l1",
    "l2",
    "l1 != v2",
    "l0 in l1 in app1",
];

fn labels() -> impl Strategy<Value = Labels> {
    [
        option::of(0..VALUES),
        option::of(0..VALUES),
        option::of(0..VALUES),
    ]
}

fn object(labels: &Labels) -> Value {
    let pairs = labels.iter().enumerate();
    let pairs = pairs.filter_map(|(key, value)| Some((format!("l{key}"), json!(format!("v{}", (*value)?)))));
    Value::Object(pairs.collect())
}

fn namespace(number: usize) -> String {
    format!("ns{number}")
}

fn cluster(pods: &[(usize, Labels)], services: &[ServiceSeed]) -> Cluster {
    let pods = pods.iter().enumerate().map(|(number, (of, labels))| {
        let mut pod = pod(&format!("p{number}"), &format!("10.1.0.{number}"));
        pod.metadata.namespace = Some(namespace(*of));
        pod.metadata.labels = from_json(object(labels));
        pod
    });
    let services = services.iter().enumerate();
    let services = services.map(|(number, (of, selector, annotation))| {
        let mut service = service();
        service.metadata.namespace = Some(namespace(*of));
        service.metadata.name = Some(format!("s{number}"));
        service.metadata.uid = Some(format!("uid-s{number}"));
        service.metadata.annotations =
            annotation.map(|which| from_json(json!({ "endpointd.io/selector": ANNOTATIONS[which] })));
        if let Some(spec) = &mut service.spec {
            spec.selector = from_json(object(selector));
        }
        service
    });
    Cluster {
        nodes: vec![node("node", "z1", "4")],
        services: services.collect(),
        pods: pods.collect(),
        ..Cluster::default()
    }
}

proptest! {
    #[test]
    fn pods_found_by_their_labels_are_those_that_a_comparison_with_all_pods_finds(
        pods in collection::vec((0..2_usize, labels()), 0..12),
        services in collection::vec((0..3_usize, labels(), option::of(0..ANNOTATIONS.len())), 0..8),
    ) {
        let cluster = cluster(&pods, &services);
        let snapshot = cluster.snapshot();
        let options = Options { custom: true, ..Options::default() };
        let plain = snapshot.check_by(&options, Some(Search::Everywhere));
        let by_label = snapshot.check_by(&options, Some(Search::ByLabel));
        prop_assert_eq!(plain.endpoints, by_label.endpoints);
        // No endpoint is published, so each one that should be is a difference.
        prop_assert_eq!(plain.differences, by_label.differences);
    }
}

#[test]
fn by_labels_few_pods_are_compared_with_a_service() {
    let of = |value| [Some(value), None, Some(0)];
    let pods: Vec<_> = (0..90).map(|number| (0, of(number % VALUES))).collect();
    let cluster = cluster(&pods, &[(0, of(1), None)]);
    let snapshot = cluster.snapshot();
    let candidates = Candidates::new(snapshot.pods.clone(), &snapshot.services, Some(Search::ByLabel));
    assert_eq!(
        candidates.of(snapshot.services[0]).len(),
        30,
        "those with the rarer label"
    );
    let report = snapshot.check_by(&options(Outputs::SLICES), Some(Search::ByLabel));
    assert_eq!(report.endpoints, 30);
}
