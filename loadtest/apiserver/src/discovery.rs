//! The documents that tell clients what is served.

use crate::access::Review;
use crate::kinds::Kind;
use crate::route::Plain;
use serde_json::{Value, json};

const REVIEWS: [(&str, &str); 2] = [("authentication.k8s.io", "v1"), ("authorization.k8s.io", "v1")];

/// The document at a path; none when nothing is served there. Reviews are served where access is controlled.
pub(crate) fn document(plain: &Plain, kinds: &[Kind], reviews: bool) -> Option<Value> {
    match plain {
        Plain::Api => Some(json!({
            "kind": "APIVersions",
            "versions": ["v1"],
        })),
        Plain::Apis => Some(json!({
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": groups(kinds, reviews).iter().map(group).collect::<Vec<_>>(),
        })),
        Plain::Group(name) => {
            let groups = groups(kinds, reviews);
            let mut group = group(groups.iter().find(|(group, _)| group == name)?);
            group["kind"] = "APIGroup".into();
            group["apiVersion"] = "v1".into();
            Some(group)
        }
        Plain::Resources(group, version) => {
            let reviewed = reviews && REVIEWS.contains(&(group, version));
            let list: Vec<Value> = if reviewed {
                let reviews = Review::ALL.into_iter().filter(|review| review.group() == group);
                reviews.map(review).collect()
            } else {
                let is_here = |kind: &&Kind| kind.group() == group && kind.version() == version;
                kinds
                    .iter()
                    .filter(is_here)
                    .flat_map(|kind| entries(*kind))
                    .collect()
            };
            resources(group, version, &list)
        }
        Plain::Version => Some(json!({
            "major": "1",
            "minor": "36",
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

/// The groups beside the core, each with its versions. The first is preferred.
fn groups(kinds: &[Kind], reviews: bool) -> Vec<(&'static str, Vec<&'static str>)> {
    let reviewed = REVIEWS.into_iter().filter(|_| reviews);
    let served = kinds.iter().map(|kind| (kind.group(), kind.version()));
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (group, version) in served.filter(|(group, _)| !group.is_empty()).chain(reviewed) {
        match groups.iter_mut().find(|(name, _)| *name == group) {
            Some((_, versions)) if versions.contains(&version) => {}
            Some((_, versions)) => versions.push(version),
            None => groups.push((group, vec![version])),
        }
    }
    groups
}

fn group((name, versions): &(&str, Vec<&str>)) -> Value {
    let entry = |version: &&str| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    let versions: Vec<Value> = versions.iter().map(entry).collect();
    json!({"name": name, "preferredVersion": versions[0], "versions": versions})
}

fn review(review: Review) -> Value {
    json!({
        "name": review.resource(), "singularName": review.kind().to_ascii_lowercase(), "namespaced": false,
        "kind": review.kind(), "verbs": ["create"],
    })
}

fn resources(group: &str, version: &str, list: &[Value]) -> Option<Value> {
    if list.is_empty() {
        return None;
    }
    Some(match group {
        "" => json!({"kind": "APIResourceList", "groupVersion": version, "resources": list}),
        group => json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/{version}"),
            "resources": list,
        }),
    })
}

/// A kind's entry and those of its subresources.
fn entries(kind: Kind) -> Vec<Value> {
    let mut verbs = vec!["create", "delete", "get", "list", "patch", "update", "watch"];
    if kind.delete_collection {
        verbs.push("deletecollection");
    }
    let mut main = json!({
        "name": kind.resource,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": verbs,
        "shortNames": kind.short_names,
    });
    if kind.is_of_all {
        main["categories"] = json!(["all"]);
    }
    let sub = |sub: &&str| {
        let (of_kind, verbs) = match *sub {
            "binding" => ("Binding", &["create"][..]),
            "finalize" => (kind.kind, &["update"][..]),
            "scale" => ("Scale", &["get", "patch"][..]),
            _ => (kind.kind, &["get", "patch", "update"][..]),
        };
        let mut entry = json!({
            "name": format!("{}/{sub}", kind.resource),
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": of_kind,
            "verbs": verbs,
        });
        if *sub == "scale" {
            (entry["group"], entry["version"]) = ("autoscaling".into(), "v1".into());
        }
        entry
    };
    std::iter::once(main)
        .chain(kind.subresources.iter().map(sub))
        .collect()
}
