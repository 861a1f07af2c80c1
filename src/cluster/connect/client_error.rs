//! Errors of the API client, made safe to print. The errors of the libraries below hold secrets: the output of a
//! credential plugin, the lines of a malformed key, the URL of a proxy with its password. So nothing prints them; they
//! are turned into [`ClientError`], which holds our own words, as soon as they arrive.

use super::plugin_errors;
use crate::core::excerpt::Excerpt;
use kube::client::AuthError;
use kube::config::{InClusterError, KubeconfigError, LoadDataError};
use std::error::Error;
use std::io;
use tokio_rustls::rustls;

/// The reason why a client could not be created, or a request had no answer. It holds no contents of a kubeconfig, of a
/// credential, or of a server's answer, so that it may be printed at any level, with `Display` and `Debug` alike.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ClientError(String);

impl From<kube::Error> for ClientError {
    fn from(error: kube::Error) -> Self {
        Self(client(&error))
    }
}

impl From<InClusterError> for ClientError {
    fn from(error: InClusterError) -> Self {
        Self(match error {
            InClusterError::ReadDefaultNamespace(error) => {
                format!("the service account's namespace cannot be read: {}", file(&error))
            }
            // Say only that the variable is not set; the library would also print a value that is not Unicode.
            InClusterError::ReadEnvironmentVariable(std::env::VarError::NotPresent) => {
                "failed to read an incluster environment variable: environment variable not found".to_owned()
            }
            InClusterError::ReadEnvironmentVariable(_) => {
                "KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT is not UTF-8".to_owned()
            }
            InClusterError::ReadCertificateBundle(error) => {
                format!("the service account's ca.crt cannot be read: {}", file(&error))
            }
            InClusterError::ParseClusterPort(error) => format!("KUBERNETES_SERVICE_PORT: {error}"),
            InClusterError::ParseClusterUrl(_) => {
                "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT do not form a URL".to_owned()
            }
            InClusterError::ParseCertificates(_) => "the service account's ca.crt is not PEM".to_owned(),
        })
    }
}

impl ClientError {
    /// Creates an error from a sentence of ours.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Describes an error of kube's client.
fn client(error: &kube::Error) -> String {
    use kube::Error as E;
    match error {
        E::Auth(error) => auth(error),
        E::Service(error) => transport(&**error),
        E::HyperError(error) => transport(error),
        E::HttpError(error) => format!("the request cannot be built: {error}"),
        E::ReadEvents(error) => format!("the answer broke off: {}", file(error)),
        E::RustlsTls(error) => tls(error).to_owned(),
        E::TlsRequired => "TLS is required but not built in".to_owned(),
        E::InferKubeconfig(error) => kubeconfig(error),
        E::ProxyProtocolUnsupported { .. } | E::ProxyProtocolDisabled { .. } => {
            "the proxy, which proxy-url in the kubeconfig or HTTPS_PROXY sets, must be http:// or https://"
                .to_owned()
        }
        E::Api(status) => format!(
            "the server answered {} {}: {}",
            status.code,
            Excerpt::value(&status.reason),
            Excerpt::sentence(&status.message)
        ),
        E::SerdeError(error) => format!(
            "the answer is malformed at line {}, column {}",
            error.line(),
            error.column()
        ),
        E::FromUtf8(_) => "the answer is not UTF-8".to_owned(),
        _ => "the client failed".to_owned(),
    }
}

/// Describes an error from the layers around a connection, and its causes. Those which can hold a secret are described
/// in our own words.
fn transport(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<AuthError>() {
            return auth(error);
        }
        if let Some(error) = error.downcast_ref::<kube::Error>() {
            return client(error);
        }
        if let Some(error) = error.downcast_ref::<ClientError>() {
            return error.to_string();
        }
        if let Some(fault) = handshake(error) {
            return fault.to_owned();
        }
        let said = error.to_string();
        // The layer that adds this says no more than that there is a cause.
        if said.starts_with("client error (") {
            next = error.source();
            continue;
        }
        if !text.contains(&said) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&said);
        }
        next = error.source();
    }
    if text.is_empty() {
        text.push_str("the connection failed");
    }
    // Names in a server's certificate are chosen by the server.
    Excerpt::sentence(&text).to_string()
}

/// Describes an error of TLS that the library prints as the name of a variant. The library does not check every kind of
/// certificate itself; the error of the one that does is in another.
fn handshake(error: &(dyn Error + 'static)) -> Option<&'static str> {
    use rustls::{CertificateError, Error as E, InvalidMessage};
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return handshake(error.get_ref()?);
    }
    match error.downcast_ref::<E>()? {
        E::InvalidMessage(InvalidMessage::InvalidContentType) => Some(
            "the server does not speak TLS: its URL begins with https://, and its answer looks like plain HTTP",
        ),
        E::InvalidCertificate(CertificateError::UnknownIssuer) => Some(
            "the server's certificate is signed by an authority that is not trusted here (UnknownIssuer): \
             certificate-authority in the kubeconfig must hold the certificate of that authority, and not that of the \
             server",
        ),
        E::InvalidCertificate(CertificateError::Other(other)) => {
            // The type is of a crate that rustls does not show.
            match format!("{other:?}") {
                text if text.contains("CaUsedAsEndEntity") => Some(
                    "the server's certificate is that of an authority (CaUsedAsEndEntity), which is not accepted from a \
                     server: give it a certificate that the authority has signed, with CA:FALSE",
                ),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Describes a failure to get credentials. A plugin's arguments and output are credentials themselves.
pub(super) fn auth(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecStart(error) => {
            format!("{} cannot be run: {}", plugin_errors::subject(), file(error))
        }
        AuthError::AuthExecRun { out, .. } => plugin_errors::failed(out),
        AuthError::AuthExecParse(_) => {
            format!(
                "the output of {} is not an ExecCredential",
                plugin_errors::subject()
            )
        }
        AuthError::ParseTokenKey(_) => "the output of the credential plugin is not JSON".to_owned(),
        AuthError::ExecPluginFailed => {
            format!("the ExecCredential of {} has no status", plugin_errors::subject())
        }
        AuthError::MalformedTokenExpirationDate(_) => {
            "the expiry time of the credential is malformed".to_owned()
        }
        AuthError::MissingCommand => "the credential plugin has no command".to_owned(),
        AuthError::UnrefreshableTokenResponse => format!(
            "{} returned something other than a token when it was called again",
            plugin_errors::subject()
        ),
        AuthError::ReadTokenFile(error, _) => format!("the token file cannot be read: {}", file(error)),
        AuthError::InvalidBearerToken(_) => {
            "the token holds a character that cannot be sent, such as the end of a line".to_owned()
        }
        AuthError::InvalidBasicAuth(_) => {
            "the user name or the password holds a character that cannot be sent".to_owned()
        }
        _ => "the credentials cannot be loaded".to_owned(),
    }
}

/// Describes a kubeconfig that was parsed and cannot be used.
pub(super) fn kubeconfig(error: &KubeconfigError) -> String {
    use KubeconfigError as E;
    match error {
        E::CurrentContextNotSet => "current-context is not set".to_owned(),
        E::KindMismatch => "its documents, or the files that belong together, differ in kind".to_owned(),
        E::ApiVersionMismatch => {
            "its documents, or the files that belong together, differ in apiVersion".to_owned()
        }
        E::LoadContext(_) => "there is no context of that name".to_owned(),
        E::LoadClusterOfContext(_) => "there is no cluster of that name".to_owned(),
        E::FindPath => "there is no home directory in which to look for .kube/config".to_owned(),
        E::ReadConfig(error, _) => format!("cannot be read: {}", file(error)),
        E::MissingClusterUrl => "the cluster has no server".to_owned(),
        E::ParseClusterUrl(_) => "the cluster's server is not a URL".to_owned(),
        E::ParseProxyUrl(_) => "the proxy's URL, proxy-url or HTTPS_PROXY, is not a URL".to_owned(),
        E::ParseNoProxy(_) => {
            "NO_PROXY has an entry that is empty, or no host, address or range of addresses".to_owned()
        }
        E::LoadCertificateAuthority(error) => data("certificate-authority", error),
        E::LoadClientCertificate(error) => data("client-certificate", error),
        E::LoadClientKey(error) => data("client-key", error),
        E::ParseCertificates(_) => "the certificate-authority is not PEM".to_owned(),
        E::Parse(_) => "is not a kubeconfig".to_owned(),
    }
}

fn data(field: &str, error: &LoadDataError) -> String {
    match error {
        LoadDataError::DecodeBase64(_) => format!("{field}-data is not base64"),
        LoadDataError::ReadFile(error, _) => {
            format!("the file that {field} names cannot be read: {}", file(error))
        }
        LoadDataError::NoBase64DataOrFile => {
            format!("{field} is missing: client-certificate and client-key must be given together")
        }
    }
}

fn tls(error: &kube::client::RustlsTlsError) -> &'static str {
    use kube::client::RustlsTlsError as E;
    match error {
        E::InvalidIdentityPem(_) => "the client's certificate or key is not PEM",
        E::MissingPrivateKey => "client-key holds no private key; PKCS#8, PKCS#1 and SEC1 are supported",
        E::MissingCertificate => "client-certificate holds no certificate",
        E::InvalidPrivateKey(_) => "the client's key cannot be used, or does not belong to its certificate",
        E::UnknownPrivateKeyFormat => "the client's certificate or key file holds something else",
        E::AddRootCertificate(_) => "a certificate of the certificate-authority cannot be used",
        E::NoValidNativeRootCA(_) => "this system has no usable root certificates",
        E::InvalidServerName(_) => "tls-server-name is not a valid server name",
    }
}

/// Describes an error of the system about a file or a program. Other I/O errors may quote content.
pub(crate) fn file(error: &io::Error) -> String {
    if error.raw_os_error().is_some() {
        return error.to_string();
    }
    error.kind().to_string()
}
