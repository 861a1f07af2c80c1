mod beyond;
mod streams;

use super::lateness::Lateness;
use super::*;
use crate::core::object::ObjectName;
use crate::core::priority::Priority::{Add, Remove};
use crate::core::publish::promptness::Promptness::Prompt;

const NOW: Duration = Duration::ZERO;
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn key(number: u64) -> Hashed<ObjectKey> {
    ObjectKey::hashed("ns", ObjectName::slice(format!("s{number}").as_str().into()))
}

/// Places of slices, whose watch is open, on a server that others watch.
fn echoes() -> Echoes {
    let mut echoes = Echoes::default();
    echoes.set_most_places(Some(16));
    echoes.opened(Output::Slice, Some(0), Duration::ZERO);
    echoes
}

fn held(echoes: &Echoes) -> usize {
    echoes.places(Resource::Slices).1
}

fn limit(echoes: &Echoes) -> usize {
    echoes.places(Resource::Slices).0
}

#[test]
fn a_place_is_held_from_the_grant_to_the_echo() {
    let mut echoes = echoes();
    echoes.granted(&key(1), Add, Prompt, NOW);
    assert_eq!(held(&echoes), 1);
    echoes.answered(&key(1), WriteEffect::Written(10), MS);
    assert_eq!(held(&echoes), 1);
    echoes.shown(Output::Slice, 9, 2 * MS);
    assert_eq!(held(&echoes), 1);
    echoes.shown(Output::Slice, 11, 5 * MS);
    assert_eq!(held(&echoes), 0, "a later event proves it");
    assert_eq!(echoes.take_heard().collect::<Vec<_>>(), [(Output::Slice, 4 * MS)]);
}

#[test]
fn echoes_of_all_that_is_written_of_a_resource_count_or_none_do() {
    let mut echoes = Echoes::default();
    assert!(!echoes.counts(Resource::Slices), "no watch was open yet");
    echoes.opened(Output::Mirrored, Some(0), NOW);
    assert!(
        echoes.counts(Resource::Slices),
        "only mirrored slices are written"
    );
    assert!(!echoes.counts(Resource::Endpoints));
    echoes.opened(Output::Slice, Some(0), NOW);
    assert!(echoes.counts(Resource::Slices));
    // A write of a mirrored slice needs no place now.
    echoes.opened(Output::Mirrored, None, NOW);
    assert!(!echoes.counts(Resource::Slices));
    echoes.opened(Output::Mirrored, Some(0), NOW);
    echoes.opened(Output::Slice, None, NOW);
    assert!(!echoes.counts(Resource::Slices));
}

#[test]
fn an_echo_may_come_first_twice_or_for_a_write_that_changed_nothing() {
    let mut echoes = echoes();
    echoes.granted(&key(1), Add, Prompt, NOW);
    echoes.shown(Output::Slice, 10, MS);
    echoes.answered(&key(1), WriteEffect::Written(10), 2 * MS);
    assert_eq!(held(&echoes), 0, "it came before the answer");
    echoes.shown(Output::Slice, 10, 3 * MS);
    echoes.granted(&key(1), Add, Prompt, NOW);
    echoes.answered(&key(1), WriteEffect::Written(10), 4 * MS);
    assert_eq!(held(&echoes), 0, "the version is the one before");
    for effect in [WriteEffect::Nothing, WriteEffect::Written(7)] {
        echoes.granted(&key(2), Add, Prompt, NOW);
        echoes.answered(&key(2), effect, 4 * MS);
        assert_eq!(held(&echoes), 0);
    }
    // Answers that are not awaited, as from a term before.
    echoes.answered(&key(3), WriteEffect::Written(99), 5 * MS);
    assert_eq!(held(&echoes), 0);
}

#[test]
fn an_object_that_is_written_twice_holds_two_places() {
    let mut echoes = echoes();
    for version in [10, 11] {
        echoes.granted(&key(1), Add, Prompt, NOW);
        echoes.answered(&key(1), WriteEffect::Written(version), MS);
    }
    assert_eq!(held(&echoes), 2);
    echoes.shown(Output::Slice, 10, 2 * MS);
    assert_eq!(held(&echoes), 1);
    echoes.shown(Output::Slice, 11, 2 * MS);
    assert_eq!(held(&echoes), 0);
}

#[test]
fn a_delete_whose_event_was_missed_held_its_place_though_the_watch_had_passed_its_version() {
    let mut echoes = echoes();
    echoes.granted(&key(1), Remove, Prompt, NOW);
    echoes.answered(&key(1), WriteEffect::Deleted(Some(20)), MS);
    echoes.shown(Output::Slice, 19, 2 * MS);
    assert_eq!(held(&echoes), 1);
    echoes.shown(Output::Slice, 25, 300 * MS);
    assert_eq!(held(&echoes), 0, "what comes after it shows that it was shown");
    let before = limit(&echoes);
    echoes.granted(&key(2), Remove, Prompt, SECOND);
    echoes.answered(&key(2), WriteEffect::Deleted(Some(24)), SECOND);
    assert_eq!(held(&echoes), 0, "the watch was there before the answer");
    assert_eq!(
        (limit(&echoes), echoes.take_heard().count()),
        (before, 0),
        "the version may be that of a later look, so it tells nothing of how late events are"
    );
    echoes.granted(&key(3), Remove, Prompt, SECOND);
    echoes.answered(&key(3), WriteEffect::Deleted(Some(30)), SECOND);
    echoes.deleted(&key(3), SECOND + 4 * MS);
    assert_eq!(echoes.take_heard().collect::<Vec<_>>(), [(Output::Slice, 4 * MS)]);
    echoes.granted(&key(4), Remove, Prompt, SECOND);
    echoes.answered(&key(4), WriteEffect::Deleted(Some(99)), SECOND);
    echoes.pass(SECOND + BOUND);
    assert_eq!(
        held(&echoes),
        0,
        "a quiet watch may not reach that version for a minute"
    );
}

#[test]
fn a_delete_is_proven_by_its_event_by_a_later_write_or_by_the_bound() {
    let mut echoes = echoes();
    let delete = |echoes: &mut Echoes, name: u64| {
        echoes.granted(&key(name), Remove, Prompt, NOW);
        echoes.answered(&key(name), WriteEffect::Deleted(None), MS);
    };
    delete(&mut echoes, 1);
    echoes.shown(Output::Slice, 50, 2 * MS);
    assert_eq!(held(&echoes), 1, "that may be an earlier event");
    echoes.deleted(&key(1), 2 * MS);
    assert_eq!(held(&echoes), 0);

    echoes.granted(&key(1), Remove, Prompt, NOW);
    echoes.deleted(&key(1), 2 * MS);
    echoes.answered(&key(1), WriteEffect::Deleted(None), 3 * MS);
    assert_eq!(held(&echoes), 0, "the event came before the answer");

    // This one is sent before the delete is answered, and proves nothing.
    echoes.granted(&key(3), Add, Prompt, NOW);
    delete(&mut echoes, 2);
    echoes.answered(&key(3), WriteEffect::Written(60), MS);
    echoes.shown(Output::Slice, 60, 2 * MS);
    assert_eq!(held(&echoes), 1);
    echoes.granted(&key(3), Add, Prompt, NOW);
    echoes.answered(&key(3), WriteEffect::Written(61), MS);
    echoes.shown(Output::Slice, 61, 2 * MS);
    assert_eq!(held(&echoes), 0);

    for (effect, bound) in [
        (WriteEffect::Deleted(None), BOUND),
        (WriteEffect::Unknown, BOUND_OF_UNKNOWN),
    ] {
        echoes.granted(&key(4), Remove, Prompt, NOW);
        echoes.answered(&key(4), effect, 3 * MS);
        echoes.pass(bound);
        assert_eq!(held(&echoes), 1);
        assert!(echoes.wake(bound).unwrap() >= bound);
        echoes.pass(bound + 3 * MS);
        assert_eq!(held(&echoes), 0);
    }
    assert_eq!(limit(&echoes), 5, "that says nothing of how late the server is");
}

#[test]
fn half_of_the_places_are_kept_for_removals() {
    let mut echoes = echoes();
    let mut removals = 0;
    let mut others = 0;
    while echoes.allow(Resource::Slices).1 {
        others += 1;
        echoes.granted(&key(others), Add, Prompt, NOW);
    }
    while echoes.allow(Resource::Slices).0 {
        removals += 1;
        echoes.granted(&key(100 + removals), Remove, Prompt, NOW);
    }
    assert_eq!((others, removals), (2, 3));
    // Removals without end leave others theirs as soon as one of them is gone.
    let mut echoes = self::echoes();
    for name in 0..5 {
        assert_eq!(echoes.allow(Resource::Slices), (true, true));
        echoes.granted(&key(name), Remove, Prompt, NOW);
    }
    assert_eq!(echoes.allow(Resource::Slices), (false, false));
    echoes.answered(&key(0), WriteEffect::Nothing, MS);
    assert_eq!(echoes.allow(Resource::Slices), (true, true));
    // Endpoints have places of their own.
    assert_eq!(echoes.allow(Resource::Endpoints), (true, true));
}

/// Writes as much as may be written, each echo `delay` after its answer, for a number of rounds.
fn rounds(echoes: &mut Echoes, from: &mut Duration, delay: Duration, rounds: usize) {
    let mut version = u64::try_from(from.as_nanos()).unwrap();
    for _ in 0..rounds {
        let mut written = 0;
        while echoes.allow(Resource::Slices).0 {
            written += 1;
            echoes.granted(&key(written), Remove, Prompt, NOW);
            echoes.answered(&key(written), WriteEffect::Written(version + written), *from);
        }
        version += written;
        *from += delay;
        echoes.pass(*from);
        echoes.shown(Output::Slice, version, *from);
    }
}

#[test]
fn places_grow_while_echoes_are_quick_and_are_halved_when_they_are_late() {
    let (mut echoes, mut now) = (echoes(), MS);
    rounds(&mut echoes, &mut now, 10 * MS, 10);
    assert_eq!(limit(&echoes), 16, "no more than a watcher has room for");
    rounds(&mut echoes, &mut now, 150 * MS, 10);
    assert_eq!(limit(&echoes), 16, "neither quick nor late");
    rounds(&mut echoes, &mut now, 300 * MS, 1);
    assert_eq!(
        limit(&echoes),
        8,
        "all of them were sent before: one half, not one for each"
    );
    rounds(&mut echoes, &mut now, SECOND, 10);
    assert_eq!(limit(&echoes), 2);
    assert!(echoes.usual(Resource::Slices, now) > SECOND / 2);
    rounds(&mut echoes, &mut now, 10 * MS, 5);
    assert!(
        (4..=9).contains(&limit(&echoes)),
        "one a round: {}",
        limit(&echoes)
    );
    rounds(&mut echoes, &mut now, 10 * MS, 30);
    assert_eq!(limit(&echoes), 16);
}

#[test]
fn late_echoes_take_no_places_away_without_other_watchers() {
    let (mut echoes, mut now) = (echoes(), MS);
    echoes.set_most_places(None);
    assert_eq!(limit(&echoes), 256);
    rounds(&mut echoes, &mut now, SECOND, 10);
    assert_eq!(limit(&echoes), 256, "only our own watch is late");
    echoes.set_most_places(Some(16));
    assert_eq!(
        limit(&echoes),
        2,
        "others are there now, and the server is behind"
    );
}

#[test]
fn an_echo_that_has_not_come_is_late_all_the_same() {
    let mut echoes = echoes();
    echoes.granted(&key(1), Add, Prompt, NOW);
    echoes.answered(&key(1), WriteEffect::Written(10), SECOND);
    let wake = echoes.wake(SECOND).unwrap();
    assert!(wake > SECOND + LATE && wake < SECOND + LATE + MS);
    echoes.pass(wake);
    assert_eq!((limit(&echoes), held(&echoes)), (2, 1));
}

#[test]
fn few_writes_prove_nothing_about_more() {
    let (mut echoes, mut now) = (echoes(), MS);
    for version in 1..100 {
        echoes.granted(&key(1), Add, Prompt, NOW);
        echoes.answered(&key(1), WriteEffect::Written(version), now);
        now += MS;
        echoes.shown(Output::Slice, version, now);
    }
    assert_eq!(limit(&echoes), 5);
}

#[test]
fn pauses_of_this_process_are_not_taken_for_the_servers() {
    let mut echoes = echoes();
    echoes.granted(&key(1), Add, Prompt, NOW);
    echoes.answered(&key(1), WriteEffect::Written(10), SECOND);
    echoes.stalled(SECOND + LATE, SECOND * 10);
    echoes.pass(SECOND * 10);
    echoes.shown(Output::Slice, 10, SECOND * 10);
    assert_eq!(echoes.take_heard().collect::<Vec<_>>(), [(Output::Slice, LATE)]);
    assert_eq!((limit(&echoes), held(&echoes)), (5, 0));
}

#[test]
fn only_the_last_pause_of_this_process_was_known() {
    let mut echoes = echoes();
    echoes.granted(&key(1), Add, Prompt, NOW);
    echoes.answered(&key(1), WriteEffect::Written(10), SECOND);
    for second in 1..10 {
        // Each one is seen twice: before the timer's message, and with it.
        let from = SECOND * second + 20 * MS;
        echoes.stalled(from, SECOND * second + 900 * MS);
        echoes.stalled(from, SECOND * (second + 1));
        echoes.pass(SECOND * (second + 1));
    }
    assert_eq!((limit(&echoes), held(&echoes)), (5, 1));
    assert_eq!(
        echoes.beyond(Resource::Slices, SECOND * 10),
        Ok(Beyond::Late),
        "one is awaited"
    );
    echoes.shown(Output::Slice, 10, SECOND * 10);
    assert_eq!(
        echoes.take_heard().collect::<Vec<_>>(),
        [(Output::Slice, 9 * 20 * MS)]
    );
}

#[test]
fn a_pause_went_unnoticed_while_nothing_waited_to_be_written() {
    let mut echoes = echoes();
    assert_eq!(echoes.due(SECOND), None, "nothing is awaited");
    echoes.granted(&key(1), Add, Prompt, SECOND);
    assert!(echoes.due(SECOND) <= Some(SECOND + LATE));
    echoes.answered(&key(1), WriteEffect::Written(10), SECOND);
    let mut now = SECOND;
    // Also once it is late, so that a pause that begins then is noticed as well.
    for _ in 0..20 {
        let due = echoes.due(now).unwrap();
        assert!(due > now && due <= now + LATE, "{due:?}");
        now = due;
        echoes.pass(now);
    }
    echoes.shown(Output::Slice, 10, now);
    assert_eq!(echoes.due(now), None);
}

#[test]
fn a_watch_that_is_not_open_or_silent_counts_nothing() {
    let mut echoes = echoes();
    for name in 0..3 {
        echoes.granted(&key(name), Add, Prompt, NOW);
    }
    echoes.answered(&key(0), WriteEffect::Written(10), MS);
    echoes.answered(&key(1), WriteEffect::Deleted(None), MS);
    assert_eq!(held(&echoes), 3);
    echoes.opened(Output::Slice, None, 2 * MS);
    assert_eq!((held(&echoes), echoes.counts(Resource::Slices)), (0, false));
    echoes.granted(&key(4), Add, Prompt, NOW);
    echoes.answered(&key(2), WriteEffect::Written(11), 3 * MS);
    assert_eq!(held(&echoes), 0);
    echoes.opened(Output::Slice, Some(0), 4 * MS);
    echoes.answered(&key(4), WriteEffect::Written(12), 5 * MS);
    assert_eq!(held(&echoes), 0, "it was granted while nothing counted");

    echoes.granted(&key(5), Add, Prompt, NOW);
    echoes.answered(&key(5), WriteEffect::Written(20), SECOND);
    echoes.pass(SECOND + SILENT);
    assert!(echoes.counts(Resource::Slices));
    echoes.pass(SECOND + SILENT + MS);
    assert_eq!((held(&echoes), echoes.counts(Resource::Slices)), (0, false));
    echoes.shown(Output::Slice, 15, SECOND * 20);
    assert!(echoes.counts(Resource::Slices), "it moves again");

    // A watch that moves is late, and a write that it never shows is given up.
    echoes.granted(&key(6), Add, Prompt, NOW);
    echoes.answered(&key(6), WriteEffect::Written(100), SECOND * 20);
    for second in 21..85 {
        echoes.shown(Output::Slice, second, SECOND * second as u32);
        echoes.pass(SECOND * second as u32);
    }
    assert_eq!((held(&echoes), limit(&echoes)), (0, 2));
}

#[test]
fn no_place_is_lost_whatever_happens() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..300 {
        let (mut echoes, mut now, mut version) = (echoes(), MS, 1);
        let mut flying: Vec<Hashed<ObjectKey>> = Vec::new();
        for _ in 0..300 {
            now += MS * random.u32(0..200);
            match random.u32(0..10) {
                0..4 => {
                    let key = key(random.u64(0..40));
                    let priority = if random.bool() { Remove } else { Add };
                    let (removals, others) = echoes.allow(Resource::Slices);
                    let may = if priority == Remove { removals } else { others };
                    if may && !flying.contains(&key) {
                        echoes.granted(&key, priority, Prompt, NOW);
                        flying.push(key);
                    }
                }
                4..7 if !flying.is_empty() => {
                    let key = flying.swap_remove(random.usize(..flying.len()));
                    version += 1;
                    let effects = [
                        WriteEffect::Written(version),
                        WriteEffect::Written(version - 1),
                        WriteEffect::Deleted(None),
                        WriteEffect::Deleted(Some(version)),
                        WriteEffect::Unknown,
                        WriteEffect::Nothing,
                    ];
                    echoes.answered(&key, effects[random.usize(..effects.len())], now);
                }
                7 => echoes.shown(Output::Slice, random.u64(0..=version), now),
                8 => echoes.deleted(&key(random.u64(0..40)), now),
                9 if random.u32(0..20) == 0 => {
                    echoes.opened(Output::Slice, random.bool().then_some(version), now);
                }
                _ => {}
            }
            echoes.pass(now);
            let (places, held) = echoes.places(Resource::Slices);
            assert!((2..=16).contains(&places) && held <= 16, "{held} of {places}");
        }
        for key in flying.drain(..) {
            echoes.answered(&key, WriteEffect::Unknown, now);
        }
        echoes.shown(Output::Slice, version, now);
        echoes.pass(now + BOUND);
        assert_eq!(held(&echoes), 0);
        assert!(echoes.granted.is_empty() && echoes.wake(now).is_none());
    }
}

#[test]
fn requests_that_are_not_answered_give_their_places_up_and_say_nothing_of_the_server() {
    let mut echoes = echoes();
    let mut number = 0;
    while echoes.allow(Resource::Slices).1 {
        number += 1;
        echoes.granted(&key(number), Add, Prompt, MS);
    }
    assert!(echoes.wake(MS).unwrap() <= MS + BOUND_OF_FLIGHT + MS);
    echoes.pass(MS + BOUND_OF_FLIGHT);
    assert_eq!((held(&echoes), limit(&echoes)), (0, 5));
    assert_eq!(echoes.allow(Resource::Slices), (true, true));
    // When one is answered after all, its event is waited for.
    echoes.answered(&key(1), WriteEffect::Written(10), SECOND * 3);
    assert_eq!(held(&echoes), 1);
    echoes.shown(Output::Slice, 10, SECOND * 3);
    echoes.answered(&key(2), WriteEffect::Unknown, SECOND * 3);
    echoes.pass(SECOND * 4);
    assert!(held(&echoes) == 0 && limit(&echoes) >= 5);
}

#[test]
fn only_echoes_that_do_not_get_later_let_more_be_awaited() {
    // A delay of our own watch: the same however much is awaited.
    let (mut lateness, mut now) = (Lateness::default(), NOW);
    for _ in 0..10 {
        let (since, among) = (now, lateness.most());
        now += SECOND * 2;
        lateness.came(since, among, SECOND * 2, now);
    }
    assert_eq!(lateness.most(), 40);
    // One that was not among as many proves nothing.
    let mut lateness = Lateness::default();
    for _ in 0..100 {
        let since = now;
        now += SECOND * 2;
        lateness.came(since, 1, SECOND * 2, now);
    }
    assert_eq!(lateness.most(), 5);
    // A server that takes 100 ms for an event: each one that is awaited makes the next one later.
    let mut lateness = Lateness::default();
    for round in 0..500 {
        let (since, among) = (now, lateness.most());
        for place in 1..=among as u32 {
            lateness.came(since, place as usize, MS * 100 * place, since + MS * 100 * place);
        }
        now += MS * 100 * among as u32;
        assert!(lateness.most() <= 5, "{round}: {}", lateness.most());
    }
    // A watch that is not late needs no more than that.
    lateness.came(now, 40, MS, now + MS);
    assert_eq!(lateness.most(), 5);
}
