//! The law that limits writes without an echo, in a loop with an API server that is late with events: steps in the load
//! and in the cost of an event, pauses on either side, watches that end, other writers, and versions that jump.
//!
//! The server is as simple as it can be: it answers each write after a while, and hands events to all watchers one after
//! the other. `tests/core/fanned_out.rs` has one with watchers of limited room.

use crate::simulated::Simulated;
use endpointd::core::object::Output;
use endpointd::core::publish::signals::Signal;
use endpointd::core::publish::{Effect, Pacing, Resource, WatchLimits, Watchers};
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

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Answered(usize, Duration),
    Arrives(u64),
    Opens,
    Look,
}

/// What a loop has done.
#[derive(Default)]
struct Course {
    /// When each write was sent, and the time from its answer to its echo by the time of the echo.
    sent: Vec<Duration>,
    late: Vec<(Duration, Duration)>,
    /// The most writes that were sent and had no echo, by second.
    without: BTreeMap<u64, usize>,
    /// The times at which the writer woke by itself and sent nothing, by second.
    idle: BTreeMap<u64, usize>,
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
        Simulated::new(OBJECTS, OBJECTS / 4, OBJECTS / 4, pacing, 1)
    }

    fn play(&self) -> Course {
        let mut writer = self.writer();
        let opened = |version| Signal::Opened(Output::Slice, version);
        writer.publisher.signalled(&opened(Some(0)), Duration::ZERO);
        for object in 0..OBJECTS {
            writer.want(object, Priority::Remove, Duration::ZERO);
        }
        let mut events = BinaryHeap::from([Reverse((Duration::ZERO, 0, Event::Look))]);
        let (mut number, mut version, mut free) = (0, 0, Duration::ZERO);
        let (mut answered, mut course) = (BTreeMap::new(), Course::default());
        let mut open = true;
        // When the writer wakes by itself: one time only, as its timer.
        let mut look = Some(Duration::ZERO);
        if let Some((_, until)) = self.closed {
            events.push(Reverse((until, 0, Event::Opens)));
        }
        let mut foreign = Duration::ZERO;
        while let Some(Reverse((at, _, event))) = events.pop() {
            if at > self.lasting {
                break;
            }
            if event == Event::Look && look != Some(at) {
                continue;
            }
            let mut now = at;
            if let Some((from, until)) = self.paused.filter(|(from, until)| (*from..*until).contains(&at)) {
                // Whatever comes meanwhile is seen afterwards, and so is the timer that should have fired.
                now = until;
                writer.publisher.stalled(from, until);
            }
            if let Some((from, until)) = self.closed
                && open
                && (from..until).contains(&now)
            {
                open = false;
                writer.publisher.signalled(&opened(None), now);
            }
            match event {
                Event::Answered(at, sent) => {
                    version += 1;
                    answered.insert(version, now);
                    let took = now.saturating_sub(sent);
                    writer.answered(at, Effect::Written(version), took, Some(Priority::Remove), now);
                    // Events of others come between ours.
                    while self.others > 0.0 && foreign < now {
                        foreign += Duration::from_secs_f64(1.0 / self.others);
                        free = free.max(now) + (self.event)(now);
                    }
                    free = free.max(now) + (self.event)(now);
                    number += 1;
                    events.push(Reverse((free + (self.way)(now), number, Event::Arrives(version))));
                }
                Event::Arrives(version) => {
                    if let Some(answered) = answered.remove(&version) {
                        course.late.push((now, now.saturating_sub(answered)));
                    }
                    let silent = |(from, until)| (from..until).contains(&now);
                    if open && !self.silent.is_some_and(silent) {
                        let output = Output::Slice;
                        writer.publisher.signalled(
                            &Signal::Shown {
                                output,
                                version,
                                at: now,
                            },
                            now,
                        );
                    }
                }
                Event::Opens => {
                    open = true;
                    writer.publisher.signalled(&opened(Some(0)), now);
                }
                Event::Look => {}
            }
            writer.publisher.take_echoes();
            let before = course.sent.len();
            let until = loop {
                match writer.next(BYTES, now) {
                    Ok(object) => {
                        course.sent.push(now);
                        number += 1;
                        events.push(Reverse((now + self.answer, number, Event::Answered(object, now))));
                    }
                    Err(until) => break until,
                }
            };
            if event == Event::Look && course.sent.len() == before {
                *course.idle.entry(now.as_secs()).or_default() += 1;
            }
            look = until.map(|until| until.max(now + MS));
            if let Some(at) = look {
                number += 1;
                events.push(Reverse((at, number, Event::Look)));
            }
            let without = writer.publisher.places(Resource::Slices).1;
            let most = course.without.entry(now.as_secs()).or_default();
            *most = without.max(*most);
        }
        course
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
    for answer in [SECOND / 5, SECOND / 2, SECOND * 2] {
        let course = World {
            answer,
            ..World::new(|_| 5 * MS)
        }
        .play();
        assert!(course.rate(10, 60) > 25.0, "{answer:?}: {}", course.rate(10, 60));
    }
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
