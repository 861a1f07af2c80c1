//! Fairness of the write queue: whatever others want, no namespace, no Service of one and no class waits longer than twice as
//! long as under a fair schedule, and a bound; and to want an object again never moves it back.

mod fair;
mod opponents;

use crate::simulated::Simulated;
use endpointd::core::priority::Priority;
use endpointd::core::publish::queue::{Classes, Urgency, WriteQueue};
use endpointd::core::publish::{Pacing, WriteEffect};
use fair::Fair;
use opponents::{Opponents, World, opponents};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// The number of objects with which the queue is compared with itself.
const OBJECTS: usize = 12;

/// A want of one of the objects.
#[derive(Clone, Copy, Debug)]
struct Want {
    object: usize,
    priority: Priority,
}

fn priority() -> impl Strategy<Value = Priority> {
    prop::sample::select(&Priority::ALL)
}

fn want() -> impl Strategy<Value = Want> {
    (0..OBJECTS, priority()).prop_map(|(object, priority)| Want { object, priority })
}

/// Wants an object. Every third one is Endpoints; three namespaces have two Services each.
fn enqueue(queue: &mut WriteQueue<usize>, Want { object, priority }: Want, now: Duration) {
    let urgency = Urgency {
        priority,
        yields: object % 3 == 0,
        tenant: object as u64 % 4,
        group: object as u64 % 8,
    };
    queue.want(object, urgency, Duration::ZERO, now);
}

/// The order in which objects go that are wanted once each, one second after the other, and then again as `again` says:
/// before so many have gone.
fn order(wants: &[Want], again: &[(usize, Want)]) -> Vec<usize> {
    let mut queue = WriteQueue::default();
    let mut now = Duration::ZERO;
    for want in wants {
        now += SECOND;
        enqueue(&mut queue, *want, now);
    }
    let mut order = Vec::new();
    loop {
        now += SECOND;
        let is_now = |(at, want): &&(usize, Want)| *at == order.len() && !order.contains(&want.object);
        for (_, want) in again.iter().filter(is_now) {
            enqueue(&mut queue, *want, now);
        }
        match queue.next(usize::MAX, Classes::ALL, now) {
            Some((object, ..)) => order.push(object),
            None => return order,
        }
    }
}

/// One want of each of these objects, the first one.
fn first_wants(mut wants: Vec<Want>) -> Vec<Want> {
    let mut known = [false; OBJECTS];
    wants.retain(|want| !std::mem::replace(&mut known[want.object], true));
    wants
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_namespace_service_or_class_waits_much_longer_than_twice_the_fair_time(opponents in opponents()) {
        check(&opponents)?;
    }

    #[test]
    fn to_want_an_object_again_changes_nothing(
        wants in vec(want(), 1..40), again in vec((0..OBJECTS, 0..OBJECTS, priority()), 0..60),
    ) {
        let wants = first_wants(wants);
        // With the priority that it has, or a lower one.
        let again: Vec<_> = again.into_iter().filter_map(|(at, object, priority)| {
            let want = wants.iter().find(|want| want.object == object)?;
            Some((at, Want { object, priority: priority.max(want.priority) }))
        }).collect();
        prop_assert_eq!(order(&wants, &again), order(&wants, &[]));
    }

    #[test]
    fn a_rise_in_priority_moves_nothing_back(
        wants in vec(want(), 1..40), at in 0..OBJECTS, object in 0..OBJECTS, priority in priority(),
    ) {
        let wants = first_wants(wants);
        prop_assume!(wants.iter().any(|want| want.object == object));
        let place = |again: &[(usize, Want)]| order(&wants, again).iter().position(|other| *other == object);
        let (before, after) = (place(&[]), place(&[(at, Want { object, priority })]));
        prop_assert!(after <= before, "{:?}, without the rise {:?}", after, before);
    }
}

/// Plays opponents, and holds what goes against a fair schedule.
fn check(opponents: &Opponents) -> Result<(), TestCaseError> {
    let (mut world, mut fair) = (World::new(opponents), Fair::default());
    while let Some(step) = world.step() {
        fair.count(&step);
        let late = fair.late();
        prop_assert!(late.is_none(), "{:?}, at {:?}", late, step);
        prop_assert!(
            !step.overtaken,
            "an older object of the same Service waits: {:?}",
            step
        );
    }
    Ok(())
}

/// When an object is first written that is wanted again so often, beside 200 namespaces of which 30 objects each wait, at
/// the default rate.
fn first_written(every: Option<Duration>) -> Duration {
    const OTHERS: usize = 200 * 30;
    let pacing = Pacing {
        qps: 500.0,
        ..Pacing::unlimited(64)
    };
    let mut writer = Simulated::new(OTHERS + 1, 30, 1, pacing, 1);
    for object in 0..=OTHERS {
        writer.want(object, Priority::Add, Duration::ZERO);
    }
    let (mut now, mut wanted) = (Duration::ZERO, Duration::ZERO);
    loop {
        now += SECOND / 1000;
        if let Some(every) = every
            && now >= wanted + every
        {
            wanted = now;
            writer.want(OTHERS, Priority::Add, now);
        }
        while let Ok(object) = writer.next(1000, now) {
            if object == OTHERS {
                return now;
            }
            writer.answered(object, WriteEffect::Nothing, SECOND / 1000, None, now);
        }
    }
}

#[test]
fn a_service_that_keeps_changing_is_written_as_soon_as_a_quiet_one() {
    let quiet = first_written(None);
    assert!(quiet < SECOND, "{quiet:?}");
    for every in [50, 200, 1000] {
        let busy = first_written(Some(Duration::from_millis(every)));
        assert!(busy <= quiet, "every {every} ms: {busy:?}, a quiet one {quiet:?}");
    }
}
