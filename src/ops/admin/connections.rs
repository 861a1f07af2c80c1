//! Connections of clients that are not trusted: each of them is bounded in cost and in time.

use super::tls::Tls;
use crate::clock;
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

/// The pause after a connection could not be accepted, for lack of file descriptors for example.
const PAUSE: Duration = Duration::from_millis(100);

/// The limits on connections and requests.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time. At the limit, the connection that has been idle for the longest gives way to a new one.
    pub connections: usize,
    /// The time that a connection may take to send a request's headers, and for which it is kept while it sends no
    /// request or does not read a response.
    pub idle: Duration,
    /// The time that a response may take to be made.
    pub answer: Duration,
    /// The size of a request's headers, in bytes.
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

/// The open connections. Clones share one table.
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
    /// The time since which the connection has been idle; `None` while a response is made.
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

    /// Accepts connections for as long as it is polled. Connections end when it is dropped.
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
                    tracing::debug!(%error, "a connection to the admin port could not be accepted");
                    sleep(PAUSE).await;
                    continue;
                }
            };
            let Some(slot) = self.take_slot() else {
                // All slots are busy with a response, so this connection is dropped; its client may try again.
                continue;
            };
            let (id, answer) = (slot.id, answer.clone());
            let task = tokio::spawn(async move {
                let Some(tls) = slot.connections.tls.clone() else {
                    return slot.talk(stream, answer).await;
                };
                let acceptor = tls.acceptor().await;
                // A connection that does not finish the TLS handshake in time is dropped.
                if let Ok(Ok(stream)) = timeout(slot.connections.limits.idle, acceptor.accept(stream)).await {
                    slot.talk(stream, answer).await;
                }
            });
            if let Some(entry) = self.table.lock().by_id.get_mut(&id) {
                entry.task = Some(task.abort_handle());
            }
        }
    }

    /// Takes a slot in the table, if need be by closing the connection that has been idle for the longest.
    fn take_slot(&self) -> Option<ConnectionSlot> {
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
        Some(ConnectionSlot {
            id,
            connections: self.clone(),
        })
    }
}

/// A connection's slot in the table, which is freed on drop.
struct ConnectionSlot {
    id: u64,
    connections: Connections,
}

impl ConnectionSlot {
    async fn talk<A>(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        answer: impl Fn(Request<Incoming>) -> A,
    ) where
        A: Future<Output = Response<Full<Bytes>>>,
    {
        let slot = &self;
        let service = service_fn(|request| {
            slot.set_silent(None);
            let answer = answer(request);
            async move {
                let response = answer.await;
                slot.set_silent(Some(Instant::now()));
                Ok::<_, Infallible>(response)
            }
        });
        let limits = slot.connections.limits;
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
                // Errors of a connection concern only its client.
                _ = &mut connection => return,
                // Closes a connection that does not read its response.
                () = sleep(limits.idle) => if slot.is_stale() { return },
            }
        }
    }

    fn set_silent(&self, silent: Option<Instant>) {
        if let Some(entry) = self.connections.table.lock().by_id.get_mut(&self.id) {
            entry.silent = silent;
        }
    }

    /// Returns whether this connection has been idle for too long, or has lost its slot.
    fn is_stale(&self) -> bool {
        let table = self.connections.table.lock();
        let Some(entry) = table.by_id.get(&self.id) else {
            return true;
        };
        let idle = |since| clock::since(since) >= self.connections.limits.idle;
        entry.silent.is_some_and(idle)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.table.lock().by_id.remove(&self.id);
    }
}
