//! The nodes of the cluster, shared by all namespaces, and the namespaces that each node concerns.

use super::facts::NodeFacts;
use super::hash::{KeyedMap, KeyedSet};
use super::hints::{Disabled, NodeCapacity, Zone, ZoneCapacity, ZoneRatios};
use super::work::Work;
use std::sync::Arc;

/// The known state of a node at a version of the [`NodeTable`]. Created once, and shared by all namespaces with pods on
/// the node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeView {
    /// Its name.
    pub name: Arc<str>,
    /// Increases with each change of the table, so that an older view cannot replace a newer one.
    pub version: u64,
    /// `None` if there is no such node.
    pub facts: Option<NodeFacts>,
    /// The zone of its label. While the node or the label is missing, the zone is unknown: the one that slices of the namespace
    /// show, if there is any.
    pub zone: Option<Zone>,
}

impl NodeView {
    /// Returns whether the node exists and has a zone.
    pub fn knows_zone(&self) -> bool {
        self.facts.as_ref().is_some_and(|facts| facts.zone.is_some())
    }
}

/// The CPU of the zones at a version of the [`NodeTable`].
#[derive(Clone, Debug)]
pub struct ZoneView {
    /// As in [`NodeView`].
    pub version: u64,
    /// Each zone's share, or the reason why there are none.
    pub ratios: Result<Arc<ZoneRatios>, Disabled>,
}

/// The directory in which a namespace's state looks up nodes.
pub trait NodeDirectory {
    /// Returns the current node and subscribes the namespace to its changes, in one step, so that a node that appears
    /// in between is not missed.
    fn look_up(&mut self, node: &Arc<str>, namespace: &Arc<str>) -> Arc<NodeView>;

    /// Unsubscribes a namespace that no longer has a pod on the node.
    fn forget(&mut self, node: &str, namespace: &str);

    /// Returns the current zones and subscribes the namespace to their changes.
    fn zones(&mut self, namespace: &Arc<str>) -> ZoneView;

    /// Unsubscribes a namespace in which no Service depends on the zones any more.
    fn forget_zones(&mut self, namespace: &str);
}

/// All nodes by name. Owned by the process, behind one lock that is never held for longer than one call.
#[derive(Clone, Debug, Default)]
pub struct NodeTable {
    nodes: KeyedMap<Arc<str>, Entry>,
    /// Number of those that exist.
    there: usize,
    version: u64,
    capacity: ZoneCapacity,
    capacity_changed: bool,
    interested_in_zones: KeyedSet<Arc<str>>,
    work: Work,
}

#[derive(Clone, Debug)]
struct Entry {
    view: Arc<NodeView>,
    epoch: u8,
    /// Sorted; most nodes have pods of few namespaces.
    interested: Vec<Arc<str>>,
}

/// A change of a node, and the namespaces to notify.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeChange {
    /// The node's new state.
    pub view: Arc<NodeView>,
    /// The namespaces with pods on it.
    pub namespaces: Vec<Arc<str>>,
}

impl NodeTable {
    /// Returns the work done so far.
    pub fn work(&self) -> &Work {
        &self.work
    }

    /// Applies a node from a list (of the given epoch) or a watch. Returns `None` if nothing that is published changed.
    pub fn apply(&mut self, name: &Arc<str>, facts: NodeFacts, epoch: u8) -> Option<NodeChange> {
        self.work.nodes_visited += 1;
        let entry = self.entry(name);
        entry.epoch = epoch;
        if entry.view.facts.as_ref() == Some(&facts) {
            return None;
        }
        Some(self.change(name, Some(facts)))
    }

    /// Returns the entry of a node. A node that is not there is recorded as absent at the current version, so that
    /// older events about it do not count.
    fn entry(&mut self, name: &Arc<str>) -> &mut Entry {
        let version = self.version;
        self.nodes.entry(name.clone()).or_insert_with(|| Entry {
            view: Arc::new(NodeView {
                name: name.clone(),
                version,
                facts: None,
                zone: None,
            }),
            epoch: 0,
            interested: Vec::new(),
        })
    }

    fn change(&mut self, name: &Arc<str>, facts: Option<NodeFacts>) -> NodeChange {
        self.version += 1;
        let version = self.version;
        let is_there = facts.is_some();
        let entry = self.entry(name);
        let was_there = entry.view.facts.is_some();
        let zone = facts.as_ref().and_then(|facts| facts.zone.clone());
        entry.view = Arc::new(NodeView {
            name: entry.view.name.clone(),
            version,
            facts,
            zone,
        });
        let change = NodeChange {
            view: entry.view.clone(),
            namespaces: entry.interested.clone(),
        };
        self.there += usize::from(is_there);
        self.there -= usize::from(was_there);
        self.work.nodes_visited += change.namespaces.len() as u64;
        change
    }

    /// Applies a node's contribution to its zone.
    pub fn apply_capacity(&mut self, name: &Arc<str>, capacity: &NodeCapacity) {
        self.apply_to_zones(name, Some(capacity));
    }

    /// Applies a node's contribution, or that it has none any more. The shares of all zones are computed again.
    fn apply_to_zones(&mut self, name: &Arc<str>, capacity: Option<&NodeCapacity>) {
        self.capacity_changed |= self.capacity.apply(name, capacity);
        self.work.nodes_visited += 1 + self.capacity.zones() as u64;
    }

    /// Returns the zones and the namespaces to notify, if they have changed since the last call.
    pub fn take_zone_change(&mut self) -> Option<(ZoneView, Vec<Arc<str>>)> {
        if !std::mem::take(&mut self.capacity_changed) {
            return None;
        }
        self.version += 1;
        let mut namespaces: Vec<_> = self.interested_in_zones.iter().cloned().collect();
        namespaces.sort_unstable();
        self.work.nodes_visited += namespaces.len() as u64;
        Some((self.zone_view(), namespaces))
    }

    fn zone_view(&self) -> ZoneView {
        ZoneView {
            version: self.version,
            ratios: self.capacity.ratios().cloned(),
        }
    }

    /// Removes a node.
    pub fn remove(&mut self, name: &str) -> Option<NodeChange> {
        let (name, entry) = self.nodes.get_key_value(name)?;
        let (name, idle) = (name.clone(), entry.interested.is_empty());
        entry.view.facts.as_ref()?;
        self.work.nodes_visited += 1;
        self.apply_to_zones(&name, None);
        if idle {
            self.version += 1;
            self.nodes.remove(&name);
            self.there -= 1;
            return None;
        }
        Some(self.change(&name, None))
    }

    /// Removes the nodes that a complete list of the given epoch did not include.
    pub fn sweep(&mut self, epoch: u8) -> Vec<NodeChange> {
        self.work.nodes_visited += self.nodes.len() as u64;
        let mut gone: Vec<_> = self
            .nodes
            .iter()
            .filter(|(_, entry)| entry.view.facts.is_some() && entry.epoch != epoch)
            .map(|(name, _)| name.clone())
            .collect();
        gone.sort_unstable();
        gone.iter().filter_map(|name| self.remove(name)).collect()
    }

    /// Returns the known state of a node.
    pub fn get(&self, name: &str) -> Option<&NodeFacts> {
        self.nodes.get(name)?.view.facts.as_ref()
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.there
    }

    /// Returns whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl NodeDirectory for NodeTable {
    fn look_up(&mut self, node: &Arc<str>, namespace: &Arc<str>) -> Arc<NodeView> {
        self.work.nodes_visited += 1;
        let entry = self.entry(node);
        if let Err(at) = entry.interested.binary_search(namespace) {
            entry.interested.insert(at, namespace.clone());
        }
        entry.view.clone()
    }

    fn zones(&mut self, namespace: &Arc<str>) -> ZoneView {
        self.work.nodes_visited += 1;
        self.interested_in_zones.insert(namespace.clone());
        self.zone_view()
    }

    fn forget_zones(&mut self, namespace: &str) {
        self.interested_in_zones.remove(namespace);
    }

    fn forget(&mut self, node: &str, namespace: &str) {
        self.work.nodes_visited += 1;
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
