//! Problems that were there before this process led: each new leader finds all of them at once, and tells each kind in one
//! line of the log.

use crate::core::events::Notice;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// For how long after a shard has begun to write its warnings about annotations count as problems that were there before:
/// some depend on Leases, which are listed after the first plan, and run out after the usual duration of 15 seconds.
pub(crate) const BEGINNING: Duration = Duration::from_secs(60);
/// For how long the problems of a kind are collected before they are told.
const COLLECTED_FOR: Duration = Duration::from_secs(5);

/// Collects the standing problems of all namespaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct StandingProblems(Arc<Collected>);

#[derive(Debug, Default)]
struct Collected(Mutex<BTreeMap<&'static str, Kind>>);

/// The problems of a kind that have not been told yet.
#[derive(Debug)]
struct Kind {
    /// The first of them.
    example: Notice,
    /// The Services that have it, by namespace and name.
    services: BTreeSet<(Arc<str>, Arc<str>)>,
}

impl StandingProblems {
    /// Adds a problem. The first of a kind has all of the kind told a little later.
    pub(crate) fn add(&self, notice: Notice) {
        let reason = notice.reason;
        let service = (notice.involved.namespace.clone(), notice.involved.name.clone());
        let mut kinds = self.0.0.lock();
        let kind = kinds.entry(reason).or_insert_with(|| {
            // What is left when the controller ends is told then.
            let collected = Arc::downgrade(&self.0);
            tokio::spawn(async move {
                sleep(COLLECTED_FOR).await;
                if let Some(collected) = collected.upgrade() {
                    let kind = collected.0.lock().remove(reason);
                    kind.iter().for_each(Kind::tell);
                }
            });
            Kind {
                example: notice,
                services: BTreeSet::new(),
            }
        });
        kind.services.insert(service);
    }
}

impl Kind {
    fn tell(&self) {
        let Notice {
            involved,
            reason,
            message,
            ..
        } = &self.example;
        let (namespace, service) = (&involved.namespace, &involved.name);
        match self.services.len() {
            0 | 1 => tracing::info!(%namespace, %service, reason, "{message}"),
            services => tracing::info!(
                services,
                reason,
                example = format!("{namespace}/{service}: {message}"),
                "Services had a problem of the same kind before this process led; `endpointd audit --problems` and the Events of \
                 this reason name each of them"
            ),
        }
    }
}

impl Drop for Collected {
    fn drop(&mut self) {
        self.0.get_mut().values().for_each(Kind::tell);
    }
}
