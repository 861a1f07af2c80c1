//! Lists and watches the Leases of one namespace, for the Services there that follow some, and reads single ones.
//!
//! Leases are read in JSON: their times have microseconds, which the decoder of protobuf leaves out, and they are few.

use super::events::take_events;
use super::handler::WatchHandler;
use crate::cluster::cause::{Cause, Silent};
use crate::cluster::codec::{self, Namespaced};
use crate::cluster::event_stream::EventStream;
use crate::cluster::pages::{self, ANSWER, PAGE};
use crate::cluster::{Status, http};
use crate::core::inbox::{Change, Delivery};
use crate::core::leader::{LeaseAnswer, LeaseChange, LeaseEvent, LeaseFacts};
use crate::core::role::Leadership;
use crate::tenant_log;
use ::http::StatusCode;
use kube::Client;
use kube::client::Body;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};

/// A watch that shows nothing for this long, not even a bookmark (the server sends one a minute), is considered broken.
const SILENCE: Duration = Duration::from_secs(150);
/// How long a watch is asked to last, in seconds.
const LASTS: u32 = 540;
/// The timeout of a read.
const READING: Duration = Duration::from_secs(10);
/// The pause after a watch that has ended in order: a proxy may end each at once.
const BREATH: Duration = Duration::from_millis(100);
/// The pause after a first failure; it doubles with each further one up to the longest.
const PAUSE: Duration = Duration::from_millis(500);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How many namespaces are listed at once, and how many Leases are read at once.
const AT_ONCE: usize = 16;

/// Reads Leases, and hands on what it sees. Clones share everything.
#[derive(Clone)]
pub(crate) struct LeaseReader {
    client: Client,
    handler: Arc<dyn WatchHandler>,
    leadership: watch::Receiver<Leadership>,
    /// Origin of the times that are handed on.
    start: Instant,
    lists: Arc<Semaphore>,
    /// Apart from lists, which may take long: a leader whose time has run out waits for a read.
    reads: Arc<Semaphore>,
}

impl fmt::Debug for LeaseReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseReader").finish_non_exhaustive()
    }
}

impl LeaseReader {
    pub(crate) fn new(
        client: Client,
        handler: Arc<dyn WatchHandler>,
        leadership: watch::Receiver<Leadership>,
        start: Instant,
    ) -> Self {
        Self {
            client,
            handler,
            leadership,
            start,
            lists: Arc::new(Semaphore::new(AT_ONCE)),
            reads: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// Follows the Leases of a namespace, from when this process follows the outputs until it no longer does; what it
    /// hands on carries the number of the request. A list that was made in an earlier term proves nothing, so after a
    /// loss of the term there is another request.
    pub(crate) async fn follow(self, namespace: Arc<str>, generation: u64) {
        let mut leadership = self.leadership.clone();
        let follows = |leadership: &Leadership| leadership.role.follows_outputs();
        let Ok(term) = leadership.wait_for(follows).await.map(|now| now.term) else {
            return;
        };
        let following = Following {
            reader: self,
            namespace,
            generation,
        };
        let over = |leadership: &Leadership| !follows(leadership) || leadership.term != term;
        tokio::select! {
            biased;
            _ = leadership.wait_for(over) => {}
            () = following.serve() => {}
        }
    }

    /// Reads one Lease, and hands on the answer, unless this process does not follow the outputs.
    pub(crate) async fn read(self, namespace: Arc<str>, generation: u64, name: Arc<str>) {
        let Ok(permit) = self.reads.clone().acquire_owned().await else {
            return;
        };
        if !self.leadership.borrow().role.follows_outputs() {
            return;
        }
        let answer = match timeout(READING, self.get(&namespace, &name)).await {
            Ok(answer) => answer,
            Err(_) => LeaseAnswer::Failed,
        };
        drop(permit);
        let following = Following {
            reader: self,
            namespace,
            generation,
        };
        following.hand_on(vec![LeaseEvent::Read(name, answer)]);
    }

    async fn get(&self, namespace: &str, name: &str) -> LeaseAnswer {
        let uri = format!("{}/{name}", http::leases(namespace));
        let body = match http::read_json(&self.client, &uri).await {
            Ok(Ok(body)) => body,
            Ok(Err((head, status))) => return refusal(head.code, &status, name),
            Err(_) => return LeaseAnswer::Failed,
        };
        let lease = body.collect_bytes().await.ok();
        let lease = lease.and_then(|body| codec::object::<Namespaced<LeaseFacts>>(&body).ok());
        match lease {
            Some(lease) if *lease.facts.name == *name => LeaseAnswer::Found(lease.facts),
            _ => LeaseAnswer::Failed,
        }
    }
}

/// Interprets a refused read. Anything that does not know the path may answer 404; the Lease is only missing if the answer
/// names it.
fn refusal(code: StatusCode, status: &Status, name: &str) -> LeaseAnswer {
    let is_about_it = || {
        status
            .details
            .as_ref()
            .is_some_and(|details| details.name == name)
    };
    match code {
        StatusCode::NOT_FOUND if status.reason == "NotFound" && is_about_it() => LeaseAnswer::Missing,
        StatusCode::FORBIDDEN => LeaseAnswer::Refused(status.message.as_str().into()),
        _ => LeaseAnswer::Failed,
    }
}

/// The Leases of one namespace, followed under one number.
struct Following {
    reader: LeaseReader,
    namespace: Arc<str>,
    generation: u64,
}

impl Following {
    /// Lists and watches. Never returns.
    async fn serve(self) {
        self.hand_on(vec![LeaseEvent::Begun]);
        let mut version = None;
        let mut failures = 0;
        loop {
            let outcome = match version {
                None => self.list().await.map(Some),
                Some(from) => self.watch(from, &mut version).await.map(|()| version),
            };
            match outcome {
                Ok(shown) => {
                    if version.is_some() {
                        sleep(BREATH).await;
                    }
                    version = shown;
                    failures = 0;
                }
                Err(Cause::Expired) if version.take().is_some() => sleep(BREATH).await,
                Err(error) => {
                    self.complain(&error, failures);
                    sleep(PAUSE.saturating_mul(1 << failures.min(16)).min(LONGEST_PAUSE)).await;
                    failures += 1;
                }
            }
        }
    }

    /// Lists the Leases. As no version is asked for, the list shows the current state of the store.
    async fn list(&self) -> Result<u64, Cause> {
        // The semaphore is never closed.
        let _permit = self.reader.lists.acquire().await.ok();
        let mut leases = Vec::new();
        let get = |uri: String| async move { self.answer(&uri).await };
        let take = |items: Vec<Namespaced<LeaseFacts>>, _| {
            leases.extend(items.into_iter().map(|lease| lease.facts));
            Ok(())
        };
        let version = pages::read(&http::leases(&self.namespace), "", PAGE, Some(ANSWER), get, take).await?;
        let version = codec::version(&version)?;
        self.hand_on(vec![LeaseEvent::Listed(leases)]);
        Ok(version)
    }

    /// Watches from a version, and moves it on.
    async fn watch(&self, from: u64, version: &mut Option<u64>) -> Result<(), Cause> {
        let uri = format!(
            "{}?watch=1&allowWatchBookmarks=true&resourceVersion={from}&timeoutSeconds={LASTS}",
            http::leases(&self.namespace)
        );
        let mut stream = EventStream::new(self.answer(&uri).await?);
        while let Some(events) = stream.next(SILENCE).await? {
            let shown = take_events::<Namespaced<LeaseFacts>>(&events, false);
            let events = shown.items.into_iter().map(|(lease, gone)| match gone {
                Some(gone) => LeaseEvent::Gone(lease.facts.name, gone.0),
                None => LeaseEvent::Seen(lease.facts),
            });
            self.hand_on(events.collect());
            if let Some(shown) = shown.version {
                *version = Some(codec::version(&shown)?);
            }
            shown.end?;
        }
        Ok(())
    }

    async fn answer(&self, uri: &str) -> Result<Body, Cause> {
        let answer = timeout(ANSWER, http::read_json(&self.reader.client, uri));
        let answer = answer.await.map_err(|_| Silent(ANSWER))??;
        answer.map_err(|(head, status)| Cause::refused(head.code.as_u16(), status))
    }

    fn hand_on(&self, events: Vec<LeaseEvent>) {
        let at = Instant::now().saturating_duration_since(self.reader.start);
        let deliveries = events.into_iter().map(|event| Delivery {
            namespace: self.namespace.clone(),
            event: Change::Leases(LeaseChange {
                generation: self.generation,
                at,
                event,
            }),
        });
        self.reader.handler.deliver(deliveries.collect());
    }

    fn complain(&self, error: &Cause, failures: u32) {
        let namespace = &self.namespace;
        if failures == 0 && tenant_log::admits(namespace) {
            tracing::warn!(%namespace, %error, "the Leases of the namespace cannot be listed or watched; it is retried");
        } else {
            tracing::debug!(%namespace, %error, "the Leases of the namespace cannot be listed or watched; it is retried");
        }
    }
}
