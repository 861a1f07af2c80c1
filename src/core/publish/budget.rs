//! The second rule: bytes times watchers.
//!
//! An API server spends time on each event for each watcher, and each watcher receives and decodes it. So a write costs its size
//! times the number of watchers, from one budget. Its base is what an operator can compute from the flags and the number of
//! Nodes. It grows where there is room: while it is used up and echoes are quick. Our own watch shows nothing of the API servers
//! that we do not write to, so it grows to a fixed amount for all watchers and no further, and falls back at the first late echo.
//!
//! The size of an object is known only when its request has been built. So a write pays for a usual slice when it is granted,
//! and the difference when it is built. What a huge one costs beyond [`Tuning::write_slices`](super::tuning::Tuning) delays its
//! namespace instead of all others.

use super::places::EchoPace;
use super::tuning::TUNING;
use std::collections::VecDeque;
use std::time::Duration;

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
}

/// Returns a limit of which zero or less means none.
fn limit(bytes: f64) -> f64 {
    if bytes > 0.0 { bytes } else { f64::INFINITY }
}

/// The budget. Owned by the publisher, which passes in the time.
#[derive(Clone, Debug)]
pub(super) struct WatchBudget {
    limits: WatchLimits,
    /// The numbers of nodes that count until then, the largest first; the last one counts until another is known.
    nodes: VecDeque<(Duration, usize)>,
    /// Bytes times watchers a second that it has grown by.
    grown: f64,
    /// What is left, in bytes times watchers.
    left: f64,
    /// True while it is used up, so that writes go in groups.
    used_up: bool,
    /// When it was last used up.
    was_used_up: Duration,
    last: Duration,
}

impl WatchBudget {
    /// Creates a full budget for a cluster of which no node is known yet.
    pub(super) fn new(limits: WatchLimits) -> Self {
        Self {
            limits,
            nodes: VecDeque::new(),
            grown: 0.0,
            left: f64::INFINITY,
            used_up: false,
            was_used_up: Duration::ZERO,
            last: Duration::ZERO,
        }
    }

    /// Sets the number of nodes. Fewer than there have been lately count only later: a proxy goes on to watch when its node
    /// is deleted.
    pub(super) fn set_nodes(&mut self, nodes: usize, now: Duration) {
        if let Some((until, _)) = self.nodes.back_mut() {
            *until = now + TUNING.nodes_outlived;
        }
        while self.nodes.back().is_some_and(|(_, before)| *before <= nodes) {
            self.nodes.pop_back();
        }
        self.nodes.push_back((Duration::MAX, nodes));
    }

    /// Returns the number of watchers, if it is known.
    pub(super) fn watchers(&self) -> Option<f64> {
        match self.limits.watchers {
            Watchers::Fixed(number) => Some(f64::from(number)),
            Watchers::PerNode(each) if each <= 0.0 => Some(0.0),
            Watchers::PerNode(each) => self.nodes.front().map(|(_, nodes)| *nodes as f64 * each),
        }
    }

    /// Returns the base, in bytes a second to all watchers; infinite if there is no limit.
    fn base(&self) -> f64 {
        let watchers = self.watchers().unwrap_or_default();
        if watchers <= 0.0 {
            return f64::INFINITY;
        }
        let each = (limit(self.limits.each) * watchers).max(self.limits.few);
        limit(self.limits.total)
            .min(each)
            .max(TUNING.least_slices * TUNING.slice_bytes * watchers)
    }

    /// Returns the bytes a second that may be sent to all watchers now.
    fn rate(&self) -> f64 {
        self.base() + self.grown
    }

    /// Returns whether a write may go as far as this rule goes, or when it may. `pace` is that of echoes.
    pub(super) fn allow(&mut self, pace: EchoPace, now: Duration) -> Result<(), Duration> {
        let passed = now.saturating_sub(self.last).as_secs_f64();
        self.last = self.last.max(now);
        while self.nodes.front().is_some_and(|(until, _)| *until <= now) {
            self.nodes.pop_front();
        }
        let period = TUNING.group_period.as_secs_f64();
        let base = self.base();
        if base.is_infinite() {
            self.left = f64::INFINITY;
            return Ok(());
        }
        if pace == EchoPace::Late || now.saturating_sub(self.was_used_up) >= TUNING.growth_kept {
            self.grown = 0.0;
        } else if self.used_up && pace == EchoPace::Quick {
            // A limit for each watcher that a flag sets is not exceeded.
            let most = if self.limits.few > 0.0 {
                TUNING.grown_bytes.min(limit(self.limits.total))
            } else {
                0.0
            };
            // A writer that is held back looks again after a group's period: what is longer was a pause.
            let growth = passed.min(period) * base * TUNING.growth;
            self.grown = (self.grown + growth).min((most - base).max(0.0));
        }
        let rate = self.rate();
        let usual = self.usual();
        let group = (TUNING.group_slices * usual).min(rate * period).max(usual);
        self.left = (self.left + passed * rate).min(rate.max(group));
        if self.left <= 0.0 {
            self.used_up = true;
        } else if self.left >= group {
            self.used_up = false;
        }
        if !self.used_up {
            return Ok(());
        }
        self.was_used_up = now;
        let wait = Duration::try_from_secs_f64((group - self.left) / rate).unwrap_or(TUNING.nodes_outlived);
        Err(now + wait + Duration::from_micros(1))
    }

    /// Returns what a usual slice costs, in bytes times watchers.
    pub(super) fn usual(&self) -> f64 {
        TUNING.slice_bytes * self.watchers().unwrap_or_default()
    }

    /// Pays for a write, or less than nothing for one that is not sent or was not carried out.
    pub(super) fn pay(&mut self, cost: f64) {
        self.left -= cost;
    }

    /// Pays the difference for a write of this size, after a usual slice was paid. Returns what it costs in all, and for how long its
    /// namespace has to wait, because it is huge.
    pub(super) fn settle(&mut self, bytes: usize) -> (f64, Duration) {
        let watchers = self.watchers().unwrap_or_default();
        if watchers <= 0.0 {
            return (0.0, Duration::ZERO);
        }
        let bytes = (bytes as f64).max(TUNING.event_bytes);
        let most = TUNING.write_slices * TUNING.slice_bytes;
        let cost = bytes.min(most) * watchers;
        self.left -= cost - self.usual();
        let excess = (bytes - most).max(0.0) * watchers;
        let huge = Duration::try_from_secs_f64(excess / self.rate()).unwrap_or(TUNING.nodes_outlived);
        (cost, huge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn budget(nodes: usize, few: f64) -> WatchBudget {
        let limits = WatchLimits {
            watchers: Watchers::PerNode(1.0),
            total: 2e9,
            each: 0.4e6,
            few,
            places: 8,
        };
        let mut budget = WatchBudget::new(limits);
        budget.set_nodes(nodes, Duration::ZERO);
        budget
    }

    /// Returns how many slices of 100 endpoints go in so many seconds, from when the budget is used up.
    fn written(budget: &mut WatchBudget, pace: EchoPace, seconds: u32) -> u32 {
        let (mut now, mut written) = (budget.last, 0);
        while budget.allow(pace, now).is_ok() {
            budget.pay(budget.usual());
        }
        let end = now + seconds * SECOND;
        while now < end {
            match budget.allow(pace, now) {
                Ok(()) => {
                    budget.pay(budget.usual());
                    written += 1;
                }
                Err(at) => now = at,
            }
        }
        written
    }

    #[test]
    fn the_base_is_what_the_operator_computes() {
        for (nodes, expected) in [(100, 92), (300, 31), (5_000, 31), (10_000, 15)] {
            let written = written(&mut budget(nodes, 120e6), EchoPace::Late, 10);
            assert!(written.abs_diff(expected * 10) <= 10, "{nodes} nodes: {written}");
        }
    }

    #[test]
    fn it_grows_while_it_is_used_up_and_echoes_are_quick_and_never_beyond_a_fixed_amount() {
        let mut few = budget(300, 120e6);
        written(&mut few, EchoPace::Quick, 60);
        assert!((few.rate() - TUNING.grown_bytes).abs() < 1e3, "{}", few.rate());
        let base = few.base();
        let _ = few.allow(EchoPace::Late, few.last);
        assert!((few.rate() - base).abs() < 1.0, "the first late echo ends that");
        let mut many = budget(5_000, 120e6);
        written(&mut many, EchoPace::Quick, 60);
        assert!(many.grown < 1.0);
        let mut by_flag = budget(300, 0.0);
        written(&mut by_flag, EchoPace::Quick, 60);
        assert!(by_flag.grown < 1.0, "a limit that was set is one");
    }

    #[test]
    fn what_is_not_used_up_for_ten_seconds_is_lost() {
        let mut budget = budget(300, 120e6);
        written(&mut budget, EchoPace::Quick, 1);
        let grown = budget.grown;
        assert!(grown > 0.0);
        let _ = budget.allow(EchoPace::Quick, budget.last + 9 * SECOND);
        assert!(
            budget.grown - grown <= budget.base() * 0.13,
            "a pause is no proof of room"
        );
        let _ = budget.allow(EchoPace::Quick, budget.last + 11 * SECOND);
        assert!(budget.grown < 1.0);
    }

    #[test]
    fn deleted_nodes_count_for_ten_minutes() {
        let mut budget = budget(300, 120e6);
        budget.set_nodes(10, SECOND);
        let _ = budget.allow(EchoPace::Quick, 600 * SECOND);
        assert_eq!(budget.watchers(), Some(300.0));
        let _ = budget.allow(EchoPace::Quick, 601 * SECOND);
        assert_eq!(budget.watchers(), Some(10.0));
    }

    #[test]
    fn a_huge_slice_delays_its_namespace_and_small_ones_count_as_more() {
        let mut budget = budget(300, 120e6);
        assert_eq!(budget.allow(EchoPace::Quick, SECOND), Ok(()));
        assert_eq!(budget.settle(50_000).1, Duration::ZERO);
        let delay = budget.settle(1_500_000).1.as_secs_f64();
        assert!((3.0..4.0).contains(&delay), "{delay}");
        let left = budget.left;
        let _ = budget.settle(100);
        assert!((budget.left - left - 3e3 * 300.0).abs() < 1.0);
    }
}
