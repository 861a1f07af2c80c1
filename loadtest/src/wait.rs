//! Waits until something is so.

use std::time::Duration;
use tokio::time::{Instant, sleep};

const LOOK: Duration = Duration::from_millis(50);

/// Tries something again and again until it works, for no longer than `limit`. The error is that of the last try.
pub(crate) async fn until(
    what: &str,
    limit: Duration,
    try_it: impl AsyncFn() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + limit;
    loop {
        let begun = Instant::now();
        match try_it().await {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() >= deadline => {
                return Err(error.context(format!("{what}: not within {limit:?}")));
            }
            // A try that costs much is followed by a pause as long.
            Err(_) => sleep(LOOK.max(Instant::now().saturating_duration_since(begun))).await,
        }
    }
}
