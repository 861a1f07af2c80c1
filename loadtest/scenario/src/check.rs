//! Refuses scenarios that could write to objects that they have not created.

use crate::{Api, Error, MARK, Scenario};
use serde_json::Value;
use std::collections::BTreeSet;

impl Scenario<'_> {
    /// Checks, before anything is sent, that the steps can be carried out and that they stay within the scenario: in
    /// its namespace, and at Nodes that it has created. A Namespace is neither created, patched nor deleted by an
    /// operation, but for `delete_namespace`.
    ///
    /// # Errors
    ///
    /// When they do not; the error names the step.
    pub fn check(self) -> Result<(), Error> {
        let mut nodes = BTreeSet::new();
        for (i, step) in self.steps().iter().enumerate() {
            check_step(step, &mut nodes).map_err(|why| Error::Scenario(format!("step {i}: {why}")))?;
        }
        Ok(())
    }
}

/// Checks a step, and adds the Nodes that it creates.
fn check_step(step: &Value, nodes: &mut BTreeSet<String>) -> Result<(), String> {
    let operations = step
        .as_object()
        .map(|fields| fields.get("do").unwrap_or(&Value::Null))
        .ok_or_else(|| format!("{step} is not an object"))?;
    let operations = match operations {
        Value::Null => &[],
        Value::Array(operations) => &operations[..],
        other => return Err(format!("the operations are not a list but {other}")),
    };
    operations.iter().try_for_each(|operation| {
        check_operation(operation, nodes).map_err(|why| format!("{why}: {}", short(operation)))
    })
}

fn check_operation(operation: &Value, nodes: &mut BTreeSet<String>) -> Result<(), String> {
    let fields = operation.as_object().filter(|fields| fields.len() == 1);
    let Some((verb, of)) = fields.and_then(|fields| fields.iter().next()) else {
        return Err("not an operation".to_owned());
    };
    match verb.as_str() {
        "create" => {
            let (kind, meta) = (kind(of)?, &of["metadata"]);
            if kind == "Node" {
                let name = meta["name"].as_str().filter(|name| is_name(name));
                nodes.insert(name.ok_or("Nodes need a name of their own")?.to_owned());
                keeps_mark(meta)?;
            }
            Ok(())
        }
        "patch" | "delete" => {
            let kind = kind(of)?;
            let name = name(&of["name"])?;
            if kind == "Node" && !nodes.contains(name) {
                return Err(format!("the scenario has not created the Node {name} before"));
            }
            if kind == "Node" {
                keeps_mark(&of["patch"]["metadata"])?;
            }
            match of.get("sub") {
                None | Some(Value::Null) => Ok(()),
                Some(sub) if sub == "status" => Ok(()),
                Some(sub) => Err(format!("unknown subresource {sub}")),
            }
        }
        "patch_slices" | "delete_slices" => name(&of["service"]).map(drop),
        "delete_namespace" => Ok(()),
        "sleep" if of.is_number() => Ok(()),
        _ => Err("unknown operation".to_owned()),
    }
}

/// Checks that what is written to a Node leaves the mark of its creation alone.
fn keeps_mark(meta: &Value) -> Result<(), String> {
    match meta.get("annotations") {
        None => Ok(()),
        Some(Value::Object(annotations)) if !annotations.contains_key(MARK) => Ok(()),
        Some(_) => Err(format!(
            "annotations of Nodes are added one by one, and {MARK} is not for scenarios"
        )),
    }
}

/// The kind of objects that an operation is about.
fn kind(of: &Value) -> Result<&str, String> {
    let kind = of["kind"].as_str().unwrap_or_default();
    if kind == "Namespace" {
        return Err(
            "operations on Namespaces are refused; delete_namespace deletes the scenario's own".to_owned(),
        );
    }
    match Api::path(kind, "", None) {
        Ok(_) => Ok(kind),
        Err(error) => Err(error.to_string()),
    }
}

fn name(value: &Value) -> Result<&str, String> {
    let name = value.as_str().filter(|name| is_name(name));
    name.ok_or_else(|| format!("{value} is not a name"))
}

/// Whether a text can be a name: it becomes a part of a path, which it must not lead elsewhere.
fn is_name(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    text.chars().all(is_allowed) && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// An operation on one line that is not too long.
fn short(operation: &Value) -> String {
    const MOST: usize = 100;
    let text = operation.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn scenarios_stay_with_what_they_have_created() {
        let node = json!({"create": {"kind": "Node", "metadata": {"name": "n1"}}});
        let good = json!({"steps": [
            {"do": [node, {"patch": {"kind": "Node", "name": "n1", "sub": "status", "patch": {}}}]},
            {"do": [{"delete": {"kind": "Node", "name": "n1"}}, {"delete": {"kind": "Pod", "name": "a.b-1"}}]},
            {"do": [{"delete_slices": {"service": "s"}}, {"sleep": 0.5}, {"delete_namespace": true}]},
            {},
        ]});
        Scenario(&good).check().unwrap();
        for (operation, why) in [
            (
                json!({"delete": {"kind": "Namespace", "name": "prod"}}),
                "Namespaces are refused",
            ),
            (
                json!({"patch": {"kind": "Namespace", "name": "prod", "patch": {}}}),
                "Namespaces are refused",
            ),
            (
                json!({"create": {"kind": "Namespace", "metadata": {"name": "x"}}}),
                "Namespaces are refused",
            ),
            (
                json!({"delete": {"kind": "Node", "name": "prod"}}),
                "has not created the Node prod",
            ),
            (
                json!({"patch": {"kind": "Node", "name": "prod", "patch": {}}}),
                "has not created the Node prod",
            ),
            (
                json!({"create": {"kind": "Node", "metadata": {"generateName": "n-"}}}),
                "need a name",
            ),
            (
                json!({"create": {"kind": "Node", "metadata": {"name": "n", "annotations": "x"}}}),
                "annotations",
            ),
            (
                json!({"delete": {"kind": "Pod", "name": "../../../nodes/prod"}}),
                "is not a name",
            ),
            (json!({"delete": {"kind": "Pod", "name": ""}}), "is not a name"),
            (json!({"delete": {"kind": "Secret", "name": "s"}}), "Secret"),
            (
                json!({"patch": {"kind": "Pod", "name": "p", "sub": "../q", "patch": {}}}),
                "unknown subresource",
            ),
            (json!({"drop": {}}), "unknown operation"),
            (json!("x"), "not an operation"),
        ] {
            let bad = json!({"steps": [{"do": []}, {"do": [operation]}]});
            let error = Scenario(&bad).check().unwrap_err().to_string();
            assert!(error.starts_with("step 1: ") && error.contains(why), "{error}");
            assert_eq!(error.lines().count(), 1);
        }
        for step in [json!("x"), json!({"do": "x"})] {
            let bad = json!({"steps": [step]});
            assert!(Scenario(&bad).check().is_err(), "{bad}");
        }
    }
}
