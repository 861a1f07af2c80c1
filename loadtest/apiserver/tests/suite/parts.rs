//! Parts of objects: bindings of pods, and scales.

use crate::client::{Api, PODS, pod, version};
use serde_json::{Value, json};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/ns/deployments";

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_to_one_node() {
    let api = Api::plain().await;
    let mut unscheduled = pod("p");
    unscheduled["spec"].as_object_mut().unwrap().remove("nodeName");
    api.create(PODS, unscheduled).await;
    let path = format!("{PODS}/p");
    let binding = |node: &str| json!({ "metadata": {"name": "p"}, "target": {"kind": "Node", "name": node} });
    let wrong = json!({ "target": {"kind": "Pod", "name": "n1"} });
    for refused in [json!({}), binding(""), wrong] {
        let answer = api.refused("POST", &format!("{path}/binding"), refused).await;
        assert_eq!(answer["code"], 400);
    }
    let answer = api.create(&format!("{path}/binding"), binding("n1")).await;
    assert_eq!(
        (&answer["kind"], &answer["status"]),
        (&json!("Status"), &json!("Success"))
    );
    let bound = api.get(&path).await;
    assert_eq!(bound["spec"]["nodeName"], "n1");
    assert_eq!(bound["status"]["conditions"][0]["type"], "PodScheduled");
    let answer = api
        .refused("POST", &format!("{path}/binding"), binding("n2"))
        .await;
    assert_eq!(
        (&answer["code"], &answer["reason"]),
        (&json!(409), &json!("Conflict"))
    );
    assert!(
        answer["message"]
            .as_str()
            .unwrap()
            .ends_with("pod p is already assigned to node \"n1\"")
    );
    assert_eq!(api.get(&path).await["spec"]["nodeName"], "n1");
    for (method, path, code) in [
        ("GET", format!("{path}/binding"), 405),
        ("POST", format!("{PODS}/q/binding"), 404),
    ] {
        assert_eq!(api.refused(method, &path, binding("n1")).await["code"], code);
    }
    api.delete(&path, Value::Null).await;
    let answer = api
        .refused("POST", &format!("{path}/binding"), binding("n2"))
        .await;
    assert!(answer["message"].as_str().unwrap().contains("is being deleted"));
}

#[tokio::test(start_paused = true)]
async fn a_deployment_is_scaled() {
    let api = Api::plain().await;
    let template = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let selector = json!({"matchLabels": {"app": "web"}});
    let web = json!({"metadata": {"name": "web"}, "spec": {"selector": selector, "template": template}});
    let made = api.create(DEPLOYMENTS, web).await;
    let path = format!("{DEPLOYMENTS}/web/scale");
    let scale = api.get(&path).await;
    assert_eq!(
        (&scale["kind"], &scale["apiVersion"]),
        (&json!("Scale"), &json!("autoscaling/v1"))
    );
    assert_eq!(
        (&scale["spec"]["replicas"], &scale["status"]["selector"]),
        (&json!(1), &json!("app=web"))
    );
    let scaled = api.patch(&path, json!({"spec": {"replicas": 4}})).await;
    assert_eq!(scaled["spec"]["replicas"], 4);
    let now = api.get(&format!("{DEPLOYMENTS}/web")).await;
    assert_eq!(
        (&now["spec"]["replicas"], &now["metadata"]["generation"]),
        (&json!(4), &json!(2))
    );
    // A version that is not the present one is refused, as for any object.
    let mut late = scale.clone();
    late["spec"]["replicas"] = 9.into();
    assert_eq!(api.refused("PUT", &path, late).await["code"], 409);
    assert_ne!(version(&made), version(&now));
    let mut replaced = scaled.clone();
    replaced["spec"]["replicas"] = 2.into();
    assert_eq!(api.put(&path, replaced).await["spec"]["replicas"], 2);
    assert_eq!(
        api.refused("PATCH", &path, json!({"spec": {"replicas": -1}}))
            .await["code"],
        422
    );
    assert_eq!(
        api.refused("PATCH", &path, json!({"spec": {"replicas": "x"}}))
            .await["code"],
        400
    );
    assert_eq!(api.refused("DELETE", &path, Value::Null).await["code"], 405);
}
