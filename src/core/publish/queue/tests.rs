use super::*;

type Queue = WriteQueue<String, std::hash::RandomState>;

const NOW: Duration = Duration::ZERO;
const SECOND: Duration = Duration::from_secs(1);

/// A removal by an update of a slice of a Service, in a namespace with the same number.
fn of(service: u64) -> Due {
    Due {
        resource: Resource::Slices,
        priority: Priority::Remove,
        stage: Stage::Remove,
        namespace: service,
        service,
    }
}

/// A queue in which the namespaces of these numbers were written before.
fn queue() -> Queue {
    let mut queue = Queue::default();
    for namespace in (0..200).chain([777]) {
        queue.set_slow(namespace, false);
    }
    queue
}

fn take(queue: &mut Queue, now: Duration) -> Option<String> {
    queue.pass(now);
    queue.next(Resource::Slices, true, now).map(|granted| granted.key)
}

fn drain(queue: &mut Queue, now: Duration) -> Vec<String> {
    std::iter::from_fn(|| take(queue, now)).collect()
}

#[test]
fn a_turn_sends_creates_then_additions_then_removals_then_deletions() {
    let mut queue = queue();
    let stages = [
        (Stage::Delete, Priority::Rest),
        (Stage::Remove, Priority::Remove),
        (Stage::Add, Priority::Add),
        (Stage::Create, Priority::Add),
    ];
    for (at, (stage, priority)) in stages.into_iter().enumerate() {
        let due = Due {
            priority,
            stage,
            ..of(1)
        };
        queue.want(format!("{stage:?}"), due, NOW, SECOND * at as u32);
    }
    assert_eq!(
        drain(&mut queue, 9 * SECOND),
        ["Create", "Add", "Remove", "Delete"]
    );
}

#[test]
fn what_becomes_due_during_a_turn_waits_for_the_next() {
    let mut queue = queue();
    for key in ["a", "b"] {
        queue.want(key.to_owned(), of(1), NOW, NOW);
    }
    queue.want("other".to_owned(), of(2), NOW, NOW);
    assert_eq!(take(&mut queue, NOW).as_deref(), Some("a"));
    queue.want(
        "first".to_owned(),
        Due {
            stage: Stage::Create,
            ..of(1)
        },
        NOW,
        SECOND,
    );
    assert_eq!(drain(&mut queue, SECOND), ["b", "other", "first"]);
}

#[test]
fn a_large_service_goes_behind_the_others_after_eight_writes() {
    let mut queue = queue();
    for slice in 0..50 {
        queue.want(format!("big-{slice:02}"), of(1), NOW, NOW);
    }
    for service in 2..5 {
        queue.want(format!("small-{service}"), of(service), NOW, SECOND);
    }
    let order = drain(&mut queue, SECOND);
    assert_eq!(order.len(), 53);
    assert_eq!(
        order[7..12],
        ["big-07", "small-2", "small-3", "small-4", "big-08"]
    );
}

#[test]
fn removals_go_first_and_of_two_turns_one_is_the_oldest_services() {
    let mut queue = queue();
    for service in 0..10 {
        let adds = Due {
            priority: Priority::Add,
            ..of(service)
        };
        queue.want(format!("add-{service}"), adds, NOW, NOW);
        queue.want(format!("remove-{service}"), of(100 + service), NOW, SECOND);
    }
    let order = drain(&mut queue, SECOND);
    let removals = order[..10].iter().filter(|key| key.starts_with("remove")).count();
    assert_eq!(removals, 5, "{order:?}");
    assert_eq!(order[..4], ["add-0", "remove-0", "add-1", "remove-1"]);
}

#[test]
fn a_namespace_with_ten_thousand_services_waits_for_the_others_as_they_wait_for_it() {
    let mut queue = queue();
    for service in 0..10_000 {
        let due = Due {
            namespace: 777,
            ..of(1000 + service)
        };
        queue.want(format!("hot-{service}"), due, NOW, NOW);
    }
    for service in 0..10 {
        queue.want(format!("quiet-{service}"), of(service), NOW, SECOND);
    }
    let order: Vec<_> = std::iter::from_fn(|| take(&mut queue, SECOND)).take(42).collect();
    let quiet = order.iter().filter(|key| key.starts_with("quiet")).count();
    assert_eq!(
        quiet, 10,
        "of two turns one goes by age, and of the others one to each namespace: {order:?}"
    );
}

#[test]
fn a_slow_namespace_has_one_write_in_flight_and_none_while_the_lane_is_full() {
    let mut queue = queue();
    for key in ["a", "b", "c"] {
        queue.want(key.to_owned(), of(1), NOW, NOW);
    }
    assert_eq!(take(&mut queue, NOW).as_deref(), Some("a"));
    queue.set_slow(1, true);
    assert_eq!(take(&mut queue, NOW), None, "one is in flight");
    queue.landed(&"a".to_owned(), true, NOW);
    assert_eq!(queue.next(Resource::Slices, false, NOW), None);
    assert_eq!(drain(&mut queue, NOW), ["b"]);
    queue.set_slow(1, false);
    assert_eq!(drain(&mut queue, NOW), ["c"]);
}

#[test]
fn a_namespace_that_was_not_written_yet_has_one_write_in_flight() {
    let mut queue = Queue::default();
    for key in ["a", "b", "c"] {
        queue.want(key.to_owned(), of(1), NOW, NOW);
    }
    assert_eq!(drain(&mut queue, NOW), ["a"]);
    queue.set_slow(1, false);
    assert_eq!(drain(&mut queue, NOW), ["b", "c"]);
}

#[test]
fn slow_namespaces_take_turns_with_the_others() {
    let mut queue = queue();
    for namespace in 0..10 {
        queue.set_slow(namespace, namespace < 5);
        for key in ["a", "b"] {
            queue.want(format!("{namespace}-{key}"), of(namespace), NOW, NOW);
        }
    }
    let order = drain(&mut queue, NOW);
    let slow: Vec<_> = order.iter().take(6).filter(|key| key.as_str() < "5").collect();
    assert_eq!((order.len(), slow.len()), (15, 2), "{order:?}");
}

#[test]
fn a_paused_namespace_has_no_turn_until_its_pause_is_over() {
    let mut queue = queue();
    queue.want("a".to_owned(), of(1), NOW, NOW);
    queue.pause(1, SECOND);
    queue.want("b".to_owned(), of(1), NOW, NOW);
    queue.want("c".to_owned(), of(2), NOW, NOW);
    assert_eq!(drain(&mut queue, NOW), ["c"]);
    assert_eq!(
        (queue.next_pause(), queue.has_ready(Resource::Slices)),
        (Some(SECOND), true)
    );
    assert_eq!(drain(&mut queue, SECOND), ["a", "b"]);
    assert_eq!(queue.paused(), 0);
}

#[test]
fn no_namespace_has_more_in_flight_than_it_may() {
    let mut queue = queue();
    queue.set_most(2);
    for key in ["a", "b", "c"] {
        queue.want(key.to_owned(), of(1), NOW, NOW);
    }
    queue.want("d".to_owned(), of(2), NOW, NOW);
    assert_eq!(drain(&mut queue, NOW), ["a", "b", "d"]);
    queue.landed(&"b".to_owned(), true, NOW);
    assert_eq!(drain(&mut queue, NOW), ["c"]);
}

#[test]
fn when_nothing_may_wait_what_is_in_flight_still_lands_and_that_is_all() {
    let mut queue = queue();
    for (key, delay) in [
        ("flies", NOW),
        ("flies again", NOW),
        ("ready", NOW),
        ("late", SECOND),
    ] {
        queue.want(key.to_owned(), of(1), delay, NOW);
    }
    assert_eq!(take(&mut queue, NOW).as_deref(), Some("flies"));
    assert_eq!(take(&mut queue, NOW).as_deref(), Some("flies again"));
    queue.want("flies again".to_owned(), of(1), NOW, NOW);
    queue.clear_waiting();
    assert_eq!((queue.waiting(), queue.in_flight()), (0, 2));
    assert_eq!(take(&mut queue, 10 * SECOND), None);
    for key in ["flies", "flies again"] {
        queue.landed(&key.to_owned(), false, SECOND);
        queue.settled(&key.to_owned());
    }
    assert!(queue.is_idle());
    assert_eq!(queue.out_of_sync(SECOND).0, 0);
    queue.want("ready".to_owned(), of(1), NOW, SECOND);
    assert_eq!(drain(&mut queue, SECOND), ["ready"]);
}

#[test]
fn one_that_is_wanted_in_flight_comes_again_unless_that_was_before_it_was_built() {
    let mut queue = queue();
    let a = "a".to_owned();
    queue.want(a.clone(), of(1), NOW, NOW);
    assert_eq!(drain(&mut queue, NOW), ["a"]);
    queue.want(a.clone(), of(1), NOW, NOW);
    queue.want(a.clone(), of(1), NOW, NOW);
    assert_eq!((take(&mut queue, NOW), queue.in_flight()), (None, 1));
    queue.landed(&a, true, NOW);
    assert_eq!(drain(&mut queue, NOW), ["a"]);
    queue.want(a.clone(), of(1), NOW, NOW);
    queue.built(&a);
    queue.landed(&a, true, NOW);
    assert!(queue.is_idle());
}

#[test]
fn to_want_an_object_often_does_not_put_it_off_and_makes_it_more_urgent() {
    let mut queue = queue();
    let adds = Due {
        priority: Priority::Add,
        ..of(1)
    };
    for tenth in 0..10 {
        let now = SECOND * tenth / 10;
        queue.want("a".to_owned(), adds, SECOND, now);
        assert_eq!(take(&mut queue, now), None);
    }
    queue.want("a".to_owned(), of(1), SECOND, SECOND);
    queue.pass(SECOND);
    let granted = queue.next(Resource::Slices, true, SECOND).unwrap();
    assert_eq!((granted.priority, granted.age), (Priority::Remove, SECOND));
}

#[test]
fn an_object_that_changes_its_service_stays_in_the_first_until_it_has_left() {
    let mut queue = queue();
    let a = "a".to_owned();
    for (service, settled) in [(1, false), (2, false), (3, true)] {
        queue.want(a.clone(), of(service), NOW, NOW);
        assert_eq!(drain(&mut queue, NOW), ["a"]);
        queue.landed(&a, settled, NOW);
    }
    assert_eq!(queue.out_of_sync(SECOND), (0, NOW));
}

#[test]
fn a_service_is_out_of_sync_until_the_last_of_its_objects_is_settled() {
    let mut queue = queue();
    let [a, b, c] = ["a", "b", "c"].map(str::to_owned);
    queue.want(a.clone(), of(1), NOW, NOW);
    queue.want(b.clone(), of(1), NOW, SECOND);
    queue.want(c.clone(), of(2), NOW, 2 * SECOND);
    assert_eq!(queue.out_of_sync(5 * SECOND), (2, 5 * SECOND));
    drain(&mut queue, 5 * SECOND);
    queue.landed(&a, false, 5 * SECOND);
    queue.landed(&b, false, 5 * SECOND);
    queue.settled(&a);
    queue.settled(&c);
    assert_eq!(
        queue.out_of_sync(6 * SECOND),
        (2, 6 * SECOND),
        "c is in flight, b unclear"
    );
    // A failed write is wanted again: the Service is no younger for it.
    queue.want(b.clone(), of(1), SECOND, 6 * SECOND);
    assert_eq!(queue.out_of_sync(8 * SECOND), (2, 8 * SECOND));
    drain(&mut queue, 8 * SECOND);
    queue.landed(&b, true, 8 * SECOND);
    assert_eq!(queue.out_of_sync(8 * SECOND), (1, 6 * SECOND));
    queue.landed(&c, true, 8 * SECOND);
    assert!(queue.is_idle());
}

#[test]
fn endless_additions_do_not_hold_up_a_removal() {
    let mut queue = queue();
    queue.set_most(8);
    let add = Due {
        priority: Priority::Add,
        stage: Stage::Add,
        ..of(1)
    };
    queue.want("removal".to_owned(), of(1), NOW, NOW);
    for number in 0..20 {
        queue.want(format!("addition-{number}"), add, NOW, NOW);
    }
    let removed = (0..1_000).position(|write| {
        let now = SECOND * write;
        let key = take(&mut queue, now).unwrap();
        // It is answered, and the next pod is ready meanwhile.
        queue.want(key.clone(), add, NOW, now);
        queue.landed(&key, false, now);
        key == "removal"
    });
    assert_eq!(removed, Some(20), "after the additions that were due as early");
}

#[test]
fn what_is_left_alone_and_becomes_urgent_keeps_its_stage() {
    let mut queue = queue();
    let add = |priority| Due {
        priority,
        stage: Stage::Add,
        ..of(1)
    };
    for name in ["a", "b"] {
        queue.want(name.to_owned(), of(1), NOW, NOW);
    }
    assert_eq!(take(&mut queue, NOW).as_deref(), Some("a"));
    // It comes in a later round than what has its turn.
    queue.want("addition".to_owned(), add(Priority::Rest), NOW, NOW);
    assert_eq!(take(&mut queue, NOW).as_deref(), Some("b"));
    queue.want("addition".to_owned(), add(Priority::Add), NOW, NOW);
    queue.want("removal".to_owned(), of(1), NOW, NOW);
    assert_eq!(drain(&mut queue, NOW), ["addition", "removal"]);
}
