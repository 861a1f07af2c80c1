//! The law that limits writes without an echo, in a loop with an API server that is late with events: steps in the load
//! and in the cost of an event, pauses on either side, watches that end, other writers, and versions that jump.
//!
//! The server is as simple as it can be: it answers each write after a while, and hands events to all watchers one after
//! the other. `tests/core/fanned_out.rs` has one with watchers of limited room.

use crate::simulated::Simulated;
use endpointd::core::object::Output;
use endpointd::core::publish::signals::Signal;
use endpointd::core::publish::{Pacing, Resource, WatchLimits, Watchers, WriteEffect};
use endpointd::core::queue::Priority;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
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

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Answered(usize, Duration),
    Arrives(u64),
    /// The same on the watch of mirrored slices.
    ArrivesMirrored(u64),
    /// The object that mirrors Endpoints, or the one whose write changes nothing, has a change.
    Wanted(usize),
    Opens,
    Look,
}

/// The course of a loop.
#[derive(Default)]
struct Course {
    /// When each write was sent, and the time from its answer to its echo by the time of the echo.
    sent: Vec<Duration>,
    late: Vec<(Duration, Duration)>,
    /// The most writes that were sent and had no echo, by second.
    without: BTreeMap<u64, usize>,
    /// The times at which the writer woke by itself and sent nothing, by second.
    idle: BTreeMap<u64, usize>,
    /// The longest time that the server needed for the events that it had not handed on, by second.
    behind: BTreeMap<u64, Duration>,
}

impl Course {
    /// Writes a second between two seconds.
    fn rate(&self, from: u32, to: u32) -> f64 {
        let between = SECOND * from..SECOND * to;
        let sent = self.sent.iter().filter(|at| between.contains(at));
        sent.count() as f64 / f64::from(to - from)
    }

    /// The longest time to an echo that came between two seconds.
    fn latest(&self, from: u32, to: u32) -> Duration {
        let between = SECOND * from..SECOND * to;
        let late = self.late.iter().filter(|(at, _)| between.contains(at));
        late.map(|(_, late)| *late).max().unwrap_or_default()
    }
}

/// The world around the publisher.
struct World {
    /// How long the server is busy with the event of one write, by the time.
    event: Box<dyn Fn(Duration) -> Duration>,
    /// The way of an event to us after that, by the time.
    way: Box<dyn Fn(Duration) -> Duration>,
    /// From the request to the answer.
    answer: Duration,
    /// Our own watch stays open and shows nothing between these.
    silent: Option<(Duration, Duration)>,
    /// Writes of others a second.
    others: f64,
    /// The priority of the writes that always wait.
    priority: Priority,
    /// From one change of a mirrored slice to the next, and from one write that changes nothing to the next.
    mirrored: Option<Duration>,
    unchanged: Option<Duration>,
    /// As many of the writes, all of one namespace, are never answered.
    hung: usize,
    /// Writes a second for which the budget is enough, or no limit.
    budget: Option<f64>,
    /// Our own watch is closed between these.
    closed: Option<(Duration, Duration)>,
    /// This process stands still between these.
    paused: Option<(Duration, Duration)>,
    lasting: Duration,
}

impl World {
    fn new(event: impl Fn(Duration) -> Duration + 'static) -> Self {
        Self {
            event: Box::new(event),
            way: Box::new(|_| MS),
            answer: ANSWER,
            silent: None,
            others: 0.0,
            priority: Priority::Remove,
            mirrored: None,
            unchanged: None,
            hung: 0,
            budget: None,
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
        Simulated::new(OBJECTS + 1, OBJECTS / 4, OBJECTS / 4, pacing, 1).with_mirrored(1)
    }

    fn play(&self) -> Course {
        let mut play = Play {
            world: self,
            writer: self.writer(),
            events: BinaryHeap::new(),
            number: 0,
            version: 0,
            free: Duration::ZERO,
            foreign: Duration::ZERO,
            answered: BTreeMap::new(),
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
            self.free = self.free.max(now) + (self.world.event)(now);
        }
        self.free = self.free.max(now) + (self.world.event)(now);
        if object == MIRRORED {
            // The other server is idle.
            self.at(now + MS, Event::ArrivesMirrored(version));
        } else {
            self.answered.insert(version, now);
            self.at(self.free + (self.world.way)(now), Event::Arrives(version));
        }
    }

    /// Sends as much as may be sent, and sets the timer. Returns how much that was.
    fn send(&mut self, now: Duration) -> usize {
        let before = self.course.sent.len();
        let until = loop {
            match self.writer.next(BYTES, now) {
                Ok(object) => {
                    self.course.sent.push(now);
                    if object >= self.world.hung {
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

/// A server that is busy for so long with an event at first, and for another time between two seconds.
fn step(usual: Duration, from: u64, to: u64, then: Duration) -> impl Fn(Duration) -> Duration {
    move |now| {
        if (from..to).contains(&now.as_secs()) {
            then
        } else {
            usual
        }
    }
}

#[test]
fn a_server_that_keeps_up_is_used() {
    let course = World::new(|_| 5 * MS).play();
    assert!(
        (170.0..=200.0).contains(&course.rate(5, 60)),
        "{}",
        course.rate(5, 60)
    );
    assert!(course.latest(5, 60) < 60 * MS, "{:?}", course.latest(5, 60));
}

#[test]
fn when_events_become_dear_few_are_on_their_way_and_when_they_are_cheap_again_it_goes_on() {
    // As if there were twenty times the watchers, for twenty seconds.
    let course = World::new(step(5 * MS, 20, 40, 100 * MS)).play();
    assert!(
        (8.0..=10.5).contains(&course.rate(25, 40)),
        "{}",
        course.rate(25, 40)
    );
    assert!(course.latest(25, 40) < SECOND, "{:?}", course.latest(25, 40));
    assert!(course.rate(50, 60) > 170.0, "{}", course.rate(50, 60));
    let most = course.without.range(22..40).map(|(_, most)| *most).max();
    assert!(most <= Some(4), "{most:?}");
}

/// The API server hands on an event in 5 ms, but its way to our own watch is long.
#[test]
fn a_watch_of_ours_that_was_late_by_itself_let_two_writes_go_for_each_delay() {
    // At kube-controller-manager's rate, as far as it has 40 without an echo.
    for (way, expected) in [(SECOND / 2, 20.0), (SECOND * 2, 20.0), (SECOND * 5, 8.0)] {
        // The answers and the echoes of the beginning were quick, or it is late from the start.
        for since in [0, 20] {
            let course = World {
                way: Box::new(step(MS, since, 1_000, way)),
                lasting: SECOND * 120,
                ..World::new(|_| 5 * MS)
            }
            .play();
            let rates = (4..11).map(|tens| course.rate(tens * 10, 10 + tens * 10));
            for rate in rates {
                assert!(
                    (expected * 0.8..=expected * 1.3).contains(&rate),
                    "{way:?} {since}: {rate}"
                );
            }
            let most = course.without.range(since + 40..).map(|(_, most)| *most).max();
            assert!(most <= Some(42), "{way:?}: {most:?}");
        }
    }
    let course = World {
        way: Box::new(step(MS, 20, 40, SECOND * 2)),
        ..World::new(|_| 5 * MS)
    }
    .play();
    assert!(course.rate(45, 60) > 170.0, "{}", course.rate(45, 60));
}

#[test]
fn a_quick_watch_of_mirrored_slices_swamped_the_watchers_of_a_server_that_was_behind() {
    for every in [SECOND, SECOND * 3 / 10, SECOND / 10] {
        let course = World {
            mirrored: Some(every),
            ..World::new(|_| 100 * MS)
        }
        .play();
        let behind = course.behind.range(20..).map(|(_, behind)| *behind).max();
        assert!(behind < Some(SECOND), "{every:?}: {behind:?}");
        assert!(course.rate(20, 60) > 8.0, "{every:?}: {}", course.rate(20, 60));
    }
}

/// Neither a quick watch of another output nor a write that changes nothing says anything of a watch that is late by itself.
#[test]
fn a_quick_echo_of_something_else_took_away_what_a_late_watch_was_allowed() {
    let quick = |mirrored, unchanged| World {
        mirrored,
        unchanged,
        way: Box::new(|_| SECOND * 2),
        lasting: SECOND * 120,
        ..World::new(|_| 5 * MS)
    };
    let worlds = [
        quick(Some(SECOND * 5), None),
        quick(Some(SECOND * 10), None),
        quick(None, Some(SECOND * 5)),
        quick(None, Some(SECOND)),
    ];
    for (number, world) in worlds.iter().enumerate() {
        let rate = world.play().rate(40, 120);
        assert!((16.0..26.0).contains(&rate), "{number}: {rate}");
    }
}

#[test]
fn hung_requests_of_one_namespace_took_away_what_a_late_watch_was_allowed() {
    let course = World {
        hung: 5,
        way: Box::new(|_| SECOND * 2),
        lasting: SECOND * 120,
        ..World::new(|_| 5 * MS)
    }
    .play();
    let rate = course.rate(40, 120);
    assert!((16.0..26.0).contains(&rate), "{rate}");
}

#[test]
fn a_watch_of_ours_that_showed_nothing_stopped_all_writes_for_fifteen_seconds() {
    let course = World {
        silent: Some((SECOND * 20, SECOND * 34)),
        ..World::new(|_| 5 * MS)
    }
    .play();
    assert!(
        (15.0..=25.0).contains(&course.rate(23, 34)),
        "{}",
        course.rate(23, 34)
    );
    assert!(course.rate(40, 60) > 170.0, "{}", course.rate(40, 60));
}

/// A place is held until the answer, as on a busy server a slow answer is all that shows how busy it is.
#[test]
fn slow_answers_let_no_fewer_writes_go_than_kube_controller_manager_sends() {
    for (priority, expected) in [(Priority::Remove, 25.0), (Priority::Add, 15.0)] {
        for answer in [SECOND / 5, SECOND / 2, SECOND * 2] {
            let course = World {
                answer,
                priority,
                ..World::new(|_| 5 * MS)
            }
            .play();
            let rate = course.rate(10, 60);
            assert!(rate > expected, "{priority:?} {answer:?}: {rate}");
        }
    }
}

/// Answers are late where the server is busy, or where the way to it is long.
#[test]
fn slow_answers_of_a_server_that_is_not_seen_to_be_idle_let_no_more_go() {
    for priority in [Priority::Remove, Priority::Add] {
        let busy = World {
            answer: SECOND / 2,
            priority,
            ..World::new(|_| 100 * MS)
        }
        .play();
        let behind = busy.behind.range(20..).map(|(_, behind)| *behind).max();
        assert!(behind < Some(SECOND / 2), "{priority:?}: {behind:?}");
        let far = World {
            answer: SECOND,
            way: Box::new(|_| SECOND),
            priority,
            ..World::new(|_| 5 * MS)
        }
        .play();
        assert!(far.rate(20, 60) < 10.0, "{priority:?}: {}", far.rate(20, 60));
    }
}

/// Also where all writes only add endpoints.
#[test]
fn additions_find_out_as_well_that_our_own_watch_is_late_by_itself() {
    let course = World {
        priority: Priority::Add,
        way: Box::new(|_| SECOND * 2),
        lasting: SECOND * 120,
        ..World::new(|_| 5 * MS)
    }
    .play();
    assert!(course.rate(60, 120) > 16.0, "{}", course.rate(60, 120));
}

#[test]
fn a_writer_that_may_not_write_woke_all_the_time() {
    let step = |event: Duration| step(5 * MS, 20, 40, event);
    let silent = Some((SECOND * 20, SECOND * 34));
    let late = |_| SECOND * 5;
    for (what, world) in [
        ("events of 100 ms", World::new(step(100 * MS))),
        ("events of 3 s", World::new(step(SECOND * 3))),
        (
            "a silent watch",
            World {
                silent,
                ..World::new(|_| 5 * MS)
            },
        ),
        (
            "a late watch",
            World {
                way: Box::new(late),
                ..World::new(|_| 5 * MS)
            },
        ),
    ] {
        let course = world.play();
        let most = course.idle.values().max();
        assert!(most <= Some(&25), "{what}: {most:?} times in a second");
    }
}

#[test]
fn a_burst_of_others_is_waited_for_and_over_within_ten_seconds() {
    // For five seconds the server is busy with what others do, such as lists of all watchers.
    let course = World::new(step(5 * MS, 20, 25, 800 * MS)).play();
    assert!(course.rate(22, 25) < 5.0, "{}", course.rate(22, 25));
    assert!(course.rate(32, 35) > 100.0, "{}", course.rate(32, 35));
    assert!(course.rate(36, 60) > 170.0, "{}", course.rate(36, 60));
}

#[test]
fn writes_of_others_take_their_share() {
    let course = World {
        others: 100.0,
        ..World::new(|_| 5 * MS)
    }
    .play();
    assert!(
        (80.0..=110.0).contains(&course.rate(10, 60)),
        "{}",
        course.rate(10, 60)
    );
    assert!(course.latest(10, 60) < SECOND / 2, "{:?}", course.latest(10, 60));
}

#[test]
fn a_pause_of_this_process_costs_nothing_afterwards() {
    let course = World {
        paused: Some((SECOND * 20, SECOND * 30)),
        ..World::new(|_| 5 * MS)
    }
    .play();
    assert!(course.rate(20, 30) < 1.0);
    assert!(course.rate(31, 33) > 170.0, "{}", course.rate(31, 33));
}

#[test]
fn a_watch_that_is_listed_again_stops_nobody() {
    let course = World {
        closed: Some((SECOND * 20, SECOND * 30)),
        budget: Some(200.0),
        ..World::new(|_| 5 * MS)
    }
    .play();
    // Half of the budget is left meanwhile.
    assert!(
        (90.0..=110.0).contains(&course.rate(21, 30)),
        "{}",
        course.rate(21, 30)
    );
    assert!(course.rate(50, 60) > 170.0, "{}", course.rate(50, 60));
}
