//! Requests that kubectl sends and controllers do not: tables, the document by which it checks and merges, and strategic merge
//! patches.

mod cells;
mod strategic;
mod table;

pub(crate) use self::strategic::merge as merge_strategically;
pub(crate) use self::table::{Style, bookmark, open};

use crate::kinds::Kind;
use serde_json::{Map, Value, json};

/// The media type of strategic merge patches.
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// The document of the `OpenAPI` at a path below `/openapi`; none where there is none. It says of each kind that the server
/// checks fields by itself, and so kubectl does not. It describes no fields: kubectl merges the kinds here as it is compiled to.
pub(crate) fn openapi(path: &str, kinds: &[Kind]) -> Option<Value> {
    let root = |kind: &Kind| match kind.group() {
        "" => "api/v1".to_owned(),
        _ => format!("apis/{}", kind.api_version),
    };
    if path == "v3" {
        let version = env!("CARGO_PKG_VERSION");
        let url = |root: &str| format!("/openapi/v3/{root}?hash={version}");
        let roots = kinds.iter().map(root);
        let paths = roots.map(|root| (root.clone(), json!({"serverRelativeURL": url(&root)})));
        return Some(json!({"paths": paths.collect::<Map<_, _>>()}));
    }
    let wanted = path.strip_prefix("v3/")?;
    let paths = kinds.iter().filter(|kind| root(kind) == wanted).map(|kind| {
        let namespace = if kind.namespaced { "namespaces/{namespace}/" } else { "" };
        let parameters = ["fieldManager", "fieldValidation"]
            .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string"}}));
        let patch = json!({
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": {"group": kind.group(), "version": kind.version(), "kind": kind.kind},
            "parameters": parameters,
        });
        let path = format!("/{wanted}/{namespace}{}/{{name}}", kind.resource);
        (path, json!({"patch": patch}))
    });
    let paths: Map<String, Value> = paths.collect();
    let info = json!({"title": "Kubernetes", "version": "v1.36.0"});
    (!paths.is_empty()).then(|| json!({"openapi": "3.0.0", "info": info, "paths": paths}))
}
