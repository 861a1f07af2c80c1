//! Services that publish only the holder of a Lease: what one of them costs does not grow with what others have in the
//! namespace.

use crate::fixtures::{CUSTOM, World, pod};
use crate::processor::Processor;
use crate::replacements::{Costs, other};
use crate::tenants::assert_near_linear;
use endpointd::cluster::codec::{Namespaced, object};
use endpointd::core::facts::ServiceFacts;
use endpointd::core::followed_leases::lease::{LeaseChange, LeaseEvent, LeaseFacts, LeaseList, LeaseRequest};
use endpointd::core::inbox::{Change, Pending};
use endpointd::core::lease::Record;
use endpointd::core::namespace::{Kind, Notification, PendingLists};
use endpointd::core::work::TurnBudget;
use serde_json::json;
use std::time::Duration;

/// A Service that follows a Lease.
fn led(name: &str, lease: &str) -> ServiceFacts {
    let body = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name, "annotations": {"endpointd.io/leader": lease}},
        "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 80}]},
    });
    let body = object::<Namespaced<ServiceFacts>>(body.to_string().as_bytes());
    body.unwrap().facts
}

/// A Lease that a pod has renewed so many times.
fn held(lease: &str, holder: &str, renewals: u64) -> LeaseFacts {
    LeaseFacts {
        name: lease.into(),
        version: 1 + renewals,
        record: Record {
            holder: holder.to_owned(),
            seconds: 15,
            transitions: i32::try_from(renewals).unwrap(),
            ..Record::default()
        },
    }
}

fn learned(generation: u64, event: LeaseEvent) -> Change {
    let at = Duration::from_secs(1);
    Change::Leases(LeaseChange {
        generation,
        at,
        event,
    })
}

/// Returns the number under which a namespace asks to follow its Leases.
fn generation(world: &mut World) -> u64 {
    let requests = world.state.take_lease_requests();
    let mut follows = requests.iter().filter_map(|request| match request {
        LeaseRequest::Follow(generation) => Some(*generation),
        LeaseRequest::Read(..) | LeaseRequest::Leave => None,
    });
    follows.next().unwrap()
}

/// A Service whose leader is published, with slices of another controller of which none holds anything.
fn beside_others(many: usize) -> Duration {
    let mut costs = Costs::new(CUSTOM, PendingLists::NONE);
    let holder = pod(1, &[], true);
    costs.world.apply(holder.clone());
    costs.apply(vec![Change::Service(led("s", "l"), 0)]);
    let generation = generation(&mut costs.world);
    let listed = LeaseEvent::Listed(LeaseList::new(
        Duration::ZERO,
        1,
        vec![held("l", &holder.name, 0)],
    ));
    let seen = LeaseEvent::Seen(held("l", &holder.name, 1));
    for event in [LeaseEvent::Begun, listed, seen] {
        costs.apply(vec![learned(generation, event)]);
    }
    assert_eq!(costs.world.state.totals().endpoints, 1);
    let start = Processor::now();
    for number in 0..many {
        costs.appear(other(number, number as u64 + 1));
    }
    let took = start.elapsed();
    costs.assert_linear(many, 2);
    assert_eq!(costs.reads, many);
    assert_eq!(costs.world.state.totals().endpoints, 1);
    took
}

#[test]
fn a_leader_is_judged_without_a_look_at_each_slice_of_another_controller() {
    assert_near_linear("slices", 20, || beside_others(1000), || beside_others(20_000));
}

/// The budget of a step.
const STEP: u64 = 1000;
/// The number of Services, or of Leases.
const MANY: usize = 20_000;

/// Applies changes and plans in steps, after each of which users are told. Returns the number of steps, and the notifications
/// of each.
fn steps(world: &mut World, changes: Vec<Change>) -> (usize, Vec<Vec<Notification>>) {
    let mut pending = Pending::default();
    for change in changes {
        pending.push(change);
    }
    let (mut steps, mut told) = (0, Vec::new());
    let mut applying = pending.begin();
    loop {
        let done = applying.step(&mut world.state, &mut world.nodes, &mut TurnBudget::new(STEP));
        told.push(world.state.take_notifications());
        steps += 1;
        if done {
            break;
        }
    }
    let mut items = Vec::new();
    loop {
        let done = world.state.step_plan(&mut items, &mut TurnBudget::new(STEP));
        told.push(world.state.take_notifications());
        if done {
            return (steps, told);
        }
    }
}

/// The most notifications of one step.
fn most(told: &[Vec<Notification>]) -> usize {
    told.iter().map(Vec::len).max().unwrap()
}

#[test]
fn what_concerns_all_followed_leases_is_applied_in_steps() {
    let name = |number: usize| format!("lease-{number}");
    let mut world = World::new(CUSTOM, 1);
    let services = (0..MANY).map(|number| Change::Service(led(&name(number), &name(number)), 0));
    steps(&mut world, services.collect());
    let follows = generation(&mut world);
    let least = MANY / STEP as usize;
    let (begun, _) = steps(&mut world, vec![learned(follows, LeaseEvent::Begun)]);
    assert!(begun >= least, "to begin took {begun} steps");
    // Half of them are there.
    let all = (0..MANY)
        .step_by(2)
        .map(|number| held(&name(number), "nobody", 0));
    let (listed, told) = steps(
        &mut world,
        vec![learned(
            follows,
            LeaseEvent::Listed(LeaseList::new(Duration::ZERO, 1, all.collect())),
        )],
    );
    assert!(listed >= least, "a list took {listed} steps");
    let told: Vec<_> = told.concat();
    let reasons = told.iter().filter_map(|told| match told {
        Notification::Annotated(notice) => Some(notice.reason),
        _ => None,
    });
    let missing = reasons.filter(|reason| *reason == "NoLease").count();
    assert_eq!(missing, MANY / 2, "what the list did not show is not there");
    let (forgotten, _) = steps(&mut world, vec![Change::Forget(Kind::Slice)]);
    assert!(forgotten >= 4 * least, "to forget them took {forgotten} steps");
    assert!(generation(&mut world) > follows, "they are followed anew");
}

#[test]
fn the_news_of_a_lease_that_all_services_follow_is_told_as_it_comes() {
    let mut world = World::new(CUSTOM, 1);
    let holder = pod(1, &[], true);
    world.apply(holder.clone());
    let services = (0..MANY).map(|number| Change::Service(led(&format!("s-{number}"), "l"), 0));
    steps(&mut world, services.collect());
    let follows = generation(&mut world);
    let listed = LeaseEvent::Listed(LeaseList::new(
        Duration::ZERO,
        1,
        vec![held("l", &holder.name, 0)],
    ));
    for event in [LeaseEvent::Begun, listed] {
        steps(&mut world, vec![learned(follows, event)]);
    }
    let seen = LeaseEvent::Seen(held("l", &holder.name, 1));
    let (_, told) = steps(&mut world, vec![learned(follows, seen)]);
    let took_over = |told: &&Notification| matches!(told, Notification::TookOver { .. });
    let all: usize = told
        .iter()
        .map(|told| told.iter().filter(took_over).count())
        .sum();
    assert_eq!(all, MANY);
    assert!(most(&told) <= 400, "{} notifications in one step", most(&told));
}

#[test]
fn what_was_wrong_before_a_process_began_to_write_is_told_in_steps() {
    let mut world = World::listing(CUSTOM, 1, PendingLists::all(CUSTOM));
    let services = (0..MANY).map(|number| {
        let selected = ServiceFacts {
            selectorless: false,
            ..led(&format!("s-{number}"), "l")
        };
        Change::Service(selected, 1)
    });
    let ends = Kind::needed_for(CUSTOM).map(|kind| Change::End(kind, 1, 900_000));
    let (_, told) = steps(&mut world, services.chain(ends).collect());
    let standing = |told: &&Notification| matches!(told, Notification::Standing(_));
    let all: usize = told.iter().map(|told| told.iter().filter(standing).count()).sum();
    assert_eq!(all, MANY);
    assert!(
        most(&told) <= STEP as usize + 100,
        "{} notifications in one step",
        most(&told)
    );
}
