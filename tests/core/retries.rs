//! However the API server answers, and whatever others do to an object, nothing is tried in a loop without a pause
//! that grows. On virtual time: each object that is due is granted when its delay has passed.

use crate::model::{self, EndpointsTamper, Model, PodSpec, ServiceSpec, WatchEvent};
use crate::ops;
use endpointd::cluster::codec::Protobuf;
use endpointd::core::body::Request;
use endpointd::core::facts::{Manager, Owners, SliceFacts, SliceMeta};
use endpointd::core::labels::Labels;
use endpointd::core::namespace::ObjectEvent::Meta;
use endpointd::core::namespace::{BuiltRequest, Outcome, OutputEvent, WorkItem};
use endpointd::core::object::{Editor, ObjectName, Output};
use endpointd::core::publish::Resource;
use endpointd::core::publish::queue::{Due, Granted, WriteQueue};
use std::hash::RandomState;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
/// With delays that double from 0.05 s up to 15 s a minute has room for twelve tries, each of them a look and a write;
/// and where one object replaces another, there are two of them.
const FEW: usize = 50;

/// The model, its requests in the writer's queue, and a server that answers them as the test says.
struct Loop {
    model: Model,
    queue: WriteQueue<ObjectName, RandomState>,
    now: Duration,
    /// How many requests were sent of each kind.
    sent: [usize; 2],
}

impl Loop {
    fn new(model: Model) -> Self {
        Self {
            model,
            queue: WriteQueue::default(),
            now: Duration::ZERO,
            sent: [0; 2],
        }
    }

    fn enqueue(&mut self, item: WorkItem) {
        let due = Due {
            resource: Resource::Slices,
            priority: item.priority,
            stage: item.stage,
            namespace: 0,
            service: 0,
        };
        // The least that the delay can be.
        self.queue.want(item.object, due, item.retry.delay(0.0), self.now);
    }

    fn plan(&mut self) {
        self.model.state.advance(self.now);
        while self.model.state.look_at_deferral(self.now) {}
        while !self.model.watch.is_empty() {
            self.model.watch_one();
        }
        for item in self.model.plan() {
            self.enqueue(item);
        }
        self.model.pending.clear();
    }

    /// Lets a stretch of time pass. `answer` says what a request is answered with; none is what the server says.
    fn run(
        &mut self,
        lasting: Duration,
        answer: &mut dyn FnMut(&mut Model, &ObjectName, &Request) -> Option<Outcome>,
    ) {
        let end = self.now + lasting;
        self.plan();
        for _ in 0..100_000 {
            self.queue.pass(self.now);
            let Some(Granted { key: object, .. }) = self.queue.next(Resource::Slices, true, self.now) else {
                let waits = [
                    self.queue.next_delayed(),
                    self.model.state.next_look_at_deferral(),
                ];
                let next = waits.into_iter().flatten().min();
                let Some(at) = next.filter(|at| *at <= end) else {
                    self.now = end;
                    return;
                };
                self.now = self.now.max(at);
                self.plan();
                continue;
            };
            let built = self.model.state.build_request(&object, &mut Protobuf);
            self.queue.built(&object);
            let Some(BuiltRequest { request, .. }) = built else {
                self.queue.landed(&object, true, self.now);
                self.plan();
                continue;
            };
            self.sent[object.output as usize] += 1;
            // An answer takes a millisecond.
            self.now += Duration::from_millis(1);
            let outcome = answer(&mut self.model, &object, &request)
                .unwrap_or_else(|| self.model.carry_out(&object, &request));
            let again = self.model.state.apply_outcome(&object, outcome, None);
            self.queue.landed(&object, false, self.now);
            match again {
                Some(item) => self.enqueue(item),
                None => self.queue.settled(&object),
            }
            self.plan();
        }
        panic!("it never comes to rest");
    }

    fn take_sent(&mut self) -> [usize; 2] {
        std::mem::take(&mut self.sent)
    }
}

fn server(_: &mut Model, _: &ObjectName, _: &Request) -> Option<Outcome> {
    None
}

/// One pod and one Service, and nothing published yet.
fn unpublished() -> Loop {
    let mut model = ops::start(3);
    model.pod(PodSpec::plain().facts());
    model.service(ServiceSpec::plain().facts());
    Loop::new(model)
}

/// The same, published.
fn published() -> Loop {
    let mut published = unpublished();
    published.run(MINUTE, &mut server);
    published.take_sent();
    published
}

fn flip(model: &mut Model, ready: bool) {
    let pod = PodSpec {
        ready,
        ..PodSpec::plain()
    };
    model.pod(pod.facts());
}

/// Endpoints of ours that have no Service, found at the start.
fn leftover() -> Loop {
    let mut before = published();
    before.model.services.clear();
    let mut model = before.model.restarted_in_order();
    model.store.clear();
    Loop::new(model)
}

type Start = fn() -> Loop;
type Which = fn(&Request) -> bool;

/// Situations in which requests are due.
const SITUATIONS: [(&str, Start); 6] = [
    ("a Service is new", unpublished),
    ("a pod has changed", || {
        let mut published = published();
        flip(&mut published.model, false);
        published
    }),
    ("others have edited", || {
        let mut published = published();
        edit(&mut published.model, 0);
        published
    }),
    ("others have deleted", || {
        let mut published = published();
        delete(&mut published.model);
        published
    }),
    ("the Service has become another", || {
        let mut published = published();
        let other = ServiceSpec {
            generation: 1,
            ..ServiceSpec::plain()
        };
        published.model.service(other.facts());
        published
    }),
    ("a Service was gone at the start", leftover),
];

fn edit(model: &mut Model, number: u32) {
    for mut slice in model.store.clone().into_values().filter(model::is_ours) {
        let number = number.to_string();
        slice.labels = [("edit", number.as_str())]
            .into_iter()
            .chain(slice.labels.iter().filter(|(key, _)| *key != "edit"))
            .collect::<Labels>();
        model.put_slice(slice);
    }
    for name in model.endpoints.keys().cloned().collect::<Vec<_>>() {
        let mut object = model.endpoints[&name].clone();
        object.over_capacity = Some(number.to_string().into());
        model.put_endpoints(object);
    }
}

fn delete(model: &mut Model) {
    for name in model.store.keys().cloned().collect::<Vec<_>>() {
        model.delete_slice(&name);
    }
    for name in model.endpoints.keys().cloned().collect::<Vec<_>>() {
        model.tamper_with_endpoints(&name, EndpointsTamper::Delete);
    }
}

fn is_look(request: &Request) -> bool {
    matches!(request, Request::Fetch | Request::Probe)
}

/// Whatever is due, and whatever requests are answered with: a minute of the same answer brings few requests.
#[test]
fn no_answer_is_asked_for_in_a_loop() {
    let failures = [
        Outcome::Unknown,
        Outcome::Throttled,
        Outcome::Rejected,
        Outcome::TooLarge { bytes: 5000 },
        Outcome::Conflict,
        Outcome::Exists,
        Outcome::NotFound,
        Outcome::Foreign {
            editor: Editor::Unknown,
        },
        Outcome::Terminating,
    ];
    let requests: [(&str, Which); 3] = [
        ("all requests", |_| true),
        ("writes", |request| !is_look(request)),
        ("looks", is_look),
    ];
    let mut tried = 0;
    for (situation, start) in SITUATIONS {
        for failure in &failures {
            for (which, fails) in requests {
                let mut run = start();
                run.run(MINUTE, &mut |_, _, request| {
                    fails(request).then(|| failure.clone())
                });
                for (sent, output) in run.take_sent().into_iter().zip(["slices", "Endpoints"]) {
                    assert!(
                        sent <= FEW,
                        "{situation}, {which} are answered {failure:?}: {sent} requests of {output}"
                    );
                    tried += usize::from(sent > 1);
                }
                // And nothing is forgotten: when the server answers again, all is right in the end.
                run.run(2 * MINUTE, &mut server);
                flip(&mut run.model, true);
                run.run(MINUTE, &mut server);
                let known = !matches!(
                    failure,
                    Outcome::Terminating | Outcome::NotFound | Outcome::Foreign { .. }
                );
                if known {
                    assert_eq!(run.model.published(), run.model.expected());
                    assert_eq!(run.model.published_endpoints(), run.model.expected_endpoints());
                }
            }
        }
    }
    assert!(tried > 100, "{tried}");
}

/// The server takes the write, and loses the answer; so it goes with every write, and each look shows the truth.
#[test]
fn lost_answers_to_writes_that_were_carried_out_are_few() {
    for (situation, start) in SITUATIONS {
        let mut run = start();
        run.run(MINUTE, &mut |model, object, request| {
            (!is_look(request)).then(|| {
                model.carry_out(object, request);
                Outcome::Unknown
            })
        });
        for sent in run.take_sent() {
            assert!(sent <= 6, "{situation}: {sent}");
        }
    }
}

/// Others write to an object as soon as they see that we have: 100 times a second if we let them.
#[test]
fn a_quarrel_with_another_controller_is_slow() {
    let mut run = published();
    let mut number = 0;
    for _ in 0..6000 {
        number += 1;
        edit(&mut run.model, number);
        run.run(Duration::from_millis(10), &mut server);
    }
    for (sent, output) in run.take_sent().into_iter().zip(["slices", "Endpoints"]) {
        assert!(
            (4..=2 * FEW).contains(&sent),
            "{sent} requests of {output} in a minute"
        );
    }
    // Our write succeeds when the other writer gives up.
    run.run(MINUTE, &mut server);
    assert_eq!(run.model.published(), run.model.expected());
    assert_eq!(run.model.published_endpoints(), run.model.expected_endpoints());
    // And what is news is written at once again.
    run.take_sent();
    flip(&mut run.model, false);
    run.run(Duration::from_millis(5), &mut server);
    assert_eq!(run.take_sent(), [1, 1]);
}

/// Each change by others doubles the wait before the next is put right, up to ten minutes; ten quiet minutes end that.
#[test]
fn changes_by_others_are_put_right_ever_later_and_then_forgotten() {
    let mut run = published();
    for number in 0..7200 {
        edit(&mut run.model, number);
        run.run(MINUTE / 60, &mut server);
    }
    // The wait grows to ten minutes within the first of the two hours, and each ends with a look and a write.
    for (sent, output) in run.take_sent().into_iter().zip(["slices", "Endpoints"]) {
        assert!(
            (30..=90).contains(&sent),
            "{sent} requests of {output} in two hours"
        );
    }
    run.run(10 * MINUTE, &mut server);
    assert_eq!(run.model.published(), run.model.expected());
    assert_eq!(run.model.published_endpoints(), run.model.expected_endpoints());
    run.run(10 * MINUTE, &mut server);
    run.take_sent();
    edit(&mut run.model, 0);
    run.run(Duration::from_millis(5), &mut server);
    assert_eq!(run.take_sent(), [2, 2]);
}

/// As above, of other clients that write between any of our looks and the write that follows, so that all writes fail.
#[test]
fn a_quarrel_that_is_always_lost_is_slow() {
    let mut run = published();
    let mut number = 0;
    flip(&mut run.model, false);
    run.run(MINUTE, &mut |model, _, request| {
        if !is_look(request) {
            number += 1;
            edit(model, number);
        }
        None
    });
    for (sent, output) in run.take_sent().into_iter().zip(["slices", "Endpoints"]) {
        assert!(
            (4..=2 * FEW).contains(&sent),
            "{sent} requests of {output} in a minute"
        );
    }
}

/// Another client writes while an object is read, whenever it is read.
#[test]
fn an_object_that_is_outdated_when_it_is_read_is_not_read_in_a_loop() {
    let mut run = published();
    edit(&mut run.model, 0);
    let mut number = 0;
    run.run(MINUTE, &mut |model, object, request| {
        let outcome = model.carry_out(object, request);
        number += 1;
        edit(model, number);
        while let Some(event) = model.watch.pop_front() {
            // The event arrives before the answer.
            let event = event.in_list(|_| 0);
            assert!(!event.is_gone(), "nothing is deleted");
            model.state.apply_output(event);
        }
        Some(outcome)
    });
    for (sent, output) in run.take_sent().into_iter().zip(["slices", "Endpoints"]) {
        assert!(
            (4..=FEW).contains(&sent),
            "{sent} requests of {output} in a minute"
        );
    }
}

/// Others delete an object as soon as they see it.
#[test]
fn objects_that_others_delete_as_soon_as_they_are_made_are_made_slowly() {
    let mut run = published();
    for _ in 0..6000 {
        delete(&mut run.model);
        run.run(Duration::from_millis(10), &mut server);
    }
    for (sent, output) in run.take_sent().into_iter().zip(["slices", "Endpoints"]) {
        assert!(
            (4..=2 * FEW).contains(&sent),
            "{sent} requests of {output} in a minute"
        );
    }
}

/// A watch shows that a slice is being deleted before the answer to its create has come, whenever one is created.
#[test]
fn slices_that_are_deleted_before_the_answer_to_their_create_are_made_slowly() {
    let mut run = unpublished();
    run.run(MINUTE, &mut |model, object, request| {
        let outcome = model.carry_out(object, request);
        if let (Request::Create(_), Outcome::Written(remote)) = (request, &outcome)
            && object.output == Output::Slice
        {
            let meta = SliceMeta {
                name: (*object.name).into(),
                uid: remote.uid.clone(),
                version: remote.version,
                service: "svc-0".into(),
                manager: Manager::Builtin,
                owner: Owners::default(),
                deleting: true,
            };
            model.state.apply_output(OutputEvent::Slice(Meta(meta, 0)));
            model.delete_slice(&object.name);
        }
        Some(outcome)
    });
    let [slices, _] = run.take_sent();
    assert!((4..=2 * FEW).contains(&slices), "{slices} requests in a minute");
}

/// A change is a reason to try at once; but where changes keep coming and each write fails, they are tried with a
/// pause.
#[test]
fn changes_that_keep_coming_do_not_make_a_loop_of_what_fails() {
    for failure in [Outcome::Unknown, Outcome::Throttled, Outcome::Conflict] {
        let mut run = published();
        for second in 0..60 {
            for step in 0..50 {
                flip(&mut run.model, step % 2 == 1);
                run.run(Duration::from_millis(20), &mut |_, _, request| {
                    (!is_look(request)).then(|| failure.clone())
                });
            }
            assert_eq!(run.now, MINUTE + Duration::from_secs(second + 1));
        }
        for (sent, output) in run.take_sent().into_iter().zip(["slices", "Endpoints"]) {
            assert!(
                sent <= 700,
                "{failure:?}: {sent} requests of {output} in a minute"
            );
        }
    }
}

/// Failures do not outlast what they were about: a write that succeeds makes the next failure the first.
#[test]
fn a_write_that_succeeds_makes_the_next_failure_the_first() {
    let mut run = published();
    for ready in [false, true] {
        flip(&mut run.model, ready);
        run.run(MINUTE, &mut |_, _, request| {
            (!is_look(request)).then_some(Outcome::Throttled)
        });
        run.run(MINUTE, &mut server);
        assert_eq!(run.model.published(), run.model.expected());
        run.take_sent();
        flip(&mut run.model, !ready);
        let mut refused = [false; 2];
        run.run(Duration::from_millis(300), &mut |_, object, _| {
            let first = !std::mem::replace(&mut refused[object.output as usize], true);
            first.then_some(Outcome::Throttled)
        });
        assert_eq!(run.take_sent(), [2, 2], "tried again after a tenth of a second");
        assert_eq!(run.model.published(), run.model.expected());
    }
}

/// The object that was fetched is as it should be: nothing is wrong any more.
#[test]
fn a_look_that_shows_what_should_be_there_ends_the_failures() {
    let mut run = published();
    for round in 0..20 {
        flip(&mut run.model, round % 2 == 1);
        // Carried out, and the answer is lost.
        run.run(Duration::from_secs(1), &mut |model, object, request| {
            (!is_look(request)).then(|| {
                model.carry_out(object, request);
                Outcome::Unknown
            })
        });
        assert_eq!(run.take_sent(), [2, 2], "a write and a look, in round {round}");
        assert_eq!(run.model.published(), run.model.expected());
    }
}

#[test]
fn the_first_conflict_is_put_right_at_once() {
    let mut run = published();
    let mut slice: SliceFacts = run.model.store.values().next().unwrap().clone();
    flip(&mut run.model, false);
    // Another's write, which the watch shows later.
    slice.labels = slice.labels.iter().chain([("extra", "1")]).collect::<Labels>();
    run.model.version += 1;
    slice.meta.version = run.model.version;
    run.model.store.insert(slice.meta.name.clone(), slice);
    run.run(Duration::from_millis(10), &mut server);
    assert_eq!(run.take_sent(), [3, 1], "a conflict, a look and a write");
    assert_eq!(run.model.published(), run.model.expected());
}

/// A server that was restored from a backup has lower versions. The controller believes what a look shows, and late
/// events of the watch that show higher ones cost a look each.
#[test]
fn versions_that_go_back_are_believed_when_they_are_read() {
    let mut run = published();
    run.model.back_up();
    let mut late = Vec::new();
    for round in 0..10 {
        flip(&mut run.model, round % 2 == 1);
        run.run(MINUTE, &mut server);
    }
    for slice in run.model.store.values() {
        late.push(WatchEvent::Seen(slice.meta.clone()));
    }
    for object in run.model.endpoints.values() {
        late.push(WatchEvent::Endpoints(object.meta.clone()));
    }
    run.model.restore();
    run.take_sent();
    flip(&mut run.model, false);
    run.run(MINUTE, &mut |model, object, request| {
        let outcome = model.carry_out(object, request);
        if is_look(request) {
            // They arrive before the answer.
            model.watch.extend(late.drain(..));
            while !model.watch.is_empty() {
                model.watch_one();
            }
        }
        Some(outcome)
    });
    for sent in run.take_sent() {
        assert!((3..=6).contains(&sent), "{sent}");
    }
    assert_eq!(run.model.published(), run.model.expected());
    assert_eq!(run.model.published_endpoints(), run.model.expected_endpoints());
}
