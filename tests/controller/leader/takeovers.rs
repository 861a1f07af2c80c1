//! A thousand take-overs, with lost watches, holders that stop without a word, restarts and jumps of the clock.

use super::{CUSTOM, DURATION, LEADER, db, lease, led};
use crate::cluster;
use crate::world::{World, items, text};
use fastrand::Rng;
use futures::StreamExt as _;
use http::Request;
use kube::Client;
use kube::core::WatchEvent;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const PODS: usize = 5;
const TAKEOVERS: usize = 1000;
/// How long holders wait between renewals.
const RENEWS: Duration = Duration::from_secs(2);
/// How long a change may take to be published.
const SLACK: Duration = Duration::from_secs(1);

/// The events that a watcher of slices has been shown.
type Shown = Arc<Mutex<Vec<WatchEvent<Value>>>>;

async fn watch(client: Client, shown: Shown) {
    let uri = "/apis/discovery.k8s.io/v1/endpointslices?watch=1&timeoutSeconds=100000000";
    let events = client.request_events::<Value>(Request::get(uri).body(Vec::new()).unwrap());
    let mut events = pin!(events.await.unwrap());
    while let Some(event) = events.next().await {
        shown.lock().push(event.unwrap());
    }
}

/// A judge, with what it knows of the events so far.
struct Judge {
    start: Instant,
    /// When each pod last renewed the Lease as its holder.
    renewed: BTreeMap<String, Instant>,
    /// The end of the last time in which the controller did not run or did not see the Lease change.
    blind_until: Instant,
    shown: Shown,
    slices: BTreeMap<String, Value>,
    seen: usize,
}

impl Judge {
    /// Looks at each version of each slice that a watcher would have seen since the last time.
    fn judge(&mut self) {
        let shown = std::mem::take(&mut *self.shown.lock());
        for event in shown {
            match event {
                WatchEvent::Added(slice) | WatchEvent::Modified(slice) => {
                    self.slices.insert(text(&slice["metadata"]["name"]), slice);
                }
                WatchEvent::Deleted(slice) => {
                    self.slices.remove(&text(&slice["metadata"]["name"]));
                }
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(error) => panic!("{error}"),
            }
            self.seen += 1;
            let mut by_family: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for slice in self.slices.values() {
                let pods = items(&slice["endpoints"]).map(|endpoint| text(&endpoint["targetRef"]["name"]));
                by_family
                    .entry(text(&slice["addressType"]))
                    .or_default()
                    .extend(pods);
            }
            for (family, pods) in by_family {
                assert!(
                    pods.len() <= 1,
                    "{family}: {pods:?} at {:?}",
                    Instant::now().saturating_duration_since(self.start)
                );
            }
        }
    }

    /// Checks that no pod is published that stopped renewing too long ago.
    fn check(&self) {
        let now = Instant::now();
        for slice in self.slices.values() {
            for endpoint in items(&slice["endpoints"]) {
                let pod = text(&endpoint["targetRef"]["name"]);
                let from = self.renewed[&pod].max(self.blind_until);
                let since = now.saturating_duration_since(from);
                let allowed = Duration::from_secs(DURATION) + SLACK;
                assert!(
                    since <= allowed,
                    "{pod} is published {since:?} after its last sign of life"
                );
            }
        }
    }

    fn published(&self) -> Vec<String> {
        let endpoints = self.slices.values().flat_map(|slice| items(&slice["endpoints"]));
        endpoints
            .map(|endpoint| text(&endpoint["targetRef"]["name"]))
            .collect()
    }
}

async fn renew(world: &World, judge: &mut Judge, holder: &str, renewal: &mut u32) {
    *renewal += 1;
    let spec = json!({"spec": lease(&format!("{holder}_x"), *renewal % 1_000_000)["spec"]});
    world.patch("Lease", "db", spec).await;
    judge.renewed.insert(holder.to_owned(), Instant::now());
}

/// Lets time pass in small steps, and judges after each.
async fn pass(judge: &mut Judge, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        sleep(Duration::from_millis(250)).await;
        judge.judge();
        judge.check();
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_takeovers() {
    let mut world = World::new(100);
    world.options.settings.outputs = CUSTOM;
    world.nodes(1).await;
    for number in 0..PODS {
        let port = if number % 2 == 0 { 5432 } else { 6432 };
        world.make(db(&format!("db-{number}"), number + 1, port)).await;
    }
    world.make(lease("", 0)).await;
    world.make(led(&json!({LEADER: "db"}))).await;
    let shown = Shown::default();
    let watcher = tokio::spawn(watch(cluster::client(&world.server), shown.clone()));
    world.start_up().await;
    let mut random = Rng::with_seed(7);
    let mut judge = Judge {
        start: Instant::now(),
        renewed: BTreeMap::new(),
        blind_until: Instant::now(),
        shown,
        slices: BTreeMap::new(),
        seen: 0,
    };
    let (mut renewal, mut late) = (0, 0);
    for _ in 0..TAKEOVERS {
        let holder = format!("db-{}", random.usize(..PODS));
        let (mut blind, mut stopped) = (false, false);
        match random.u8(..10) {
            0 => {
                world.gate.hold("leases");
                blind = true;
            }
            1 => {
                world.stop().await;
                stopped = true;
            }
            // The clock jumps, and no process ran meanwhile.
            2 => {
                tokio::time::advance(Duration::from_secs(random.u64(1..100))).await;
                judge.blind_until = Instant::now();
            }
            _ => {}
        }
        let rounds = random.u32(1..4);
        for _ in 0..rounds {
            renew(&world, &mut judge, &holder, &mut renewal).await;
            pass(&mut judge, RENEWS).await;
            if blind || stopped {
                judge.blind_until = Instant::now();
            }
        }
        if blind {
            world.gate.open("leases");
        }
        if stopped {
            world.start();
        }
        if blind || stopped {
            renew(&world, &mut judge, &holder, &mut renewal).await;
            pass(&mut judge, RENEWS).await;
            judge.blind_until = Instant::now();
            renew(&world, &mut judge, &holder, &mut renewal).await;
            pass(&mut judge, SLACK).await;
        }
        // It has renewed at least once in plain sight.
        late += usize::from(judge.published() != [&*holder]);
        match random.u8(..4) {
            // It gives up the Lease.
            0 => {
                renewal += 1;
                let spec = json!({"spec": lease("", renewal % 1_000_000)["spec"]});
                world.patch("Lease", "db", spec).await;
                pass(&mut judge, SLACK).await;
                assert_eq!(judge.published(), [""; 0]);
            }
            // It stops without a word.
            1 => {
                pass(&mut judge, Duration::from_secs(DURATION) + 2 * SLACK).await;
                assert_eq!(judge.published(), [""; 0]);
            }
            // Another takes the Lease from it.
            _ => {}
        }
    }
    assert_eq!(late, 0, "every holder that renews is published");
    assert!(
        judge.seen > TAKEOVERS,
        "{} versions of slices were judged",
        judge.seen
    );
    world.stop().await;
    watcher.abort();
}
