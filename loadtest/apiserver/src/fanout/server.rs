//! Goroutines of a server, which take turns on its cores.

use super::budget::Budget;
use super::config::Config;
use super::dispatch::Dispatcher;
use super::task::Task;
use super::versions::{Noted, Version};
use super::watcher::{Routine, State, Watcher};
use super::{Cluster, Event, Output};
use std::collections::VecDeque;
use std::time::Duration;

/// How long a goroutine runs before it goes to the end of the line, in nanoseconds.
const TURN: u64 = 10_000_000;
/// The time over which a server keeps the history of events.
const HISTORY: u64 = 75_000_000_000;
/// The most events of which it keeps the history.
const LONGEST_HISTORY: u32 = 100 * 1024;

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// Nanoseconds of work that are left.
    left: u64,
    pub work: Work,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Work {
    Pod(u64),
    /// The event of a pod that changed then.
    PodEvent(u64, u64),
    /// Up to the store.
    Write(usize, usize, Vec<Noted>),
    /// From the store to the answer.
    Answer(u32),
    /// The slices as of a version.
    List(u32, u32),
    Watch(u32),
}

#[derive(Debug)]
pub(super) struct Server {
    line: VecDeque<Task>,
    /// Cores that have nothing to do.
    idle: usize,
    intake: Routine,
    /// Events that it takes at a time.
    intake_size: u32,
    /// The last version that came from the store.
    pub cached: u32,
    pub dispatcher: Dispatcher,
    pub budget: Budget,
    /// The watchers of this server.
    pub members: Vec<u32>,
    /// The last version of which an encoding is shared. Senders keep close to each other, and the first one encodes.
    encoded: u32,
    /// Events of which the history is kept, and how many there are.
    history: u32,
    kept: u32,
}

impl Server {
    pub(super) fn new(config: &Config, number: u16, watchers: &[Watcher]) -> Self {
        let members = (0..watchers.len()).filter(|at| watchers[*at].server == number);
        Self {
            line: VecDeque::new(),
            idle: config.cores.max(1),
            intake: Routine::Idle,
            intake_size: config.intake.max(1) as u32,
            cached: 0,
            dispatcher: Dispatcher::default(),
            budget: Budget::default(),
            members: members.map(|watcher| watcher as u32).collect(),
            encoded: 0,
            history: config.history as u32,
            kept: 0,
        }
    }

    /// Returns the size of the channels of a watch that begins now: the events of a second, if the history is as long
    /// as it should be.
    pub(super) fn channel_size(&self, config: &Config) -> u16 {
        let of_history = (u64::from(self.history) * 1_000_000_000).div_ceil(HISTORY);
        let size = config.channel.unwrap_or((of_history as usize).clamp(10, 100));
        size as u16
    }

    /// Returns whether the history has all events after a version.
    pub(super) fn remembers(&self, version: u32) -> bool {
        version + self.kept >= self.cached
    }
}

impl Cluster {
    /// Half of a write comes before the store, and half after.
    pub(super) fn half_of_write(&mut self, bytes: usize) -> Duration {
        let costs = &self.config.costs;
        let half = (costs.write + costs.write_byte * bytes as u32) / 2;
        self.figures.cpu += half;
        half
    }

    pub(super) fn submit(&mut self, server: u16, cost: Duration, work: Work) {
        let left = cost.as_nanos() as u64;
        let job = self.jobs.len() as u32;
        self.jobs.push(Job { left, work });
        self.ready(server, Task::Job(job));
    }

    /// Lets a goroutine run that has waited for something: at once if there is a core, or at the end of the line.
    pub(super) fn ready(&mut self, server: u16, task: Task) {
        self.line_up(server, task, false);
    }

    /// The same, but it goes first: goroutines that wake each other in turn keep the core.
    pub(super) fn ready_first(&mut self, server: u16, task: Task) {
        self.line_up(server, task, true);
    }

    fn line_up(&mut self, server: u16, task: Task, first: bool) {
        match task {
            Task::Intake => self.servers[usize::from(server)].intake = Routine::Queued,
            Task::Dispatch => self.servers[usize::from(server)].dispatcher.routine = Routine::Queued,
            Task::Forward(watcher) => self.watchers[watcher as usize].forwarder = Routine::Queued,
            Task::Send(watcher) => self.watchers[watcher as usize].sender = Routine::Queued,
            Task::Job(_) => {}
        }
        let first = first || self.goes_first(task);
        let state = &mut self.servers[usize::from(server)];
        if state.idle > 0 {
            state.idle -= 1;
            self.start(server, task, 0);
        } else if first {
            state.line.push_front(task);
        } else {
            state.line.push_back(task);
        }
    }

    /// Returns whether a goroutine is one of the controller's own watch, which the configuration may prefer.
    fn goes_first(&self, task: Task) -> bool {
        match task {
            Task::Forward(watcher) | Task::Send(watcher) => {
                self.watchers[watcher as usize].own && !self.config.own.waits
            }
            Task::Intake | Task::Dispatch | Task::Job(_) => false,
        }
    }

    /// Lets a task run on a core, which it has held for some time.
    fn start(&mut self, server: u16, task: Task, held: u32) {
        let left = TURN.saturating_sub(u64::from(held)).max(1);
        let takes = match task {
            Task::Intake => self.take_in(server),
            Task::Dispatch => self.begin_dispatch(server),
            Task::Forward(watcher) => {
                let took = self.forward(watcher);
                let state = &self.watchers[watcher as usize];
                if state.sender == Routine::Idle && state.result > 0 {
                    // Nothing else wakes the sender, and the goroutine that is woken last runs next.
                    self.watchers[watcher as usize].woken = true;
                    let sends = self.send(watcher);
                    self.finishes(server, Task::Send(watcher), held, took + sends);
                    return;
                }
                took
            }
            Task::Send(watcher) => self.send(watcher),
            Task::Job(job) => {
                let job = &mut self.jobs[job as usize];
                let part = job.left.min(left);
                job.left -= part;
                part
            }
        };
        self.finishes(server, task, held, takes);
    }

    fn finishes(&mut self, server: u16, task: Task, held: u32, takes: u64) {
        let held = u64::from(held).saturating_add(takes).min(u64::from(u32::MAX));
        self.at(self.now + takes, Event::Done(server, task, held as u32));
    }

    /// A core has done a part of a task: it goes on with it, or with the next one in line.
    pub(super) fn done(&mut self, server: u16, task: Task, held: u32) {
        let more = match task {
            Task::Intake => self.taken_in(server),
            Task::Dispatch => self.dispatch(server),
            Task::Forward(_) => false,
            Task::Send(watcher) => self.has_sent(watcher),
            Task::Job(job) => self.has_worked(job),
        };
        let state = &mut self.servers[usize::from(server)];
        // The connection to the store takes a turn for each part of what it reads.
        let may_go_on = u64::from(held) < TURN && task != Task::Intake;
        if more && may_go_on {
            self.start(server, task, held);
            return;
        }
        if more {
            match task {
                Task::Intake => state.intake = Routine::Queued,
                Task::Dispatch => state.dispatcher.routine = Routine::Queued,
                Task::Send(watcher) => self.watchers[watcher as usize].sender = Routine::Queued,
                Task::Forward(_) | Task::Job(_) => {}
            }
            state.line.push_back(task);
        }
        if let Some(next) = state.line.pop_front() {
            self.start(server, next, 0);
        } else {
            state.idle += 1;
        }
    }

    /// Events have come to the store, or there is room for more of them.
    pub(super) fn wake_intake(&mut self, server: u16) {
        let state = &self.servers[usize::from(server)];
        if state.intake == Routine::Idle
            && state.cached < self.versions.last()
            && state.dispatcher.has_room(state.cached)
        {
            self.ready(server, Task::Intake);
        }
    }

    fn take_in(&mut self, server: u16) -> u64 {
        let state = &mut self.servers[usize::from(server)];
        state.intake = Routine::Running;
        let there = self.versions.last() - state.cached;
        let room = state.dispatcher.room(state.cached);
        let takes = there.min(state.intake_size).min(room);
        if there > state.intake_size && self.random.f64() < self.config.intake_growth {
            state.intake_size += 1;
        }
        state.dispatcher.coming = takes;
        let cost = self.config.costs.intake * takes;
        self.figures.cpu += cost;
        cost.as_nanos() as u64
    }

    fn taken_in(&mut self, server: u16) -> bool {
        let state = &mut self.servers[usize::from(server)];
        let taken = std::mem::take(&mut state.dispatcher.coming);
        for _ in 0..taken {
            state.cached += 1;
            let oldest = state.cached.saturating_sub(state.kept).max(1);
            let age = self.now.saturating_sub(self.versions.get(oldest).at);
            if state.kept >= state.history && age < HISTORY {
                state.history = (state.history * 2).min(LONGEST_HISTORY);
            }
            state.kept = (state.kept + 1).min(state.history);
        }
        if state.dispatcher.routine == Routine::Idle && taken > 0 {
            self.ready_first(server, Task::Dispatch);
        }
        let state = &mut self.servers[usize::from(server)];
        let more = state.cached < self.versions.last() && state.dispatcher.has_room(state.cached);
        if !more {
            state.intake = Routine::Idle;
        }
        more
    }

    /// Moves all events that it can from one channel of a watcher to the other. Returns how long that takes.
    fn forward(&mut self, watcher: u32) -> u64 {
        let at = watcher as usize;
        if self.watchers[at].forwarder != Routine::Queued || self.watchers[at].state != State::Open {
            self.watchers[at].forwarder = Routine::Idle;
            return 0;
        }
        self.watchers[at].forwarder = Routine::Running;
        let mut moved = 0;
        while let Some(from_input) = self.watchers[at].forward() {
            moved += 1;
            if from_input {
                self.has_room(watcher);
            }
        }
        let state = &mut self.watchers[at];
        state.forwarder = if state.hand {
            Routine::Blocked
        } else {
            Routine::Idle
        };
        let took = self.config.costs.forward * moved;
        self.figures.cpu += took;
        took.as_nanos() as u64
    }

    /// Begins to send an event. Returns how long that takes.
    fn send(&mut self, watcher: u32) -> u64 {
        let costs = &self.config.costs;
        let state = &mut self.watchers[watcher as usize];
        if state.result == 0 {
            return 0;
        }
        state.sender = Routine::Running;
        let unblocks = state.take();
        let version = state.sent + 1;
        let server = state.server;
        let written = self.versions.get(version).bytes;
        let bytes = match self.config.own.bytes {
            bytes if state.own && bytes > 0 => bytes as u32,
            _ => written,
        };
        let mut cost = costs.event + costs.event_kilobyte * bytes / 1_000;
        if std::mem::take(&mut state.woken) {
            cost += costs.wake;
        }
        let encodes = costs.encode_byte * written;
        let mut others = costs.others_event * bytes / self.config.bytes.max(1) as u32;
        let shared = &mut self.servers[usize::from(server)].encoded;
        if state.own && self.config.own.bytes > 0 {
            cost += self.config.own.transform;
            others = Duration::ZERO;
        } else if version <= state.from_history && !state.own {
            cost += encodes;
        } else if version > *shared {
            *shared = version;
            cost += encodes;
        }
        self.figures.cpu += cost;
        if !state.own {
            self.figures.bytes += u64::from(bytes);
        }
        if unblocks {
            self.ready_first(server, Task::Forward(watcher));
        }
        (cost + others).as_nanos() as u64
    }

    /// An event has been sent. Returns whether another one can be.
    fn has_sent(&mut self, watcher: u32) -> bool {
        let now = self.now;
        let state = &mut self.watchers[watcher as usize];
        if state.sender != Routine::Running {
            return false;
        }
        state.sent += 1;
        state.brought = true;
        let version = state.sent;
        let Version { object, .. } = self.versions.get(version);
        if state.own {
            self.outputs.push_back(Output::Echo {
                object: object as usize,
                version: u64::from(version),
                at: Duration::from_nanos(now),
            });
        }
        let more = state.result > 0;
        if !more {
            state.sender = Routine::Idle;
        }
        self.saw(watcher, version, now);
        self.end_if_over(watcher);
        more
    }

    /// A request has had its turn. Returns whether it needs another one.
    fn has_worked(&mut self, number: u32) -> bool {
        let job = &mut self.jobs[number as usize];
        if job.left > 0 {
            return true;
        }
        let (now, at) = (self.now, Duration::from_nanos(self.now));
        match &job.work {
            Work::Pod(pod) => {
                let event = Work::PodEvent(*pod, now);
                self.figures.pods += 1;
                let cost = self.config.costs.pod_event;
                self.figures.cpu += cost;
                // The controller watches pods on the first server.
                self.submit(0, cost, event);
            }
            Work::PodEvent(pod, changed) => self.outputs.push_back(Output::Pod {
                pod: *pod,
                changed: Duration::from_nanos(*changed),
                at,
            }),
            Work::Write(..) => {
                let stored = now + self.config.costs.store.as_nanos() as u64;
                self.at(stored, Event::Stored(number));
            }
            Work::Answer(version) => {
                let object = self.versions.get(*version).object as usize;
                let version = u64::from(*version);
                self.outputs.push_back(Output::Answered { object, version, at });
            }
            Work::List(watcher, version) => {
                let (watcher, version) = (*watcher, *version);
                self.listed(watcher, version);
            }
            Work::Watch(watcher) => {
                let watcher = *watcher;
                self.watches(watcher);
            }
        }
        false
    }

    /// The store has carried a write out: the answer and the event go their ways.
    pub(super) fn stored(&mut self, job: u32) {
        let Work::Write(object, bytes, changes) =
            std::mem::replace(&mut self.jobs[job as usize].work, Work::Answer(0))
        else {
            return;
        };
        let version = self.versions.push(object, bytes, &changes, self.now);
        self.figures.writes += 1;
        for server in 0..self.servers.len() {
            self.wake_intake(server as u16);
        }
        let half = self.half_of_write(bytes);
        self.submit(0, half, Work::Answer(version));
    }
}
