//! Namespaces whose webhook hangs or refuses writes, beside others that have none.

use crate::world::{Answer, MS, Object, SECOND};
use crate::{OURS, Who, usual};
use endpointd::core::object::Output;
use endpointd::core::priority::Priority;
use endpointd::core::publish::{Load, WriteEffect};
use std::time::Duration;

/// Namespaces without a webhook, and their Services.
const OTHERS: u32 = 20;
const SERVICES: u32 = 2_000;

const fn answer(load: Load, after: Duration, pause: Option<Duration>) -> Answer {
    let effect = WriteEffect::Nothing;
    Answer {
        load,
        effect,
        pause,
        after,
    }
}

/// Webhooks: from when on each gives its answer, and how many changes a second its namespaces have at most.
const WEBHOOKS: [(&str, u32, f64, Answer); 5] = [
    (
        "hangs",
        0,
        1e3,
        answer(Load::Declined, Duration::from_secs(10), None),
    ),
    (
        "begins to hang",
        15,
        10.0,
        answer(Load::Declined, Duration::from_secs(10), None),
    ),
    (
        "403 or 422",
        0,
        1e3,
        answer(Load::Declined, Duration::from_millis(2), None),
    ),
    (
        "429",
        0,
        1e3,
        answer(Load::Overloaded, Duration::from_millis(2), None),
    ),
    (
        "429 and Retry-After",
        0,
        1e3,
        answer(Load::Declined, Duration::from_millis(2), Some(SECOND)),
    ),
];

/// Returns the longest that one of 20 removals a second in other namespaces waits beside so many with a webhook, each with five
/// slices that change once a second.
fn longest(who: Who, namespaces: u32, (_, from, rate, answer): (&str, u32, f64, Answer)) -> Duration {
    let other = |number| Object::slice(number % OTHERS, number, 1_500, "others");
    let refused = |number| Object::slice(OTHERS + number / 5, SERVICES + number, 1_500, "refused");
    let number = namespaces * 5;
    let objects = (0..SERVICES).map(other).chain((0..number).map(refused)).collect();
    let mut world = who.world(objects, usual());
    world.webhook = Box::new(move |object, now| {
        let is_refused = object.namespace >= OTHERS && now >= SECOND * from;
        is_refused.then_some(answer)
    });
    for change in 0..900 {
        let object = change * 7 % SERVICES;
        world.change(object as usize, Priority::Remove, MS * 50 * change);
    }
    let every = Duration::from_secs_f64(1.0 / rate.min(f64::from(number).max(1.0)));
    let (mut at, mut slice) = (SECOND * 5, 0);
    while number > 0 && at < SECOND * 45 {
        // Those of all namespaces, one after the other.
        let object = SERVICES + slice % namespaces * 5 + slice / namespaces % 5;
        world.change(object as usize, Priority::Remove, at);
        (at, slice) = (at + every, slice + 1);
    }
    world.play(SECOND * 45);
    world.waited(("others", Output::Slice, Priority::Remove), 1.0)
}

/// Returns the requests of ten seconds in which the API server refuses everything and asks for a pause of a second.
fn refused(who: Who) -> usize {
    let objects = (0..300).map(|number| Object::slice(number, number, 1_500, "refused"));
    let mut world = who.world(objects.collect(), usual());
    world.webhook = Box::new(|_, _| Some(answer(Load::Overloaded, MS * 2, Some(SECOND))));
    (0..300).for_each(|object| world.change(object, Priority::Add, Duration::ZERO));
    world.play(SECOND * 10);
    world.writes
}

#[test]
fn webhooks_hold_up_no_other_namespace() {
    for webhook in WEBHOOKS {
        let longest = |who| [0, 1, 12, 200].map(|namespaces| longest(who, namespaces, webhook));
        let (ours, theirs) = (longest(OURS), longest(Who::Upstream));
        println!(
            "a webhook, {}: {ours:.2?}, kube-controller-manager {theirs:.2?}",
            webhook.0
        );
        for beside in &ours[1..] {
            assert!(*beside <= ours[0] + SECOND, "{}: {ours:?}", webhook.0);
        }
    }
    // Which is told from an API server that refuses everything.
    let requests = refused(OURS);
    println!(
        "everything refused: {requests} requests, kube-controller-manager {}",
        refused(Who::Upstream)
    );
    assert!(requests <= 100, "{requests}");
}
