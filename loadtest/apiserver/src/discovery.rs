//! The documents that tell clients what is served.

use crate::access::Review;
use crate::kinds::{Facts, Kind};
use crate::route::Plain;
use serde_json::{Value, json};

const GROUPS: [&str; 3] = ["events.k8s.io", "coordination.k8s.io", "discovery.k8s.io"];

const REVIEWS: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];

/// The document at a path; none when nothing is served there. Reviews are served where access is controlled.
pub(crate) fn document(plain: &Plain, host: &str, reviews: bool) -> Option<Value> {
    let reviewed = if reviews { &REVIEWS[..] } else { &[] };
    match plain {
        Plain::Api => Some(json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}],
        })),
        Plain::Apis => Some(json!({
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": GROUPS.iter().chain(reviewed).map(|g| group(g)).collect::<Vec<_>>(),
        })),
        Plain::Group(name) => GROUPS.iter().chain(reviewed).any(|g| g == name).then(|| {
            let mut group = group(name);
            group["kind"] = "APIGroup".into();
            group["apiVersion"] = "v1".into();
            group
        }),
        Plain::Resources(group) if reviewed.contains(&group.as_str()) => Some(review_resources(group)),
        Plain::Resources(group) => resources(group),
        Plain::Version => Some(json!({
            "major": "1",
            "minor": "36",
            "emulationMajor": "1",
            "emulationMinor": "36",
            "minCompatibilityMajor": "1",
            "minCompatibilityMinor": "35",
            "gitVersion": concat!("v1.36.0-memory-apiserver.", env!("CARGO_PKG_VERSION")),
            "gitCommit": "",
            "gitTreeState": "",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "",
            "compiler": "rustc",
            "platform": "linux/amd64",
        })),
        Plain::Health | Plain::OpenApi(_) => None,
    }
}

fn group(name: &str) -> Value {
    let version = json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
    json!({"name": name, "versions": [version.clone()], "preferredVersion": version})
}

fn review_resources(group: &str) -> Value {
    let entry = |review: Review| {
        json!({
            "name": review.resource(), "singularName": review.kind().to_ascii_lowercase(), "namespaced": false,
            "kind": review.kind(), "verbs": ["create"],
        })
    };
    let resources: Vec<Value> = Review::ALL
        .into_iter()
        .filter(|review| review.group() == group)
        .map(entry)
        .collect();
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/v1"), "resources": resources,
    })
}

fn resources(group: &str) -> Option<Value> {
    let kinds: Vec<&Facts> = Kind::ALL
        .into_iter()
        .map(Kind::facts)
        .filter(|f| f.group == group)
        .collect();
    if kinds.is_empty() {
        return None;
    }
    let version = if group.is_empty() {
        "v1".to_owned()
    } else {
        format!("{group}/v1")
    };
    let list: Vec<Value> = kinds.into_iter().flat_map(entries).collect();
    let mut document = json!({"kind": "APIResourceList", "groupVersion": version, "resources": list});
    if !group.is_empty() {
        document["apiVersion"] = "v1".into();
    }
    Some(document)
}

/// A kind's entry and those of its subresources.
fn entries(facts: &Facts) -> Vec<Value> {
    let mut verbs = vec![
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ];
    if !facts.delete_collection {
        verbs.retain(|v| *v != "deletecollection");
    }
    let mut main = json!({
        "name": facts.resource,
        "singularName": facts.singular,
        "namespaced": facts.namespaced,
        "kind": facts.kind,
        "verbs": verbs,
        "storageVersionHash": facts.storage_hash,
    });
    if !facts.short_names.is_empty() {
        main["shortNames"] = facts.short_names.into();
    }
    if facts.in_all {
        main["categories"] = json!(["all"]);
    }
    let mut entries = vec![main];
    for sub in facts.subresources {
        let verbs: &[&str] = if *sub == "finalize" {
            &["update"]
        } else {
            &["get", "patch", "update"]
        };
        entries.push(json!({
            "name": format!("{}/{sub}", facts.resource),
            "singularName": "",
            "namespaced": facts.namespaced,
            "kind": facts.kind,
            "verbs": verbs,
        }));
    }
    entries
}
