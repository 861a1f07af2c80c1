//! The nodes of the cluster, shared by all namespaces, and which namespaces want to hear of which.

use super::facts::NodeFacts;
use super::hints::{Disabled, NodeCapacity, ZoneCapacity, ZoneRatios};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use std::sync::Arc;

/// What is known of a node at a version of the [`NodeTable`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeView {
    /// Grows with each change of the table, so that an older view cannot replace a newer one.
    pub version: u64,
    /// `None` when there is no such node.
    pub facts: Option<NodeFacts>,
}

/// The CPU of the zones at a version of the [`NodeTable`].
#[derive(Clone, Debug)]
pub struct ZoneView {
    /// As in [`NodeView`].
    pub version: u64,
    /// Each zone's share, or why there are none.
    pub ratios: Result<Arc<ZoneRatios>, Disabled>,
}

/// Where a namespace's state looks nodes up.
pub trait NodeDirectory {
    /// The node now, and from now on the namespace hears of its changes: one step, so that a node which
    /// appears in between is not missed.
    fn look_up(&mut self, node: &Arc<str>, namespace: &Arc<str>) -> NodeView;

    /// The namespace has no pod on the node any more.
    fn forget(&mut self, node: &str, namespace: &str);

    /// The zones now, and from now on the namespace hears of their changes.
    fn zones(&mut self, namespace: &Arc<str>) -> ZoneView;

    /// No Service of the namespace depends on the zones any more.
    fn forget_zones(&mut self, namespace: &str);
}

/// All nodes by name. Owned by the process, behind one lock; never held for longer than one call.
#[derive(Debug, Default)]
pub struct NodeTable {
    nodes: FxHashMap<Arc<str>, Entry>,
    version: u64,
    capacity: ZoneCapacity,
    capacity_changed: bool,
    interested_in_zones: FxHashSet<Arc<str>>,
}

#[derive(Debug, Default)]
struct Entry {
    facts: Option<NodeFacts>,
    version: u64,
    epoch: u8,
    interested: FxHashSet<Arc<str>>,
}

/// A change of a node that namespaces must hear of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeChange {
    /// The node's name.
    pub node: Arc<str>,
    /// What it is now.
    pub view: NodeView,
    /// The namespaces with pods on it.
    pub namespaces: Vec<Arc<str>>,
}

impl NodeTable {
    /// A node as a list (of the given epoch) or a watch shows it. `None` when nothing that we publish changed.
    pub fn apply(&mut self, name: &Arc<str>, facts: NodeFacts, epoch: u8) -> Option<NodeChange> {
        let entry = self.nodes.entry(name.clone()).or_default();
        entry.epoch = epoch;
        if entry.facts.as_ref() == Some(&facts) {
            return None;
        }
        entry.facts = Some(facts);
        self.version += 1;
        entry.version = self.version;
        Some(entry.change(name))
    }

    /// What a node adds to its zone.
    pub fn apply_capacity(&mut self, name: &Arc<str>, capacity: &NodeCapacity) {
        self.capacity_changed |= self.capacity.apply(name, Some(capacity));
    }

    /// The zones and the namespaces that must hear of them, if they have changed since the last time.
    pub fn take_zone_change(&mut self) -> Option<(ZoneView, Vec<Arc<str>>)> {
        if !std::mem::take(&mut self.capacity_changed) {
            return None;
        }
        self.version += 1;
        let mut namespaces: Vec<_> = self.interested_in_zones.iter().cloned().collect();
        namespaces.sort_unstable();
        Some((self.zone_view(), namespaces))
    }

    fn zone_view(&self) -> ZoneView {
        ZoneView {
            version: self.version,
            ratios: self.capacity.ratios().cloned(),
        }
    }

    /// A node is gone.
    pub fn remove(&mut self, name: &str) -> Option<NodeChange> {
        let (name, entry) = self.nodes.get_key_value(name)?;
        let (name, idle) = (name.clone(), entry.interested.is_empty());
        entry.facts.as_ref()?;
        self.capacity_changed |= self.capacity.apply(&name, None);
        self.version += 1;
        if idle {
            self.nodes.remove(&name);
            return None;
        }
        let entry = self.nodes.get_mut(&name).expect("the entry was just found");
        entry.facts = None;
        entry.version = self.version;
        Some(entry.change(&name))
    }

    /// After a whole list of the given epoch: nodes that it did not show are gone.
    pub fn sweep(&mut self, epoch: u8) -> Vec<NodeChange> {
        let mut gone: Vec<_> = self
            .nodes
            .iter()
            .filter(|(_, entry)| entry.facts.is_some() && entry.epoch != epoch)
            .map(|(name, _)| name.clone())
            .collect();
        gone.sort_unstable();
        gone.iter().filter_map(|name| self.remove(name)).collect()
    }

    /// What is known of a node.
    pub fn get(&self, name: &str) -> Option<&NodeFacts> {
        self.nodes.get(name)?.facts.as_ref()
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.values().filter(|entry| entry.facts.is_some()).count()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Entry {
    fn change(&self, name: &Arc<str>) -> NodeChange {
        let mut namespaces: Vec<_> = self.interested.iter().cloned().collect();
        namespaces.sort_unstable();
        NodeChange {
            node: name.clone(),
            view: self.view(),
            namespaces,
        }
    }

    fn view(&self) -> NodeView {
        NodeView {
            version: self.version,
            facts: self.facts.clone(),
        }
    }
}

impl NodeDirectory for NodeTable {
    fn look_up(&mut self, node: &Arc<str>, namespace: &Arc<str>) -> NodeView {
        // A node that is not there is not there as of now: what an older event says of it does not count.
        let version = self.version;
        let entry = self.nodes.entry(node.clone()).or_insert_with(|| Entry {
            version,
            interested: FxHashSet::with_capacity_and_hasher(1, FxBuildHasher),
            ..Entry::default()
        });
        entry.interested.insert(namespace.clone());
        entry.view()
    }

    fn zones(&mut self, namespace: &Arc<str>) -> ZoneView {
        self.interested_in_zones.insert(namespace.clone());
        self.zone_view()
    }

    fn forget_zones(&mut self, namespace: &str) {
        self.interested_in_zones.remove(namespace);
    }

    fn forget(&mut self, node: &str, namespace: &str) {
        if let Some(entry) = self.nodes.get_mut(node) {
            entry.interested.remove(namespace);
            if entry.interested.is_empty() && entry.facts.is_none() {
                self.nodes.remove(node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(zone: &str) -> NodeFacts {
        NodeFacts {
            zone: Some(zone.into()),
        }
    }

    #[test]
    fn only_the_interested_hear_and_only_of_changes() {
        let mut table = NodeTable::default();
        let (n1, ns): (Arc<str>, Arc<str>) = ("n1".into(), "a".into());
        assert_eq!(table.look_up(&n1, &ns).facts, None);
        let change = table.apply(&n1, zone("z1"), 0).unwrap();
        assert_eq!(
            (change.namespaces.as_slice(), change.view.facts),
            ([ns.clone()].as_slice(), Some(zone("z1")))
        );
        assert_eq!(table.apply(&n1, zone("z1"), 0), None);
        let before = table.look_up(&n1, &ns).version;
        assert!(table.apply(&n1, zone("z2"), 0).unwrap().view.version > before);
        assert!(table.remove("n1").unwrap().view.facts.is_none());
        assert_eq!(table.remove("n1"), None);
        table.forget("n1", "a");
        assert!(table.nodes.is_empty());
    }

    #[test]
    fn an_event_from_before_a_look_up_is_older_than_what_it_shows() {
        let mut table = NodeTable::default();
        let (n1, ns): (Arc<str>, Arc<str>) = ("n1".into(), "a".into());
        table.look_up(&n1, &ns);
        let change = table.apply(&n1, zone("z1"), 0).unwrap();
        table.forget("n1", "a");
        assert_eq!(table.remove("n1"), None, "nobody is interested");
        assert!(table.look_up(&n1, &ns).version > change.view.version);
    }

    #[test]
    fn a_sweep_removes_what_the_list_did_not_show() {
        let mut table = NodeTable::default();
        let ns: Arc<str> = "a".into();
        for name in ["n1", "n2"] {
            table.apply(&name.into(), zone("z"), 255);
            table.look_up(&name.into(), &ns);
        }
        table.apply(&"n1".into(), zone("z"), 0);
        let gone = table.sweep(0);
        assert_eq!(gone.iter().map(|c| &*c.node).collect::<Vec<_>>(), ["n2"]);
        assert_eq!(table.len(), 1);
    }
}
