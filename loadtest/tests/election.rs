//! endpointd as two and three processes of which one writes: killed, ended, stopped and cut off while the cluster
//! changes. The requests of each are noted on its own line to the server.
#![allow(
    clippy::unwrap_used,
    reason = "clippy does not see that helpers of a test are tests"
)]

#[path = "election/cluster.rs"]
mod cluster;
#[path = "support/program.rs"]
mod program;
#[path = "election/proxy.rs"]
mod proxy;

use cluster::{Cluster, Process, Times};
use fastrand::Rng;
use loadtest::oracle::Outputs;
use program::until;
use proxy::{Cut, Sent};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::time::{Instant, sleep};

/// A write may be on its way from the question whether it may leave to the line, on each of two cores.
const IN_HAND: usize = 2;

static ALONE: RwLock<()> = RwLock::const_new(());

/// Held by a test that measures delays: no other may run.
async fn alone() -> RwLockWriteGuard<'static, ()> {
    ALONE.write().await
}

/// Held by a test that only waits for what must come: others of its kind may run.
async fn among_others() -> RwLockReadGuard<'static, ()> {
    ALONE.read().await
}

/// The writes that left a process while another one held the lease, or none did.
fn strays(processes: &[&Process], who: usize, times: Times) -> Vec<Sent> {
    let logs: Vec<Vec<Sent>> = processes.iter().map(|process| process.proxy.sent()).collect();
    // The processes that held it, and from when on, as the answers tell: later than the server knew. In the order of
    // the versions that were replaced, since the answers of two processes may be noted in another one.
    let mut holders: Vec<(u64, Instant, Option<usize>)> = Vec::new();
    for (holder, log) in logs.iter().enumerate() {
        for sent in log
            .iter()
            .filter(|sent| sent.is_lease() && sent.is_write() && sent.succeeded())
        {
            let (_, answered) = sent.answer.unwrap();
            let version = sent.body["metadata"]["resourceVersion"].as_str();
            let version = version.map_or(0, |version| version.parse().unwrap());
            holders.push((version, answered, sent.holds().then_some(holder)));
        }
    }
    holders.sort();
    let strays = logs[who]
        .iter()
        .filter(|sent| sent.is_write() && !sent.is_lease())
        .filter(|write| {
            let last = holders.iter().rfind(|(_, at, _)| *at <= write.at);
            let renewals = logs[who].iter().filter(|s| s.holds() && s.succeeded());
            let renewed = renewals.map(|s| s.at).rfind(|at| *at <= write.at);
            let in_time = renewed.is_some_and(|at| write.at <= at + times.lease);
            !in_time || last.is_none_or(|(.., holder)| *holder != Some(who))
        });
    strays.cloned().collect()
}

/// That writes are such that one which arrives too late changes nothing that another has written since.
fn assert_guarded(process: &Process) {
    for sent in process.proxy.sent().iter().filter(|sent| sent.is_write()) {
        let version = match &*sent.method {
            "PUT" => &sent.body["metadata"]["resourceVersion"],
            "DELETE" => &sent.body["preconditions"]["resourceVersion"],
            // A second one of the name is refused. Events only inform users.
            "POST" => &sent.body["metadata"]["name"],
            _ if sent.path.contains("/events") => continue,
            method => panic!("{method} {}", sent.path),
        };
        assert!(
            version.as_str().is_some_and(|version| !version.is_empty()),
            "{sent:?}"
        );
    }
}

/// When the first of these was sent.
fn first(sent: &[Sent]) -> Option<Instant> {
    sent.first().map(|sent| sent.at)
}

/// Waits until a process writes. When its first write was sent.
async fn begins(process: &Process, since: Instant) -> Instant {
    until("the other one writes", async || {
        !process.outputs_since(since).is_empty()
    })
    .await;
    first(&process.outputs_since(since)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_is_replaced_when_its_lease_has_run_out() {
    let _alone = alone().await;
    let mut cluster = Cluster::start(1).await;
    let (mut leader, mut standby) = cluster.pair(Times::SHORT).await;
    for round in 0..3 {
        cluster.churn(round);
        begins(&leader, Instant::now()).await;
        assert_eq!(
            standby
                .outputs_since(Instant::now() - Duration::from_secs(1))
                .len(),
            0
        );
        leader.signal(Signal::KILL);
        let killed = Instant::now();
        let began = begins(&standby, killed).await;
        let gap = began.saturating_duration_since(killed);
        println!("without a writer for {gap:?} after SIGKILL");
        let longest = Times::SHORT.lease + Duration::from_secs(3);
        assert!(gap < longest, "{gap:?}");
        cluster.calm().await;
        cluster.converge().await;
        assert_eq!(strays(&[&leader, &standby], 0, Times::SHORT).len(), 0);
        assert_eq!(strays(&[&leader, &standby], 1, Times::SHORT).len(), 0);
        assert_guarded(&standby);
        assert!(standby.runs());
        (leader, standby) = (standby, cluster.process(Times::SHORT).await);
        let watches = |s: &Sent| s.path.contains("/leases?watch=1");
        until("it stands by", async || standby.proxy.sent().iter().any(watches)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_ends_in_order_is_replaced_at_once() {
    let _alone = alone().await;
    let mut cluster = Cluster::start(2).await;
    // With the usual times, so that only the watch of the lease can be this quick.
    let (mut leader, mut standby) = cluster.pair(Times::USUAL).await;
    let mut gaps = Vec::new();
    for round in 0..3 {
        cluster.churn(round);
        begins(&leader, Instant::now()).await;
        leader.signal(Signal::TERM);
        let told = Instant::now();
        let began = begins(&standby, told).await;
        gaps.push(began.saturating_duration_since(told));
        assert!(leader.end().await.success());
        // The lease was given up last, when all writes had been answered.
        let sent = leader.proxy.sent();
        let writes: Vec<&Sent> = sent.iter().filter(|sent| sent.is_write()).collect();
        let released = writes.last().unwrap();
        assert!(released.releases() && released.succeeded(), "{released:?}");
        for write in &writes {
            let (_, answered) = write.answer.expect("no answer was missed");
            assert!(answered <= released.at || write.releases(), "{write:?}");
        }
        assert_eq!(strays(&[&leader, &standby], 0, Times::USUAL).len(), 0);
        assert_eq!(strays(&[&leader, &standby], 1, Times::USUAL).len(), 0);
        cluster.calm().await;
        cluster.converge().await;
        (leader, standby) = (standby, cluster.process(Times::USUAL).await);
        let watches = |s: &Sent| s.path.contains("/leases?watch=1") && s.answer.is_some();
        until("it stands by", async || standby.proxy.sent().iter().any(watches)).await;
    }
    println!("without a writer for {gaps:?} after SIGTERM");
    gaps.sort();
    // A machine that is busy with other things may be late once.
    assert!(gaps[1] < Duration::from_secs(1), "{gaps:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_sigterm_leaves_is_what_the_successor_writes() {
    let _others = among_others().await;
    for seed in 0..3 {
        let mut cluster = Cluster::start(seed).await;
        let mut leader = cluster.process(Times::SHORT).await;
        cluster.churn(seed);
        begins(&leader, Instant::now()).await;
        sleep(Duration::from_millis(500 + 300 * seed)).await;
        leader.signal(Signal::TERM);
        assert!(leader.end().await.success());
        // Some more happens while no process writes.
        sleep(Duration::from_millis(100)).await;
        cluster.calm().await;
        let (slices, endpoints) = (
            cluster.wrong(Outputs::SLICES).await,
            cluster.wrong(Outputs::ENDPOINTS).await,
        );
        assert!(!slices.is_empty(), "something has happened");

        let successor = cluster.process(Times::SHORT).await;
        until("it leads", async || successor.has_led()).await;
        cluster.converge().await;
        let sent = successor.proxy.sent();
        let outputs: Vec<&Sent> = sent.iter().filter(|sent| sent.is_output()).collect();
        // Every write was right at the first try, and is the only one of its object.
        let mut objects = BTreeSet::new();
        for sent in &outputs {
            assert!(sent.succeeded(), "{sent:?}");
            let name = sent.body["metadata"]["name"].as_str();
            let name = name.unwrap_or_else(|| sent.path.rsplit('/').next().unwrap());
            let kind = if sent.path.contains("slices") {
                "slice"
            } else {
                "endpoints"
            };
            assert!(objects.insert((kind, name.to_owned())), "{name} is written twice");
        }
        let services = |of: &str| {
            let of = objects.iter().filter(|(kind, _)| *kind == of);
            // A slice has its Service's name and a few letters.
            let names = of.map(|(_, name)| name.split('-').next().unwrap().to_owned());
            names
                .collect::<BTreeSet<String>>()
                .into_iter()
                .collect::<Vec<_>>()
        };
        assert_eq!(services("slice"), slices, "the slices of these Services differed");
        assert_eq!(
            services("endpoints"),
            endpoints,
            "the Endpoints of these Services differed"
        );
        assert_guarded(&successor);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_stopped_and_goes_on_writes_nothing_and_can_lead_again() {
    let _others = among_others().await;
    let mut cluster = Cluster::start(3).await;
    let (mut first, second) = cluster.pair(Times::SHORT).await;
    for round in 0..3 {
        cluster.churn(round);
        begins(&first, Instant::now()).await;
        first.signal(Signal::STOP);
        let stopped = Instant::now();
        begins(&second, stopped).await;
        first.signal(Signal::CONT);
        let went_on = Instant::now();
        // It has much to say, if it were let.
        sleep(Duration::from_secs(2)).await;
        let late = first.outputs_since(went_on);
        println!("{} writes left the leader that was stopped", late.len());
        assert!(late.len() <= IN_HAND, "{late:#?}");
        assert!(first.runs(), "it stands by");
        cluster.calm().await;
        cluster.converge().await;
        assert_eq!(strays(&[&first, &second], 1, Times::SHORT).len(), 0);

        // The other way round: it knows enough to take over, and writes what differs.
        second.signal(Signal::STOP);
        cluster.churn(round + 10);
        let stopped = Instant::now();
        begins(&first, stopped).await;
        second.signal(Signal::CONT);
        cluster.calm().await;
        cluster.converge().await;
        assert_guarded(&first);
        assert_guarded(&second);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_stops_and_what_arrives_late_overwrites_nothing() {
    let _alone = alone().await;
    let mut cluster = Cluster::start(4).await;
    let (mut first, mut second) = cluster.pair(Times::SHORT).await;
    for (round, what) in [Cut::Requests, Cut::Lease, Cut::Everything]
        .into_iter()
        .enumerate()
    {
        cluster.churn(round as u64);
        begins(&first, Instant::now()).await;
        first.proxy.cut(what);
        let cut = Instant::now();
        let began = begins(&second, cut).await;
        let tried = first.outputs_since(cut);
        let last = tried.iter().map(|sent| sent.at).max();
        println!("{what:?}: {} writes were begun after the cut", tried.len());
        assert!(
            last.is_none_or(|last| last < began),
            "it stops before the other begins"
        );
        // Where it still hears of changes it has something to say, to the last moment that it may.
        assert!(what == Cut::Everything || !tried.is_empty());
        assert_eq!(strays(&[&first, &second], 0, Times::SHORT).len(), 0);
        // Requests that it had begun arrive now, and their answers come back.
        sleep(Duration::from_secs(2)).await;
        first.proxy.cut(Cut::Nothing);
        sleep(Duration::from_secs(2)).await;
        let strays = strays(&[&first, &second], 0, Times::SHORT);
        assert!(strays.is_empty(), "nothing is tried again: {strays:#?}");
        if what == Cut::Requests {
            let begun = first.outputs_since(cut);
            assert_eq!(begun.len(), tried.len());
            let refused = begun
                .iter()
                .filter(|sent| sent.answer.is_some_and(|(status, _)| status == 409));
            println!(
                "{} of them arrived late and were refused",
                refused.clone().count()
            );
            assert!(refused.count() > 0, "{begun:#?}");
        }
        cluster.calm().await;
        cluster.converge().await;
        assert!(first.runs() && second.runs());
        (first, second) = (second, first);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_processes_through_a_storm() {
    let _others = among_others().await;
    let mut cluster = Cluster::start(5).await;
    let (first, second) = cluster.pair(Times::SHORT).await;
    let mut processes = vec![first, second, cluster.process(Times::SHORT).await];
    cluster.churn(5);
    let (mut rng, mut gone) = (Rng::with_seed(5), Vec::new());
    let mut waits = |longest: u64| sleep(Duration::from_millis(rng.u64(..longest)));
    for round in 0..10 {
        waits(3_000).await;
        let leader = cluster.leader(&processes).await;
        let at = leader.unwrap_or(round % 3);
        match round % 4 {
            0 => {
                processes[at].signal(Signal::STOP);
                waits(6_000).await;
                processes[at].signal(Signal::CONT);
            }
            1 => {
                processes[at]
                    .proxy
                    .cut([Cut::Requests, Cut::Everything][round / 5]);
                waits(6_000).await;
                processes[at].proxy.cut(Cut::Nothing);
            }
            2 => {
                let next = cluster.process(Times::SHORT).await;
                let old = std::mem::replace(&mut processes[at], next);
                old.signal(Signal::KILL);
                gone.push(old);
            }
            _ => {
                let next = cluster.process(Times::SHORT).await;
                let mut old = std::mem::replace(&mut processes[at], next);
                old.signal(Signal::TERM);
                old.end().await;
                gone.push(old);
            }
        }
    }
    cluster.calm().await;
    cluster.converge().await;
    let all: Vec<&Process> = processes.iter().chain(&gone).collect();
    let mut writes = 0;
    for who in 0..all.len() {
        let strays = strays(&all, who, Times::SHORT);
        assert!(strays.len() <= 3 * IN_HAND, "{strays:#?}");
        assert_guarded(all[who]);
        writes += all[who]
            .proxy
            .sent()
            .iter()
            .filter(|sent| sent.is_output())
            .count();
    }
    assert!(writes > 100, "{writes}");
    assert!(cluster.leader(&processes).await.is_some());
}
