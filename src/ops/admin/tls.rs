//! The server's certificate, from files that somebody else renews.

use parking_lot::Mutex;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// How often the files are looked at, at most: when somebody connects.
const LOOK: Duration = Duration::from_secs(1);

/// Where the certificate is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    /// Certificates, this server's first.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{path}: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: io::Error,
    },
    /// A file holds no such thing.
    #[error("{path}: {error}")]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: pem::Error,
    },
    /// There is no certificate in the file.
    #[error("{0}: no certificate")]
    Empty(PathBuf),
    /// Certificate and key do not go together, or cannot be used.
    #[error("{path}: {error}")]
    Config {
        /// The certificate's file.
        path: PathBuf,
        /// What is wrong.
        error: rustls::Error,
    },
}

/// TLS with the certificate that is in the files at the moment.
pub struct Tls {
    files: TlsFiles,
    state: Mutex<State>,
}

struct State {
    looked: Instant,
    loaded: Loaded,
    /// What was wrong with the files when they were last looked at, so that it is said once.
    complaint: Option<String>,
}

struct Loaded {
    texts: [Vec<u8>; 2],
    config: Arc<ServerConfig>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// When they cannot be used.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let loaded = Loaded::read(&files, None)?.expect("without earlier texts there is something new");
        Ok(Self {
            files,
            state: Mutex::new(State {
                looked: Instant::now(),
                loaded,
                complaint: None,
            }),
        })
    }

    /// For the next connection. Files that cannot be used leave the certificate as it was: they may be half written.
    pub(super) async fn acceptor(&self) -> TlsAcceptor {
        let now = Instant::now();
        let known = {
            let mut state = self.state.lock();
            let due = now.saturating_duration_since(state.looked) >= LOOK;
            if due {
                state.looked = now;
            }
            due.then(|| state.loaded.texts.clone())
        };
        if let Some(known) = known {
            let files = self.files.clone();
            let read = spawn_blocking(move || Loaded::read(&files, Some(&known))).await;
            let mut state = self.state.lock();
            match read {
                Ok(Ok(Some(loaded))) => {
                    tracing::info!(certificate = %self.files.certificate.display(), "the certificate is another one");
                    (state.loaded, state.complaint) = (loaded, None);
                }
                Ok(Err(error)) => {
                    let error = error.to_string();
                    if state.complaint.as_ref() != Some(&error) {
                        tracing::warn!(error, "the certificate cannot be renewed; the last one is used");
                        state.complaint = Some(error);
                    }
                }
                Ok(Ok(None)) | Err(_) => {}
            }
        }
        TlsAcceptor::from(self.state.lock().loaded.config.clone())
    }
}

impl Loaded {
    /// Reads the files; nothing if they hold what is known.
    fn read(files: &TlsFiles, known: Option<&[Vec<u8>; 2]>) -> Result<Option<Self>, TlsError> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|error| TlsError::Read {
                path: path.to_owned(),
                error,
            })
        };
        let texts = [read(&files.certificate)?, read(&files.key)?];
        if known == Some(&texts) {
            return Ok(None);
        }
        let wrong = |path: &Path| {
            let path = path.to_owned();
            |error| TlsError::Pem { path, error }
        };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&texts[0])
            .collect::<Result<_, _>>()
            .map_err(wrong(&files.certificate))?;
        if chain.is_empty() {
            return Err(TlsError::Empty(files.certificate.clone()));
        }
        let key = PrivateKeyDer::from_pem_slice(&texts[1]).map_err(wrong(&files.key))?;
        let wrong = |error| TlsError::Config {
            path: files.certificate.clone(),
            error,
        };
        let provider = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(wrong)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(wrong)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Some(Self {
            texts,
            config: Arc::new(config),
        }))
    }
}
