//! A take-over while the API server is too busy for the reads that prove a new leader's state: since Kubernetes 1.38 it
//! may answer a list of the present state with 429 when its cache is behind, instead of reading it all from etcd.

use super::{Cluster, SECOND};
use crate::constant::Constant;
use crate::gate::{Gate, Sent};
use futures::FutureExt as _;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The pause that the server asks for.
const ASKED: Duration = SECOND;

/// When the reads of each kind came that want the present state, answered or not.
type Reads = Arc<Mutex<BTreeMap<String, Vec<Instant>>>>;

/// Returns whether a request wants the present state of a kind, and no other.
fn wants_the_present(sent: &Sent) -> bool {
    !sent.query.contains("resourceVersion=") && (sent.lists() || sent.query.ends_with("limit=1"))
}

/// Has so many of these reads of each kind answered with 429.
fn refuse(gate: &Gate, times: usize) -> Reads {
    let reads = Reads::default();
    let seen = reads.clone();
    gate.stub(Arc::new(move |sent| {
        if sent.kind() == "leases" || sent.kind() == "discovery" || !wants_the_present(sent) {
            return None;
        }
        let mut seen = seen.lock();
        let of_kind = seen.entry(sent.kind().to_owned()).or_default();
        of_kind.push(Instant::now());
        let sent = sent.clone();
        (of_kind.len() <= times)
            .then(|| async move { Constant::Pause(ASKED.as_secs()).answer(&sent).await }.boxed())
    }));
    reads
}

/// Ends the leader while pods change, and returns how long it takes the standby to write what has changed.
async fn take_over(cluster: &Cluster, times: usize) -> (Duration, Vec<Sent>, Reads) {
    let (mut leader, standby) = cluster.leader_and_standby().await;
    sleep(120 * SECOND).await;
    standby.gate.take_all();
    let reads = refuse(&standby.gate, times);
    leader.stop().await;
    cluster.flip(3, false, 30).await;
    let start = Instant::now();
    while cluster.ready().await != 11 {
        sleep(SECOND / 100).await;
        let passed = Instant::now().saturating_duration_since(start);
        assert!(passed < 60 * SECOND, "nothing is written");
    }
    let took = Instant::now().saturating_duration_since(start);
    (took, standby.gate.take_all(), reads)
}

/// Each pause is at least what was asked for, and at most half of that longer while the usual pauses are shorter.
fn heed_the_pause(reads: &Reads, times: usize) {
    let reads = reads.lock();
    // Slices are read by two watches.
    for kind in ["pods", "services", "nodes", "endpoints"] {
        let of_kind = &reads[kind];
        assert!(
            of_kind.len() > times,
            "{kind} are read again until they are shown"
        );
        for pair in of_kind[..=times].windows(2) {
            let pause = pair[1].saturating_duration_since(pair[0]);
            assert!(pause >= ASKED, "{kind} are asked for again after {pause:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_asked_a_busy_server_again_before_it_had_asked_to_be() {
    const TIMES: usize = 3;
    let cluster = Cluster::new().await;
    let (took, _, reads) = take_over(&cluster, TIMES).await;
    heed_the_pause(&reads, TIMES);
    // Inputs and outputs are read one after the other.
    assert!(took < 12 * SECOND, "{took:?}");
}

/// A list of all pods asks more of a server that is too busy to say which version it has.
#[tokio::test(start_paused = true)]
async fn a_new_leader_listed_everything_since_the_version_was_refused_several_times() {
    const TIMES: usize = 5;
    let cluster = Cluster::new().await;
    // More than are listed again because that is quicker.
    for number in 0..500 {
        cluster.bystanders(number).await;
    }
    let (took, sent, reads) = take_over(&cluster, TIMES).await;
    for kind in ["pods", "nodes", "services"] {
        let lists = sent.iter().filter(|sent| sent.kind() == kind && sent.lists());
        assert_eq!(lists.count(), 0, "{kind} are not listed again");
    }
    heed_the_pause(&reads, TIMES);
    // Five pauses, of which the last are the usual ones, which have grown; and up to two seconds for the proof.
    assert!(took < 15 * SECOND, "{took:?}");
}
