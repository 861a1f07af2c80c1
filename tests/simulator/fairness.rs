//! Classes of objects, and namespaces, beside each other: none waits more than twice as long as in kube-controller-manager's order.

use crate::rollout::Rollouts;
use crate::world::{Object, SECOND, World};
use crate::{OURS, SLICE, Who, flips, usual};
use endpointd::core::priority::Priority;
use std::time::Duration;

/// What counts as waiting: less is the time of a few writes.
const NOTHING: Duration = Duration::from_millis(250);

/// Plays a case with both controllers, and compares how long each class waits: all but one in a hundred, and the longest.
fn compare(name: &str, play: impl Fn(Who) -> World) {
    let (ours, theirs) = (play(OURS), play(Who::Upstream));
    assert_eq!([&ours, &theirs].map(|world| world.servers.ended()), [0, 0]);
    for class in theirs.waits.keys().copied() {
        let waited = |world: &World| [0.5, 0.99, 1.0].map(|part| world.waited(class, part));
        let (ours, theirs) = (waited(&ours), waited(&theirs));
        println!("{name}, {class:?}: {ours:.2?}, kube-controller-manager {theirs:.2?}");
        for (ours, theirs) in ours.into_iter().zip(theirs).skip(1) {
            assert!(
                ours <= theirs * 2 + NOTHING,
                "{name}, {class:?}: {ours:?}, {theirs:?}"
            );
        }
    }
}

/// 300 Services to which endpoints are added, once each, beside 150 rollouts.
#[test]
fn services_that_only_add_beside_rollouts() {
    compare("beside rollouts", |who| {
        let mut objects = Rollouts::objects(150);
        let first = objects.len();
        objects
            .extend((0..300).map(|number| Object::slice(number / 10 + 10, number + 1_000, SLICE, "adding")));
        let mut world = who.world(objects, usual());
        Rollouts::begin(&mut world, 150);
        for number in 0..300 {
            let at = SECOND * 2 + SECOND * number / 30;
            world.change(first + number as usize, Priority::Add, at);
        }
        world.play(Rollouts::end() + SECOND * 100);
        world
    });
}

/// 10,000 namespaces with ten changes a second in all, beside one with a hundred.
#[test]
fn quiet_namespaces_beside_a_hot_one() {
    compare("10,000 namespaces", |who| {
        let hot = (0..200).map(|service| Object::slice(0, service, SLICE, "hot"));
        let quiet = (200..10_200).map(|service| Object::slice(service, service, 1_500, "quiet"));
        let mut world = who.world(hot.chain(quiet).collect(), usual());
        flips(&mut world, 0..200, 100.0, SECOND * 60);
        flips(&mut world, 200..10_200, 10.0, SECOND * 60);
        world.play(SECOND * 120);
        world
    });
}

/// One of ten Services with 5,000 pods changes as a whole every six seconds, beside 400 Services with 40 changes a second.
#[test]
fn services_of_fifty_slices_beside_services_of_one() {
    compare("50 slices", |who| {
        let big = (0..500).map(|number| Object::slice(number / 50, number / 50, SLICE, "big"));
        let small = (500..900).map(|service| Object::slice(service % 40 + 10, service, SLICE, "small"));
        let mut world = who.world(big.chain(small).collect(), usual());
        for round in 0..20 {
            let service = round as usize % 10;
            for slice in service * 50..(service + 1) * 50 {
                world.change(slice, Priority::ALL[service % 3], SECOND * 6 * round);
            }
        }
        flips(&mut world, 500..900, 40.0, SECOND * 120);
        world.play(SECOND * 200);
        world
    });
}

/// 400 Services lose a third of their pods within a second. New ones are ready from three seconds later on, and the old ones are
/// gone after 35 s.
#[test]
fn endpoints_beside_slices_when_a_zone_is_lost() {
    compare("zone loss", |who| {
        let slice = |number: u32| Object::slice(number / 2 % 40, number / 2, SLICE, "zone");
        let endpoints = |service| Object::endpoints(service % 40, service, 2 * SLICE, "zone");
        let objects: Vec<_> = (0..800).map(slice).chain((0..400).map(endpoints)).collect();
        let number = objects.len();
        let mut world = who.world(objects, usual());
        for object in 0..number {
            // Both kinds of objects of a Service change together.
            let service = if object < 800 { object / 2 } else { object - 800 };
            let at = |from, lasting| SECOND * from + SECOND * lasting * service as u32 / 400;
            world.change(object, Priority::Remove, at(5, 1));
            world.change(object, Priority::Add, at(8, 12));
            world.change(object, Priority::Remove, at(40, 1));
        }
        world.play(SECOND * 150);
        world
    });
}
