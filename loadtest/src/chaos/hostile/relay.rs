//! The relay that passes on all bytes between the controller and the server, so that it can be told how long the
//! controller takes: from when the server has sent an event until the controller has sent the request that follows from
//! it.
//!
//! ```text
//!  server ──► events of watches ──► relay ──► controller
//!         ◄───────────────────────  relay ◄── requests
//!                                     └─► Delays: when was each read here?
//! ```
//!
//! The relay has a thread of its own, because those of the server are busy with large objects for a tenth of a second
//! at a time. It reads ahead of the side that it passes the bytes to, so that a controller that is slow to read gains
//! nothing by it: what has been read waits in queues without a bound, which hold at most what is sent during a test.

use super::answers::{Answers, MOST_HEADERS, Piece};
use super::delays::{Delays, Written};
use anyhow::{Context, bail};
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep};

/// Read at once at most.
const READ: usize = 256 * 1024;
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// A relay, which ends when it is dropped.
pub(super) struct Relay {
    address: SocketAddr,
    /// Taken when it is dropped.
    runtime: Option<Runtime>,
}

/// Cuts requests out of what a client sends.
#[derive(Default)]
struct Requests {
    /// The beginning of a head, or of the body of a request that is looked at.
    partial: BytesMut,
    body: Option<Body>,
}

/// A request whose body is not there yet.
struct Body {
    method: String,
    path: String,
    left: usize,
    kept: bool,
}

// === impl Relay ===

impl Relay {
    /// A relay to a server, which tells `delays` what goes through it.
    pub(super) fn start(server: SocketAddr, delays: Arc<Delays>) -> anyhow::Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").context("listening on loopback")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("relay")
            .enable_all()
            .build()?;
        runtime.spawn(async move {
            if let Err(error) = accept(listener, server, &delays).await {
                tracing::warn!(%error, "the relay cannot listen");
            }
        });
        Ok(Self {
            address,
            runtime: Some(runtime),
        })
    }

    /// Where the controller finds the server.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Accepts connections as long as the relay is there.
async fn accept(
    listener: std::net::TcpListener,
    server: SocketAddr,
    delays: &Arc<Delays>,
) -> std::io::Result<()> {
    // Here, and not where it was bound, since it belongs to the runtime of its caller.
    let listener = TcpListener::from_std(listener)?;
    loop {
        let client = match listener.accept().await {
            Ok((client, _)) => client,
            Err(error) => {
                tracing::warn!(%error, "the relay could not accept a connection");
                sleep(RETRY_PAUSE).await;
                continue;
            }
        };
        let delays = Arc::clone(delays);
        tokio::spawn(async move {
            if let Err(error) = connect(client, server, delays).await {
                tracing::warn!(error = format!("{error:#}"), "the relay ended a connection");
            }
        });
    }
}

/// Relays a connection until both sides have ended it, or one has broken it.
async fn connect(client: TcpStream, server: SocketAddr, delays: Arc<Delays>) -> anyhow::Result<()> {
    let server = TcpStream::connect(server).await?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let (requests, ahead_of_server) = unbounded_channel();
    let (responses, ahead_of_client) = unbounded_channel();
    let (mut sent, mut answers) = (Requests::default(), Answers::default());
    // Requests of a connection follow each other: the next answer is that to the last request.
    let unanswered = Mutex::new(None);
    let on_request = |bytes: &[u8]| {
        let at = Instant::now();
        sent.take(bytes, |method, path, body| {
            delays.meter.count(method, path);
            // Only then is it worth asking how much the controller has spent.
            let written = Written::set_of(method, path).is_some();
            let read = || Written::read(method, path, body, delays.meter.moment(at));
            *unanswered.lock() = written.then(read).flatten();
        })
    };
    let on_response = |bytes: &[u8]| {
        let at = Instant::now();
        answers.take(bytes, |piece| match piece {
            Piece::Head { status } => {
                let written = unanswered.lock().take();
                // A request that was refused shows no change.
                if let Some(written) = written.filter(|_| (200..300).contains(&status)) {
                    delays.written(written);
                }
            }
            Piece::Event(event) => delays.event(event, at),
        })
    };
    tokio::try_join!(
        read(from_client, requests, on_request),
        write(ahead_of_server, to_server),
        read(from_server, responses, on_response),
        write(ahead_of_client, to_client),
    )?;
    Ok(())
}

async fn read(
    mut from: OwnedReadHalf,
    to: UnboundedSender<Bytes>,
    mut look: impl FnMut(&[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(READ);
        // A broken connection is treated as one that was ended.
        if !matches!(from.read_buf(&mut buffer).await, Ok(1..)) {
            return Ok(());
        }
        let bytes = buffer.split().freeze();
        look(&bytes)?;
        if to.send(bytes).is_err() {
            return Ok(());
        }
    }
}

async fn write(mut from: UnboundedReceiver<Bytes>, mut to: OwnedWriteHalf) -> anyhow::Result<()> {
    while let Some(bytes) = from.recv().await {
        if to.write_all(&bytes).await.is_err() {
            break;
        }
    }
    // The other direction goes on. There is nothing to end if the connection is broken.
    to.shutdown().await.ok();
    Ok(())
}

// === impl Requests ===

impl Requests {
    /// Gives `each` the method, the path and the body of each request that is complete with these bytes, and no body of
    /// those that are not looked at.
    fn take(&mut self, mut bytes: &[u8], mut each: impl FnMut(&str, &str, &[u8])) -> anyhow::Result<()> {
        loop {
            if let Some(body) = &mut self.body {
                let here = bytes.len().min(body.left);
                if body.kept {
                    self.partial.extend_from_slice(&bytes[..here]);
                }
                body.left -= here;
                bytes = &bytes[here..];
                if body.left > 0 {
                    return Ok(());
                }
                each(&body.method, &body.path, &self.partial);
                self.partial.clear();
                self.body = None;
            }
            if bytes.is_empty() {
                return Ok(());
            }
            let before = self.partial.len();
            self.partial.extend_from_slice(bytes);
            let Some((head, body)) = head(&self.partial)? else {
                return Ok(());
            };
            bytes = &bytes[head - before..];
            self.partial.clear();
            self.body = Some(body);
        }
    }
}

/// The head of a request and its length, if all of it is there.
fn head(bytes: &[u8]) -> anyhow::Result<Option<(usize, Body)>> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = request.parse(bytes).context("reading a request")? else {
        return Ok(None);
    };
    let mut left = 0;
    for header in request.headers.iter() {
        if header.name.eq_ignore_ascii_case("transfer-encoding") {
            bail!("a request's length is not said in advance");
        }
        if header.name.eq_ignore_ascii_case("content-length") {
            left = std::str::from_utf8(header.value)?.parse()?;
        }
    }
    let (method, path) = (
        request.method.unwrap_or_default().to_owned(),
        request.path.unwrap_or_default().to_owned(),
    );
    let kept = Written::set_of(&method, &path).is_some();
    Ok(Some((
        length,
        Body {
            method,
            path,
            left,
            kept,
        },
    )))
}

#[cfg(test)]
mod tests {
    use super::super::answers::tests::pieces;
    use super::*;

    #[test]
    fn requests_are_found_wherever_they_are_cut() {
        let path = "/apis/discovery.k8s.io/v1/namespaces/neighbour-1/endpointslices/a";
        let text = format!(
            "PUT {path} HTTP/1.1\r\nContent-Length: 4\r\n\r\nbodyGET /a HTTP/1.1\r\n\r\nPUT /b HTTP/1.1\r\n\
             content-length: 2\r\n\r\nxy"
        );
        for cut in pieces(text.as_bytes()) {
            let (mut requests, mut seen) = (Requests::default(), Vec::new());
            for bytes in cut {
                let each = |method: &str, path: &str, body: &[u8]| {
                    let body = String::from_utf8(body.to_owned()).unwrap();
                    seen.push(format!("{method} {path} {body}"));
                };
                requests.take(bytes, each).unwrap();
            }
            assert_eq!(
                seen,
                [format!("PUT {path} body"), "GET /a ".into(), "PUT /b ".into()]
            );
        }
    }
}
