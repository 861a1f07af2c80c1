//! Sends the requests for single objects to the API server. kube's parts make the connections, with its TLS, credentials
//! and headers. What kube's own client puts around them is left out; it cost 4,700 instructions a request:
//!
//! - A queue, and a task that empties it. A write that has passed the fence would wait there once more.
//! - A span for each request, and a box around each piece of an answer, which nobody looks at.
//! - Nagle's algorithm, by which the last part of a write waits until the server has acknowledged the rest.

use super::http::Head;
use crate::metrics::RequestLayer;
use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body::Body as Answer;
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::{Client, Config};
use std::fmt;
use tower::util::{BoxCloneSyncService, option_layer};
use tower::{BoxError, Layer as _, Service, ServiceExt as _, service_fn};

type Sending = BoxCloneSyncService<Request<Body>, Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError>;

/// Sends requests for single objects. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Transport(Sending);

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").finish_non_exhaustive()
    }
}

/// For API servers within the process, which have no connections.
impl From<Client> for Transport {
    fn from(client: Client) -> Self {
        Self::of(service_fn(move |request| {
            let client = client.clone();
            async move { client.send(request).await.map_err(BoxError::from) }
        }))
    }
}

impl Transport {
    /// Creates a transport to the server of a configuration. Nothing is sent yet.
    pub(super) fn new(config: &Config, requests: &RequestLayer) -> Result<Self, kube::Error> {
        if config.proxy_url.is_some() {
            // Fails, since no kind of proxy is built in.
            return ClientBuilder::try_from(config.clone()).map(|builder| builder.build().into());
        }
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        let connector = config.rustls_https_connector_with_connector(connector)?;
        // Around all of it: a server may accept a connection and then not answer the TLS handshake.
        let mut connector = TimeoutConnector::new(connector);
        connector.set_connect_timeout(config.connect_timeout);
        let client = legacy::Client::builder(TokioExecutor::new()).build::<_, Body>(connector);
        let service = client.map_err(BoxError::from);
        let service = config.extra_headers_layer()?.layer(service);
        let service = option_layer(config.auth_layer()?).layer(service);
        let url = &config.cluster_url;
        if url.path() != "/" || url.scheme().is_none() || url.authority().is_none() {
            let service = config.base_uri_layer().layer(service);
            return Ok(Self::of(requests.layer(service)));
        }
        // Nearly always. No text has to be put together, and parsed once more.
        let base = url.clone();
        let service = service.map_request(move |request| at_server(request, &base));
        Ok(Self::of(requests.layer(service)))
    }

    fn of<S, B>(service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        B: Answer<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let boxed = |answer: Response<B>| answer.map(|body| body.map_err(Into::into).boxed_unsync());
        Self(BoxCloneSyncService::new(service.map_response(boxed)))
    }

    /// Sends a request, and waits for the head of its answer.
    pub(super) async fn send(
        &self,
        request: Request<Body>,
    ) -> Result<(Head, UnsyncBoxBody<Bytes, BoxError>), kube::Error> {
        let answer = self.0.clone().oneshot(request).await.map_err(failure)?;
        let (head, body) = answer.into_parts();
        Ok((Head::of(head.status, &head.headers), body))
    }
}

/// Adds the scheme and the host of a server to the URI of a request.
fn at_server(mut request: Request<Body>, base: &Uri) -> Request<Body> {
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    (parts.scheme, parts.authority) = (base.scheme().cloned(), base.authority().cloned());
    *request.uri_mut() = Uri::from_parts(parts).expect("a path with a scheme and a host is a URI");
    request
}

/// Reads the body of an answer to its end.
pub(super) async fn read_all(body: UnsyncBoxBody<Bytes, BoxError>) -> Result<Bytes, kube::Error> {
    Ok(body.collect().await.map_err(failure)?.to_bytes())
}

/// Returns the error as kube's client has it.
fn failure(error: BoxError) -> kube::Error {
    match error.downcast::<kube::Error>() {
        Ok(error) => *error,
        Err(error) => kube::Error::Service(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_goes_to_the_server_with_its_path_and_query() {
        for base in ["https://10.0.0.1:6443", "http://[::1]/"] {
            let request = Request::get("/api/v1/pods?limit=1").body(Body::empty()).unwrap();
            let base: Uri = base.parse().unwrap();
            let there = at_server(request, &base);
            assert_eq!(
                *there.uri(),
                format!("{base}api/v1/pods?limit=1").parse::<Uri>().unwrap()
            );
        }
    }
}
