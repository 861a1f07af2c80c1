//! Thousands of slices of one Service that give way, beside thousands that are to take their place: each costs what it would
//! if it were the only one, is asked for once, and others get their turn in between.

use crate::fixtures::{self, World};
use endpointd::cluster::codec::{Encoding, Namespaced, object};
use endpointd::core::body::Request;
use endpointd::core::facts::{ServiceFacts, SliceFacts};
use endpointd::core::inbox::{Change, Pending};
use endpointd::core::namespace::ObjectEvent::{Gone, Meta};
use endpointd::core::namespace::{Content, Kind, Outcome, OutputEvent, PendingLists};
use endpointd::core::object::{ObjectName, Remote};
use endpointd::core::outputs::Outputs;
use endpointd::core::work::TurnBudget;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// Units between two looks at the clock: a turn and the largest piece of work that cannot be divided.
const MOST_UNITS: u64 = 5 * TurnBudget::TURN;
/// Units for each slice.
const EACH: u64 = 60;

const EVERYTHING: Outputs = Outputs {
    custom: true,
    ..Outputs::ALL
};

fn with_selector() -> ServiceFacts {
    let body = json!({
        "metadata": {"name": "s", "namespace": "ns", "uid": "s"},
        "spec": {"selector": {"app": "none"}, "ports": [{"port": 80}]},
    });
    let body = object::<Namespaced<ServiceFacts>>(body.to_string().as_bytes());
    body.unwrap().facts
}

/// A slice with one endpoint, or none.
fn slice(name: &str, manager: &str, number: Option<usize>, version: u64) -> SliceFacts {
    let endpoint = |number: usize| {
        let ip = format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255);
        json!({"addresses": [ip], "conditions": {"ready": true}})
    };
    let body = json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": name, "resourceVersion": version.to_string(),
            "labels": {"kubernetes.io/service-name": "s", "endpointslice.kubernetes.io/managed-by": manager},
        },
        "addressType": "IPv4", "ports": [{"port": 80}], "endpoints": number.map(endpoint).into_iter().collect::<Vec<_>>(),
    });
    let body = object::<Namespaced<SliceFacts>>(body.to_string().as_bytes());
    body.unwrap().facts
}

fn old(number: usize, version: u64) -> SliceFacts {
    slice(&format!("old-{number}"), "endpointd.io", Some(number), version)
}

pub(crate) fn other(number: usize, version: u64) -> SliceFacts {
    let manager = "endpointslice-controller.k8s.io";
    slice(&format!("other-{number}"), manager, None, version)
}

/// A namespace, the slices on its server, and what they have cost.
pub(crate) struct Costs {
    pub(crate) world: World,
    server: BTreeMap<String, SliceFacts>,
    version: u64,
    wants: usize,
    pub(crate) reads: usize,
    most: u64,
}

impl Costs {
    pub(crate) fn new(outputs: Outputs, pending_lists: PendingLists) -> Self {
        Self {
            world: World::listing(outputs, 1, pending_lists),
            server: BTreeMap::new(),
            version: 1_000_000,
            wants: 0,
            reads: 0,
            most: 0,
        }
    }

    fn step<T>(&mut self, step: impl FnOnce(&mut World) -> T) -> T {
        let before = self.world.state.work().total();
        let done = step(&mut self.world);
        self.most = self.most.max(self.world.state.work().total() - before);
        done
    }

    pub(crate) fn apply(&mut self, changes: Vec<Change>) {
        let mut pending = Pending::default();
        for change in changes {
            pending.push(change);
        }
        let mut applying = pending.begin();
        while !self
            .step(|world| applying.step(&mut world.state, &mut world.nodes, &mut TurnBudget::for_a_turn()))
        {
        }
        self.settle();
    }

    /// Plans, and carries out what is due, until nothing is.
    fn settle(&mut self) {
        loop {
            let mut items = Vec::new();
            while !self.step(|world| world.state.step_plan(&mut items, &mut TurnBudget::for_a_turn())) {}
            if items.is_empty() {
                return;
            }
            self.wants += items.len();
            for item in items {
                self.carry_out(&item.object);
                // The work that an answer leaves is planned at once, as in a shard.
                let mut more = Vec::new();
                while !self.step(|world| world.state.step_plan(&mut more, &mut TurnBudget::for_a_turn())) {}
                self.wants += more.len();
                for item in more {
                    self.carry_out(&item.object);
                }
            }
        }
    }

    fn carry_out(&mut self, name: &ObjectName) {
        let built = self.step(|world| world.state.build_request(name, &mut Encoding::Json));
        let Some(built) = built else { return };
        self.version += 1;
        let outcome = match built.request {
            Request::Create(_) | Request::Update(_) => Outcome::Written(Remote {
                uid: "u".into(),
                version: self.version,
            }),
            Request::Delete(_) => {
                self.server.remove(&*name.name);
                Outcome::Deleted(None)
            }
            Request::Fetch => {
                self.reads += 1;
                let facts = self.server.get(&*name.name);
                facts.map_or(Outcome::NotFound, |facts| {
                    Outcome::fetched(Content::Slice(Box::new(facts.clone())))
                })
            }
            Request::Probe => Outcome::NotFound,
        };
        self.step(|world| world.state.apply_outcome(name, outcome, None));
    }

    /// Another client has made a slice.
    pub(crate) fn appear(&mut self, facts: SliceFacts) {
        let meta = facts.meta.clone();
        self.server.insert(meta.name.clone().into(), facts);
        self.apply(vec![Change::Output(OutputEvent::Slice(Meta(meta, 0)))]);
    }

    pub(crate) fn assert_linear(&self, slices: usize, wants_of_each: usize) {
        let units = self.world.state.work().total();
        let (wants, reads) = (self.wants, self.reads);
        println!(
            "{slices} slices: {units} units, {} at once, {wants} wants, {reads} reads",
            self.most
        );
        assert!(
            units <= EACH * slices as u64 + TurnBudget::TURN,
            "{slices}: {units} units"
        );
        assert!(
            self.most <= MOST_UNITS,
            "{slices}: {} units in one step",
            self.most
        );
        assert!(wants <= wants_of_each * slices + 10, "{slices}: {wants} wants");
        assert!(reads <= slices, "{slices}: {reads} reads");
    }
}

#[test]
fn slices_that_appear_and_give_way_are_read_once_however_many_there_are() {
    for many in [1000, 16_000] {
        let mut costs = Costs::new(fixtures::CUSTOM, PendingLists::NONE);
        costs.apply(vec![Change::Service(with_selector(), 0)]);
        // No slice gives way yet, so none is read.
        for number in 0..many * 3 / 4 {
            costs.appear(other(number, number as u64 + 1));
        }
        assert_eq!(costs.wants, 0);
        for number in 0..many / 4 {
            costs.appear(old(number, (many + number) as u64));
        }
        assert_eq!(costs.reads, many);
        // Others go on to appear, change and go.
        for number in 0..20 {
            costs.appear(other(many + number, 300_000 + number as u64));
            costs.appear(other(many + number, 400_000 + number as u64));
            let gone = Change::Output(OutputEvent::Slice(Gone(
                format!("other-{}", many + number).into(),
                500_000,
            )));
            costs.apply(vec![gone]);
        }
        (costs.reads, costs.wants) = (costs.reads - 40, costs.wants - 40);
        costs.assert_linear(many, 1);
        // None of the others holds anything, so all stay; until one does, and then all go.
        costs.world.state.look_at_leaving(Duration::from_secs(20));
        costs.settle();
        assert_eq!(costs.server.len(), many + 20);
        let holds = slice("holds", "endpointslice-controller.k8s.io", Some(1 << 20), 600_000);
        costs.appear(holds);
        assert_eq!(costs.server.len(), many * 3 / 4 + 21);
        costs.reads -= 1;
        costs.assert_linear(many, 3);
    }
}

#[test]
fn slices_that_were_there_at_the_start_and_give_way_cost_no_more_the_more_there_are() {
    for many in [1000, 16_000] {
        let mut costs = Costs::new(EVERYTHING, PendingLists::all(EVERYTHING));
        let mut changes = vec![Change::Service(with_selector(), 1)];
        for number in 0..many {
            let facts = old(number, number as u64 + 1);
            costs.server.insert(facts.meta.name.clone().into(), facts.clone());
            changes.push(Change::Output(OutputEvent::slice(facts, 1)));
        }
        let ends = Kind::needed_for(EVERYTHING).map(|kind| Change::End(kind, 1, 900_000));
        changes.extend(ends);
        costs.apply(changes);
        costs.assert_linear(many, 1);
        assert_eq!(costs.reads, 0, "they were listed whole");
        // The objects that this process writes hold no endpoints, and are written again and again.
        for round in 0..100 {
            let facts = ServiceFacts {
                labels: [("round", &*round.to_string())].into_iter().collect(),
                ..with_selector()
            };
            costs.apply(vec![Change::Service(facts, 1)]);
        }
        costs.assert_linear(many, 1);
        costs.world.apply(fixtures::pod(1, &[("app", "none")], true));
        costs.settle();
        assert!(costs.server.is_empty());
        costs.assert_linear(many, 2);
    }
}
