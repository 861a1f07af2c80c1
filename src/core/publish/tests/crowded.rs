//! Places for writes without an echo while requests hang: what is left of them to prompt namespaces.

use super::*;

fn remove(publisher: &mut Publisher, key: &Hashed<ObjectKey>, now: Duration) {
    let item = WorkItem {
        priority: Priority::Remove,
        ..want(key, Retry::Now)
    };
    publisher.wanted(key, &item, now);
}

/// Grants what may go, and returns how many that is, and the limit that holds back the rest. With a version, each write is answered
/// at once, and its event does not come.
fn grant_all(publisher: &mut Publisher, mut version: Option<u64>, now: Duration) -> (usize, Option<Limit>) {
    let mut granted = 0;
    loop {
        let key = match publisher.next(now) {
            Next::Grant { key, .. } => key,
            Next::Wait { limited, .. } => return (granted, limited),
        };
        granted += 1;
        let built = BuiltRequest {
            request: Request::Update(vec![0; 100]),
            changes: 1,
        };
        publisher.replied(&key, Reply::Built(built), now);
        if let Some(version) = &mut version {
            *version += 1;
            written(publisher, &key, *version, now);
        }
    }
}

fn written(publisher: &mut Publisher, key: &Hashed<ObjectKey>, version: u64, now: Duration) {
    let landing = Landing {
        load: Load::Answered,
        effect: WriteEffect::Written(version),
        took: MS,
        pause: None,
        has_shard: true,
    };
    publisher.answered(key, landing, now);
    publisher.replied(key, Reply::Settled, now);
}

/// A publisher with five places. A request of one namespace hangs, and another namespace was answered promptly.
fn beside_one_that_hangs(now: Duration) -> Publisher {
    let watch = WatchLimits {
        watchers: Watchers::Fixed(100),
        ..WatchLimits::UNWATCHED
    };
    let mut publisher = Publisher::new(
        Pacing {
            watch,
            ..pacing(0.0, 64)
        },
        0,
    );
    publisher.signalled(&Signal::Opened(Output::Slice, Some(0)), NOW);
    let (hangs, prompt) = (key("hangs", "s"), key("prompt", "s"));
    remove(&mut publisher, &hangs, NOW);
    remove(&mut publisher, &prompt, NOW);
    assert_eq!(grant_all(&mut publisher, None, NOW), (2, None));
    written(&mut publisher, &prompt, 1, MS);
    let (output, version, at) = (Output::Slice, 1, MS);
    publisher.signalled(&Signal::Shown { output, version, at }, MS);
    assert_eq!(grant_all(&mut publisher, None, now), (0, None));
    assert_eq!(publisher.places(Resource::Slices), (5, 0));
    publisher
}

#[test]
fn unknown_namespaces_that_are_not_answered_leave_a_place_and_wait_for_an_echo() {
    let now = 2 * SECOND;
    let mut publisher = beside_one_that_hangs(now);
    for number in 0..20 {
        remove(&mut publisher, &key(&format!("new-{number}"), "s"), now);
    }
    // An event that frees a place wakes the writer only if an echo is the limit.
    assert_eq!(grant_all(&mut publisher, None, now), (4, Some(Limit::Echoes)));
    let prompt = key("prompt", "t");
    remove(&mut publisher, &prompt, now);
    assert_eq!(granted(&mut publisher, now), Some(prompt));
}

#[test]
fn additions_of_unknown_namespaces_have_both_places_for_additions_and_leave_one_for_prompt_removals() {
    let now = 2 * SECOND;
    let mut publisher = beside_one_that_hangs(now);
    for number in 0..20 {
        let key = key(&format!("new-{number}"), "s");
        publisher.wanted(&key, &want(&key, Retry::Now), now);
    }
    // Of five places two are for additions, of which a quarter is none.
    assert_eq!(grant_all(&mut publisher, None, now), (2, Some(Limit::Echoes)));
    for number in 0..20 {
        remove(&mut publisher, &key(&format!("new-{number}"), "t"), now);
    }
    assert_eq!(grant_all(&mut publisher, None, now), (2, Some(Limit::Echoes)));
}

/// What is answered does not hang, however late its event is.
#[test]
fn unknown_namespaces_that_are_answered_have_all_places() {
    let now = 2 * SECOND;
    let mut publisher = beside_one_that_hangs(now);
    for number in 0..20 {
        remove(&mut publisher, &key(&format!("new-{number}"), "s"), now);
    }
    assert_eq!(grant_all(&mut publisher, Some(1), now), (5, Some(Limit::Echoes)));
}
