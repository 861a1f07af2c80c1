//! The flags of `loadtest run`.

use super::budget::Budget;
use super::phase::Tuning;
use super::plan::Source;
use super::sizes::SizeFlags;
use crate::oracle::Outputs;
use crate::parse::duration;
use crate::watchers;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Flags of `loadtest run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Load profile (steady, rolling-update, restart, demo, sandbox or zone-loss), or a YAML file of phases
    #[arg(value_name = "PROFILE", value_parser = Source::parse)]
    pub(super) source: Source,
    #[command(flatten)]
    pub(super) sizes: SizeFlags,
    #[command(flatten)]
    pub(super) tuning: Tuning,
    /// Seed of the cluster and of every choice; random by default
    #[arg(long)]
    pub(super) seed: Option<u64>,
    #[command(flatten)]
    pub(super) target: TargetFlags,
    #[command(flatten)]
    pub(super) controller: ControllerFlags,
    #[command(flatten)]
    pub(super) watchers: watchers::Flags,
    /// Directory to write the report to
    #[arg(long, value_name = "DIR")]
    pub(super) report: Option<PathBuf>,
    /// Limit of a figure, such as p99=100ms; above it, the exit code is 3. Figures: p50, p90, p99, p99.9, max (of slices
    /// and of Endpoints, or as slices.p99 of one), cpu for each change, memory at its peak, writes for each change,
    /// throttled as in 5%, of --watchers the latencies, as in watchers.p99, and watchers.ended, and of sandbox ready.p99 and gone.p99
    #[arg(long, value_name = "FIGURE=LIMIT", value_delimiter = ',')]
    pub(super) budget: Vec<Budget>,
    /// Number of rounds; the report has the median and the range of each figure, and with 5 or more, comparisons are sharp
    #[arg(long, value_name = "ROUNDS", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(super) repeat: u8,
    /// Title of this run in the report; by default the profile and the size
    #[arg(long)]
    pub(super) title: Option<String>,
    /// How long the controller may take to be in sync, at its start and after the last change; 60s, and at
    /// its start 40ms for each Service if that is longer
    #[arg(long, value_parser = duration)]
    pub(super) time_limit: Option<Duration>,
}

/// The cluster.
#[derive(Debug, clap::Args)]
pub(super) struct TargetFlags {
    /// Kubeconfig file, whose current context selects the cluster; by default an in-memory API server
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Name of this run in the labels and names of its objects; random by default
    #[arg(long, value_name = "RUN", value_parser = run_name)]
    pub(super) run: Option<String>,
    /// Do not ask before writing to a server that is not on loopback
    #[arg(long)]
    pub(super) yes: bool,
}

/// The controller that runs on the cluster.
#[derive(Debug, clap::Args)]
pub(super) struct ControllerFlags {
    /// Start endpointd; on the in-memory API server it is always started, since there is no other controller
    #[arg(long, conflicts_with = "pid")]
    pub(super) spawn: bool,
    /// Measure the CPU time and the memory of this process; may be given more than once
    #[arg(long, value_name = "PID", requires = "kubeconfig", value_parser = clap::value_parser!(i32).range(1..))]
    pub(super) pid: Vec<i32>,
    /// URL of the controller's metrics, http://HOST:PORT/metrics; a controller that is started serves them there, or by
    /// default on a free port of loopback
    #[arg(long, value_name = "URL", value_parser = metrics_url)]
    pub(super) metrics_url: Option<http::Uri>,
    /// Kinds of objects that the controller publishes, and that are measured and verified
    #[arg(long, value_enum, default_value_t = OutputsFlag::All)]
    pub(super) outputs: OutputsFlag,
    /// Maximum number of endpoints in a slice, for a controller that is started and for the verification
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(super) max_endpoints_per_slice: u16,
    /// More flags for `endpointd run`
    #[arg(last = true, value_name = "CONTROLLER FLAGS")]
    pub(super) flags: Vec<OsString>,
}

/// The kinds of objects that a controller publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum OutputsFlag {
    /// `EndpointSlices` and Endpoints.
    All,
    /// `EndpointSlices` alone.
    Slices,
    /// Endpoints alone.
    Endpoints,
}

// === impl ControllerFlags ===

impl ControllerFlags {
    /// The flags that a controller is started with, which serves its metrics at this URL.
    pub(super) fn of_controller(&self, metrics: Option<&http::Uri>) -> Vec<OsString> {
        let mut flags: Vec<OsString> = Vec::new();
        if let Some(authority) = metrics.and_then(http::Uri::authority) {
            let host = authority.host().trim_matches(['[', ']']);
            flags.push(format!("--bind-address={host}").into());
            flags.push(format!("--admin-port={}", authority.port_u16().unwrap_or(80)).into());
        }
        flags.extend(self.chosen());
        flags
    }

    /// Returns the flags among these that the user chose.
    pub(super) fn chosen(&self) -> Vec<OsString> {
        let outputs = self.outputs.controllers().map(OsString::from);
        outputs.into_iter().chain(self.flags.iter().cloned()).collect()
    }
}

// === impl OutputsFlag ===

impl OutputsFlag {
    pub(super) fn outputs(self) -> Outputs {
        match self {
            Self::All => Outputs::ALL,
            Self::Slices => Outputs::SLICES,
            Self::Endpoints => Outputs::ENDPOINTS,
        }
    }

    /// The flag that makes endpointd publish just that.
    pub(super) fn controllers(self) -> Option<&'static str> {
        match self {
            Self::All => None,
            Self::Slices => Some("--controllers=endpointslice-controller"),
            Self::Endpoints => Some("--controllers=endpoints-controller"),
        }
    }
}

/// A name that can stand in labels and in the names of namespaces and nodes.
fn run_name(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    if bytes.len() <= 20 && bytes.iter().all(|byte| plain(*byte)) && edge(bytes.first()) && edge(bytes.last())
    {
        Ok(text.to_owned())
    } else {
        Err(
            "expected up to 20 lower-case letters, digits and hyphens, with no hyphen at either end"
                .to_owned(),
        )
    }
}

fn metrics_url(text: &str) -> Result<http::Uri, String> {
    let wrong = || "expected a URL such as http://127.0.0.1:10250/metrics".to_owned();
    let url: http::Uri = text.parse().map_err(|_| wrong())?;
    if url.scheme_str() == Some("http") && url.authority().is_some() {
        Ok(url)
    } else {
        Err(wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_a_name_that_fits_in_other_names() {
        for name in ["a", "nightly-7", "0"] {
            assert_eq!(run_name(name), Ok(name.to_owned()));
        }
        for name in ["", "-a", "a-", "A", "a.b", "a_b", "abcdefghijklmnopqrstu"] {
            assert!(run_name(name).is_err(), "{name}");
        }
    }
}
