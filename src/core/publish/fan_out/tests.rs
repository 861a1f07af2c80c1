use super::super::budget::Watchers;
use super::*;
use crate::core::object::ObjectName;
use crate::core::priority::Priority::{Add, Remove, Rest};

const NOW: Duration = Duration::ZERO;
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn key(output: Output, name: &str) -> Hashed<ObjectKey> {
    let object = ObjectName {
        output,
        ..ObjectName::slice(name.into())
    };
    ObjectKey::hashed("ns", object)
}

fn slice(name: &str) -> Hashed<ObjectKey> {
    key(Output::Slice, name)
}

/// Slices that a hundred watch, for whom there is no budget. Our own watch of ordinary ones is open.
fn fan_out() -> FanOut {
    let mut fan_out = FanOut::new(WatchLimits {
        watchers: Watchers::Fixed(100),
        ..WatchLimits::UNWATCHED
    });
    fan_out.signalled(&Signal::Opened(Output::Slice, Some(0)), NOW);
    fan_out
}

/// Writes an object, which is answered at once.
fn write(fan_out: &mut FanOut, key: &Hashed<ObjectKey>, priority: Priority, version: u64, now: Duration) {
    fan_out.granted(key, priority, Promptness::Prompt, now);
    fan_out.answered(key, WriteEffect::Written(version), now);
}

fn show(fan_out: &mut FanOut, version: u64, at: Duration) {
    let output = Output::Slice;
    fan_out.signalled(&Signal::Shown { output, version, at }, at);
}

/// Returns whether a removal of a slice may go, and whether anything else may.
fn may(fan_out: &mut FanOut, now: Duration) -> (bool, bool) {
    let classes = fan_out.allow(now).classes;
    let some = |of: Classes| classes.and(of) != Classes::NONE;
    (some(Classes::SLICE_REMOVALS), some(Classes::SLICE_OTHERS))
}

/// Reads are granted like writes, and no watcher hears of them.
#[test]
fn reads_did_count_as_writes_beyond_the_places() {
    let mut fan_out = fan_out();
    // While all places are held, this one goes all the same.
    for number in 0..64 {
        write(&mut fan_out, &slice(&number.to_string()), Add, 100 + number, NOW);
    }
    fan_out.take_beyond();
    let key = slice("read");
    let paid = fan_out.granted(&key, Add, Promptness::Prompt, NOW);
    fan_out.built(&key, paid, &Request::Fetch, NOW);
    assert_eq!(fan_out.take_beyond(), [0, 0]);
    let paid = fan_out.granted(&key, Add, Promptness::Prompt, NOW);
    fan_out.built(&key, paid, &Request::Update(Vec::new()), NOW);
    assert_eq!(fan_out.take_beyond(), [1, 0]);
}

#[test]
fn a_slice_that_was_just_written_waits_while_echoes_are_late() {
    let mut fan_out = fan_out();
    let (hot, cold) = (slice("hot"), slice("cold"));
    write(&mut fan_out, &hot, Add, 1, NOW);
    show(&mut fan_out, 1, 10 * MS);
    assert_eq!(
        fan_out.spacing(&hot, Add, 10 * MS),
        NOW,
        "nothing waits while echoes are quick"
    );
    // The echo of this one is awaited.
    write(&mut fan_out, &slice("other"), Add, 2, SECOND);
    let now = SECOND + 300 * MS;
    assert_eq!(
        fan_out.spacing(&hot, Add, now),
        NOW,
        "it was written while they were quick"
    );
    write(&mut fan_out, &hot, Add, 3, now);
    assert_eq!(fan_out.spacing(&cold, Add, now), NOW, "it was not written");
    for (after, times_four, once) in [
        // Four times 300 ms, or once, after the last write.
        (NOW, 1_200 * MS, 300 * MS),
        (100 * MS, 1_500 * MS, 300 * MS),
        // No more than two seconds after it.
        (700 * MS, 1_300 * MS, 300 * MS),
        (1_999 * MS, MS, MS),
        (2_001 * MS, NOW, NOW),
    ] {
        let now = now + after;
        for priority in [Add, Rest] {
            assert_eq!(fan_out.spacing(&hot, priority, now), times_four, "{after:?}");
        }
        assert_eq!(fan_out.spacing(&hot, Remove, now), once, "{after:?}");
    }
    // Once echoes are quick again, and it is written then, it is forgotten.
    show(&mut fan_out, 3, SECOND * 4);
    let now = SECOND * 8;
    assert_eq!(fan_out.spacing(&hot, Add, now), NOW);
    write(&mut fan_out, &hot, Add, 4, now);
    show(&mut fan_out, 4, now + MS);
    assert!(!fan_out.written.contains_key(&hot));
}

#[test]
fn additions_went_beyond_the_places_and_took_that_of_the_next_removal() {
    let mut fan_out = fan_out();
    // The server is behind: two places are left, of which one is for removals.
    let now = SECOND;
    for number in 0..4 {
        write(&mut fan_out, &slice(&number.to_string()), Add, 10 + number, now);
    }
    let now = now + SECOND;
    fan_out.pass(now);
    show(&mut fan_out, 12, now);
    assert_eq!(fan_out.places(Resource::Slices), (2, 1));
    assert_eq!(
        may(&mut fan_out, now),
        (true, true),
        "no removal was there lately"
    );
    write(&mut fan_out, &slice("gone"), Remove, 20, now);
    // Once in two minutes, additions go beyond all the same, to find out whether our own watch alone is late.
    write(&mut fan_out, &slice("probe"), Add, 21, now);
    let now = now + 100 * MS;
    assert_eq!(may(&mut fan_out, now), (true, true));
    let now = now + SECOND / 2;
    show(&mut fan_out, 20, now);
    assert_eq!(may(&mut fan_out, now), (true, false), "it is over");
    let until = fan_out.wake(now).unwrap();
    assert!(until <= now + KEPT, "the writer looks again: {until:?}");
    show(&mut fan_out, 21, now + SECOND);
    write(&mut fan_out, &slice("again"), Add, 22, now + SECOND);
    let now = SECOND * 2 + KEPT;
    assert_eq!(may(&mut fan_out, now.saturating_sub(MS)), (true, false));
    assert_eq!(
        may(&mut fan_out, now),
        (true, true),
        "the last removal is long ago"
    );
}

/// It takes no place, and goes at a rate of its own.
#[test]
fn a_closed_watch_of_mirrored_slices_slowed_ordinary_slices_down_where_there_is_no_budget() {
    let mut fan_out = fan_out();
    fan_out.signalled(&Signal::Opened(Output::Mirrored, Some(0)), NOW);
    fan_out.signalled(&Signal::Opened(Output::Mirrored, None), NOW);
    let mut ordinary = 0;
    for millis in 0..1_000 {
        let now = SECOND + MS * millis;
        if may(&mut fan_out, now).1 {
            ordinary += 1;
            write(&mut fan_out, &slice("a"), Add, ordinary, now);
            show(&mut fan_out, ordinary, now);
        }
    }
    assert_eq!(ordinary, 1_000);
    let mut mirrored = 0;
    for millis in 0..10_000 {
        let now = SECOND * 3 + MS * millis;
        if may(&mut fan_out, now).1 {
            mirrored += 1;
            let key = key(Output::Mirrored, "m");
            write(&mut fan_out, &key, Add, 10_000 + mirrored, now);
        }
    }
    assert!((180..=201).contains(&mirrored), "{mirrored}");
}
