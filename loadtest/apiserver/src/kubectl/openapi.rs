//! Documents of the `OpenAPI`, made of the table of types: enough for clients that check, explain or merge by them.

use crate::kinds::Kind;
use crate::schema::{Field, Merge, Rule, SCHEMA, Shape, Struct, go_name};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";

/// The descriptions of types and fields: `TYPE text` or `TYPE.FIELD text`.
static ABOUT: LazyLock<BTreeMap<&str, &str>> = LazyLock::new(|| {
    include_str!("about.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .collect()
});

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

/// The fields in which each object names its own type.
const TYPE_FIELDS: [(&str, &str); 2] = [
    ("apiVersion", "The version of the API this object is written in."),
    ("kind", "The kind of this object."),
];

/// `api/v1` or `apis/GROUP/VERSION`.
fn root(kind: Kind) -> String {
    let place = if kind.group().is_empty() { "api" } else { "apis" };
    format!("{place}/{}", kind.api_version)
}

/// The document at a path below `/openapi`; none when nothing is served there.
pub(crate) fn document(path: &str, kinds: &[Kind]) -> Option<Value> {
    match path {
        "v2" => Some(two(kinds)),
        "v3" => Some(index(kinds)),
        path => three(kinds, path.strip_prefix("v3/")?),
    }
}

/// The document of version 2.
fn two(kinds: &[Kind]) -> Value {
    whole(Version::Two, kinds)
}

/// Which documents of version 3 there are.
fn index(kinds: &[Kind]) -> Value {
    let paths: BTreeSet<String> = kinds.iter().map(|kind| root(*kind)).collect();
    let paths = paths.into_iter().map(|path| {
        // The hash is for caches: another version of this crate, or of a definition, may tell otherwise.
        let definitions = kinds
            .iter()
            .filter(|kind| root(**kind) == path)
            .map(|kind| custom_schema(*kind));
        let definitions = definitions
            .flatten()
            .map(|schema| schema.to_string().len())
            .sum::<usize>();
        let version = env!("CARGO_PKG_VERSION");
        let url = format!("/openapi/v3/{path}?hash={version}-{definitions}");
        (path, json!({"serverRelativeURL": url}))
    });
    json!({"paths": paths.collect::<Map<_, _>>()})
}

/// A document of version 3; none when nothing is served there.
fn three(kinds: &[Kind], path: &str) -> Option<Value> {
    let kinds: Vec<Kind> = kinds.iter().copied().filter(|kind| root(*kind) == path).collect();
    (!kinds.is_empty()).then(|| whole(Version::Three, &kinds))
}

/// The package a type is of.
fn package(name: &str) -> &'static str {
    match name {
        "ObjectMeta"
        | "OwnerReference"
        | "ManagedFieldsEntry"
        | "LabelSelector"
        | "LabelSelectorRequirement"
        | "Condition" => META,
        "EndpointSlice" | "Endpoint" | "EndpointConditions" | "EndpointHints" | "ForZone" | "ForNode"
        | "SlicePort" => "io.k8s.api.discovery.v1",
        "Lease" | "LeaseSpec" => "io.k8s.api.coordination.v1",
        "NewEvent" | "NewEventSeries" => "io.k8s.api.events.v1",
        "RollingUpdateDeployment" => "io.k8s.api.apps.v1",
        name if name.starts_with("Deployment") => "io.k8s.api.apps.v1",
        name if name.starts_with("CustomResource") => {
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
        }
        "SelectableField" => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
        _ => "io.k8s.api.core.v1",
    }
}

fn type_name(name: &str) -> String {
    format!("{}.{}", package(name), go_name(name))
}

/// The schema of a custom resource, as its definition has it.
fn custom_schema(kind: Kind) -> Option<&'static Value> {
    kind.custom?.pointer("/schema/openAPIV3Schema")
}

/// The name of a kind's type. The group of a custom resource is turned around, as in a package's name.
fn name_of(kind: Kind) -> String {
    if kind.is_custom() {
        let group: Vec<&str> = kind.group().rsplit('.').collect();
        format!("{}.{}.{}", group.join("."), kind.version(), kind.kind)
    } else {
        type_name(kind.schema)
    }
}

impl Version {
    fn reference(self, name: &str) -> Value {
        let place = match self {
            Self::Two => "#/definitions",
            Self::Three => "#/components/schemas",
        };
        json!({"$ref": format!("{place}/{name}")})
    }

    fn shape(self, shape: &Shape, used: &mut BTreeSet<usize>) -> Value {
        match shape {
            Shape::Text => json!({"type": "string"}),
            Shape::Bytes => json!({"type": "string", "format": "byte"}),
            Shape::Integer => json!({"type": "integer", "format": "int32"}),
            Shape::Long => json!({"type": "integer", "format": "int64"}),
            Shape::Boolean => json!({"type": "boolean"}),
            Shape::Number => json!({"type": "number", "format": "double"}),
            Shape::IntegerOrText => self.reference(INT_OR_STRING),
            Shape::Quantity => self.reference(QUANTITY),
            Shape::Time | Shape::MicroTime => json!({"type": "string", "format": "date-time"}),
            Shape::Any | Shape::Free => json!({"type": "object"}),
            Shape::List(item) => json!({"type": "array", "items": self.shape(item, used)}),
            Shape::Map(item) => json!({"type": "object", "additionalProperties": self.shape(item, used)}),
            Shape::Struct(index) => {
                used.insert(*index);
                self.reference(&type_name(SCHEMA.structs[*index].name))
            }
        }
    }

    fn property(self, owner: &str, field: &Field, used: &mut BTreeSet<usize>) -> Value {
        let mut property = self.shape(&field.shape, used);
        if let Some(about) = ABOUT.get(format!("{owner}.{}", field.name).as_str()) {
            if let (Version::Three, Some(reference)) = (self, property.get("$ref").cloned()) {
                // Fields beside a reference are not read.
                property = json!({"allOf": [{"$ref": reference}]});
            }
            property["description"] = (*about).into();
        }
        match &field.merge {
            Merge::Keyed { keys, patch, retain } => {
                let names: Vec<&str> = keys.iter().map(|(key, _)| *key).collect();
                property["x-kubernetes-list-type"] = "map".into();
                property["x-kubernetes-list-map-keys"] = names.into();
                if *patch {
                    property["x-kubernetes-patch-merge-key"] = keys[0].0.into();
                    let strategy = if *retain { "merge,retainKeys" } else { "merge" };
                    property["x-kubernetes-patch-strategy"] = strategy.into();
                }
            }
            Merge::Set => {
                property["x-kubernetes-list-type"] = "set".into();
                property["x-kubernetes-patch-strategy"] = "merge".into();
            }
            Merge::Atomic => property["x-kubernetes-map-type"] = "atomic".into(),
            Merge::Whole if matches!(field.shape, Shape::List(_)) => {
                property["x-kubernetes-list-type"] = "atomic".into();
            }
            Merge::Whole => {}
        }
        property
    }

    /// The schema of a custom resource: as its definition has it, with the metadata that all objects have.
    fn custom_schema(self, kind: Kind, schema: &Value, used: &mut BTreeSet<usize>) -> Value {
        let mut schema = schema.clone();
        let metadata = self.shape(&Shape::Struct(SCHEMA.named("ObjectMeta")), used);
        if !schema.get("properties").is_some_and(Value::is_object) {
            schema["properties"] = json!({});
        }
        for (name, about) in TYPE_FIELDS {
            schema["properties"][name] = json!({"type": "string", "description": about});
        }
        schema["properties"]["metadata"] = metadata;
        schema["x-kubernetes-group-version-kind"] = json!([gvk(kind)]);
        schema
    }

    fn schema(self, kind: &Struct, root: Option<Kind>, used: &mut BTreeSet<usize>) -> Value {
        let mut properties = Map::new();
        if root.is_some() {
            for (name, about) in TYPE_FIELDS {
                properties.insert(name.to_owned(), json!({"type": "string", "description": about}));
            }
        }
        for field in &kind.fields {
            properties.insert(field.name.to_owned(), self.property(kind.name, field, used));
        }
        let about = ABOUT.get(kind.name).copied().unwrap_or("");
        let mut schema = json!({"type": "object", "description": about, "properties": properties});
        let required: Vec<&str> = kind
            .fields
            .iter()
            .filter(|field| field.rule == Rule::Always && !matches!(field.shape, Shape::Time))
            .map(|field| field.name)
            .collect();
        if !required.is_empty() && root.is_none() {
            schema["required"] = required.into();
        }
        if kind.atomic {
            schema["x-kubernetes-map-type"] = "atomic".into();
        }
        if let Some(kind) = root {
            schema["x-kubernetes-group-version-kind"] = json!([gvk(kind)]);
        }
        schema
    }

    /// Returns the operations that a kind has at a path.
    fn operations(self, kind: Kind, path: &str) -> Value {
        let named = path.ends_with("{name}");
        let schema = self.reference(&name_of(kind));
        let mut parameters: Vec<Value> = Vec::new();
        for name in ["namespace", "name"] {
            if path.contains(&format!("{{{name}}}")) {
                parameters.push(self.parameter(name, "path", "string"));
            }
        }
        let mut operations = json!({"parameters": parameters});
        let all: &[(&str, &str)] = if named {
            &[
                ("get", "get"),
                ("put", "put"),
                ("patch", "patch"),
                ("delete", "delete"),
            ]
        } else if kind.namespaced && !path.contains("{namespace}") {
            &[("get", "list")]
        } else {
            &[("get", "list"), ("post", "post"), ("delete", "deletecollection")]
        };
        for (method, action) in all {
            if *action == "deletecollection" && !kind.delete_collection {
                continue;
            }
            let options: &[(&str, &str)] = match *method {
                "get" => &[
                    ("labelSelector", "string"),
                    ("fieldSelector", "string"),
                    ("watch", "boolean"),
                ],
                "delete" => &[("dryRun", "string"), ("propagationPolicy", "string")],
                "patch" => &[
                    ("dryRun", "string"),
                    ("fieldManager", "string"),
                    ("fieldValidation", "string"),
                    ("force", "boolean"),
                ],
                _ => &[
                    ("dryRun", "string"),
                    ("fieldManager", "string"),
                    ("fieldValidation", "string"),
                ],
            };
            let mut options: Vec<Value> = options
                .iter()
                .map(|(name, kind)| self.parameter(name, "query", kind))
                .collect();
            let mut operation = json!({
                "x-kubernetes-action": action,
                "x-kubernetes-group-version-kind": gvk(kind),
            });
            let media: &[&str] = match *method {
                "patch" => &[
                    "application/apply-patch+yaml",
                    "application/json-patch+json",
                    "application/merge-patch+json",
                    "application/strategic-merge-patch+json",
                ],
                "post" | "put" => &["application/json"],
                _ => &[],
            };
            let answer = match self {
                Self::Two => {
                    if !media.is_empty() {
                        operation["consumes"] = media.into();
                        options
                            .push(json!({"name": "body", "in": "body", "required": true, "schema": schema}));
                    }
                    operation["produces"] = json!(["application/json"]);
                    json!({"description": "OK", "schema": schema})
                }
                Self::Three => {
                    if !media.is_empty() {
                        let content: Map<String, Value> = media
                            .iter()
                            .map(|media| ((*media).to_owned(), json!({"schema": schema})))
                            .collect();
                        operation["requestBody"] = json!({"content": content});
                    }
                    json!({"description": "OK", "content": {"application/json": {"schema": schema}}})
                }
            };
            operation["parameters"] = options.into();
            operation["responses"] = json!({"200": answer});
            operations[*method] = operation;
        }
        operations
    }

    fn parameter(self, name: &str, place: &str, kind: &str) -> Value {
        let mut parameter = json!({"name": name, "in": place});
        match self {
            Self::Two => {
                parameter["type"] = kind.into();
                parameter["uniqueItems"] = true.into();
            }
            Self::Three => parameter["schema"] = json!({"type": kind, "uniqueItems": true}),
        }
        if place == "path" {
            parameter["required"] = true.into();
        }
        parameter
    }
}

fn gvk(kind: Kind) -> Value {
    json!({"group": kind.group(), "version": kind.version(), "kind": kind.kind})
}

fn whole(version: Version, kinds: &[Kind]) -> Value {
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    let mut used: BTreeSet<usize> = BTreeSet::new();
    for kind in kinds.iter().copied() {
        let (root, resource) = (root(kind), kind.resource);
        let mut places = vec![format!("/{root}/{resource}")];
        if kind.namespaced {
            places.push(format!("/{root}/namespaces/{{namespace}}/{resource}"));
        }
        places.extend(places.last().map(|collection| format!("{collection}/{{name}}")));
        for path in places {
            let operations = version.operations(kind, &path);
            paths.insert(path, operations);
        }
        if let Some(schema) = custom_schema(kind) {
            schemas.insert(name_of(kind), version.custom_schema(kind, schema, &mut used));
        } else {
            used.insert(SCHEMA.root(kind));
        }
    }
    let mut done: BTreeSet<usize> = BTreeSet::new();
    while let Some(index) = used.difference(&done).next().copied() {
        done.insert(index);
        let kind = &SCHEMA.structs[index];
        let root = kinds.iter().copied().find(|root| root.schema == kind.name);
        schemas.insert(type_name(kind.name), version.schema(kind, root, &mut used));
    }
    schemas.insert(
        QUANTITY.to_owned(),
        json!({"type": "string", "description": "A number with a unit, such as 500m or 2Gi."}),
    );
    let either = json!({"type": "string", "format": "int-or-string", "description": "A number or a name."});
    schemas.insert(INT_OR_STRING.to_owned(), either);
    let info = json!({"title": "Kubernetes", "version": "v1.36.0"});
    match version {
        Version::Two => json!({"swagger": "2.0", "info": info, "paths": paths, "definitions": schemas}),
        Version::Three => {
            json!({"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;

    /// All references of a document lead somewhere.
    fn check(document: &Value, schemas: &Value, prefix: &str) {
        match document {
            Value::Object(entries) => {
                if let Some(reference) = entries.get("$ref").and_then(Value::as_str) {
                    let name = reference.strip_prefix(prefix).unwrap();
                    assert!(schemas.get(name).is_some(), "{name}");
                }
                for value in entries.values() {
                    check(value, schemas, prefix);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| check(item, schemas, prefix)),
            _ => {}
        }
    }

    #[test]
    fn references_lead_somewhere() {
        let kinds = catalog::all();
        for path in kinds.iter().map(|kind| root(*kind)) {
            let document = three(&kinds, &path).unwrap();
            check(
                &document,
                &document["components"]["schemas"],
                "#/components/schemas/",
            );
        }
        let two = two(&kinds);
        check(&two, &two["definitions"], "#/definitions/");
    }

    #[test]
    fn every_text_is_about_something() {
        for name in ABOUT.keys() {
            let (kind, field) = name.split_once('.').unwrap_or((name, ""));
            let kind = SCHEMA.structs.iter().find(|s| s.name == kind);
            let kind = kind.unwrap_or_else(|| panic!("{name} is about no type"));
            assert!(
                field.is_empty() || kind.field(field).is_some(),
                "{name} is about no field"
            );
        }
    }

    #[test]
    fn what_merging_needs() {
        let kinds = catalog::all();
        let core = three(&kinds, "api/v1").unwrap();
        let spec = &core["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"];
        assert_eq!(spec["containers"]["x-kubernetes-patch-merge-key"], "name");
        assert_eq!(spec["volumes"]["x-kubernetes-patch-strategy"], "merge,retainKeys");
        assert_eq!(spec["nodeSelector"]["x-kubernetes-map-type"], "atomic");
        assert!(index(&kinds)["paths"]["apis/discovery.k8s.io/v1"]["serverRelativeURL"].is_string());
    }
}
