//! The write side in virtual time: the product's publisher, and a model of kube-controller-manager beside it, on the same
//! API servers and with the same changes. Each run prints its figures (`cargo test --test simulator -- --nocapture`) and
//! holds its bounds.

#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

mod fairness;
mod product;
mod rollout;
mod server;
mod upstream;
mod webhooks;
mod world;

use endpointd::core::object::Output;
use endpointd::core::priority::Priority;
use endpointd::core::publish::WatchLimits;
use product::{DEFAULT, Product};
use rollout::Rollouts;
use server::{Server, Servers};
use std::ops::Range;
use std::time::Duration;
use upstream::Upstream;
use world::{Object, SECOND, World, Writer};

/// The size of a slice of 100 endpoints.
const SLICE: usize = 13_000;
/// The rate to which the budget for watchers may grow, in bytes a second for all of them.
const MOST: f64 = 300e6;
/// A budget for each watcher that a flag sets: 0.4 MB/s.
const FIXED: f64 = 0.0;

/// A controller.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Who {
    Upstream,
    /// The product, with a budget of so many bytes a second for watchers.
    Product(f64),
    /// The product without that budget.
    Unlimited,
}

const OURS: Who = Who::Product(DEFAULT);

impl Who {
    /// Creates a world with this controller, and a node for each watcher.
    fn world(self, objects: Vec<Object>, servers: Vec<Server>) -> World {
        let nodes = servers.iter().map(|server| server.watchers).sum::<f64>() as usize;
        let of_flags = product::limits(DEFAULT);
        let product = |watch| Box::new(Product::new(&objects, nodes, watch));
        let writer: Box<dyn Writer> = match self {
            Self::Upstream => Box::new(Upstream::new(&objects)),
            Self::Product(few) => product(product::limits(few)),
            Self::Unlimited => product(WatchLimits {
                watchers: of_flags.watchers,
                ..WatchLimits::UNWATCHED
            }),
        };
        World::new(objects, writer, Servers::new(servers))
    }
}

/// An API server with two cores for 300 watchers.
fn usual() -> Vec<Server> {
    vec![Server::new(300, 2.0)]
}

/// 200 slices of 40 Services in four namespaces.
fn slices() -> Vec<Object> {
    let slice = |number: u32| Object::slice(number / 50, number / 5, SLICE, "all");
    (0..200).map(slice).collect()
}

/// So many times a second, an endpoint of one of the objects becomes ready or unready.
fn flips(world: &mut World, objects: Range<usize>, rate: f64, until: Duration) {
    let mut random = fastrand::Rng::with_seed(1);
    let mut at = Duration::ZERO;
    while at < until {
        let priority = if random.bool() {
            Priority::Add
        } else {
            Priority::Remove
        };
        world.change(random.usize(objects.clone()), priority, at);
        at += Duration::from_secs_f64(1.0 / rate);
    }
}

/// The fewest reachable endpoints of 150 and of 300 rollouts at once.
const REACHABLE: [usize; 2] = [70, 45];

#[test]
fn rollouts_keep_endpoints_reachable() {
    for (deployments, least, theirs) in [(150, REACHABLE[0], 50..=60), (300, REACHABLE[1], 15..=25)] {
        let play = |who: Who| {
            let mut world = who.world(Rollouts::objects(deployments), usual());
            Rollouts::begin(&mut world, deployments);
            world.play(Rollouts::end() + SECOND * 100);
            assert_eq!(world.rollouts.reachable(), 100, "all is published in the end");
            assert_eq!(world.servers.ended(), 0);
            let (fewest, over) = (world.rollouts.fewest, world.over);
            println!(
                "{deployments} rollouts, {who:?}: {fewest} reachable, {} writes, over after {over:.0?}",
                world.writes
            );
            fewest
        };
        assert!(theirs.contains(&play(Who::Upstream)), "the model is calibrated");
        assert!(play(OURS) >= least);
    }
}

/// Watchers of a server that our own watch is not on: it has as many cores to spare as the budget takes, and not as many as the changes
/// would. All 300 are on it, or half of them beside slices of one endpoint. A budget that a flag sets does not grow.
#[test]
fn no_watch_of_another_server_is_ended() {
    let small = |number| Object::slice(number % 100, number, 700, "all");
    let small: Vec<_> = (0..3_000).map(small).collect();
    for (objects, watchers, cores, rate, budgets) in [
        (slices(), 300, 0.72, 200.0, &[FIXED][..]),
        (slices(), 300, 1.8, 200.0, &[DEFAULT, MOST]),
        (small, 150, 0.3, 300.0, &[DEFAULT, MOST]),
    ] {
        let ended = |who: Who| {
            let servers = vec![Server::new(300 - watchers, 2.0), Server::new(watchers, cores)];
            let mut world = who.world(objects.clone(), servers);
            flips(&mut world, 0..objects.len(), rate, SECOND * 30);
            world.play(SECOND * 120);
            let name = format!("another server, {cores} cores, {} slices", objects.len());
            report(&name, who, &world);
            world.servers.ended()
        };
        assert!(ended(Who::Unlimited) > 0, "the server can be overrun");
        assert_eq!(ended(Who::Upstream), 0);
        for budget in budgets {
            assert_eq!(ended(Who::Product(*budget)), 0, "{cores} {budget}");
        }
    }
}

#[test]
fn a_server_that_stalls_is_not_overrun_afterwards() {
    let play = |who: Who| {
        let mut world = who.world(slices(), usual());
        world.servers.goes_on = server::stalls;
        flips(&mut world, 0..200, 30.0, SECOND * 360);
        world.play(SECOND * 420);
        report("stalls", who, &world);
        let recovered = [120, 240, 360].map(|end| world.recovered(SECOND * end));
        let in_flight = world.most_in_flight;
        println!("stalls, {who:?}: over after {recovered:.1?}, {in_flight} in flight");
        (
            world.servers.ended(),
            world.servers.most_sent(),
            in_flight,
            recovered,
        )
    };
    play(Who::Upstream);
    let (ended, most, in_flight, recovered) = play(OURS);
    assert!(ended == 0 && in_flight <= 64);
    assert!(most <= DEFAULT * 1.35, "{most}: it grows by half in a second");
    assert!(recovered.into_iter().all(|after| after <= SECOND * 10));
}

fn report(name: &str, who: Who, world: &World) {
    let servers = &world.servers;
    let latest = servers.all.iter().map(|server| server.latest).max();
    let [removals, additions] = [Priority::Remove, Priority::Add]
        .map(|priority| world.waited(("all", Output::Slice, priority), 0.99));
    println!(
        "{name}, {who:?}: {} watches ended, events {:.1?} late, {:.0} MB/s at most, removals {removals:.1?}, additions \
         {additions:.1?}",
        servers.ended(),
        latest.unwrap_or_default(),
        servers.most_sent() / 1e6
    );
}
