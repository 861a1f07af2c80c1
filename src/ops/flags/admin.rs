//! The flags of the admin server, by kube-controller-manager's names where it has them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Where health and metrics are served.
#[derive(Clone, Debug, clap::Args)]
pub struct AdminArgs {
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
}

impl AdminArgs {
    /// The address to listen on, if there is to be one.
    pub fn address(&self) -> Option<SocketAddr> {
        let ip = self.bind_address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        (self.admin_port != 0).then(|| SocketAddr::new(ip, self.admin_port))
    }
}
