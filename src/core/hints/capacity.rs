//! The CPU of each zone, kept up to date node by node.

use super::{Disabled, Zone};
use crate::core::hash::KeyedMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A node's contribution to its zone.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeCapacity {
    /// True if its Ready condition is true; without the condition, it is not ready.
    pub ready: bool,
    /// True if it has one of the labels that exclude it.
    pub excluded: bool,
    /// The label `topology.kubernetes.io/zone`.
    pub zone: Option<Zone>,
    /// `status.allocatable.cpu` in thousandths, see [`milli_cpu`](super::milli_cpu).
    pub cpu: Option<i64>,
}

/// Each zone's share of the cluster's CPU. Immutable, so that it can be handed to every shard that needs it.
#[derive(Clone, PartialEq, Debug)]
pub struct ZoneRatios {
    /// Sorted by name; at least two.
    zones: Vec<(Zone, f64)>,
}

/// The CPU of the cluster by zone. A change of a node costs one pass over the zones, not over the nodes.
#[derive(Clone, Debug)]
pub struct ZoneCapacity {
    /// Only nodes that count: ready and not excluded.
    nodes: KeyedMap<Arc<str>, Counted>,
    zones: BTreeMap<Zone, Sum>,
    /// The number of nodes that are [`Counted::Unclear`]; one is enough to disable all hints.
    unclear: usize,
    result: Result<Arc<ZoneRatios>, Disabled>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Counted {
    /// Has no zone or no CPU.
    Unclear,
    In(Zone, i64),
}

#[derive(Clone, Debug, Default)]
struct Sum {
    nodes: usize,
    cpu: i128,
}

// === impl NodeCapacity ===

impl NodeCapacity {
    fn counted(&self) -> Option<Counted> {
        if !self.ready || self.excluded {
            return None;
        }
        Some(match (&self.zone, self.cpu) {
            (Some(zone), Some(cpu)) if !zone.is_empty() && cpu > 0 => Counted::In(zone.clone(), cpu),
            _ => Counted::Unclear,
        })
    }
}

// === impl ZoneRatios ===

impl ZoneRatios {
    /// Computes the shares from the CPU of each zone. `None` unless there are at least two zones, each with some CPU.
    pub fn new(cpu: impl IntoIterator<Item = (Zone, i128)>) -> Option<Self> {
        let cpu: BTreeMap<Zone, i128> = cpu.into_iter().collect();
        let total: i128 = cpu.values().sum();
        if cpu.len() < 2 || cpu.values().any(|cpu| *cpu <= 0) {
            return None;
        }
        let zones = cpu
            .into_iter()
            .map(|(zone, cpu)| (zone, cpu as f64 / total as f64))
            .collect();
        Some(Self { zones })
    }

    /// Returns the number of zones.
    pub fn len(&self) -> usize {
        self.zones.len()
    }

    /// Always returns false: with fewer than two zones there are no ratios.
    pub fn is_empty(&self) -> bool {
        self.zones.is_empty()
    }

    /// Returns the zones by name, each with its share; the shares add up to one.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Zone, f64)> {
        self.zones.iter().map(|(zone, ratio)| (zone, *ratio))
    }

    /// Returns the position of a zone in the order of [`ZoneRatios::iter`], if it has capacity.
    pub fn position(&self, zone: &str) -> Option<usize> {
        self.zones.binary_search_by(|(name, _)| (**name).cmp(zone)).ok()
    }

    /// Returns the zone at a position.
    pub fn zone(&self, position: usize) -> &Zone {
        &self.zones[position].0
    }
}

// === impl ZoneCapacity ===

impl Default for ZoneCapacity {
    fn default() -> Self {
        Self {
            nodes: KeyedMap::default(),
            zones: BTreeMap::new(),
            unclear: 0,
            result: Err(Disabled::NoNodes),
        }
    }
}

impl ZoneCapacity {
    /// Applies a node's current capacity, or `None` if it is gone. Returns whether [`ZoneCapacity::ratios`] changed, so
    /// that Services with the annotation must be evaluated again, also when the information becomes sufficient again.
    pub fn apply(&mut self, name: &Arc<str>, node: Option<&NodeCapacity>) -> bool {
        let new = node.and_then(NodeCapacity::counted);
        let old = match &new {
            Some(new) => self.nodes.insert(name.clone(), new.clone()),
            None => self.nodes.remove(name),
        };
        if old == new {
            return false;
        }
        match old {
            Some(Counted::Unclear) => self.unclear -= 1,
            Some(Counted::In(zone, cpu)) => {
                let sum = self
                    .zones
                    .get_mut(&zone)
                    .expect("a counted node's zone has a sum");
                sum.nodes -= 1;
                sum.cpu -= i128::from(cpu);
                if sum.nodes == 0 {
                    self.zones.remove(&zone);
                }
            }
            None => {}
        }
        match new {
            Some(Counted::Unclear) => self.unclear += 1,
            Some(Counted::In(zone, cpu)) => {
                let sum = self.zones.entry(zone).or_default();
                sum.nodes += 1;
                sum.cpu += i128::from(cpu);
            }
            None => {}
        }
        self.update()
    }

    /// Returns the shares of the zones, or the reason why no Service gets hints.
    pub fn ratios(&self) -> Result<&Arc<ZoneRatios>, Disabled> {
        self.result.as_ref().map_err(|reason| *reason)
    }

    /// Returns the number of zones that have nodes.
    pub fn zones(&self) -> usize {
        self.zones.len()
    }

    fn update(&mut self) -> bool {
        let result = if self.unclear > 0 {
            Err(Disabled::NodeInfo)
        } else if self.zones.is_empty() {
            Err(Disabled::NoNodes)
        } else {
            ZoneRatios::new(self.zones.iter().map(|(zone, sum)| (zone.clone(), sum.cpu)))
                .ok_or(Disabled::OneZone)
        };
        let changed = match (&self.result, &result) {
            (Ok(old), Ok(new)) => **old != *new,
            (Err(old), Err(new)) => old != new,
            _ => true,
        };
        if changed {
            self.result = result.map(Arc::new);
        }
        changed
    }
}
