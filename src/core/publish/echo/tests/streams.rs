//! The watches of ordinary and of mirrored slices, beside each other.

use super::*;

pub(super) fn mirrored(number: u64) -> Hashed<ObjectKey> {
    ObjectKey::hashed(
        "ns",
        ObjectName {
            output: Output::Mirrored,
            ..ObjectName::slice(format!("m{number}").as_str().into())
        },
    )
}

#[test]
fn a_watch_of_mirrored_slices_that_showed_nothing_held_up_ordinary_slices() {
    let mut echoes = echoes();
    echoes.opened(Output::Mirrored, Some(0), NOW);
    for number in 1..=3 {
        echoes.granted(&mirrored(number), Remove, Prompt, NOW);
        echoes.answered(&mirrored(number), WriteEffect::Written(10 + number), MS);
    }
    assert_eq!(held(&echoes), 3);
    echoes.shown(Output::Slice, 99, QUIET);
    assert_eq!(held(&echoes), 3, "the other watch may be late");
    echoes.shown(Output::Endpoints, 99, QUIET + MS);
    assert_eq!(held(&echoes), 3, "those of Endpoints are another matter");
    echoes.shown(Output::Slice, 12, QUIET + MS);
    assert_eq!(held(&echoes), 1, "it has shown nothing for long");
    echoes.shown(Output::Slice, 13, QUIET + MS);
    assert_eq!(
        (held(&echoes), limit(&echoes), echoes.take_heard().count()),
        (0, 5, 0),
        "that is no measurement"
    );
    // Whatever is awaited there stops nothing, up to the rate of what goes beyond the places.
    for number in 4..12 {
        assert!(echoes.beyond(Resource::Slices, QUIET * 2).is_ok(), "{number}");
        echoes.granted(&mirrored(number), Remove, Prompt, QUIET * 2);
        echoes.answered(&mirrored(number), WriteEffect::Written(10 + number), QUIET * 2);
    }
    // It shows something again.
    echoes.shown(Output::Mirrored, 14, QUIET * 2);
    assert_eq!(
        echoes.beyond(Resource::Slices, QUIET * 2),
        Err(Some(QUIET * 3)),
        "seven are not shown"
    );
}

#[test]
fn a_quick_watch_of_mirrored_slices_freed_the_places_of_ordinary_slices_that_were_late() {
    let mut echoes = echoes();
    echoes.opened(Output::Mirrored, Some(0), NOW);
    let mut now = SECOND;
    for number in 1..100 {
        now += SECOND / 10;
        echoes.granted(&key(number), Remove, Prompt, now);
        echoes.answered(&key(number), WriteEffect::Written(number * 2), now);
        echoes.granted(&mirrored(number), Remove, Prompt, now);
        echoes.answered(&mirrored(number), WriteEffect::Written(number * 2 + 1), now);
        echoes.shown(Output::Mirrored, number * 2 + 1, now + MS);
        if number > 10 {
            // One second late, and never quiet.
            echoes.shown(Output::Slice, (number - 10) * 2, now + MS);
            assert_eq!(held(&echoes), 10);
        }
        echoes.pass(now + MS);
    }
    let late = SECOND + MS;
    assert!(
        echoes
            .take_heard()
            .all(|(output, took)| took == if output == Output::Slice { late } else { MS }),
        "each watch tells of itself"
    );
    assert!(echoes.usual(Resource::Slices, now) > SECOND * 9 / 10);
}

#[test]
fn an_echo_that_came_before_its_answer_counted_as_the_quickest_of_all() {
    let mut echoes = echoes();
    let mut version = 10;
    echoes.shown(Output::Slice, version, MS);
    // Our own watch is late by itself, and up to forty writes are awaited.
    let late = |echoes: &mut Echoes, version: &mut u64, now: Duration| {
        let most = echoes.streams[Output::Slice as usize].lateness.most() as u64;
        for number in 1..=most {
            echoes.granted(&key(number), Remove, Prompt, now);
            echoes.answered(&key(number), WriteEffect::Written(*version + number), now);
        }
        *version += most;
        echoes.shown(Output::Slice, *version, now + SECOND * 2);
        echoes.take_heard();
        most
    };
    let mut now = SECOND;
    for _ in 0..6 {
        late(&mut echoes, &mut version, now);
        now += SECOND * 3;
    }
    assert_eq!(late(&mut echoes, &mut version, now), 40);
    for round in 0..10 {
        now += SECOND * 3;
        let before = held(&echoes);
        // A write that changed nothing, and one whose event comes before its answer.
        echoes.granted(&key(99), Remove, Prompt, now);
        echoes.answered(&key(99), WriteEffect::Written(version - 1), now);
        echoes.granted(&key(99), Remove, Prompt, now);
        version += 1;
        echoes.shown(Output::Slice, version, now);
        echoes.answered(&key(99), WriteEffect::Written(version), now);
        assert_eq!((held(&echoes), echoes.take_heard().count()), (before, 0));
        assert_eq!(late(&mut echoes, &mut version, now), 40, "{round}");
    }
}

#[test]
fn an_event_that_came_before_its_answer_gives_back_places() {
    let (mut echoes, mut now) = (echoes(), MS);
    rounds(&mut echoes, &mut now, SECOND, 4);
    assert_eq!(limit(&echoes), 2);
    let mut version = u64::MAX / 2;
    echoes.shown(Output::Slice, version, now);
    // A write that changed nothing proves nothing.
    for early in [0, 1] {
        for _ in 0..100 {
            let granted: Vec<_> = (0..limit(&echoes) as u64).map(key).collect();
            for key in &granted {
                echoes.granted(key, Remove, Prompt, now);
            }
            version += early;
            echoes.shown(Output::Slice, version, now);
            for key in &granted {
                echoes.answered(key, WriteEffect::Written(version), now);
            }
        }
        assert_eq!(limit(&echoes), if early == 1 { 16 } else { 2 });
    }
}
