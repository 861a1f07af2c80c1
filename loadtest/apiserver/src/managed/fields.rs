//! Sets of fields, in the form in which objects carry them (`fieldsV1`).

use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A set of fields: whether this one is in it, and those below.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) own: bool,
    below: BTreeMap<Element, Self>,
}

/// A step from a field to one below.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Element {
    Field(String),
    /// An item of a keyed list, by its keys as JSON.
    Item(String),
    /// An item of a set, as JSON.
    Value(String),
    /// An element that other servers write and this one does not read (an index).
    Other(String),
}

// === impl Element ===

impl Element {
    pub(crate) fn item(key: &BTreeMap<&'static str, Value>) -> Self {
        let key: Map<String, Value> = key.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
        Self::Item(Value::Object(key).to_string())
    }

    fn parse(text: &str) -> Self {
        match text.split_once(':') {
            Some(("f", name)) => Self::Field(name.to_owned()),
            Some(("k", key)) => {
                // The order of the fields and the spaces between them depend on the writer, and do not count.
                let key =
                    serde_json::from_str::<Value>(key).map_or_else(|_| key.to_owned(), |k| k.to_string());
                Self::Item(key)
            }
            Some(("v", value)) => Self::Value(value.to_owned()),
            _ => Self::Other(text.to_owned()),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Item(key) => format!("k:{key}"),
            Self::Value(value) => format!("v:{value}"),
            Self::Other(text) => text.clone(),
        }
    }

    /// As a path shows it.
    fn said(&self) -> String {
        match self {
            Self::Field(name) => format!(".{name}"),
            Self::Item(key) => {
                let key: BTreeMap<String, Value> = serde_json::from_str(key).unwrap_or_default();
                let pairs: Vec<String> = key
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                format!("[{}]", pairs.join(","))
            }
            Self::Value(value) => format!("[={value}]"),
            Self::Other(text) => format!("[{text}]"),
        }
    }
}

// === impl Fields ===

impl Fields {
    pub(crate) fn parse(value: &Value) -> Self {
        let mut fields = Self::read(value);
        fields.own = false;
        fields
    }

    fn read(value: &Value) -> Self {
        let empty = Map::new();
        let entries = value.as_object().unwrap_or(&empty);
        Self {
            own: entries.is_empty() || entries.contains_key("."),
            below: entries
                .iter()
                .filter(|(name, _)| *name != ".")
                .map(|(name, below)| (Element::parse(name), Self::read(below)))
                .collect(),
        }
    }

    pub(crate) fn value(&self) -> Value {
        let mut entries: Map<String, Value> = self
            .below
            .iter()
            .map(|(element, below)| (element.text(), below.value()))
            .collect();
        if self.own && !entries.is_empty() {
            entries.insert(".".to_owned(), Map::new().into());
        }
        entries.into()
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.own && self.below.is_empty()
    }

    pub(crate) fn get(&self, element: &Element) -> Option<&Self> {
        self.below.get(element)
    }

    pub(crate) fn below(&self) -> impl Iterator<Item = (&Element, &Self)> {
        self.below.iter()
    }

    /// Lets `fill` add to what is below an element; nothing is kept of an element that stays empty.
    pub(crate) fn within(&mut self, element: Element, fill: impl FnOnce(&mut Self)) {
        let mut below = self.below.remove(&element).unwrap_or_default();
        fill(&mut below);
        if !below.is_empty() {
            self.below.insert(element, below);
        }
    }

    /// Takes a field and all below it out.
    pub(crate) fn forget(&mut self, path: &[&str]) {
        let [first, rest @ ..] = path else { return };
        let element = Element::Field((*first).to_owned());
        if rest.is_empty() {
            self.below.remove(&element);
        } else {
            self.within(element, |below| below.forget(rest));
        }
    }

    /// Takes a field out, but not what is below it.
    pub(crate) fn disown(&mut self, path: &[&str]) {
        match path {
            [] => self.own = false,
            [first, rest @ ..] => {
                self.within(Element::Field((*first).to_owned()), |below| below.disown(rest));
            }
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.own |= other.own;
        for (element, below) in &other.below {
            self.below.entry(element.clone()).or_default().add(below);
        }
    }

    pub(crate) fn minus(&self, other: &Self) -> Self {
        let below = self.below.iter().map(|(element, below)| {
            let less = match other.below.get(element) {
                Some(other) => below.minus(other),
                None => below.clone(),
            };
            (element.clone(), less)
        });
        Self {
            own: self.own && !other.own,
            below: below.filter(|(_, below)| !below.is_empty()).collect(),
        }
    }

    pub(crate) fn and(&self, other: &Self) -> Self {
        let below = self.below.iter().filter_map(|(element, below)| {
            let both = below.and(other.below.get(element)?);
            (!both.is_empty()).then(|| (element.clone(), both))
        });
        Self {
            own: self.own && other.own,
            below: below.collect(),
        }
    }

    /// The paths of all fields in the set.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.walk(String::new(), &mut paths);
        paths
    }

    fn walk(&self, path: String, paths: &mut Vec<String>) {
        for (element, below) in &self.below {
            below.walk(format!("{path}{}", element.said()), paths);
        }
        if self.own {
            paths.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sets_of_fields() {
        let a = json!({
            "f:metadata": {"f:labels": {".": {}, "f:a": {}, "f:b": {}}},
            "f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}}}},
        });
        let a = Fields::parse(&a);
        let b = json!({
            "f:metadata": {"f:labels": {"f:b": {}, "f:c": {}}, "f:finalizers": {"v:\"x\"": {}}},
            "f:spec": {"f:ports": {"k:{ \"protocol\":\"TCP\", \"port\":80}": {"f:name": {}}}},
        });
        let b = Fields::parse(&b);
        assert_eq!(a, Fields::parse(&a.value()));
        assert_eq!(
            a.and(&b).paths(),
            [".metadata.labels.b", ".spec.ports[port=80,protocol=\"TCP\"].name"]
        );
        assert_eq!(
            a.minus(&b).paths(),
            [
                ".metadata.labels.a",
                ".metadata.labels",
                ".spec.ports[port=80,protocol=\"TCP\"]"
            ]
        );
        let mut both = a.clone();
        both.add(&b);
        assert!(both.minus(&a).minus(&b).is_empty() && a.minus(&both).is_empty());
        assert!(both.paths().contains(&".metadata.finalizers[=\"x\"]".to_owned()));
        both.forget(&["spec"]);
        both.forget(&["metadata", "labels"]);
        both.forget(&["metadata", "finalizers"]);
        assert!(both.is_empty());
    }
}
