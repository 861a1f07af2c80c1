//! Objects at the API's limits: whatever the owner of a namespace writes, no step does much more than others wait for, what
//! is kept is a small multiple of what was read, and so is what is written.

mod objects;

use crate::allocator::{Memory, allocated};
use crate::fixtures::World;
use endpointd::cluster::codec::{Encoding, NamedNode, Namespaced, object};
use endpointd::core::body::Request;
use endpointd::core::facts::{EndpointsFacts, PodFacts, ServiceFacts, SliceFacts};
use endpointd::core::inbox::{Change, Pending};
use endpointd::core::leader::LeaseFacts;
use endpointd::core::namespace::Outcome;
use endpointd::core::object::Remote;
use endpointd::core::outputs::Outputs;
use endpointd::core::work::Budget;
use objects::{Field, Kind, fields};

/// The budget of a step, as in a shard.
const TURN: u64 = 10_000;
/// Units between two looks at the clock: a turn and the largest piece of work that cannot be divided.
const MOST_UNITS: u64 = 5 * TURN;
/// Bytes that a step may allocate for each unit of its work, and in any case. What allocates more is not counted.
const ALLOCATED_PER_UNIT: usize = 2048;
/// Bytes in memory for each byte that was read, at the peak.
const MEMORY: usize = 12;
/// Bytes to be written for each byte that was read.
const WRITTEN: usize = 40;
/// What is allowed beside the multiples.
const FIXED: usize = 256 << 10;

/// What a change costs.
#[derive(Default, Debug)]
struct Cost {
    most_units: u64,
    most_allocated: usize,
    written: usize,
}

/// A namespace with a Service of pods, and one without a selector.
fn world() -> World {
    let outputs = Outputs {
        custom: true,
        ..Outputs::ALL
    };
    let mut world = World::new(outputs, 1);
    let services = [
        r#"{"metadata":{"name":"app","namespace":"ns","uid":"app"},"spec":{"selector":{"app":"a"},"ports":[{"name":"a","port":1,"targetPort":"a"}]}}"#,
        r#"{"metadata":{"name":"mirror","namespace":"ns","uid":"mirror"},"spec":{"clusterIP":"None","ports":[{"port":1}]}}"#,
    ];
    for service in services {
        world.state.apply_service(
            object::<Namespaced<ServiceFacts>>(service.as_bytes())
                .unwrap()
                .facts,
            0,
        );
    }
    let pod = crate::fixtures::pod(1, &[("app", "a")], true);
    world.apply(pod);
    world.settle();
    world
}

/// Reads an object as a change. `None` if it is not one of a namespace.
fn read(kind: Kind, text: &str) -> Option<Change> {
    let bytes = text.as_bytes();
    Some(match kind {
        Kind::Pod => Change::Pod(object::<Namespaced<PodFacts>>(bytes).unwrap().facts, 0),
        Kind::Service => Change::Service(object::<Namespaced<ServiceFacts>>(bytes).unwrap().facts, 0),
        Kind::Endpoints => Change::Endpoints(
            Box::new(object::<Namespaced<EndpointsFacts>>(bytes).unwrap().facts),
            0,
        ),
        Kind::Slice => Change::Slice(
            Box::new(object::<Namespaced<SliceFacts>>(bytes).unwrap().facts),
            0,
        ),
        Kind::Mirrored => Change::Mirrored(
            Box::new(object::<Namespaced<SliceFacts>>(bytes).unwrap().facts),
            0,
        ),
        Kind::Node => {
            object::<NamedNode>(bytes).unwrap();
            return None;
        }
        Kind::Lease => {
            object::<Namespaced<LeaseFacts>>(bytes).unwrap();
            return None;
        }
    })
}

fn gone(kind: Kind) -> Option<Change> {
    Some(match kind {
        Kind::Pod => Change::PodGone("pod".into()),
        Kind::Service => Change::ServiceGone("svc".into()),
        Kind::Endpoints => Change::EndpointsGone("mirror".into(), 1_000_000),
        Kind::Slice => Change::SliceGone("slice".into(), 1_000_000),
        Kind::Mirrored => Change::MirroredGone("slice".into(), 1_000_000),
        Kind::Node | Kind::Lease => return None,
    })
}

/// Measures the steps of a change, and all writes that come of it.
fn take(world: &mut World, change: Option<Change>, version: u64) -> Cost {
    let mut cost = Cost::default();
    let Some(change) = change else {
        return cost;
    };
    let mut pending = Pending::default();
    pending.push(change);
    let mut applying = pending.begin();
    while !cost.step(world, |world| {
        applying.step(&mut world.state, &mut world.nodes, &mut Budget::new(TURN))
    }) {}
    for round in 0.. {
        assert!(round < 20, "it comes to no end");
        let mut items = Vec::new();
        while !cost.step(world, |world| {
            world.state.step_plan(&mut items, &mut Budget::new(TURN))
        }) {}
        if items.is_empty() {
            break;
        }
        for item in items {
            let mut written = 0;
            cost.step(world, |world| {
                let Some(granted) = world.state.grant(&item.object, &mut Encoding::Json) else {
                    return true;
                };
                let outcome = match granted.request {
                    Request::Create(body) | Request::Update(body) => {
                        written = body.len();
                        Outcome::Written(Remote {
                            uid: "u".into(),
                            version,
                        })
                    }
                    Request::Delete(_) => Outcome::Deleted,
                    Request::Fetch | Request::Probe => Outcome::NotFound,
                };
                world.state.outcome(&item.object, outcome, None);
                true
            });
            cost.written += written;
        }
    }
    cost
}

impl Cost {
    fn step(&mut self, world: &mut World, step: impl FnOnce(&mut World) -> bool) -> bool {
        let (before, had) = (world.state.work().total(), allocated());
        let done = step(world);
        let units = world.state.work().total() - before;
        self.most_units = self.most_units.max(units);
        let uncounted = (allocated() - had).saturating_sub(ALLOCATED_PER_UNIT * units as usize);
        self.most_allocated = self.most_allocated.max(uncounted);
        done
    }
}

fn hold(field: &Field, long: bool) {
    let items = field.most(long);
    assert!(items > 1, "{}", field.name);
    let mut world = world();
    let versions = [field.object(items, long, 100), field.object(items - 1, long, 200)];
    let memory = Memory::measure();
    let mut changes = versions.iter().map(Some).chain([None]);
    let mut failures = Vec::new();
    for (what, version) in [("made", 150), ("edited", 250), ("deleted", 2_000_000)] {
        let text = changes.next().flatten();
        let change = text.map_or_else(|| gone(field.kind), |text| read(field.kind, text));
        let cost = take(&mut world, change, version);
        let read = versions[0].len();
        let label = format!(
            "{:?} with {items} {}{}, {what}: {} units, {} KiB uncounted, {}.{} times in memory, {}.{} times written",
            field.kind,
            if long { "long " } else { "short " },
            field.name,
            cost.most_units,
            cost.most_allocated >> 10,
            memory.peak() / read,
            memory.peak() * 10 / read % 10,
            cost.written / read,
            cost.written * 10 / read % 10,
        );
        println!("{label}");
        if cost.most_units > MOST_UNITS
            || cost.most_allocated > 2 * read + FIXED
            || memory.peak() > MEMORY * read + FIXED
            || cost.written > WRITTEN * read + FIXED
        {
            failures.push(label);
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

fn hold_all(kind: Kind) {
    let mut failures = Vec::new();
    for field in fields().iter().filter(|field| field.kind == kind) {
        for long in [false, true] {
            let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| hold(field, long)));
            if held.is_err() {
                failures.push((field.name, long));
            }
        }
    }
    assert!(failures.is_empty(), "{kind:?}: {failures:?}");
}

#[test]
fn pods_at_the_limits_cost_a_multiple_of_their_size() {
    hold_all(Kind::Pod);
}

#[test]
fn services_at_the_limits_cost_a_multiple_of_their_size() {
    hold_all(Kind::Service);
}

#[test]
fn endpoints_at_the_limits_cost_a_multiple_of_their_size() {
    hold_all(Kind::Endpoints);
}

#[test]
fn slices_at_the_limits_cost_a_multiple_of_their_size() {
    hold_all(Kind::Slice);
    hold_all(Kind::Mirrored);
}

#[test]
fn nodes_and_leases_at_the_limits_take_a_multiple_of_their_size() {
    hold_all(Kind::Node);
    hold_all(Kind::Lease);
}
