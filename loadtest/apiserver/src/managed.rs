//! The ownership of an object's fields: server-side apply and its bookkeeping in `managedFields`.

mod apply;
mod fields;
mod walk;

pub(crate) use self::apply::{Applied, apply, create};
pub(crate) use self::fields::Fields;

use self::walk::{Difference, compare};
use crate::json::{list, text};
use crate::kinds::Kind;
use crate::route::Sub;
use crate::schema::Place;
use serde_json::{Map, Value, json};

/// The manager of the fields that an object had before their owners were tracked.
const BEFORE: &str = "before-first-apply";

/// The metadata that no field manager owns, because the server maintains it.
const SYSTEM: [&str; 10] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// The manager of a write, and the way it writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    pub(crate) kind: Kind,
    pub(crate) sub: Sub,
    pub(crate) now: &'a str,
}

/// A manager and what it owns.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Manager {
    name: String,
    applies: bool,
    part: String,
    version: String,
    time: String,
    fields: Fields,
}

/// All managers of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Managers(Vec<Manager>);

// === impl Writer ===

impl Writer<'_> {
    fn part(self) -> &'static str {
        match self.sub {
            Sub::Main => "",
            Sub::Status => "status",
            Sub::Finalize => "finalize",
            Sub::Binding => "binding",
            Sub::Scale => "scale",
        }
    }

    fn is(self, manager: &Manager, applies: bool) -> bool {
        manager.name == self.manager && manager.applies == applies && manager.part == self.part()
    }

    fn entry(self, applies: bool, fields: Fields) -> Manager {
        Manager {
            name: self.manager.to_owned(),
            applies,
            part: self.part().to_owned(),
            version: self.kind.api_version.to_owned(),
            time: self.now.to_owned(),
            fields,
        }
    }

    /// Without what this writer cannot own.
    fn own(self, mut fields: Fields) -> Fields {
        for field in ["apiVersion", "kind"] {
            fields.forget(&[field]);
        }
        for field in SYSTEM {
            fields.forget(&["metadata", field]);
        }
        fields.disown(&["metadata"]);
        match self.sub {
            Sub::Main if self.kind.has_status() => fields.forget(&["status"]),
            Sub::Status => fields.forget(&["spec"]),
            Sub::Main | Sub::Finalize | Sub::Binding | Sub::Scale => {}
        }
        fields
    }
}

// === impl Manager ===

impl Manager {
    fn parse(entry: &Value) -> Self {
        Self {
            name: text(entry, "/manager").to_owned(),
            applies: text(entry, "/operation") == "Apply",
            part: text(entry, "/subresource").to_owned(),
            version: text(entry, "/apiVersion").to_owned(),
            time: text(entry, "/time").to_owned(),
            fields: Fields::parse(&entry["fieldsV1"]),
        }
    }

    fn value(&self) -> Value {
        let mut entry = json!({
            "manager": self.name,
            "operation": if self.applies { "Apply" } else { "Update" },
            "apiVersion": self.version,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.value(),
        });
        if !self.time.is_empty() {
            entry["time"] = self.time.as_str().into();
        }
        if !self.part.is_empty() {
            entry["subresource"] = self.part.as_str().into();
        }
        entry
    }

    /// How a conflict names it.
    fn said(&self) -> String {
        let mut said = format!("\"{}\"", self.name);
        if !self.part.is_empty() {
            said.extend([" with subresource \"", &self.part, "\""]);
        }
        if !self.applies {
            said.extend([" using ", &self.version]);
            if !self.time.is_empty() {
                said.extend([" at ", &self.time]);
            }
        }
        said
    }
}

// === impl Managers ===

impl Managers {
    fn of(object: &Value) -> Self {
        let entries = list(object, "/metadata/managedFields");
        Self(entries.iter().map(Manager::parse).collect())
    }

    /// Writes them into an object: appliers first, then by age.
    fn store(mut self, object: &mut Value) {
        self.0.retain(|manager| !manager.fields.is_empty());
        self.0.sort_by(|a, b| {
            (b.applies, &a.time, &a.name, &a.part).cmp(&(a.applies, &b.time, &b.name, &b.part))
        });
        let Some(metadata) = object["metadata"].as_object_mut() else {
            return;
        };
        if self.0.is_empty() {
            metadata.remove("managedFields");
        } else {
            let entries = self.0.iter().map(Manager::value).collect();
            metadata.insert("managedFields".to_owned(), entries);
        }
    }

    /// The same but for the times.
    fn same_as(&self, other: &Self) -> bool {
        let timeless = |managers: &Self| -> Vec<Manager> {
            let mut all = managers.0.clone();
            all.retain(|manager| !manager.fields.is_empty());
            for manager in &mut all {
                manager.time.clear();
            }
            all.sort_by(|a, b| (a.applies, &a.name, &a.part).cmp(&(b.applies, &b.name, &b.part)));
            all
        };
        timeless(self) == timeless(other)
    }

    /// Gives what a write changed to its writer, and takes it from all others.
    fn give(&mut self, writer: Writer<'_>, difference: Difference) {
        let Difference { changed, removed } = difference;
        let (changed, removed) = (writer.own(changed), writer.own(removed));
        if changed.is_empty() && removed.is_empty() {
            return;
        }
        let mut mine = None;
        for (i, manager) in self.0.iter_mut().enumerate() {
            if writer.is(manager, false) {
                mine = Some(i);
            } else {
                manager.fields = manager.fields.minus(&changed).minus(&removed);
            }
        }
        let before = mine.map_or_else(Fields::default, |i| self.0[i].fields.clone());
        let mut fields = before.clone();
        fields.add(&changed);
        let fields = fields.minus(&removed);
        match mine {
            Some(_) if fields == before => {}
            Some(i) => self.0[i] = writer.entry(false, fields),
            None => self.0.push(writer.entry(false, fields)),
        }
    }
}

/// Whether a manager has applied the object, so that owners are kept track of.
pub(crate) fn is_applied(object: &Value) -> bool {
    let entries = list(object, "/metadata/managedFields");
    entries.iter().any(|entry| entry["operation"] == "Apply")
}

/// Removes the owners of fields if a client asks for it, with a list of one empty entry. Returns whether it does.
pub(crate) fn clear(new: &mut Value) -> bool {
    let asks = new.pointer("/metadata/managedFields") == Some(&json!([{}]));
    if asks && let Some(metadata) = new["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    asks
}

/// Notes what a write that is no apply has changed.
pub(crate) fn note(writer: Writer<'_>, old: &Value, new: &mut Value) {
    let mut managers = Managers::of(new);
    managers.give(writer, compare(Place::root(writer.kind), old, new));
    managers.store(new);
}

/// Notes what an object was created with.
pub(crate) fn note_creation(writer: Writer<'_>, new: &mut Value) {
    if let Some(metadata) = new["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    let nothing = Value::Object(Map::new());
    note(writer, &nothing, new);
}
