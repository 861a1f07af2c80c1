//! The documents that tell clients what is served.

use crate::kinds::{Facts, Kind};
use crate::route::Plain;
use serde_json::{Value, json};

const GROUPS: [&str; 3] = ["events.k8s.io", "coordination.k8s.io", "discovery.k8s.io"];

/// The document at a path; none when nothing is served there.
pub(crate) fn document(plain: &Plain, host: &str) -> Option<Value> {
    match plain {
        Plain::Api => Some(json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}],
        })),
        Plain::Apis => Some(json!({
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": GROUPS.iter().map(|g| group(g)).collect::<Vec<_>>(),
        })),
        Plain::Group(name) => GROUPS.contains(&name.as_str()).then(|| {
            let mut group = group(name);
            group["kind"] = "APIGroup".into();
            group["apiVersion"] = "v1".into();
            group
        }),
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
        Plain::Health => None,
    }
}

fn group(name: &str) -> Value {
    let version = json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
    json!({"name": name, "versions": [version.clone()], "preferredVersion": version})
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
