//! The law that limits writes without an echo, in a loop with an API server that is late with events: steps in the load
//! and in the cost of an event, pauses on either side, watches that end, other writers, and versions that jump.
//!
//! The server is as simple as it can be: it answers each write after a while, and hands events to all watchers one after
//! the other. `tests/core/fanned_out.rs` has one with watchers of limited room.

mod world;

use endpointd::core::priority::Priority;
use std::time::Duration;
use world::{MS, SECOND, World};

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
            // It is found out with the second eight echoes.
            let rates = (4 + since as u32 / 10..11).map(|tens| course.rate(tens * 10, 10 + tens * 10));
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
        goes_at_upstreams_rate(world, &number.to_string());
    }
}

/// Writes go at about the rate of kube-controller-manager, once the delay of our own watch is known.
fn goes_at_upstreams_rate(world: &World, case: &str) {
    let rate = world.play().rate(40, 120);
    assert!((16.0..26.0).contains(&rate), "{case}: {rate}");
}

#[test]
fn hung_requests_of_one_namespace_took_away_what_a_late_watch_was_allowed() {
    let world = World {
        hung: 5,
        way: Box::new(|_| SECOND * 2),
        lasting: SECOND * 120,
        ..World::new(|_| 5 * MS)
    };
    goes_at_upstreams_rate(&world, "hung requests");
}

/// Of three namespaces, two each: as many as would be in flight on a server that is busy.
#[test]
fn hung_requests_of_three_namespaces_took_away_what_a_late_watch_was_allowed() {
    let world = World {
        hung: 2,
        hung_namespaces: 3,
        way: Box::new(|_| SECOND * 2),
        lasting: SECOND * 120,
        ..World::new(|_| 5 * MS)
    };
    goes_at_upstreams_rate(&world, "hung requests");
}

/// It is not known then whether our own watch is broken, or the server stands still.
#[test]
fn a_watch_of_ours_that_showed_nothing_stopped_all_writes_for_fifteen_seconds() {
    let course = World {
        silent: Some((SECOND * 20, SECOND * 34)),
        ..World::new(|_| 5 * MS)
    }
    .play();
    // As many as the smallest watcher has room for, over the whole time.
    for from in [22, 26] {
        let rate = course.rate(from, from + 4);
        assert!((0.5..=4.0).contains(&rate), "{from}: {rate}");
    }
    assert!(course.rate(40, 60) > 170.0, "{}", course.rate(40, 60));
}

/// A watch that tells nothing for long is not the server's affair.
#[test]
fn a_watch_of_ours_that_is_broken_stops_nobody() {
    for budget in [None, Some(34.0)] {
        let course = World {
            silent: Some((SECOND * 20, SECOND * 60)),
            budget,
            ..World::new(|_| 5 * MS)
        }
        .play();
        let rate = course.rate(38, 60);
        assert!((16.0..=21.0).contains(&rate), "{budget:?}: {rate}");
    }
}

/// A server that needed more than two seconds for an event was taken for a watch of ours that is broken.
#[test]
fn a_server_that_needed_more_than_two_seconds_for_an_event_got_twenty_writes_a_second() {
    for millis in [500, 1_900, 2_500, 3_000, 5_000, 8_000] {
        let event = MS * millis;
        // From the beginning, or after events were quick.
        for since in [0, 20] {
            let course = World {
                lasting: SECOND * 200,
                ..World::new(step(5 * MS, since, 1_000, event))
            }
            .play();
            let most = course.most_behind(since, 200);
            assert!(most < 20, "{event:?} {since}: {most} events behind");
            let later = course.most_behind(150, 200);
            assert!(later <= 8, "{event:?} {since}: {later} events behind");
        }
    }
}

/// Each write of that time was another event for watchers that have room for twenty.
#[test]
fn a_server_that_stood_still_got_twenty_writes_a_second() {
    for seconds in [2, 4, 8, 14] {
        for budget in [None, Some(34.0)] {
            let stands = SECOND * 30..SECOND * (30 + seconds);
            let course = World {
                goes_on: Box::new(move |now| if stands.contains(&now) { stands.end } else { now }),
                budget,
                lasting: SECOND * 90,
                ..World::new(|_| 20 * MS)
            }
            .play();
            let most = course.most_behind(29, 90);
            assert!(most < 20, "{seconds} s, {budget:?}: {most} events behind");
            assert!(course.rate(60, 90) > 30.0, "{seconds} s: {}", course.rate(60, 90));
        }
    }
    // Four of ten seconds, again and again.
    let course = World {
        goes_on: Box::new(|now| {
            let ten = SECOND * (now.as_secs() as u32 / 10 * 10);
            if now < ten + SECOND * 6 {
                now
            } else {
                ten + SECOND * 10
            }
        }),
        lasting: SECOND * 90,
        ..World::new(|_| 50 * MS)
    }
    .play();
    let most = course.most_behind(0, 90);
    assert!(most < 20, "{most} events behind");
    assert!(course.rate(30, 90) > 8.0, "{}", course.rate(30, 90));
}

/// Additions always wait. Those that went beyond the places took the one that is kept for removals.
#[test]
fn removals_waited_for_additions_that_went_beyond_the_places() {
    for millis in [100, 150, 200, 300] {
        let event = MS * millis;
        let course = World {
            priority: Priority::Add,
            // The server carries somewhat more than twice as many.
            removals: Some(event.mul_f64(2.23)),
            lasting: SECOND * 300,
            ..World::new(move |_| event)
        }
        .play();
        let (p50, p99) = (course.removals(20, 0.5), course.removals(20, 0.99));
        assert!(p99 <= SECOND, "{event:?}: {p50:?} {p99:?}");
        let carries = 1.0 / event.as_secs_f64();
        let rate = course.rate(20, 300);
        assert!(rate > carries * 0.9, "{event:?}: {rate} of {carries} writes");
    }
}

/// Where removals come all the time, and our own watch became late after they had begun.
#[test]
fn additions_beside_removals_found_out_that_our_own_watch_is_late_by_itself() {
    for since in [0, 20] {
        let course = World {
            priority: Priority::Add,
            removals: Some(MS * 670),
            way: Box::new(step(MS, since, 1_000, SECOND * 2)),
            lasting: SECOND * 240,
            ..World::new(|_| 5 * MS)
        }
        .play();
        let rate = course.rate(180, 240);
        assert!(rate > 16.0, "{since}: {rate}");
    }
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
