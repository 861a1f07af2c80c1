//! API servers that answer writes of slices and hand their events on to watchers.
//!
//! All watchers of a server get an event at the same time, so that the server is a line of events: each is on its way until
//! those before it have been handed on. A server that is behind takes few events at a time from its store, and more the longer
//! it is behind: so its events are late long before watchers are full. Each has room for 20, ten in each of two channels.
//! The server waits for full channels as long as it has time for that (100 ms at most, 50 ms more each second), and then
//! ends the watches. Clients take them up again, and each has what it missed encoded for itself.
//!
//! The costs are those of kube-apiserver 1.36 on two cores, with etcd and all clients on the same machine.

use crate::world::{MS, SECOND};
use endpointd::core::object::Output;
use std::collections::VecDeque;
use std::time::Duration;

/// Events for which a watcher has room.
const ROOM: usize = 20;
/// Events that a server takes from its store at a time, once it is behind, and how many more each second.
const TAKEN: f64 = 4.0;
const MORE_TAKEN: f64 = 1.0;
/// The most time that a server spends at once on watchers without room, and what it gets of it for each second.
const PATIENCE: Duration = Duration::from_millis(100);
const PATIENCE_OF_SECOND: f64 = 0.05;
/// From a request to its answer, and until its object is stored.
const ANSWER: Duration = Duration::from_millis(6);
const STORED: Duration = Duration::from_millis(4);
/// CPU time of a request, with that of etcd.
const WRITE: Duration = Duration::from_millis(8);
/// CPU time of an event, in seconds: to wake a watcher that has read all before, to send it, and for each byte of it, with
/// what the client needs; and for each byte that is encoded.
const WAKE: f64 = 47e-6;
const SEND: f64 = 14e-6;
const SEND_BYTE: f64 = 4.1e-9;
const ENCODE_BYTE: f64 = 12e-9;
/// CPU time to take up a watch again.
const RESUME: f64 = 2.5e-3;

/// An API server.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub watchers: f64,
    /// Cores that other work leaves to events and writes of slices.
    pub cores: f64,
    /// Events on their way: when each will have been handed on.
    behind: VecDeque<Duration>,
    /// Since when there have been some.
    since: Duration,
    /// When the server has handed on all events.
    free: Duration,
    patience: Duration,
    counted: Duration,
    /// Watches that it has ended.
    pub ended: u64,
    /// The longest that an event was on its way.
    pub latest: Duration,
}

/// API servers. The controller talks to the first one.
pub(crate) struct Servers {
    pub all: Vec<Server>,
    /// When a server goes on that does nothing at a time, or that time.
    pub goes_on: fn(Duration) -> Duration,
    version: u64,
    /// When the first server has worked off all requests.
    line: Duration,
    /// Bytes sent to watchers, by second.
    pub sent: Vec<f64>,
}

/// What comes of a write, and when.
pub(crate) struct Written {
    pub version: u64,
    pub answered: Duration,
    /// When the controller's own watch shows it.
    pub shown: Duration,
}

impl Server {
    pub(crate) fn new(watchers: u32, cores: f64) -> Self {
        Self {
            watchers: f64::from(watchers),
            cores,
            behind: VecDeque::new(),
            since: Duration::ZERO,
            free: Duration::ZERO,
            patience: Duration::ZERO,
            counted: Duration::ZERO,
            ended: 0,
            latest: Duration::ZERO,
        }
    }

    /// Takes an event of a size from the store. Returns when it has been handed on.
    fn hand_on(&mut self, bytes: f64, stored: Duration, goes_on: fn(Duration) -> Duration) -> Duration {
        let mut begins = stored;
        while self.behind.front().is_some_and(|at| *at <= stored) {
            self.behind.pop_front();
        }
        if self.behind.is_empty() {
            self.since = stored;
        }
        let passed = stored.saturating_sub(self.counted).mul_f64(PATIENCE_OF_SECOND);
        (self.patience, self.counted) = ((self.patience + passed).min(PATIENCE), stored);
        let mut seconds = ENCODE_BYTE * bytes;
        let taken = TAKEN + MORE_TAKEN * stored.saturating_sub(self.since).as_secs_f64();
        if let Some(over) = self.behind.len().checked_sub(ROOM)
            && taken >= ROOM as f64
        {
            // The first of them has to leave.
            let waits = self.behind[over].saturating_sub(stored);
            if waits <= self.patience {
                self.patience -= waits;
                begins = self.behind[over];
            } else {
                self.ended += self.watchers as u64;
                seconds += self.watchers * (RESUME + ENCODE_BYTE * bytes * ROOM as f64);
                (self.patience, self.since) = (Duration::ZERO, stored);
                self.behind.clear();
            }
        }
        let idle = self.free <= begins;
        let wake = if idle { WAKE } else { 0.0 };
        seconds += self.watchers * (SEND + SEND_BYTE * bytes + wake);
        self.free = goes_on(self.free.max(begins)) + Duration::from_secs_f64(seconds / self.cores);
        self.behind.push_back(self.free);
        self.latest = self.latest.max(self.free.saturating_sub(stored));
        self.free
    }
}

impl Servers {
    pub(crate) fn new(all: Vec<Server>) -> Self {
        Self {
            all,
            goes_on: |now| now,
            version: 0,
            line: Duration::ZERO,
            sent: Vec::new(),
        }
    }

    /// Serves a write of a slice or of Endpoints, which only the controller watches.
    pub(crate) fn write(&mut self, output: Output, bytes: usize, now: Duration) -> Written {
        self.version += 1;
        let work = WRITE.div_f64(self.all[0].cores);
        let begins = (self.goes_on)(self.line.max(now));
        self.line = begins + work;
        let (answered, stored) = (begins + ANSWER, begins + STORED);
        let mut shown = stored;
        if output == Output::Slice {
            let second = stored.as_secs() as usize;
            self.sent.resize(self.sent.len().max(second + 1), 0.0);
            for (number, server) in self.all.iter_mut().enumerate() {
                self.sent[second] += bytes as f64 * server.watchers;
                if number == 0 {
                    server.free = server.free.max(begins) + work;
                }
                let handed_on = server.hand_on(bytes as f64, stored, self.goes_on);
                if number == 0 {
                    shown = handed_on;
                }
            }
        }
        Written {
            version: self.version,
            answered,
            shown: shown + MS,
        }
    }

    /// Watches that were ended.
    pub(crate) fn ended(&self) -> u64 {
        self.all.iter().map(|server| server.ended).sum()
    }

    /// The most bytes a second that were sent to watchers, over ten seconds.
    pub(crate) fn most_sent(&self) -> f64 {
        let tens = self.sent.windows(10).map(|ten| ten.iter().sum::<f64>());
        tens.fold(0.0, f64::max) / 10.0
    }
}

/// Stands still for 20 s at the end of each 120 s.
pub(crate) fn stalls(now: Duration) -> Duration {
    let round = SECOND * (now.as_secs() / 120 * 120) as u32;
    if now < round + SECOND * 100 {
        now
    } else {
        round + SECOND * 120
    }
}
