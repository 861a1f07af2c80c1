//! Limits the bytes that the API servers send to watchers because of our writes.
//!
//! The cost of a write is its size times the number of its watchers: an API server spends CPU time on each event for each
//! watcher, and each node receives and decodes it. So the bucket counts bytes times watchers. Three quarters of it are
//! kept for removals, which may also use the rest; the part that removals leave over is for all writes.
//!
//! The size of an object is known only when its request has been built, so a write pays for the usual size when it is granted,
//! and the difference is settled when it is built. A write is granted while the bucket is not empty; the part of its cost that
//! the bucket lacks delays the next ones. A huge write would delay them by seconds, so its namespace owes the excess: see
//! [`debts`].

mod debts;

use self::debts::Debts;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// A larger number of nodes counts for this long after some were deleted.
const NODES_OUTLIVED: Duration = Duration::from_secs(600);
/// The part of the budget that only removals use. A slice that is written for a removal carries its additions as well.
const REMOVALS: f64 = 0.75;
/// The number of slices of the initial usual size that may be written each second, however small the budget. With none, changes
/// would never be published.
const LEAST: f64 = 1.0;
/// The budget of this many seconds may be spent at once after a pause.
const BURST: f64 = 1.0;
/// The budget while echoes tell nothing, as a part of the whole.
const BLIND: f64 = 0.5;
/// The number of writes that are sent together while the budget is used up. A watcher that gets several events at once is woken,
/// and its connection written to, only once: on a real API server with 300 watchers, a write in a group cost two thirds of
/// what it cost alone.
const TOGETHER: f64 = 5.0;
/// The longest time from one such group to the next, which removals wait as well.
const LONGEST_PERIOD: Duration = Duration::from_millis(250);
/// The writes of a group are granted in that time divided by this.
const OPEN: u32 = 8;
/// The size of an object of which nothing is known, in bytes: a slice of 100 endpoints has 13 KB. The most that may be
/// saved up, and the most that a delete costs, follow from this and not from the usual size, which one namespace can
/// make large.
const USUAL: f64 = 13_000.0;
/// The least number of bytes that a write counts as: most of the cost of an event to an API server, some 60 of 80 microseconds
/// for each watcher, does not depend on its size. Our own echoes do not show the load of API servers that we do not write
/// to, so only this keeps the number of small events down there.
const SMALL: f64 = 10_000.0;
/// A write pays at most for [`MOST_AT_ONCE`] times the usual size, or for this many bytes if that is more: what it costs beyond
/// that would delay the writes of others, and delays its namespace instead.
const LARGE: f64 = 32_000.0;
/// See [`LARGE`].
const MOST_AT_ONCE: f64 = 4.0;
/// The part of the budget that goes to what namespaces owe, as long as they do, besides what is left over.
const OWED: f64 = 0.25;
/// The parts by which a larger and a smaller write change the usual size. So it settles where three of five writes are larger, and one
/// namespace with huge slices, which has a turn in two at most, cannot make them usual. Where it is alone it can, up to
/// [`LARGE`].
const LARGER: f64 = 0.02;
/// See [`LARGER`].
const SMALLER: f64 = 0.03;
/// Callers look again after a day at the latest, however small the budget.
const LONGEST_WAIT: Duration = Duration::from_secs(86_400);

/// The number of clients that watch all slices.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Watchers {
    /// This many on each node.
    PerNode(f64),
    /// This many in total.
    Fixed(u32),
}

/// The bytes that may be sent to watchers of slices because of our writes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WatchLimits {
    /// The clients that watch.
    pub watchers: Watchers,
    /// Bytes per second that the API servers may send to all watchers; zero or less means no limit.
    pub total: f64,
    /// Bytes per second that one watcher may receive; zero or less means no limit.
    pub each: f64,
    /// Bytes per second that the API servers may send to all watchers together, where [`Self::each`] would allow less because
    /// there are few.
    pub few: f64,
    /// The largest number of writes of a resource whose events have not come back, while there are watchers.
    pub places: u16,
}

impl WatchLimits {
    /// The limits for a server without watchers.
    pub const UNWATCHED: Self = Self {
        watchers: Watchers::Fixed(0),
        total: 0.0,
        each: 0.0,
        few: 0.0,
        places: Self::PLACES,
    };
    /// The number of places that is safe by default. A watcher of an API server has room for 20 events, 10 in each of two
    /// channels. Our own watch may be ahead of others by some, and other clients write too: with 12 places and no other
    /// limit, watches were ended in a simulation, and with 10 none was.
    pub const PLACES: u16 = 8;

    /// Returns the number of watchers of a cluster with this many nodes.
    pub fn watchers(self, nodes: usize) -> f64 {
        match self.watchers {
            Watchers::PerNode(each) => nodes as f64 * each,
            Watchers::Fixed(number) => f64::from(number),
        }
    }
}

/// The size of what a write sends to each watcher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Size {
    /// This many bytes.
    Bytes(usize),
    /// The event shows an object that was deleted.
    Unknown,
}

/// The part of the budget that was spent on a write.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Paid {
    /// For each watcher.
    bytes: f64,
    of_removals: bool,
}

/// The cost of a write, once its request is known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct FinalCost {
    /// The bytes that all watchers receive.
    pub sent: f64,
    /// The part that was spent from the budget.
    paid: Paid,
    /// The rest of the cost, in bytes for each watcher, which its namespace owes.
    owed: f64,
}

impl Paid {
    /// No payment.
    pub(super) const NOTHING: Self = Self {
        bytes: 0.0,
        of_removals: false,
    };
}

/// When groups of writes are granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Groups {
    /// When the present one ends.
    ends: Duration,
    /// When the next one may begin: with its first write.
    next: Duration,
}

/// The budget. Owned by the publisher, which passes in the time.
#[derive(Clone, Debug)]
pub(super) struct WatchBudget {
    limits: WatchLimits,
    nodes: usize,
    /// The larger numbers of nodes that count until then, the largest first.
    falls: VecDeque<(Duration, usize)>,
    watchers: f64,
    /// Bytes per second to all watchers; infinite if there is no limit.
    rate: f64,
    /// True while echoes tell nothing.
    blind: bool,
    /// The budget that is left for all writes, and the part that is kept for removals, in bytes times watchers.
    any: f64,
    removals: f64,
    /// The debts of namespaces with huge writes.
    debts: Debts,
    /// The present group of writes, while writes go in groups.
    groups: Option<Groups>,
    last: Duration,
    /// The usual size of a request, in bytes.
    usual: f64,
}

impl WatchBudget {
    /// Creates a full budget for a cluster of which no node is known yet.
    pub(super) fn new(limits: WatchLimits) -> Self {
        let mut budget = Self {
            limits,
            nodes: 0,
            falls: VecDeque::new(),
            watchers: 0.0,
            rate: f64::INFINITY,
            blind: false,
            any: 0.0,
            removals: 0.0,
            debts: Debts::default(),
            groups: None,
            last: Duration::ZERO,
            usual: USUAL,
        };
        budget.set_nodes(0, Duration::ZERO);
        budget
    }

    /// Sets the number of nodes. Fewer than there have been lately count only later: a proxy goes on to watch when its node
    /// is deleted.
    pub(super) fn set_nodes(&mut self, nodes: usize, now: Duration) {
        self.refill(now);
        self.falls.retain(|(_, before)| *before > nodes);
        if self.nodes > nodes {
            self.falls.push_back((now + NODES_OUTLIVED, self.nodes));
        }
        self.nodes = nodes;
        self.count_watchers();
    }

    fn count_watchers(&mut self) {
        let nodes = self.falls.front().map_or(self.nodes, |(_, before)| *before);
        let had_limit = self.rate.is_finite();
        let before = self.watchers;
        self.watchers = self.limits.watchers(nodes).max(0.0);
        if before > 0.0 {
            // The budget is in bytes times watchers, so it is scaled to allow as many writes as before.
            let scale = self.watchers / before;
            for amount in [&mut self.any, &mut self.removals] {
                *amount *= scale;
            }
        }
        let limit = |bytes: f64| if bytes > 0.0 { bytes } else { f64::INFINITY };
        self.rate = if self.watchers > 0.0 {
            let each = (limit(self.limits.each) * self.watchers).max(self.limits.few);
            limit(self.limits.total)
                .min(each)
                .max(LEAST * USUAL * self.watchers)
        } else {
            f64::INFINITY
        };
        if !had_limit && self.rate.is_finite() {
            (self.any, self.removals) = self.full();
        }
        if self.rate.is_infinite() {
            self.debts.clear();
        }
    }

    /// Sets whether echoes tell how late watchers are.
    pub(super) fn set_blind(&mut self, blind: bool, now: Duration) {
        if self.blind != blind {
            self.refill(now);
            self.blind = blind;
        }
    }

    /// Returns the number of watchers.
    pub(super) fn watchers(&self) -> f64 {
        self.watchers
    }

    /// Returns whether there is a limit.
    pub(super) fn has_limit(&self) -> bool {
        self.rate.is_finite()
    }

    /// Returns the most that may be saved for any write, and for removals.
    fn full(&self) -> (f64, f64) {
        let full = self.rate * BURST;
        // There is room for at least one group of writes; otherwise the refill between two groups would be lost.
        let least = self.enough();
        ((full * (1.0 - REMOVALS)).max(least), (full * REMOVALS).max(least))
    }

    fn rate(&self) -> f64 {
        if self.blind { self.rate * BLIND } else { self.rate }
    }

    fn refill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.last).as_secs_f64();
        self.last = self.last.max(now);
        while self.falls.front().is_some_and(|(until, _)| *until <= now) {
            self.falls.pop_front();
            self.count_watchers();
        }
        if self.rate.is_infinite() {
            return;
        }
        let (any, removals) = self.full();
        let new = passed * self.rate();
        let new = new * (1.0 - OWED) + self.debts.pay(new * OWED / self.watchers) * self.watchers;
        let kept = self.removals + new * REMOVALS;
        self.removals = kept.min(removals);
        // The refill that the part for removals cannot hold goes to all writes, and what is beyond that pays debts.
        let kept = self.any + new * (1.0 - REMOVALS) + (kept - self.removals);
        self.any = kept.min(any);
        self.debts.pay((kept - self.any) / self.watchers);
    }

    /// Returns whether a removal may be granted, and whether anything else may.
    pub(super) fn allow(&mut self, now: Duration) -> (bool, bool) {
        if self.rate.is_infinite() {
            return (true, true);
        }
        self.refill(now);
        match self.groups {
            None if self.any <= 0.0 => {
                let next = now + self.period();
                self.groups = Some(Groups { ends: now, next });
            }
            Some(groups) if now >= groups.next && self.any >= self.enough() => self.groups = None,
            None | Some(_) => {}
        }
        if self.until_group().is_zero() {
            (self.any > 0.0 || self.removals > 0.0, self.any > 0.0)
        } else {
            (false, false)
        }
    }

    /// Returns the budget that one group of writes of the usual size needs.
    fn enough(&self) -> f64 {
        TOGETHER * USUAL * self.watchers
    }

    /// Returns the time from one group of writes to the next.
    fn period(&self) -> Duration {
        let pace = self.pace().unwrap_or_default();
        pace.mul_f64(TOGETHER).min(LONGEST_PERIOD)
    }

    /// Returns how long it takes until the next group of writes; zero if writes need not wait for one.
    fn until_group(&self) -> Duration {
        match self.groups {
            Some(groups) if self.last >= groups.ends => groups.next.saturating_sub(self.last),
            Some(_) | None => Duration::ZERO,
        }
    }

    /// Returns how long it takes until any write may be granted; zero if it may be now.
    pub(super) fn wait(&self) -> Duration {
        let owed = -self.any;
        // Once removals have all that is kept for them, the rest is for all.
        let (_, full) = self.full();
        let until_full = (full - self.removals).max(0.0) / REMOVALS;
        let missing = if until_full * (1.0 - REMOVALS) < owed {
            owed + until_full * REMOVALS
        } else {
            owed / (1.0 - REMOVALS)
        };
        self.time_until(owed >= 0.0, missing)
    }

    /// Returns how long it takes until a removal may be granted.
    pub(super) fn wait_of_removals(&self) -> Duration {
        let owed = -self.removals;
        self.time_until(owed >= 0.0, owed / REMOVALS).min(self.wait())
    }

    /// Returns how long it takes until this many bytes were added to the budget, and writes are granted.
    fn time_until(&self, waits: bool, bytes: f64) -> Duration {
        if self.rate.is_infinite() {
            return Duration::ZERO;
        }
        let mut wait = Duration::ZERO;
        if waits {
            // Rounding could otherwise make the caller come too early forever.
            wait = self.time_to(bytes.max(0.0), 1.0 - OWED) + Duration::from_micros(1);
        }
        wait.max(self.until_group())
    }

    /// Returns how long it takes until this many bytes have come in. While anything is owed, only `part` of them counts.
    fn time_to(&self, bytes: f64, part: f64) -> Duration {
        let part = if self.debts.len() > 0 { part } else { 1.0 };
        let time = Duration::try_from_secs_f64(bytes / (self.rate() * part));
        time.unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT)
    }

    /// Pays for a write that is granted, by the usual size.
    pub(super) fn pay(&mut self, removes: bool) -> Paid {
        let bytes = self.usual;
        let period = self.period();
        if let Some(groups) = &mut self.groups
            && self.last >= groups.next
        {
            *groups = Groups {
                ends: self.last + period / OPEN,
                next: self.last + period,
            };
        }
        // Once removals have used up their part, all writes pay for them; otherwise their deficit would grow without
        // end.
        let of_removals = removes && self.removals > 0.0;
        self.charge(of_removals, bytes);
        Paid { bytes, of_removals }
    }

    /// Corrects what was paid for a write when its request is known; `size` is nothing if none is sent, or if it only
    /// reads.
    pub(super) fn correct(&mut self, paid: Paid, size: Option<Size>, now: Duration) -> FinalCost {
        let most = LARGE.max(MOST_AT_ONCE * self.usual);
        let bytes = match size {
            None => 0.0,
            Some(Size::Unknown) => self.usual.min(USUAL),
            Some(Size::Bytes(bytes)) => bytes as f64,
        };
        let cost = if size.is_some() { bytes.max(SMALL) } else { 0.0 };
        let counted = cost.min(most);
        if let Some(Size::Bytes(_)) = size {
            self.usual *= if cost > self.usual {
                1.0 + LARGER
            } else {
                1.0 - SMALLER
            };
            self.usual = self.usual.clamp(SMALL, LARGE);
        }
        self.refill(now);
        self.charge(paid.of_removals, counted - paid.bytes);
        FinalCost {
            sent: bytes * self.watchers,
            paid: Paid {
                bytes: counted,
                ..paid
            },
            owed: cost - counted,
        }
    }

    /// Adds the part of a write's cost that was not paid to the debt of its namespace. The removals of a namespace that had no debt
    /// do not wait for it, however huge the write is; those of one that was in debt already do.
    pub(super) fn owe(&mut self, namespace: &Arc<str>, cost: FinalCost, now: Duration) {
        if cost.owed > 0.0 && self.rate.is_finite() {
            self.debts.owe(namespace, cost.owed, now);
        }
    }

    /// Returns whether a write of a namespace has to wait, because the namespace is in debt.
    pub(super) fn holds(&self, tenant: u64, removes: bool, now: Duration) -> bool {
        self.debts.hold(tenant, removes, now)
    }

    /// Returns how many namespaces owe something.
    pub(super) fn debtors(&self) -> usize {
        self.debts.len()
    }

    /// Returns the namespace that owes most, and how many bytes for each watcher.
    pub(super) fn worst_debtor(&self) -> Option<(Arc<str>, f64)> {
        self.debts.worst()
    }

    /// Returns when the next namespace stops having to wait, if nothing is written before.
    pub(super) fn owed_until(&self, now: Duration) -> Option<Duration> {
        let owed = self.debts.missing()? * self.watchers;
        // Once the budget is full, all of it is for those that owe.
        let (any, removals) = self.full();
        let free = (any - self.any).max(0.0) + (removals - self.removals).max(0.0);
        let until_full = free / (1.0 - OWED);
        let bytes = if owed <= until_full * OWED {
            owed / OWED
        } else {
            owed + free
        };
        let paid = self.last + self.time_to(bytes, 1.0) + Duration::from_micros(1);
        self.debts.longest(now).into_iter().chain([paid.max(now)]).min()
    }

    /// Forgets what namespaces owe.
    pub(super) fn forgive_all(&mut self) {
        self.debts.clear();
    }

    /// Gives back the payment for a write that the API server has not carried out, and takes its part off the namespace's debt.
    pub(super) fn refund(&mut self, namespace: &str, cost: FinalCost) {
        self.charge(cost.paid.of_removals, -cost.paid.bytes);
        if cost.owed > 0.0 {
            self.debts.forgive(namespace, cost.owed);
        }
    }

    fn charge(&mut self, of_removals: bool, bytes: f64) {
        let cost = bytes * self.watchers;
        if of_removals {
            self.removals -= cost;
        } else {
            self.any -= cost;
        }
    }

    /// Returns the time from one write of the usual size to the next, if there is a limit.
    pub(super) fn pace(&self) -> Option<Duration> {
        let bytes = self.usual * self.watchers;
        (self.rate.is_finite()).then(|| self.time_to(bytes, 1.0 - OWED))
    }
}

#[cfg(test)]
mod tests;
