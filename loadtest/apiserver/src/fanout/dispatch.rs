//! The goroutine that puts events into the channels of all watchers, and what it does about those that are full.

use super::task::Task;
use super::watcher::{Routine, State};
use super::{Cluster, Event};

/// The size of the channel from which it takes events.
const INCOMING: u32 = 100;

#[derive(Debug)]
pub(super) struct Dispatcher {
    pub routine: Routine,
    /// Events on their way into its channel.
    pub coming: u32,
    /// The last version that it took.
    pub last: u32,
    /// The watchers whose channel is full for this event, and how many of them have been dealt with.
    full: Vec<u32>,
    next: usize,
    /// The time that it took from the budget, and when.
    taken: u64,
    since: u64,
    /// True if the time is spent.
    spent: bool,
}

impl Default for Dispatcher {
    fn default() -> Self {
        Self {
            routine: Routine::Idle,
            coming: 0,
            last: 0,
            full: Vec::new(),
            next: 0,
            taken: 0,
            since: 0,
            spent: false,
        }
    }
}

impl Dispatcher {
    /// Returns how many events fit into its channel.
    pub(super) fn room(&self, cached: u32) -> u32 {
        INCOMING.saturating_sub(cached - self.last)
    }

    pub(super) fn has_room(&self, cached: u32) -> bool {
        self.room(cached) > 0
    }
}

impl Cluster {
    pub(super) fn begin_dispatch(&mut self, server: u16) -> u64 {
        let state = &mut self.servers[usize::from(server)];
        state.dispatcher.routine = Routine::Running;
        state.dispatcher.last += 1;
        let costs = &self.config.costs;
        let cost = costs.dispatch + costs.dispatch_watcher * state.members.len() as u32;
        self.figures.cpu += cost;
        self.wake_intake(server);
        cost.as_nanos() as u64
    }

    /// Puts an event into all channels that have room, and begins to wait for the others. Returns whether there is
    /// another event and nothing to wait for.
    pub(super) fn dispatch(&mut self, server: u16) -> bool {
        let at = usize::from(server);
        let version = self.servers[at].dispatcher.last;
        let members = std::mem::take(&mut self.servers[at].members);
        let mut full = std::mem::take(&mut self.servers[at].dispatcher.full);
        full.clear();
        // Go goes through a map from another place each time.
        let start = self.random.usize(..members.len().max(1));
        let (before, after) = members.split_at(start);
        for watcher in after.iter().chain(before) {
            if self.watchers[*watcher as usize].state == State::Open && !self.add(*watcher, version) {
                full.push(*watcher);
            }
        }
        let state = &mut self.servers[at];
        state.members = members;
        if full.is_empty() {
            state.dispatcher.full = full;
            return self.dispatched(server);
        }
        let taken = state.budget.take(self.now);
        let dispatcher = &mut state.dispatcher;
        dispatcher.routine = Routine::Blocked;
        (dispatcher.full, dispatcher.next, dispatcher.spent) = (full, 0, false);
        (dispatcher.taken, dispatcher.since) = (taken, self.now);
        self.at(self.now + taken, Event::Spent(server, version));
        false
    }

    /// Puts an event into a channel, unless it is full, and wakes the forwarder that takes it from there.
    fn add(&mut self, watcher: u32, version: u32) -> bool {
        let state = &mut self.watchers[watcher as usize];
        if !state.offer(version) {
            return false;
        }
        if state.forwarder == Routine::Idle {
            let server = state.server;
            self.ready(server, Task::Forward(watcher));
        }
        true
    }

    /// A channel has room again: the dispatcher goes on if it waits for that one.
    pub(super) fn has_room(&mut self, watcher: u32) {
        let server = self.watchers[watcher as usize].server;
        let dispatcher = &self.servers[usize::from(server)].dispatcher;
        let waits =
            dispatcher.routine == Routine::Blocked && dispatcher.full.get(dispatcher.next) == Some(&watcher);
        if waits && self.go_on(server) {
            self.ready_first(server, Task::Dispatch);
        }
    }

    /// The time for full channels is spent.
    pub(super) fn spent(&mut self, server: u16, version: u32) {
        let dispatcher = &mut self.servers[usize::from(server)].dispatcher;
        if dispatcher.routine != Routine::Blocked || dispatcher.last != version {
            return;
        }
        dispatcher.spent = true;
        if self.go_on(server) {
            self.ready_first(server, Task::Dispatch);
        }
    }

    /// Goes through the full channels, in order: it waits for each of them while there is time, and then ends the
    /// watches of those that are still full. Returns whether there is another event and nothing to wait for.
    fn go_on(&mut self, server: u16) -> bool {
        let at = usize::from(server);
        loop {
            let dispatcher = &self.servers[at].dispatcher;
            let Some(watcher) = dispatcher.full.get(dispatcher.next).copied() else {
                break;
            };
            let (version, spent) = (dispatcher.last, dispatcher.spent);
            let is_open = self.watchers[watcher as usize].state == State::Open;
            if is_open && !self.add(watcher, version) {
                if !spent {
                    return false;
                }
                self.close(watcher);
            }
            self.servers[at].dispatcher.next += 1;
        }
        let state = &mut self.servers[at];
        let used = self.now - state.dispatcher.since;
        if let Some(unused) = state.dispatcher.taken.checked_sub(used) {
            state.budget.give_back(unused);
        }
        self.dispatched(server)
    }

    /// Returns whether there is another event.
    fn dispatched(&mut self, server: u16) -> bool {
        let state = &mut self.servers[usize::from(server)];
        let more = state.dispatcher.last < state.cached;
        if !more {
            state.dispatcher.routine = Routine::Idle;
        }
        more
    }
}
