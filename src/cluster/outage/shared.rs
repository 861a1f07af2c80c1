//! The outage of a resource that is read in many namespaces, each by requests of its own: one line says that it fails, and
//! it is over when all of them succeed.

use super::{Asking, Cause, OutageLog};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;

/// The outage of one resource. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct SharedOutage {
    log: OutageLog,
    resource: &'static str,
    /// The namespaces in which it cannot be read.
    failing: Arc<Mutex<HashSet<Arc<str>>>>,
}

impl SharedOutage {
    /// Creates the outage of a resource, which is logged in this account.
    pub(crate) fn new(log: OutageLog, resource: &'static str) -> Self {
        Self {
            log,
            resource,
            failing: Arc::default(),
        }
    }

    /// Notes that a request is sent now.
    pub(crate) fn asks(&self) -> Asking {
        self.log.asks(self.resource)
    }

    /// Notes that the resource cannot be read in a namespace. Logs the reason, unless the log has one of its sort: messages
    /// name the namespace, so each would be another.
    pub(crate) fn failed(&self, namespace: &Arc<str>, cause: &Cause) {
        self.failing.lock().insert(namespace.clone());
        self.log.failed_alike(self.resource, &sort(cause), cause);
    }

    /// Notes that the resource could be read in a namespace.
    pub(crate) fn succeeded(&self, namespace: &str) {
        let mut failing = self.failing.lock();
        failing.remove(namespace);
        if failing.is_empty() {
            self.log.succeeded(self.resource);
        }
    }

    /// Notes that the resource is not read in a namespace any more.
    pub(crate) fn left(&self, namespace: &str) {
        let mut failing = self.failing.lock();
        if failing.remove(namespace) && failing.is_empty() {
            self.log.left(self.resource);
        }
    }
}

/// Returns the sort of a cause, without the text in it.
fn sort(cause: &Cause) -> String {
    let mut sort = match cause {
        Cause::Client(_) => "client",
        Cause::Forbidden(_) => "forbidden",
        Cause::NotFound { .. } => "not found",
        Cause::Expired => "expired",
        Cause::Status { .. } => "status",
        Cause::Malformed(_) => "malformed",
        Cause::Silent(_) => "silent",
    }
    .to_owned();
    if let Cause::Status { code, .. } = cause {
        let _ = write!(sort, " {code}");
    }
    sort
}
