//! A limit to how long a server may be silent.

use std::time::Duration;
use tokio::time::timeout;

/// The server has sent nothing for this long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no answer for {} s", .0.as_secs_f64())]
pub struct Silent(pub Duration);

/// Waits for a limited time, or without a limit.
pub(super) async fn within<T>(limit: Option<Duration>, work: impl Future<Output = T>) -> Result<T, Silent> {
    match limit {
        Some(limit) => timeout(limit, work).await.map_err(|_| Silent(limit)),
        None => Ok(work.await),
    }
}
