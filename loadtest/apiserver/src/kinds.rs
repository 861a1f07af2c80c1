//! A kind of object as a row of data: everything in which one kind differs from another. The rows stand in `catalog.rs`.

use crate::cause::Faults;
use serde_json::Value;
use std::cmp::Ordering;
use std::ops::Deref;

/// A kind that a server serves. Two are equal when they are the same resource of the same group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind(&'static Facts);

/// A row of the table of kinds.
#[derive(Debug)]
pub(crate) struct Facts {
    /// `v1` or `group/v1`.
    pub(crate) api_version: &'static str,
    /// The plural name, as paths have it.
    pub(crate) resource: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) short_names: &'static [&'static str],
    /// `kubectl get all` shows it.
    pub(crate) is_of_all: bool,
    pub(crate) namespaced: bool,
    pub(crate) subresources: &'static [&'static str],
    pub(crate) role: Role,
    pub(crate) name_rule: NameRule,
    /// A type of `schema.txt`.
    pub(crate) schema: &'static str,
    pub(crate) create_on_update: bool,
    pub(crate) unconditional_update: bool,
    /// A delete answers with the object instead of a Status.
    pub(crate) returns_deleted: bool,
    pub(crate) delete_collection: bool,
    /// Selectable fields beside metadata.name and metadata.namespace.
    pub(crate) fields: &'static [&'static str],
    /// The fields of a bookmark beside the metadata.
    pub(crate) bookmark_rest: &'static str,

    /// Fills in defaults, on every way in.
    pub(crate) default: fn(&mut Value),
    /// Sets or clears fields on creation, before the checks.
    pub(crate) create: fn(&mut Value),
    /// Keeps fields of the stored object on an update, before the checks.
    pub(crate) update: fn(&mut Value, &Value),
    /// Checks an object that is created, or that is to replace the stored one.
    pub(crate) check: fn(&mut Faults, &Value, Option<&Value>),
}

/// The part that the server plays for a kind beside keeping its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Plain,
    /// Its objects are deleted gracefully.
    Pod,
    /// Its objects are given addresses and ports.
    Service,
    /// Its objects are emptied before they go.
    Namespace,
}

/// How a kind's names are formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    Subdomain,
    Label,
    Label1035,
}

/// The facts that most kinds have in common.
pub(crate) const PLAIN: Facts = Facts {
    api_version: "v1",
    resource: "",
    singular: "",
    kind: "",
    short_names: &[],
    is_of_all: false,
    namespaced: true,
    subresources: &[],
    role: Role::Plain,
    name_rule: NameRule::Subdomain,
    schema: "",
    create_on_update: false,
    unconditional_update: true,
    returns_deleted: false,
    delete_collection: true,
    fields: &[],
    bookmark_rest: "",
    default: |_| {},
    create: |_| {},
    update: |_, _| {},
    check: |_, _, _| {},
};

// === impl Kind ===

impl Kind {
    pub(crate) const fn new(facts: &'static Facts) -> Self {
        Self(facts)
    }

    /// Empty for the core group.
    pub(crate) fn group(self) -> &'static str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    pub(crate) fn version(self) -> &'static str {
        self.api_version
            .split_once('/')
            .map_or(self.api_version, |(_, version)| version)
    }

    pub(crate) fn has_status(self) -> bool {
        self.subresources.contains(&"status")
    }

    /// `EndpointSliceList`.
    pub(crate) fn list(self) -> String {
        format!("{}List", self.kind)
    }

    /// `endpointslices.discovery.k8s.io`, as messages name a resource.
    pub(crate) fn qualified_resource(self) -> String {
        qualified(self.resource, self.group())
    }

    /// `EndpointSlice.discovery.k8s.io`, as messages name a kind.
    pub(crate) fn qualified_kind(self) -> String {
        qualified(self.kind, self.group())
    }
}

fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

impl Deref for Kind {
    type Target = Facts;

    fn deref(&self) -> &Facts {
        self.0
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0) || self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Kind {}

impl PartialOrd for Kind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Kind {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.resource, self.group()).cmp(&(other.resource, other.group()))
    }
}

/// The value of an object's field, as selectors have its name; empty when it is not there.
pub(crate) fn selectable(object: &Value, name: &str) -> Box<str> {
    match object.pointer(&format!("/{}", name.replace('.', "/"))) {
        None | Some(Value::Null) => Box::default(),
        Some(Value::String(text)) => text.as_str().into(),
        Some(other) => other.to_string().into(),
    }
}
