//! The admin server: health and metrics of this process, for kubelets, Prometheus and users.
//!
//! ```text
//!  /livez    do the actors answer?          watchdog: a question a second to each, some shards in turn
//!  /readyz   are the caches full?           router: the first list of each kind, applied by every shard
//!  /healthz  as kube-controller-manager's   the lease is renewed, the controllers run
//!  /metrics  the metrics of docs/metrics.md
//! ```
//!
//! Clients are not trusted: connections, their headers and the time for each are limited, and when all slots are
//! taken, the connection that has been idle for the longest is closed ([`Limits`]). A health probe costs the actors
//! nothing, because the watchdog has asked them already.
//!
//! With TLS, the API server decides who may read metrics; while it does not answer, no client may. Health needs no
//! authentication.

mod access;
mod connections;
mod health;
mod health_handle;
mod tls;

pub use connections::Limits;
pub use health_handle::{HealthHandle, Parts, Renewal};
pub use tls::{Tls, TlsError, TlsFiles};

use self::access::{Access, Decision};
use self::connections::Connections;
use self::health::Check;
use crate::metrics::Exporter;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body as _;
use http_body_util::Full;
use hyper::body::Incoming;
use rustix::net::sockopt::set_ipv6_v6only;
use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::timeout;

const TEXT: &str = "text/plain; charset=utf-8";
/// The content type of Prometheus' text format.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";
/// How many connections may wait to be accepted: as many as tokio's listeners have.
const BACKLOG: u32 = 1024;

/// The reason why the admin server could not start.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The server cannot listen on the address.
    #[error("--bind-address, --admin-port: cannot listen on {address}: {error}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// Something else in this process already records metrics.
    #[error("metrics: {0}")]
    Metrics(#[from] metrics_exporter_prometheus::BuildError),
}

/// A server that is bound to its address and does not answer requests yet.
#[derive(Debug)]
pub struct Admin {
    listener: TcpListener,
    exporter: Exporter,
    limits: Limits,
    tls: Option<Arc<Tls>>,
    access: Option<Access>,
}

impl Admin {
    /// Binds the address, and starts to record metrics. An unspecified address stands for IPv4 and IPv6 alike.
    ///
    /// # Errors
    ///
    /// When the address cannot be bound, or something else in this process records metrics.
    pub async fn bind(address: SocketAddr) -> Result<Self, AdminError> {
        let listener = listen(address)
            .await
            .map_err(|error| AdminError::Bind { address, error })?;
        Ok(Self {
            listener,
            exporter: Exporter::of_this_process()?,
            limits: Limits::default(),
            tls: None,
            access: None,
        })
    }

    /// Replaces the default limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Serves HTTPS, and metrics only to users whom the API server allows to read them; `client` asks it.
    #[must_use]
    pub fn with_tls(self, tls: Tls, client: kube::Client) -> Self {
        Self {
            tls: Some(Arc::new(tls)),
            access: Some(Access::new(client)),
            ..self
        }
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves requests for as long as it is polled.
    pub async fn serve(self, health: HealthHandle) {
        let pages = Arc::new(Pages {
            health,
            exporter: self.exporter,
            access: self.access,
            limits: self.limits,
        });
        let watching = {
            let pages = pages.clone();
            async move { pages.health.watch_over().await }
        };
        let counting = {
            let pages = pages.clone();
            async move { pages.exporter.keep_up().await }
        };
        let connections = Connections::new(self.limits, self.tls);
        let serving = connections.serve(self.listener, move |request| {
            let pages = pages.clone();
            async move { pages.answer(&request).await }
        });
        tokio::join!(watching, counting, serving);
    }
}

/// Listens on an address; on both families if it is unspecified, as programs in Go do. A kubelet probes the first address
/// of a pod, which may be of either.
async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    if !address.ip().is_unspecified() {
        return TcpListener::bind(address).await;
    }
    let port = address.port();
    let Ok(socket) = TcpSocket::new_v6() else {
        // This machine has no IPv6.
        return TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await;
    };
    set_ipv6_v6only(&socket, false)?;
    socket.set_reuseaddr(true)?;
    socket.bind((Ipv6Addr::UNSPECIFIED, port).into())?;
    socket.listen(BACKLOG)
}

/// The pages that are served, and their sources.
struct Pages {
    health: HealthHandle,
    exporter: Exporter,
    access: Option<Access>,
    limits: Limits,
}

impl Pages {
    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let mut response = match timeout(self.limits.answer, self.page(request)).await {
            Ok(response) => response,
            Err(_) => text(StatusCode::SERVICE_UNAVAILABLE, "no answer in time"),
        };
        if !request.body().is_end_stream() {
            // Request bodies are never read, so the connection cannot be reused.
            response = with(response, header::CONNECTION, "close");
        }
        response
    }

    async fn page(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        if !matches!(path, "/livez" | "/readyz" | "/healthz" | "/metrics") {
            return text(StatusCode::NOT_FOUND, "404 page not found");
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return with(
                text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed"),
                header::ALLOW,
                "GET, HEAD",
            );
        }
        let query = request.uri().query();
        match path {
            "/livez" => self.health("livez", &self.health.checks(), query),
            "/readyz" => self.health("readyz", &self.health.readiness(), query),
            "/healthz" => {
                let well = self.health.verdict();
                self.health("healthz", &self.health.health(&well), query)
            }
            _ => {
                if let Some(refusal) = self.refusal(request).await {
                    return refusal;
                }
                let held = self.health.refresh().await;
                respond(StatusCode::OK, EXPOSITION, self.exporter.render(held))
            }
        }
    }

    /// Returns the error response if the client may not read metrics.
    async fn refusal(&self, request: &Request<Incoming>) -> Option<Response<Full<Bytes>>> {
        let access = self.access.as_ref()?;
        match access
            .decide(request.headers(), request.method(), "/metrics")
            .await
        {
            Decision::Allowed => None,
            Decision::Unauthenticated => Some(with(
                text(StatusCode::UNAUTHORIZED, "Unauthorized"),
                header::WWW_AUTHENTICATE,
                "Bearer",
            )),
            Decision::Forbidden(user) => {
                let method = request.method().as_str().to_ascii_lowercase();
                let why = format!("Forbidden: user {user:?} cannot {method} path \"/metrics\"");
                Some(text(StatusCode::FORBIDDEN, &why))
            }
            Decision::TooMany => {
                self.health.complain(
                    "metrics",
                    "too many requests have tokens that were not let in before",
                );
                Some(with(
                    text(StatusCode::TOO_MANY_REQUESTS, "Too Many Requests"),
                    header::RETRY_AFTER,
                    "1",
                ))
            }
            Decision::Unknown(why) => {
                self.health.complain("metrics", &why);
                Some(text(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error"))
            }
        }
    }

    fn health(&self, name: &str, checks: &[Check], query: Option<&str>) -> Response<Full<Bytes>> {
        let report = health::report(name, checks, query);
        if !report.ok {
            let mut failed = String::new();
            for Check { name, result } in checks {
                if let Err(why) = result {
                    let _ = write!(failed, "{name}: {why}; ");
                }
            }
            self.health.complain(name, failed.trim_end_matches("; "));
        }
        let code = if report.ok {
            StatusCode::OK
        } else {
            StatusCode::INTERNAL_SERVER_ERROR
        };
        respond(code, TEXT, report.text)
    }
}

fn text(code: StatusCode, text: &str) -> Response<Full<Bytes>> {
    respond(code, TEXT, format!("{text}\n"))
}

fn respond(code: StatusCode, content: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = code;
    response = with(response, header::CONTENT_TYPE, content);
    response = with(response, header::CACHE_CONTROL, "no-cache, private");
    with(response, header::X_CONTENT_TYPE_OPTIONS, "nosniff")
}

fn with(mut response: Response<Full<Bytes>>, name: HeaderName, value: &'static str) -> Response<Full<Bytes>> {
    response
        .headers_mut()
        .insert(name, HeaderValue::from_static(value));
    response
}
