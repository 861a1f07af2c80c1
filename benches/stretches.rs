//! The longest stretches for which a shard works without a pause in a namespace of many Services with a pod each:
//! `cargo bench --bench stretches [-- COUNT]`, by default 100,000.
//!
//! `one by one` has each Service and its pod come by themselves, planned and written at once: a stretch is one event, one
//! plan, or one request and its answer. Those above a millisecond are what tables take that grow. The other rows have all
//! come at once, as lists show them, and are cut into turns as the shard cuts them.

#[path = "support/fixtures.rs"]
#[allow(dead_code)] // Other benchmarks use more of it.
mod fixtures;
#[path = "support/goals.rs"]
#[allow(dead_code)] // Other benchmarks use more of it.
mod goals;
#[path = "../tests/support/processor.rs"]
#[allow(dead_code, clippy::unwrap_used)] // A test's.
mod processor;
#[path = "support/sandboxes.rs"]
mod sandboxes;

use endpointd::core::inbox::{Change, Pending};
use endpointd::core::namespace::{Kind, OutputEvent, PendingLists};
use endpointd::core::work::TurnBudget;
use fixtures::World;
use goals::Goals;
use mimalloc::MiMalloc;
use processor::Processor;
use sandboxes::{OUTPUTS, name, pod_of, service_of, slice_of};
use std::time::Duration;

/// As the program has it: when a table grows, this one copies it.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// In milliseconds.
const GOAL: f64 = 5.0;
/// Stretches of one kind that are shown.
const SHOWN: usize = 4;

/// The longest stretches of one kind, with how many Services there were.
#[derive(Default)]
struct Longest {
    all: Vec<(Duration, u32)>,
}

impl Longest {
    fn time<T>(&mut self, at: u32, work: impl FnOnce() -> T) -> T {
        let start = Processor::now();
        let done = work();
        self.all.push((start.elapsed(), at));
        done
    }

    fn show(mut self, what: &str, goals: &mut Goals) {
        self.all
            .sort_unstable_by_key(|(took, _)| std::cmp::Reverse(*took));
        let millis = |(took, at): &(Duration, u32)| format!("{:.2} ms at {at}", took.as_secs_f64() * 1e3);
        let shown: Vec<String> = self.all.iter().take(SHOWN).map(millis).collect();
        println!(
            "{what:28} {:>8} stretches, longest {}",
            self.all.len(),
            shown.join(", ")
        );
        let longest = self.all.first().map_or(Duration::ZERO, |(took, _)| *took);
        goals.at_most(what, Some(longest.as_secs_f64() * 1e3), GOAL, " ms");
    }
}

/// Has them come, and an eighth of them go and others come in their place, one by one.
fn one_by_one(count: u32, goals: &mut Goals) -> World {
    let mut world = World::new(OUTPUTS, 1);
    let [mut pods, mut services, mut plans, mut writes, mut gone] =
        std::array::from_fn(|_| Longest::default());
    let mut settle = |world: &mut World, at| loop {
        let items = plans.time(at, || world.state.plan());
        if items.is_empty() {
            return;
        }
        for item in items {
            writes.time(at, || world.write(&item.object));
        }
    };
    for number in 0..count {
        let (pod, service) = (pod_of(number, true), service_of(number));
        pods.time(number, || world.apply(pod));
        services.time(number, || world.state.apply_service(service, 0));
        settle(&mut world, number);
    }
    for number in 0..count / 8 {
        gone.time(number, || world.remove_service(&name(number)));
        settle(&mut world, number);
        let name = pod_of(number, true).name;
        gone.time(number, || world.state.remove_pod(&name, &mut world.nodes));
        settle(&mut world, number);
    }
    for number in count..count + count / 8 {
        let (pod, service) = (pod_of(number, true), service_of(number));
        pods.time(number, || world.apply(pod));
        services.time(number, || world.state.apply_service(service, 0));
        settle(&mut world, number);
    }
    for (what, longest) in [
        ("one by one: pods", pods),
        ("one by one: Services", services),
        ("one by one: plans", plans),
        ("one by one: writes", writes),
        ("one by one: gone", gone),
    ] {
        longest.show(what, goals);
    }
    world
}

/// Takes events in and plans, turn by turn.
fn in_turns(what: &str, world: &mut World, events: impl IntoIterator<Item = Change>, goals: &mut Goals) {
    let (mut pushed, mut turns) = (Longest::default(), Longest::default());
    let mut pending = Pending::default();
    for (number, event) in (0..).zip(events) {
        pushed.time(number, || pending.push(event));
    }
    let mut number = 0;
    let mut turn = |step: &mut dyn FnMut() -> bool| {
        number += 1;
        turns.time(number, step)
    };
    let mut applying = pending.begin();
    while !turn(&mut || applying.step(&mut world.state, &mut world.nodes, &mut TurnBudget::for_a_turn())) {}
    let mut wants = Vec::new();
    loop {
        let planned = turn(&mut || world.state.step_plan(&mut wants, &mut TurnBudget::for_a_turn()));
        // The shard reports them after each turn.
        wants.clear();
        if planned {
            break;
        }
    }
    pushed.show(&format!("{what}: into the inbox"), goals);
    turns.show(&format!("{what}: turns"), goals);
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_listed = arguments
        .iter()
        .any(|argument| argument == "--test" || argument == "--list");
    if is_listed {
        return;
    }
    let count = arguments.iter().find_map(|argument| argument.parse().ok());
    let count: u32 = count.unwrap_or(100_000);
    let mut goals = Goals::default();
    let mut world = one_by_one(count, &mut goals);
    let forgotten = [Kind::Slice, Kind::Endpoints].map(Change::Forget);
    in_turns("forgotten", &mut world, forgotten, &mut goals);
    drop(world);

    let mut world = World::listing(OUTPUTS, 1, PendingLists::all(OUTPUTS));
    // Slices are kept until all pods and Services are known.
    let slices = (0..count).map(|number| Change::Output(OutputEvent::slice(slice_of(number), 0)));
    let pods = (0..count).map(|number| Change::Pod(pod_of(number, true), 0));
    let services = (0..count).map(|number| Change::Service(service_of(number), 0));
    let ends = Kind::needed_for(OUTPUTS).map(|kind| Change::End(kind, 0, u64::from(count)));
    in_turns(
        "listed",
        &mut world,
        slices.chain(pods).chain(services).chain(ends),
        &mut goals,
    );
    goals.print();
}
