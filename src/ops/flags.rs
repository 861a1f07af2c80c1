//! The command line.

mod admin;
mod controllers;
mod dry_run;
mod election;
mod foreign;
mod inspect;
mod publishing;

use crate::actors::writer::Pacing;
use crate::cluster::connect::Target;
use crate::cluster::kubeconfig::ConfigFile;
use crate::core::golang;
use crate::core::outputs::Outputs;
use crate::ops::run::Options;
pub(crate) use admin::AdminArgs;
use clap::builder::TypedValueParser as _;
use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand, ValueEnum};
pub(crate) use controllers::Controllers;
pub(crate) use dry_run::DryRunArgs;
pub(crate) use election::ElectionArgs;
pub(crate) use inspect::{AuditArgs, Colour, ExplainArgs};
pub(crate) use publishing::PublishingArgs;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Keeps the `EndpointSlices` of a Kubernetes cluster right, at the cost of what changed.
#[derive(Debug, Parser)]
// Of a flag that is given twice, the last counts, as upstream has it.
#[command(
    name = "endpointd",
    version,
    about,
    disable_help_subcommand = true,
    args_override_self = true
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the controller until SIGTERM.
    Run(Box<RunArgs>),
    /// Compare all that should be published with what is, and say which Services are out of sync and why
    ///
    /// Only reads. Exits with 0 if all are in sync, 1 if not, 2 if that could not be found out.
    Audit(AuditArgs),
    /// Tell of one Service which pods are published, where, and why the others are not
    ///
    /// Only reads. Exits with 0, or with 2 if it could not be found out.
    Explain(ExplainArgs),
}

/// A command line, read.
#[derive(Debug)]
pub(crate) struct Invocation {
    /// What to do.
    pub cli: Cli,
    /// Flags of kube-controller-manager that were given and mean nothing here.
    pub ignored: Vec<String>,
}

/// Parses a command line, with the program's name first.
///
/// # Errors
///
/// When the command line is invalid, and when help or the version is asked for.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation, clap::Error> {
    let mut command = Cli::command();
    let mut args: Vec<OsString> = args.into_iter().collect();
    let mut ignored = Vec::new();
    if args.get(1).is_some_and(|arg| arg == RUN) {
        let flags = args.split_off(2);
        let run = command
            .find_subcommand(RUN)
            .expect("the subcommand is named after its variant");
        let split = foreign::split(flags, |name| takes_argument(run, name))
            .map_err(|error| command.error(ErrorKind::ValueValidation, error))?;
        args.extend(split.own);
        ignored = split.ignored;
    }
    let cli = Cli::try_parse_from(args)?;
    let outputs = match &cli.command {
        Command::Run(run) => run.publishing.outputs(),
        Command::Audit(audit) => audit.publishing.outputs(),
        Command::Explain(_) => Outputs::ALL,
    };
    if outputs.is_none() {
        return Err(command.error(
            ErrorKind::ValueValidation,
            "--controllers leaves neither endpoints-controller nor endpointslice-controller on",
        ));
    }
    if let Command::Run(run) = &cli.command
        && let Err(error) = run.election.timing()
    {
        let flags = "--leader-elect-lease-duration, -renew-deadline, -retry-period";
        return Err(command.error(ErrorKind::ValueValidation, format!("{flags}: {error}")));
    }
    if let Command::Run(run) = &cli.command
        && let Err(error) = run.admin.tls_files()
    {
        return Err(command.error(ErrorKind::ValueValidation, error));
    }
    Ok(Invocation { cli, ignored })
}

/// The name of [`Command::Run`].
const RUN: &str = "run";

/// Returns whether a long flag takes the next argument if it is given without `=`.
fn takes_argument(command: &clap::Command, name: &str) -> bool {
    let mut flags = command.get_arguments();
    flags
        .find(|flag| {
            flag.get_long() == Some(name) || flag.get_all_aliases().is_some_and(|all| all.contains(&name))
        })
        .is_some_and(|flag| flag.get_action().takes_values() && !flag.is_require_equals_set())
}

/// The flags of `endpointd run`. Where kube-controller-manager has a flag of the same meaning, it has the same
/// name here.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// How to reach the API server.
    #[command(flatten)]
    pub connection: ConnectionArgs,

    /// How processes agree which of them writes.
    #[command(flatten)]
    pub election: ElectionArgs,

    /// Whether to write at all.
    #[command(flatten)]
    pub dry_run: DryRunArgs,

    /// Where health and metrics are served.
    #[command(flatten)]
    pub admin: AdminArgs,

    /// How objects should be.
    #[command(flatten)]
    pub publishing: PublishingArgs,

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

    /// Threads that do the work
    ///
    /// One carries thousands of changes of pods a second. More are quicker only where changes come in floods, and
    /// at all other times wake each other, which costs more than what they share.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub worker_threads: u16,

    /// For how long changes of pods are gathered before the Endpoints of their Services are looked at
    #[arg(
        long = "endpoint-updates-batch-period",
        value_name = "DURATION",
        default_value = "0s",
        value_parser = golang::parse_duration,
        allow_hyphen_values = true
    )]
    pub endpoint_batch: Duration,

    /// For how long changes of pods are gathered before the `EndpointSlices` of their Services are looked at
    #[arg(
        long = "endpointslice-updates-batch-period",
        value_name = "DURATION",
        default_value = "0s",
        value_parser = golang::parse_duration,
        allow_hyphen_values = true
    )]
    pub slice_batch: Duration,

    /// How logs are written
    #[arg(long, alias = "logging-format", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// What is logged: a level (error, warn, info, debug, trace), or a filter such as
    /// `info,endpointd::cluster=debug`
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = parse_log_level)]
    pub log_level: String,
}

/// How to reach the API server. With neither flag, as the pod that this runs in is told. An empty value is none.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ConnectionArgs {
    /// A kubeconfig file
    #[arg(long, value_name = "FILE", value_parser = clap::builder::OsStringValueParser::new().map(PathBuf::from))]
    pub kubeconfig: Option<PathBuf>,

    /// The API server's URL, in place of the one that the kubeconfig has; without a kubeconfig no credentials
    /// are sent, as for tests and proxies on loopback
    #[arg(long, visible_alias = "master", value_name = "URL")]
    pub server: Option<String>,

    /// The context of the kubeconfig that is used, in place of its current one
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

impl ConnectionArgs {
    /// Returns the API server that the flags select.
    pub(crate) fn target(&self) -> Target {
        let path = self
            .kubeconfig
            .clone()
            .filter(|path| !path.as_os_str().is_empty());
        let context = self.context.clone().filter(|name| !name.is_empty());
        // A context implies a kubeconfig, which is kubectl's default one if no file is given.
        let kubeconfig = (path.is_some() || context.is_some()).then_some(ConfigFile { path, context });
        let server = self.server.clone().filter(|url| !url.is_empty());
        match (kubeconfig, server) {
            (Some(file), Some(url)) => Target::KubeconfigAt(file, url),
            (Some(file), None) => Target::Kubeconfig(file),
            (None, Some(url)) => Target::Server(url),
            (None, None) => Target::InCluster,
        }
    }
}

/// How logs are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum LogFormat {
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

fn parse_bool(text: &str) -> Result<bool, &'static str> {
    golang::parse_bool(text).ok_or("true or false is expected")
}

fn parse_log_level(text: &str) -> Result<String, String> {
    match text.parse::<tracing_subscriber::filter::EnvFilter>() {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

impl RunArgs {
    /// Returns the controller's options. All randomness derives from `seed`.
    pub(crate) fn options(&self, seed: u64) -> Options {
        Options {
            settings: self.publishing.settings(seed),
            pacing: Pacing {
                qps: self.kube_api_qps,
                burst: self.kube_api_burst,
                in_flight: usize::from(self.max_requests_in_flight),
                slice_batch: self.slice_batch,
                endpoints_batch: self.endpoint_batch,
            },
            deadline: Duration::from_secs(30),
            drain: Duration::from_secs(10),
        }
    }
}

#[cfg(test)]
mod tests;
