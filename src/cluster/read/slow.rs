//! Tells when a server takes long: before it begins to answer, and in the middle of an answer.

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use kube::client::Body;
use std::convert::Infallible;
use std::fmt;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// Is told of each request, such as `list pods in all namespaces`, that has had no answer for some time.
pub type OnSlow = Arc<dyn Fn(&str) + Send + Sync>;

/// The callback for requests without an answer, and the time after which it is called.
#[derive(Clone)]
pub(super) struct Telling {
    pub(super) after: Duration,
    pub(super) told: OnSlow,
}

impl Telling {
    /// Waits for the beginning of an answer.
    pub(super) async fn during<T>(&self, what: &str, work: impl Future<Output = T>) -> T {
        let late = async {
            sleep(self.after).await;
            (self.told)(what);
            pending::<Infallible>().await
        };
        tokio::select! {
            biased;
            outcome = work => outcome,
            never = late => match never {},
        }
    }
}

/// The body of an answer. Whenever nothing of it has arrived for some time, that is told.
pub(super) struct Answer {
    body: Body,
    telling: Option<(Telling, String)>,
    /// Runs while the next data is waited for, until it has been told of.
    late: Option<Pin<Box<Sleep>>>,
    is_told: bool,
}

impl Answer {
    /// Wraps the body of an answer to a request, and whom to tell of it.
    pub(super) fn new(body: Body, telling: Option<(Telling, String)>) -> Self {
        Self {
            body,
            telling,
            late: None,
            is_told: false,
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").finish_non_exhaustive()
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = kube::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, kube::Error>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.body).poll_frame(cx);
        match &this.telling {
            Some((telling, what)) if frame.is_pending() => {
                let late = this.late.get_or_insert_with(|| Box::pin(sleep(telling.after)));
                if !this.is_told && late.as_mut().poll(cx).is_ready() {
                    (telling.told)(what);
                    this.is_told = true;
                }
            }
            _ => (this.late, this.is_told) = (None, false),
        }
        frame
    }
}
