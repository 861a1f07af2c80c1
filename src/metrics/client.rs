//! Metrics of the API client's requests, under client-go's names.

use super::catalogue::Client;
use crate::clock;
use crate::core::hash::IdMap;
use futures::future::{BoxFuture, FutureExt as _};
use http::{Request, Response};
use metrics::{Counter, Histogram};
use parking_lot::Mutex;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::Instant;
use tower::Service;

/// The methods that are used; others are counted as GET.
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
/// The status under which a request without an answer is counted.
const NO_ANSWER: u16 = 0;

/// A service whose requests are counted.
#[derive(Clone, Debug)]
pub(crate) struct Counted<S> {
    inner: S,
    handles: Arc<Handles>,
}

#[derive(Debug)]
struct Handles {
    host: String,
    client: Client,
    durations: [Histogram; METHODS.len()],
    /// By method and status.
    requests: Mutex<IdMap<(usize, u16), Counter>>,
}

impl<S> Counted<S> {
    /// Counts the requests that go to this server.
    pub(crate) fn new(inner: S, host: &str) -> Self {
        let client = Client::default();
        let handles = Arc::new(Handles {
            host: host.to_owned(),
            durations: METHODS.map(|verb| (client.durations)(&[verb, host])),
            client,
            requests: Mutex::default(),
        });
        Self { inner, handles }
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
            (self.client.requests)(&[&code, METHODS[method], &self.host])
        });
        counter.increment(1);
    }
}

impl<S, A, B> Service<Request<A>> for Counted<S>
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
