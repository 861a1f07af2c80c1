//! Deployments. They are kept; no controller acts on them.

use super::pod;
use crate::cause::Faults;
use crate::json::{fill, list, number, object_at, text};
use crate::object::next_generation;
use serde_json::{Value, json};

pub(crate) fn default(value: &mut Value) {
    object_at(value, "status");
    let spec = object_at(value, "spec");
    fill(
        spec,
        &[
            ("replicas", 1.into()),
            ("revisionHistoryLimit", 10.into()),
            ("progressDeadlineSeconds", 600.into()),
        ],
    );
    let strategy = object_at(&mut value["spec"], "strategy");
    fill(strategy, &[("type", "RollingUpdate".into())]);
    if strategy["type"] == "RollingUpdate" {
        let quarter = [("maxSurge", "25%".into()), ("maxUnavailable", "25%".into())];
        fill(
            object_at(&mut value["spec"]["strategy"], "rollingUpdate"),
            &quarter,
        );
    }
    let template = &mut value["spec"]["template"];
    object_at(template, "metadata");
    object_at(template, "spec");
    pod::default_spec(&mut template["spec"]);
}

pub(crate) fn create(value: &mut Value) {
    value["metadata"]["generation"] = 1.into();
    value["status"] = json!({});
}

pub(crate) fn update(new: &mut Value, old: &Value) {
    let at = |value: &Value| value.pointer("/metadata/annotations").cloned();
    if new["spec"] != old["spec"] || at(new) != at(old) {
        next_generation(new, old);
    }
}

pub(crate) fn check(faults: &mut Faults, value: &Value, old: Option<&Value>) {
    let spec = &value["spec"];
    for field in ["replicas", "minReadySeconds", "revisionHistoryLimit"] {
        let count = number(spec, &format!("/{field}"));
        if count < 0 {
            let why = "must be greater than or equal to 0";
            faults.invalid(&format!("spec.{field}"), &count.into(), why);
        }
    }
    if number(spec, "/progressDeadlineSeconds") <= number(spec, "/minReadySeconds") {
        let seconds = &spec["progressDeadlineSeconds"];
        faults.invalid(
            "spec.progressDeadlineSeconds",
            seconds,
            "must be greater than minReadySeconds",
        );
    }
    let strategy = text(spec, "/strategy/type");
    if !matches!(strategy, "Recreate" | "RollingUpdate") {
        faults.not_supported("spec.strategy.type", strategy, &["Recreate", "RollingUpdate"]);
    }
    let wanted = spec["selector"]["matchLabels"].as_object();
    if wanted.is_none() && list(spec, "/selector/matchExpressions").is_empty() {
        faults.required("spec.selector", "");
    }
    let labels = &spec["template"]["metadata"]["labels"];
    if wanted.is_some_and(|wanted| wanted.iter().any(|(key, value)| labels.get(key) != Some(value))) {
        let why = "`selector` does not match template `labels`";
        let labels = if labels.is_null() { &json!({}) } else { labels };
        faults.invalid("spec.template.metadata.labels", labels, why);
    }
    pod::check_spec(faults, "spec.template.spec", &spec["template"]["spec"]);
    let policy = text(spec, "/template/spec/restartPolicy");
    if policy != "Always" {
        faults.not_supported("spec.template.spec.restartPolicy", policy, &["Always"]);
    }
    if let Some(old) = old {
        faults.immutable("spec.selector", &spec["selector"], &old["spec"]["selector"]);
    }
}
