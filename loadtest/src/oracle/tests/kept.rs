//! Slices from before a Service had a selector, beside those for the selector.

use super::{Cluster, Options, Outputs, cluster, endpoint, http, lines, slice, spec};
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
fn slices_from_before_a_selector_are_left_over() {
    let all = Options {
        custom: true,
        mirrored: true,
        ..Options::default()
    };
    let opt_in = Options {
        outputs: Outputs {
            endpoints: false,
            slices: false,
        },
        ..all.clone()
    };
    let (annotation, endpoints) = ("no annotation asks for it", "the Endpoints do not have it");
    for (manager, problem, options, is_left) in [
        (ANNOTATED, annotation, &all, true),
        // Another controller may not have published any yet.
        (ANNOTATED, annotation, &opt_in, false),
        (MIRRORED, endpoints, &all, true),
    ] {
        let mut cluster = replaced(1, old(manager, true));
        let told = |cluster: &Cluster| {
            let lines = lines(&cluster.check(options));
            lines.iter().any(|line| line.contains(problem))
        };
        assert_eq!(told(&cluster), is_left, "{manager}");
        // Without a selector, nothing takes its place.
        spec(&mut cluster).selector = None;
        assert!(told(&cluster), "{manager}");
    }
}
