//! Slices from before a Service had a selector, beside those for the selector.

use super::{Cluster, Options, cluster, endpoint, http, lines, slice, spec};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::json;

const ANNOTATED: &str = "endpointd.io";
const MIRRORED: &str = "endpointslicemirroring-controller.k8s.io";

/// A slice with another pod, of this controller.
fn old(manager: &str, ready: bool) -> EndpointSlice {
    let mut endpoint = endpoint("p3", "10.1.0.3");
    endpoint["conditions"]["ready"] = json!(ready);
    let mut slice = slice("old", &http(), &[endpoint]);
    let labels = slice.metadata.labels.get_or_insert_default();
    labels.insert(
        "endpointslice.kubernetes.io/managed-by".to_owned(),
        manager.to_owned(),
    );
    slice
}

/// A Service whose slices for its selector hold so many pods, with an old slice.
fn replaced(pods: usize, old: EndpointSlice) -> Cluster {
    let mut cluster = cluster();
    cluster.pods.truncate(pods);
    cluster.slices[0].endpoints.as_mut().unwrap().truncate(pods);
    if pods == 0 {
        cluster.slices[0].ports = None;
    }
    cluster.endpoints.clear();
    cluster.slices.push(old);
    cluster
}

#[test]
fn old_slices_stay_while_those_for_the_selector_hold_no_ready_endpoint() {
    let options = Options {
        custom: true,
        mirrored: true,
        ..Options::default()
    };
    let (annotation, endpoints) = ("no annotation asks for it", "the Endpoints do not have it");
    for (manager, problem, pods, ready, stays) in [
        (ANNOTATED, annotation, 0, true, true),
        // No ready endpoint is lost with it.
        (ANNOTATED, annotation, 0, false, false),
        (ANNOTATED, annotation, 1, true, false),
        (MIRRORED, endpoints, 0, true, true),
        // It is not read.
        (MIRRORED, endpoints, 0, false, true),
        (MIRRORED, endpoints, 1, true, false),
    ] {
        let mut cluster = replaced(pods, old(manager, ready));
        let told = |cluster: &Cluster| {
            let lines = lines(&cluster.check(&options));
            lines.iter().any(|line| line.contains(problem))
        };
        assert_eq!(told(&cluster), !stays, "{manager}, {pods}, {ready}");
        // Without a selector, nothing takes its place.
        spec(&mut cluster).selector = None;
        assert!(told(&cluster), "{manager}, {pods}, {ready}");
    }
}
