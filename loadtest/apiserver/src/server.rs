//! The server on a socket.

use crate::config::Config;
use crate::faults::Caller;
use crate::pass::ApiServer;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub struct Handle {
    addr: SocketAddr,
    server: ApiServer,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

/// Starts a server that speaks HTTP/1.1 on 127.0.0.1.
///
/// # Errors
///
/// When the port cannot be bound.
pub async fn start(config: Config) -> std::io::Result<Handle> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, config.port)).await?;
    let addr = listener.local_addr()?;
    let server = ApiServer::new(config);
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(accept(listener, server.clone(), stopped));
    Ok(Handle {
        addr,
        server,
        stop: Some(stop),
        task,
    })
}

async fn accept(listener: TcpListener, server: ApiServer, mut stopped: oneshot::Receiver<()>) {
    // Connections end with this set.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stopped => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, server.clone()));
                }
                Err(error) => {
                    // Out of descriptors, most likely: others must close first.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, server: ApiServer) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let service = service_fn(move |request| {
        let server = server.clone();
        async move { server.pass(&Caller::Header, None, request).await }
    });
    let mut connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    if let Err(error) = (&mut connection).await {
        tracing::debug!(%error, "a connection ended early");
        // Closed without lingering, so that the client sees a reset and not an end.
        if is_reset(&error)
            && let Err(error) = connection.into_parts().io.inner().set_zero_linger()
        {
            tracing::debug!(%error, "no SO_LINGER");
        }
    }
}

/// Whether a fault plan wants the connection reset, or the client has done so itself.
fn is_reset(error: &hyper::Error) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<io::Error>())
        .is_some_and(|source| source.kind() == io::ErrorKind::ConnectionReset)
}

// === impl Handle ===

impl Handle {
    /// Where the server listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The server behind the socket.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// A kubeconfig for this server, as YAML.
    pub fn kubeconfig(&self) -> String {
        ApiServer::kubeconfig(&self.url())
    }

    /// Stops listening and ends all connections.
    pub async fn shutdown(mut self) {
        if let Some(stop) = self.stop.take() {
            // The task may have ended already.
            let _ = stop.send(());
        }
        // A panic of the accept loop has nothing left to break here.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.task.abort();
    }
}
