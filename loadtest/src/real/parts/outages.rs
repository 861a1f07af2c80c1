//! The API server is restarted, etcd is restored from an older snapshot, and watches are cut: endpointd has to have
//! everything right again soon after.

use super::{SIZES, Work, filled};
use crate::figures::time;
use crate::real::cluster::Cluster;
use crate::real::relay::Relay;
use crate::real::table::Outcome;
use crate::run::Filled;
use anyhow::Context;
use std::time::Duration;
use tokio::time::sleep;

/// How long it may take until everything is right again.
const LIMIT: Duration = Duration::from_secs(30);
/// For how long pods change before and after.
const CHURN: Duration = Duration::from_secs(3);
/// For how long nothing passes between endpointd and the API server.
const HELD: Duration = Duration::from_secs(8);

pub(super) async fn run(work: &Work) -> anyhow::Result<Outcome> {
    let mut cluster = work.cluster("outages", &[]).await?;
    let relay = Relay::start(cluster.plane()?.port()).await?;
    cluster.through(relay.port()).await?;
    let filled = filled(&cluster, &SIZES).await?;
    let mut endpointd = cluster
        .start_endpointd("endpointd", 100, &["--leader-elect=true"])
        .await?;
    filled.right_within(LIMIT).await.context("at first")?;
    let rounds = if work.quick { 1 } else { 3 };
    let mut longest = [Duration::ZERO; 4];
    for round in 1..=rounds {
        let took = endpointd.during(outages(&mut cluster, &relay, &filled)).await;
        let took = took.with_context(|| format!("round {round}"))?;
        for (longest, took) in longest.iter_mut().zip(took) {
            *longest = took.max(*longest);
        }
    }
    endpointd.stop().await?;
    cluster.stop().await?;
    let [restarted, restored, cut, held] = longest.map(time);
    Ok(Outcome::passed(format!(
        "longest until everything was right again, in {rounds} rounds: API server restarted {restarted}, etcd restored \
         {restored}, watches cut {cut}, nothing let through for {} {held}",
        time(HELD)
    )))
}

/// One outage of each kind. How long it took after each until everything was right, from when pods changed no more.
async fn outages(cluster: &mut Cluster, relay: &Relay, filled: &Filled) -> anyhow::Result<[Duration; 4]> {
    filled.churn(CHURN).await?;
    let plane = cluster.plane()?;
    plane.stop_api_server().await?;
    plane.start_api_server().await?;
    let restarted = right(cluster, filled)
        .await
        .context("the API server was restarted")?;

    let snapshot = cluster.plane()?.snapshot().await?;
    filled.churn(CHURN).await?;
    filled.right_within(LIMIT).await.context("after the snapshot")?;
    cluster.plane()?.restore(&snapshot).await?;
    let restored = right(cluster, filled).await.context("etcd was restored")?;

    let cutting = async {
        for _ in 0..3 {
            sleep(Duration::from_millis(700)).await;
            relay.cut();
        }
        Ok(())
    };
    filled.churn_during(cutting).await?;
    let cut = right(cluster, filled).await.context("watches were cut")?;

    let holding = async {
        relay.hold(true);
        sleep(HELD).await;
        relay.hold(false);
        Ok(())
    };
    filled.churn_during(holding).await?;
    let held = right(cluster, filled).await.context("nothing was let through")?;
    Ok([restarted, restored, cut, held])
}

/// Changes some pods, and waits until everything is right; then endpointd has to find nothing to do.
async fn right(cluster: &Cluster, filled: &Filled) -> anyhow::Result<Duration> {
    filled.churn(CHURN).await?;
    let took = filled.right_within(LIMIT).await?;
    cluster.audit(&[]).await?;
    Ok(took)
}
