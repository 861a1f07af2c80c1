//! Whether the controller keeps its lease.

use kube::Client;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/endpointd";
const LOOK: Duration = Duration::from_millis(100);
/// With the usual times of an election, a holder that could not renew for this long gives up.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// Looks at the lease all the time.
pub(super) struct LeaseWatch {
    task: JoinHandle<anyhow::Result<(Duration, bool)>>,
    stop: Arc<Notify>,
}

impl LeaseWatch {
    /// Begins while the controller holds it.
    pub(super) fn start(client: Client) -> Self {
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let held = lease(&client).await?;
            let (mut last, mut since) = (held.clone(), Instant::now());
            let (mut longest, mut lost) = (Duration::ZERO, false);
            loop {
                tokio::select! {
                    () = stopped.notified() => return Ok((longest, lost || longest >= RENEW_DEADLINE)),
                    () = sleep(LOOK) => {}
                }
                let now = lease(&client).await?;
                longest = longest.max(Instant::now().saturating_duration_since(since));
                // One that was lost and is held again has another beginning.
                for field in ["holderIdentity", "acquireTime", "leaseTransitions"] {
                    lost |= now[field] != held[field];
                }
                if now["renewTime"] != last["renewTime"] {
                    (last, since) = (now, Instant::now());
                }
            }
        });
        Self { task, stop }
    }

    /// The longest time without a renewal, and whether the lease was lost.
    pub(super) async fn stop(self) -> anyhow::Result<(Duration, bool)> {
        self.stop.notify_one();
        self.task.await?
    }
}

async fn lease(client: &Client) -> anyhow::Result<Value> {
    let request = http::Request::get(PATH).body(Vec::new())?;
    let lease: Value = client.request(request).await?;
    Ok(lease["spec"].clone())
}
