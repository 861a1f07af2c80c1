//! Metrics of the API client's requests, under client-go's names.

use crate::clock;
use crate::core::hash::IdMap;
use futures::future::{BoxFuture, FutureExt as _};
use http::{Request, Response};
use metrics::{Counter, Histogram, counter, histogram};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
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
    durations: [Histogram; METHODS.len()],
    /// By method and status.
    requests: Mutex<IdMap<(usize, u16), Counter>>,
}

impl RequestLayer {
    /// Creates the layer for clients of this server.
    pub(crate) fn new(host: &str) -> Self {
        let durations = METHODS.map(|verb| histogram!("rest_client_request_duration_seconds", "verb" => verb, "host" => host.to_owned()));
        Self(Arc::new(Handles {
            host: host.to_owned(),
            durations,
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
{
    type Response = Response<B>;
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
        let (start, answer, handles) = (Instant::now(), self.inner.call(request), self.handles.clone());
        async move {
            let answer = answer.await;
            let status = answer
                .as_ref()
                .map_or(NO_ANSWER, |answer| answer.status().as_u16());
            handles.count(method, status);
            if !watches {
                handles.durations[method].record(clock::since(start));
            }
            answer
        }
        .boxed()
    }
}
