//! Serves HTTPS in front of the server, which speaks HTTP.

use anyhow::Context;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};

const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Listens for HTTPS, and hands what it decrypts to a server.
pub(super) struct Front {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

// === impl Front ===

impl Front {
    /// Listens on this port of loopback, with a certificate chain and a key in PEM.
    pub(super) async fn listen(port: u16, certificate: &Path, key: &Path) -> anyhow::Result<Self> {
        let reading = |path: &Path| format!("reading {}", path.display());
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .with_context(|| reading(certificate))?;
        let private = PrivateKeyDer::from_pem_file(key).with_context(|| reading(key))?;
        let provider = Arc::new(crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .with_context(|| format!("using {} with {}", certificate.display(), key.display()))?;
        let listener = TcpListener::bind(("127.0.0.1", port)).await;
        Ok(Self {
            listener: listener.with_context(|| format!("listening on 127.0.0.1:{port}"))?,
            acceptor: TlsAcceptor::from(Arc::new(config)),
        })
    }

    pub(super) fn url(&self) -> anyhow::Result<String> {
        Ok(format!("https://{}", self.listener.local_addr()?))
    }

    /// Serves for as long as it is polled.
    pub(super) async fn serve(self, server: SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((client, _)) => {
                    let acceptor = self.acceptor.clone();
                    tokio::spawn(async move {
                        if let Err(error) = pass(client, &acceptor, server).await {
                            tracing::debug!(%error, "a connection ended early");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(RETRY_PAUSE).await;
                }
            }
        }
    }
}

async fn pass(client: TcpStream, acceptor: &TlsAcceptor, server: SocketAddr) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    let mut client = acceptor.accept(client).await?;
    let mut server = TcpStream::connect(server).await?;
    server.set_nodelay(true)?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
