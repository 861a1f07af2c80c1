//! Which kinds the definitions define, and which of them are served.

use super::wake::Wake;
use super::{State, Table};
use crate::custom::{self, CLEANUP};
use crate::json::{text, texts};
use crate::kinds::{Kind, Role};
use crate::names::{Taken, accept_names, is_established};
use crate::object::{Draft, Object};
use std::sync::Arc;

/// The names that a definition holds in its group.
#[derive(Clone, Debug)]
pub(super) struct Names {
    group: Box<str>,
    held: Taken,
    /// It wants others, which were taken when it was looked at last.
    wants_more: bool,
}

impl State {
    /// Whether the definition of a custom kind is deleted.
    pub(crate) fn is_terminating(&self, kind: Kind) -> bool {
        kind.is_custom()
            && self
                .definition_of(kind)
                .is_none_or(|definition| definition.deleting)
    }

    fn definition_of(&self, kind: Kind) -> Option<&Arc<Object>> {
        self.definition(&kind.qualified_resource())
    }

    fn definition(&self, name: &str) -> Option<&Arc<Object>> {
        let definitions = self.kinds.iter().find(|kind| kind.role == Role::Definition)?;
        self.table(*definitions).objects.get(name)
    }

    /// The kind whose objects are stored for a definition, served or not.
    pub(crate) fn stored_kind(&self, definition: &str) -> Option<Kind> {
        let mut kinds = self.tables.keys();
        kinds.find(|kind| kind.is_defined_by(definition)).copied()
    }

    /// Decides on the names of a definition, and serves what it defines once they were accepted. The result is the
    /// definition with that in its status.
    pub(super) fn define(&mut self, definition: Arc<Object>) -> Arc<Object> {
        let mut value = definition.value();
        let group = text(&value, "/spec/group").to_owned();
        let taken = self.taken(&definition.key, &group);
        let changed = accept_names(&mut value, &taken, &self.clock.time());
        let kinds = if is_established(&value) {
            custom::kinds_of(&value)
        } else {
            Vec::new()
        };
        let names = Names {
            group: group.into(),
            held: Taken::by(&value),
            wants_more: value["spec"]["names"] != value["status"]["acceptedNames"],
        };
        self.definitions.insert(Arc::clone(&definition.key), names);
        self.serve(definition.name(), kinds);
        if changed {
            Draft::new(definition.kind, &value).seal(definition.rv)
        } else {
            definition
        }
    }

    /// The names that other definitions than this one hold in a group.
    fn taken(&self, but: &str, group: &str) -> Taken {
        let mut taken = Taken::default();
        for (name, names) in &self.definitions {
            if **name != *but && *names.group == *group {
                taken.extend(&names.held);
            }
        }
        taken
    }

    /// Serves these kinds of a definition, and none that it defined before.
    fn serve(&mut self, definition: &str, kinds: Vec<Kind>) {
        self.kinds.retain(|kind| !kind.is_defined_by(definition));
        for kind in kinds {
            self.kinds.push(kind);
            // The key is replaced too: a definition that was created again may have another scope.
            let table = self.tables.remove(&kind);
            let table = table.unwrap_or_else(|| Table::new(self.history));
            self.tables.insert(kind, table);
        }
    }

    /// Looks again at the definitions of a group that want names which may be free now.
    pub(super) fn reconsider_names(&mut self, changed: &Object) {
        let Some((_, group)) = changed.name().split_once('.') else {
            return;
        };
        let is_waiting = |name: &Arc<str>, names: &Names| {
            *names.group == *group && names.wants_more && *name != changed.key
        };
        let waiting: Vec<Arc<str>> = self
            .definitions
            .iter()
            .filter(|(name, names)| is_waiting(name, names))
            .map(|(name, _)| Arc::clone(name))
            .collect();
        for name in waiting {
            let Some(definition) = self.definition(&name).cloned() else {
                continue;
            };
            let taken = self.taken(&name, group);
            let mut value = definition.value();
            if accept_names(&mut value, &taken, &self.clock.time()) {
                self.put(Draft::new(definition.kind, &value), Some(definition));
            }
        }
    }

    /// Removes what is left of a definition's objects, and serves them no more.
    pub(super) fn undefine(&mut self, definition: &Object) {
        if let Some(kind) = self.stored_kind(definition.name()) {
            for object in self.range(kind, "") {
                self.take(&object);
            }
            self.serve(definition.name(), Vec::new());
            // With it go the watches.
            self.table_mut(kind).wake = Wake::default();
        }
        self.definitions.remove(&definition.key);
        self.reconsider_names(definition);
    }

    /// A deleted definition goes when it has no objects any more.
    pub(crate) fn finish_definition(&mut self, name: &str) {
        let Some(definition) = self.definition(name).filter(|definition| definition.deleting) else {
            return;
        };
        let definition = Arc::clone(definition);
        let kind = self.stored_kind(name);
        if kind.is_some_and(|kind| !self.table(kind).objects.is_empty()) {
            return;
        }
        let mut value = definition.value();
        let mut finalizers = texts(&value, "/metadata/finalizers");
        finalizers.retain(|finalizer| finalizer != CLEANUP);
        if finalizers.is_empty() {
            self.take(&definition);
        } else {
            value["metadata"]["finalizers"] = finalizers.into();
            self.put(Draft::new(definition.kind, &value), Some(Arc::clone(&definition)));
        }
        self.table(definition.kind).wake();
    }
}
