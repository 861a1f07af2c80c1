//! Objects at the API's limits: whatever the owner of a namespace writes, no step does much more than others wait for, what
//! is kept is a small multiple of what was read, and so is what is written.

mod objects;

use crate::allocator::{Memory, allocated};
use crate::fixtures::World;
use crate::processor::Processor;
use endpointd::cluster::codec::{Encoding, NamedNode, Namespaced, object};
use endpointd::core::body::Request;
use endpointd::core::facts::{EndpointsFacts, PodFacts, ServiceFacts, SliceFacts};
use endpointd::core::followed_leases::lease::LeaseFacts;
use endpointd::core::inbox::{Change, Pending};
use endpointd::core::namespace::Outcome;
use endpointd::core::object::Remote;
use endpointd::core::outputs::Outputs;
use endpointd::core::work::TurnBudget;
use objects::{Field, Kind, fields};
use std::time::Duration;

/// The budget of a step, as in a shard.
const TURN: u64 = 10_000;
/// Units between two looks at the clock: a turn and the largest piece of work that cannot be divided.
const MOST_UNITS: u64 = 5 * TURN;
/// Bytes that a step may allocate for each unit of its work. A step that allocates more does work that is not counted.
const ALLOCATED_PER_UNIT: usize = 2048;
/// Bytes that it may allocate beyond that for each byte that was read: tables double.
const UNCOUNTED: usize = 8;
/// Bytes to be written for each byte that was read.
const WRITTEN: usize = 16;
/// Bytes that are allowed beside the multiples.
const FIXED: usize = 1 << 20;

/// The cost of a change.
#[derive(Default, Debug)]
struct Cost {
    most_units: u64,
    most_allocated: usize,
    written: usize,
    /// Only to be printed.
    longest: Duration,
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
        applying.step(&mut world.state, &mut world.nodes, &mut TurnBudget::new(TURN))
    }) {}
    for round in 0.. {
        assert!(round < 20, "it comes to no end");
        let mut items = Vec::new();
        while !cost.step(world, |world| {
            world.state.step_plan(&mut items, &mut TurnBudget::new(TURN))
        }) {}
        if items.is_empty() {
            break;
        }
        for item in items {
            let mut written = 0;
            cost.step(world, |world| {
                let Some(built) = world.state.build_request(&item.object, &mut Encoding::Json) else {
                    return true;
                };
                let outcome = match built.request {
                    Request::Create(body) | Request::Update(body) => {
                        written = body.len();
                        Outcome::Written(Remote {
                            uid: "u".into(),
                            version,
                        })
                    }
                    Request::Delete(_) => Outcome::Deleted(None),
                    Request::Fetch | Request::Probe => Outcome::NotFound,
                };
                world.state.apply_outcome(&item.object, outcome, None);
                true
            });
            cost.written += written;
        }
    }
    cost
}

impl Cost {
    fn step(&mut self, world: &mut World, step: impl FnOnce(&mut World) -> bool) -> bool {
        let (before, had, began) = (world.state.work().total(), allocated(), Processor::now());
        let done = step(world);
        self.longest = self.longest.max(began.elapsed());
        let units = world.state.work().total() - before;
        self.most_units = self.most_units.max(units);
        let uncounted = (allocated() - had).saturating_sub(ALLOCATED_PER_UNIT * units as usize);
        self.most_allocated = self.most_allocated.max(uncounted);
        done
    }
}

/// Prints a multiple with one digit after the point.
fn times(bytes: usize, read: usize) -> String {
    format!("{}.{}", bytes / read, bytes * 10 / read % 10)
}

/// Makes an object, edits it and deletes it. Returns what exceeds a bound.
fn excess(field: &Field, long: bool) -> Vec<String> {
    let items = field.most(long);
    assert!(items > 1, "{}", field.name);
    let mut world = world();
    let versions = [field.object(items, long, 100), field.object(items - 1, long, 200)];
    let read = versions[0].len();
    let memory_bound = match field.kind {
        Kind::Endpoints => 12,
        _ if field.name.starts_with("selected") => 5,
        _ => 16,
    };
    let all = Memory::measure();
    let mut excess = Vec::new();
    for (what, text, version) in [
        ("made", Some(&versions[0]), 150),
        ("edited", Some(&versions[1]), 250),
        ("deleted", None, 2_000_000),
    ] {
        let here = Memory::measure();
        let change = text.map_or_else(|| gone(field.kind), |text| self::read(field.kind, text));
        let cost = take(&mut world, change, version);
        let label = format!(
            "{:?} with {items} {} {}, {what}: {} units, {} KiB uncounted, {} times in memory, {} times afterwards, {} \
             times written, {:?} at most",
            field.kind,
            if long { "long" } else { "short" },
            field.name,
            cost.most_units,
            cost.most_allocated >> 10,
            times(here.peak(), read),
            times(all.live(), read),
            times(cost.written, read),
            cost.longest,
        );
        println!("{label}");
        if cost.most_units > MOST_UNITS
            || cost.most_allocated > UNCOUNTED * read + FIXED
            || here.peak().max(all.live()) > memory_bound * read + FIXED
            || cost.written > WRITTEN * read + FIXED
        {
            excess.push(label);
        }
    }
    excess
}

fn hold(kind: Kind) {
    let fields = fields(kind);
    let excess: Vec<_> = fields
        .iter()
        .flat_map(|field| [false, true].map(|long| excess(field, long)))
        .flatten()
        .collect();
    assert!(excess.is_empty(), "{excess:#?}");
}

#[test]
fn pods_at_the_limits_cost_a_multiple_of_their_size() {
    hold(Kind::Pod);
}

#[test]
fn services_at_the_limits_cost_a_multiple_of_their_size() {
    hold(Kind::Service);
}

#[test]
fn endpoints_at_the_limits_cost_a_multiple_of_their_size() {
    hold(Kind::Endpoints);
}

#[test]
fn slices_at_the_limits_cost_a_multiple_of_their_size() {
    hold(Kind::Slice);
    hold(Kind::Mirrored);
}

#[test]
fn nodes_and_leases_at_the_limits_take_a_multiple_of_their_size() {
    hold(Kind::Node);
    hold(Kind::Lease);
}
