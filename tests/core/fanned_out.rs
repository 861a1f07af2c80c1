//! The effect of writes on the clients that watch slices, on a model of API servers, in virtual time.

use crate::fanout::product::{BesideWebhook, DEFAULT, Product};
use crate::fanout::{Case, Kind, Outcome, Sort, play};
use memory_apiserver::fanout::{Clients, Cluster, Config, Own};
use std::time::Duration;

/// Seconds until half of all watchers and changes, and 99 in 100.
fn seen(outcome: &Outcome) -> (f64, f64) {
    let seen = outcome.seen();
    (
        seen.quantile(0.5).as_secs_f64(),
        seen.quantile(0.99).as_secs_f64(),
    )
}

fn assert_near(what: &str, figure: f64, measured: f64, part: f64) {
    let allowed = measured * (1.0 - part)..=measured * (1.0 + part);
    assert!(
        allowed.contains(&figure),
        "{what}: {figure:.2} instead of {measured:.2}"
    );
}

fn cpu(outcome: &Outcome) -> f64 {
    outcome.servers.cpu.as_secs_f64()
}

/// With the lists of the beginning, which were counted as well.
fn gigabytes(outcome: &Outcome, case: &Case) -> f64 {
    let Config {
        watchers,
        slices,
        bytes,
        ..
    } = case.servers;
    (outcome.servers.bytes as f64 + (watchers * slices * bytes) as f64) / 1e9
}

/// The figures of a real kube-apiserver with two cores for itself, etcd and all clients.
#[test]
fn calibrated_on_real_figures() {
    let mut ended = Vec::new();
    for seed in 1..=4 {
        let case = Case::measured(Clients::Resume, seed);
        let kcm = Sort::KcmLike.play(&case);
        assert_eq!(kcm.servers.ended, 0);
        let (p50, p99) = seen(&kcm);
        assert_near("p50", p50, 3.9, 0.2);
        assert_near("p99", p99, 9.0, 0.2);
        assert_near("CPU", cpu(&kcm), 28.0, 0.2);
        assert_near("GB", gigabytes(&kcm, &case), 2.95, 0.2);

        let thirty = Sort::Thirty.play(&case);
        assert!(thirty.servers.ended <= 3, "{}", thirty.servers.ended);
        let (p50, p99) = seen(&thirty);
        assert_near("p50", p50, 2.6, 0.45);
        assert_near("p99", p99, 6.2, 0.35);
        assert_near("CPU", cpu(&thirty), 26.0, 0.35);
        assert_near("GB", gigabytes(&thirty, &case), 3.4, 0.2);

        let earlier = Sort::Earlier.play(&case);
        // 262 were measured at the end of 20 s.
        assert!(earlier.unechoed > 50, "{}", earlier.unechoed);
        assert_near("CPU", cpu(&earlier), 29.5, 0.2);
        ended.push(earlier.servers.ended);
    }
    // Chance decides: 1,495, 0, 89 and 72 were measured.
    assert!(
        ended.contains(&0) && ended.iter().any(|ended| *ended > 500),
        "{ended:?}"
    );
}

#[test]
fn calibrated_on_clients_that_list_again() {
    let mut ended = 0;
    for seed in 1..=4 {
        let case = Case::measured(Clients::Relist, seed);
        assert_eq!(Sort::KcmLike.play(&case).servers.ended, 0);
        assert!(Sort::Thirty.play(&case).servers.ended <= 3);
        ended += Sort::Earlier.play(&case).servers.ended;
    }
    assert!(
        ended > 1_000,
        "3,409 and 2,795 were measured in one round each, not {ended} in four"
    );
}

#[test]
fn calibrated_on_two_large_services() {
    for seed in 1..=2 {
        let case = Case::measured_two_services(seed);
        let kcm = Sort::KcmLike.play(&case);
        assert_eq!(kcm.servers.ended, 0);
        assert_near("p50", seen(&kcm).0, 1.3, 0.35);
        assert_near("CPU", cpu(&kcm), 23.0, 0.35);
        assert_near("writes", kcm.servers.writes as f64, 367.0, 0.35);
        let earlier = Sort::Earlier.play(&case);
        assert_eq!(earlier.servers.ended, 0);
        assert_near("CPU", cpu(&earlier), 28.0, 0.35);
    }
}

/// Without watchers a change was visible after 11 to 13 ms.
#[test]
fn calibrated_without_watchers() {
    let (p50, p99) = seen(&Sort::Earlier.play(&Case::new(Kind::Random, 50.0, 0)));
    assert_near("p50", p50, 0.012, 0.35);
    assert!(p99 < 0.039, "{p99}");
}

#[test]
fn a_case_plays_the_same_each_time() {
    let case = Case::new(Kind::Rollout, 100.0, 50);
    for sort in [Sort::KcmLike, Sort::Now, Sort::Ideal] {
        let (one, other) = (sort.play(&case), sort.play(&case));
        assert_eq!(one.servers.bytes, other.servers.bytes);
        assert_eq!(one.over, other.over);
        assert!(one.over.is_some(), "it is over at some time");
    }
    assert!(Cluster::new(Config::default()).is_idle());
}

fn assert_removals_within_a_second(outcome: &Outcome, what: &str) {
    let removals = outcome.servers.removals.quantile(0.99).as_secs_f64();
    assert!(removals <= 1.0, "{what}: removals wait {removals:.2} s");
}

/// Where the API servers are busy, in the benchmark's grid.
#[test]
fn watchers_are_spared_and_see_changes_sooner_than_with_upstreams_limits() {
    for kind in [Kind::Random, Kind::Rollout] {
        for watchers in [100, 300, 1_000] {
            for rate in [20.0, 50.0, 100.0, 200.0] {
                let case = Case::new(kind, rate, watchers).with_room();
                let (kcm, now) = (Sort::KcmLike.play(&case), Sort::Now.play(&case));
                let what = format!("{kind:?} {watchers} {rate}");
                assert_eq!((kcm.servers.ended, now.servers.ended), (0, 0), "{what}");
                assert!(now.over.is_some(), "{what}");
                let (theirs, ours) = (seen(&kcm), seen(&now));
                if theirs.0 > 1.0 {
                    assert!(ours.0 <= theirs.0 * 0.75, "{what}: p50 {ours:?}, {theirs:?}");
                    assert!(ours.1 <= theirs.1, "{what}: p99 {ours:?}, {theirs:?}");
                    // On a real server it was 0.94 to 1.08 times as much. The model leaves out what a server does all the
                    // time, which is less where it is over sooner. Where watchers are few, the budget is a core of an API
                    // server, which is more than upstream's limit on requests lets it use.
                    let part = cpu(&now) / cpu(&kcm);
                    let bound = if watchers < 300 { 1.6 } else { 1.1 };
                    assert!(part < bound, "{what}: {part:.2} times the CPU time");
                }
                // Half of the changes are removals, so the budget is enough for twice as many.
                if rate <= 50.0 || watchers == 100 && rate <= 100.0 {
                    assert_removals_within_a_second(&now, &what);
                }
                if rate < 50.0 || watchers == 100 && rate < 100.0 {
                    assert!(
                        ours.1 < 0.04,
                        "{what}: nothing waits where nobody is behind: {ours:?}"
                    );
                }
            }
        }
    }
}

/// With cores in proportion.
#[test]
fn five_thousand_watchers_are_spared_as_well() {
    for (kind, rate) in [(Kind::Random, 50.0), (Kind::Random, 200.0), (Kind::Rollout, 50.0)] {
        let case = Case::new(kind, rate, 5_000).with_room();
        let (kcm, now) = (Sort::KcmLike.play(&case), Sort::Now.play(&case));
        let what = format!("{kind:?} {rate}");
        assert_eq!((kcm.servers.ended, now.servers.ended), (0, 0), "{what}");
        let (theirs, ours) = (seen(&kcm), seen(&now));
        if theirs.0 > 1.0 {
            assert!(ours.0 <= theirs.0 * 0.75, "{what}: p50 {ours:?}, {theirs:?}");
            assert!(ours.1 <= theirs.1, "{what}: p99 {ours:?}, {theirs:?}");
            let part = cpu(&now) / cpu(&kcm);
            assert!(part < 1.1, "{what}: {part:.2} times the CPU time");
        }
        if rate <= 50.0 {
            assert_removals_within_a_second(&now, &what);
        }
    }
}

/// Its events cost the API server more, and come with those of all other watchers.
#[test]
fn a_watch_of_ours_that_shows_whole_slices_spares_watchers_as_well() {
    for (watchers, rate) in [(100, 200.0), (300, 50.0), (300, 200.0), (1_000, 50.0)] {
        let mut case = Case::new(Kind::Random, rate, watchers).with_room();
        case.servers.own = Own::FULL;
        let what = format!("{watchers} {rate}");
        let (kcm, now) = (Sort::KcmLike.play(&case), Sort::Now.play(&case));
        assert_eq!((kcm.servers.ended, now.servers.ended), (0, 0), "{what}");
        let (theirs, ours) = (seen(&kcm), seen(&now));
        assert!(ours.0 <= theirs.0 * 0.75, "{what}: p50 {ours:?}, {theirs:?}");
        assert!(ours.1 <= theirs.1, "{what}: p99 {ours:?}, {theirs:?}");
        if rate <= 50.0 {
            assert_removals_within_a_second(&now, &what);
        }
    }
}

/// The limit on writes without an echo is enough by itself.
#[test]
fn no_watch_is_ended_without_a_budget() {
    for seed in 1..=4 {
        for (clients, watchers, rate) in [
            (Clients::Resume, 300, 50.0),
            (Clients::Relist, 300, 50.0),
            (Clients::Resume, 300, 200.0),
            (Clients::Resume, 100, 200.0),
        ] {
            let mut case = Case::new(Kind::Random, rate, watchers);
            (case.seed, case.servers.seed, case.servers.clients) = (seed, seed, clients);
            let outcome = play(&case, &mut Product::without_budget(&case, DEFAULT));
            assert_eq!(outcome.servers.ended, 0, "{clients:?} {watchers} {rate} {seed}");
        }
    }
}

/// All watchers lose their connections at once, and list everything: the servers are busy with that for seconds.
#[test]
fn all_is_well_ten_seconds_after_all_watchers_have_listed() {
    let (random, rollout) = (Kind::Random, Kind::Rollout);
    let (resume, relist) = (Clients::Resume, Clients::Relist);
    for (kind, clients, watchers, rate) in [
        (random, resume, 100, 20.0),
        (random, resume, 100, 50.0),
        (random, resume, 300, 20.0),
        (random, resume, 300, 50.0),
        (random, resume, 1_000, 20.0),
        (random, relist, 100, 50.0),
        (random, relist, 300, 20.0),
        (random, relist, 300, 50.0),
        (rollout, resume, 100, 50.0),
        (rollout, resume, 300, 20.0),
        (rollout, relist, 300, 20.0),
    ] {
        let mut case = Case::new(kind, rate, watchers).with_room();
        case.lasting = Duration::from_secs(60);
        case.breaks = Some(Duration::from_secs(5));
        case.servers.clients = clients;
        let what = format!("{kind:?} {clients:?} {watchers} {rate}");
        let (kcm, now) = (Sort::KcmLike.play(&case), Sort::Now.play(&case));
        assert!(
            now.servers.listed >= watchers as u64,
            "{what}: {}",
            now.servers.listed
        );
        assert_eq!((kcm.servers.ended, now.servers.ended), (0, 0), "{what}");
        let figures = |outcome: &Outcome| {
            let recovered = &outcome.recovered;
            assert!(recovered.total() > 100 * watchers as u64, "{what}");
            (
                recovered.quantile(0.5).as_secs_f64(),
                recovered.quantile(0.99).as_secs_f64(),
            )
        };
        let ours = figures(&now);
        let bound = if rate < 50.0 || watchers < 300 {
            case.breaks = None;
            let (p50, p99) = seen(&Sort::Now.play(&case));
            (p50 * 1.1, p99 * 1.25)
        } else {
            // More than the budget: changes wait anyway.
            let (p50, p99) = figures(&kcm);
            (p50 * 0.75, p99)
        };
        assert!(
            ours.0 <= bound.0 && ours.1 <= bound.1,
            "{what}: {ours:?} {bound:?}"
        );
    }
}

/// Writes that a webhook holds up reach no watcher, but hold places and are paid for until it is known that nothing was written.
#[test]
fn namespaces_whose_webhook_hangs_leave_room_for_what_watchers_can_take() {
    for (watchers, rate) in [
        (100, 20.0),
        (300, 20.0),
        (1_000, 20.0),
        (300, 50.0),
        (1_000, 50.0),
    ] {
        let case = Case::new(Kind::Random, rate, watchers).with_room();
        let alone = seen(&Sort::Now.play(&case));
        for namespaces in [4, 30, 100] {
            for from in [Duration::ZERO, Duration::from_secs(5)] {
                let what = format!("{watchers} {rate} {namespaces} {from:?}");
                let outcome = play(&case, &mut BesideWebhook::new(&case, DEFAULT, namespaces, from));
                assert_eq!(outcome.servers.ended, 0, "{what}");
                assert!(outcome.over.is_some(), "{what}");
                let ours = seen(&outcome);
                if rate < 50.0 {
                    assert_removals_within_a_second(&outcome, &what);
                    assert!(ours.0 < alone.0 * 1.5, "{what}: p50 {ours:?} {alone:?}");
                } else {
                    // The budget is used up without them.
                    assert!(ours.1 < alone.1 * 1.25, "{what}: p99 {ours:?} {alone:?}");
                }
            }
        }
    }
}

/// Watchers of several servers, of which the controller talks to one.
#[test]
fn no_watch_of_other_servers_is_ended() {
    let mut case = Case::new(Kind::Random, 50.0, 300);
    case.servers.servers = 3;
    let outcome = Sort::Now.play(&case);
    assert_eq!(outcome.servers.ended, 0);
}

/// Our own watch is late by itself, or shows nothing, on API servers with as much to do as in the other cases.
#[test]
fn a_watch_of_ours_that_was_late_by_itself_held_writes_back_or_ended_watches() {
    for (watchers, rate) in [(100, 200.0), (300, 50.0), (300, 200.0), (1_000, 50.0)] {
        let case = Case::new(Kind::Random, rate, watchers).with_room();
        let kcm = Sort::KcmLike.play(&case);
        // One that shows nothing lets sixteen writes go before it counts as broken, after 15 s.
        for (delay, bound) in [(Duration::from_secs(2), 12.0), (Duration::MAX, 30.0)] {
            let what = format!("{watchers} {rate} {delay:?}");
            let outcome = play(&case, &mut Product::late(&case, DEFAULT, delay));
            assert_eq!((kcm.servers.ended, outcome.servers.ended), (0, 0), "{what}");
            assert!(outcome.over.is_some(), "{what}");
            // A rate of 20 a second is reached after some delays, and is half of the budget of 300 watchers.
            let removals = outcome.servers.removals.quantile(0.99).as_secs_f64();
            assert!(removals < bound, "{what}: removals wait {removals:.2} s");
        }
    }
}

/// The cost of small events for an API server does not depend on their size, and our own watch does not show the cost
/// for a server that it is not on.
#[test]
fn small_slices_ended_watches_of_another_server_than_ours() {
    for (bytes, watchers, rate) in [(400, 1_000, 200.0), (4_000, 600, 200.0), (4_000, 300, 100.0)] {
        let mut case = Case::new(Kind::Random, rate, watchers);
        (case.servers.servers, case.servers.apart, case.servers.bytes) = (2, true, bytes);
        let what = format!("{bytes} {watchers}");
        let (kcm, now) = (Sort::KcmLike.play(&case), Sort::Now.play(&case));
        assert_eq!((kcm.servers.ended, now.servers.ended), (0, 0), "{what}");
        assert!(now.over.is_some(), "{what}");
    }
}

#[test]
fn small_slices_ended_watches_while_our_own_watch_was_closed() {
    for (bytes, watchers) in [(400, 1_000), (400, 300), (4_000, 600), (12_600, 300)] {
        let case = Case {
            lasting: Duration::from_secs(20),
            ..Case::new(Kind::Random, 100.0, watchers)
        };
        let servers = Config {
            bytes,
            ..case.servers.clone()
        };
        let case = Case { servers, ..case };
        let (kcm, blind) = (
            Sort::KcmLike.play(&case),
            play(&case, &mut Product::blind(&case, DEFAULT)),
        );
        let what = format!("{bytes} {watchers}");
        assert_eq!((kcm.servers.ended, blind.servers.ended), (0, 0), "{what}");
    }
}
