//! The clients whose watches have ended, and how they watch again.

use super::config::Clients;
use super::server::Work;
use super::task::Task;
use super::watcher::{Routine, State};
use super::{Cluster, Event, Output};
use std::time::Duration;

/// A watch that ends sooner and brought nothing counts as failed.
const SHORT: u64 = 1_000_000_000;
/// The longest pause of a client, in nanoseconds, besides what chance adds.
const LONGEST_PAUSE: u64 = 30_000_000_000;
/// After this time without a pause, the next one is the first again.
const FORGIVEN: u64 = 120_000_000_000;

impl Cluster {
    /// The server ends a watch.
    pub(super) fn close(&mut self, watcher: u32) {
        self.watchers[watcher as usize].close();
        if self.watchers[watcher as usize].own {
            self.figures.own_ended += 1;
        } else {
            self.figures.ended += 1;
        }
        self.end_if_over(watcher);
    }

    /// The connections of all watchers break, but not that of the controller. Each of them lists everything again.
    pub fn break_connections(&mut self, now: Duration) {
        self.move_to(now);
        for watcher in 0..self.config.watchers as u32 {
            let state = &mut self.watchers[watcher as usize];
            state.forgets = true;
            if state.state == State::Open {
                state.close();
                self.end_if_over(watcher);
            }
        }
    }

    /// The client of a watch that has ended asks for another one, or pauses.
    pub(super) fn end_if_over(&mut self, watcher: u32) {
        let state = &mut self.watchers[watcher as usize];
        if !state.is_over() {
            return;
        }
        state.state = State::Away;
        self.outputs.push_back(Output::Ended {
            watcher: watcher as usize,
            at: Duration::from_nanos(self.now),
        });
        let failed = self.now - state.began < SHORT && !state.brought;
        let resumes = state.own || (self.config.clients == Clients::Resume && !state.forgets);
        state.forgets = false;
        self.pause(watcher, !resumes || failed);
    }

    /// The client pauses before it asks for a list or a watch.
    fn pause(&mut self, watcher: u32, lists: bool) {
        let first = if lists {
            self.config.list_pause
        } else {
            self.config.resume_pause
        };
        let state = &mut self.watchers[watcher as usize];
        if self.now - state.paused > FORGIVEN {
            state.pauses = 0;
        }
        let first = first.as_nanos() as u64;
        let pause = (first << state.pauses.min(10)).min(LONGEST_PAUSE);
        state.pauses += u32::from(first > 0);
        let pause = pause + (pause as f64 * self.random.f64()) as u64;
        state.paused = self.now + pause;
        state.lists = lists;
        self.at(self.now + pause, Event::Asks(watcher));
    }

    /// A client asks for a list, or to go on where its watch ended.
    pub(super) fn asks(&mut self, watcher: u32) {
        let costs = self.config.costs;
        let state = &mut self.watchers[watcher as usize];
        let server = state.server;
        if !std::mem::take(&mut state.lists) {
            self.figures.cpu += costs.resume;
            self.submit(server, costs.resume, Work::Watch(watcher));
            return;
        }
        let bytes = (self.config.slices * self.config.bytes) as u32;
        let cost = costs.list + costs.list_byte * bytes;
        let others = costs.others_event * self.config.slices as u32;
        self.figures.cpu += cost;
        let cached = self.servers[usize::from(server)].cached;
        self.submit(server, cost + others, Work::List(watcher, cached));
    }

    /// A client has its list: it sees all that is in it, and watches from there.
    pub(super) fn listed(&mut self, watcher: u32, version: u32) {
        let state = &mut self.watchers[watcher as usize];
        let known = state.sent;
        state.sent = known.max(version);
        if !state.own {
            self.figures.bytes += (self.config.slices * self.config.bytes) as u64;
        }
        self.figures.listed += 1;
        for version in known + 1..=version {
            self.saw(watcher, version, self.now);
        }
        self.asks(watcher);
    }

    /// A watch begins, unless the history is too short for it.
    pub(super) fn watches(&mut self, watcher: u32) {
        let state = &mut self.watchers[watcher as usize];
        let server = &self.servers[usize::from(state.server)];
        if !server.remembers(state.sent) {
            self.pause(watcher, true);
            return;
        }
        let size = server.channel_size(&self.config);
        state.open(size, server.cached, self.now);
        if state.missed > 0 {
            let server = state.server;
            if state.forwarder != Routine::Queued {
                self.ready(server, Task::Forward(watcher));
            }
        }
    }
}
