use super::patience::PART_OF_BACKLOG;
use super::*;

const SECOND: Duration = Duration::from_secs(1);
const NOW: Duration = Duration::ZERO;

/// Each object of the tests that do not care is a group of its own.
fn of(priority: Priority, group: u64) -> Urgency {
    Urgency {
        priority,
        yields: false,
        tenant: 0,
        group,
    }
}

trait WorkItemExt {
    fn want_one(&mut self, key: &'static str, priority: Priority, delay: Duration, now: Duration);
}

impl WorkItemExt for WriteQueue<&'static str> {
    fn want_one(&mut self, key: &'static str, priority: Priority, delay: Duration, now: Duration) {
        let group = key
            .bytes()
            .fold(7, |hash: u64, byte| hash.wrapping_mul(31) + u64::from(byte));
        self.want(key, of(priority, group), delay, now);
    }
}

fn drain(queue: &mut WriteQueue<&'static str>, now: Duration) -> Vec<&'static str> {
    std::iter::from_fn(|| queue.next(usize::MAX, Classes::ALL, now).map(|(key, ..)| key)).collect()
}

#[test]
fn urgent_lanes_go_first_and_the_oldest_of_a_lane() {
    let mut queue = WriteQueue::default();
    queue.want_one("labels", Priority::Rest, NOW, NOW);
    queue.want_one("add", Priority::Add, NOW, NOW);
    queue.want_one("late removal", Priority::Remove, NOW, SECOND);
    queue.want_one("removal", Priority::Remove, NOW, NOW);
    assert_eq!(
        drain(&mut queue, SECOND),
        ["removal", "late removal", "add", "labels"]
    );
}

#[test]
fn those_that_yield_let_what_traffic_waits_for_go_first_for_a_while() {
    let mut queue = WriteQueue::default();
    let yielding = |priority| Urgency {
        priority,
        yields: true,
        tenant: 0,
        group: 0,
    };
    queue.want("endpoints", yielding(Priority::Remove), NOW, NOW);
    queue.want("more endpoints", yielding(Priority::Add), NOW, NOW);
    queue.want_one("labels", Priority::Rest, NOW, NOW);
    queue.want_one("removal", Priority::Remove, NOW, SECOND);
    queue.want_one("addition", Priority::Add, NOW, SECOND);
    queue.want_one("much later", Priority::Add, NOW, 11 * SECOND);
    queue.want_one("removed much later", Priority::Remove, NOW, 41 * SECOND);
    let order = drain(&mut queue, 41 * SECOND);
    assert_eq!(
        order,
        [
            "removal",
            "addition",
            "endpoints",
            "removed much later",
            "much later",
            "more endpoints",
            "labels",
        ]
    );
}

#[test]
fn when_nothing_may_wait_what_is_on_its_way_still_lands_and_that_is_all() {
    let mut queue = WriteQueue::default();
    for (key, delay) in [
        ("flies", NOW),
        ("flies again", NOW),
        ("ready", NOW),
        ("late", SECOND),
    ] {
        queue.want_one(key, Priority::Add, delay, NOW);
    }
    assert_eq!(queue.next(usize::MAX, Classes::ALL, NOW).unwrap().0, "flies");
    assert_eq!(
        queue.next(usize::MAX, Classes::ALL, NOW).unwrap().0,
        "flies again"
    );
    queue.want_one("flies again", Priority::Add, NOW, NOW);
    queue.clear_waiting();
    assert_eq!((queue.waiting(), queue.in_flight()), (0, 2));
    assert_eq!(queue.next(usize::MAX, Classes::ALL, 10 * SECOND), None);
    for key in ["flies", "flies again"] {
        queue.landed(&key, false, SECOND);
        queue.settled(&key);
    }
    assert!(queue.is_idle());
    assert_eq!(queue.out_of_order(SECOND).0, 0);
    queue.want_one("ready", Priority::Add, NOW, SECOND);
    assert_eq!(drain(&mut queue, SECOND), ["ready"]);
}

#[test]
fn age_makes_urgent() {
    let mut queue = WriteQueue::default();
    queue.want_one("labels", Priority::Rest, NOW, NOW);
    let late = 61 * SECOND;
    queue.want_one("removal", Priority::Remove, NOW, late);
    assert_eq!(drain(&mut queue, late), ["labels", "removal"]);
}

#[test]
fn wanting_twice_is_wanting_once_at_the_more_urgent_lane() {
    let mut queue = WriteQueue::default();
    queue.want_one("a", Priority::Rest, NOW, NOW);
    queue.want_one("b", Priority::Add, NOW, NOW);
    queue.want_one("a", Priority::Remove, NOW, SECOND);
    queue.want_one("a", Priority::Rest, NOW, SECOND);
    assert_eq!(queue.waiting(), 2);
    assert_eq!(drain(&mut queue, SECOND), ["a", "b"]);
}

#[test]
fn one_on_its_way_and_again_after_it() {
    let mut queue = WriteQueue::default();
    queue.want_one("a", Priority::Add, NOW, NOW);
    assert_eq!(drain(&mut queue, NOW), ["a"]);
    queue.want_one("a", Priority::Add, NOW, NOW);
    queue.want_one("a", Priority::Add, NOW, NOW);
    assert_eq!(
        (queue.next(usize::MAX, Classes::ALL, NOW), queue.in_flight()),
        (None, 1)
    );
    queue.landed(&"a", true, NOW);
    assert_eq!(drain(&mut queue, NOW), ["a"]);
    queue.landed(&"a", true, NOW);
    assert!(queue.is_idle());
}

#[test]
fn wanting_often_does_not_put_off() {
    let mut queue = WriteQueue::default();
    for tenth in 0..20 {
        let now = SECOND * tenth / 10;
        queue.want_one("a", Priority::Add, SECOND, now);
        if let Some((key, ..)) = queue.next(usize::MAX, Classes::ALL, now) {
            assert_eq!((key, now), ("a", SECOND), "as the first wish had it");
            return;
        }
    }
    panic!("it never went");
}

#[test]
fn what_was_wanted_before_the_request_was_built_is_in_it() {
    let mut queue = WriteQueue::default();
    queue.want_one("a", Priority::Add, NOW, NOW);
    assert_eq!(drain(&mut queue, NOW), ["a"]);
    queue.want_one("a", Priority::Add, NOW, NOW);
    queue.built(&"a");
    queue.landed(&"a", true, NOW);
    assert!(queue.is_idle());
}

#[test]
fn a_delay_is_kept_unless_wanted_without() {
    let mut queue = WriteQueue::default();
    queue.want_one("a", Priority::Add, SECOND, NOW);
    assert_eq!(
        (queue.next(usize::MAX, Classes::ALL, NOW), queue.next_delayed()),
        (None, Some(SECOND))
    );
    assert_eq!(drain(&mut queue, SECOND), ["a"]);
    queue.want_one("a", Priority::Add, SECOND, SECOND);
    queue.landed(&"a", true, SECOND);
    assert_eq!(
        (queue.next(usize::MAX, Classes::ALL, SECOND), queue.next_delayed()),
        (None, Some(2 * SECOND))
    );
    queue.want_one("a", Priority::Add, NOW, SECOND);
    assert_eq!(drain(&mut queue, SECOND), ["a"]);
    queue.landed(&"a", true, SECOND);
    queue.landed(&"a", true, SECOND);
    assert_eq!((queue.in_flight(), queue.waiting()), (0, 0));
}

#[test]
fn services_of_one_lane_take_turns() {
    let mut queue = WriteQueue::default();
    for slice in 0..100u32 {
        queue.want(format!("big-{slice:02}"), of(Priority::Add, 1), NOW, NOW);
    }
    queue.want("small".to_owned(), of(Priority::Add, 2), NOW, SECOND);
    queue.want("other-0".to_owned(), of(Priority::Add, 3), NOW, SECOND);
    queue.want("other-1".to_owned(), of(Priority::Add, 3), NOW, SECOND);
    let order: Vec<_> =
        std::iter::from_fn(|| queue.next(usize::MAX, Classes::ALL, SECOND).map(|(key, ..)| key)).collect();
    assert_eq!(order[..5], ["big-00", "small", "other-0", "big-01", "other-1"]);
    assert_eq!(order.len(), 103);
    assert!(order[5..].is_sorted(), "and of one Service the oldest goes first");
}

#[test]
fn a_removal_of_a_large_service_does_not_wait_for_its_additions() {
    let mut queue = WriteQueue::default();
    for slice in 0..50u32 {
        queue.want(format!("add-{slice:02}"), of(Priority::Add, 1), NOW, NOW);
    }
    queue.want("remove".to_owned(), of(Priority::Remove, 1), NOW, SECOND);
    assert_eq!(queue.next(usize::MAX, Classes::ALL, SECOND).unwrap().0, "remove");
    // The same object, wanted more urgently, changes its priority.
    queue.want("add-49".to_owned(), of(Priority::Remove, 1), NOW, SECOND);
    assert_eq!(queue.next(usize::MAX, Classes::ALL, SECOND).unwrap().0, "add-49");
    assert_eq!(queue.waiting(), 49);
}

#[test]
fn an_object_that_changes_its_service_stays_in_its_group_until_it_has_left() {
    let mut queue = WriteQueue::default();
    queue.want("a", of(Priority::Add, 1), NOW, NOW);
    assert_eq!(drain(&mut queue, NOW), ["a"]);
    queue.want("a", of(Priority::Add, 2), NOW, NOW);
    queue.landed(&"a", false, NOW);
    assert_eq!(drain(&mut queue, NOW), ["a"]);
    queue.landed(&"a", false, NOW);
    queue.want("a", of(Priority::Add, 3), NOW, NOW);
    assert_eq!(drain(&mut queue, NOW), ["a"]);
    queue.landed(&"a", true, NOW);
    assert_eq!(queue.out_of_order(SECOND), (0, NOW));
}

#[test]
fn a_service_is_out_of_order_until_the_last_of_its_objects_is_settled() {
    let mut queue = WriteQueue::default();
    queue.want("a", of(Priority::Add, 1), NOW, NOW);
    queue.want("b", of(Priority::Add, 1), NOW, SECOND);
    queue.want("c", of(Priority::Add, 2), NOW, 2 * SECOND);
    assert_eq!(queue.out_of_order(5 * SECOND), (2, 5 * SECOND));
    drain(&mut queue, 5 * SECOND);
    queue.landed(&"a", false, 5 * SECOND);
    queue.landed(&"b", false, 5 * SECOND);
    queue.settled(&"a");
    queue.settled(&"c");
    assert_eq!(
        queue.out_of_order(6 * SECOND),
        (2, 6 * SECOND),
        "c is on its way, b unclear"
    );
    // A failed write is wanted again: the Service is no younger for it.
    queue.want("b", of(Priority::Add, 1), SECOND, 6 * SECOND);
    assert_eq!(queue.out_of_order(8 * SECOND), (2, 8 * SECOND));
    drain(&mut queue, 8 * SECOND);
    queue.landed(&"b", true, 8 * SECOND);
    assert_eq!(queue.out_of_order(8 * SECOND), (1, 6 * SECOND));
    queue.landed(&"c", true, 8 * SECOND);
    assert_eq!(queue.out_of_order(9 * SECOND), (0, NOW));
    assert!(queue.is_idle());
}

/// Returns a queue on which one namespace has a backlog of so many objects that have waited since the start.
fn flooded(count: u32, priority: Priority) -> WriteQueue<String> {
    let mut queue = WriteQueue::default();
    for object in 0..count {
        let urgency = Urgency {
            tenant: 1,
            ..of(priority, 100 + u64::from(object))
        };
        queue.want(format!("flood-{object:04}"), urgency, NOW, NOW);
    }
    queue
}

fn small(tenant: u64, priority: Priority) -> Urgency {
    Urgency {
        tenant,
        ..of(priority, tenant)
    }
}

#[test]
fn a_namespace_with_a_thousand_services_waits_for_the_others_as_they_wait_for_it() {
    let mut queue = flooded(1000, Priority::Add);
    queue.want("a".to_owned(), small(2, Priority::Add), NOW, SECOND);
    queue.want("b".to_owned(), small(3, Priority::Add), NOW, SECOND);
    let first: Vec<_> = (0..4)
        .map(|_| queue.next(usize::MAX, Classes::ALL, SECOND).unwrap().0)
        .collect();
    assert_eq!(first, ["flood-0000", "a", "b", "flood-0001"]);
    // One that comes and goes does not get ahead of one that waits.
    for round in 0..10 {
        queue.landed(&"a".to_owned(), true, SECOND);
        queue.want("a".to_owned(), small(2, Priority::Add), NOW, SECOND);
        let pair = [
            queue.next(usize::MAX, Classes::ALL, SECOND).unwrap().0,
            queue.next(usize::MAX, Classes::ALL, SECOND).unwrap().0,
        ];
        assert!(pair.contains(&"a".to_owned()), "{round}: {pair:?}");
        assert!(
            pair.iter().any(|key| key.starts_with("flood")),
            "{round}: {pair:?}"
        );
    }
}

#[test]
fn a_removal_does_not_wait_for_the_aged_backlog_of_another_namespace() {
    for priority in [Priority::Add, Priority::Rest] {
        let mut queue = flooded(1000, priority);
        let late = 300 * SECOND;
        assert!(
            queue
                .next(usize::MAX, Classes::ALL, late)
                .unwrap()
                .0
                .starts_with("flood")
        );
        for removal in 0..20u64 {
            queue.want(
                format!("removal-{removal}"),
                small(2 + removal, Priority::Remove),
                NOW,
                late,
            );
        }
        let order: Vec<_> = (0..40)
            .map(|_| queue.next(usize::MAX, Classes::ALL, late).unwrap().0)
            .collect();
        let removals = order.iter().filter(|key| key.starts_with("removal")).count();
        assert_eq!(removals, 20, "every other turn: {order:?}");
    }
}

#[test]
fn aged_objects_go_though_another_namespace_never_ends_to_remove() {
    let mut queue = flooded(10, Priority::Add);
    let late = 31 * SECOND;
    for removal in 0..100u64 {
        queue.want(
            format!("removal-{removal}"),
            small(2, Priority::Remove),
            NOW,
            late,
        );
    }
    let order: Vec<_> = (0..20)
        .map(|_| queue.next(usize::MAX, Classes::ALL, late).unwrap().0)
        .collect();
    assert_eq!(
        order.iter().filter(|key| key.starts_with("flood")).count(),
        10,
        "{order:?}"
    );
}

#[test]
fn additions_do_not_wait_for_another_namespace_that_never_ends_to_remove() {
    let mut queue = flooded(10_000, Priority::Remove);
    queue.want("a".to_owned(), small(2, Priority::Add), NOW, SECOND);
    queue.want("b".to_owned(), small(3, Priority::Rest), NOW, SECOND);
    let order: Vec<_> = (0..6)
        .map(|_| queue.next(usize::MAX, Classes::ALL, SECOND).unwrap().0)
        .collect();
    assert!(
        order.contains(&"a".to_owned()) && order.contains(&"b".to_owned()),
        "{order:?}"
    );
    // Nor does a removal wait for many namespaces that add.
    let mut queue = WriteQueue::default();
    for tenant in 10..1000 {
        queue.want(format!("add-{tenant}"), small(tenant, Priority::Add), NOW, NOW);
    }
    for removal in 0..10 {
        queue.want(
            format!("removal-{removal}"),
            small(2, Priority::Remove),
            NOW,
            SECOND,
        );
    }
    let order: Vec<_> = (0..20)
        .map(|_| queue.next(usize::MAX, Classes::ALL, SECOND).unwrap().0)
        .collect();
    let removals = order.iter().filter(|key| key.starts_with("removal")).count();
    assert_eq!(removals, 10, "every other turn: {order:?}");
}

#[test]
fn no_namespace_has_more_on_its_way_than_it_may() {
    let mut queue = flooded(100, Priority::Remove);
    for _ in 0..4 {
        assert!(queue.next(4, Classes::ALL, NOW).is_some());
    }
    assert_eq!(queue.next(4, Classes::ALL, NOW), None);
    queue.want("a".to_owned(), small(2, Priority::Rest), NOW, NOW);
    assert_eq!(queue.next(4, Classes::ALL, NOW).unwrap().0, "a");
    queue.landed(&"flood-0000".to_owned(), true, NOW);
    assert!(queue.next(4, Classes::ALL, NOW).is_some());
    assert_eq!(queue.next(4, Classes::ALL, NOW), None);
}

#[test]
fn a_namespace_that_has_as_many_on_its_way_as_it_may_has_had_its_turn() {
    let mut queue = WriteQueue::default();
    for tenant in 1..=3u64 {
        for object in 0..60 {
            let urgency = Urgency {
                tenant,
                ..of(Priority::Add, tenant)
            };
            queue.want(format!("{tenant} {object:02}"), urgency, NOW, NOW);
        }
    }
    let mut turns = [0; 4];
    for _ in 0..60 {
        let (key, ..) = queue.next(1, Classes::ALL, NOW).unwrap();
        turns[usize::from(key.as_bytes()[0] - b'0')] += 1;
        queue.landed(&key, true, NOW);
    }
    assert_eq!(turns, [0, 20, 20, 20]);
}

#[test]
fn additions_are_overtaken_for_a_part_of_the_time_that_the_backlog_takes() {
    let first = |pace: Option<Duration>, removal: Duration| {
        let mut queue = flooded(40, Priority::Add);
        queue.set_pace(pace);
        let urgency = Urgency {
            tenant: 1,
            ..of(Priority::Remove, 7)
        };
        queue.want("removal".to_owned(), urgency, NOW, removal);
        queue.next(usize::MAX, Classes::ALL, removal).unwrap().0
    };
    // Forty additions and the removal take some four seconds.
    let pace = Some(SECOND / 10);
    let part = SECOND * 41 / 10 / PART_OF_BACKLOG;
    assert_eq!(first(pace, part.saturating_sub(SECOND / 100)), "removal");
    assert_eq!(first(pace, part + SECOND / 100), "flood-0000");
    // However slow the pace, and if it is not known, for thirty seconds.
    for pace in [None, Some(10 * SECOND)] {
        assert_eq!(first(pace, 29 * SECOND), "removal");
        assert_eq!(first(pace, 31 * SECOND), "flood-0000");
    }
}

#[test]
fn a_namespace_that_is_held_in_some_classes_goes_in_others_and_keeps_its_places() {
    let mut queue = WriteQueue::default();
    let tenant = |tenant: u64, priority: Priority| Urgency {
        tenant,
        ..of(priority, tenant)
    };
    queue.want("held add", tenant(1, Priority::Add), NOW, NOW);
    queue.want("held remove", tenant(1, Priority::Remove), NOW, NOW);
    queue.want("other add", tenant(2, Priority::Add), NOW, NOW);
    queue.want("held rest", tenant(1, Priority::Rest), NOW, NOW);
    let mut next = |is_held: bool| {
        let held = |class, tenant| is_held && tenant == 1 && Classes::SLICE_OTHERS.has(class);
        let next = queue.next_but(64, Classes::ALL, held, NOW);
        next.map(|(key, ..)| key)
    };
    assert_eq!(next(true), Some("held remove"));
    assert_eq!(next(true), Some("other add"));
    assert_eq!(next(true), None);
    assert_eq!([next(false), next(false)], [Some("held add"), Some("held rest")]);
}

/// To find the next object takes no longer if thousands of namespaces have no turn, and they come back in the order of their
/// objects' times.
#[test]
fn namespaces_that_are_held_cost_nothing_and_come_back() {
    let mut queue = WriteQueue::default();
    let namespace = |tenant: u64| Urgency {
        tenant,
        ..of(Priority::Remove, tenant)
    };
    for tenant in 0..3000 {
        if tenant % 2 == 0 {
            queue.hold(tenant);
        }
        queue.want(tenant, namespace(tenant), NOW, NOW);
        queue.hold(tenant);
    }
    queue.want(5000, namespace(5000), NOW, SECOND);
    let looked_at = std::cell::Cell::new(0);
    let held = |_: usize, _: u64| {
        looked_at.set(looked_at.get() + 1);
        false
    };
    let next = queue.next_but(1, Classes::ALL, held, SECOND);
    assert_eq!(next.map(|(key, ..)| key), Some(5000));
    assert!(looked_at.get() < 10, "{} namespaces", looked_at.get());
    assert!(queue.has_ready(SECOND) && queue.next(1, Classes::ALL, SECOND).is_none());

    // What is wanted more urgently, settled or wanted anew meanwhile is as it was.
    queue.want(7, namespace(7), NOW, SECOND);
    for tenant in 0..3000 {
        queue.release(tenant);
    }
    let order: Vec<_> =
        std::iter::from_fn(|| queue.next(1, Classes::ALL, SECOND).map(|(key, ..)| key)).collect();
    assert!(order.into_iter().eq(0..3000));
}

#[test]
fn after_the_loss_of_a_zone_slices_have_three_quarters_of_the_writes() {
    let mut queue = WriteQueue::default();
    let urgency = |service: u64, yields| Urgency {
        priority: Priority::Remove,
        yields,
        tenant: service / 5,
        group: service,
    };
    // In each namespace of five Services, a removal comes at a time, faster than all can be written: 600 slices and as many Endpoints
    // a second, where 1,000 can be.
    let (mut of_slices, mut longest, mut written) = (0, NOW, 0);
    for write in 0..5_000 {
        let now = SECOND / 1_000 * write;
        let mut wanted = |service: u64| {
            for yields in [false, true] {
                queue.want((service, yields), urgency(service, yields), NOW, now);
            }
        };
        if write * 6 / 10 != (write + 1) * 6 / 10 {
            wanted(u64::from(write * 6 / 10) * 2_003 % 10_000);
        }
        let Some(((service, yields), _, age)) = queue.next(64, Classes::ALL, now) else {
            continue;
        };
        written += 1;
        queue.landed(&(service, yields), true, now);
        if !yields {
            of_slices += 1;
            longest = longest.max(age);
        }
    }
    assert!(written > 4_990, "{written}");
    assert!(of_slices > 2_990, "{of_slices}");
    assert!(longest < SECOND / 50, "{longest:?}");
}

#[test]
fn a_namespace_that_floods_slices_does_not_hold_up_the_endpoints_of_others() {
    for others in [1, 100, 1_000] {
        let mut queue = WriteQueue::default();
        let urgency = |tenant: u64, yields| Urgency {
            priority: Priority::Add,
            yields,
            tenant,
            group: tenant,
        };
        // Each of the flood's thousand slices is due again as soon as it has gone.
        for slice in 0..1_000_u64 {
            queue.want((0, slice), urgency(0, false), NOW, NOW);
        }
        let mut longest = NOW;
        for write in 0..10_000 {
            let now = SECOND / 500 * write;
            // A third of all writes are of others.
            if write % 3 == 0 {
                let tenant = 1 + u64::from(write / 3) % others;
                queue.want((tenant, u64::from(write)), urgency(tenant, true), NOW, now);
            }
            let (key, _, age) = queue.next(64, Classes::ALL, now).unwrap();
            queue.landed(&key, true, now);
            if key.0 == 0 {
                queue.want(key, urgency(0, false), NOW, now);
            } else {
                longest = longest.max(age);
            }
        }
        assert!(longest < SECOND / 20, "{others}: {longest:?}");
    }
}
