//! Parts of objects that are no objects themselves: the binding of a pod to its node, and the scale of a Deployment.

use crate::delete;
use crate::json::{list, number, text};
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
    let (bound, _) = write::update(write, &Change::Merge(patch))?;
    Ok(Reply::Made(StatusCode::CREATED, delete::success(&bound)))
}

/// Reads the scale of a Deployment, or changes it by a merge patch, as `kubectl scale` does.
pub(crate) fn scale(write: Write<'_>, parts: &Parts, body: &[u8]) -> Answer<Reply> {
    if parts.method == Method::GET {
        return Ok(Reply::Document(shown(&stored(write)?.value())));
    }
    if parts.method != Method::PATCH {
        return Err(Refusal::method_not_allowed());
    }
    media_type(parts, &[MERGE])?;
    let wanted = read(body)?;
    let mut patch = json!({"spec": {"replicas": wanted["spec"]["replicas"]}});
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
    let (scaled, _) = write::update(whole, &Change::Merge(patch))?;
    Ok(Reply::Document(shown(&scaled.value())))
}

/// A Deployment as a Scale.
fn shown(deployment: &Value) -> Value {
    let metadata = |field: &str| &deployment["metadata"][field];
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata("name"),
            "namespace": metadata("namespace"),
            "uid": metadata("uid"),
            "resourceVersion": metadata("resourceVersion"),
        },
        "spec": {"replicas": number(deployment, "/spec/replicas")},
        "status": {"replicas": number(deployment, "/status/replicas")},
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
