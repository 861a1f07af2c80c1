//! Connections of people and programs that may mean no good: none of them costs much, and none lasts for ever.

use super::tls::Tls;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

/// The pause when no connection can be accepted, for want of file descriptors for example.
const PAUSE: Duration = Duration::from_millis(100);

/// What who connects may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time. When there are so many, who has been silent for the longest gives way to who comes.
    pub connections: usize,
    /// How long a connection may take for a request's headers, and how long it is kept while nothing is asked or
    /// nothing that was answered is read.
    pub idle: Duration,
    /// How long an answer may take to make.
    pub answer: Duration,
    /// The bytes of a request's headers.
    pub header_bytes: usize,
    /// The number of a request's headers.
    pub headers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 32,
            idle: Duration::from_secs(30),
            answer: Duration::from_secs(10),
            header_bytes: 16 * 1024,
            headers: 64,
        }
    }
}

/// The connections that are open. Clones are one.
#[derive(Clone)]
pub(super) struct Connections {
    limits: Limits,
    tls: Option<Arc<Tls>>,
    table: Arc<Mutex<Table>>,
}

#[derive(Default)]
struct Table {
    next: u64,
    by_id: BTreeMap<u64, Entry>,
}

struct Entry {
    /// Since when it has asked nothing; `None` while an answer is made.
    silent: Option<Instant>,
    task: Option<AbortHandle>,
}

impl Connections {
    pub(super) fn new(limits: Limits, tls: Option<Arc<Tls>>) -> Self {
        Self {
            limits,
            tls,
            table: Arc::default(),
        }
    }

    /// Accepts for as long as it is polled. Connections end when it is dropped.
    pub(super) async fn serve<A>(
        self,
        listener: TcpListener,
        answer: impl Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
    ) where
        A: Future<Output = Response<Full<Bytes>>> + Send,
    {
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::debug!(%error, "a connection cannot be accepted");
                    sleep(PAUSE).await;
                    continue;
                }
            };
            let Some(place) = self.take_place() else {
                // All of them are being answered: this one may try again.
                continue;
            };
            let (id, answer) = (place.id, answer.clone());
            let task = tokio::spawn(async move {
                let Some(tls) = place.connections.tls.clone() else {
                    return place.talk(stream, answer).await;
                };
                let acceptor = tls.acceptor().await;
                // Who does not come through the handshake in time is not heard.
                if let Ok(Ok(stream)) = timeout(place.connections.limits.idle, acceptor.accept(stream)).await
                {
                    place.talk(stream, answer).await;
                }
            });
            if let Some(entry) = self.table.lock().by_id.get_mut(&id) {
                entry.task = Some(task.abort_handle());
            }
        }
    }

    /// A place for one more, if need be that of the one that has been silent for the longest.
    fn take_place(&self) -> Option<Place> {
        let mut table = self.table.lock();
        if table.by_id.len() >= self.limits.connections {
            let silent = table
                .by_id
                .iter()
                .filter_map(|(id, entry)| Some((entry.silent?, *id)))
                .min();
            let (_, id) = silent?;
            if let Some(Entry { task: Some(task), .. }) = table.by_id.remove(&id) {
                task.abort();
            }
        }
        table.next += 1;
        let id = table.next;
        let entry = Entry {
            silent: Some(Instant::now()),
            task: None,
        };
        table.by_id.insert(id, entry);
        Some(Place {
            id,
            connections: self.clone(),
        })
    }
}

/// A connection's place in the table, given up when dropped.
struct Place {
    id: u64,
    connections: Connections,
}

impl Place {
    async fn talk<A>(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        answer: impl Fn(Request<Incoming>) -> A,
    ) where
        A: Future<Output = Response<Full<Bytes>>>,
    {
        let place = &self;
        let service = service_fn(|request| {
            place.set_silent(None);
            let answer = answer(request);
            async move {
                let response = answer.await;
                place.set_silent(Some(Instant::now()));
                Ok::<_, Infallible>(response)
            }
        });
        let limits = place.connections.limits;
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.idle)
            .max_buf_size(limits.header_bytes)
            .max_headers(limits.headers)
            .half_close(false)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        loop {
            tokio::select! {
                biased;
                // What went wrong is theirs.
                _ = &mut connection => return,
                // One that does not read what it is sent.
                () = sleep(limits.idle) => if place.is_stale() { return },
            }
        }
    }

    fn set_silent(&self, silent: Option<Instant>) {
        if let Some(entry) = self.connections.table.lock().by_id.get_mut(&self.id) {
            entry.silent = silent;
        }
    }

    /// Whether this one has been silent for too long, or has lost its place.
    fn is_stale(&self) -> bool {
        let table = self.connections.table.lock();
        let Some(entry) = table.by_id.get(&self.id) else {
            return true;
        };
        let idle = |since| Instant::now().saturating_duration_since(since) >= self.connections.limits.idle;
        entry.silent.is_some_and(idle)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.table.lock().by_id.remove(&self.id);
    }
}
