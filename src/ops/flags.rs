//! The command line.

use crate::actors::writer::Pacing;
use crate::cluster::connect::Target;
use crate::core::namespace::Settings;
use crate::core::outputs::Outputs;
use crate::ops::run::Options;
use clap::{Parser, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Keeps the `EndpointSlices` of a Kubernetes cluster right, at the cost of what changed.
#[derive(Debug, Parser)]
#[command(name = "endpointd", version, about, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the controller until SIGTERM.
    Run(RunArgs),
}

/// The flags of `endpointd run`. Where kube-controller-manager has a flag of the same meaning, it has the same
/// name here.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    /// How to reach the API server.
    #[command(flatten)]
    pub connection: ConnectionArgs,

    /// Endpoints that a slice holds at most
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub max_endpoints_per_slice: u16,

    /// Requests to the API server a second; 0 or less for no limit
    ///
    /// Upstream's 20 make a cold start on 10,000 slices last over 8 minutes. API servers protect themselves by
    /// priority and fairness, so this limit only has to keep a start from taking all of it: 500 a second write
    /// 10,000 slices in 20 seconds, and a cluster in its daily life never comes near.
    #[arg(
        long,
        value_name = "QPS",
        default_value_t = 500.0,
        value_parser = parse_qps,
        allow_negative_numbers = true
    )]
    pub kube_api_qps: f64,

    /// Requests that may go at once after a pause
    ///
    /// The loss of a zone of a large cluster touches about a thousand slices; they should not wait.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub kube_api_burst: u32,

    /// Requests in flight at most, each on a connection of its own
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub max_requests_in_flight: u16,

    /// Serve metrics in Prometheus' format at /metrics of this address; not served if not given
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics_address: Option<SocketAddr>,

    /// How logs are written
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// What is logged: a level (error, warn, info, debug, trace), or a filter such as
    /// `info,endpointd::cluster=debug`
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = parse_log_level)]
    pub log_level: String,
}

/// How to reach the API server. With neither flag, as the pod that this runs in is told.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ConnectionArgs {
    /// A kubeconfig file; its current context is used
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// The API server's URL, without credentials: for tests and proxies on loopback
    #[arg(long, value_name = "URL", conflicts_with = "kubeconfig")]
    pub server: Option<String>,
}

impl ConnectionArgs {
    /// What the flags say.
    pub fn target(&self) -> Target {
        match (&self.kubeconfig, &self.server) {
            (Some(path), _) => Target::Kubeconfig(path.clone()),
            (None, Some(url)) => Target::Server(url.clone()),
            (None, None) => Target::InCluster,
        }
    }
}

/// How logs are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines: one JSON object a line.
    Json,
}

fn parse_qps(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(qps) if qps.is_finite() => Ok(qps),
        _ => Err("not a finite number".to_owned()),
    }
}

fn parse_log_level(text: &str) -> Result<String, String> {
    match text.parse::<tracing_subscriber::filter::EnvFilter>() {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

impl RunArgs {
    /// The controller's options. `seed` is where everything random comes from.
    pub fn options(&self, seed: u64) -> Options {
        Options {
            settings: Settings {
                max_endpoints: usize::from(self.max_endpoints_per_slice),
                outputs: Outputs::ALL,
                legacy_tolerate_unready: false,
                seed,
            },
            pacing: Pacing {
                qps: self.kube_api_qps,
                burst: self.kube_api_burst,
                in_flight: usize::from(self.max_requests_in_flight),
                slice_batch: Duration::ZERO,
                endpoints_batch: Duration::ZERO,
            },
            deadline: Duration::from_secs(30),
            drain: Duration::from_secs(10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<RunArgs, String> {
        let args = ["endpointd", "run"].iter().chain(args);
        match Cli::try_parse_from(args) {
            Ok(Cli {
                command: Command::Run(args),
            }) => Ok(args),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn limits_are_checked() {
        assert_eq!(parse(&[]).unwrap().max_endpoints_per_slice, 100);
        assert_eq!(
            parse(&["--max-endpoints-per-slice=1000"])
                .unwrap()
                .max_endpoints_per_slice,
            1000
        );
        for bad in [
            "--max-endpoints-per-slice=0",
            "--max-endpoints-per-slice=1001",
            "--kube-api-burst=0",
            "--kube-api-qps=nan",
            "--kube-api-qps=inf",
            "--nonsense",
        ] {
            parse(&[bad]).unwrap_err();
        }
        assert!(parse(&["--kube-api-qps=-1"]).unwrap().kube_api_qps < 0.0);
        parse(&["--kube-api-qps", "-1"]).unwrap();
        parse(&["--log-level=no=such=thing"]).unwrap_err();
        parse(&["--server=http://a", "--kubeconfig=b"]).unwrap_err();
    }

    #[test]
    fn the_target_is_what_the_flags_say() {
        assert_eq!(parse(&[]).unwrap().connection.target(), Target::InCluster);
        let target = parse(&["--server=http://127.0.0.1:1"])
            .unwrap()
            .connection
            .target();
        assert_eq!(target, Target::Server("http://127.0.0.1:1".into()));
    }
}
