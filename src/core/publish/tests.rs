use super::*;
use crate::core::backoff::LONGEST;
use crate::core::body::Request;
use crate::core::leadership::role::Role;
use crate::core::object::ObjectName;
use crate::core::priority::{Priority, Stage};
use reports::{Report, Reports, Taken};
use std::sync::Arc;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
const NOW: Duration = Duration::ZERO;

fn pacing(qps: f64, in_flight: usize) -> Pacing {
    Pacing {
        qps,
        ..Pacing::unlimited(in_flight)
    }
}

fn key(namespace: &str, name: &str) -> Hashed<ObjectKey> {
    ObjectKey::hashed(namespace, ObjectName::slice(name.into()))
}

fn push(reports: &mut Reports, key: &ObjectKey, report: Report) {
    reports.push(&key.namespace, key.object.clone(), report, NOW);
}

fn want(key: &ObjectKey, retry: Retry) -> WorkItem {
    WorkItem {
        object: (*key.object).clone(),
        service: Arc::from("s"),
        exists: true,
        priority: Priority::Add,
        stage: Stage::Add,
        retry,
        reads: false,
    }
}

fn granted(publisher: &mut Publisher, now: Duration) -> Option<Hashed<ObjectKey>> {
    match publisher.next(now) {
        Next::Grant { key, .. } => Some(key),
        Next::Wait { .. } => None,
    }
}

/// Hands on all that waits.
fn hand_on(reports: &mut Reports, publisher: &mut Publisher, now: Duration) -> Vec<Replied> {
    let mut replied = Vec::new();
    while let Some(taken) = reports.take() {
        match taken {
            Taken::Role(change) => publisher.change_role(change),
            Taken::Reported(key, reported) => replied.push(publisher.reported(&key, reported, now)),
        }
    }
    replied
}

fn landing(load: Load, took: Duration) -> Landing {
    Landing {
        load,
        effect: WriteEffect::Nothing,
        took,
        pause: None,
        has_shard: true,
    }
}

fn update() -> BuiltRequest {
    BuiltRequest {
        request: Request::Update(Vec::new()),
        changes: 1,
    }
}

#[test]
fn a_write_that_is_wanted_after_an_empty_reply_is_not_lost_however_late_both_are_read() {
    for read_between in [false, true] {
        let (mut publisher, mut reports) = (Publisher::new(pacing(0.0, 1), 0), Reports::default());
        let k = key("ns", "k");
        publisher.wanted(&k, &want(&k, Retry::Now), NOW);
        assert_eq!(granted(&mut publisher, NOW), Some(k.clone()));
        // The pod has flipped back before the grant: nothing is due. Then it flips again.
        push(&mut reports, &k, Report::Replied(Reply::Nothing));
        if read_between {
            hand_on(&mut reports, &mut publisher, NOW);
        }
        push(&mut reports, &k, Report::Wanted(want(&k, Retry::Now)));
        hand_on(&mut reports, &mut publisher, NOW);
        assert_eq!(
            granted(&mut publisher, NOW),
            Some(k),
            "read between: {read_between}"
        );
    }
}

#[test]
fn a_request_carries_what_was_wanted_before_it_was_built() {
    let (mut publisher, mut reports) = (Publisher::new(pacing(0.0, 1), 0), Reports::default());
    let k = key("ns", "k");
    publisher.wanted(&k, &want(&k, Retry::Now), NOW);
    assert_eq!(granted(&mut publisher, NOW), Some(k.clone()));
    push(&mut reports, &k, Report::Wanted(want(&k, Retry::Now)));
    push(&mut reports, &k, Report::Replied(Reply::Built(update())));
    let replied = hand_on(&mut reports, &mut publisher, NOW);
    assert_eq!(replied, [Replied::Send(update())]);
    publisher.answered(&k, landing(Load::Answered, NOW), NOW);
    publisher.replied(&k, Reply::Settled, NOW);
    assert!(publisher.queue().is_idle());
}

/// A shard that has forgotten a request, as one that stood by has, settles it without a look at the object.
#[test]
fn a_settled_answer_does_not_cover_what_was_wanted_before() {
    let (mut publisher, mut reports) = (Publisher::new(pacing(0.0, 1), 0), Reports::default());
    let k = key("ns", "k");
    publisher.wanted(&k, &want(&k, Retry::Now), NOW);
    assert_eq!(granted(&mut publisher, NOW), Some(k.clone()));
    push(&mut reports, &k, Report::Replied(Reply::Built(update())));
    hand_on(&mut reports, &mut publisher, NOW);
    publisher.answered(&k, landing(Load::Answered, NOW), NOW);
    push(&mut reports, &k, Report::Wanted(want(&k, Retry::Now)));
    push(&mut reports, &k, Report::Replied(Reply::Settled));
    hand_on(&mut reports, &mut publisher, NOW);
    assert_eq!(granted(&mut publisher, NOW), Some(k));
}

/// The writer is not woken to hear that objects are settled, and takes that with the next wants.
#[test]
fn a_service_whose_objects_were_settled_together_and_are_due_again_is_out_of_sync_since_then() {
    let (mut publisher, mut reports) = (Publisher::new(pacing(0.0, 8), 0), Reports::default());
    let objects = ["a", "b"].map(|name| key("ns", name));
    for second in 0..3 {
        let now = Duration::from_secs(second);
        for k in &objects {
            push(&mut reports, k, Report::Wanted(want(k, Retry::Now)));
        }
        assert!(reports.is_urgent());
        hand_on(&mut reports, &mut publisher, now);
        assert_eq!(publisher.queue().out_of_sync(now), (1, NOW), "at {second} s");
        for _ in &objects {
            let k = granted(&mut publisher, now).unwrap();
            push(&mut reports, &k, Report::Replied(Reply::Built(update())));
            hand_on(&mut reports, &mut publisher, now);
            publisher.answered(&k, landing(Load::Answered, NOW), now);
            push(&mut reports, &k, Report::Replied(Reply::Settled));
        }
        assert!(!reports.is_urgent());
    }
}

#[test]
fn what_a_namespace_says_of_many_objects_does_not_hold_up_another() {
    let mut reports = Reports::default();
    let push_to = |reports: &mut Reports, key: Hashed<ObjectKey>| {
        push(reports, &key, Report::Wanted(want(&key, Retry::Now)));
    };
    for number in 0..100_000 {
        push_to(&mut reports, key("tenant", &format!("k{number}")));
    }
    push_to(&mut reports, key("other", "first"));
    push_to(&mut reports, key("other", "second"));
    let mut taken = std::iter::from_fn(|| match reports.take()? {
        Taken::Role(_) => panic!("no role has changed"),
        Taken::Reported(key, _) => Some(key),
    });
    let begin: Vec<_> = taken.by_ref().take(5).collect();
    assert_eq!(
        begin,
        [
            key("tenant", "k0"),
            key("other", "first"),
            key("tenant", "k1"),
            key("other", "second"),
            key("tenant", "k2"),
        ]
    );
    assert_eq!(taken.count(), 100_000 - 3);
    assert!(!reports.is_urgent() && reports.settled() == 0);
}

#[test]
fn ten_thousand_refused_services_of_one_namespace_leave_the_rate_to_the_others() {
    let mut publisher = Publisher::new(
        Pacing {
            burst: 100,
            ..pacing(500.0, 64)
        },
        0,
    );
    let hopeless: Vec<_> = (0..10_000).map(|i| key("tenant", &format!("k{i}"))).collect();
    for key in &hopeless {
        publisher.wanted(key, &want(key, Retry::Slowly { failures: 9 }), NOW);
    }
    let mut sent = 0;
    for tenth in 0..1200u32 {
        let now = tenth * SECOND / 10;
        while let Some(key) = granted(&mut publisher, now) {
            sent += 1;
            publisher.replied(&key, Reply::Built(update()), now);
            publisher.answered(&key, landing(Load::Declined, NOW), now);
            publisher.wanted(&key, &want(&key, Retry::Slowly { failures: 9 }), now);
        }
    }
    // One a second, for two minutes.
    assert!((90..=121).contains(&sent), "{sent}");
}

#[test]
fn one_object_that_is_never_answered_does_not_make_the_window_small() {
    let mut publisher = Publisher::new(pacing(0.0, 64), 0);
    let before = publisher.window();
    let k = key("ns", "k");
    let mut now = NOW;
    for _ in 0..50 {
        publisher.wanted(&k, &want(&k, Retry::Now), now);
        assert_eq!(granted(&mut publisher, now), Some(k.clone()));
        publisher.replied(&k, Reply::Built(update()), now);
        now += LONGEST;
        publisher.answered(&k, landing(Load::Unanswered, LONGEST), now);
    }
    assert!(
        publisher.window() >= before / 2,
        "halved once: {}",
        publisher.window()
    );
    // Many namespaces that were answered before are another matter.
    for load in [Load::Answered, Load::Unanswered] {
        for i in 0..8 {
            let other = key(&format!("ns{i}"), "other");
            publisher.wanted(&other, &want(&other, Retry::Now), now);
            assert_eq!(granted(&mut publisher, now), Some(other.clone()));
            publisher.replied(&other, Reply::Built(update()), now);
            now += SECOND;
            publisher.answered(&other, landing(load, SECOND / 2), now);
        }
    }
    assert_eq!(publisher.window(), 2);
}

#[test]
fn neither_looks_in_between_nor_slowness_of_one_object_make_the_window_small() {
    let mut publisher = Publisher::new(pacing(0.0, 64), 0);
    let (k, quick) = (key("ns", "k"), key("other", "k"));
    let mut now = NOW;
    let mut one = |key: &Hashed<ObjectKey>, request: Request, load: Load, took: Duration| {
        publisher.wanted(key, &want(key, Retry::Now), now);
        assert_eq!(granted(&mut publisher, now), Some(key.clone()));
        publisher.replied(key, Reply::Built(BuiltRequest { request, changes: 1 }), now);
        now += took.max(MS * 10);
        publisher.answered(key, landing(load, took), now);
        publisher.window()
    };
    let usual = one(&quick, Request::Update(Vec::new()), Load::Answered, MS);
    for round in 0..20 {
        one(&k, Request::Update(Vec::new()), Load::Unanswered, SECOND);
        let window = one(&k, Request::Fetch, Load::Answered, MS);
        assert!(window >= usual / 2, "{round}: {window}");
    }
    for round in 0..20 {
        let window = one(&k, Request::Update(Vec::new()), Load::Answered, 10 * SECOND);
        assert!(window >= usual / 2, "{round}: {window}");
    }
}

/// A webhook refuses the writes of one namespace with 429 and a `Retry-After` of half a minute.
#[test]
fn a_pause_that_is_asked_for_in_one_namespace_holds_up_no_other() {
    let mut publisher = Publisher::new(pacing(0.0, 64), 0);
    let window = publisher.window();
    let refuse = |publisher: &mut Publisher, key: &Hashed<ObjectKey>, now: Duration| {
        publisher.replied(key, Reply::Built(update()), now);
        let refused = Landing {
            pause: Some(30 * SECOND),
            ..landing(Load::Declined, MS)
        };
        publisher.answered(key, refused, now);
    };
    let (refused, other) = (key("refused", "k"), key("other", "k"));
    let mut now = NOW;
    for round in 0..20 {
        publisher.wanted(&refused, &want(&refused, Retry::Now), now);
        assert_eq!(granted(&mut publisher, now), Some(refused.clone()), "{round}");
        refuse(&mut publisher, &refused, now);
        publisher.wanted(&refused, &want(&refused, Retry::Now), now);
        publisher.wanted(&other, &want(&other, Retry::Now), now);
        assert_eq!(granted(&mut publisher, now), Some(other.clone()), "{round}");
        publisher.replied(&other, Reply::Built(update()), now);
        publisher.answered(&other, landing(Load::Answered, MS), now);
        assert!(matches!(publisher.next(now), Next::Wait { .. }), "{round}");
        assert_eq!(granted(&mut publisher, now + 29 * SECOND), None, "{round}");
        now += 30 * SECOND;
        assert_eq!(granted(&mut publisher, now), Some(refused.clone()), "{round}");
        refuse(&mut publisher, &refused, now);
        now += 30 * SECOND;
    }
    assert!(publisher.window() >= window / 2, "{}", publisher.window());
}

#[test]
fn a_namespace_whose_requests_are_not_answered_leaves_room_for_others() {
    let mut publisher = Publisher::new(pacing(0.0, 64), 0);
    for i in 0..100 {
        let hung = key("tenant", &format!("k{i}"));
        publisher.wanted(&hung, &want(&hung, Retry::Now), NOW);
    }
    let out = std::iter::from_fn(|| granted(&mut publisher, NOW)).count();
    assert!((1..publisher.window()).contains(&out), "{out}");
    let other = key("other", "k");
    for round in 0..10 {
        publisher.wanted(&other, &want(&other, Retry::Now), NOW);
        assert_eq!(granted(&mut publisher, NOW), Some(other.clone()), "{round}");
        publisher.replied(&other, Reply::Built(update()), NOW);
        publisher.answered(&other, landing(Load::Answered, MS), NOW);
    }
}

#[test]
fn what_was_granted_in_one_term_is_not_sent_in_the_next() {
    let mut publisher = Publisher::new(pacing(0.0, 64), 0);
    let k = key("ns", "k");
    publisher.wanted(&k, &want(&k, Retry::Now), NOW);
    assert_eq!(granted(&mut publisher, NOW), Some(k.clone()));
    // The lease is lost and won again before the shard replies, and the writer hears of that afterwards.
    publisher.set_term(Term(2));
    assert_eq!(
        publisher.replied(&k, Reply::Built(update()), NOW),
        Replied::Unsent
    );
    publisher.answered(&k, landing(Load::Unknown, NOW), NOW);
    publisher.wanted(&k, &want(&k, Retry::Now), NOW);
    assert_eq!(granted(&mut publisher, NOW), Some(k.clone()));
    assert_eq!(
        publisher.replied(&k, Reply::Built(update()), NOW),
        Replied::Send(update())
    );
}

#[test]
fn changes_of_a_refused_object_do_not_put_off_its_next_try() {
    let mut publisher = Publisher::new(pacing(20.0, 64), 0);
    let (k, other) = (key("tenant", "k"), key("tenant", "other"));
    publisher.wanted(&k, &want(&k, Retry::Slowly { failures: 5 }), NOW);
    // Its pods change ten times a second for ten minutes.
    let mut tries = 0;
    for tenth in 0..6000u32 {
        let now = tenth * SECOND / 10;
        publisher.wanted(&k, &want(&k, Retry::Floor), now);
        while let Some(key) = granted(&mut publisher, now) {
            tries += 1;
            publisher.replied(&key, Reply::Built(update()), now);
            publisher.answered(&key, landing(Load::Answered, MS), now);
            publisher.wanted(&key, &want(&key, Retry::Slowly { failures: 9 }), now);
        }
    }
    assert!(tries >= 20, "{tries}");
    publisher.wanted(&other, &want(&other, Retry::Floor), 600 * SECOND);
    let soon = (0..60).find_map(|second| {
        let now = (600 + second) * SECOND;
        std::iter::from_fn(|| granted(&mut publisher, now)).find(|key| *key == other)
    });
    assert_eq!(
        soon,
        Some(other),
        "others of its namespace do not wait for long either"
    );
}

#[test]
fn what_is_said_while_this_process_may_not_write_is_not_lost() {
    let mut publisher = Publisher::new(pacing(0.0, 64), 0);
    let k = key("ns", "k");
    publisher.wanted(&k, &want(&k, Retry::Now), NOW);
    assert_eq!(granted(&mut publisher, NOW), Some(k.clone()));
    publisher.replied(&k, Reply::Built(update()), NOW);
    publisher.change_role(RoleChange::new(Role::Standby, None));
    publisher.answered(&k, landing(Load::Unknown, NOW), NOW);
    // The shard has not heard of it yet, or has heard already that the lease was won again.
    publisher.wanted(&k, &want(&k, Retry::Now), NOW);
    assert_eq!(granted(&mut publisher, NOW), None);
    publisher.change_role(RoleChange::new(Role::Leader, None));
    assert_eq!(granted(&mut publisher, NOW), Some(k.clone()));
    publisher.replied(&k, Reply::Nothing, NOW);
    assert!(publisher.queue().is_idle());
}

#[test]
fn a_process_that_may_not_write_grants_nothing_and_takes_back_what_was_built() {
    let mut publisher = Publisher::new(pacing(0.0, 4), 0);
    let k = key("ns", "k");
    publisher.wanted(&k, &want(&k, Retry::Now), NOW);
    assert_eq!(granted(&mut publisher, NOW), Some(k.clone()));
    publisher.wanted(&key("ns", "l"), &want(&k, Retry::Now), NOW);
    publisher.change_role(RoleChange::new(Role::Standby, None));
    assert_eq!(
        publisher.replied(&k, Reply::Built(update()), NOW),
        Replied::Unsent
    );
    publisher.answered(&k, landing(Load::Unknown, NOW), NOW);
    publisher.replied(&k, Reply::Settled, NOW);
    assert_eq!(granted(&mut publisher, NOW), None);
    assert!(publisher.queue().is_idle());
}

#[test]
fn a_writer_that_stood_still_while_the_lease_was_lost_and_won_again_keeps_what_the_new_term_wants() {
    let (mut publisher, mut reports) = (Publisher::new(pacing(0.0, 1), 0), Reports::default());
    let (old, new) = (key("ns", "old"), key("ns", "new"));
    publisher.wanted(&old, &want(&old, Retry::Now), NOW);
    reports.change_role(Role::Standby);
    reports.change_role(Role::Leader);
    push(&mut reports, &new, Report::Wanted(want(&new, Retry::Now)));
    hand_on(&mut reports, &mut publisher, NOW);
    assert_eq!(granted(&mut publisher, NOW), Some(new.clone()));
    publisher.replied(&new, Reply::Nothing, NOW);
    assert_eq!(
        granted(&mut publisher, NOW),
        None,
        "what the old term wanted is forgotten"
    );
}

/// Counts the objects that are written in ten seconds, of so many that always have a change.
fn written_in_ten_seconds(publisher: &mut Publisher, keys: &[Hashed<ObjectKey>]) -> usize {
    for key in keys {
        publisher.wanted(key, &want(key, Retry::Now), NOW);
    }
    let (mut now, mut written) = (NOW, 0);
    while now < SECOND * 10 && written < 20_000 {
        match publisher.next(now) {
            Next::Grant { key, .. } => {
                written += 1;
                publisher.replied(&key, Reply::Built(update()), now);
                publisher.wanted(&key, &want(&key, Retry::Now), now);
                let landing = Landing {
                    effect: WriteEffect::Written(written as u64),
                    ..landing(Load::Answered, MS)
                };
                publisher.answered(&key, landing, now);
            }
            Next::Wait { until, .. } => now = until.unwrap_or(now + MS).max(now + MS),
        }
    }
    written
}

#[test]
fn where_echoes_tell_nothing_writes_go_at_the_rate_of_kube_controller_manager() {
    let endpoints =
        |number: usize| ObjectKey::hashed("ns", ObjectName::endpoints(format!("e{number}").as_str().into()));
    let slice = |number: usize| key("ns", &format!("s{number}"));
    let endpoints: Vec<_> = (0..30).map(endpoints).collect();
    let slices: Vec<_> = (0..30).map(slice).collect();
    let watch = |watchers, each| Pacing {
        watch: WatchLimits {
            watchers: Watchers::Fixed(watchers),
            each,
            ..WatchLimits::UNWATCHED
        },
        ..Pacing::unlimited(64)
    };
    for (keys, budget) in [
        (&endpoints, 520_000.0),
        (&endpoints, 0.0),
        (&slices, 0.0),
        (&slices, 2_000_000.0),
    ] {
        let mut publisher = Publisher::new(watch(300, budget), 0);
        let written = written_in_ten_seconds(&mut publisher, keys);
        assert!(
            (200..=208).contains(&written),
            "{}: {written}",
            keys[0].object.name
        );
    }
    // Without watchers, there is nothing to be limited.
    let mut publisher = Publisher::new(watch(0, 0.0), 0);
    assert!(written_in_ten_seconds(&mut publisher, &endpoints) > 10_000);
}

/// In a quiet cluster no message comes until their webhook gives up.
#[test]
fn a_namespace_that_waits_for_those_that_hang_is_looked_at_when_they_leave_their_places() {
    let mut publisher = Publisher::new(pacing(0.0, 64), 0);
    let well = key("well", "k");
    publisher.wanted(&well, &want(&well, Retry::Now), NOW);
    assert_eq!(granted(&mut publisher, NOW), Some(well.clone()));
    publisher.replied(&well, Reply::Built(update()), NOW);
    publisher.answered(&well, landing(Load::Answered, MS), NOW);
    publisher.replied(&well, Reply::Settled, NOW);
    let hang = |publisher: &mut Publisher, number: usize, now: Duration| {
        let hung = key(&format!("hung-{number}"), "k");
        publisher.wanted(&hung, &want(&hung, Retry::Now), now);
        let next = granted(publisher, now);
        if let Some(key) = &next {
            publisher.replied(key, Reply::Built(update()), now);
        }
        next.is_some()
    };
    assert!(hang(&mut publisher, 0, NOW));
    let now = NOW + 2 * SECOND;
    let out = (1..1000)
        .take_while(|number| hang(&mut publisher, *number, now))
        .count();
    assert!(
        out <= 2 * publisher.window(),
        "no more leave their places than the window has: {out}"
    );
    let Next::Wait { until, .. } = publisher.next(now) else {
        panic!("one was held back")
    };
    let until = until.expect("it is looked at again");
    assert!(until <= now + SECOND, "{until:?}");
    assert!(matches!(publisher.next(now + SECOND), Next::Grant { .. }));
}

#[test]
fn a_slow_read_tells_nothing_of_how_promptly_writes_are_answered() {
    for (request, slow) in [
        (Request::Fetch, false),
        (Request::Probe, false),
        (Request::Update(Vec::new()), true),
    ] {
        let mut publisher = Publisher::new(pacing(0.0, 8), 0);
        let k = key("ns", "k");
        publisher.wanted(&k, &want(&k, Retry::Now), NOW);
        assert_eq!(granted(&mut publisher, NOW), Some(k.clone()));
        let built = BuiltRequest { request, changes: 0 };
        publisher.replied(&k, Reply::Built(built), NOW);
        let _ = publisher.next(20 * SECOND);
        assert_eq!(publisher.queue.is_prompt(k.tenant()), slow.then_some(false));
    }
}

#[test]
fn a_server_that_hangs_is_asked_once_a_second_whatever_waits() {
    let mut publisher = Publisher::new(pacing(0.0, 16), 0);
    let keys: Vec<_> = (0..1_000)
        .map(|number| key(&format!("ns{number}"), "k"))
        .collect();
    for key in &keys {
        publisher.queue.set_slow(key.tenant(), false);
        publisher.wanted(key, &want(key, Retry::Now), NOW);
    }
    let mut in_flight = Vec::new();
    for tick in 0..600 {
        let now = MS * 10 * tick;
        // The shards reply when the writer has granted all that it may.
        let granted: Vec<_> = std::iter::from_fn(|| granted(&mut publisher, now)).collect();
        for key in granted {
            publisher.replied(&key, Reply::Built(update()), now);
        }
        in_flight.push(publisher.queue().in_flight());
    }
    let full = 16 + TUNING.hanging_most;
    assert_eq!(in_flight[99], full);
    assert!(in_flight[599] <= full + 6, "{}", in_flight[599]);
}
