//! Watches that end soon after they began.

use super::*;

/// Serves a view for ten minutes with a server of which each watch shows something and ends in some way. `present` is the
/// version at a time, and `shows` the one that a watch from a version comes to. Returns the numbers of lists, watches and
/// readings, and the greatest age of something that was not known.
fn served(end: End, present: impl Fn(Duration) -> u64, shows: impl Fn(u64, Duration) -> u64) -> [u64; 4] {
    let (mut view, mut now) = (ListWatch::new(Demand::of(0)), at(0));
    let [mut lists, mut watches, mut readings, mut age] = [0; 4];
    let mut watching = false;
    // The versions of the last seconds.
    let mut past: Vec<(Duration, u64)> = Vec::new();
    while now < at(600_000) {
        let Some(action) = view.act(now) else {
            let reached = view.reached().unwrap_or_default();
            past.push((now, present(now)));
            past.retain(|(_, version)| *version > reached);
            let oldest = past.first().map_or(now, |(since, _)| *since);
            age = age.max(now.saturating_sub(oldest).as_secs());
            if std::mem::take(&mut watching) {
                now += at(10);
                view.ended(end, now, 0.5);
            } else {
                now = view.wake().expect("no watch goes on");
            }
            continue;
        };
        match action {
            Action::List => {
                lists += 1;
                view.listed(present(now), MANY, now, 0.5);
            }
            Action::ReadVersion => {
                readings += 1;
                view.version_read(Ok(present(now)), now, 0.5);
            }
            Action::Watch { from, .. } => {
                watches += 1;
                view.shown(shows(from, now));
                watching = true;
            }
            Action::Prove(_) | Action::Rewound { .. } => {}
        }
    }
    [lists, watches, readings, age]
}

#[test]
fn watches_that_show_one_event_and_end_are_no_tight_loop_and_nothing_stays_unknown() {
    let busy = |now: Duration| 100 + now.as_millis() as u64;
    // A server that always has one bookmark more.
    for end in [End::Orderly, End::Broken] {
        let [lists, watches, readings, age] = served(end, busy, |_, now| busy(now));
        assert!(
            lists <= 25 && watches <= 450 && readings <= 450,
            "{end:?}: {lists} lists, {watches} watches, {readings} readings"
        );
        assert!(age <= 2, "{age} s behind");
    }
    // A proxy that ends each watch after its first event, where there are a thousand a second.
    let [lists, watches, _, age] = served(End::Orderly, busy, |from, _| from + 1);
    assert!(lists <= 25 && watches <= 450, "{lists} lists, {watches} watches");
    assert!(age <= 45, "{age} s behind");
    // The same, with an event every three seconds: all of them are seen soon, and nothing is listed again.
    let quiet = |now: Duration| 100 + now.as_secs() / 3;
    let [lists, .., age] = served(End::Orderly, quiet, |from, now| (from + 1).min(quiet(now)));
    assert!(age <= 5, "{age} s behind");
    assert!(lists <= 2, "{lists} lists");
}

#[test]
fn changes_stayed_unknown_until_ten_watches_that_ended_at_once_had_failed() {
    let busy = |now: Duration| 100 + now.as_millis() as u64;
    for end in [End::Orderly, End::Broken] {
        let [lists, watches, readings, age] = served(end, busy, |from, _| from);
        assert!(age <= 31, "{end:?}: {age} s behind");
        assert!(
            lists <= 40 && watches <= 120 && readings <= 120,
            "{end:?}: {lists} lists, {watches} watches, {readings} readings"
        );
    }
    // Where nothing is missing, nothing is listed again.
    let [lists, .., age] = served(End::Orderly, |_| 100, |from, _| from);
    assert_eq!((lists, age), (1, 0));
    // The first change is seen soon.
    for (end, lists) in [
        (End::Orderly, true),
        (End::Broken, true),
        (End::Busy(at(100)), false),
    ] {
        let (mut view, mut now, mut actions) = (watching(), at(0), Vec::new());
        for _ in 0..3 {
            view.ended(end, now, 1.0);
            now = view.wake().unwrap();
            actions = act(&mut view, now);
            view.version_read(Ok(11), now, 1.0);
            actions.extend(act(&mut view, now));
        }
        assert_eq!(actions.contains(&Action::List), lists, "{end:?}: {actions:?}");
        assert!(now <= at(1_500), "{now:?}");
    }
}

#[test]
fn a_server_that_forgets_its_history_after_one_event_is_listed_with_pauses() {
    let busy = |now: Duration| 100 + now.as_millis() as u64;
    let [lists, watches, ..] = served(End::Expired, busy, |_, now| busy(now));
    assert!(lists <= 40 && watches <= 40, "{lists} lists, {watches} watches");
}

#[test]
fn a_watch_that_has_lasted_is_resumed_at_once() {
    let mut view = watching();
    let mut now = at(0);
    for version in 11..40 {
        now += at(5_001);
        view.shown(version);
        view.ended(End::Orderly, now, 0.5);
        let watch = Action::Watch {
            from: version,
            short: false,
        };
        assert_eq!(act(&mut view, now), [watch, Action::ReadVersion]);
        view.version_read(Ok(version), now, 0.5);
    }
}
