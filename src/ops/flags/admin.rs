//! The flags of the admin server, by kube-controller-manager's names where it has them.

use super::given;
use crate::ops::admin::TlsFiles;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// The flags of the admin server.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AdminArgs {
    /// Address that serves /livez, /readyz, /healthz and /metrics [default: 127.0.0.1, or 0.0.0.0 with TLS]
    ///
    /// 0.0.0.0 and :: both stand for all addresses of IPv4 and IPv6.
    #[arg(long, value_name = "IP")]
    pub bind_address: Option<IpAddr>,

    /// Port that serves /livez, /readyz, /healthz and /metrics; 0 turns them off
    #[arg(
        long,
        visible_alias = "secure-port",
        value_name = "PORT",
        default_value_t = 10270
    )]
    pub admin_port: u16,

    /// File of the certificate with which the admin port serves HTTPS; it is reloaded when it changes
    ///
    /// With HTTPS, a client of /metrics must send a token, and the API server decides whether it may read them.
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub tls_cert_file: Option<PathBuf>,

    /// File of the private key of --tls-cert-file
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
        let files = [&self.tls_cert_file, &self.tls_private_key_file];
        match files.map(|file| given(file.as_ref())) {
            [None, None] => Ok(None),
            [Some(certificate), Some(key)] => Ok(Some(TlsFiles { certificate, key })),
            _ => Err("--tls-cert-file and --tls-private-key-file must be given together"),
        }
    }
}
