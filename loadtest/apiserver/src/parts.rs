//! Parts of objects that are no objects themselves: the binding of a pod to its node, and the scale of a Deployment.

use crate::delete;
use crate::json::{list, number, text};
use crate::kubectl::STRATEGIC;
use crate::object::{Object, key_of};
use crate::reply::{Reply, media_type};
use crate::route::{ObjectTarget, Sub};
use crate::status::{Answer, Refusal};
use crate::write::{self, Change, Write};
use http::request::Parts;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

/// Gives a pod its node, as a scheduler asks for it.
pub(crate) fn bind(write: Write<'_>, parts: &Parts, body: &[u8]) -> Answer<Reply> {
    if parts.method != Method::POST {
        return Err(Refusal::method_not_allowed());
    }
    media_type(parts, &[JSON])?;
    let binding = read(body)?;
    let node = text(&binding, "/target/name");
    if node.is_empty() || !matches!(text(&binding, "/target/kind"), "" | "Node") {
        return Err(Refusal::bad_request(
            "a binding has the name of a Node in target.name",
        ));
    }
    let pod = stored(write)?;
    let value = pod.value();
    let refuse = |why: &str| {
        let name = &write.target.name;
        Err(Refusal::conflict(pod.kind, name, &format!("pod {name} {why}")))
    };
    if pod.deleting {
        return refuse("is being deleted, cannot be assigned to a host");
    }
    let own = text(&value, "/spec/nodeName");
    if !own.is_empty() {
        return refuse(&format!("is already assigned to node \"{own}\""));
    }
    let mut conditions = list(&value, "/status/conditions").to_vec();
    conditions.retain(|condition| condition["type"] != "PodScheduled");
    let now = write.store.clock.time();
    conditions.push(json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
    }));
    let patch = json!({
        // Two schedulers may have read the same pod.
        "metadata": {"resourceVersion": text(&value, "/metadata/resourceVersion")},
        "spec": {"nodeName": node},
        "status": {"conditions": conditions},
    });
    let (bound, _) = write::update(write, Change::Merge(patch))?;
    Ok(Reply::Made(StatusCode::CREATED, delete::success(&bound)))
}

/// Reads the scale of a Deployment, or changes it.
pub(crate) fn scale(write: Write<'_>, parts: &Parts, body: &[u8]) -> Answer<Reply> {
    let current = shown(&stored(write)?.value());
    let wanted = match parts.method {
        Method::GET => return Ok(Reply::Document(current)),
        Method::PUT => {
            media_type(parts, &[JSON])?;
            read(body)?
        }
        Method::PATCH => {
            // The two are the same for a scale, which has no lists.
            media_type(parts, &[MERGE, STRATEGIC])?;
            let mut wanted = current;
            // Metadata that the patch does not name stays; a version counts only where the patch names one.
            wanted["metadata"] = json!({});
            write::merge(&mut wanted, read(body)?);
            wanted
        }
        _ => return Err(Refusal::method_not_allowed()),
    };
    let Some(replicas) = wanted.pointer("/spec/replicas").map_or(Some(0), Value::as_i64) else {
        return Err(Refusal::bad_request("spec.replicas of a Scale is a number"));
    };
    let mut patch = json!({"spec": {"replicas": replicas}});
    let version = text(&wanted, "/metadata/resourceVersion");
    if !version.is_empty() {
        patch["metadata"] = json!({"resourceVersion": version});
    }
    let target = ObjectTarget {
        sub: Sub::Main,
        ..write.target.clone()
    };
    let whole = Write {
        target: &target,
        ..write
    };
    let (scaled, _) = write::update(whole, Change::Merge(patch))?;
    Ok(Reply::Document(shown(&scaled.value())))
}

/// A Deployment as a Scale.
fn shown(deployment: &Value) -> Value {
    let metadata = |field: &str| deployment["metadata"][field].clone();
    let pairs = deployment["spec"]["selector"]["matchLabels"].as_object();
    let pairs = pairs.into_iter().flatten();
    let selector: Vec<String> = pairs
        .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)))
        .collect();
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata("name"),
            "namespace": metadata("namespace"),
            "uid": metadata("uid"),
            "resourceVersion": metadata("resourceVersion"),
            "creationTimestamp": metadata("creationTimestamp"),
        },
        "spec": {"replicas": number(deployment, "/spec/replicas")},
        "status": {"replicas": number(deployment, "/status/replicas"), "selector": selector.join(",")},
    })
}

fn stored(write: Write<'_>) -> Answer<Arc<Object>> {
    let target = write.target;
    let found = write
        .store
        .get(target.kind, &key_of(&target.namespace, &target.name));
    found.ok_or_else(|| Refusal::not_found(target.kind, &target.name))
}

fn read(body: &[u8]) -> Answer<Value> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::bad_request(format!("the body is not JSON: {error}")))
}
