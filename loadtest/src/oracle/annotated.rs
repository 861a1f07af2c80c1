//! Services whose annotation says what is published: which pods they select. Read here by plain splitting, and not with endpointd's parser, so that one mistake does not hide in both.

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::ResourceExt;

const SELECTOR: &str = "endpointd.io/selector";

/// The selector of a Service whose annotation counts: it has no other, and is not of type `ExternalName`.
pub(super) fn of(service: &Service) -> Option<&str> {
    let text = service.annotations().get(SELECTOR)?;
    let has_spec = service.spec.is_some();
    (has_spec && !has_selector(service) && !is_external(service)).then_some(text)
}

pub(super) fn has_selector(service: &Service) -> bool {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| !selector.is_empty())
}

/// Whether the Service stands for a name outside of the cluster.
pub(super) fn is_external(service: &Service) -> bool {
    let kind = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
    kind == Some("ExternalName")
}

/// Whether the text is a selector that can be used. Knows the mistakes that the generator makes, and no others.
pub(super) fn is_valid(text: &str) -> bool {
    !text.trim().is_empty() && !text.ends_with("in app1") && !text.contains("==!")
}

/// Whether such a selector matches the pod's labels.
pub(super) fn matches(text: &str, pod: &Pod) -> bool {
    is_valid(text)
        && requirements(text)
            .into_iter()
            .all(|requirement| is_met(requirement, pod))
}

/// Splits at commas outside of parentheses.
fn requirements(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                found.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(text[start..].trim());
    found
}

fn is_met(requirement: &str, pod: &Pod) -> bool {
    let value = |key: &str| pod.labels().get(key.trim()).map(String::as_str);
    let is_in = |key: &str, values: &str| {
        let values = values.trim().trim_start_matches('(').trim_end_matches(')');
        value(key).is_some_and(|value| values.split(',').any(|known| known.trim() == value))
    };
    if let Some(key) = requirement.strip_prefix('!') {
        value(key).is_none()
    } else if let Some((key, values)) = requirement.split_once(" notin ") {
        !is_in(key, values)
    } else if let Some((key, values)) = requirement.split_once(" in ") {
        is_in(key, values)
    } else if let Some((key, other)) = requirement.split_once("!=") {
        value(key) != Some(other.trim())
    } else if let Some((key, wanted)) = requirement.split_once('=') {
        value(key) == Some(wanted.trim_start_matches('=').trim())
    } else {
        value(requirement).is_some()
    }
}
