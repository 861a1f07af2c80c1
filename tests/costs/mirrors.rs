//! Endpoints that stand for thousands of mirrored slices: what one of them costs does not grow with their number.

use crate::protobuf;
use endpointd::cluster::codec::Protobuf;
use endpointd::core::body::Request;
use endpointd::core::facts::{EndpointsFacts, ServiceFacts, SliceFacts};
use endpointd::core::namespace::ObjectEvent::{Gone, Meta};
use endpointd::core::namespace::{
    Content, NamespaceState, Outcome, OutputEvent, PendingLists, Settings, WorkItem,
};
use endpointd::core::object::{ObjectName, Output, Remote};
use endpointd::core::work::{TurnBudget, Work};
use serde_json::{Value, json};

/// The number of slices.
const MANY: usize = 3000;
/// Work that is done in one step.
const STEP: u64 = 100;

/// Endpoints with a port for each of their addresses.
fn endpoints(version: u64, slices: usize) -> EndpointsFacts {
    // Endpoints with shorter texts may not stand for so many slices.
    let node = "n".repeat(250);
    let subset = |at: usize| {
        json!({
            "addresses": [{"ip": format!("10.0.{}.{}", at / 250, at % 250), "nodeName": node, "hostname": "h".repeat(63)}],
            "ports": [{"name": "a", "port": at + 1}],
        })
    };
    let body = json!({
        "metadata": {"name": "s", "namespace": "ns", "uid": "e", "resourceVersion": version.to_string()},
        "subsets": (0..slices).map(subset).collect::<Vec<_>>(),
    });
    protobuf::facts("Endpoints", &body)
}

/// A namespace with these Endpoints, nothing written yet.
fn state() -> NamespaceState {
    let settings = Settings::default();
    let mut state = NamespaceState::new("ns".into(), settings, PendingLists::NONE);
    let service = json!({
        "metadata": {"name": "s", "namespace": "ns", "uid": "s"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]},
    });
    let service: ServiceFacts = protobuf::facts("Service", &service);
    state.apply_service(service, 0);
    state.apply_output(OutputEvent::endpoints(endpoints(1, MANY), 0));
    state
}

/// Plans to the end. Returns what is due, and the number of steps.
fn plan(state: &mut NamespaceState) -> (Vec<WorkItem>, usize) {
    let mut items = Vec::new();
    let mut steps = 1;
    while !state.step_plan(&mut items, &mut TurnBudget::new(STEP)) {
        steps += 1;
    }
    items.retain(|item| item.object.output == Output::Mirrored);
    (items, steps)
}

/// Has an object's request answered. Returns the body of a write.
fn answer(
    state: &mut NamespaceState,
    name: &ObjectName,
    outcome: impl FnOnce(&Request) -> Outcome,
) -> Vec<u8> {
    let built = state.build_request(name, &mut Protobuf).unwrap();
    state.apply_outcome(name, outcome(&built.request), None);
    match built.request {
        Request::Create(body) | Request::Update(body) => body,
        Request::Delete(_) | Request::Fetch | Request::Probe => Vec::new(),
    }
}

fn written(_: &Request) -> Outcome {
    Outcome::Written(Remote {
        uid: "u".into(),
        version: 5,
    })
}

/// Units of work besides those for the bytes that were built.
fn without_bodies(work: Work) -> u64 {
    let bytes_built = 0;
    Work { bytes_built, ..work }.total()
}

#[test]
fn a_mirror_of_many_slices_is_evaluated_in_steps() {
    let mut state = state();
    let mut items = Vec::new();
    let mut most = 0;
    loop {
        let before = items.len();
        let done = state.step_plan(&mut items, &mut TurnBudget::new(STEP));
        most = most.max(items.len() - before);
        if done {
            break;
        }
    }
    assert_eq!(items.len(), MANY);
    assert!(most <= STEP as usize, "{most} slices in one step");
    let totals = state.mirror_totals();
    assert_eq!(
        (totals.endpoints, totals.slices, totals.desired_slices),
        (MANY, MANY, MANY)
    );
}

#[test]
fn an_answer_costs_what_it_changes_however_many_slices_there_are() {
    let mut state = state();
    let (items, _) = plan(&mut state);
    let bodies: Vec<_> = items
        .iter()
        .map(|item| answer(&mut state, &item.object, written))
        .collect();
    let (due, steps) = plan(&mut state);
    assert_eq!(
        (due.len(), steps),
        (0, 1),
        "what was created is not evaluated again"
    );

    // Others write to some: each is read, and put right.
    for (number, item) in items.iter().enumerate().take(5) {
        let mut slice: Value = memory_apiserver::object_of(&bodies[number]).unwrap();
        slice["metadata"]["uid"] = json!("u");
        slice["metadata"]["resourceVersion"] = json!("9");
        if number % 2 == 0 {
            slice["endpoints"] = json!([]);
        } else {
            slice["ports"] = json!([]);
        }
        let facts: SliceFacts = protobuf::facts("EndpointSlice", &slice);
        state.apply_output(OutputEvent::Mirrored(Meta(facts.meta.clone(), 0)));
        let before = state.work();
        let (due, steps) = plan(&mut state);
        assert_eq!((due.len(), steps), (1, 1));
        answer(&mut state, &item.object, |_| {
            Outcome::fetched(Content::Slice(Box::new(facts)))
        });
        let (due, steps) = plan(&mut state);
        assert_eq!((due.len(), steps), (1, 1));
        answer(&mut state, &due[0].object, |_| {
            Outcome::Written(Remote {
                uid: "u".into(),
                version: 10,
            })
        });
        let work = without_bodies(state.work() - before);
        assert!(work < 10, "{work}");
    }

    // Others delete one, which is made again.
    let before = state.work();
    state.apply_output(OutputEvent::Mirrored(Gone((*items[7].object.name).into(), 20)));
    let (due, steps) = plan(&mut state);
    assert_eq!((due.len(), steps), (1, 1));
    answer(&mut state, &due[0].object, written);
    let work = without_bodies(state.work() - before);
    assert!(work < 10, "{work}");

    // Half of them are needed no longer.
    state.apply_output(OutputEvent::endpoints(endpoints(30, MANY / 2), 0));
    let (due, steps) = plan(&mut state);
    assert_eq!(due.len(), MANY / 2);
    assert!(steps > 1, "{steps}");
    for item in due {
        answer(&mut state, &item.object, |_| Outcome::Deleted(None));
        assert_eq!(plan(&mut state), (Vec::new(), 1));
    }
    let totals = state.mirror_totals();
    assert_eq!((totals.endpoints, totals.slices), (MANY / 2, MANY / 2));
}
