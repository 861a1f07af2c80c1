//! The proxy between one process and the API server: it notes each request as it arrives, with its body, and can be
//! cut, so that some or all of what is sent does not pass, and neither side is told. Bytes on their way then arrive
//! when it is mended.

use parking_lot::Mutex;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// A request of the process.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// When its first bytes arrived here.
    pub(crate) at: Instant,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: Value,
    /// The answer's status and when it came, if it did.
    pub(crate) answer: Option<(u16, Instant)>,
}

impl Sent {
    pub(crate) fn is_write(&self) -> bool {
        self.method != "GET"
    }

    pub(crate) fn is_lease(&self) -> bool {
        self.path.contains("/leases")
    }

    /// A write of a slice or of Endpoints.
    pub(crate) fn is_output(&self) -> bool {
        self.is_write() && !self.is_lease() && self.path.contains("/endpoint")
    }

    pub(crate) fn succeeded(&self) -> bool {
        self.answer.is_some_and(|(status, _)| status < 300)
    }

    /// Whether it makes its sender the holder of the lease, or leaves it that.
    pub(crate) fn holds(&self) -> bool {
        self.is_lease()
            && self.is_write()
            && self.body["spec"]["holderIdentity"]
                .as_str()
                .is_some_and(|holder| !holder.is_empty())
    }

    /// Whether it gives the lease up.
    pub(crate) fn releases(&self) -> bool {
        self.is_lease() && self.is_write() && !self.holds()
    }
}

/// The traffic that does not pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cut {
    Nothing,
    /// Requests that concern the lease.
    Lease,
    /// Requests. Events of watches still come.
    Requests,
    Everything,
}

/// The kind of traffic that passes on one connection in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    LeaseRequest,
    Request,
    Answer,
}

impl Cut {
    fn holds(self, kind: Kind) -> bool {
        match self {
            Self::Nothing => false,
            Self::Lease => kind == Kind::LeaseRequest,
            Self::Requests => kind != Kind::Answer,
            Self::Everything => true,
        }
    }
}

/// A listener of one process's own.
pub(crate) struct Proxy {
    address: SocketAddr,
    log: Arc<Mutex<Vec<Sent>>>,
    cut: watch::Sender<Cut>,
}

impl Proxy {
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (log, cut) = (
            Arc::<Mutex<Vec<Sent>>>::default(),
            watch::Sender::new(Cut::Nothing),
        );
        let (kept, seen) = (log.clone(), cut.subscribe());
        tokio::spawn(async move {
            while let Ok((inner, _)) = listener.accept().await {
                tokio::spawn(connect(inner, server, kept.clone(), seen.clone()));
            }
        });
        Self { address, log, cut }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on this does not pass.
    pub(crate) fn cut(&self, cut: Cut) {
        self.cut.send_replace(cut);
    }

    /// All requests so far, in the order in which they came.
    pub(crate) fn sent(&self) -> Vec<Sent> {
        self.log.lock().clone()
    }
}

/// Waits until it may pass.
async fn pass(kind: Kind, cut: &mut watch::Receiver<Cut>) {
    // If no handle is left that could mend it, it is the end of the test.
    let _ = cut.wait_for(|cut| !cut.holds(kind)).await;
}

async fn connect(
    inner: TcpStream,
    server: SocketAddr,
    log: Arc<Mutex<Vec<Sent>>>,
    cut: watch::Receiver<Cut>,
) {
    let Ok(outer) = TcpStream::connect(server).await else {
        return;
    };
    let _ = (inner.set_nodelay(true), outer.set_nodelay(true));
    let ((from_process, to_process), (from_server, to_server)) = (inner.into_split(), outer.into_split());
    // The request of this connection that is out: one at a time in HTTP/1.1, as the client sends it.
    let out = Arc::new(Mutex::new(None));
    let requests = Requests {
        log: log.clone(),
        out: out.clone(),
        buffer: Vec::new(),
        at: None,
    };
    let there = forward(from_process, to_server, cut.clone(), requests);
    let back = forward(from_server, to_process, cut, Answers { log, out });
    tokio::join!(there, back);
}

/// An observer of what passes.
trait Look {
    fn look(&mut self, bytes: &[u8]) -> Kind;
}

async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut cut: watch::Receiver<Cut>,
    mut look: impl Look,
) {
    let mut buffer = vec![0; 64 << 10];
    let mut kind = Kind::Answer;
    while let Ok(count) = from.read(&mut buffer).await {
        if count > 0 {
            kind = look.look(&buffer[..count]);
        }
        pass(kind, &mut cut).await;
        if count == 0 || to.write_all(&buffer[..count]).await.is_err() {
            break;
        }
    }
    // A server gives up a request whose sender is gone. Requests that were sent before arrive first, and are answered.
    sleep(Duration::from_secs(1)).await;
    let _ = to.shutdown().await;
}

struct Requests {
    log: Arc<Mutex<Vec<Sent>>>,
    out: Arc<Mutex<Option<usize>>>,
    buffer: Vec<u8>,
    at: Option<Instant>,
}

impl Look for Requests {
    fn look(&mut self, bytes: &[u8]) -> Kind {
        self.at.get_or_insert_with(Instant::now);
        self.buffer.extend_from_slice(bytes);
        let lease = self
            .buffer
            .windows(8)
            .take(256)
            .any(|eight| eight == b"/leases/" || eight == b"/leases ");
        let kind = if lease { Kind::LeaseRequest } else { Kind::Request };
        let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") else {
            return kind;
        };
        let head = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
        let mut lines = head.lines();
        let mut first = lines.next().unwrap_or_default().split(' ');
        let (method, path) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
        let header = |name: &str| {
            let mut headers = head.lines().filter_map(|line| line.split_once(':'));
            headers
                .find(|(key, _)| key.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.trim().to_owned())
        };
        assert_eq!(header("transfer-encoding"), None, "bodies have a length");
        let length: usize = header("content-length").map_or(0, |length| length.parse().unwrap());
        if self.buffer.len() < end + 4 + length {
            return kind;
        }
        let sent = Sent {
            at: self.at.take().expect("some bytes have come"),
            method: method.to_owned(),
            path: path.to_owned(),
            body: memory_apiserver::object_of(&self.buffer[end + 4..end + 4 + length]).unwrap_or_default(),
            answer: None,
        };
        assert_eq!(self.buffer.len(), end + 4 + length, "one request at a time");
        self.buffer.clear();
        let mut log = self.log.lock();
        log.push(sent);
        *self.out.lock() = Some(log.len() - 1);
        kind
    }
}

struct Answers {
    log: Arc<Mutex<Vec<Sent>>>,
    out: Arc<Mutex<Option<usize>>>,
}

impl Look for Answers {
    fn look(&mut self, bytes: &[u8]) -> Kind {
        let Some(request) = self.out.lock().take() else {
            return Kind::Answer;
        };
        let status = std::str::from_utf8(&bytes[..bytes.len().min(12)]).ok();
        let status = status.and_then(|text| text.strip_prefix("HTTP/1.1 ")?.parse().ok());
        self.log.lock()[request].answer = status.map(|status| (status, Instant::now()));
        Kind::Answer
    }
}
