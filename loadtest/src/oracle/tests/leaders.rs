//! Services that follow a Lease.

use super::{Cluster, Options, cluster, from_json};
use crate::oracle::Outputs;
use serde_json::json;

fn options() -> Options {
    Options {
        outputs: Outputs::SLICES,
        custom: true,
        ..Options::default()
    }
}

/// A Service that follows a Lease with this holder, and publishes `p1` alone.
fn led(holder: &str) -> Cluster {
    let mut cluster = cluster();
    let service = &mut cluster.services[0];
    if let Some(spec) = &mut service.spec {
        spec.selector = None;
    }
    let annotations = service.metadata.annotations.get_or_insert_default();
    annotations.insert("endpointd.io/leader".to_owned(), "db".to_owned());
    let slice = &mut cluster.slices[0];
    let labels = slice.metadata.labels.get_or_insert_default();
    labels.insert(
        "endpointslice.kubernetes.io/managed-by".to_owned(),
        "endpointd.io".to_owned(),
    );
    slice.endpoints.as_mut().unwrap().truncate(1);
    cluster.leases = vec![from_json(json!({
        "metadata": { "namespace": "ns", "name": "db" },
        "spec": { "holderIdentity": holder },
    }))];
    cluster
}

#[test]
fn the_holder_alone_is_published() {
    for (holder, differences) in [("p1", 0), ("p1_x", 0), ("p2_x", 2), ("", 2), ("nobody", 2)] {
        let report = led(holder).check(&options());
        assert_eq!(report.differences.len(), differences, "{holder}: {report:?}");
    }
}

#[test]
fn two_pods_of_one_name_lead_nobody() {
    let mut cluster = led("p1");
    cluster.pods[1].spec.as_mut().unwrap().hostname = Some("p1".to_owned());
    assert_eq!(cluster.check(&options()).differences.len(), 2);
}

#[test]
fn beside_slices_of_others_nobody_is_published() {
    let mut cluster = led("p1");
    let mut other = cluster.slices[0].clone();
    other.metadata.name = Some("other".to_owned());
    let labels = other.metadata.labels.get_or_insert_default();
    labels.insert(
        "endpointslice.kubernetes.io/managed-by".to_owned(),
        "endpointslice-controller.k8s.io".to_owned(),
    );
    cluster.slices.push(other);
    assert_eq!(cluster.check(&options()).differences.len(), 2);
}
