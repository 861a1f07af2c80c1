use super::*;
use crate::core::leadership::role::{Role, RoleChange};
use serde_json::{Value, json};

const START: i64 = 1_767_225_600;

fn at(seconds: u64) -> Moment {
    Moment {
        now: Duration::from_secs(seconds),
        wall: Time::from_seconds(START + seconds.cast_signed()),
    }
}

fn notice(name: &str, message: &str) -> Notice {
    Notice {
        source: Source::Slices,
        involved: Involved {
            kind: InvolvedKind::Service,
            namespace: "ns".into(),
            name: name.into(),
            uid: Uid::from("u1"),
            version: Some(7),
        },
        warning: true,
        reason: "FailedToUpdateEndpointSlices",
        message: message.to_owned(),
    }
}

fn body(write: &EventWrite) -> (bool, Value) {
    match &write.request {
        EventRequest::Create(body) => (true, serde_json::from_slice(body).unwrap()),
        EventRequest::Patch(body) => (false, serde_json::from_slice(body).unwrap()),
    }
}

/// Writes all that may be written now. Each: its name, whether it is a create, and the body.
fn drain(log: &mut EventLog, now: Duration) -> Vec<(String, bool, Value)> {
    let mut out = Vec::new();
    while let Some(write) = log.next(now) {
        let (create, value) = body(&write);
        out.push((write.name.to_string(), create, value));
        log.done(&write.key, EventOutcome::Written, now);
    }
    out
}

#[test]
fn an_event_is_created_then_counted() {
    let mut log = EventLog::default();
    log.record(notice("s", "m"), 1, at(1));
    let write = log.next(at(1).now).unwrap();
    let name = format!("s.{:x}", (START + 1) * 1_000_000_000);
    assert_eq!((&*write.namespace, &*write.name), ("ns", &*name));
    let created = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "ns"},
        "involvedObject": {
            "apiVersion": "v1", "kind": "Service", "namespace": "ns", "name": "s", "uid": "u1",
            "resourceVersion": "7",
        },
        "type": "Warning", "reason": "FailedToUpdateEndpointSlices", "message": "m",
        "source": {"component": "endpoint-slice-controller"},
        "reportingComponent": "endpoint-slice-controller", "reportingInstance": "",
        "firstTimestamp": "2026-01-01T00:00:01Z", "lastTimestamp": "2026-01-01T00:00:01Z", "count": 1,
    });
    assert_eq!(body(&write), (true, created));
    // While it is on its way nothing else goes, and what happens is counted.
    for second in 2..5 {
        log.record(notice("s", "m"), 1, at(second));
        assert_eq!(log.next(at(second).now), None);
        assert_eq!(log.next_due(), None);
    }
    log.done(&write.key, EventOutcome::Written, at(5).now);
    let patch = json!({"count": 4, "lastTimestamp": "2026-01-01T00:00:04Z", "message": "m"});
    assert_eq!(drain(&mut log, at(5).now), [(name, false, patch)]);
    assert_eq!(log.next_due(), None);
}

#[test]
fn what_is_not_the_same_is_another_event() {
    let mut log = EventLog::default();
    let mut notices = vec![notice("s", "m"), notice("t", "m"), notice("s", "n")];
    let other = |change: fn(&mut Notice)| {
        let mut other = notice("s", "m");
        change(&mut other);
        other
    };
    notices.push(other(|n| n.warning = false));
    notices.push(other(|n| n.reason = "Other"));
    notices.push(other(|n| n.source = Source::Endpoints));
    notices.push(other(|n| n.involved.kind = InvolvedKind::Endpoints));
    notices.push(other(|n| n.involved.uid = Uid::none()));
    notices.push(other(|n| n.involved.namespace = "other".into()));
    for notice in notices.iter().chain(&notices) {
        log.record(notice.clone(), 1, at(1));
    }
    let mut same = notice("s", "m");
    same.involved.version = None;
    log.record(same, 1, at(1));
    let mut written = drain(&mut log, at(1).now);
    assert_eq!(written.len(), notices.len());
    // Namespaces take turns; within one, the order stays.
    let other = written.remove(1);
    assert_eq!(other.2["metadata"]["namespace"], "other");
    written.push(other);
    let mut names: Vec<_> = written.iter().map(|(name, ..)| name).collect();
    names.sort();
    names.dedup();
    assert_eq!(
        names.len(),
        notices.len(),
        "names differ though the time is the same"
    );
    let counts: Vec<_> = written.iter().map(|(.., value)| value["count"].clone()).collect();
    assert_eq!(counts[0], 3);
    assert!(counts[1..].iter().all(|count| *count == 2));
    assert_eq!(written[3].2["type"], "Normal");
    assert_eq!(written[5].2["source"]["component"], "endpoint-controller");
    assert_eq!(written[6].2["involvedObject"]["kind"], "Endpoints");
    assert_eq!(written[7].2["involvedObject"].get("uid"), None);
}

#[test]
fn the_tenth_message_is_combined() {
    let mut log = EventLog::default();
    for number in 0..100 {
        log.record(notice("s", &format!("m{number}")), 1, at(number));
    }
    // A message that has its Event keeps it.
    log.record(notice("s", "m3"), 1, at(100));
    let written = drain(&mut log, at(100).now);
    assert_eq!(written.len(), COMBINED_FROM);
    let message = |i: usize| {
        (
            written[i].2["message"].as_str().unwrap(),
            written[i].2["count"].as_u64(),
        )
    };
    assert_eq!(message(0), ("m0", Some(1)));
    assert_eq!(message(3), ("m3", Some(2)));
    assert_eq!(message(9), ("(combined from similar events): m99", Some(91)));
    assert_eq!(written[9].2["firstTimestamp"], "2026-01-01T00:00:09Z");
    // Another reason, and another object, are not similar.
    let mut other = notice("s", "n");
    other.reason = "Other";
    log.record(other, 1, at(100));
    log.record(notice("t", "n"), 1, at(100));
    for (.., value) in drain(&mut log, at(100).now) {
        assert_eq!(value["message"], "n");
    }
    // One more is a patch of the same Event; after ten quiet minutes it has one of its own.
    log.record(notice("s", "x"), 1, at(700));
    let patched = drain(&mut log, at(700).now);
    assert_eq!((&patched[0].0, patched[0].1), (&written[9].0, false));
    assert_eq!(patched[0].2["message"], "(combined from similar events): x");
    assert_eq!(patched[0].2["count"], 92);
    log.record(notice("s", "y"), 1, at(1301));
    assert_eq!(drain(&mut log, at(1301).now)[0].2["message"], "y");
}

#[test]
fn an_object_that_keeps_failing_is_written_about_ever_less_but_counted() {
    let mut log = EventLog::default();
    let mut requests = 0;
    // A failure every second for ten hours, and a look every second.
    for second in 1..=36_000 {
        log.record(notice("s", "m"), 1, at(second));
        requests += drain(&mut log, at(second).now).len() as u64;
    }
    // The burst, and one every five minutes.
    assert!((144..=146).contains(&requests), "{requests}");
    // The last ones are written when their turn comes, though nothing happens any more.
    let due = log.next_due().unwrap();
    assert!(due <= at(36_301).now, "{due:?}");
    assert_eq!(log.next(due.checked_sub(Duration::from_millis(1)).unwrap()), None);
    let last = drain(&mut log, due);
    assert_eq!(last[0].2["count"], 36_000);
    assert_eq!(last[0].2["lastTimestamp"], "2026-01-01T10:00:00Z");
    assert_eq!(log.next_due(), None);
}

#[test]
fn a_quiet_object_is_not_held_up_by_a_noisy_one() {
    let mut log = EventLog::default();
    for _ in 0..OBJECT_BURST {
        log.record(notice("noisy", "m"), 1, at(1));
        assert_eq!(drain(&mut log, at(1).now).len(), 1);
    }
    log.record(notice("noisy", "m"), 1, at(1));
    log.record(notice("quiet", "m"), 1, at(1));
    let written = drain(&mut log, at(1).now);
    assert_eq!(written.len(), 1);
    assert!(written[0].0.starts_with("quiet."), "{written:?}");
    assert!(log.next_due().is_some());
}

#[test]
fn all_together_keep_within_a_budget() {
    let mut log = EventLog::default();
    for number in 0..1000 {
        log.record(notice(&format!("s{number}"), "m"), 1, at(1));
    }
    assert_eq!(drain(&mut log, at(1).now).len(), BURST as usize);
    let (mut now, mut written) = (at(1).now, 0);
    while let Some(due) = log.next_due() {
        assert!(due > now, "a wait that does not end");
        now = due;
        written += drain(&mut log, now).len();
    }
    assert_eq!(written, 950);
    assert!(
        now >= Duration::from_secs(190) && now <= Duration::from_secs(192),
        "{now:?}"
    );
}

#[test]
fn ten_thousand_events_of_a_namespace_do_not_keep_others_out() {
    let mut log = EventLog::default();
    let of = |namespace: &str, name: &str| {
        let mut notice = notice(name, "m");
        notice.involved.namespace = namespace.into();
        notice
    };
    log.record(of("before", "s"), 1, at(1));
    for number in 0..10_000 {
        log.record(of("loud", &format!("s{number}")), 1, at(1));
    }
    // Entries of other namespaces are not pushed out, and wait no longer than for one turn of each namespace.
    let mut names = Vec::new();
    while let Some(write) = log.next(at(1).now) {
        names.push(write.namespace.to_string());
        log.done(&write.key, EventOutcome::Written, at(1).now);
    }
    assert_eq!(names.len(), BURST as usize);
    assert!(names[..2].contains(&"before".to_owned()), "{:?}", &names[..5]);
    // The burst is spent, and the loud one has thousands waiting: who comes now is next, or the next but one.
    for second in 2..20 {
        let now = at(second);
        log.record(of("other", &format!("s{second}")), 1, now);
        log.record(of("third", &format!("s{second}")), 1, now);
        let mut turns = Vec::new();
        while let Some(write) = log.next(now.now) {
            turns.push(write.namespace.to_string());
            log.done(&write.key, EventOutcome::Written, now.now);
        }
        assert!((4..=6).contains(&turns.len()), "{turns:?}");
        for quiet in ["other", "third"] {
            let place = turns.iter().position(|name| name == quiet).unwrap();
            assert!(place < 3, "{turns:?}");
        }
        assert!(
            turns.iter().filter(|name| *name == "loud").count() >= 2,
            "{turns:?}"
        );
    }
    assert!(
        log.take_given_up() > 5000,
        "what is too much of the loud one's is counted"
    );
}

#[test]
fn a_full_inbox_loses_what_the_loudest_said() {
    let mut inbox = NoticeInbox::default();
    let mut quiet = notice("quiet", "m");
    quiet.involved.namespace = "quiet".into();
    inbox.record(quiet.clone());
    for number in 0..10_000 {
        inbox.record(notice(&format!("s{number}"), "m"));
        inbox.record(notice(&format!("s{number}"), "m"));
    }
    inbox.record(quiet.clone());
    let taken = inbox.take();
    let (pending, dropped) = (taken.notices, taken.dropped);
    assert_eq!((pending.len(), dropped), (4096, 2 * (10_000 - 4095)));
    let first = RepeatedNotice {
        notice: quiet,
        times: 2,
    };
    assert_eq!(pending[0], first);
    assert_eq!(
        (&*pending[4095].notice.involved.name, pending[4095].times),
        ("s4094", 2)
    );
    assert_eq!(inbox.take(), TakenNotices::default());
}

#[test]
fn notices_of_a_new_term_outlive_the_loss_of_the_last_one() {
    let mut inbox = NoticeInbox::default();
    inbox.record(notice("old", "m"));
    inbox.change_role(Role::Standby);
    inbox.record(notice("between", "m"));
    inbox.change_role(Role::Leader);
    inbox.record(notice("new", "m"));
    let taken = inbox.take();
    let change = RoleChange {
        role: Role::Leader,
        lost: true,
    };
    assert_eq!(taken.role, Some(change));
    let names: Vec<_> = taken
        .notices
        .iter()
        .map(|pending| &*pending.notice.involved.name)
        .collect();
    assert_eq!(names, ["new"]);
}

#[test]
fn memory_is_bounded_and_the_oldest_go() {
    let mut log = EventLog::with_limit(10);
    for number in 0..100 {
        log.record(notice(&format!("s{number}"), "m"), 1, at(1));
    }
    assert_eq!((log.entries.len(), log.objects.len()), (10, 10));
    assert_eq!(log.take_given_up(), 90);
    assert_eq!(log.take_given_up(), 0);
    let written = drain(&mut log, at(2).now);
    assert!(
        written[0].0.starts_with("s90.") && written[9].0.starts_with("s99."),
        "{written:?}"
    );
    // One that was written and is forgotten is no loss.
    for number in 0..10 {
        log.record(notice(&format!("t{number}"), "m"), 1, at(100));
    }
    assert_eq!(log.take_given_up(), 0);
    // One that is on its way may be forgotten; what comes of it does no harm, nor does it when it is back.
    let write = log.next(at(100).now).unwrap();
    for number in 0..10 {
        log.record(notice(&format!("u{number}"), "m"), 1, at(100));
    }
    log.record(notice("t0", "m"), 1, at(101));
    log.done(&write.key, EventOutcome::Written, at(101).now);
    let written = drain(&mut log, at(200).now);
    assert_eq!(written.len(), 10);
    let back = written.iter().find(|(name, ..)| name.starts_with("t0.")).unwrap();
    assert!(
        back.1 && back.0 != *write.name && back.2["count"] == 1,
        "{back:?}"
    );
}

#[test]
fn many_messages_of_one_object_are_bounded() {
    let mut log = EventLog::default();
    for number in 0..100_000 {
        log.record(notice("s", &format!("m{number}")), 1, at(1));
    }
    assert_eq!((log.entries.len(), log.objects.len()), (COMBINED_FROM, 1));
}

#[test]
fn an_event_that_has_expired_is_made_again_with_its_count() {
    let mut log = EventLog::default();
    log.record(notice("s", "m"), 3, at(1));
    let name = drain(&mut log, at(1).now)[0].0.clone();
    log.record(notice("s", "m"), 1, at(4000));
    let write = log.next(at(4000).now).unwrap();
    assert!(!body(&write).0);
    log.done(&write.key, EventOutcome::NotFound, at(4000).now);
    let again = drain(&mut log, at(4000).now);
    assert_eq!((&again[0].0, again[0].1), (&name, true));
    assert_eq!(again[0].2["count"], 4);
    assert_eq!(again[0].2["firstTimestamp"], "2026-01-01T00:00:01Z");
    assert_eq!(log.next_due(), None);
}

#[test]
fn a_create_whose_answer_was_lost_is_put_right() {
    let mut log = EventLog::default();
    log.record(notice("s", "m"), 1, at(1));
    let write = log.next(at(1).now).unwrap();
    log.done(
        &write.key,
        EventOutcome::Failed {
            pause: None,
            alone: false,
        },
        at(1).now,
    );
    assert_eq!(log.next(at(1).now), None, "a failure makes all wait");
    let due = log.next_due().unwrap();
    assert_eq!(due, at(1).now + FIRST_PAUSE);
    let write = log.next(due).unwrap();
    assert!(body(&write).0);
    log.done(&write.key, EventOutcome::Exists, due);
    let patched = drain(&mut log, due);
    assert_eq!((patched[0].1, &patched[0].2["count"]), (false, &json!(1)));
    assert_eq!(log.next_due(), None);
}

#[test]
fn nothing_is_tried_for_ever() {
    let answers: [fn(bool) -> EventOutcome; 3] = [
        |_| EventOutcome::Failed {
            pause: None,
            alone: false,
        },
        |_| EventOutcome::Rejected,
        // A server that contradicts itself.
        |create| {
            if create {
                EventOutcome::Exists
            } else {
                EventOutcome::NotFound
            }
        },
    ];
    for (number, answer) in answers.into_iter().enumerate() {
        let mut log = EventLog::default();
        log.record(notice("s", "m"), 1, at(1));
        let mut tries = 0;
        while let Some(now) = log.next_due() {
            let write = log.next(now).unwrap();
            log.done(&write.key, answer(body(&write).0), now);
            tries += 1;
            assert!(tries <= TRIES, "{number}");
        }
        assert_eq!(tries, if number == 1 { 1 } else { TRIES }, "{number}");
        assert_eq!(log.take_given_up(), 1);
        // The Event is tried again when it happens again, with the count of all occurrences.
        let later = at(1000);
        log.record(notice("s", "m"), 1, later);
        let written = drain(&mut log, later.now);
        assert_eq!(written.len(), 1);
        assert_eq!(written[0].2["count"], 2);
    }
}

#[test]
fn pauses_grow_end_and_are_capped() {
    let mut log = EventLog::default();
    let mut now = at(1).now;
    for number in 0..12 {
        log.record(notice(&format!("s{number}"), "m"), 1, at(1));
    }
    let mut pauses = Vec::new();
    for _ in 0..12 {
        let write = log.next(now).unwrap();
        log.done(
            &write.key,
            EventOutcome::Failed {
                pause: None,
                alone: false,
            },
            now,
        );
        let due = log.next_due().unwrap();
        pauses.push(due.saturating_sub(now).as_secs());
        now = due;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60, 60]);
    // The server is back: all go, and the next failure is the first again.
    assert_eq!(drain(&mut log, now).len(), 12);
    log.record(notice("s0", "m"), 1, at(2000));
    let write = log.next(at(2000).now).unwrap();
    let pause = Some(Duration::from_secs(7));
    log.done(
        &write.key,
        EventOutcome::Failed { pause, alone: false },
        at(2000).now,
    );
    assert_eq!(
        log.next_due(),
        Some(at(2007).now),
        "what the server asks for counts"
    );
    let write = log.next(at(2007).now).unwrap();
    let pause = Some(Duration::from_secs(86_400));
    log.done(
        &write.key,
        EventOutcome::Failed { pause, alone: false },
        at(2007).now,
    );
    assert_eq!(log.next_due(), Some(at(2067).now), "but not for a day");
}

#[test]
fn an_answer_to_nothing_is_ignored() {
    let mut log = EventLog::default();
    log.record(notice("s", "m"), 1, at(1));
    log.done(&notice("s", "m").key(), EventOutcome::Written, at(1).now);
    let write = log.next(at(1).now).unwrap();
    log.done(&notice("t", "m").key(), EventOutcome::Written, at(1).now);
    assert_eq!(log.next(at(1).now), None);
    log.done(&write.key, EventOutcome::Written, at(1).now);
    assert_eq!((log.next_due(), log.take_given_up()), (None, 0));
}

#[test]
fn long_messages_are_cut_between_characters() {
    let mut log = EventLog::default();
    log.record(notice("s", &"\u{e9}".repeat(2000)), 1, at(1));
    log.record(notice("s", &format!("x{}", "\u{e9}".repeat(2000))), 1, at(1));
    let written = drain(&mut log, at(1).now);
    assert_eq!(written[0].2["message"].as_str().unwrap().len(), 1024);
    assert_eq!(written[1].2["message"].as_str().unwrap().len(), 1023);
}

#[test]
fn what_fails_in_one_namespace_does_not_make_others_wait() {
    let mut log = EventLog::default();
    let in_namespace = |namespace: &str| {
        let mut notice = notice("s", "m");
        notice.involved.namespace = namespace.into();
        notice
    };
    log.record(in_namespace("a"), 1, at(1));
    let failed = EventOutcome::Failed {
        pause: None,
        alone: true,
    };
    let write = log.next(at(1).now).unwrap();
    log.done(&write.key, failed, at(1).now);
    assert_eq!(log.next(at(1).now), None, "it is not tried again at once");
    log.record(in_namespace("b"), 1, at(1));
    let write = log.next(at(1).now).unwrap();
    assert_eq!(&*write.namespace, "b");
    log.done(&write.key, EventOutcome::Written, at(1).now);
    let due = log.next_due().unwrap();
    assert!(due > at(1).now);
    assert_eq!(&*log.next(due).unwrap().namespace, "a");
}
