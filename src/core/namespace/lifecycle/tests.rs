use super::*;
use crate::core::ids::Uid;

const PHASES: [Phase; 7] = [
    Phase::Managed,
    Phase::Deleting,
    Phase::Adopting { awaited: false },
    Phase::Adopting { awaited: true },
    Phase::Leftover { confirmed: false },
    Phase::Leftover { confirmed: true },
    Phase::Unmanaged,
];
const REQUESTS: [RequestKind; 5] = [
    RequestKind::Create,
    RequestKind::Update,
    RequestKind::Delete,
    RequestKind::Fetch,
    RequestKind::Probe,
];

fn remote() -> Remote {
    Remote {
        uid: Uid::from("u"),
        version: 5,
    }
}

fn outcomes() -> Vec<Outcome> {
    vec![
        Outcome::Written(remote()),
        Outcome::Deleted(None),
        Outcome::Deleted(Some(7)),
        Outcome::NotFound,
        Outcome::Conflict,
        Outcome::Exists,
        Outcome::Foreign {
            editor: Editor::Unknown,
        },
        Outcome::Terminating,
        Outcome::Rejected,
        Outcome::TooLarge { bytes: 1 },
        Outcome::Throttled,
        Outcome::Unknown,
    ]
}

#[test]
fn what_is_not_known_is_fetched_before_anything_else() {
    for phase in PHASES {
        for remote in [None, Some(remote())] {
            let mut object = ObjectState::new(phase);
            (object.needs_refetch, object.remote) = (true, remote);
            assert_eq!(next_step(&object), Step::Fetch, "{phase:?}");
        }
    }
}

#[test]
fn each_phase_has_its_request() {
    let step = |phase, on_server: bool| {
        let mut object = ObjectState::new(phase);
        object.remote = on_server.then(remote);
        next_step(&object)
    };
    let expected = [
        (Phase::Managed, Step::Write, Step::Write),
        (Phase::Deleting, Step::Delete, Step::Forget),
        (Phase::Adopting { awaited: true }, Step::Fetch, Step::Fetch),
        (Phase::Adopting { awaited: false }, Step::Fetch, Step::Fetch),
        (Phase::Leftover { confirmed: false }, Step::Probe, Step::Probe),
        (Phase::Leftover { confirmed: true }, Step::Delete, Step::Forget),
        (Phase::Unmanaged, Step::Rest, Step::Rest),
    ];
    for (phase, there, missing) in expected {
        assert_eq!(
            (step(phase, true), step(phase, false)),
            (there, missing),
            "{phase:?}"
        );
    }
}

#[test]
fn an_answer_is_believed_for_what_it_proves() {
    for phase in PHASES {
        for flight in REQUESTS {
            for outcome in outcomes() {
                for on_server in [false, true] {
                    let effect = effect(phase, flight, &outcome, on_server);
                    let what = format!("{phase:?}, {flight:?}, {outcome:?}: {effect:?}");
                    let writes = matches!(flight, RequestKind::Create | RequestKind::Update);
                    match effect {
                        AnswerEffect::Accepted => {
                            assert!(writes && matches!(outcome, Outcome::Written(_)), "{what}");
                        }
                        AnswerEffect::Read => panic!("{what}: nothing was read"),
                        AnswerEffect::NeverCreated => {
                            assert!(
                                !on_server && flight == RequestKind::Fetch && phase == Phase::Managed,
                                "{what}"
                            );
                        }
                        AnswerEffect::Deleted => assert_eq!(flight, RequestKind::Delete, "{what}"),
                        AnswerEffect::Lost => {
                            assert!(
                                matches!(outcome, Outcome::NotFound | Outcome::Foreign { .. }),
                                "{what}"
                            );
                            assert!(
                                !matches!(flight, RequestKind::Delete | RequestKind::Probe),
                                "{what}"
                            );
                        }
                        AnswerEffect::Confirmed | AnswerEffect::Spared => {
                            assert_eq!(flight, RequestKind::Probe, "{what}");
                        }
                        AnswerEffect::Failed => {
                            let proves = matches!(
                                (flight, &outcome),
                                (RequestKind::Create | RequestKind::Update, Outcome::Written(_))
                                    | (RequestKind::Delete, Outcome::Deleted(_))
                            );
                            assert!(!proves, "{what}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn what_failed_is_due_again_and_waits() {
    for phase in PHASES {
        for flight in REQUESTS {
            for outcome in outcomes() {
                if effect(phase, flight, &outcome, true) != AnswerEffect::Failed {
                    continue;
                }
                let mut object = ObjectState::new(phase);
                object.remote = Some(remote());
                object.depart(flight);
                object.flight = None;
                set_back(&mut object, flight, &outcome);
                let what = format!("{phase:?}, {flight:?}, {outcome:?}");
                let writes = matches!(flight, RequestKind::Create | RequestKind::Update);
                if phase == Phase::Unmanaged {
                    // The answer is not awaited: a create is looked for once, anything else counts as failed.
                    let doubtful = matches!(outcome, Outcome::Unknown | Outcome::Exists | Outcome::Conflict);
                    let looks = flight == RequestKind::Create && doubtful;
                    assert_eq!(object.needs_refetch, looks, "{what}");
                    assert_eq!(object.failures, u8::from(!looks), "{what}");
                } else {
                    assert_eq!(object.failures, 1, "{what}");
                    assert!(!writes || object.rewrite, "{what}");
                }
            }
        }
    }
}
