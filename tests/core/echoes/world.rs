//! The world around the publisher, and its course.

use crate::simulated::Simulated;
use endpointd::core::object::Output;
use endpointd::core::priority::Priority;
use endpointd::core::publish::signals::Signal;
use endpointd::core::publish::{Pacing, Resource, WatchLimits, Watchers, WriteEffect};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

pub(super) const MS: Duration = Duration::from_millis(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);
/// From the request to the answer, usually.
const ANSWER: Duration = Duration::from_millis(6);
/// The size of a request.
const BYTES: usize = 10_000;
/// Objects that always have a change.
const OBJECTS: usize = 200;
/// Objects that have a change now and then: one whose write changes nothing, and one that mirrors Endpoints, whose watch is
/// on another API server.
const UNCHANGED: usize = OBJECTS;
const MIRRORED: usize = OBJECTS + 1;
/// Objects of which now and then one has an endpoint to be removed, and only then a change.
const REMOVED: usize = OBJECTS + 2;
const REMOVALS: usize = 60;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Answered(usize, Duration),
    Arrives(u64),
    /// The same on the watch of mirrored slices.
    ArrivesMirrored(u64),
    /// The object that mirrors Endpoints, or the one whose write changes nothing, has a change.
    Wanted(usize),
    /// The next one of those from which endpoints are removed has a change.
    Removal(usize),
    Opens,
    Look,
}

/// The course of a loop.
#[derive(Default)]
pub(super) struct Course {
    /// When each write was sent, and the time from its answer to its echo by the time of the echo.
    pub(super) sent: Vec<Duration>,
    pub(super) late: Vec<(Duration, Duration)>,
    /// The most writes that were sent and had no echo, by second.
    pub(super) without: BTreeMap<u64, usize>,
    /// The times at which the writer woke by itself and sent nothing, by second.
    pub(super) idle: BTreeMap<u64, usize>,
    /// The longest time that the server needed for the events that it had not handed on, by second, and the most events.
    pub(super) behind: BTreeMap<u64, Duration>,
    pub(super) events_behind: BTreeMap<u64, usize>,
    /// When each removal was wanted, and how long after that all had seen it.
    pub(super) removed: Vec<(Duration, Duration)>,
}

impl Course {
    /// Writes a second between two seconds.
    pub(super) fn rate(&self, from: u32, to: u32) -> f64 {
        let between = SECOND * from..SECOND * to;
        let sent = self.sent.iter().filter(|at| between.contains(at));
        sent.count() as f64 / f64::from(to - from)
    }

    /// The longest time to an echo that came between two seconds.
    pub(super) fn latest(&self, from: u32, to: u32) -> Duration {
        let between = SECOND * from..SECOND * to;
        let late = self.late.iter().filter(|(at, _)| between.contains(at));
        late.map(|(_, late)| *late).max().unwrap_or_default()
    }

    /// The most events that the server had not handed on between two seconds.
    pub(super) fn most_behind(&self, from: u64, to: u64) -> usize {
        let behind = self.events_behind.range(from..to);
        behind.map(|(_, events)| *events).max().unwrap_or_default()
    }

    /// How long that part of the removals took that were wanted from a second on.
    pub(super) fn removals(&self, from: u32, part: f64) -> Duration {
        let removed = self.removed.iter().filter(|(at, _)| *at >= SECOND * from);
        let mut took: Vec<_> = removed.map(|(_, took)| *took).collect();
        took.sort_unstable();
        took[((took.len() - 1) as f64 * part) as usize]
    }
}

/// The world around the publisher.
pub(super) struct World {
    /// How long the server is busy with the event of one write, by the time.
    pub(super) event: Box<dyn Fn(Duration) -> Duration>,
    /// The way of an event to us after that, by the time.
    pub(super) way: Box<dyn Fn(Duration) -> Duration>,
    /// From the request to the answer.
    pub(super) answer: Duration,
    /// Our own watch stays open and shows nothing between these.
    pub(super) silent: Option<(Duration, Duration)>,
    /// Writes of others a second.
    pub(super) others: f64,
    /// The priority of the writes that always wait.
    pub(super) priority: Priority,
    /// From one change of a mirrored slice to the next, and from one write that changes nothing to the next.
    pub(super) mirrored: Option<Duration>,
    pub(super) unchanged: Option<Duration>,
    /// From one removal to the next.
    pub(super) removals: Option<Duration>,
    /// As many of the writes of each of so many namespaces are never answered.
    pub(super) hung: usize,
    pub(super) hung_namespaces: usize,
    /// Writes a second for which the budget is enough, or no limit.
    pub(super) budget: Option<f64>,
    /// When the server goes on with its events that does nothing at a time, or that time.
    pub(super) goes_on: Box<dyn Fn(Duration) -> Duration>,
    /// Our own watch is closed between these.
    pub(super) closed: Option<(Duration, Duration)>,
    /// This process stands still between these.
    pub(super) paused: Option<(Duration, Duration)>,
    pub(super) lasting: Duration,
}

impl World {
    pub(super) fn new(event: impl Fn(Duration) -> Duration + 'static) -> Self {
        Self {
            event: Box::new(event),
            way: Box::new(|_| MS),
            answer: ANSWER,
            silent: None,
            others: 0.0,
            priority: Priority::Remove,
            mirrored: None,
            unchanged: None,
            removals: None,
            hung: 0,
            hung_namespaces: 1,
            budget: None,
            goes_on: Box::new(|now| now),
            closed: None,
            paused: None,
            lasting: SECOND * 60,
        }
    }

    fn writer(&self) -> Simulated {
        let watch = WatchLimits {
            watchers: Watchers::Fixed(1),
            total: self.budget.map_or(0.0, |writes| writes * BYTES as f64),
            ..WatchLimits::UNWATCHED
        };
        let pacing = Pacing {
            watch,
            ..Pacing::unlimited(64)
        };
        // Four namespaces with a Service each.
        let writer = Simulated::new(OBJECTS + 1, OBJECTS / 4, OBJECTS / 4, pacing, 1);
        writer.with_mirrored(1).with_more(REMOVALS)
    }

    pub(super) fn play(&self) -> Course {
        let mut play = Play {
            world: self,
            writer: self.writer(),
            events: BinaryHeap::new(),
            number: 0,
            version: 0,
            free: Duration::ZERO,
            foreign: Duration::ZERO,
            answered: BTreeMap::new(),
            handed_on: BinaryHeap::new(),
            wanted: BTreeMap::new(),
            open: true,
            look: Some(Duration::ZERO),
            course: Course::default(),
        };
        play.begin();
        play.play();
        play.course
    }
}

/// A world on its course.
struct Play<'a> {
    world: &'a World,
    writer: Simulated,
    events: BinaryHeap<Reverse<(Duration, usize, Event)>>,
    number: usize,
    version: u64,
    /// When the server has handed on all events.
    free: Duration,
    /// Up to when writes of others have been counted.
    foreign: Duration,
    answered: BTreeMap<u64, Duration>,
    /// When the server hands on each event that it has not.
    handed_on: BinaryHeap<Reverse<Duration>>,
    /// Since when each of the removals is wanted that have not been sent, or not been answered.
    wanted: BTreeMap<usize, Duration>,
    /// True while our own watch is open.
    open: bool,
    /// When the writer wakes by itself: one time only, as its timer.
    look: Option<Duration>,
    course: Course,
}

impl Play<'_> {
    fn begin(&mut self) {
        self.signal(&Signal::Opened(Output::Slice, Some(0)), Duration::ZERO);
        for object in 0..OBJECTS {
            self.writer.want(object, self.world.priority, Duration::ZERO);
        }
        self.at(Duration::ZERO, Event::Look);
        if let Some((_, until)) = self.world.closed {
            self.at(until, Event::Opens);
        }
        if let Some(every) = self.world.mirrored {
            self.signal(&Signal::Opened(Output::Mirrored, Some(0)), Duration::ZERO);
            self.at(every, Event::Wanted(MIRRORED));
        }
        if let Some(every) = self.world.unchanged {
            self.at(every, Event::Wanted(UNCHANGED));
        }
        if let Some(every) = self.world.removals {
            self.at(every, Event::Removal(0));
        }
    }

    fn at(&mut self, at: Duration, event: Event) {
        self.number += 1;
        self.events.push(Reverse((at, self.number, event)));
    }

    fn signal(&mut self, signal: &Signal, now: Duration) {
        self.writer.publisher.signalled(signal, now);
        self.writer.publisher.take_echoes();
    }

    fn play(&mut self) {
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            if at > self.world.lasting {
                break;
            }
            if event == Event::Look && self.look != Some(at) {
                continue;
            }
            let mut now = at;
            let paused = self.world.paused;
            if let Some((from, until)) = paused.filter(|(from, until)| (*from..*until).contains(&at)) {
                // Whatever comes meanwhile is seen afterwards, and so is the timer that should have fired.
                now = until;
                self.writer.publisher.stalled(from, until);
            }
            let closed = |(from, until)| (from..until).contains(&now);
            if self.open && self.world.closed.is_some_and(closed) {
                self.open = false;
                self.signal(&Signal::Opened(Output::Slice, None), now);
            }
            self.happens(event, now);
            let sent = self.send(now);
            if event == Event::Look && sent == 0 {
                *self.course.idle.entry(now.as_secs()).or_default() += 1;
            }
            let without = self.writer.publisher.places(Resource::Slices).1;
            let most = self.course.without.entry(now.as_secs()).or_default();
            *most = without.max(*most);
            let behind = self.course.behind.entry(now.as_secs()).or_default();
            *behind = self.free.saturating_sub(now).max(*behind);
            while self.handed_on.peek().is_some_and(|Reverse(at)| *at <= now) {
                self.handed_on.pop();
            }
            let behind = self.course.events_behind.entry(now.as_secs()).or_default();
            *behind = self.handed_on.len().max(*behind);
        }
    }

    fn happens(&mut self, event: Event, now: Duration) {
        let shown = |output, version| Signal::Shown {
            output,
            version,
            at: now,
        };
        match event {
            Event::Answered(object, sent) => self.answers(object, sent, now),
            Event::Arrives(version) => {
                if let Some(answered) = self.answered.remove(&version) {
                    self.course.late.push((now, now.saturating_sub(answered)));
                }
                let silent = |(from, until)| (from..until).contains(&now);
                if self.open && !self.world.silent.is_some_and(silent) {
                    self.signal(&shown(Output::Slice, version), now);
                }
            }
            Event::ArrivesMirrored(version) => self.signal(&shown(Output::Mirrored, version), now),
            Event::Wanted(object) => {
                let every = if object == MIRRORED {
                    self.world.mirrored
                } else {
                    self.world.unchanged
                };
                self.writer.want(object, Priority::Remove, now);
                self.at(now + every.unwrap(), Event::Wanted(object));
            }
            Event::Removal(number) => {
                let object = REMOVED + number % REMOVALS;
                self.wanted.entry(object).or_insert(now);
                self.writer.want(object, Priority::Remove, now);
                self.at(now + self.world.removals.unwrap(), Event::Removal(number + 1));
            }
            Event::Opens => {
                self.open = true;
                self.signal(&Signal::Opened(Output::Slice, Some(0)), now);
            }
            Event::Look => {}
        }
    }

    /// The server answers a write, and hands its event on once it has done so with those before.
    fn answers(&mut self, object: usize, sent: Duration, now: Duration) {
        let took = now.saturating_sub(sent);
        let again = (object < OBJECTS).then_some(self.world.priority);
        if object == UNCHANGED {
            self.writer
                .answered(object, WriteEffect::Written(1), took, again, now);
            return;
        }
        self.version += 1;
        let version = self.version;
        self.writer
            .answered(object, WriteEffect::Written(version), took, again, now);
        // Events of others come between ours.
        while self.world.others > 0.0 && self.foreign < now {
            self.foreign += Duration::from_secs_f64(1.0 / self.world.others);
            self.free = self.after_event(now);
        }
        self.free = self.after_event(now);
        self.handed_on.push(Reverse(self.free));
        if let Some(since) = self.wanted.remove(&object) {
            self.course.removed.push((since, self.free.saturating_sub(since)));
        }
        if object == MIRRORED {
            // The other server is idle.
            self.at(now + MS, Event::ArrivesMirrored(version));
        } else {
            self.answered.insert(version, now);
            self.at(self.free + (self.world.way)(now), Event::Arrives(version));
        }
    }

    /// Returns when the server has handed on one more event.
    fn after_event(&self, now: Duration) -> Duration {
        (self.world.goes_on)(self.free.max(now)) + (self.world.event)(now)
    }

    /// Sends as much as may be sent, and sets the timer. Returns how much that was.
    fn send(&mut self, now: Duration) -> usize {
        let before = self.course.sent.len();
        let until = loop {
            match self.writer.next(BYTES, now) {
                Ok(object) => {
                    self.course.sent.push(now);
                    let (namespace, number) = (object / (OBJECTS / 4), object % (OBJECTS / 4));
                    let hangs = namespace < self.world.hung_namespaces && number < self.world.hung;
                    if !hangs {
                        self.at(now + self.world.answer, Event::Answered(object, now));
                    }
                }
                Err(until) => break until,
            }
        };
        self.look = until.map(|until| until.max(now + MS));
        if let Some(at) = self.look {
            self.at(at, Event::Look);
        }
        self.course.sent.len() - before
    }
}
