//! The states that two sides have settled on, Service by Service, and the differences that `docs/differences.md`
//! explains.

use scenario::{TRIGGER, differences, without_trigger_times};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const HEADLESS: &str = "service.kubernetes.io/headless";
const MIRRORED_BY: &str = "endpointslicemirroring-controller.k8s.io";

// The first column of lines of docs/differences.md.
const EXTERNAL_NAME: &str = "Endpoints of a Service that becomes an `ExternalName`";
const SELECTOR_COMES: &str = "A Service gets a selector, and had mirrored slices";
const TRIGGER_TIME: &str = "Several changes share a write";
const ENDED_PODS: &str = "A Service comes to select pods that have ended";
const EMPTY_SLICE: &str =
    "The first pod of an address family comes, and another pod has none of the Service's ports";
const REMADE: &str = "A Service is made again while an empty slice of the deleted one is still there";
const EDITED: &str = "Somebody edits Endpoints";
/// All lines that are used here.
#[cfg(test)]
const LINES: [&str; 7] = [
    REMADE,
    EDITED,
    EXTERNAL_NAME,
    SELECTOR_COMES,
    TRIGGER_TIME,
    ENDED_PODS,
    EMPTY_SLICE,
];

/// The reasons of differences that were met, each with its Service.
pub(super) type Reasons = BTreeSet<(&'static str, String)>;

/// The objects that are published of each Service.
pub(super) type Published = BTreeMap<String, Value>;

/// A Service on whose objects the sides do not agree.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Difference {
    pub(super) service: String,
    upstream: Value,
    own: Value,
    lines: Vec<String>,
}

/// The facts about the Services of a history, beside what is published of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) external: BTreeSet<String>,
    /// They had no selector at some time.
    pub(super) without_selector: BTreeSet<String>,
    /// When pods ended, as their conditions have it.
    pub(super) ends: BTreeSet<String>,
    /// Their Endpoints were given the label [`EDIT`].
    pub(super) edited: BTreeSet<String>,
}

/// The label that is put on objects of the controllers.
pub(super) const EDIT: &str = "people";

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
    reasons: &mut Reasons,
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
        match difference.standing(facts, max, reasons) {
            (rest, known) if rest.lines.is_empty() => reasons.extend(known),
            _ => found.push(difference),
        }
    }
    found
}

// === impl Difference ===

impl Difference {
    /// Returns what is left without the differences that last for as long as the Service is as it is, and the reasons
    /// of those.
    fn standing(&self, facts: &Facts, max: usize, met: &Reasons) -> (Self, Reasons) {
        let mut rest = self.clone();
        let mut known = Reasons::new();
        let mut leave_out = |reason, change| {
            if rest.leave_out(max, change) {
                known.insert((reason, self.service.clone()));
            }
        };
        if facts.external.contains(&self.service) {
            leave_out(EXTERNAL_NAME, Self::without_mirrored_slices);
        }
        if facts.edited.contains(&self.service) {
            leave_out(EDITED, Self::without_edits);
        }
        leave_out(EMPTY_SLICE, Self::without_empty_slices);
        if met.contains(&(EMPTY_SLICE, self.service.clone())) {
            leave_out(EMPTY_SLICE, Self::without_times_of_empty_slices);
        }
        leave_out(REMADE, Self::without_remains);
        (rest, known)
    }

    /// Makes a change to both sides. Whether that changes in what they differ.
    fn leave_out(&mut self, max: usize, change: fn(&mut Self)) -> bool {
        change(self);
        let lines = differences(&self.upstream, &self.own, max);
        let before = std::mem::replace(&mut self.lines, lines);
        before != self.lines
    }

    /// The reason of a difference that has lasted too long for one that goes by itself; none if it has none.
    pub(super) fn reason(&self, facts: &Facts, max: usize, met: &Reasons) -> Option<&'static str> {
        let (rest, _) = self.standing(facts, max, met);
        if facts.without_selector.contains(&self.service) {
            let mut rest = rest.clone();
            rest.leave_out(max, Self::without_mirrored_slices);
            if rest.lines.is_empty() {
                return Some(SELECTOR_COMES);
            }
        }
        let (later, of_ended) = rest.trigger_times(facts)?;
        match (later, of_ended) {
            (true, _) => Some(TRIGGER_TIME),
            (_, true) => Some(ENDED_PODS),
            _ => None,
        }
    }

    fn without_mirrored_slices(&mut self) {
        for side in [&mut self.upstream, &mut self.own] {
            if let Some(fields) = side.as_object_mut() {
                fields.remove("mirrored");
            }
        }
    }

    /// Without the edits of Endpoints that upstream has not noticed yet. endpointd has, and its write has no trigger time.
    fn without_edits(&mut self) {
        let upstream = objects_mut(&mut self.upstream, "endpoints");
        for (upstream, own) in upstream.zip(objects_mut(&mut self.own, "endpoints")) {
            let labels = upstream["labels"].as_object_mut();
            if labels.and_then(|labels| labels.remove(EDIT)).is_some() {
                remove(upstream, "annotations", TRIGGER);
                remove(own, "annotations", TRIGGER);
            }
        }
    }

    /// Without upstream's empty slices that stand beside others of their family.
    fn without_empty_slices(&mut self) {
        for field in SLICES {
            // Both have those of a Service that neither keeps any more.
            if self.upstream.get(field) == self.own.get(field) {
                continue;
            }
            let Some(slices) = self.upstream.get_mut(field).and_then(Value::as_array_mut) else {
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
    }

    /// Without the trigger times of empty slices: where upstream has kept one beside others, it is older than that of endpointd,
    /// which has emptied the one with the last endpoint.
    fn without_times_of_empty_slices(&mut self) {
        for side in [&mut self.upstream, &mut self.own] {
            for field in SLICES {
                objects_mut(side, field)
                    .filter(|slice| is_empty(slice))
                    .for_each(|slice| remove(slice, "annotations", TRIGGER));
            }
        }
    }

    /// Without all in which the empty slices of a deleted Service, which upstream takes for those of the new one, differ from
    /// new ones.
    fn without_remains(&mut self) {
        for field in SLICES {
            let is_remains =
                |slice: &&mut Value| is_empty(slice) && slice["ownerReferences"][0]["uid"] == "<gone>";
            let remains = objects_mut(&mut self.upstream, field).filter(is_remains);
            let mut families = Vec::new();
            for slice in remains {
                families.push(slice["addressType"].clone());
                as_new(slice);
            }
            let own = objects_mut(&mut self.own, field);
            own.filter(|slice| is_empty(slice) && families.contains(&slice["addressType"]))
                .for_each(as_new);
        }
    }

    /// If only trigger times differ: whether endpointd's are the earlier ones, object by object, and whether upstream's are those
    /// of pods that have ended, where endpointd may have none.
    fn trigger_times(&self, facts: &Facts) -> Option<(bool, bool)> {
        if without_trigger_times(&self.upstream) != without_trigger_times(&self.own) {
            return None;
        }
        let mut pairs = Vec::new();
        trigger_times(&self.upstream, &self.own, &mut pairs);
        pairs.retain(|(upstream, own)| upstream != own);
        let later = |(upstream, own): &(Option<&str>, Option<&str>)| own.is_some() && own < upstream;
        let of_ended = |(upstream, _): &(Option<&str>, Option<&str>)| {
            upstream.is_some_and(|upstream| facts.ends.contains(upstream))
        };
        Some((pairs.iter().all(later), pairs.iter().all(of_ended)))
    }
}

/// The trigger times of each object that has one on either side, of sides that are alike in all else.
fn trigger_times<'a>(
    upstream: &'a Value,
    own: &'a Value,
    pairs: &mut Vec<(Option<&'a str>, Option<&'a str>)>,
) {
    match (upstream, own) {
        (Value::Object(upstream), Value::Object(own)) => {
            let time = |fields: &'a Map<String, Value>| fields.get(TRIGGER).and_then(Value::as_str);
            pairs.push((time(upstream), time(own)));
            for (key, value) in upstream {
                if let Some(own) = own.get(key) {
                    trigger_times(value, own, pairs);
                }
            }
        }
        (Value::Array(upstream), Value::Array(own)) => {
            for (upstream, own) in upstream.iter().zip(own) {
                trigger_times(upstream, own, pairs);
            }
        }
        _ => {}
    }
}

/// The fields of slices that the endpointslice controller keeps.
const SLICES: [&str; 2] = ["endpointslices", "groups"];

fn objects_mut<'a>(side: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    side.get_mut(field)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

fn remove(object: &mut Value, field: &str, key: &str) {
    if let Some(fields) = object[field].as_object_mut() {
        fields.remove(key);
    }
}

/// Whether a slice has neither endpoints nor ports.
fn is_empty(slice: &Value) -> bool {
    let none = |field: &str| slice[field].as_array().is_some_and(Vec::is_empty);
    none("endpoints") && none("ports")
}

/// Leaves of an empty slice what does not depend on which Service of its name it was made for.
fn as_new(slice: &mut Value) {
    remove(slice, "annotations", TRIGGER);
    remove(slice, "labels", HEADLESS);
    slice["ownerReferences"][0]["uid"] = json!("<any>");
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
    use super::*;
    use serde_json::json;

    fn slice(manager: &str, trigger: &str, address: &str) -> Value {
        json!({
            "labels": { SERVICE_NAME: "web", MANAGED_BY: manager },
            "annotations": { TRIGGER: trigger },
            "endpoints": [{ "addresses": [address] }],
        })
    }

    fn external() -> Facts {
        Facts {
            external: BTreeSet::from(["web".to_owned()]),
            ..Facts::default()
        }
    }

    /// Returns what is not explained, and the reasons that last, of a Service with these slices on both sides.
    fn compared(upstream: &[&Value], own: &[&Value], facts: &Facts) -> (Vec<Difference>, Vec<&'static str>) {
        let of = |slices: &[&Value]| published(&json!({ "endpoints": [], "endpointslices": slices }));
        let mut reasons = Reasons::new();
        let found = compare(&of(upstream), &of(own), facts, 100, &mut reasons);
        (found, reasons.into_iter().map(|(reason, _)| reason).collect())
    }

    #[test]
    fn a_difference_is_told_by_its_service() {
        let (a, b) = (slice("ours", "t1", "10.0.0.1"), slice("ours", "t1", "10.0.0.2"));
        let none = Facts::default();
        assert!(compared(&[&a], &[&a], &none).0.is_empty());
        let (found, reasons) = compared(&[&a], &[&b], &none);
        assert_eq!(
            (found.len(), reasons.len(), found[0].service.as_str()),
            (1, 0, "web")
        );
        assert_eq!(found[0].reason(&none, 100, &Reasons::new()), None);
        assert!(found[0].to_string().contains("10.0.0.1"));
    }

    #[test]
    fn mirrored_slices_of_an_external_name_are_explained_and_other_slices_are_not() {
        let (mirrored, own) = (
            slice(MIRRORED_BY, "t", "10.0.0.1"),
            slice("ours", "t", "10.0.0.2"),
        );
        let (found, reasons) = compared(&[&mirrored, &own], &[&own], &external());
        assert_eq!((found.len(), &reasons[..]), (0, &[EXTERNAL_NAME][..]));
        let both = [&mirrored, &own];
        assert_eq!(compared(&both, &[&mirrored], &external()).0.len(), 1);
        assert_eq!(compared(&both, &[&own], &Facts::default()).0.len(), 1);
    }

    #[test]
    fn only_an_earlier_trigger_time_is_explained() {
        let (early, late) = (slice("ours", "t1", "a"), slice("ours", "t2", "a"));
        let other = slice("ours", "t1", "b");
        let reason = |upstream: &Value, own: &Value| {
            let (found, _) = compared(&[upstream], &[own], &Facts::default());
            found[0].reason(&Facts::default(), 100, &Reasons::new())
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
        let mut none = late.clone();
        remove(&mut none, "annotations", TRIGGER);
        let reason = |upstream: &Value, own: &Value| {
            let (found, _) = compared(&[upstream], &[own], &facts);
            found[0].reason(&facts, 100, &Reasons::new())
        };
        assert_eq!(reason(&early, &late), Some(ENDED_PODS));
        assert_eq!(reason(&early, &none), Some(ENDED_PODS));
        assert_eq!(reason(&none, &early), None);
        assert_eq!(reason(&late, &none), None);
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
        let none = Facts::default();
        let (found, reasons) = compared(&[&full, &empty], &[&full], &none);
        assert_eq!((found.len(), &reasons[..]), (0, &[EMPTY_SLICE][..]));
        let other = of("IPv4", json!([]));
        assert_eq!(compared(&[&full, &other], &[&full], &none).0.len(), 1);
        assert_eq!(compared(&[&full], &[&full, &empty], &none).0.len(), 1);
    }

    #[test]
    fn the_time_of_an_empty_slice_is_explained_where_upstream_has_kept_one_beside_others() {
        let of = |slice: Value| published(&json!({ "endpoints": [], "endpointslices": [slice] }));
        let with_time = |slice: &Value, time: &str| {
            let mut slice = slice.clone();
            slice["annotations"] = json!({ TRIGGER: time });
            slice
        };
        let empty = empty("Service/web", &json!({}));
        let (upstream, own) = (of(with_time(&empty, "t1")), of(with_time(&empty, "t2")));
        let found = |met: &Reasons| compare(&upstream, &own, &Facts::default(), 100, &mut met.clone()).len();
        let met = |service: &str| Reasons::from([(EMPTY_SLICE, service.to_owned())]);
        assert_eq!(
            (found(&met("web")), found(&met("other")), found(&Reasons::new())),
            (0, 1, 1)
        );
        let full = slice("ours", "t1", "10.0.0.1");
        let own = of(with_time(&full, "t2"));
        assert_eq!(
            compare(&of(full), &own, &Facts::default(), 100, &mut met("web")).len(),
            1
        );
    }

    fn empty(owner: &str, labels: &Value) -> Value {
        let mut slice = json!({
            "labels": labels, "annotations": {}, "addressType": "IPv4", "ports": [], "endpoints": [],
            "ownerReferences": [{ "kind": "Service", "uid": owner }],
        });
        slice["labels"][SERVICE_NAME] = json!("web");
        slice
    }

    #[test]
    fn the_empty_slice_of_a_deleted_service_is_explained_and_one_with_endpoints_is_not() {
        let remains = empty("<gone>", &json!({ HEADLESS: "" }));
        let mut new = empty("Service/web", &json!({}));
        new["annotations"] = json!({ TRIGGER: "<service creation>" });
        let of = |upstream: &Value, own: &Value| compared(&[upstream], &[own], &Facts::default());
        let (found, reasons) = of(&remains, &new);
        assert_eq!((found.len(), &reasons[..]), (0, &[REMADE][..]));
        assert_eq!(of(&new, &remains).0.len(), 1);
        let other = empty("Service/web", &json!({ "other": "" }));
        assert_eq!(of(&remains, &other).0.len(), 1);
        let mut full = remains.clone();
        full["endpoints"] = json!([{ "addresses": ["10.0.0.1"] }]);
        let mut own = new.clone();
        own["endpoints"] = full["endpoints"].clone();
        assert_eq!(of(&full, &own).0.len(), 1);
    }

    #[test]
    fn empty_slices_that_both_have_are_no_difference() {
        let mut full = slice("ours", "t1", "10.0.0.1");
        full["addressType"] = json!("IPv4");
        let (empty, mirrored) = (
            empty("Service/web", &json!({})),
            slice(MIRRORED_BY, "t1", "10.0.0.2"),
        );
        let (found, reasons) = compared(&[&full, &empty, &mirrored], &[&full, &empty], &external());
        assert_eq!((found.len(), &reasons[..]), (0, &[EXTERNAL_NAME][..]));
    }

    #[test]
    fn edited_endpoints_are_explained_until_upstream_looks_again() {
        let endpoints = |labels: Value, annotations: Value| {
            published(&json!({ "endpoints": [
                { "name": "web", "labels": labels, "annotations": annotations, "subsets": [] },
            ] }))
        };
        let edited = Facts {
            edited: BTreeSet::from(["web".to_owned()]),
            ..Facts::default()
        };
        let of = |upstream: &Published, own: &Published, facts: &Facts| {
            let mut reasons = Reasons::new();
            let found = compare(upstream, own, facts, 100, &mut reasons);
            (found.len(), reasons.into_iter().next().map(|(reason, _)| reason))
        };
        let edit = endpoints(json!({ EDIT: "were-here" }), json!({ TRIGGER: "t1" }));
        let right = endpoints(json!({}), json!({}));
        assert_eq!(of(&edit, &right, &edited), (0, Some(EDITED)));
        assert_eq!(of(&edit, &right, &Facts::default()), (1, None));
        assert_eq!(of(&right, &edit, &edited), (1, None));
        let other = endpoints(json!({ EDIT: "were-here", "other": "" }), json!({}));
        assert_eq!(of(&other, &right, &edited), (1, None));
        let later = endpoints(json!({}), json!({ TRIGGER: "t2" }));
        assert_eq!(of(&later, &right, &edited), (1, None));
    }

    #[test]
    fn two_reasons_at_once_explain_what_neither_explains_alone() {
        let (remains, new) = (empty("<gone>", &json!({})), empty("Service/web", &json!({})));
        let (found, reasons) = compared(&[&slice(MIRRORED_BY, "t", "a"), &remains], &[&new], &external());
        assert_eq!((found.len(), reasons.len()), (0, 2), "{found:?}");
    }

    #[test]
    fn the_lines_are_those_of_the_document() {
        let document = include_str!("../../../../../docs/differences.md");
        for line in LINES {
            assert!(document.contains(&format!("| {line} |")), "{line}");
        }
    }
}
