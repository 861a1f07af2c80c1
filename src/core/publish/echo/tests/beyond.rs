//! Writes that go beyond the places.

use super::*;

fn beyond(echoes: &Echoes, now: Duration) -> Result<Beyond, Option<Duration>> {
    echoes.beyond(Resource::Slices, now)
}

/// Writes so many slices at once, which are answered but not shown.
fn write(echoes: &mut Echoes, number: u64, first_version: u64, now: Duration) {
    for number in 0..number {
        echoes.granted(&key(number), Remove, Prompt, now);
        echoes.answered(&key(number), WriteEffect::Written(first_version + number), now);
    }
}

#[test]
fn writes_go_beyond_the_places_while_few_are_awaited_or_nothing_is_shown() {
    let mut echoes = echoes();
    for number in 0..5 {
        assert_eq!(beyond(&echoes, SECOND), Ok(Beyond::Late));
        echoes.granted(&key(number), Remove, Prompt, SECOND);
    }
    assert_eq!(beyond(&echoes, SECOND), Err(None), "five are not answered");
    for number in 0..5 {
        echoes.answered(&key(number), WriteEffect::Written(10 + number), SECOND);
    }
    assert_eq!(
        beyond(&echoes, SECOND),
        Err(Some(SECOND + QUIET)),
        "five are not shown"
    );
    assert_eq!(
        beyond(&echoes, SECOND + QUIET),
        Ok(Beyond::Quiet),
        "nothing is shown at all"
    );
    assert_eq!(echoes.late(Resource::Slices, SECOND + QUIET), QUIET);
    echoes.shown(Output::Slice, 10, SECOND + QUIET);
    assert_eq!(
        beyond(&echoes, SECOND + QUIET),
        Ok(Beyond::Late),
        "four are not shown"
    );
}

#[test]
fn a_watch_that_shows_nothing_lets_no_more_go_than_any_watcher_has_room_for() {
    let mut echoes = echoes();
    write(&mut echoes, 15, 10, SECOND);
    let now = SECOND + QUIET;
    assert_eq!(beyond(&echoes, now), Ok(Beyond::Quiet));
    write(&mut echoes, 1, 30, now);
    for later in [NOW, SECOND, SECOND * 12] {
        assert_eq!(beyond(&echoes, now + later), Err(None), "{later:?}");
    }
    // Once it counts as silent, echoes tell nothing, and places do not matter.
    echoes.pass(now + SECOND * 14);
    assert!(!echoes.counts(Resource::Slices));
}

#[test]
fn a_server_that_needs_three_seconds_for_an_event_seemed_to_show_nothing() {
    let (mut echoes, mut now, mut version) = (echoes(), SECOND, 10);
    for _ in 0..20 {
        write(&mut echoes, 2, version, now);
        for _ in 0..2 {
            now += SECOND * 3;
            echoes.pass(now);
            echoes.shown(Output::Slice, version, now);
            version += 1;
        }
    }
    write(&mut echoes, 5, version, now);
    now += SECOND * 3;
    echoes.pass(now);
    assert_eq!(
        beyond(&echoes, now),
        Err(Some(now + SECOND * 3)),
        "twice as long as usual"
    );
    now += SECOND * 3;
    assert_eq!(beyond(&echoes, now), Ok(Beyond::Quiet));
}

/// Our own watch of ordinary slices shows that the server hands events on, or has nothing to show.
#[test]
fn a_quiet_watch_of_mirrored_slices_let_twenty_writes_a_second_go_though_nothing_was_shown() {
    let mut echoes = echoes();
    echoes.opened(Output::Mirrored, Some(0), NOW);
    echoes.granted(&streams::mirrored(1), Remove, Prompt, SECOND);
    echoes.answered(&streams::mirrored(1), WriteEffect::Written(10), SECOND);
    let now = SECOND + QUIET;
    assert_eq!(beyond(&echoes, now), Ok(Beyond::Quiet));
    // An earlier version does not free its place, but shows that others are served.
    echoes.shown(Output::Slice, 9, now);
    assert_eq!(beyond(&echoes, now), Ok(Beyond::Late));
}

/// Of this namespace, and not answered.
fn granted_in(echoes: &mut Echoes, namespace: usize, number: u64, now: Duration) {
    let of = ObjectKey::hashed(format!("other{namespace}"), (*key(number).object).clone());
    echoes.granted(&of, Remove, Prompt, now);
}

#[test]
fn five_hung_requests_of_one_namespace_let_nothing_go_beyond_the_places() {
    let mut echoes = echoes();
    for number in 0..8 {
        echoes.granted(&key(number), Remove, Prompt, SECOND);
    }
    assert_eq!(beyond(&echoes, SECOND), Err(None));
    let now = SECOND + BOUND_OF_FLIGHT;
    echoes.pass(now);
    assert_eq!(beyond(&echoes, now), Ok(Beyond::Late), "two of them count");
    for namespace in 0..2 {
        for number in 0..2 {
            granted_in(&mut echoes, namespace, number, now);
        }
    }
    let now = now + BOUND_OF_FLIGHT;
    echoes.pass(now);
    assert_eq!(
        beyond(&echoes, now),
        Err(None),
        "three namespaces are the server's affair"
    );
    for number in 0..8 {
        echoes.answered(&key(number), WriteEffect::Nothing, now);
    }
    assert_eq!(beyond(&echoes, now), Ok(Beyond::Late), "four do not say so");
    echoes.opened(Output::Slice, None, now);
    assert_eq!(echoes.awaiting_answer[Resource::Slices as usize].count(), 0);
}

#[test]
fn hung_requests_of_some_namespaces_let_nothing_go_beyond_the_places() {
    for namespaces in [3, 20] {
        let (mut echoes, mut now) = (echoes(), SECOND);
        for namespace in 0..namespaces {
            granted_in(&mut echoes, namespace, 0, now);
            granted_in(&mut echoes, namespace, 1, now);
        }
        now += BOUND_OF_FLIGHT;
        echoes.pass(now);
        assert_eq!(beyond(&echoes, now), Err(None), "all may hang");
        for version in 1..=5 {
            assert_eq!(beyond(&echoes, now), Err(None), "{version}");
            write(&mut echoes, 1, version, now);
            echoes.shown(Output::Slice, version, now);
        }
        assert_eq!(
            beyond(&echoes, now),
            Ok(Beyond::Late),
            "five that were sent later are answered"
        );
        // Those that hang after that may be the server's affair.
        for namespace in 0..namespaces {
            granted_in(&mut echoes, namespace, 2, now);
            granted_in(&mut echoes, namespace, 3, now);
        }
        now += BOUND_OF_FLIGHT;
        echoes.pass(now);
        assert_eq!(beyond(&echoes, now), Err(None));
        // An answer that is late says nothing, nor does a write that is not sent.
        for _ in 0..5 {
            echoes.granted(&key(9), Remove, Prompt, now);
            echoes.answered(&key(9), WriteEffect::Nothing, now);
            echoes.granted(&key(9), Remove, Prompt, now);
            now += BOUND_OF_FLIGHT;
            echoes.pass(now);
            echoes.answered(&key(9), WriteEffect::Written(1), now);
        }
        assert_eq!(beyond(&echoes, now), Err(None));
    }
}

/// The histogram had none of them, so the quantile of an alert had no value where the server was later than ever.
#[test]
fn echoes_that_are_given_up_were_not_heard_of() {
    let mut echoes = echoes();
    let heard = |echoes: &mut Echoes| echoes.take_heard().map(|(_, took)| took).collect::<Vec<_>>();
    write(&mut echoes, 1, 10, SECOND);
    for second in 2..=61 {
        // Others are shown all the time.
        echoes.shown(Output::Slice, 2, SECOND * second);
        echoes.pass(SECOND * second + MS);
    }
    assert_eq!((held(&echoes), heard(&mut echoes)), (0, vec![LOST + MS]));
    let lateness = echoes.streams[Output::Slice as usize].lateness;
    assert_eq!(lateness.usual_at(SECOND * 61), NOW, "that is no measurement");
    // A watch that begins again: what was just written may not be late.
    let now = SECOND * 90;
    write(&mut echoes, 1, 20, now);
    write(&mut echoes, 1, 21, now + LATE);
    echoes.opened(Output::Slice, Some(0), now + LATE + MS);
    assert_eq!((held(&echoes), heard(&mut echoes)), (0, vec![LATE + MS]));
    // One that shows nothing at all.
    write(&mut echoes, 1, 30, now);
    echoes.pass(now + SILENT + SECOND);
    assert_eq!((held(&echoes), heard(&mut echoes)), (0, vec![SILENT + SECOND]));
    // A leader that ends does not wait any more.
    echoes.opened(Output::Slice, Some(0), now);
    write(&mut echoes, 1, 40, now);
    echoes.clear();
    assert!(heard(&mut echoes).is_empty());
}

/// Writes that had given their places up did not count any more, so the server was sent others all the time.
#[test]
fn a_server_that_is_minutes_behind_was_sent_more_and_more() {
    let mut echoes = echoes();
    write(&mut echoes, 5, 10, SECOND);
    for second in 2..=120 {
        echoes.shown(Output::Slice, 2, SECOND * second);
        echoes.pass(SECOND * second + MS);
    }
    let now = SECOND * 121;
    assert_eq!(held(&echoes), 0);
    assert!(beyond(&echoes, now).is_err(), "five are on their way");
    assert_eq!(echoes.due(now), None, "nothing holds a place");
    echoes.shown(Output::Slice, 12, now);
    assert_eq!(beyond(&echoes, now), Ok(Beyond::Late), "two are");
}
