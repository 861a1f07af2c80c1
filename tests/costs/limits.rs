//! Objects at the API's limits: whatever the owner of a namespace writes, no step does much more than others wait for, what
//! is kept is a small multiple of what was read, and so is what is written.

mod many;
mod news;
mod objects;
mod stops;

use crate::allocator::{Memory, allocated};
use crate::fixtures::World;
use crate::processor::Processor;
use crate::protobuf;
use endpointd::cluster::codec::Protobuf;
use endpointd::core::body::Request;
use endpointd::core::facts::ServiceFacts;
use endpointd::core::inbox::Pending;
use endpointd::core::namespace::Outcome;
use endpointd::core::object::Remote;
use endpointd::core::outputs::Outputs;
use endpointd::core::work::TurnBudget;
use news::{Means, News, content, gone, read};
use objects::{Field, Kind, fields};
use serde_json::json;
use std::time::Duration;

/// Units between two looks at the clock: a turn and the largest piece of work that cannot be divided, which is one object at the
/// API's limits.
const MOST_UNITS: u64 = TurnBudget::TURN + 45_000;
/// Bytes that a step may allocate for each unit of its work. A step that allocates more does work that is not counted.
const ALLOCATED_PER_UNIT: usize = 2048;
/// Bytes that it may allocate beyond that for each byte that was read: tables double.
const UNCOUNTED: usize = 8;
/// Bytes to be written for each byte that was read.
const WRITTEN: usize = 16;
/// Bytes that were read for each request: every object that is written costs the server some, however small it is.
const READ_PER_REQUEST: usize = 256;
/// Requests that are allowed beside those.
const SOME_REQUESTS: usize = 100;
/// Bytes that are allowed beside the multiples.
const FIXED: usize = 1 << 20;

/// The cost of a change.
#[derive(Default, Debug)]
struct Cost {
    units: u64,
    most_units: u64,
    most_allocated: usize,
    written: usize,
    requests: usize,
    /// Only to be printed.
    longest: Duration,
}

/// A namespace with Services of pods, one that depends on the zones, and one without a selector.
fn world() -> World {
    let outputs = Outputs {
        custom: true,
        ..Outputs::ALL
    };
    let mut world = World::new(outputs, 1);
    let services = [
        (
            "app",
            json!({}),
            json!({"selector": {"app": "a"}, "ports": [{"name": "a", "port": 1, "targetPort": "a"}]}),
        ),
        (
            "mirror",
            json!({}),
            json!({"clusterIP": "None", "ports": [{"port": 1}]}),
        ),
        (
            "zoned",
            json!({"service.kubernetes.io/topology-mode": "Auto"}),
            json!({"selector": {"app": "a"}, "ports": [{"port": 1}]}),
        ),
        (
            "custom",
            json!({"endpointd.io/selector": "app in (a)"}),
            json!({"clusterIP": "None", "ports": [{"port": 1}]}),
        ),
    ];
    for (name, annotations, spec) in services {
        let metadata = json!({"name": name, "namespace": "ns", "uid": name, "annotations": annotations});
        let service: ServiceFacts = protobuf::facts("Service", &json!({"metadata": metadata, "spec": spec}));
        world.state.apply_service(service, 0);
    }
    let pod = crate::fixtures::pod(1, &[("app", "a")], true);
    world.apply(pod);
    world.state.watch_zones(&mut world.nodes);
    world.settle();
    world
}

/// The units of all work so far.
fn units(world: &World) -> u64 {
    world.state.work().total() + world.nodes.work().total()
}

/// The published object of a case, as the API server shows it.
type Shown<'a> = (Kind, &'a [u8]);

/// Measures the steps that news take, and all requests that come of them.
fn take(world: &mut World, news: News, shown: Option<Shown<'_>>, version: u64) -> Cost {
    let mut cost = Cost::default();
    let mut pending = Pending::default();
    cost.step(world, |world| {
        news.arrive(world, &mut pending);
        true
    });
    let mut applying = pending.begin();
    while !cost.step(world, |world| {
        applying.step(&mut world.state, &mut world.nodes, &mut TurnBudget::for_a_turn())
    }) {}
    for round in 0.. {
        assert!(round < 20, "it comes to no end");
        let mut items = Vec::new();
        while !cost.step(world, |world| {
            world.state.step_plan(&mut items, &mut TurnBudget::for_a_turn())
        }) {}
        if items.is_empty() {
            break;
        }
        for item in items {
            let mut built = None;
            cost.step(world, |world| {
                built = world.state.build_request(&item.object, &mut Protobuf);
                true
            });
            let Some(built) = built else { continue };
            cost.requests += 1;
            let outcome = match built.request {
                Request::Create(body) | Request::Update(body) => {
                    cost.written += body.len();
                    Outcome::Written(Remote {
                        uid: "u".into(),
                        version,
                    })
                }
                Request::Delete(_) => Outcome::Deleted(None),
                Request::Fetch | Request::Probe => {
                    let shown = shown.filter(|(kind, _)| kind.published().as_ref() == Some(&item.object));
                    let content = shown.and_then(|(kind, text)| content(kind, text));
                    content.map_or(Outcome::NotFound, Outcome::fetched)
                }
            };
            cost.step(world, |world| {
                world.state.apply_outcome(&item.object, outcome, None);
                true
            });
        }
    }
    cost
}

impl Cost {
    fn step(&mut self, world: &mut World, step: impl FnOnce(&mut World) -> bool) -> bool {
        let (before, had, began) = (units(world), allocated(), Processor::now());
        let done = step(world);
        self.longest = self.longest.max(began.elapsed());
        let units = units(world) - before;
        self.units += units;
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

/// Makes an object, edits it twice, of which the watch shows the second one, and deletes it. Returns what exceeds a bound.
fn excess(field: &Field, long: bool) -> Vec<String> {
    let items = field.most(long);
    assert!(items > 1, "{}", field.name);
    let mut world = world();
    let (first, read) = field.object(items, long, 100);
    let versions = [
        first,
        field.object(items - 1, long, 200).0,
        field.object(items - 2, long, 300).0,
    ];
    let memory_bound = match field.kind {
        Kind::Endpoints => 12,
        _ if field.name.starts_with("selected") => 5,
        _ => 16,
    };
    let all = Memory::measure();
    let mut excess = Vec::new();
    for (what, text, means, version) in [
        ("made", Some(&*versions[0]), Means::List, 150),
        ("edited", Some(&*versions[1]), Means::List, 250),
        ("edited again", Some(&*versions[2]), Means::Watch, 350),
        ("deleted", None, Means::Watch, 2_000_000),
    ] {
        let here = Memory::measure();
        let news = text.map_or_else(|| gone(field.kind), |text| self::read(field.kind, text, means));
        let shown = text.map(|text| (field.kind, text));
        let cost = take(&mut world, news, shown, version);
        let label = format!(
            "{:?} with {items} {} {}, {what}: {} units, {} at most, {} KiB uncounted, {} times in memory, {} times afterwards, {} \
             times written in {} requests, {:?} at most",
            field.kind,
            if long { "long" } else { "short" },
            field.name,
            cost.units,
            cost.most_units,
            cost.most_allocated >> 10,
            times(here.peak(), read),
            times(all.live(), read),
            times(cost.written, read),
            cost.requests,
            cost.longest,
        );
        println!("{label}");
        if field.kind == Kind::Node {
            assert!(cost.units > 0, "it concerns a Service of the namespace: {label}");
        }
        if cost.most_units > MOST_UNITS
            || cost.most_allocated > UNCOUNTED * read + FIXED
            || here.peak().max(all.live()) > memory_bound * read + FIXED
            || cost.written > WRITTEN * read + FIXED
            || cost.requests > read / READ_PER_REQUEST + SOME_REQUESTS
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
    hold(Kind::OwnEndpoints);
}

#[test]
fn slices_at_the_limits_cost_a_multiple_of_their_size() {
    hold(Kind::Slice);
    hold(Kind::Custom);
    hold(Kind::Mirrored);
}

#[test]
fn nodes_at_the_limits_cost_a_multiple_of_their_size() {
    hold(Kind::Node);
}
