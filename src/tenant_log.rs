//! The limit of the log lines and Events that a namespace's owner can cause: one who causes ten thousand does not bury those
//! about other namespaces.

use crate::clock;
use crate::core::namespace_limiter::NamespaceLimiter;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The limits of all namespaces. Clones share them.
#[derive(Clone, Debug)]
pub struct TenantLog(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    start: Instant,
    limiter: Mutex<NamespaceLimiter>,
}

impl Default for TenantLog {
    fn default() -> Self {
        Self(Arc::new(Shared {
            start: Instant::now(),
            limiter: Mutex::default(),
        }))
    }
}

impl TenantLog {
    fn now(&self) -> Duration {
        clock::since(self.0.start)
    }

    /// Returns whether a line about a namespace may be logged now, or an Event written. Call it once for each, right before.
    /// It logs how many were refused before.
    pub(crate) fn admits(&self, namespace: &str) -> bool {
        let admitted = self.0.limiter.lock().admit(namespace, self.now());
        if let Some(left_out) = admitted.filter(|left_out| *left_out > 0) {
            complain(Some(namespace), left_out);
        }
        admitted.is_some()
    }

    /// Logs how many were refused of which nothing was logged yet, when the process ends.
    pub(crate) fn finish(&self) {
        let left_out = self.0.limiter.lock().take_left_out();
        for (namespace, left_out) in left_out {
            complain(namespace.as_deref(), left_out);
        }
    }
}

fn complain(namespace: Option<&str>, left_out: u64) {
    let namespace = namespace.unwrap_or("(others)");
    tracing::warn!(%namespace, left_out, "log lines and Events about this namespace exceeded its share");
}
