//! Objects that are many rather than large: whatever visits all of them is cut into steps, each of which is charged for what
//! it does. The budget of a step is spent by its first piece of work here, so that no piece hides behind others.

use super::Cost;
use crate::allocator::Memory;
use crate::fixtures::{World, pod, service};
use endpointd::core::facts::{NodeFacts, PodFacts, ServiceFacts};
use endpointd::core::hints::{HintMode, NodeCapacity};
use endpointd::core::inbox::{Change, Pending};
use endpointd::core::outputs::Outputs;
use endpointd::core::work::TurnBudget;

/// How many there are of what costs little.
pub(super) const MANY: u32 = 20_000;
/// How many Services there are.
const SERVICES: u32 = 5_000;
/// Units of a piece of work.
const PIECE: u64 = 3_000;
/// Bytes that a piece may allocate beyond those for each unit: tables double.
const UNCOUNTED: usize = 64 << 10;
/// The looks after which a node that does not exist is reported.
const LOOKS: usize = 8;

impl Cost {
    /// Does the passes that an event has left.
    fn passes(&mut self, world: &mut World) {
        while !self.step(world, |world| world.state.step_passes(&mut TurnBudget::new(1))) {}
    }

    /// Applies what waits.
    pub(super) fn apply(&mut self, world: &mut World, pending: Pending) {
        let mut applying = None;
        self.step(world, |_| {
            applying = Some(pending.begin());
            true
        });
        let mut applying = applying.unwrap();
        while !self.step(world, |world| {
            applying.step(&mut world.state, &mut world.nodes, &mut TurnBudget::new(1))
        }) {}
    }

    pub(super) fn hold(&self, what: &str) {
        println!(
            "{what}: {} units, {} at most, {} bytes uncounted",
            self.units, self.most_units, self.most_allocated
        );
        assert!(
            self.most_units <= PIECE && self.most_allocated <= UNCOUNTED,
            "{what}: {self:?}"
        );
    }
}

pub(super) fn world() -> World {
    let outputs = Outputs {
        custom: true,
        ..Outputs::ALL
    };
    World::new(outputs, 1)
}

fn on(node: &str, pod: PodFacts) -> PodFacts {
    PodFacts {
        node: Some(node.into()),
        ..pod
    }
}

pub(super) fn change(pending: Vec<Change>) -> Pending {
    pending.into_iter().fold(Pending::default(), |mut all, change| {
        all.push(change);
        all
    })
}

#[test]
fn a_node_of_many_pods_is_visited_in_steps() {
    let mut world = world();
    for number in 0..MANY {
        world.apply(pod(number, &[], true));
    }
    world.settle();
    let zone = NodeFacts {
        zone: Some("another".into()),
    };
    let view = world.nodes.apply(&"node-0".into(), zone, 0).unwrap().view;
    let mut cost = Cost::default();
    cost.apply(&mut world, change(vec![Change::Node(view)]));
    cost.hold("the pods of a node");
}

#[test]
fn pods_on_many_nodes_that_do_not_exist_are_visited_in_steps() {
    let mut world = world();
    for number in 0..7 {
        world
            .state
            .apply_service(service(&format!("s{number}"), &[("app", "a")]), 0);
    }
    for number in 0..3000 {
        world.apply(on("gone", pod(number, &[("app", "a")], true)));
    }
    // No Service selects those. Their nodes are reported last.
    for number in 3000..3000 + MANY {
        world.apply(on(&format!("gone-{number}"), pod(number, &[], true)));
    }
    world.settle();
    let mut cost = Cost::default();
    for _ in 0..2 * LOOKS {
        cost.step(&mut world, |world| {
            world.state.begin_look_at_unknown_nodes();
            true
        });
        cost.passes(&mut world);
    }
    cost.hold("nodes that do not exist");
    let told = world.state.take_notices();
    let messages = told.iter().map(|notice| &*notice.message);
    let message = "Pods on node gone, which does not exist, are left out: pod-000000, pod-000001, pod-000002 and others";
    assert_eq!(messages.collect::<Vec<_>>(), [message; 7]);
    assert!(cost.units > 10_000, "{cost:?}");
}

#[test]
fn services_that_depend_on_the_zones_are_visited_in_steps() {
    let mut world = world();
    for number in 0..SERVICES {
        let service = ServiceFacts {
            hints: HintMode::Auto,
            ..service(&format!("s{number}"), &[("app", "a")])
        };
        world.state.apply_service(service, 0);
    }
    world.state.watch_zones(&mut world.nodes);
    world.settle();
    let capacity = NodeCapacity {
        ready: true,
        excluded: false,
        zone: Some("zone-0".into()),
        cpu: Some(4000),
    };
    world.nodes.apply_capacity(&"node-0".into(), &capacity);
    let (view, namespaces) = world.nodes.take_zone_change().unwrap();
    assert_eq!(namespaces.len(), 1);
    let mut cost = Cost::default();
    cost.apply(&mut world, change(vec![Change::Zones(view)]));
    cost.hold("Services that depend on the zones");
    assert_eq!(world.state.take_dirty().len(), SERVICES as usize);
}

/// A namespace of many Services that all select many pods without an address: what is kept of each pair is nothing.
#[test]
fn pods_without_an_address_cost_no_memory_in_each_service() {
    let memory_of = |services: usize| {
        let mut world = world();
        let memory = Memory::measure();
        for number in 0..services {
            let service = service(&format!("s{number}"), &[("app", "a")]);
            world.state.apply_service(service, 0);
        }
        for number in 0..1000 {
            let mut pod = pod(number, &[("app", "a")], true);
            (pod.v4, pod.v6, pod.primary) = (None, None, None);
            world.apply(pod);
        }
        memory.live()
    };
    let (few, many) = (memory_of(10), memory_of(1010));
    // A Service alone takes some hundreds of bytes; a thousand memberships would take 12,000.
    assert!((many - few) / 1000 < 3000, "{few} and {many} bytes");
}
