//! Writes that meet the writes of others: what the server refuses with a conflict is looked at again, and put right.

use crate::cluster::{self, Api};
use memory_apiserver::{Fault, FaultPlan, Latency, Rule, Stage, Verb, WatchFault};
use serde_json::json;
use std::time::Duration;
use tokio::time::sleep;

const NAMESPACE: &str = "default";
const SECOND: Duration = Duration::from_secs(1);

/// The watch shows the second one while the delete of the first is on its way, and the answer to that is a
/// conflict: nothing else will ever speak of the second.
#[tokio::test(start_paused = true)]
async fn a_slice_made_again_while_its_delete_is_on_its_way_is_deleted_too() {
    let server = cluster::server();
    let api = Api(kube::Client::new(server.service_without_faults(), NAMESPACE));
    let controller = cluster::controller(&server, cluster::options(100));
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]},
    });
    api.create(&service, NAMESPACE).await.unwrap();
    sleep(SECOND).await;

    let slow = Fault::Delay(Stage::Before, Latency::Constant(SECOND));
    let rule = Rule::on(Verb::Delete, "endpointslices").at_most(1).fault(slow);
    // So late that it shows the end of the first and the beginning of the second at once.
    let lag =
        Rule::on(Verb::Watch, "endpointslices").fault(WatchFault::Lag(Latency::Constant(SECOND / 10)).into());
    server.set_faults(FaultPlan::new(1).rule(rule).rule(lag));
    let disowned = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": [],
        "metadata": {"name": "disowned", "labels": {
            "kubernetes.io/service-name": "s",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        }},
    });
    api.create(&disowned, NAMESPACE).await.unwrap();
    sleep(SECOND / 2).await;
    api.delete("EndpointSlice", NAMESPACE, "disowned", None)
        .await
        .unwrap();
    api.create(&disowned, NAMESPACE).await.unwrap();
    assert_eq!(api.slices_of(NAMESPACE, "s").await.unwrap().len(), 2);

    sleep(10 * SECOND).await;
    let slices = api.slices_of(NAMESPACE, "s").await.unwrap();
    assert_eq!(slices.len(), 1, "{slices:?}");
    assert_ne!(slices[0]["metadata"]["name"], "disowned");
    assert!(!controller.is_finished());
}

/// Endpoints that have lost their Service while no controller ran are deleted by the next, also when another client
/// writes to them after they were listed and before everything is.
#[tokio::test(start_paused = true)]
async fn leftover_endpoints_edited_during_the_start_are_deleted_all_the_same() {
    let server = cluster::server();
    let api = Api(kube::Client::new(server.service_without_faults(), NAMESPACE));
    let leftover = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Endpoints", "subsets": [],
            "metadata": {"name": name, "labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}},
        })
    };
    for name in ["edited", "given-away", "wanted"] {
        api.create(&leftover(name), NAMESPACE).await.unwrap();
    }
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "wanted"}, "spec": {"ports": [{"port": 80}]},
    });
    api.create(&service, NAMESPACE).await.unwrap();

    let late = Fault::Delay(Stage::Before, Latency::Constant(SECOND));
    server.set_faults(FaultPlan::new(1).rule(Rule::on(Verb::Watch, "endpointslices").fault(late)));
    let controller = cluster::controller(&server, cluster::options(100));
    sleep(SECOND / 2).await;
    let note = json!({"metadata": {"annotations": {"note": "edited"}}});
    let disown = json!({"metadata": {"labels": null}});
    for (name, patch) in [("edited", &note), ("wanted", &note), ("given-away", &disown)] {
        api.patch("Endpoints", NAMESPACE, name, None, patch)
            .await
            .unwrap();
    }

    sleep(10 * SECOND).await;
    let left = api.list("Endpoints", NAMESPACE).await.unwrap();
    let mut left: Vec<_> = left
        .iter()
        .map(|e| e["metadata"]["name"].as_str().unwrap())
        .collect();
    left.sort_unstable();
    assert_eq!(left, ["given-away", "wanted"]);
    assert!(!controller.is_finished());
}
