//! Edits of a Service reach its slices whichever outputs are written.

use crate::cluster::{self, Api};
use endpointd::core::outputs::Outputs;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

const NAMESPACE: &str = "default";
const SLICES: Outputs = Outputs {
    endpoints: false,
    slices: true,
    mirrored: false,
    custom: false,
};

/// A Service `s` of pods `app: a`, under a controller with these outputs, and then an edit of its spec: its slices.
async fn after_edit(outputs: Outputs, pods: &[Value], edit: Value) -> Vec<Value> {
    let server = cluster::server();
    let api = Api(cluster::client(&server));
    let mut options = cluster::options(100);
    options.settings.outputs = outputs;
    let controller = cluster::controller(&server, options);
    for pod in pods {
        api.create(pod, NAMESPACE).await.unwrap();
    }
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]},
    });
    api.create(&service, NAMESPACE).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(api.slices_of(NAMESPACE, "s").await.unwrap().len(), 1);
    api.patch("Service", NAMESPACE, "s", None, &json!({ "spec": edit }))
        .await
        .unwrap();
    sleep(Duration::from_secs(1)).await;
    assert!(!controller.is_finished());
    api.slices_of(NAMESPACE, "s").await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_family_that_is_added_gets_its_placeholder() {
    for outputs in [Outputs::ALL, SLICES] {
        let edit = json!({"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"});
        let slices = after_edit(outputs, &[], edit).await;
        let mut families: Vec<_> = slices.iter().map(|slice| &slice["addressType"]).collect();
        families.sort_unstable_by_key(ToString::to_string);
        assert_eq!(families, ["IPv4", "IPv6"], "{outputs:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_on_no_node_come_with_those_that_are_not_ready() {
    for outputs in [Outputs::ALL, SLICES] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": "Running", "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}]},
        });
        let slices = after_edit(outputs, &[pod], json!({"publishNotReadyAddresses": true})).await;
        let endpoints = slices
            .iter()
            .flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
        assert_eq!(endpoints.count(), 1, "{outputs:?}");
    }
}
