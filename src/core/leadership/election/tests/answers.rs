//! Unexpected answers: versions that go backwards, and servers that take nothing.

use super::*;

/// Returns a candidate that leads at version 1000.
fn leader() -> Election {
    let mut me = candidate();
    me.ask(at(0), wall(0));
    me.answered(Reply::Missing, at(0), 0.5);
    let Some(Ask::Create(made)) = me.ask(at(0), wall(0)) else {
        panic!("there is none")
    };
    me.answered(Reply::Record(1000, made), at(0), 0.5);
    me
}

#[test]
fn a_server_that_was_replaced_by_a_fresh_one_is_believed_when_it_answers() {
    let mut me = leader();
    assert!(matches!(me.ask(at(2), wall(2)), Some(Ask::Replace(1000, _))));
    me.answered(Reply::Missing, at(2), 0.5);
    assert_eq!(me.proven(), None);
    let Some(Ask::Create(made)) = me.ask(at(2), wall(2)) else {
        panic!("there is none")
    };
    me.answered(Reply::Record(5, made.clone()), at(2), 0.5);
    assert_eq!(me.proven(), Some(at(12)), "its version is lower, and counts");
    assert!(me.take_turn() && !me.take_turn());
    assert!(matches!(me.ask(at(4), wall(4)), Some(Ask::Replace(5, _))));

    // One that stands by learns of it when it looks; a watch that shows a lower version may be late.
    let mut me = candidate();
    me.ask(at(0), wall(0));
    me.answered(Reply::Record(1000, record("other", 0)), at(0), 0.0);
    me.see(7, record("third", 0), at(1));
    assert_eq!(me.holder(), Some("other"));
    assert_eq!(me.ask(at(2), wall(2)), Some(Ask::Look));
    me.answered(Reply::Record(7, record("third", 0)), at(2), 0.0);
    assert_eq!(me.holder(), Some("third"));
    assert!(me.take_turn());
    me.ask(at(4), wall(4));
    me.answered(Reply::Record(7, record("third", 0)), at(4), 0.0);
    assert!(!me.take_turn());
    // The wait starts anew, and lasts as long as ever.
    let mut now = at(4);
    while !matches!(me.ask(now, wall(4)), Some(Ask::Replace(7, _))) {
        me.answered(Reply::Record(7, record("third", 0)), now, 0.0);
        now = me.wake();
    }
    assert_eq!(now, at(17));

    // An answer that was overtaken by the watch is late, too.
    let mut me = candidate();
    me.ask(at(0), wall(0));
    me.answered(Reply::Record(10, record("other", 0)), at(0), 0.0);
    me.ask(at(2), wall(2));
    me.see(12, record("third", 0), at(2));
    me.answered(Reply::Record(11, record("other", 1)), at(2), 0.0);
    assert_eq!(me.holder(), Some("third"));
}

/// Returns a server's answer to the request of this number.
type Answer = fn(&Ask, u64) -> Reply;

/// Whatever a server answers, and whatever watches show meanwhile, it is not asked all the time.
#[test]
fn nothing_that_is_answered_makes_it_ask_without_a_pause() {
    let mut random = fastrand::Rng::with_seed(1);
    let servers: [(&str, Answer); 6] = [
        ("refuses", |_, _| Reply::Conflict),
        ("fails", |_, _| Reply::Failed),
        ("knows nothing, and takes nothing", |ask, _| match ask {
            Ask::Look | Ask::Replace(..) => Reply::Missing,
            Ask::Create(_) => Reply::Conflict,
        }),
        ("shows what is free, and takes nothing", |ask, n| match ask {
            Ask::Look => Reply::Record(n, record("", 0)),
            _ => Reply::Conflict,
        }),
        ("says yes, and shows another's", |ask, n| match ask {
            Ask::Look => Reply::Record(n, record("", 0)),
            _ => Reply::Record(n + 1, record("other", 0)),
        }),
        ("has an older record each time", |ask, n| match ask {
            Ask::Look => Reply::Record(1_000_000 - n, record("", 0)),
            _ => Reply::Conflict,
        }),
    ];
    for (case, answer) in servers {
        for shows in [false, true] {
            let (mut me, mut now, mut asked) = (candidate(), at(0), 0u64);
            while now < at(600) {
                if let Some(ask) = me.ask(now, wall(0)) {
                    asked += 1;
                    me.answered(answer(&ask, asked), now, random.f64());
                    continue;
                }
                now = me.wake().max(now + MS);
                if shows {
                    me.see(2_000_000 + now.as_millis() as u64, record("", 0), now);
                }
            }
            assert!(asked < 1000, "a server that {case}: {asked} requests in 600 s");
        }
    }
}

#[test]
fn one_that_makes_no_progress_does_not_renew_and_claims_nothing() {
    let mut me = leader();
    me.set_able(false, at(1));
    assert_eq!(me.ask(at(2), wall(2)), None);
    assert_eq!(me.proven(), Some(at(10)), "what it has proven it has");
    let mut now = at(2);
    while now < at(60) {
        assert_eq!(me.ask(now, wall(2)), None);
        now = me.wake();
    }
    assert_eq!(me.proven(), None);
    me.set_able(true, at(60));
    assert!(matches!(me.ask(at(60), wall(60)), Some(Ask::Replace(1000, _))));
}
