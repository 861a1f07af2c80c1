//! Pods with a Service each in one namespace: what one of them costs does not depend on how many others there are, neither
//! in work nor in memory, and what concerns all of them is done in turns.

use crate::allocator::Memory;
use crate::fixtures::{ENDPOINTS, SLICES, World};
use crate::processor::Processor;
use crate::sandboxes::{OUTPUTS, name, pod_of, service_of, slice_of};
use endpointd::cluster::codec::Protobuf;
use endpointd::core::facts::PodFacts;
use endpointd::core::inbox::{Change, Pending};
use endpointd::core::namespace::{Kind, OutputEvent, PendingLists};
use endpointd::core::object::ObjectName;
use endpointd::core::outputs::Outputs;
use endpointd::core::work::{TurnBudget, Work};
use std::time::Duration;

/// A namespace in which so many stand, everything written.
fn standing(count: u32) -> World {
    let mut world = World::new(OUTPUTS, 1);
    for number in 0..count {
        world.apply(pod_of(number, true));
        world.state.apply_service(service_of(number), 0);
    }
    let writes = world.settle();
    assert_eq!(writes, 2 * count as usize, "a slice and an Endpoints object each");
    world
}

/// The work for one that comes, lives and goes, and how many requests that takes.
fn life(world: &mut World, number: u32, pod_first: bool) -> (u64, usize) {
    let before = world.state.work();
    let mut writes = 0;
    let mut step = |world: &mut World| writes += world.write_all_planned();
    let unbound = PodFacts {
        v4: None,
        primary: None,
        ..pod_of(number, false)
    };
    if pod_first {
        world.apply(unbound.clone());
        step(world);
    }
    world.state.apply_service(service_of(number), 0);
    step(world);
    for facts in [unbound, pod_of(number, false), pod_of(number, true)] {
        world.apply(facts);
        step(world);
    }
    world.remove_service(&name(number));
    step(world);
    world
        .state
        .remove_pod(&pod_of(number, true).name, &mut world.nodes);
    step(world);
    let left = world.settle();
    assert_eq!(left, 1, "Endpoints that nobody has deleted with their Service");
    let work: Work = world.state.work() - before;
    (work.total(), writes)
}

#[test]
fn one_of_a_hundred_thousand_services_costs_what_one_of_a_thousand_does() {
    let lives = |count: u32| {
        let mut world = standing(count);
        [false, true].map(|pod_first| life(&mut world, count + u32::from(pod_first), pod_first))
    };
    let (few, many) = (lives(1000), lives(100_000));
    for ((few, writes), (many, _)) in few.into_iter().zip(many) {
        assert_eq!(
            writes, 2,
            "a slice, and Endpoints, while they live and right after"
        );
        assert!(5 * many <= 6 * few, "{many} units instead of {few}");
    }
}

#[test]
fn a_service_with_a_pod_a_slice_and_endpoints_takes_no_more_than_1200_bytes() {
    const COUNT: u32 = 50_000;
    let pods = Memory::measure();
    let mut alone = World::new(OUTPUTS, 1);
    for number in 0..COUNT {
        alone.apply(pod_of(number, true));
    }
    let of_a_pod = pods.live() / COUNT as usize;
    drop(alone);
    let with = |outputs: Outputs| {
        let all = Memory::measure();
        let mut world = World::new(outputs, 1);
        for number in 0..COUNT {
            world.apply(pod_of(number, true));
            world.state.apply_service(service_of(number), 0);
        }
        world.settle();
        all.live() / COUNT as usize
    };
    let [slices, endpoints, bytes] = [SLICES, ENDPOINTS, OUTPUTS].map(with);
    let parts = format!(
        "{bytes} bytes; {slices} with slices alone, {endpoints} with Endpoints alone, {of_a_pod} for the pod alone"
    );
    println!("{parts}");
    assert!(bytes <= 1200, "{parts}");
}

/// Whatever has one entry for each of them is in pieces, of which the first holds 8,192 entries, but for indexes and lists of a
/// few bytes an entry.
#[test]
fn no_table_of_many_services_is_copied_as_a_whole_when_it_grows() {
    const COUNT: u32 = 50_000;
    let all = Memory::measure();
    let mut world = World::new(OUTPUTS, 1);
    for number in 0..COUNT {
        world.apply(pod_of(number, true));
        world.state.apply_service(service_of(number), 0);
        assert_eq!(world.write_all_planned(), 2);
    }
    let (largest, live) = (Memory::largest(), all.live());
    drop(world);
    assert!(
        largest <= 48 * COUNT as usize,
        "{largest} bytes in one piece, of {live}"
    );
}

/// Lets a namespace take events in and plan, turn by turn. Returns how many turns that takes, and the longest as a part of
/// all.
fn turns(world: &mut World, events: impl IntoIterator<Item = Change>) -> (usize, f64) {
    const TURN: u64 = 1000;
    let mut pending = Pending::default();
    for event in events {
        pending.push(event);
    }
    let (mut longest, mut all, mut turns) = (Duration::ZERO, Duration::ZERO, 0);
    let mut turn = |step: &mut dyn FnMut() -> bool| {
        let start = Processor::now();
        let done = step();
        let took = start.elapsed();
        (longest, all, turns) = (longest.max(took), all + took, turns + 1);
        done
    };
    let mut applying = pending.begin();
    while !turn(&mut || applying.step(&mut world.state, &mut world.nodes, &mut TurnBudget::new(TURN))) {}
    let mut items = Vec::new();
    while !turn(&mut || world.state.step_plan(&mut items, &mut TurnBudget::new(TURN))) {}
    (turns, longest.as_secs_f64() / all.as_secs_f64())
}

const MANY: u32 = 20_000;

/// All that is visited is charged for, so it takes as many turns as that; and none of them takes a large part of the time. A
/// busy machine makes a turn longer, and never shorter: so three are looked at.
fn assert_in_turns(what: &str, (least, share): (usize, f64), tries: &[(usize, f64)]) {
    assert!(
        tries.iter().all(|(turns, _)| *turns >= least),
        "{what}: {tries:?}"
    );
    assert!(
        tries.iter().any(|(_, longest)| *longest < share),
        "{what}: {tries:?}"
    );
}

#[test]
fn a_namespace_of_many_services_is_taken_in_adopted_and_given_up_in_turns() {
    let outputs = [Kind::Slice, Kind::Endpoints];
    let (mut begun, mut forgotten, mut again) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..3 {
        let lists = PendingLists::all(OUTPUTS);
        let mut world = World::listing(OUTPUTS, 1, lists);
        let pods = (0..MANY).map(|number| Change::Pod(pod_of(number, true), 0));
        let services = (0..MANY).map(|number| Change::Service(service_of(number), 0));
        let slices = || (0..MANY).map(|number| Change::Output(OutputEvent::slice(slice_of(number), 0)));
        let ends = Kind::needed_for(OUTPUTS).map(|kind| Change::End(kind, 0, u64::from(MANY)));
        let events = pods.chain(services).chain(slices()).chain(ends);
        begun.push(turns(&mut world, events));
        let sizes = world.state.sizes();
        assert_eq!((sizes.services, sizes.slices), (MANY as usize, MANY as usize));
        world.settle();
        forgotten.push(turns(&mut world, outputs.map(Change::Forget)));
        let sizes = world.state.sizes();
        assert_eq!((sizes.slices, sizes.endpoints), (0, MANY as usize));
        let ends = outputs.map(|kind| Change::End(kind, 1, u64::from(MANY)));
        again.push(turns(&mut world, slices().chain(ends)));
    }
    assert_in_turns("a start", (400, 0.2), &begun);
    // An allocator may put in order what was given back, in one of them.
    assert_in_turns("lost", (120, 0.6), &forgotten);
    assert_in_turns("won again", (200, 0.2), &again);
}

/// Requests that are granted while a list is awaited are put off until it is there.
#[test]
fn what_was_granted_while_a_list_was_awaited_is_released_in_turns() {
    let turns = |granted: u32| {
        let mut world = standing(MANY);
        for number in 0..MANY {
            world.apply(pod_of(number, false));
        }
        let due = world.state.plan().len();
        assert!(due >= MANY as usize, "{due} objects are due");
        turns(&mut world, [Change::Forget(Kind::Slice)]);
        for number in 0..granted {
            let endpoints = ObjectName::endpoints(name(number).into());
            let built = world.state.build_request(&endpoints, &mut Protobuf);
            assert!(built.is_none(), "the list is awaited");
        }
        turns(&mut world, [Change::End(Kind::Slice, 1, u64::from(MANY))]).0
    };
    let (none, all) = (turns(0), turns(MANY));
    assert!(all >= none + 18, "{all} turns, of 1,000 each, and {none} without");
}
