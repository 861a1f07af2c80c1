//! A client over HTTP/2, as client-go's are. endpointd and all else here use HTTP/1.1.
//!
//! ```text
//!  kube::Client ──► base URL, credentials (kube's layers) ──► Http2 ──► one connection (TLS, ALPN h2), made again when it ends
//! ```

use anyhow::{Context, ensure};
use bytes::Bytes;
use futures::future::BoxFuture;
use h2::RecvStream;
use h2::client::{Builder, SendRequest};
use http::{Request, Response, Uri};
use http_body::Frame;
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Poller, Poll, ready};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tower::util::option_layer;
use tower::{Layer, Service};

const PROTOCOL: &[u8] = b"h2";
/// What a client-go reads ahead of its user at most, on one stream and on a connection: the windows of Go's transport.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 1 << 30;

/// Sends requests over one connection.
#[derive(Clone)]
struct Http2(Arc<Connection>);

struct Connection {
    uri: Uri,
    tls: TlsConnector,
    sender: Mutex<Option<SendRequest<Bytes>>>,
}

/// The body of an answer.
struct Answer(RecvStream);

/// Makes a client with a connection of its own. The server has to speak HTTPS.
pub(crate) fn client(config: &Config) -> anyhow::Result<Client> {
    ensure!(
        config.cluster_url.scheme_str() == Some("https"),
        "HTTP/2 needs a server with https://"
    );
    ensure!(config.proxy_url.is_none(), "HTTP/2 goes through no proxy here");
    let mut tls: ClientConfig = config.rustls_client_config()?;
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    let http2 = Http2(Arc::new(Connection {
        uri: config.cluster_url.clone(),
        tls: TlsConnector::from(Arc::new(tls)),
        sender: Mutex::new(None),
    }));
    let service = option_layer(config.auth_layer()?).layer(http2);
    let service = config.base_uri_layer().layer(service);
    Ok(Client::new(service, &*config.default_namespace))
}

// === impl Http2 ===

impl Service<Request<Body>> for Http2 {
    type Response = Response<Answer>;
    type Error = tower::BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Poller<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let connection = Arc::clone(&self.0);
        Box::pin(async move { Ok(connection.send(request).await?) })
    }
}

// === impl Connection ===

impl Connection {
    async fn send(&self, request: Request<Body>) -> anyhow::Result<Response<Answer>> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let mut sender = self.sender().await?;
        let (answer, mut stream) = sender.send_request(Request::from_parts(head, ()), body.is_empty())?;
        if !body.is_empty() {
            stream.send_data(body, true)?;
        }
        Ok(answer.await?.map(Answer))
    }

    /// The connection, if it takes a request, or else a new one.
    async fn sender(&self) -> anyhow::Result<SendRequest<Bytes>> {
        let mut kept = self.sender.lock().await;
        if let Some(sender) = kept.take()
            && let Ok(sender) = sender.ready().await
        {
            return Ok(kept.insert(sender).clone());
        }
        let sender = self.connect().await?.ready().await?;
        Ok(kept.insert(sender).clone())
    }

    async fn connect(&self) -> anyhow::Result<SendRequest<Bytes>> {
        let host = self.uri.host().context("the server's URL has no host")?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((host, self.uri.port_u16().unwrap_or(443))).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(host.to_owned())?;
        let stream = self.tls.connect(name, stream).await?;
        ensure!(
            stream.get_ref().1.alpn_protocol() == Some(PROTOCOL),
            "the server does not speak HTTP/2"
        );
        let (sender, connection) = Builder::new()
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .enable_push(false)
            .handshake(stream)
            .await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("a connection ended: {error}");
            }
        });
        Ok(sender)
    }
}

// === impl Answer ===

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        poller: &mut Poller<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let Some(data) = ready!(self.0.poll_data(poller)) else {
            return Poll::Ready(None);
        };
        let taken = data.and_then(|data| {
            self.0.flow_control().release_capacity(data.len())?;
            Ok(Frame::data(data))
        });
        Poll::Ready(Some(taken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::config::AuthInfo;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::pki_types::PrivateKeyDer;

    /// Serves one request on each connection: the answer is the path and the credentials, in two pieces.
    async fn serve(listener: TcpListener, tls: TlsAcceptor) {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let tls = tls.clone();
            // A client may open the next one before it closes this.
            tokio::spawn(async move {
                let stream = tls.accept(stream).await.unwrap();
                let mut connection = h2::server::handshake(stream).await.unwrap();
                let (request, mut respond) = connection.accept().await.unwrap().unwrap();
                let mut body = respond.send_response(Response::new(()), false).unwrap();
                let credentials = request.headers()["authorization"].to_str().unwrap();
                let path = request.uri().path_and_query().unwrap().to_string();
                body.send_data(path.into(), false).unwrap();
                body.send_data(format!(" {credentials}").into(), true).unwrap();
                connection.graceful_shutdown();
                while connection.accept().await.is_some() {}
            });
        }
    }

    /// A server and what a client needs to reach it.
    async fn server(alpn: &[u8]) -> Config {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let mut tls = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        tls.alpn_protocols = vec![alpn.to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(tls))));
        let mut config = Config::new(format!("https://127.0.0.1:{port}").parse().unwrap());
        config.root_cert = Some(vec![made.cert.der().to_vec()]);
        config.auth_info = AuthInfo {
            token: Some("secret".to_owned().into()),
            ..AuthInfo::default()
        };
        config
    }

    #[tokio::test]
    async fn requests_have_path_and_credentials_and_a_connection_that_ended_is_made_again() {
        let client = client(&server(PROTOCOL).await).unwrap();
        for path in ["/apis?watch=true", "/version"] {
            let request = Request::get(path).body(Vec::new()).unwrap();
            let answer = client.request_text(request).await.unwrap();
            assert_eq!(answer, format!("{path} Bearer secret"));
        }
    }

    #[tokio::test]
    async fn a_server_without_it_is_refused() {
        let config = server(b"http/1.1").await;
        let request = Request::get("/version").body(Vec::new()).unwrap();
        client(&config).unwrap().request_text(request).await.unwrap_err();
        let plain = Config::new("http://127.0.0.1:1".parse().unwrap());
        let error = client(&plain).err().unwrap().to_string();
        assert!(error.contains("https://"), "{error}");
    }
}
