//! Deployments and their pods, without replica sets in between.

use super::{is_ready, is_terminating, now, path_of, send, text};
use crate::api::{Http, Resource};
use crate::objects::condition;
use http::Method;
use serde_json::{Value, json};
use std::hash::{DefaultHasher, Hash, Hasher};

pub(super) const PATH: &str = "/apis/apps/v1/deployments";
/// The label that tells the pods of one template from those of another.
const TEMPLATE: &str = "pod-template-hash";

/// Creates and deletes pods until there are as many of the present template as there should be. Pods of another template go
/// as soon as all of the present one are ready.
pub(super) async fn reconcile(http: &Http, deployment: &Value, pods: &[Value]) -> anyhow::Result<()> {
    if is_terminating(deployment) {
        return Ok(());
    }
    let wanted = deployment["spec"]["replicas"].as_u64().unwrap_or(1) as usize;
    let template = template_hash(deployment);
    let (mut present, old): (Vec<&Value>, Vec<&Value>) = pods
        .iter()
        .filter(|pod| is_owned(pod, deployment) && !is_terminating(pod))
        .filter(|pod| !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed"))
        .partition(|pod| pod["metadata"]["labels"][TEMPLATE] == template.as_str());
    let ready = |pods: &[&Value]| pods.iter().filter(|pod| is_ready(pod)).count();
    let (present_ready, old_ready) = (ready(&present), ready(&old));
    report(
        http,
        deployment,
        [present.len(), old.len(), present_ready, old_ready],
    )
    .await?;

    let namespace = text(deployment, "/metadata/namespace");
    for _ in present.len()..wanted {
        let pod = pod(deployment, &template);
        send(http, Method::POST, &Resource::Pods.path(namespace, ""), &pod).await?;
    }
    // Ready pods stay before others, and older pods before newer ones.
    present.sort_by_key(|pod| (!is_ready(pod), text(pod, "/metadata/creationTimestamp")));
    let surplus = present.iter().skip(wanted);
    let replaced = old.iter().filter(|_| present_ready >= wanted);
    for pod in surplus.chain(replaced) {
        send(http, Method::DELETE, &path_of(pod), &Value::Null).await?;
    }
    Ok(())
}

/// Writes the status, if it is another: counts of pods of the present template and of others, and the ready ones of each.
async fn report(
    http: &Http,
    deployment: &Value,
    [present, old, present_ready, old_ready]: [usize; 4],
) -> anyhow::Result<()> {
    let wanted = deployment["spec"]["replicas"].as_u64().unwrap_or(1) as usize;
    let ready = present_ready + old_ready;
    let counts = [
        ("replicas", present + old),
        ("updatedReplicas", present),
        ("readyReplicas", ready),
        ("availableReplicas", ready),
        ("unavailableReplicas", wanted.saturating_sub(ready)),
    ];
    let status = &deployment["status"];
    let observed = &deployment["metadata"]["generation"];
    let is_same = |(name, count): &(&str, usize)| status[name].as_u64().unwrap_or_default() == *count as u64;
    if counts.iter().all(is_same) && status["observedGeneration"] == *observed {
        return Ok(());
    }
    let is_available = ready >= wanted;
    let mut available = condition("Available", is_available, &now());
    available["reason"] = json!(if is_available {
        "MinimumReplicasAvailable"
    } else {
        "MinimumReplicasUnavailable"
    });
    let mut patch = json!({ "observedGeneration": observed, "conditions": [available] });
    for (name, count) in counts {
        patch[name] = json!(count);
    }
    let namespace = text(deployment, "/metadata/namespace");
    let name = text(deployment, "/metadata/name");
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}/status");
    send(http, Method::PATCH, &path, &json!({ "status": patch })).await
}

/// A pod of a Deployment's template.
fn pod(deployment: &Value, template: &str) -> Value {
    let mut pod = deployment["spec"]["template"].clone();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    let name = text(deployment, "/metadata/name");
    let metadata = &mut pod["metadata"];
    metadata["generateName"] = json!(format!("{name}-{template}-"));
    metadata["labels"][TEMPLATE] = json!(template);
    metadata["ownerReferences"] = json!([{
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": name,
        "uid": deployment["metadata"]["uid"],
        "controller": true,
        "blockOwnerDeletion": true,
    }]);
    pod
}

fn is_owned(pod: &Value, deployment: &Value) -> bool {
    let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let mut owners = owners.into_iter().flatten();
    owners.any(|owner| owner["uid"] == deployment["metadata"]["uid"])
}

/// The same for the same template, within this process.
fn template_hash(deployment: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    deployment["spec"]["template"].to_string().hash(&mut hasher);
    format!("{:08x}", hasher.finish() as u32)
}
