//! Problems that were there before this process led: each new leader finds all of them at once, and tells each kind in one
//! line of the log.

use crate::core::events::Notice;
use crate::inspect::findings::Reason;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// How long the problems of a kind are collected before they are logged.
const COLLECTED_FOR: Duration = Duration::from_secs(5);
/// The number of namespaces for which a line names one Service, so that the Services of one do not hide those of others.
const NAMED: usize = 20;

/// Collects the standing problems of all namespaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct StandingProblems(Arc<Collected>);

#[derive(Debug, Default)]
struct Collected(Mutex<BTreeMap<&'static str, Kind>>);

/// The problems of a kind that have not been logged yet.
#[derive(Debug)]
struct Kind {
    /// The first of them.
    example: Notice,
    /// The Services that have it, by namespace and name.
    services: BTreeSet<(Arc<str>, Arc<str>)>,
}

impl StandingProblems {
    /// Adds a problem. The first of a kind starts a timer, after which all of the kind are logged.
    pub(crate) fn add(&self, notice: Notice) {
        let reason = notice.reason;
        let service = (notice.involved.namespace.clone(), notice.involved.name.clone());
        let mut kinds = self.0.0.lock();
        let kind = kinds.entry(reason).or_insert_with(|| {
            // Problems that are still collected when the controller ends are logged by `finish`.
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

    /// Logs at once what has not been logged, since the controller ends.
    pub(crate) fn finish(&self) {
        let kinds = std::mem::take(&mut *self.0.0.lock());
        kinds.values().for_each(Kind::tell);
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
        let services = self.services.len();
        if services <= 1 {
            tracing::info!(%namespace, %service, reason, "{message}; this came about before this process led");
            return;
        }
        let (namespaces, named) = self.named();
        let listed = match in_audit(reason) {
            Some(found) => format!(
                "`endpointd audit --problems --controllers=custom-selector-controller` lists them as {}, and each has an Event",
                found.as_str()
            ),
            None => "each has an Event of this reason".to_owned(),
        };
        tracing::info!(
            services,
            namespaces,
            reason,
            named,
            example = format!("{namespace}/{service}: {message}"),
            "Services had a problem of the same kind before this process led; {listed}"
        );
    }

    /// Returns the number of namespaces, and the names of one Service of each, for at most [`NAMED`] of them.
    fn named(&self) -> (usize, String) {
        let mut first: BTreeMap<&str, &str> = BTreeMap::new();
        for (namespace, service) in &self.services {
            first.entry(namespace).or_insert(service);
        }
        let names = first.iter().take(NAMED);
        let mut named = names
            .map(|(namespace, service)| format!("{namespace}/{service}"))
            .collect::<Vec<_>>()
            .join(", ");
        let more = first.len().saturating_sub(NAMED);
        if more > 0 {
            let _ = write!(named, " and those of {more} more namespaces");
        }
        (first.len(), named)
    }
}

/// Returns the problem under which `endpointd audit --problems` lists the Services that have an Event of this reason. `None` if it
/// does not list them.
fn in_audit(reason: &str) -> Option<Reason> {
    match reason {
        "InvalidSelector" => Some(Reason::SelectorUnusable),
        "SelectorIgnored" => Some(Reason::AnnotationIgnored),
        "UnknownAnnotation" => Some(Reason::AnnotationUnknown),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::events::{Involved, InvolvedKind, Source};

    fn notice(namespace: usize, service: usize) -> Notice {
        Notice {
            source: Source::Custom,
            involved: Involved {
                kind: InvolvedKind::Service,
                namespace: format!("n{namespace:02}").into(),
                name: format!("s{service}").into(),
                uid: "u".into(),
                version: None,
            },
            warning: true,
            reason: "InvalidSelector",
            message: "m".to_owned(),
        }
    }

    /// One namespace with many bad annotations was all that a line named, and so hid those of the others.
    #[tokio::test]
    async fn a_service_of_each_namespace_is_named_up_to_twenty() {
        let standing = StandingProblems::default();
        for (namespace, services) in [(0, 30), (1, 1), (2, 2)] {
            for service in 0..services {
                standing.add(notice(namespace, service));
            }
        }
        let named = |standing: &StandingProblems| standing.0.0.lock()["InvalidSelector"].named();
        assert_eq!(named(&standing), (3, "n00/s0, n01/s0, n02/s0".to_owned()));
        for namespace in 3..25 {
            standing.add(notice(namespace, 0));
        }
        let (namespaces, names) = named(&standing);
        assert_eq!(namespaces, 25);
        assert!(
            names.ends_with("n18/s0, n19/s0 and those of 5 more namespaces"),
            "{names}"
        );
        standing.finish();
        assert!(standing.0.0.lock().is_empty());
    }
}
