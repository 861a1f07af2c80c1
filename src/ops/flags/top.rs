//! The flags of `endpointd top`.

use super::election::LeaseArgs;
use super::{ConnectionArgs, given};
use crate::cluster::scrape::MetricsPage;
use crate::core::golang;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use std::path::PathBuf;
use std::time::Duration;

/// The flags of `endpointd top`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TopArgs {
    /// How to reach the API server.
    #[command(flatten)]
    pub connection: ConnectionArgs,

    /// URL of the controller's metrics; with no path, /metrics is read
    ///
    /// For a controller in a pod, first run: kubectl -n kube-system port-forward POD 10270
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:10270")]
    pub metrics_url: String,

    /// File of the certificates to trust for --metrics-url, instead of the system's
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub metrics_ca_file: Option<PathBuf>,

    /// Accept any certificate of --metrics-url; whoever is in between can then read the token
    #[arg(long)]
    pub metrics_insecure_skip_tls_verify: bool,

    /// File of the token to send to --metrics-url, which must be https://; the credentials for the API server are never
    /// sent there
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub metrics_token_file: Option<PathBuf>,

    /// How often to read the metrics and the Lease, and the time that rates are taken over; at least 500ms
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "2s",
        value_parser = parse_interval,
        allow_hyphen_values = true
    )]
    pub interval: Duration,

    /// Print the view once as text, after one interval, and end
    #[arg(long)]
    pub once: bool,

    /// The Lease of the controller.
    #[command(flatten)]
    pub lease: LeaseArgs,
}

impl TopArgs {
    /// Returns the page to read.
    pub(crate) fn page(&self) -> MetricsPage {
        MetricsPage {
            url: self.metrics_url.clone(),
            ca_file: given(self.metrics_ca_file.as_ref()),
            any_certificate: self.metrics_insecure_skip_tls_verify,
            token_file: given(self.metrics_token_file.as_ref()),
        }
    }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = golang::parse_duration(text).map_err(|error| error.to_string())?;
    let bounds = Duration::from_millis(500)..=Duration::from_secs(3600);
    if bounds.contains(&interval) {
        Ok(interval)
    } else {
        Err("expected 500ms to 1h".to_owned())
    }
}
