//! The line between a controller in this process and the server. It can be cut, as when the controller's process is
//! killed: nothing goes through it any more in either direction, and neither side is told.

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use kube::Client;
use memory_apiserver::{ApiServer, ApiService, ResponseBody};
use parking_lot::Mutex;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;
use tower::Service;

/// Where a controller's requests go through. Clones are the same line.
#[derive(Clone)]
pub(super) struct Link {
    inner: ApiService,
    state: Arc<State>,
    /// Requests whose sender no longer waits are carried out all the same, perhaps much later.
    lingering: bool,
}

/// More requests at one moment of the paused clock than any history calls for: the controller goes round in circles.
const CIRCLE: u64 = 5_000;

struct State {
    cut: AtomicBool,
    circles: AtomicBool,
    /// The latest moment of a request, and how many there were at it.
    rate: Mutex<(Option<Instant>, u64)>,
    /// Requests that are under way, and some that were; each with whether it lingers.
    under_way: Mutex<Vec<(AbortHandle, bool)>>,
}

/// A body that ends in silence when the line is cut.
pub(super) struct Cut {
    inner: ResponseBody,
    state: Arc<State>,
}

/// A request under way, given up with its sender unless it lingers.
struct UnderWay {
    task: JoinHandle<io::Result<Response<ResponseBody>>>,
    lingering: bool,
}

// === impl Link ===

impl Link {
    pub(super) fn new(server: &ApiServer, lingering: bool) -> Self {
        let state = State {
            cut: AtomicBool::new(false),
            circles: AtomicBool::new(false),
            rate: Mutex::default(),
            under_way: Mutex::default(),
        };
        Self {
            inner: server.service_as("controller"),
            state: Arc::new(state),
            lingering,
        }
    }

    pub(super) fn client(&self) -> Client {
        Client::new(self.clone(), "default")
    }

    /// Whether the controller has sent requests without end and without a pause. None goes through any more then.
    pub(super) fn goes_in_circles(&self) -> bool {
        self.state.circles.load(Ordering::Relaxed)
    }

    /// Cuts the line. Requests under way are lost, unless they linger.
    pub(super) fn cut(&self) {
        self.state.cut.store(true, Ordering::Relaxed);
        for (request, lingering) in self.state.under_way.lock().drain(..) {
            if !lingering {
                request.abort();
            }
        }
    }
}

impl Service<Request<kube::client::Body>> for Link {
    type Response = Response<Cut>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let state = Arc::clone(&self.state);
        state.count();
        if state.is_cut() {
            return Box::pin(std::future::pending());
        }
        // Endpoints that are made after their Service has gone stay until the next start, as upstream leaves them:
        // there is no owner with which they go.
        let makes_endpoints =
            request.method() == Method::POST && request.uri().path().ends_with("/endpoints");
        let lingering = self.lingering && !makes_endpoints;
        let mut request = UnderWay {
            task: tokio::spawn(self.inner.call(request)),
            lingering,
        };
        let mut under_way = state.under_way.lock();
        under_way.retain(|(request, _)| !request.is_finished());
        under_way.push((request.task.abort_handle(), lingering));
        drop(under_way);
        Box::pin(async move {
            let answer = (&mut request.task).await;
            if state.is_cut() {
                return std::future::pending().await;
            }
            let answer = answer.map_err(io::Error::other)??;
            Ok(answer.map(|inner| Cut { inner, state }))
        })
    }
}

impl State {
    fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    fn count(&self) {
        let now = Instant::now();
        let mut rate = self.rate.lock();
        if rate.0 != Some(now) {
            *rate = (Some(now), 0);
        }
        rate.1 += 1;
        if rate.1 > CIRCLE {
            self.circles.store(true, Ordering::Relaxed);
            self.cut.store(true, Ordering::Relaxed);
        }
    }
}

// === impl UnderWay ===

impl Drop for UnderWay {
    fn drop(&mut self) {
        if !self.lingering {
            self.task.abort();
        }
    }
}

// === impl Cut ===

impl Body for Cut {
    type Data = Bytes;
    type Error = <ResponseBody as Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.state.is_cut() {
            return Poll::Pending;
        }
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        !self.state.is_cut() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
