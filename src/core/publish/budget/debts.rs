//! The debts of namespaces that have written huge slices.
//!
//! A huge write would delay the writes of all others if it were paid for at once. So its namespace owes what it costs
//! beyond the usual, and its other writes of slices wait until that is paid, or for a bounded time. All namespaces in debt pay at the same time, each at
//! the same rate. So one that owes little waits for little, however much others owe.

use crate::core::hash::{IdMap, hash_of};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The longest that a namespace in debt waits after its last huge write, unless [`Waits::bound`] is longer.
const LONGEST: Duration = Duration::from_secs(600);
/// The initial bound for a namespace's removals of endpoints. One huge write delays none of them; they wait only if the namespace
/// already owed something when it made its last huge write. If the bound were much shorter, namespaces that always remove
/// something from huge slices would use up the budget of all others.
const LONGEST_OF_REMOVALS: Duration = Duration::from_secs(60);
/// The longest bound for removals. It doubles up to this each time that a namespace has waited for it and owes more than before. Otherwise
/// many namespaces would each write once a minute, whatever they owed, and use up the budget together.
const LONGEST_OF_GROWING: Duration = Duration::from_secs(960);

/// The debts of all namespaces, in bytes for each watcher. Owned by [`super::WatchBudget`].
#[derive(Clone, Default, Debug)]
pub(super) struct Debts {
    /// The bytes that have been paid by each namespace that has been in debt ever since this was last zero.
    paid: f64,
    of: IdMap<u64, Debt>,
    /// The namespaces, in the order in which their debts end.
    by_end: BTreeSet<(u64, u64)>,
}

/// The debt of a namespace.
#[derive(Clone, Debug)]
struct Debt {
    namespace: Arc<str>,
    /// The value of [`Debts::paid`] at which it has paid everything.
    end: u64,
    /// The number of huge writes since it had no debt, but for those that were not carried out.
    writes: u32,
    waits: Waits,
    /// The cost of its last huge write, and the waits before that, which are restored if the write is not carried out.
    before: Option<(u64, Waits)>,
}

/// How long a namespace waits at most.
#[derive(Clone, Copy, Debug)]
struct Waits {
    /// The end of the wait of its additions and other writes, and that of its removals.
    until: Duration,
    removals_until: Duration,
    /// The longest that removals wait after the next huge write.
    bound: Duration,
    /// Its debt when it made the first huge write after its removals had last waited for the whole bound.
    owed: u64,
}

impl Debts {
    /// Adds bytes to the debt of a namespace, because of a huge write.
    pub(super) fn owe(&mut self, namespace: &Arc<str>, bytes: f64, now: Duration) {
        let bytes = bytes.ceil() as u64;
        let tenant = hash_of(&**namespace);
        let paid = self.paid.ceil() as u64;
        let is_new = !self.of.contains_key(&tenant);
        let debt = self.of.entry(tenant).or_insert_with(|| Debt {
            namespace: Arc::clone(namespace),
            end: paid,
            writes: 0,
            waits: Waits {
                until: Duration::ZERO,
                removals_until: Duration::ZERO,
                bound: LONGEST_OF_REMOVALS,
                owed: bytes,
            },
            before: None,
        });
        self.by_end.remove(&(debt.end, tenant));
        debt.end += bytes;
        debt.writes += 1;
        debt.before = Some((bytes, debt.waits));
        let waits = &mut debt.waits;
        if !is_new {
            let owed = debt.end.saturating_sub(paid);
            if now >= waits.removals_until {
                // The first time, it has not waited yet.
                let has_waited = waits.removals_until > Duration::ZERO;
                if has_waited && owed > waits.owed {
                    waits.bound = (waits.bound * 2).min(LONGEST_OF_GROWING);
                }
                waits.owed = owed;
            }
            waits.removals_until = now + waits.bound;
        }
        waits.until = now + waits.bound.max(LONGEST);
        self.by_end.insert((debt.end, tenant));
    }

    /// Takes back what a namespace owes for a write that has not been carried out.
    pub(super) fn forgive(&mut self, namespace: &str, bytes: f64) {
        let tenant = hash_of(namespace);
        let Some(debt) = self.of.get_mut(&tenant) else {
            return;
        };
        let bytes = bytes.ceil() as u64;
        if let Some((_, waits)) = debt.before.take_if(|(last, _)| *last == bytes) {
            debt.waits = waits;
        }
        debt.writes = debt.writes.saturating_sub(1);
        if debt.writes <= 1 {
            // It owes for one write alone, whichever of them was not carried out, and that delays no removals.
            debt.waits.removals_until = Duration::ZERO;
        }
        self.by_end.remove(&(debt.end, tenant));
        debt.end = debt.end.saturating_sub(bytes);
        if debt.end as f64 > self.paid {
            self.by_end.insert((debt.end, tenant));
        } else {
            self.of.remove(&tenant);
        }
    }

    /// Pays debts with these bytes. Returns the bytes that are left when no namespace is in debt.
    pub(super) fn pay(&mut self, mut bytes: f64) -> f64 {
        while let Some(&(end, tenant)) = self.by_end.first() {
            let number = self.by_end.len() as f64;
            let missing = (end as f64 - self.paid) * number;
            if missing > bytes {
                self.paid += bytes / number;
                return 0.0;
            }
            bytes -= missing.max(0.0);
            self.paid = self.paid.max(end as f64);
            self.by_end.pop_first();
            self.of.remove(&tenant);
        }
        // A number that grew for ever would lose its precision.
        self.paid = 0.0;
        bytes
    }

    /// Returns the bytes that have to be paid until the next namespace is out of debt.
    pub(super) fn missing(&self) -> Option<f64> {
        let (end, _) = self.by_end.first()?;
        Some((*end as f64 - self.paid) * self.by_end.len() as f64)
    }

    /// Returns the next time at which a namespace has waited for as long as its debt can make it wait.
    pub(super) fn longest(&self, now: Duration) -> Option<Duration> {
        let times = self
            .of
            .values()
            .flat_map(|debt| [debt.waits.until, debt.waits.removals_until]);
        times.filter(|until| *until > now).min()
    }

    /// Returns how many namespaces owe something.
    pub(super) fn len(&self) -> usize {
        self.of.len()
    }

    /// Returns the namespace that owes most, and how much.
    pub(super) fn worst(&self) -> Option<(Arc<str>, f64)> {
        let (end, tenant) = self.by_end.last()?;
        let debt = self.of.get(tenant)?;
        Some((Arc::clone(&debt.namespace), *end as f64 - self.paid))
    }

    /// Returns whether a namespace has to wait with a write.
    pub(super) fn hold(&self, tenant: u64, removes: bool, now: Duration) -> bool {
        self.of.get(&tenant).is_some_and(|debt| {
            let Waits {
                until,
                removals_until,
                ..
            } = debt.waits;
            let until = if removes { removals_until } else { until };
            until > now
        })
    }

    /// Forgets all debts.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;
    const SECOND: Duration = Duration::from_secs(1);

    fn holds(debts: &Debts, namespace: &str) -> bool {
        debts.hold(hash_of(namespace), false, NOW)
    }

    #[test]
    fn a_namespace_that_owed_little_paid_for_all_that_owed_much() {
        let mut debts = Debts::default();
        for number in 0..120 {
            debts.owe(&format!("huge{number}").into(), 1_000_000.0, NOW);
        }
        debts.owe(&"little".into(), 3_000.0, NOW);
        assert!(holds(&debts, "little") && debts.len() == 121);
        let missing = debts.missing().unwrap();
        assert!((missing - 121.0 * 3_000.0).abs() < 1.0, "{missing}");
        assert!(debts.pay(missing + 1.0) < 0.1);
        assert!(!holds(&debts, "little") && holds(&debts, "huge0"));
        let (worst, owes) = debts.worst().unwrap();
        assert!(worst.starts_with("huge") && (996_000.0..998_000.0).contains(&owes));
        // The bytes beyond the debts are left to others.
        assert!((debts.pay(200e6) - (200e6 - 120e6 + 360_001.0)).abs() < 10_000.0);
        assert!(debts.len() == 0 && debts.missing().is_none() && debts.worst().is_none());
    }

    #[test]
    fn removals_go_on_once_and_have_a_bound_of_their_own() {
        let mut debts = Debts::default();
        let (namespace, tenant): (Arc<str>, u64) = ("huge".into(), hash_of("huge"));
        debts.owe(&namespace, 1e6, NOW);
        assert!(debts.hold(tenant, false, NOW) && !debts.hold(tenant, true, NOW));
        debts.owe(&namespace, 1e6, SECOND);
        assert!(debts.hold(tenant, true, SECOND));
        assert_eq!(debts.longest(SECOND), Some(SECOND + LONGEST_OF_REMOVALS));
        assert!(!debts.hold(tenant, true, SECOND + LONGEST_OF_REMOVALS));
        assert!(debts.hold(tenant, false, SECOND + LONGEST_OF_REMOVALS));
        assert!(!debts.hold(tenant, false, SECOND + LONGEST));
        debts.forgive("huge", 1e6);
        assert_eq!(debts.missing(), Some(1e6));
        assert!(
            !debts.hold(tenant, true, SECOND),
            "the removal that was refused did not go on"
        );
        debts.forgive("huge", 1e6);
        assert!(!debts.hold(tenant, false, SECOND));
        assert_eq!((debts.len(), debts.missing()), (0, None));
    }

    /// Removals from huge slices were out together, and one that was not the last was refused with a conflict.
    #[test]
    fn removals_go_on_once_if_one_that_was_sent_beside_others_is_refused() {
        let (namespace, tenant): (Arc<str>, u64) = ("huge".into(), hash_of("huge"));
        for writes in [2, 3] {
            let mut debts = Debts::default();
            for write in 0..writes {
                debts.owe(&namespace, 1e6 - f64::from(write), NOW);
            }
            assert!(debts.hold(tenant, true, SECOND));
            debts.forgive("huge", 1e6);
            let owes_for_several = writes > 2;
            assert_eq!(
                debts.hold(tenant, true, SECOND),
                owes_for_several,
                "{writes} writes"
            );
            assert!(debts.hold(tenant, false, SECOND), "additions wait all the same");
            // Its next one is the second that it owes for.
            debts.owe(&namespace, 9e5, SECOND);
            assert!(debts.hold(tenant, true, 2 * SECOND));
            assert!(!debts.hold(tenant, true, SECOND + LONGEST_OF_REMOVALS));
        }
    }

    /// Waits until removals of a namespace may go, has it pay so much, and writes again. Returns the seconds of that.
    fn wait(debts: &mut Debts, now: &mut Duration, paid: f64) -> u64 {
        let (namespace, since): (Arc<str>, Duration) = ("huge".into(), *now);
        while debts.hold(hash_of(&*namespace), true, *now) {
            *now += SECOND;
        }
        debts.pay(paid);
        // Several that were granted before anything was known of their size count once.
        debts.owe(&namespace, 5e5, *now);
        debts.owe(&namespace, 5e5, *now);
        now.saturating_sub(since).as_secs()
    }

    #[test]
    fn a_namespace_wrote_once_a_minute_however_much_it_owed() {
        let (mut debts, mut now) = (Debts::default(), NOW);
        wait(&mut debts, &mut now, 0.0);
        for expected in [60, 120, 240, 480, 960, 960] {
            assert_eq!(wait(&mut debts, &mut now, 0.0), expected, "it grows");
        }
        assert_eq!(wait(&mut debts, &mut now, 2.5e6), 960);
        assert_eq!(
            wait(&mut debts, &mut now, 2.5e6),
            960,
            "it shrinks, and is not paid"
        );
        let owes = debts.worst().unwrap().1;
        debts.pay(owes + 1.0);
        assert!(!debts.hold(hash_of("huge"), true, now));
        wait(&mut debts, &mut now, 0.0);
        assert_eq!(wait(&mut debts, &mut now, 0.0), 60, "it begins anew");
    }
}
