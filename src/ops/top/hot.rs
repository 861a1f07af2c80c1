//! The Services whose slices change most, over the last minute, in bounded memory.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The length in seconds of a time slot. Changes are counted by slot, so that they can be forgotten.
const SLOT: u64 = 5;
/// The number of slots: a minute.
const SLOTS: usize = 12;
/// The time for which changes are counted.
pub(super) const COUNTED: Duration = Duration::from_secs(SLOT * SLOTS as u64);
/// The number of Services that are counted one by one. Those beyond are counted together, until others go quiet.
const SERVICES: usize = 20_000;

/// A Service's namespace and name.
pub(super) type ServiceKey = (Arc<str>, Arc<str>);

/// The number of changes of slices by Service, over the last minute. Times are counted from the start of this program.
#[derive(Debug)]
pub(super) struct HotServices {
    services: BTreeMap<ServiceKey, Changes>,
    /// Changes of Services for which there was no room.
    rest: Changes,
    slot: u64,
    limit: usize,
}

#[derive(Clone, Debug, Default)]
struct Changes {
    counts: [u32; SLOTS],
    deletes: [u32; SLOTS],
    last: Duration,
}

/// The changes of one Service's slices in the last minute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct HotService {
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
    /// All changes, with deletes.
    pub(super) changes: u32,
    pub(super) deletes: u32,
    /// How long ago the last one arrived.
    pub(super) last: Duration,
}

/// The orders of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Sort {
    /// Most changes first.
    #[default]
    Changes,
    /// Most deletes first.
    Deletes,
    /// Latest change first.
    Last,
    /// By namespace and name.
    Name,
}

impl Sort {
    /// Returns the order that follows this one, when a key goes through all of them.
    pub(super) fn next(self) -> Self {
        match self {
            Self::Changes => Self::Deletes,
            Self::Deletes => Self::Last,
            Self::Last => Self::Name,
            Self::Name => Self::Changes,
        }
    }

    /// Returns the order in a word.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Changes => "changes",
            Self::Deletes => "deletes",
            Self::Last => "last change",
            Self::Name => "name",
        }
    }
}

impl Default for HotServices {
    fn default() -> Self {
        Self::with_limit(SERVICES)
    }
}

impl HotServices {
    fn with_limit(limit: usize) -> Self {
        Self {
            services: BTreeMap::new(),
            rest: Changes::default(),
            slot: 0,
            limit,
        }
    }

    /// Counts a change of a Service's slice.
    pub(super) fn changed(&mut self, service: ServiceKey, deleted: bool, now: Duration) {
        self.advance(now);
        let at = (self.slot % SLOTS as u64) as usize;
        let full = self.services.len() >= self.limit && !self.services.contains_key(&service);
        let changes = if full {
            &mut self.rest
        } else {
            self.services.entry(service).or_default()
        };
        changes.counts[at] = changes.counts[at].saturating_add(1);
        changes.deletes[at] = changes.deletes[at].saturating_add(u32::from(deleted));
        changes.last = now;
    }

    /// Forgets what is older than a minute.
    pub(super) fn advance(&mut self, now: Duration) {
        let slot = now.as_secs() / SLOT;
        let passed = slot.saturating_sub(self.slot).min(SLOTS as u64);
        if passed == 0 {
            return;
        }
        let stale: Vec<usize> = (slot + 1 - passed..=slot)
            .map(|slot| (slot % SLOTS as u64) as usize)
            .collect();
        self.slot = slot;
        self.rest.clear(&stale);
        self.services.retain(|_, changes| {
            changes.clear(&stale);
            changes.counts.iter().any(|&count| count > 0)
        });
    }

    /// Returns the Services whose namespace or name, written `namespace/name`, contains the filter, in order.
    pub(super) fn sorted(&self, sort: Sort, filter: &str, now: Duration) -> Vec<HotService> {
        let mut found: Vec<_> = self
            .services
            .iter()
            .filter(|((namespace, name), _)| format!("{namespace}/{name}").contains(filter))
            .map(|((namespace, name), changes)| HotService {
                namespace: namespace.clone(),
                name: name.clone(),
                changes: changes.counts.iter().sum(),
                deletes: changes.deletes.iter().sum(),
                last: now.saturating_sub(changes.last),
            })
            .collect();
        // The sorts are stable, so equal ones stay in the order of their names.
        match sort {
            Sort::Changes => found.sort_by_key(|service| Reverse(service.changes)),
            Sort::Deletes => found.sort_by_key(|service| Reverse((service.deletes, service.changes))),
            Sort::Last => found.sort_by_key(|service| service.last),
            Sort::Name => {}
        }
        found
    }

    /// Returns the number of changes of Services for which there was no room.
    pub(super) fn uncounted(&self) -> u32 {
        self.rest.counts.iter().sum()
    }
}

impl Changes {
    fn clear(&mut self, slots: &[usize]) {
        for &slot in slots {
            self.counts[slot] = 0;
            self.deletes[slot] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn service(name: &str) -> ServiceKey {
        ("shop".into(), name.into())
    }

    fn names(hot: &HotServices, sort: Sort, filter: &str) -> Vec<String> {
        let found = hot.sorted(sort, filter, at(30));
        found.iter().map(|service| service.name.to_string()).collect()
    }

    #[test]
    fn the_orders_differ_and_ties_go_by_name() {
        let mut hot = HotServices::default();
        for (name, changes, deletes, last) in [("cart", 3, 2, 10), ("api", 5, 0, 9), ("web", 3, 0, 20)] {
            for number in 0..changes {
                hot.changed(service(name), number < deletes, at(last));
            }
        }
        assert_eq!(names(&hot, Sort::Changes, ""), ["api", "cart", "web"]);
        assert_eq!(names(&hot, Sort::Deletes, ""), ["cart", "api", "web"]);
        assert_eq!(names(&hot, Sort::Last, ""), ["web", "cart", "api"]);
        assert_eq!(names(&hot, Sort::Name, ""), ["api", "cart", "web"]);
        assert_eq!(names(&hot, Sort::Name, "shop/w"), ["web"]);
        assert_eq!(names(&hot, Sort::Name, "elsewhere"), [""; 0]);
        let mut sort = Sort::default();
        for _ in 0..4 {
            sort = sort.next();
        }
        assert_eq!(sort, Sort::default(), "the key leads through all orders");
    }

    #[test]
    fn a_change_is_forgotten_after_a_minute() {
        let mut hot = HotServices::default();
        hot.changed(service("web"), false, at(3));
        hot.changed(service("web"), false, at(33));
        hot.advance(at(59));
        assert_eq!(hot.sorted(Sort::Name, "", at(59))[0].changes, 2);
        hot.advance(at(60));
        assert_eq!(hot.sorted(Sort::Name, "", at(60))[0].changes, 1);
        hot.advance(at(500));
        assert_eq!(hot.sorted(Sort::Name, "", at(500)), []);
        assert!(hot.services.is_empty(), "nothing is kept of a quiet Service");
        hot.changed(service("web"), true, at(501));
        let found = &hot.sorted(Sort::Name, "", at(503))[0];
        assert_eq!((found.changes, found.deletes, found.last), (1, 1, at(2)));
    }

    #[test]
    fn memory_is_bounded_and_the_rest_is_counted() {
        let mut hot = HotServices::with_limit(3);
        for number in 0..10 {
            hot.changed(service(&format!("s{number}")), false, at(1));
        }
        hot.changed(service("s0"), false, at(1));
        assert_eq!((hot.services.len(), hot.uncounted()), (3, 7));
        hot.advance(at(100));
        hot.changed(service("new"), false, at(100));
        assert_eq!((hot.services.len(), hot.uncounted()), (1, 0));
    }
}
