//! Chooses the Lease to be read next.
//!
//! One namespace may have ten thousand Leases whose times run out in the same second, while the leader of a Service in
//! another namespace is removed only when its Lease has been read. So namespaces take turns, each may have only a part
//! of the reads in flight, and all together have a rate. If the API server asks for a pause, all wait, and then one
//! read at a time tests whether the pause is over.
//!
//! A Service may name another Lease with each of its updates, which can be more often than reads are sent. A namespace takes back
//! the read of a Lease that it forgets, so it has at most as many reads waiting as it follows Leases, and those that were in flight.

use super::lease::NumberedRead;
use crate::core::bucket::TokenBucket;
use crate::core::deadlines::Deadlines;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The most reads in flight.
const AT_ONCE: usize = 16;
/// The most reads of one namespace in flight.
const AT_ONCE_OF_ONE: usize = 4;
/// The number of reads that may be sent at once after a pause.
const BURST: u32 = 200;
/// The number of reads per second. Each of them reads from etcd.
const QPS: f64 = 100.0;
/// The pause after an answer that asks for one and does not say how long. It doubles with each further such answer in a row, up to
/// [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause that this process chooses by itself.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The longest pause that is kept, whatever the API server asks for.
const LONGEST_ASKED: Duration = Duration::from_secs(60);

/// A read of a Lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LeaseRead {
    /// The namespace.
    pub(crate) namespace: Arc<str>,
    /// The number of the request to follow that this belongs to.
    pub(crate) generation: u64,
    /// The Lease, and the number of the read.
    pub(crate) numbered: NumberedRead,
}

/// The outcome of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadOutcome {
    /// The read has ended, with an answer or without one. If that proves nothing, the namespace asks again.
    Done,
    /// The API server is too busy, and may have said for how long: the read is to be sent again.
    Throttled(Option<Duration>),
}

/// The reads of one namespace.
#[derive(Debug, Default)]
struct Tenant {
    /// The Leases to be read, by the time at which they were asked for. Those that are to be read again come first.
    waiting: Deadlines<NumberedRead>,
    in_flight: Vec<InFlight>,
    /// True if it is in [`LeaseReads::turns`].
    has_turn: bool,
    /// The present number of its request to follow, under which all waiting reads are sent.
    generation: Option<u64>,
}

/// A read in flight.
#[derive(Debug)]
struct InFlight {
    generation: u64,
    numbered: NumberedRead,
    /// True if its answer counts for nothing, so that it is not sent again.
    taken_back: bool,
}

/// The reads of Leases that wait or are in flight. Owned by one actor, which supplies the time.
#[derive(Debug)]
pub(crate) struct LeaseReads {
    tenants: BTreeMap<Arc<str>, Tenant>,
    /// The namespaces that have a read to send, in the order of their turns.
    turns: VecDeque<Arc<str>>,
    in_flight: usize,
    bucket: TokenBucket,
    /// No read is sent before this time.
    pause: Duration,
    /// The number of pauses in a row that the API server has asked for.
    pauses: u32,
    /// Draws the jitter of pauses, so that not all clients of a server come back at once.
    random: fastrand::Rng,
}

impl LeaseReads {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            tenants: BTreeMap::new(),
            turns: VecDeque::new(),
            in_flight: 0,
            bucket: TokenBucket::new(QPS, BURST),
            pause: Duration::ZERO,
            pauses: 0,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Adds a read, unless it waits already.
    pub(crate) fn want(&mut self, read: LeaseRead, now: Duration) {
        let tenant = self.tenants.entry(read.namespace.clone()).or_default();
        tenant.generation = Some(read.generation);
        if tenant.waiting.get(&read.numbered).is_none() {
            tenant.waiting.set(read.numbered, now);
        }
        self.take_turn(&read.namespace);
    }

    /// Takes back a read. One that is in flight is answered all the same, but not sent again.
    pub(crate) fn cancel(&mut self, namespace: &str, read: &NumberedRead) {
        let Some(tenant) = self.tenants.get_mut(namespace) else {
            return;
        };
        tenant.waiting.remove(read);
        let in_flight = tenant.in_flight.iter_mut();
        for in_flight in in_flight.filter(|in_flight| in_flight.numbered == *read) {
            in_flight.taken_back = true;
        }
        if tenant.waiting.is_empty() {
            self.lose_turn(namespace);
        }
    }

    /// Forgets the waiting reads of a namespace, which begins to follow its Leases under another number or ceases to follow them.
    /// Its reads in flight are not sent again.
    pub(crate) fn forget(&mut self, namespace: &str) {
        let Some(tenant) = self.tenants.get_mut(namespace) else {
            return;
        };
        tenant.waiting.clear();
        for in_flight in &mut tenant.in_flight {
            in_flight.taken_back = true;
        }
        tenant.generation = None;
        self.lose_turn(namespace);
    }

    /// Returns the next read, which is in flight from then on. If there is none now, returns when there may be one, provided that
    /// nothing happens before.
    pub(crate) fn next(&mut self, now: Duration) -> Result<LeaseRead, Option<Duration>> {
        // While the API server is too busy, one read is enough to see whether it still is.
        let places = if self.pauses > 0 { 1 } else { AT_ONCE };
        if self.turns.is_empty() || self.in_flight >= places {
            return Err(None);
        }
        if now < self.pause {
            return Err(Some(self.pause));
        }
        self.bucket.take(now).map_err(|wait| Some(now + wait))?;
        let read = self.pop();
        if read.is_none() {
            self.bucket.give_back();
        }
        read.ok_or(None)
    }

    fn pop(&mut self) -> Option<LeaseRead> {
        let namespace = self.turns.pop_front()?;
        let tenant = self.tenants.get_mut(&namespace)?;
        tenant.has_turn = false;
        let generation = tenant.generation?;
        let numbered = tenant.waiting.pop()?;
        tenant.in_flight.push(InFlight {
            generation,
            numbered: numbered.clone(),
            taken_back: false,
        });
        self.in_flight += 1;
        self.take_turn(&namespace);
        Some(LeaseRead {
            namespace,
            generation,
            numbered,
        })
    }

    /// Handles the outcome of a read that was in flight.
    pub(crate) fn done(&mut self, read: LeaseRead, outcome: ReadOutcome, now: Duration) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(tenant) = self.tenants.get_mut(&read.namespace) {
            let mut in_flight = tenant.in_flight.iter();
            let at = in_flight.position(|in_flight| {
                in_flight.generation == read.generation && in_flight.numbered == read.numbered
            });
            let taken_back = at.is_none_or(|at| tenant.in_flight.swap_remove(at).taken_back);
            if let ReadOutcome::Throttled(_) = outcome
                && !taken_back
            {
                tenant.waiting.set(read.numbered, Duration::ZERO);
            }
        }
        match outcome {
            ReadOutcome::Done => self.pauses = 0,
            ReadOutcome::Throttled(asked) => self.wait(asked, now),
        }
        self.take_turn(&read.namespace);
        self.drop_if_idle(&read.namespace);
    }

    /// Sends nothing for a while. Several answers that ask for a pause at once count as one.
    fn wait(&mut self, asked: Option<Duration>, now: Duration) {
        let is_new = now >= self.pause;
        let doubled = FIRST_PAUSE
            .saturating_mul(1 << self.pauses.min(8))
            .min(LONGEST_PAUSE);
        let pause = doubled.max(asked.unwrap_or_default().min(LONGEST_ASKED));
        let longer = pause.mul_f64(self.random.f64() / 4.0);
        if is_new {
            self.pauses += 1;
            self.pause = now + pause + longer;
        } else if let Some(asked) = asked {
            self.pause = self.pause.max(now + asked.min(LONGEST_ASKED));
        }
    }

    /// Gives a namespace a turn, if it has something to send and may have more in flight.
    fn take_turn(&mut self, namespace: &Arc<str>) {
        if let Some(tenant) = self.tenants.get_mut(namespace)
            && !tenant.has_turn
            && !tenant.waiting.is_empty()
            && tenant.in_flight.len() < AT_ONCE_OF_ONE
        {
            tenant.has_turn = true;
            self.turns.push_back(namespace.clone());
        }
    }

    /// Takes its turn from a namespace that has nothing to send.
    fn lose_turn(&mut self, namespace: &str) {
        if let Some(tenant) = self.tenants.get_mut(namespace)
            && std::mem::take(&mut tenant.has_turn)
        {
            self.turns.retain(|turn| **turn != *namespace);
        }
        self.drop_if_idle(namespace);
    }

    fn drop_if_idle(&mut self, namespace: &str) {
        let tenant = self.tenants.get(namespace);
        if tenant.is_some_and(|tenant| tenant.waiting.is_empty() && tenant.in_flight.is_empty()) {
            self.tenants.remove(namespace);
        }
    }
}

#[cfg(test)]
mod tests;
