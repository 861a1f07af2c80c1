//! Requests of one kind's list and watch.

use super::handler::WatchHandler;
use super::sources::Source;
use crate::cluster::cause::{Cause, Silent};
use crate::cluster::codec::{self, Undecodable};
use crate::cluster::encodings::{Encodings, Form};
use crate::cluster::http;
use crate::cluster::outage::OutageLog;
use crate::cluster::pages::ANSWER;
use crate::metrics::WatchMetrics;
use crate::tenant_log;
use kube::Client;
use kube::client::Body;
use metrics::Counter;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Timeout for reading a version.
const READING: Duration = Duration::from_secs(10);

/// Sends requests, and hands on their results. Clones share everything.
#[derive(Clone)]
pub(super) struct Reader {
    pub(super) source: Source,
    pub(super) client: Client,
    pub(super) handler: Arc<dyn WatchHandler>,
    pub(super) encodings: Encodings,
    pub(super) metrics: WatchMetrics,
    pub(super) outages: OutageLog,
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

    /// Reads the version that the kind has now. As no version is asked for, it comes from the current state of the
    /// store; as a list of at most one object, it costs the server next to nothing.
    pub(super) async fn version(self) -> Result<u64, Cause> {
        let reading = async {
            let uri = format!("{}?limit=1", http::collection(self.source.kind, None));
            let body = self.get(&uri, Form::MetadataList).await?;
            let body = body.collect_bytes().await?;
            Ok(codec::list_version(&body)?)
        };
        let _asking = self.outages.asks(self.source.kind.as_str());
        timeout(READING, reading).await.map_err(|_| Silent(READING))?
    }

    /// Returns the body of the answer to a request, once the server has begun to answer.
    pub(super) async fn answer(&self, uri: &str, form: Form) -> Result<Body, Cause> {
        let _asking = self.outages.asks(self.source.kind.as_str());
        timeout(ANSWER, self.get(uri, form))
            .await
            .map_err(|_| Silent(ANSWER))?
    }

    async fn get(&self, uri: &str, form: Form) -> Result<Body, Cause> {
        let read = http::read(&self.client, &self.encodings, self.source.kind, form, uri).await?;
        read.map_err(|(head, status)| Cause::answered(&head, status))
    }

    /// Counts and logs objects that cannot be decoded; they are left out.
    pub(super) fn complain(&self, errors: &[Undecodable]) {
        complain(self.source.kind.as_str(), &self.metrics.undecodable, errors);
    }
}

/// Counts and logs objects of a resource that cannot be decoded.
pub(super) fn complain(resource: &'static str, undecodable: &Counter, errors: &[Undecodable]) {
    for error in errors {
        undecodable.increment(1);
        if tenant_log::admits(&error.namespace) {
            tracing::error!(resource, %error, "an object could not be decoded; it is left out");
        }
    }
}
