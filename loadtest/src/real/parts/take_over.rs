//! Two replicas of endpointd, of which the one that writes is ended, killed and stopped while pods change.

use super::{SIZES, Work, filled};
use crate::figures::time;
use crate::real::cluster::{Cluster, Endpointd};
use crate::real::table::Outcome;
use crate::wait::until;
use anyhow::{Context, ensure};
use rustix::process::Signal;
use std::time::Duration;
use tokio::time::Instant;

/// The metric that is 1 while a process may write.
const HELD: &str = "endpointd_lease_held";
/// How much longer than its lease lasts a leader may take to be replaced: the state has to be proven current, on a machine that
/// everything shares.
const SLACK: Duration = Duration::from_secs(15);
/// How long it may take until everything is right when nothing changes any more.
const RIGHT_LIMIT: Duration = Duration::from_secs(30);

/// The signal that the leader gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Term,
    Kill,
    /// Stopped until another one leads, and then told to go on.
    Stop,
}

/// The times of leader election, and how often each fate comes.
struct Times {
    lease: Duration,
    flags: [&'static str; 4],
    rounds: usize,
}

const FATES: [(Fate, &str); 3] = [(Fate::Term, "TERM"), (Fate::Kill, "KILL"), (Fate::Stop, "STOP")];

pub(super) async fn run(work: &Work) -> anyhow::Result<Outcome> {
    let times = if work.quick {
        Times {
            lease: Duration::from_secs(5),
            flags: [
                "--leader-elect=true",
                "--leader-elect-lease-duration=5s",
                "--leader-elect-renew-deadline=4s",
                "--leader-elect-retry-period=1s",
            ],
            rounds: 1,
        }
    } else {
        Times {
            lease: Duration::from_secs(15),
            flags: [
                "--leader-elect=true",
                "--leader-elect-lease-duration=15s",
                "--leader-elect-renew-deadline=10s",
                "--leader-elect-retry-period=2s",
            ],
            rounds: 3,
        }
    };
    let cluster = work.cluster("take-over", &[]).await?;
    let filled = filled(&cluster, &SIZES).await?;
    let mut pair = Pair::start(&cluster, &times).await?;
    filled.right_within(RIGHT_LIMIT).await.context("at first")?;
    let taken = filled.churn_during(pair.be_taken_over(&cluster, &times)).await?;
    let right = filled.right_within(RIGHT_LIMIT).await.context("in the end")?;
    pair.end(&cluster).await?;
    cluster.stop().await?;
    let taken = FATES
        .iter()
        .zip(taken)
        .map(|((_, name), longest)| format!("{name} {}", time(longest)));
    let taken: Vec<String> = taken.collect();
    Ok(Outcome::passed(format!(
        "{} of each under churn, each followed by a clean audit; longest until the other one leads: {}; right {} after the \
         last change",
        times.rounds,
        taken.join(", "),
        time(right)
    )))
}

/// Two replicas.
struct Pair {
    /// The one that writes, and the one that stands by.
    leader: Endpointd,
    standby: Endpointd,
    started: usize,
}

// === impl Pair ===

impl Pair {
    async fn start(cluster: &Cluster, times: &Times) -> anyhow::Result<Self> {
        let leader = cluster.start_endpointd("endpointd-1", 100, &times.flags).await?;
        leads(&leader, times.lease + SLACK).await?;
        let standby = cluster.start_endpointd("endpointd-2", 100, &times.flags).await?;
        Ok(Self {
            leader,
            standby,
            started: 2,
        })
    }

    /// Has every fate come as often as is wanted. The longest time of each until the other replica led.
    async fn be_taken_over(&mut self, cluster: &Cluster, times: &Times) -> anyhow::Result<Vec<Duration>> {
        let mut longest = vec![Duration::ZERO; FATES.len()];
        for round in 1..=times.rounds {
            for ((fate, name), longest) in FATES.iter().zip(&mut longest) {
                let took = self.meet(cluster, times, *fate).await;
                let took = took.with_context(|| format!("{name}, round {round}"))?;
                cluster
                    .audit(&[])
                    .await
                    .with_context(|| format!("after {name}, round {round}"))?;
                *longest = took.max(*longest);
            }
        }
        Ok(longest)
    }

    /// The leader meets its fate, and the standby takes over. How long that took.
    async fn meet(&mut self, cluster: &Cluster, times: &Times, fate: Fate) -> anyhow::Result<Duration> {
        ensure!(
            self.standby.metric(HELD).await == Some(0.0),
            "the standby holds the lease while another one leads"
        );
        let limit = times.lease + SLACK;
        if fate == Fate::Stop {
            self.leader.signal(Signal::STOP)?;
            let took = leads(&self.standby, limit).await?;
            self.leader.signal(Signal::CONT)?;
            holds(&self.leader, 0.0, limit).await?;
            self.leader.assert_running()?;
            std::mem::swap(&mut self.leader, &mut self.standby);
            return Ok(took);
        }
        let begin = Instant::now();
        self.started += 1;
        // The replacement is started when the other one leads: a new process could be the quicker one.
        let ended = match fate {
            Fate::Kill => self.leader.signal(Signal::KILL),
            _ => self.leader.signal(Signal::TERM),
        };
        ended?;
        leads(&self.standby, limit).await?;
        let took = Instant::now().saturating_duration_since(begin);
        let name = format!("endpointd-{}", self.started);
        let fresh = cluster.start_endpointd(&name, 100, &times.flags).await?;
        let old = std::mem::replace(&mut self.leader, std::mem::replace(&mut self.standby, fresh));
        old.gone(fate == Fate::Term).await?;
        Ok(took)
    }

    /// Ends both in order: then the lease has no holder.
    async fn end(self, cluster: &Cluster) -> anyhow::Result<()> {
        self.standby.stop().await?;
        self.leader.stop().await?;
        let holder = cluster.lease_holder().await?.context("there is no lease")?;
        ensure!(holder.is_empty(), "the lease was not given up: {holder} holds it");
        Ok(())
    }
}

/// Waits until a replica leads, and says how long that took.
async fn leads(endpointd: &Endpointd, limit: Duration) -> anyhow::Result<Duration> {
    let begin = Instant::now();
    holds(endpointd, 1.0, limit).await?;
    Ok(Instant::now().saturating_duration_since(begin))
}

/// Waits until a replica holds the lease, or holds it no longer.
async fn holds(endpointd: &Endpointd, wanted: f64, limit: Duration) -> anyhow::Result<()> {
    until(&format!("{HELD} is {wanted}"), limit, async || {
        let held = endpointd.metric(HELD).await;
        ensure!(held == Some(wanted), "it is {held:?}");
        Ok(())
    })
    .await
}
