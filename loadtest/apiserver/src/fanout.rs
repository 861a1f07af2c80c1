//! A model of how API servers pass writes of slices on to thousands of watchers, in virtual time.
//!
//! ```text
//!  write ─> store ─> intake ─> dispatcher ─> input ─> forwarder ─> result ─> sender ─> watcher   (one each)
//!                    └────────────────── goroutines that take turns on the cores ──────────┘
//! ```
//!
//! It answers what a controller that writes slices does to the watches of them: how late watchers see a change, and
//! which watches the server ends because their channels are full. Nothing is encoded or sent: an event is a number, and
//! what it costs is in [`Costs`]. There is no clock and no thread; the same [`Config`] and calls give the same figures.
//!
//! The model follows kube-apiserver in this: goroutines wait in one line for a core and run for up to 10 ms; one
//! goroutine puts events into the channels of all watchers; watchers whose channel is full share a budget of time (at
//! most 100 ms, 50 ms more each second), and when it is spent their watches end; a watch that begins anew gets the
//! events it missed from a history, encoded for it alone, and is refused if the history is too short; a client that
//! lists has all slices encoded for it alone.
//!
//! Events come from the store by an intake that takes a few at a time and waits for its next turn then. That is not a
//! line of the server's code. It stands for the connection to etcd, whose goroutines wait in the same line as those of
//! all watchers: only so do events come seconds late long before a channel is full, as was measured.
//!
//! The model leaves out priority and fairness, garbage collection, the network's rate, bookmarks, watches of single
//! objects, and the encodings of different clients.

mod budget;
mod clients;
mod config;
mod dispatch;
mod figures;
mod histogram;
mod server;
mod task;
mod versions;
mod watcher;

pub use self::config::{Clients, Config, Costs, Own};
pub use self::figures::Figures;
pub use self::histogram::Histogram;

use self::server::{Job, Server, Work};
use self::task::Task;
use self::versions::{Noted, Versions};
use self::watcher::Watcher;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

/// A change of a pod that a write shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// When the pod changed.
    pub since: Duration,
    /// True if an endpoint must no longer be used.
    pub removal: bool,
}

/// The events that the controller, or an observer of the cluster, gets to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// A pod's event arrives at the controller.
    Pod {
        /// The pod that [`Cluster::update_pod`] was given.
        pod: u64,
        /// When the pod changed.
        changed: Duration,
        /// Now.
        at: Duration,
    },
    /// A write was answered.
    Answered {
        /// The slice.
        object: usize,
        /// The version of the write; versions count from one.
        version: u64,
        /// Now.
        at: Duration,
    },
    /// An event arrives at the controller's own watch.
    Echo {
        /// The slice.
        object: usize,
        /// The version that the answer to its write had.
        version: u64,
        /// Now.
        at: Duration,
    },
    /// The server has ended a watch.
    Ended {
        /// The watcher; its number is that of watchers if it is the controller's own.
        watcher: usize,
        /// Now.
        at: Duration,
    },
}

/// API servers and their watchers.
#[derive(Debug)]
pub struct Cluster {
    config: Config,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    servers: Vec<Server>,
    /// The last one is the controller's own.
    watchers: Vec<Watcher>,
    versions: Versions,
    jobs: Vec<Job>,
    outputs: VecDeque<Output>,
    random: fastrand::Rng,
    figures: Figures,
    /// Events that were sent to watchers or left out by lists, all told.
    sent: u64,
    /// Where the next update of a pod goes.
    turn: usize,
}

/// The events of the model, each of which happens at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// A core has done a part of a task. The task has held it for so many nanoseconds.
    Done(u16, Task, u32),
    /// The store has carried a write out.
    Stored(u32),
    /// The time is spent that the dispatcher had for full channels, if it is still at this version.
    Spent(u16, u32),
    /// A client asks for a watch.
    Asks(u32),
}

impl Cluster {
    /// Creates servers on which every watcher has a watch and knows all slices.
    pub fn new(config: Config) -> Self {
        let servers = config.servers.max(1);
        let mut watchers: Vec<_> = (0..=config.watchers)
            .map(|number| {
                if config.apart {
                    servers - 1
                } else {
                    number % servers
                }
            })
            .map(|server| Watcher::new(server as u16, 0))
            .collect();
        let own = watchers.last_mut().expect("the controller has a watch");
        (own.server, own.own) = (0, true);
        let servers: Vec<_> = (0..servers)
            .map(|number| Server::new(&config, number as u16, &watchers))
            .collect();
        for watcher in &mut watchers {
            watcher.size = servers[usize::from(watcher.server)].channel_size(&config);
        }
        Self {
            now: 0,
            events: BinaryHeap::new(),
            sequence: 0,
            servers,
            watchers,
            versions: Versions::default(),
            jobs: Vec::new(),
            outputs: VecDeque::new(),
            random: fastrand::Rng::with_seed(config.seed),
            figures: Figures::default(),
            sent: 0,
            turn: 0,
            config,
        }
    }

    /// Returns what has happened so far.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Returns the number of events that a watcher has yet to get of all that was written, on average.
    pub fn backlog(&self) -> f64 {
        let watchers = self.watchers.len() as f64 - 1.0;
        if watchers == 0.0 {
            return 0.0;
        }
        f64::from(self.versions.last()) - self.sent as f64 / watchers
    }

    /// A kubelet sends a pod's new status. [`Output::Pod`] follows with the same number.
    pub fn update_pod(&mut self, pod: u64, now: Duration) {
        self.move_to(now);
        let server = self.turn % self.servers.len();
        self.turn += 1;
        let costs = &self.config.costs;
        let (cost, others) = (costs.pod, costs.others_write);
        self.figures.cpu += cost;
        self.submit(server as u16, cost + others, Work::Pod(pod));
    }

    /// The controller sends a write of a slice of so many bytes, which shows these changes. [`Output::Answered`] and
    /// [`Output::Echo`] follow, in either order.
    pub fn write(&mut self, object: usize, bytes: usize, changes: &[Change], now: Duration) {
        self.move_to(now);
        let noted = changes.iter().map(|change| Noted {
            since: change.since.as_nanos() as u64,
            removal: change.removal,
        });
        let work = Work::Write(object, bytes, noted.collect());
        let others = self.config.costs.others_write;
        let half = self.half_of_write(bytes);
        self.submit(0, half + others, work);
    }

    /// Plays what happens until there is something to tell, or to the given time.
    pub fn run(&mut self, until: Duration) -> Option<Output> {
        let end = until.as_nanos() as u64;
        loop {
            if let Some(output) = self.outputs.pop_front() {
                return Some(output);
            }
            if self.events.peek().is_none_or(|Reverse((at, ..))| *at > end) {
                return None;
            }
            let Reverse((at, _, event)) = self.events.pop()?;
            self.now = at;
            match event {
                Event::Done(server, task, held) => self.done(server, task, held),
                Event::Stored(job) => self.stored(job),
                Event::Spent(server, version) => self.spent(server, version),
                Event::Asks(watcher) => self.asks(watcher),
            }
        }
    }

    /// Returns whether anything is left to do for the servers and their clients.
    pub fn is_idle(&self) -> bool {
        self.events.is_empty() && self.outputs.is_empty()
    }

    /// Returns when something last happened in it.
    pub fn last_event(&self) -> Duration {
        Duration::from_nanos(self.now)
    }

    fn move_to(&mut self, now: Duration) {
        self.now = self.now.max(now.as_nanos() as u64);
    }

    fn at(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((time, self.sequence, event)));
    }

    /// Counts what a watcher sees with a version.
    fn saw(&mut self, watcher: u32, version: u32, at: u64) {
        let own = self.watchers[watcher as usize].own;
        self.sent += u64::from(!own);
        for change in self.versions.changes(version) {
            let times = match change.removal {
                _ if own => &mut self.figures.own,
                true => &mut self.figures.removals,
                false => &mut self.figures.additions,
            };
            times.add_nanos(at.saturating_sub(change.since));
        }
    }
}

#[cfg(test)]
mod tests;
