//! The server's certificate, reloaded from files that are renewed by others.

use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// The shortest interval at which the files are read again, which happens when a client connects.
const LOOK: Duration = Duration::from_secs(1);

/// The files of the certificate and its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    /// The certificate chain, with this server's certificate first.
    pub certificate: PathBuf,
    /// The private key of that certificate.
    pub key: PathBuf,
}

/// The reason why TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{path}: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file is not valid PEM. The library's own error is not used, because it quotes lines of the file.
    #[error("{path}, line {line}: {fault}")]
    Pem {
        /// The file.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
        /// The fault in that line.
        fault: &'static str,
    },
    /// There is no private key in the file.
    #[error("{0}: no private key")]
    NoKey(PathBuf),
    /// There is no certificate in the file.
    #[error("{0}: no certificate")]
    Empty(PathBuf),
    /// The certificate and the key do not match, or cannot be used.
    #[error("{path}: {error}")]
    Config {
        /// The certificate's file.
        path: PathBuf,
        /// The library's error.
        error: rustls::Error,
    },
}

/// TLS with the certificate that the files currently hold.
pub struct Tls {
    files: TlsFiles,
    state: Mutex<State>,
}

struct State {
    looked: Instant,
    loaded: Loaded,
    /// The error of the last reload, so that it is logged only once.
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
    /// Loads the certificate and the key.
    ///
    /// # Errors
    ///
    /// When the files cannot be read or used.
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

    /// Returns the acceptor for the next connection. Files that cannot be used may be half written, so the last
    /// certificate stays in use.
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
                    tracing::info!(certificate = %self.files.certificate.display(), "the certificate has been reloaded");
                    (state.loaded, state.complaint) = (loaded, None);
                }
                Ok(Err(error)) => {
                    let error = error.to_string();
                    if state.complaint.as_ref() != Some(&error) {
                        tracing::warn!(
                            error,
                            "the certificate could not be reloaded; the previous one is used"
                        );
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
    /// Reads the files. Returns `None` if their contents have not changed.
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
        let wrong = |path: &Path, text: &[u8]| {
            let (path, (line, fault)) = (path.to_owned(), pem_fault(text));
            move |_| TlsError::Pem { path, line, fault }
        };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&texts[0])
            .collect::<Result<_, _>>()
            .map_err(wrong(&files.certificate, &texts[0]))?;
        if chain.is_empty() {
            return Err(TlsError::Empty(files.certificate.clone()));
        }
        let key = PrivateKeyDer::from_pem_slice(&texts[1]).map_err(|error| match error {
            pem::Error::NoItemsFound => TlsError::NoKey(files.key.clone()),
            error => wrong(&files.key, &texts[1])(error),
        })?;
        let wrong = |error| TlsError::Config {
            path: files.certificate.clone(),
            error,
        };
        let provider = Arc::new(aws_lc_rs::default_provider());
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

/// Finds the line, counted from 1, at which a rejected text stops being PEM, and the reason.
fn pem_fault(text: &[u8]) -> (usize, &'static str) {
    let mut section: Option<(usize, &[u8])> = None;
    for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let (number, line) = (number + 1, line.trim_ascii());
        if let Some(label) = line.strip_prefix(b"-----BEGIN ") {
            match (section, label.strip_suffix(b"-----")) {
                (Some((begin, _)), _) => return (begin, "this section has no end"),
                (None, None) => return (number, "this line does not end as one that begins a section"),
                (None, Some(label)) => section = Some((number, label)),
            }
        } else if let (Some(label), Some((_, open))) = (line.strip_prefix(b"-----END "), section) {
            if label.strip_suffix(b"-----") != Some(open) {
                return (number, "this line does not end the section that it is in");
            }
            section = None;
        } else if section.is_some() {
            let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/= \t".contains(byte);
            if !line.iter().all(is_base64) {
                return (number, "this line is not base64");
            }
        }
    }
    match section {
        Some((begin, _)) => (begin, "this section has no end"),
        None => (
            1,
            "what is between the lines that begin and end a section is not base64",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_in_a_pem_is_found_by_its_line() {
        for (text, line) in [
            ("\n-----BEGIN CERTIFICATE\n", 2),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n", 1),
            (
                "-----BEGIN CERTIFICATE-----\nAAAA\nA!AA\n-----END CERTIFICATE-----\n",
                3,
            ),
            (
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END PRIVATE KEY-----\n",
                3,
            ),
            (
                "-----BEGIN A-----\nAAAA\n-----END A-----\n-----BEGIN B-----\n-----BEGIN C-----\n",
                4,
            ),
            ("-----BEGIN CERTIFICATE-----\nAAA\n-----END CERTIFICATE-----\n", 1),
        ] {
            let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
            let key = PrivateKeyDer::from_pem_slice(text.as_bytes());
            assert!(parsed.is_err() || key.is_err(), "{text}");
            assert_eq!(pem_fault(text.as_bytes()).0, line, "{text}");
        }
    }
}
