//! What two sides have settled on, Service by Service, and the differences that `docs/differences.md` explains.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use scenario::{TRIGGER, differences, without_trigger_times};
use serde_json::{Map, Value};

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MIRRORED_BY: &str = "endpointslicemirroring-controller.k8s.io";

// The first column of lines of docs/differences.md.
const EXTERNAL_NAME: &str = "Endpoints of a Service that becomes an `ExternalName`";
const SELECTOR_COMES: &str = "A Service gets a selector, and had mirrored slices";
const TRIGGER_TIME: &str = "Several changes share a write";
const ENDED_PODS: &str = "A selector comes to match pods that have ended";
const EMPTY_SLICE: &str =
    "The first pod of an address family comes, and another pod has none of the Service's ports";
/// All lines that are used here.
#[cfg(test)]
const LINES: [&str; 5] = [
    EXTERNAL_NAME,
    SELECTOR_COMES,
    TRIGGER_TIME,
    ENDED_PODS,
    EMPTY_SLICE,
];

/// What is published of each Service.
pub(super) type Published = BTreeMap<String, Value>;

/// A Service on whose objects the sides do not agree.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Difference {
    pub(super) service: String,
    upstream: Value,
    own: Value,
    lines: Vec<String>,
}

/// What is known of the Services of a history, beside what is published of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) external: BTreeSet<String>,
    /// They had no selector at some time.
    pub(super) without_selector: BTreeSet<String>,
    /// When pods ended, as their conditions have it.
    pub(super) ends: BTreeSet<String>,
}

/// Sorts a normalised state by Services.
pub(super) fn published(state: &Value) -> Published {
    let mut all = Published::new();
    let mut add = |service: &Value, field: &str, object: &Value| {
        let service = service.as_str().unwrap_or_default().to_owned();
        let entry = all.entry(service).or_insert_with(|| Value::Object(Map::new()));
        match &mut entry[field] {
            Value::Array(objects) => objects.push(object.clone()),
            other => *other = Value::Array(vec![object.clone()]),
        }
    };
    for object in state["endpoints"].as_array().into_iter().flatten() {
        add(&object["name"], "endpoints", object);
    }
    for field in ["endpointslices", "groups"] {
        for slice in state[field].as_array().into_iter().flatten() {
            let is_mirrored = slice["labels"][MANAGED_BY] == MIRRORED_BY;
            let mut slice = slice.clone();
            // Where packing is free, the controllers may use more slices or fewer.
            if let Some(fields) = slice.as_object_mut() {
                fields.remove("slices");
            }
            let kind = if is_mirrored { "mirrored" } else { field };
            add(&slice["labels"][SERVICE_NAME], kind, &slice);
        }
    }
    // In an order that does not depend on trigger times, so that those of the same objects are compared.
    for objects in all
        .values_mut()
        .filter_map(Value::as_object_mut)
        .flat_map(Map::values_mut)
    {
        if let Value::Array(objects) = objects {
            objects
                .sort_by_cached_key(|object| (without_trigger_times(object).to_string(), object.to_string()));
        }
    }
    all
}

/// The Services on which the sides do not agree, without those whose difference is known. Reasons of these are added.
pub(super) fn compare(
    upstream: &Published,
    own: &Published,
    facts: &Facts,
    max: usize,
    reasons: &mut BTreeSet<&'static str>,
) -> Vec<Difference> {
    let services: BTreeSet<&String> = upstream.keys().chain(own.keys()).collect();
    let none = Value::Object(Map::new());
    let mut found = Vec::new();
    for service in services {
        let of = |published: &Published| published.get(service).unwrap_or(&none).clone();
        let (upstream, own) = (of(upstream), of(own));
        let lines = differences(&upstream, &own, max);
        if lines.is_empty() {
            continue;
        }
        let difference = Difference {
            service: service.clone(),
            upstream,
            own,
            lines,
        };
        match difference.standing(facts, max) {
            Some(reason) => {
                reasons.insert(reason);
            }
            None => found.push(difference),
        }
    }
    found
}

// === impl Difference ===

impl Difference {
    /// The reason of a difference that lasts for as long as the Service is as it is.
    fn standing(&self, facts: &Facts, max: usize) -> Option<&'static str> {
        if facts.external.contains(&self.service) && self.is_of_mirrored_slices(max) {
            return Some(EXTERNAL_NAME);
        }
        self.is_of_empty_slices(max).then_some(EMPTY_SLICE)
    }

    /// The reason of a difference that has lasted too long for one that goes by itself; none if it has none.
    pub(super) fn reason(&self, facts: &Facts, max: usize) -> Option<&'static str> {
        if facts.without_selector.contains(&self.service) && self.is_of_mirrored_slices(max) {
            return Some(SELECTOR_COMES);
        }
        let (later, of_ended) = self.trigger_times(facts)?;
        match (later, of_ended) {
            (true, _) => Some(TRIGGER_TIME),
            (_, true) => Some(ENDED_PODS),
            _ => None,
        }
    }

    fn is_of_mirrored_slices(&self, max: usize) -> bool {
        let without = |value: &Value| {
            let mut value = value.clone();
            if let Some(fields) = value.as_object_mut() {
                fields.remove("mirrored");
            }
            value
        };
        differences(&without(&self.upstream), &without(&self.own), max).is_empty()
    }

    /// Upstream has empty slices without ports beside others of their family, and that is all.
    fn is_of_empty_slices(&self, max: usize) -> bool {
        let is_empty = |slice: &Value| {
            let none = |field: &str| slice[field].as_array().is_some_and(Vec::is_empty);
            none("endpoints") && none("ports")
        };
        let mut upstream = self.upstream.clone();
        for field in ["endpointslices", "groups"] {
            let Some(slices) = upstream[field].as_array_mut() else {
                continue;
            };
            let others: Vec<Value> = slices.iter().filter(|slice| !is_empty(slice)).cloned().collect();
            let beside = |slice: &Value| {
                others
                    .iter()
                    .any(|other| other["addressType"] == slice["addressType"])
            };
            slices.retain(|slice| !is_empty(slice) || !beside(slice));
        }
        if let Some(fields) = upstream.as_object_mut() {
            // Asking for a field that is not there has made one.
            fields.retain(|_, value| !value.is_null());
        }
        differences(&upstream, &self.own, max).is_empty()
    }

    /// If only trigger times differ: whether endpointd's are the earlier ones, object by object, and whether upstream's are those
    /// of pods that have ended.
    fn trigger_times(&self, facts: &Facts) -> Option<(bool, bool)> {
        let (mut upstream, mut own) = (Vec::new(), Vec::new());
        trigger_times(&self.upstream, &mut upstream);
        trigger_times(&self.own, &mut own);
        let alike = without_trigger_times(&self.upstream) == without_trigger_times(&self.own);
        if !alike || upstream.len() != own.len() {
            return None;
        }
        let pairs = || {
            upstream
                .iter()
                .zip(&own)
                .filter(|(upstream, own)| upstream != own)
        };
        let of_ended = pairs().all(|(upstream, _)| facts.ends.contains(upstream));
        Some((pairs().all(|(upstream, own)| own < upstream), of_ended))
    }
}

/// All trigger times, in the order of the objects.
fn trigger_times(value: &Value, times: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value.as_str().filter(|_| key == TRIGGER) {
                    Some(time) => times.push(time.to_owned()),
                    None => trigger_times(value, times),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| trigger_times(value, times)),
        _ => {}
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.service)?;
        for line in &self.lines {
            write!(f, "\n        {line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn slice(manager: &str, trigger: &str, address: &str) -> Value {
        json!({
            "labels": { SERVICE_NAME: "web", MANAGED_BY: manager },
            "annotations": { TRIGGER: trigger },
            "endpoints": [{ "addresses": [address] }],
        })
    }

    /// What is not explained, and the reasons that last, of a Service with these slices on both sides.
    fn compared(upstream: &[Value], own: &[Value], facts: &Facts) -> (Vec<Difference>, Vec<&'static str>) {
        let of = |slices: &[Value]| published(&json!({ "endpoints": [], "endpointslices": slices }));
        let mut reasons = BTreeSet::new();
        let found = compare(&of(upstream), &of(own), facts, 100, &mut reasons);
        (found, reasons.into_iter().collect())
    }

    #[test]
    fn a_difference_is_told_by_its_service() {
        let (a, b) = (slice("ours", "t1", "10.0.0.1"), slice("ours", "t1", "10.0.0.2"));
        assert!(
            compared(
                std::slice::from_ref(&a),
                std::slice::from_ref(&a),
                &Facts::default()
            )
            .0
            .is_empty()
        );
        let (found, reasons) = compared(&[a], &[b], &Facts::default());
        assert_eq!(
            (found.len(), reasons.len(), found[0].service.as_str()),
            (1, 0, "web")
        );
        assert_eq!(found[0].reason(&Facts::default(), 100), None);
        assert!(found[0].to_string().contains("10.0.0.1"));
    }

    #[test]
    fn mirrored_slices_of_an_external_name_are_explained_and_other_slices_are_not() {
        let (mirrored, own) = (
            slice(MIRRORED_BY, "t", "10.0.0.1"),
            slice("ours", "t", "10.0.0.2"),
        );
        let facts = Facts {
            external: BTreeSet::from(["web".to_owned()]),
            ..Facts::default()
        };
        let (found, reasons) = compared(
            &[mirrored.clone(), own.clone()],
            std::slice::from_ref(&own),
            &facts,
        );
        assert_eq!((found.len(), &reasons[..]), (0, &[EXTERNAL_NAME][..]));
        assert_eq!(
            compared(
                &[mirrored.clone(), own.clone()],
                std::slice::from_ref(&mirrored),
                &facts
            )
            .0
            .len(),
            1
        );
        assert_eq!(
            compared(&[mirrored, own.clone()], &[own], &Facts::default())
                .0
                .len(),
            1
        );
    }

    #[test]
    fn only_an_earlier_trigger_time_is_explained() {
        let (early, late) = (slice("ours", "t1", "a"), slice("ours", "t2", "a"));
        let other = slice("ours", "t1", "b");
        let reason = |upstream: &Value, own: &Value| {
            let (found, _) = compared(
                std::slice::from_ref(upstream),
                std::slice::from_ref(own),
                &Facts::default(),
            );
            found[0].reason(&Facts::default(), 100)
        };
        assert_eq!(reason(&late, &early), Some(TRIGGER_TIME));
        assert_eq!(reason(&early, &late), None);
        assert_eq!(reason(&late, &other), None);
    }

    #[test]
    fn the_time_of_a_pod_that_has_ended_is_explained() {
        let (early, late) = (slice("ours", "t1", "a"), slice("ours", "t2", "a"));
        let facts = Facts {
            ends: BTreeSet::from(["t1".to_owned()]),
            ..Facts::default()
        };
        let (found, _) = compared(&[early], &[late], &facts);
        assert_eq!(found[0].reason(&facts, 100), Some(ENDED_PODS));
    }

    #[test]
    fn an_empty_slice_is_explained_only_beside_another_of_its_family() {
        let of = |family: &str, endpoints: Value| {
            json!({
                "labels": { SERVICE_NAME: "web" }, "addressType": family, "ports": [], "endpoints": endpoints,
            })
        };
        let (full, empty) = (
            of("IPv6", json!([{ "addresses": ["::1"] }])),
            of("IPv6", json!([])),
        );
        let (found, reasons) = compared(
            &[full.clone(), empty.clone()],
            std::slice::from_ref(&full),
            &Facts::default(),
        );
        assert_eq!((found.len(), &reasons[..]), (0, &[EMPTY_SLICE][..]));
        let other = of("IPv4", json!([]));
        assert_eq!(
            compared(
                &[full.clone(), other],
                std::slice::from_ref(&full),
                &Facts::default()
            )
            .0
            .len(),
            1
        );
        assert_eq!(
            compared(
                std::slice::from_ref(&full),
                &[full.clone(), empty],
                &Facts::default()
            )
            .0
            .len(),
            1
        );
    }

    #[test]
    fn the_lines_are_those_of_the_document() {
        let document = include_str!("../../../../../docs/differences.md");
        for line in LINES {
            assert!(document.contains(&format!("| {line} |")), "{line}");
        }
    }
}
