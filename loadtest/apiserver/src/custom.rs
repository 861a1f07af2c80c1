//! Custom resources: the kinds that a `CustomResourceDefinition` defines, one for each version it serves.

use crate::json::{list, text, texts};
use crate::kinds::{Facts, Kind, PLAIN, Role, Selectable};
use crate::object::next_generation;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::BTreeMap;

/// Holds a definition that is deleted up until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The kinds that were made so far, by the spec they were made of. Equal specs share theirs, whatever server asks, so
/// that a kind can be a pointer that copies: it lives as long as the process, and a process has few.
static MADE: Mutex<BTreeMap<String, Vec<Kind>>> = Mutex::new(BTreeMap::new());

/// The kinds of a definition that was checked; the first is the one whose version is preferred.
pub(crate) fn kinds_of(definition: &Value) -> Vec<Kind> {
    let spec = &definition["spec"];
    let make = || {
        let mut served: Vec<&Value> = list(spec, "/versions").iter().collect();
        served.retain(|version| version["served"] == true);
        served.sort_by_key(|version| std::cmp::Reverse(priority(text(version, "/name"))));
        let kinds = served
            .into_iter()
            .map(|version| Box::leak(Box::new(facts(spec, version))));
        kinds.map(|facts| Kind::new(facts)).collect()
    };
    MADE.lock().entry(spec.to_string()).or_insert_with(make).clone()
}

/// How stable and how new a version is: v2 before v1 before v1beta2 before v1alpha1, and then all other names.
fn priority(version: &str) -> (u8, u32, u32) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let (major, rest) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
        let minor = |stage: &str| rest.strip_prefix(stage)?.parse().ok();
        let (stage, minor) = match rest {
            "" => (3, 0),
            _ => minor("beta")
                .map(|minor| (2, minor))
                .or(minor("alpha").map(|minor| (1, minor)))?,
        };
        Some((stage, major.parse().ok()?, minor))
    };
    parse().unwrap_or((0, 0, 0))
}

fn keep(text: &str) -> &'static str {
    String::leak(text.to_owned())
}

fn keep_texts(texts: &[String]) -> &'static [&'static str] {
    Vec::leak(texts.iter().map(|text| keep(text)).collect())
}

fn facts(spec: &Value, version: &Value) -> Facts {
    let has_status = version.pointer("/subresources/status").is_some();
    let fields = list(version, "/selectableFields").iter();
    let fields = fields.map(|field| Selectable::new(keep(text(field, "/jsonPath").trim_start_matches('.'))));
    let api_version = format!("{}/{}", text(spec, "/group"), text(version, "/name"));
    Facts {
        api_version: keep(&api_version),
        resource: keep(text(spec, "/names/plural")),
        singular: keep(text(spec, "/names/singular")),
        kind: keep(text(spec, "/names/kind")),
        list_kind: keep(text(spec, "/names/listKind")),
        short_names: keep_texts(&texts(spec, "/names/shortNames")),
        categories: keep_texts(&texts(spec, "/names/categories")),
        namespaced: text(spec, "/scope") == "Namespaced",
        subresources: if has_status { &["status"] } else { &[] },
        role: Role::Custom,
        schema: "CustomResource",
        unconditional_update: false,
        fields: Vec::leak(fields.collect()),
        create: if has_status { create_without_status } else { create },
        update,
        update_status,
        ..PLAIN
    }
}

fn create(value: &mut Value) {
    value["metadata"]["generation"] = 1.into();
}

fn create_without_status(value: &mut Value) {
    create(value);
    if let Some(fields) = value.as_object_mut() {
        fields.remove("status");
    }
}

/// Whatever changes beside the metadata begins a generation; a status of its own is as it was by now.
fn update(new: &mut Value, old: &Value) {
    let rest = |value: &Value| {
        let fields = value.as_object().into_iter().flatten();
        let fields = fields.filter(|(name, _)| *name != "metadata");
        fields
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect::<BTreeMap<_, _>>()
    };
    if rest(new) != rest(old) {
        next_generation(new, old);
    }
}

/// Takes only the status from such an update, and the record of field managers.
fn update_status(new: &mut Value, old: &Value) {
    let mut value = old.clone();
    match new.get_mut("status").map(Value::take) {
        Some(status) => value["status"] = status,
        None => drop(value.as_object_mut().and_then(|fields| fields.remove("status"))),
    }
    if let Some(managed) = new.pointer("/metadata/managedFields") {
        value["metadata"]["managedFields"] = managed.clone();
    }
    *new = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_in_order() {
        let mut versions = ["v1alpha1", "foo", "v1beta2", "v2", "v10", "v1", "v1beta10"];
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v1beta10", "v1beta2", "v1alpha1", "foo"]
        );
    }
}
