//! Metrics of the API client's requests, under client-go's names.

use crate::clock;
use crate::core::hash::IdMap;
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use metrics::{Counter, Histogram, counter, histogram};
use parking_lot::Mutex;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use tokio::time::Instant;
use tower::{Layer, Service};

/// The methods that are used; others are counted as GET.
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
/// The status under which a request without an answer is counted.
const NO_ANSWER: u16 = 0;

/// A layer that counts a client's requests.
#[derive(Clone)]
pub(crate) struct RequestLayer(Arc<Handles>);

struct Handles {
    host: String,
    methods: [MethodHandles; METHODS.len()],
    /// By method and status.
    requests: Mutex<IdMap<(usize, u16), Counter>>,
}

struct MethodHandles {
    duration: Histogram,
    sent: Histogram,
    received: Histogram,
}

/// The API server's host, set when the first client is created: a process has one.
static HOST: OnceLock<String> = OnceLock::new();

pub(super) fn host() -> &'static str {
    HOST.get().map_or("", String::as_str)
}

impl RequestLayer {
    /// Creates the layer for clients of this server.
    pub(crate) fn new(host: &str) -> Self {
        HOST.get_or_init(|| host.to_owned());
        let methods = METHODS.map(|verb| {
            let host = || host.to_owned();
            MethodHandles {
                duration: histogram!("rest_client_request_duration_seconds", "verb" => verb, "host" => host()),
                sent: histogram!("rest_client_request_size_bytes", "verb" => verb, "host" => host()),
                received: histogram!("rest_client_response_size_bytes", "verb" => verb, "host" => host()),
            }
        });
        Self(Arc::new(Handles {
            host: host.to_owned(),
            methods,
            requests: Mutex::default(),
        }))
    }
}

impl fmt::Debug for RequestLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestLayer")
            .field("host", &self.0.host)
            .finish_non_exhaustive()
    }
}

impl Handles {
    fn count(&self, method: usize, status: u16) {
        let mut requests = self.requests.lock();
        let counter = requests.entry((method, status)).or_insert_with(|| {
            let code = match status {
                NO_ANSWER => "<error>".to_owned(),
                status => status.to_string(),
            };
            let host = self.host.clone();
            counter!("rest_client_requests_total", "code" => code, "method" => METHODS[method], "host" => host)
        });
        counter.increment(1);
    }
}

impl<S> Layer<S> for RequestLayer {
    type Service = Counting<S>;

    fn layer(&self, inner: S) -> Counting<S> {
        Counting {
            inner,
            handles: self.0.clone(),
        }
    }
}

/// A service whose requests are counted.
#[derive(Clone)]
pub(crate) struct Counting<S> {
    inner: S,
    handles: Arc<Handles>,
}

impl<S> fmt::Debug for Counting<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counting").finish_non_exhaustive()
    }
}

impl<S, A, B> Service<Request<A>> for Counting<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
    A: Body,
{
    type Response = Response<Counted<B>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let method = METHODS.iter().position(|method| request.method() == *method);
        let method = method.unwrap_or_default();
        let query = request.uri().query().unwrap_or_default();
        let watches = query
            .split('&')
            .any(|pair| matches!(pair, "watch=1" | "watch=true"));
        if let Some(bytes) = request.body().size_hint().exact() {
            self.handles.methods[method].sent.record(bytes as f64);
        }
        let (start, answer, handles) = (Instant::now(), self.inner.call(request), self.handles.clone());
        async move {
            let answer = answer.await;
            let status = answer
                .as_ref()
                .map_or(NO_ANSWER, |answer| answer.status().as_u16());
            handles.count(method, status);
            let of_method = &handles.methods[method];
            if !watches {
                let took = clock::since(start);
                of_method.duration.record(took);
            }
            let received = (!watches).then(|| of_method.received.clone());
            Ok(answer?.map(|body| Counted {
                body,
                bytes: 0,
                received,
            }))
        }
        .boxed()
    }
}

/// A body whose size is recorded when it is dropped, read to its end or not.
pub(crate) struct Counted<B> {
    body: B,
    bytes: u64,
    received: Option<Histogram>,
}

impl<B> fmt::Debug for Counted<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counted")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Counted<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.bytes += data.len() as u64;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Counted<B> {
    fn drop(&mut self) {
        if let Some(received) = &self.received {
            received.record(self.bytes as f64);
        }
    }
}
