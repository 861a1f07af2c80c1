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
/// From the request to the answer.
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
    /// The way of an event after that.
    way: Duration,
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
            way: MS,
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
        writer
            .publisher
            .signalled(&Signal::Opened(Output::Slice, Some(0)), Duration::ZERO);
        for object in 0..OBJECTS {
            writer.want(object, Priority::Remove, Duration::ZERO);
        }
        let mut events = BinaryHeap::from([Reverse((Duration::ZERO, 0, Event::Look))]);
        let (mut number, mut version, mut free) = (0, 0, Duration::ZERO);
        let (mut answered, mut course) = (BTreeMap::new(), Course::default());
        let mut open = true;
        if let Some((_, until)) = self.closed {
            events.push(Reverse((until, 0, Event::Opens)));
        }
        let mut foreign = Duration::ZERO;
        while let Some(Reverse((at, _, event))) = events.pop() {
            if at > self.lasting {
                break;
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
                writer
                    .publisher
                    .signalled(&Signal::Opened(Output::Slice, None), now);
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
                    events.push(Reverse((free + self.way, number, Event::Arrives(version))));
                }
                Event::Arrives(version) => {
                    if let Some(answered) = answered.remove(&version) {
                        course.late.push((now, now.saturating_sub(answered)));
                    }
                    if open {
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
                    writer
                        .publisher
                        .signalled(&Signal::Opened(Output::Slice, Some(0)), now);
                }
                Event::Look => {}
            }
            writer.publisher.take_echoes();
            let until = loop {
                match writer.next(BYTES, now) {
                    Ok(object) => {
                        course.sent.push(now);
                        number += 1;
                        events.push(Reverse((now + ANSWER, number, Event::Answered(object, now))));
                    }
                    Err(until) => break until,
                }
            };
            if let Some(until) = until {
                number += 1;
                events.push(Reverse((until.max(now + MS), number, Event::Look)));
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

#[test]
fn seconds_of_delay_do_not_make_it_swing() {
    for way in [SECOND / 2, SECOND * 2, SECOND * 5] {
        let course = World {
            way,
            lasting: SECOND * 120,
            ..World::new(|_| 5 * MS)
        }
        .play();
        // Two places, each for as long as an echo takes.
        let expected = 2.0 / way.as_secs_f64();
        let rates = (0..9).map(|tens| course.rate(20 + tens * 10, 30 + tens * 10));
        for rate in rates {
            assert!(
                (expected * 0.5..=expected * 1.6).contains(&rate),
                "{way:?}: {rate}"
            );
        }
        let most = course.without.range(10..).map(|(_, most)| *most).max();
        assert!(most <= Some(4), "{way:?}: {most:?}");
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
