//! The flags of the admin server, by kube-controller-manager's names where it has them.

use crate::ops::admin::TlsFiles;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Where health and metrics are served.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AdminArgs {
    /// The address on which /livez, /readyz, /healthz and /metrics are served [default: 127.0.0.1; with TLS 0.0.0.0]
    #[arg(long, value_name = "IP")]
    pub bind_address: Option<IpAddr>,

    /// The port on which they are served; 0 serves nothing
    #[arg(
        long,
        visible_alias = "secure-port",
        value_name = "PORT",
        default_value_t = 10270
    )]
    pub admin_port: u16,

    /// Serve them by HTTPS with the certificate in this file, which may be replaced at any time; who asks for
    /// /metrics must then send a token, and the API server is asked whether they may
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub tls_cert_file: Option<PathBuf>,

    /// The file of the certificate's private key
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub tls_private_key_file: Option<PathBuf>,
}

impl AdminArgs {
    /// Returns the address to listen on, if the admin server is enabled.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        let usual = match self.tls_files() {
            Ok(Some(_)) => Ipv4Addr::UNSPECIFIED,
            _ => Ipv4Addr::LOCALHOST,
        };
        let ip = self.bind_address.unwrap_or(IpAddr::V4(usual));
        (self.admin_port != 0).then(|| SocketAddr::new(ip, self.admin_port))
    }

    /// Returns the files of the certificate and its key, if TLS is enabled. An empty value counts as unset.
    ///
    /// # Errors
    ///
    /// When only one of the two files is given.
    pub(crate) fn tls_files(&self) -> Result<Option<TlsFiles>, &'static str> {
        let given = |path: &Option<PathBuf>| path.clone().filter(|path| !path.as_os_str().is_empty());
        match (given(&self.tls_cert_file), given(&self.tls_private_key_file)) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
            _ => Err("--tls-cert-file and --tls-private-key-file go together"),
        }
    }
}
