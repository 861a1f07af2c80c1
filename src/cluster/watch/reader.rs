//! Requests of one kind's list and watch.

use super::handler::WatchHandler;
use super::sources::Source;
use crate::cluster::cause::Cause;
use crate::cluster::codec::Undecodable;
use crate::cluster::http::{self, Form};
use crate::cluster::outage::OutageLog;
use crate::cluster::pages;
use crate::metrics::WatchMetrics;
use crate::tenant_log::TenantLog;
use kube::Client;
use kube::client::Body;
use std::sync::Arc;

/// Sends requests, and hands on their results. Clones share everything.
#[derive(Clone)]
pub(super) struct Reader {
    pub(super) source: Source,
    pub(super) client: Client,
    pub(super) handler: Arc<dyn WatchHandler>,
    pub(super) metrics: WatchMetrics,
    pub(super) outages: OutageLog,
    pub(super) log: TenantLog,
}

impl Reader {
    /// Begins a watch from a version. Returns its body, once the server has begun to answer.
    pub(super) async fn watch(self, from: u64, seconds: u32) -> Result<Body, Cause> {
        let uri = format!(
            "{}?watch=1&allowWatchBookmarks=true&resourceVersion={from}&timeoutSeconds={seconds}{}",
            http::collection(self.source.kind, None),
            self.source.watch
        );
        self.answer(&uri, self.source.watched).await
    }

    /// Reads the version that the kind has now.
    pub(super) async fn version(self) -> Result<u64, Cause> {
        let uri = format!("{}?limit=1", http::collection(self.source.kind, None));
        pages::version(self.answer(&uri, Form::MetadataList)).await
    }

    /// Returns the body of the answer to a request, once the server has begun to answer.
    pub(super) async fn answer(&self, uri: &str, form: Form) -> Result<Body, Cause> {
        let _asking = self.outages.asks(self.source.kind.as_str());
        pages::answer(http::read(&self.client, uri, form.accept())).await
    }

    /// Counts and logs objects that cannot be decoded; they are left out.
    pub(super) fn complain(&self, errors: &[Undecodable]) {
        let resource = self.source.kind.as_str();
        for error in errors {
            self.metrics.undecodable.increment(1);
            if self.log.admits(&error.namespace) {
                tracing::error!(resource, %error, "an object could not be decoded; it is left out");
            }
        }
    }
}
