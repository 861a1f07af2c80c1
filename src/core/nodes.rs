//! The nodes of the cluster, shared by all namespaces, and which namespaces want to hear of which.

use super::facts::NodeFacts;
use super::hash::{KeyedMap, KeyedSet};
use super::hints::{Disabled, NodeCapacity, ZoneCapacity, ZoneRatios};
use std::sync::Arc;

/// What is known of a node at a version of the [`NodeTable`]. Made once, and shared by all namespaces with pods on
/// the node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeView {
    /// Its name.
    pub name: Arc<str>,
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
    fn look_up(&mut self, node: &Arc<str>, namespace: &Arc<str>) -> Arc<NodeView>;

    /// The namespace has no pod on the node any more.
    fn forget(&mut self, node: &str, namespace: &str);

    /// The zones now, and from now on the namespace hears of their changes.
    fn zones(&mut self, namespace: &Arc<str>) -> ZoneView;

    /// No Service of the namespace depends on the zones any more.
    fn forget_zones(&mut self, namespace: &str);
}

/// All nodes by name. Owned by the process, behind one lock; never held for longer than one call.
#[derive(Clone, Debug, Default)]
pub struct NodeTable {
    nodes: KeyedMap<Arc<str>, Entry>,
    version: u64,
    capacity: ZoneCapacity,
    capacity_changed: bool,
    interested_in_zones: KeyedSet<Arc<str>>,
}

#[derive(Clone, Debug)]
struct Entry {
    view: Arc<NodeView>,
    epoch: u8,
    /// In order: most nodes have pods of few namespaces.
    interested: Vec<Arc<str>>,
}

/// A change of a node that namespaces must hear of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeChange {
    /// What it is now.
    pub view: Arc<NodeView>,
    /// The namespaces with pods on it.
    pub namespaces: Vec<Arc<str>>,
}

impl NodeTable {
    /// A node as a list (of the given epoch) or a watch shows it. `None` when nothing that we publish changed.
    pub fn apply(&mut self, name: &Arc<str>, facts: NodeFacts, epoch: u8) -> Option<NodeChange> {
        let entry = self.entry(name);
        entry.epoch = epoch;
        if entry.view.facts.as_ref() == Some(&facts) {
            return None;
        }
        Some(self.change(name, Some(facts)))
    }

    /// The entry of a node. One that is not there is not there as of now: what an older event says of it does not
    /// count.
    fn entry(&mut self, name: &Arc<str>) -> &mut Entry {
        let version = self.version;
        self.nodes.entry(name.clone()).or_insert_with(|| Entry {
            view: Arc::new(NodeView {
                name: name.clone(),
                version,
                facts: None,
            }),
            epoch: 0,
            interested: Vec::new(),
        })
    }

    fn change(&mut self, name: &Arc<str>, facts: Option<NodeFacts>) -> NodeChange {
        self.version += 1;
        let version = self.version;
        let entry = self.entry(name);
        entry.view = Arc::new(NodeView {
            name: entry.view.name.clone(),
            version,
            facts,
        });
        NodeChange {
            view: entry.view.clone(),
            namespaces: entry.interested.clone(),
        }
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
        entry.view.facts.as_ref()?;
        self.capacity_changed |= self.capacity.apply(&name, None);
        if idle {
            self.version += 1;
            self.nodes.remove(&name);
            return None;
        }
        Some(self.change(&name, None))
    }

    /// After a whole list of the given epoch: nodes that it did not show are gone.
    pub fn sweep(&mut self, epoch: u8) -> Vec<NodeChange> {
        let mut gone: Vec<_> = self
            .nodes
            .iter()
            .filter(|(_, entry)| entry.view.facts.is_some() && entry.epoch != epoch)
            .map(|(name, _)| name.clone())
            .collect();
        gone.sort_unstable();
        gone.iter().filter_map(|name| self.remove(name)).collect()
    }

    /// What is known of a node.
    pub fn get(&self, name: &str) -> Option<&NodeFacts> {
        self.nodes.get(name)?.view.facts.as_ref()
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        let there = |entry: &&Entry| entry.view.facts.is_some();
        self.nodes.values().filter(there).count()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl NodeDirectory for NodeTable {
    fn look_up(&mut self, node: &Arc<str>, namespace: &Arc<str>) -> Arc<NodeView> {
        let entry = self.entry(node);
        if let Err(at) = entry.interested.binary_search(namespace) {
            entry.interested.insert(at, namespace.clone());
        }
        entry.view.clone()
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
            if let Ok(at) = entry
                .interested
                .binary_search_by(|known| (**known).cmp(namespace))
            {
                entry.interested.remove(at);
            }
            if entry.interested.is_empty() && entry.view.facts.is_none() {
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
            (change.namespaces.as_slice(), change.view.facts.clone()),
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
        assert_eq!(gone.iter().map(|c| &*c.view.name).collect::<Vec<_>>(), ["n2"]);
        assert_eq!(table.len(), 1);
    }
}
