//! Namespaces with huge slices, beside others.

use super::*;
use std::collections::BTreeMap;
use std::ops::Range;

/// The result of a time in which namespaces always have a change of huge slices, 50 in all, and another one of a
/// slice of 13 KB. The budget is 78 MB a second: half of what is allowed, since no watch of ours is open.
struct Played {
    /// Megabytes to watchers of huge slices, and of all.
    huge: f64,
    all: f64,
    /// Writes of the small slice, and the longest time between two.
    writes: u32,
    longest: Duration,
    /// The longest time between two writes of a huge slice.
    huge_longest: Duration,
}

/// Returns a publisher for 300 watchers, each of which may receive 520 KB a second.
fn watched_by_300() -> Publisher {
    let watch = WatchLimits {
        watchers: Watchers::Fixed(300),
        total: 0.0,
        each: 520_000.0,
        ..WatchLimits::UNWATCHED
    };
    let pacing = Pacing {
        watch,
        ..Pacing::unlimited(64)
    };
    Publisher::new(pacing, 0)
}

fn minute_with_huge_slices(namespaces: usize, bytes: usize, priority: Priority) -> Played {
    with_huge_slices(namespaces, bytes, priority, NOW..SECOND * 60)
}

/// Counts what is written in a part of the time, which goes on until its end.
fn with_huge_slices(namespaces: usize, bytes: usize, priority: Priority, counted: Range<Duration>) -> Played {
    let mut publisher = watched_by_300();
    let name = |number: usize| key(&format!("huge{}", number % namespaces), &format!("h{number}"));
    let huge: Vec<_> = (0..50).map(name).collect();
    let want = |key: &ObjectKey| WorkItem {
        priority,
        ..want(key, Retry::Now)
    };
    for key in &huge {
        publisher.wanted(key, &want(key), NOW);
    }
    let (small, mut since, mut huge_since) = (key("small", "s"), NOW, NOW);
    let mut now = NOW;
    let mut played = Played {
        huge: 0.0,
        all: 0.0,
        writes: 0,
        longest: NOW,
        huge_longest: NOW,
    };
    publisher.wanted(&small, &want(&small), now);
    while now < counted.end {
        match publisher.next(now) {
            Next::Grant { key, .. } => {
                let size = if key == small { 13_000 } else { bytes };
                let built = BuiltRequest {
                    request: Request::Update(vec![0; size]),
                    changes: 1,
                };
                let reported = Reported {
                    reply: Some(Reply::Built(built)),
                    wanted: None,
                };
                assert!(matches!(
                    publisher.reported(&key, reported, now),
                    Replied::Send(_)
                ));
                let landing = Landing {
                    effect: WriteEffect::Written(1),
                    ..landing(Load::Answered, MS)
                };
                publisher.answered(&key, landing, now);
                let mut megabytes = 300.0 * size as f64 / 1e6;
                if now < counted.start {
                    megabytes = 0.0;
                }
                played.all += megabytes;
                if key == small {
                    played.longest = played.longest.max(now.saturating_sub(since));
                    since = now;
                    played.writes += 1;
                } else {
                    played.huge_longest = played.huge_longest.max(now.saturating_sub(huge_since));
                    huge_since = now;
                    played.huge += megabytes;
                }
                publisher.wanted(&key, &want(&key), now);
            }
            Next::Wait { until, .. } => now = until.unwrap_or(now + MS).max(now + MS),
        }
    }
    played
}

#[test]
fn a_namespace_with_huge_slices_does_not_use_up_what_may_be_sent_for_others() {
    for priority in [Priority::Add, Priority::Remove] {
        let minute = minute_with_huge_slices(1, 1_200_000, priority);
        // A quarter of a minute's budget, what is counted as usual, and two writes besides.
        assert!(
            (78.0 * 14.0..78.0 * 16.0 + 3.0 * 360.0).contains(&minute.huge),
            "{priority:?}: {}",
            minute.huge
        );
        let Played { longest, writes, .. } = minute;
        assert!(
            longest < SECOND && writes > 800,
            "{priority:?}: {longest:?}, {writes}"
        );
    }
}

#[test]
fn namespaces_with_huge_slices_each_had_a_budget_of_their_own() {
    for priority in [Priority::Add, Priority::Remove] {
        for (namespaces, bytes) in [(8, 200_000), (25, 200_000), (8, 600_000), (50, 1_200_000)] {
            let minute = minute_with_huge_slices(namespaces, bytes, priority);
            let what = format!("{priority:?} {namespaces} {bytes}: {} MB", minute.all);
            // A minute's budget, and one write of each before anything is known of its size. A removal goes once more.
            let first = namespaces as f64 * 300.0 * bytes as f64 / 1e6;
            let times = if priority == Priority::Remove { 2.0 } else { 1.0 };
            assert!(minute.all < 78.0 * 62.0 + first * times, "{what}");
            let Played { longest, writes, .. } = minute;
            // The longest time is that of those first writes, and of a part of what they cost.
            let (bound, least) = if priority == Priority::Remove {
                (SECOND * 40, 100)
            } else {
                (SECOND * 25, 500)
            };
            assert!(longest < bound && writes > least, "{what}, {longest:?}, {writes}");
        }
    }
}

/// Each of them once a minute was more than the budget, for ever.
#[test]
fn many_namespaces_with_huge_slices_used_up_more_than_the_budget_for_ever() {
    for priority in [Priority::Add, Priority::Remove] {
        let seconds = 1_920;
        let counted = SECOND * 1_000..SECOND * (1_000 + seconds);
        let played = with_huge_slices(50, 1_200_000, priority, counted);
        // All of them wait for as long, so all of them may write just before the end.
        let last = 50.0 * 300.0 * 1.2;
        let most = 78.0 * f64::from(seconds) + last;
        assert!(played.all < most, "{priority:?}: {} of {most} MB", played.all);
    }
}

#[test]
fn removals_of_huge_slices_have_a_bound() {
    // Alone, ten seconds and more for each; with fifty, each of them after a minute at the latest.
    let minute = minute_with_huge_slices(1, 1_200_000, Priority::Remove);
    assert!(minute.huge_longest < SECOND * 45, "{:?}", minute.huge_longest);
}

/// Twenty namespaces have a removal each second, beside some that always have one of a huge slice.
#[test]
fn removals_of_a_namespace_that_owed_delayed_those_of_all_others() {
    for hostile in [1, 10] {
        let mut publisher = watched_by_300();
        publisher.signalled(&Signal::Opened(Output::Slice, Some(0)), NOW);
        let remove = |key: &ObjectKey| WorkItem {
            priority: Priority::Remove,
            ..want(key, Retry::Now)
        };
        let (mut now, mut wanted, mut version) = (NOW, BTreeMap::new(), 0);
        let (mut late, mut sent) = (Vec::new(), 0);
        for number in 0..hostile {
            let key = key(&format!("huge{number}"), "h");
            publisher.wanted(&key, &remove(&key), NOW);
        }
        while now < SECOND * 60 {
            for number in 0..20 {
                // Spread over the second.
                if now.as_millis() % 1_000 == number * 50 {
                    let key = key(&format!("small{number}"), "s");
                    publisher.wanted(&key, &remove(&key), now);
                    wanted.entry(key).or_insert(now);
                }
            }
            while let Some(key) = granted(&mut publisher, now) {
                let is_huge = key.namespace.starts_with("huge");
                let size = if is_huge { 1_200_000 } else { 13_000 };
                sent += size;
                let request = Request::Update(vec![0; size]);
                publisher.replied(&key, Reply::Built(BuiltRequest { request, changes: 1 }), now);
                version += 1;
                let landing = Landing {
                    effect: WriteEffect::Written(version),
                    ..landing(Load::Answered, MS)
                };
                publisher.answered(&key, landing, now);
                publisher.replied(&key, Reply::Settled, now);
                let output = Output::Slice;
                publisher.signalled(
                    &Signal::Shown {
                        output,
                        version,
                        at: now,
                    },
                    now,
                );
                if is_huge {
                    publisher.wanted(&key, &remove(&key), now);
                } else if let Some(since) = wanted.remove(&key) {
                    late.push(now.saturating_sub(since));
                }
            }
            now += MS * 10;
        }
        late.sort_unstable();
        let (number, p99) = (late.len(), late[late.len() * 99 / 100]);
        assert!(number > 1_150, "{hostile}: {number} of 1,200 were written");
        assert!(p99 < SECOND * 2, "{hostile}: {p99:?}");
        // Each of the huge ones goes twice before it has to wait.
        let most = 520_000 * 60 + hostile * 2 * 1_200_000;
        assert!(sent < most, "{hostile}: {sent} bytes of {most}");
    }
}

#[test]
fn a_huge_write_that_is_refused_does_not_make_its_namespace_wait() {
    let mut publisher = watched_by_300();
    let (first, second) = (key("huge", "a"), key("huge", "b"));
    for effect in [WriteEffect::Nothing, WriteEffect::Written(1)] {
        publisher.wanted(&first, &want(&first, Retry::Now), NOW);
        assert_eq!(granted(&mut publisher, NOW), Some(first.clone()));
        let request = Request::Update(vec![0; 1_200_000]);
        let built = Reply::Built(BuiltRequest { request, changes: 1 });
        publisher.replied(&first, built, NOW);
        publisher.wanted(&second, &want(&second, Retry::Now), NOW);
        assert_eq!(granted(&mut publisher, NOW), None, "it is not answered yet");
        let landing = Landing {
            effect,
            ..landing(Load::Declined, MS)
        };
        publisher.answered(&first, landing, NOW);
        publisher.replied(&first, Reply::Settled, NOW);
        let now = granted(&mut publisher, NOW);
        assert_eq!(now.is_some(), effect == WriteEffect::Nothing, "{effect:?}");
        if now.is_some() {
            publisher.nothing(&second, NOW);
        }
    }
    // It goes when that is paid, and a removal goes at once.
    let Next::Wait {
        until: Some(until), ..
    } = publisher.next(NOW)
    else {
        panic!("it waits");
    };
    assert!((SECOND..SECOND * 12).contains(&until), "{until:?}");
    let urgent = WorkItem {
        priority: Priority::Remove,
        ..want(&first, Retry::Now)
    };
    publisher.wanted(&first, &urgent, NOW);
    assert_eq!(granted(&mut publisher, NOW), Some(first));
    assert_eq!(granted(&mut publisher, NOW), None);
    // Somewhat later than it seemed, since that removal used some of what is left over for what is owed.
    assert_eq!(granted(&mut publisher, until + SECOND / 2), Some(second));
}
