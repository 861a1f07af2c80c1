//! The differences between two versions of mirrored Endpoints.

use super::{MirroredGroup, MirroredObject};
use crate::core::work::{TurnBudget, Work};
use std::cmp::Ordering;
use std::sync::Arc;

/// The number of endpoints that differ between two versions.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Changes {
    /// Endpoints whose address was not in their slice.
    pub added: u32,
    /// Endpoints that keep their address and their slice.
    pub updated: u32,
    /// Endpoints whose address is no longer in their slice.
    pub removed: u32,
}

impl Changes {
    /// Adds the changes between two other versions.
    pub fn add(&mut self, other: Self) {
        self.added = self.added.saturating_add(other.added);
        self.updated = self.updated.saturating_add(other.updated);
        self.removed = self.removed.saturating_add(other.removed);
    }
}

/// A comparison of two versions, in steps. Groups that hold the same in both are not looked into.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// The next group of each version.
    at: [usize; 2],
    changes: Changes,
    /// The last two lists that were compared, and what differs: groups share lists.
    last: Option<([Arc<[u32]>; 2], Changes)>,
}

impl Comparison {
    /// Continues, as far as the budget goes. Returns the changes when it is complete. The versions must be the same in
    /// each step; `old` is `None` if there was none before.
    pub fn step(
        &mut self,
        old: Option<&MirroredObject>,
        new: &MirroredObject,
        budget: &mut TurnBudget,
        work: &mut Work,
    ) -> Option<Changes> {
        while !budget.is_spent() {
            let before = old.and_then(|old| Some((old, old.groups.get(self.at[0])?)));
            let after = new.groups.get(self.at[1]);
            let key = |group: &MirroredGroup| group.family;
            let order = match (before, after) {
                (None, None) => return Some(self.changes),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((_, a)), Some(b)) => key(a).cmp(&key(b)).then_with(|| a.ports[..].cmp(&b.ports[..])),
            };
            let mut units = 1;
            if order.is_le() {
                self.at[0] += 1;
            }
            if order.is_ge() {
                self.at[1] += 1;
            }
            match (before, after) {
                (Some((old, a)), Some(b)) if order.is_eq() => {
                    units += a.ports.len() as u64 / 8;
                    if a.content != b.content {
                        units += self.compare(old, a, new, b);
                    }
                }
                (Some((_, a)), _) if order.is_lt() => self.changes.removed += a.size() as u32,
                (_, Some(b)) => self.changes.added += b.size() as u32,
                _ => {}
            }
            work.endpoints_laid_out += units;
            budget.spend(units);
        }
        None
    }

    /// Compares the endpoints of one slice. Returns the units of work.
    fn compare(
        &mut self,
        old: &MirroredObject,
        a: &MirroredGroup,
        new: &MirroredObject,
        b: &MirroredGroup,
    ) -> u64 {
        if let Some((lists, changes)) = &self.last
            && Arc::ptr_eq(&lists[0], &a.members)
            && Arc::ptr_eq(&lists[1], &b.members)
        {
            self.changes.add(*changes);
            return 1;
        }
        let mut changes = Changes::default();
        let (mut old, mut new) = (old.endpoints_of(a).peekable(), new.endpoints_of(b).peekable());
        // Both are sorted, by address first.
        while let Some(ip) = match (old.peek(), new.peek()) {
            (Some(a), Some(b)) => Some(a.ip.min(b.ip)),
            (Some(one), None) | (None, Some(one)) => Some(one.ip),
            (None, None) => None,
        } {
            let (mut gone, mut came) = (0, 0);
            loop {
                let a = old.peek().filter(|endpoint| endpoint.ip == ip);
                let b = new.peek().filter(|endpoint| endpoint.ip == ip);
                let order = match (a, b) {
                    (None, None) => break,
                    (Some(_), None) => Ordering::Less,
                    (None, Some(_)) => Ordering::Greater,
                    (Some(a), Some(b)) => a.cmp(b),
                };
                gone += u32::from(order.is_lt());
                came += u32::from(order.is_gt());
                if order.is_le() {
                    old.next();
                }
                if order.is_ge() {
                    new.next();
                }
            }
            let updated = gone.min(came);
            changes.add(Changes {
                added: came - updated,
                updated,
                removed: gone - updated,
            });
        }
        self.changes.add(changes);
        self.last = Some(([a.members.clone(), b.members.clone()], changes));
        (a.size() + b.size()) as u64
    }
}
