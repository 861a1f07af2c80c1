//! Which objects own which, and which of them the collector has to look at.

use super::State;
use crate::kinds::{Kind, Role};
use crate::object::{Object, Owner};
use std::sync::Arc;

/// The state of an object's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Present,
    /// The owner is gone, or was never there under this name and UID in the object's namespace.
    Absent,
    /// Its kind is not served, or it has a namespace and the object has none. Upstream leaves such objects alone.
    Unknown,
}

impl State {
    /// The state of an owner of an object.
    pub(crate) fn presence(&self, object: &Object, owner: &Owner) -> Presence {
        let Some(kind) = self.kinds.iter().find(|kind| owner.is_of(**kind)) else {
            return Presence::Unknown;
        };
        if kind.namespaced && object.namespace().is_empty() {
            return Presence::Unknown;
        }
        let found = owner.uid.and_then(|uid| self.live.get(&uid));
        let is_it = |(found, key): &(Kind, Arc<str>)| {
            let (namespace, name) = key.rsplit_once('/').unwrap_or(("", key));
            found == kind && name == &*owner.name && (namespace.is_empty() || namespace == object.namespace())
        };
        if found.is_some_and(is_it) {
            Presence::Present
        } else {
            Presence::Absent
        }
    }

    /// Returns the objects that name `uid` as an owner.
    pub(crate) fn dependents(&self, uid: u128) -> Vec<(Kind, Arc<str>)> {
        self.dependents
            .get(&uid)
            .map(|d| d.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// Notes a stored object and its owners.
    pub(super) fn link(&mut self, object: &Arc<Object>) {
        let id = (object.kind, Arc::clone(&object.key));
        self.live.insert(object.uid, id.clone());
        for owner in &object.owners {
            if let Some(uid) = owner.uid {
                self.dependents.entry(uid).or_default().insert(id.clone());
            }
            // Born without its owner.
            if self.collects && self.presence(object, owner) == Presence::Absent {
                self.suspects.insert(id.clone());
            }
        }
        let looks = match object.kind.role {
            Role::Namespace => self.empties,
            _ => self.collects,
        };
        if looks && object.deleting {
            self.suspects.insert(id);
        }
    }

    /// Forgets the owners of an object that is about to change or to go.
    pub(super) fn unlink(&mut self, object: &Arc<Object>) {
        for owner in &object.owners {
            let Some(uid) = owner.uid else { continue };
            if let Some(dependents) = self.dependents.get_mut(&uid) {
                dependents.remove(&(object.kind, Arc::clone(&object.key)));
                if dependents.is_empty() {
                    self.dependents.remove(&uid);
                }
            }
        }
    }

    /// Notes what the end of an object means for others.
    pub(super) fn bury(&mut self, object: &Object) {
        self.live.remove(&object.uid);
        if self.empties {
            self.suspect_namespace(object);
        }
        if self.collects {
            if self.dependents.contains_key(&object.uid) {
                self.gone.insert(object.uid);
            }
            self.suspect_owners(object);
        }
    }

    /// A namespace on its way out may be empty now.
    fn suspect_namespace(&mut self, object: &Object) {
        if let Some(namespace) = self.namespace(object.namespace()).filter(|n| n.deleting) {
            let suspect = (self.namespaces, Arc::clone(&namespace.key));
            self.suspects.insert(suspect);
        }
    }

    /// An owner that waits for its dependents may have lost its last one.
    fn suspect_owners(&mut self, object: &Object) {
        for owner in &object.owners {
            let Some((kind, key)) = owner.uid.and_then(|uid| self.live.get(&uid)) else {
                continue;
            };
            let owner = self.table(*kind).objects.get(key);
            if owner.is_some_and(|owner| owner.deleting) {
                let suspect = (*kind, Arc::clone(key));
                self.suspects.insert(suspect);
            }
        }
    }
}
