//! Sends requests to the API server. kube's parts make the connections, with its TLS, credentials and headers. Lists and
//! watches go through a client of kube's around a transport. Requests for single objects do without: the parts that kube's
//! own client adds are left out, and cost 4,700 instructions a request:
//!
//! - A queue, and a task that empties it. A write that has passed the fence would wait there once more.
//! - A span for each request, and a box around each piece of an answer, neither of which is looked at.
//! - The server's name in each request. The pool of connections hashes it letter by letter, twice for each request.
//! - Nagle's algorithm, by which the last part of a write waits until the server has acknowledged the rest.
//!
//! A server that vanishes closes no connection. The system asks after it instead, and gives the connection up ([`IDLE`],
//! [`UNHEARD`]).

use super::plugin::Plugin;
use crate::cluster::http::Head;
use crate::metrics::Counted;
use bytes::Bytes;
use http::header::HOST;
use http::uri::{Authority, Scheme};
use http::{HeaderValue, Request, Response, Uri};
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
use std::sync::Arc;
use std::time::Duration;
use tower::util::{BoxCloneSyncService, option_layer};
use tower::{BoxError, Layer as _, Service, ServiceExt as _, service_fn};

/// How long a connection may be silent before the system asks whether the other side is still there.
const IDLE: Duration = Duration::from_secs(15);
/// How often the system asks again.
const INTERVAL: Duration = Duration::from_secs(5);
/// How often it asks in vain before it gives the connection up, where there is no [`UNHEARD`].
const PROBES: u32 = 3;
/// How long a request, or a question of the system, may be without an acknowledgement. All idle connections of the pool
/// are gone by then as well, so that a write waits for one of them only.
#[cfg(target_os = "linux")]
const UNHEARD: Duration = Duration::from_secs(20);

type Sending = BoxCloneSyncService<Request<Body>, Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError>;

/// Sends requests. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Transport(Arc<Sending>);

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").finish_non_exhaustive()
    }
}

/// For API servers within the process, which have no connections, and for those behind a proxy, which kube knows how to reach.
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
    pub(super) fn new(config: &Config) -> Result<Self, kube::Error> {
        let url = &config.cluster_url;
        let host = url.authority().map_or("", |authority| authority.as_str());
        if config.proxy_url.is_some() {
            let client = ClientBuilder::try_from(config.clone())?.build();
            let through = Sending::clone(&Self::from(client).0);
            return Ok(Self::of(Counted::new(through, host)));
        }
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_keepalive(Some(IDLE));
        connector.set_keepalive_interval(Some(INTERVAL));
        connector.set_keepalive_retries(Some(PROBES));
        #[cfg(target_os = "linux")]
        connector.set_tcp_user_timeout(Some(UNHEARD));
        let connector = config.rustls_https_connector_with_connector(connector)?;
        // Around all of it: a server may accept a connection and then not answer the TLS handshake.
        let mut connector = TimeoutConnector::new(connector);
        connector.set_connect_timeout(config.connect_timeout);
        let address = ServerAddress::of(url);
        let server = address.is_some().then(|| url.clone());
        let connector = connector.map_request(move |asked| server.clone().unwrap_or(asked));
        let client = legacy::Client::builder(TokioExecutor::new()).build::<_, Body>(connector);
        let service = client.map_err(BoxError::from);
        let service = config.extra_headers_layer()?.layer(service);
        let service = option_layer(config.auth_layer()?).layer(service);
        let Some(address) = address else {
            let service = config.base_uri_layer().layer(service);
            return Ok(Self::of(Counted::new(service, host)));
        };
        let service = service.map_request(move |request| address.take(request));
        Ok(Self::of(Counted::new(service, host)))
    }

    /// Returns a client of kube's that sends its requests this way.
    pub fn client(&self, namespace: &str) -> Client {
        Client::new(Sending::clone(&self.0), namespace)
    }

    /// Has requests carry the token of a credential plugin.
    pub(super) fn authorized(self, plugin: Arc<Plugin>) -> Self {
        Self::of(service_fn(move |request| {
            let (inner, plugin) = (Sending::clone(&self.0), plugin.clone());
            async move { plugin.send(request, |request| inner.oneshot(request)).await }
        }))
    }

    fn of<S, B>(service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        B: Answer<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let boxed = |answer: Response<B>| answer.map(|body| body.map_err(Into::into).boxed_unsync());
        Self(Arc::new(BoxCloneSyncService::new(service.map_response(boxed))))
    }

    /// Sends a request, and waits for the head of its answer.
    pub(in crate::cluster) async fn send(
        &self,
        request: Request<Body>,
    ) -> Result<(Head, UnsyncBoxBody<Bytes, BoxError>), kube::Error> {
        let answer = Sending::clone(&self.0).oneshot(request).await.map_err(failure)?;
        let (head, body) = answer.into_parts();
        Ok((Head::of(head.status, &head.headers), body))
    }
}

/// The only server that requests go to. Nearly all have no path in their URL.
#[derive(Clone)]
struct ServerAddress {
    scheme: Scheme,
    /// Stands for the server where connections are pooled. The connector knows the real one.
    short: Authority,
    /// The header `Host`.
    host: HeaderValue,
}

impl ServerAddress {
    /// Returns `None` if paths have to be put after one of the server's.
    fn of(url: &Uri) -> Option<Self> {
        let (scheme, host) = (url.scheme()?.clone(), url.host()?);
        let usual = if scheme == Scheme::HTTPS { 443 } else { 80 };
        let host = match url.port_u16().filter(|port| *port != usual) {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let address = Self {
            scheme,
            short: Authority::from_static("k"),
            host: HeaderValue::try_from(host).ok()?,
        };
        (url.path() == "/" && url.query().is_none()).then_some(address)
    }

    /// Addresses a request, which has a path only, to this server.
    fn take(&self, mut request: Request<Body>) -> Request<Body> {
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        (parts.scheme, parts.authority) = (Some(self.scheme.clone()), Some(self.short.clone()));
        *request.uri_mut() = Uri::from_parts(parts).expect("a path with a scheme and a host is a URI");
        request.headers_mut().insert(HOST, self.host.clone());
        request
    }
}

/// Reads the body of an answer to its end.
pub(in crate::cluster) async fn read_all(body: UnsyncBoxBody<Bytes, BoxError>) -> Result<Bytes, kube::Error> {
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
    use tokio::net::TcpListener;
    use tokio::time::{Instant, timeout};

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_the_handshake_is_given_up_in_time() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let mut config = Config::new(url.parse().unwrap());
        config.connect_timeout = Some(Duration::from_secs(10));
        let transport = Transport::new(&config).unwrap();
        let start = Instant::now();
        let request = Request::get("/api").body(Body::empty()).unwrap();
        let sent = timeout(Duration::from_secs(60), transport.send(request)).await;
        assert!(matches!(sent, Ok(Err(_))));
        let waited = Instant::now().saturating_duration_since(start);
        assert_eq!(waited.as_secs(), 10);
    }

    #[test]
    fn a_request_goes_to_the_server_with_its_path_and_query() {
        for (server, host) in [
            ("https://10.0.0.1:6443", "10.0.0.1:6443"),
            ("https://kubernetes.default.svc:443/", "kubernetes.default.svc"),
            ("https://kubernetes.default.svc:80/", "kubernetes.default.svc:80"),
            ("http://[::1]/", "[::1]"),
            ("http://localhost:8080", "localhost:8080"),
        ] {
            let request = Request::get("/api/v1/pods?limit=1").body(Body::empty()).unwrap();
            let address = ServerAddress::of(&server.parse().unwrap()).unwrap();
            let request = address.take(request);
            assert_eq!(request.uri().path_and_query().unwrap(), "/api/v1/pods?limit=1");
            assert_eq!(request.headers()[HOST], host);
        }
        for elsewhere in ["https://rancher/k8s/clusters/c-1", "/relative"] {
            assert!(
                ServerAddress::of(&elsewhere.parse().unwrap()).is_none(),
                "{elsewhere}"
            );
        }
    }
}
