//! The command line.

mod admin;
mod controllers;
mod dry_run;
mod election;
mod inspect;
mod publishing;
mod top;
mod watching;

use crate::cluster::connect::kubeconfig::ConfigFile;
use crate::cluster::connect::{Target, plugin_errors};
use crate::core::golang;
pub(crate) use admin::AdminArgs;
use clap::builder::TypedValueParser as _;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
pub(crate) use controllers::Controllers;
pub(crate) use dry_run::DryRunArgs;
pub(crate) use election::ElectionArgs;
pub(crate) use inspect::{AuditArgs, Colour, ExplainArgs, LabelSelector, LeftOver, ToolArgs};
pub(crate) use publishing::PublishingArgs;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
pub(crate) use top::TopArgs;
pub(crate) use watching::WatchingArgs;

/// The exit code for a command line or a kubeconfig that cannot be used.
pub(crate) const USAGE: u8 = 2;
/// The version of this program, with the commit that it was built from.
pub(crate) const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("ENDPOINTD_COMMIT"),
    ")"
);

/// The name of the program as a plugin of kubectl, which finds it by its file's name.
const PLUGIN: &str = "kubectl-endpoints";

/// The command line of endpointd. Its help begins with the package's description.
#[derive(Debug, Parser)]
// If a flag is given twice, the last one counts, as in kube-controller-manager.
#[command(
    name = "endpointd",
    version = VERSION,
    about,
    args_override_self = true
)]
pub(crate) struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the controller until SIGTERM
    Run(Box<RunArgs>),
    /// List the Services whose slices or Endpoints are out of sync, with the reasons
    ///
    /// Compares what is published with what should be. The command only reads. The exit code is 0 if all Services are
    /// in sync, 1 if some are not, and 2 if that could not be found out.
    Audit(AuditArgs),
    /// Show which pods of a Service are published, where, and why the others are not
    ///
    /// This command only reads. The exit code is 0 if what is published is what should be, 1 if it is not, and 2 if that could
    /// not be found out. Unless --controllers is given, a Service with the annotation endpointd.io/selector is
    /// explained as custom-selector-controller publishes it, whether that runs or not.
    Explain(ExplainArgs),
    /// Print the version, with the commit that it was built from
    Version,
    /// Print the completions for a shell
    ///
    /// For bash: `source <(endpointd completion bash)`; for zsh: `endpointd completion zsh > "${fpath[1]}/_endpointd"`; for
    /// fish: `endpointd completion fish | source`.
    #[command(alias = "completions")]
    Completion {
        /// The shell
        shell: Shell,
    },
    /// Write man pages into a directory
    #[command(hide = true)]
    Man {
        /// The directory
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Watch a running controller: writes, queue, latency, the leader, and the Services that change most
    ///
    /// Reads the controller's metrics, its Lease, and the metadata of `EndpointSlices` as they change. What cannot be
    /// read is shown as such. With --once, the exit code is 0, or 2 if the metrics could not be read.
    Top(TopArgs),
}

/// A parsed command line.
#[derive(Debug)]
pub(crate) struct Invocation {
    /// The command and its flags.
    pub cli: Cli,
    /// The name that the program was called by, as a user types it.
    pub program: &'static str,
}

/// Returns the definition of the command line.
pub(crate) fn command() -> clap::Command {
    let flag = |flag: Arg| match flag.get_value_names() {
        Some([kind]) if kind == "BOOL" => flag
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
        Some([kind]) if kind == "DURATION" => flag.allow_hyphen_values(true),
        _ => flag,
    };
    Cli::command().mut_subcommands(|command| command.mut_args(flag))
}

/// Returns the program's name as a user types it, from the name that it was started by.
fn program(args: &[OsString]) -> &'static str {
    let name = args.first().map(Path::new).and_then(Path::file_stem);
    if name.is_some_and(|name| name == PLUGIN) {
        "kubectl endpoints"
    } else {
        "endpointd"
    }
}

/// Parses a command line, with the program's name first.
///
/// # Errors
///
/// When the command line is invalid, and when help or the version is asked for.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation, clap::Error> {
    let args: Vec<OsString> = args.into_iter().collect();
    let program = program(&args);
    let mut command = command().bin_name(program);
    // Builds it, so that it has --help too.
    command.build();
    if let Some(run) = command.find_subcommand(RUN)
        && let [_, name, flags @ ..] = &args[..]
        && name == RUN
    {
        let unknown = unknown_flags(run, flags);
        if !unknown.is_empty() {
            let unknown = unknown.join(", ");
            let message =
                format!("unknown flags: {unknown}; {program} {RUN} --help lists those that there are\n");
            return Err(clap::Error::raw(ErrorKind::UnknownArgument, message));
        }
    }
    let matches = command.try_get_matches_from_mut(args)?;
    let mut cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    if let Command::Explain(explain) = &mut cli.command
        && let Some((_, given)) = matches.subcommand()
    {
        explain.as_served = given.value_source("controllers") == Some(ValueSource::DefaultValue);
    }
    check(&cli.command).map_err(|error| command.error(ErrorKind::ValueValidation, error))?;
    Ok(Invocation { cli, program })
}

/// Returns an error if flags do not fit together.
fn check(command: &Command) -> Result<(), String> {
    let publishing = match command {
        Command::Run(run) => {
            let flags = "--leader-elect-lease-duration, -renew-deadline, -retry-period";
            let timing = run.election.timing();
            timing.map_err(|error| format!("{flags}: {error}"))?;
            run.admin.tls_files()?;
            &run.publishing
        }
        Command::Audit(audit) => &audit.tool.publishing,
        Command::Explain(explain) => {
            if let Some(service) = explain.named()? {
                service.in_namespace(explain.namespace.as_deref())?;
            }
            &explain.tool.publishing
        }
        Command::Top(_) | Command::Version | Command::Completion { .. } | Command::Man { .. } => {
            return Ok(());
        }
    };
    if publishing.outputs().is_none() {
        return Err(
            "--controllers turns off all of endpoints-controller, endpointslice-controller and endpointslice-mirroring-controller".to_owned(),
        );
    }
    Ok(())
}

/// The name of [`Command::Run`].
const RUN: &str = "run";

/// Returns the flags that a command does not have, each once. The parser would name the first alone, and a command line that
/// is copied from kube-controller-manager has many.
fn unknown_flags(command: &clap::Command, args: &[OsString]) -> Vec<String> {
    let mut unknown = Vec::new();
    let mut args = args.iter().take_while(|arg| *arg != "--");
    while let Some(arg) = args.next() {
        let arg = arg.to_string_lossy();
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (&*arg, None),
        };
        if !name.starts_with('-') {
            continue;
        }
        match command.get_arguments().find(|flag| is_called(flag, name)) {
            Some(flag) => {
                let takes_next = flag.get_action().takes_values() && !flag.is_require_equals_set();
                if takes_next && value.is_none() {
                    args.next();
                }
            }
            None if unknown.iter().any(|known| known == name) => {}
            None => unknown.push(name.to_owned()),
        }
    }
    unknown
}

/// Returns whether a flag has this name, which begins with a hyphen.
fn is_called(flag: &Arg, name: &str) -> bool {
    match name.strip_prefix("--") {
        Some(name) => {
            flag.get_long() == Some(name) || flag.get_all_aliases().is_some_and(|all| all.contains(&name))
        }
        None => flag
            .get_short()
            .is_some_and(|short| name[1..].chars().eq([short])),
    }
}

/// The flags of `endpointd run`. Where kube-controller-manager has a flag of the same meaning, it has the same
/// name here.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// How to reach the API server.
    #[command(flatten)]
    pub connection: ConnectionArgs,

    /// Leader election.
    #[command(flatten)]
    pub election: ElectionArgs,

    /// Dry run.
    #[command(flatten)]
    pub dry_run: DryRunArgs,

    /// The admin server, for health and metrics.
    #[command(flatten)]
    pub admin: AdminArgs,

    /// The objects to publish.
    #[command(flatten)]
    pub publishing: PublishingArgs,

    /// Maximum requests per second for slices and Endpoints; 0 or less means no limit
    ///
    /// At upstream's default of 20, a start that writes 10,000 slices takes more than 8 minutes. API servers protect
    /// themselves by priority and fairness, and the clients that watch slices are protected by --watch-budget, so this
    /// limit only has to keep a start from using all of the API servers' capacity. Day-to-day changes stay far below it.
    #[arg(
        long,
        value_name = "QPS",
        default_value_t = 500.0,
        value_parser = parse_qps,
        allow_negative_numbers = true
    )]
    pub kube_api_qps: f64,

    /// Maximum burst of requests after a pause, before --kube-api-qps limits them
    ///
    /// When a large cluster loses a zone, about a thousand slices change at once. The default lets them go without
    /// delay.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub kube_api_burst: u32,

    /// Maximum requests in flight for slices and Endpoints, each on a connection of its own
    ///
    /// Half as many are used after the API server was overloaded or did not answer, and one more after each round of answers.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub max_requests_in_flight: u16,

    /// The limits on what API servers may send to the clients that watch slices.
    #[command(flatten)]
    pub watching: WatchingArgs,

    /// Have the API server stop tracking which client owns which field of an object from its first update on, which
    /// saved 3 to 14% of its CPU time a change where it was measured; `managedFields` then does not show who edited a slice, and another
    /// controller that writes the same is noticed later and not named
    #[arg(long, value_name = "BOOL", default_value = "false")]
    pub clear_managed_fields: Switch,

    /// Number of threads that process changes
    ///
    /// One thread handles thousands of pod changes per second. More threads help only when changes come in floods;
    /// at other times they wake each other, which costs more than sharing the work saves.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub worker_threads: u16,

    /// How long a change to existing Endpoints waits, so that later changes can join the same write
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub endpoint_updates_batch_period: Period,

    /// How long a change to an existing slice waits, so that later changes can join the same write
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub endpointslice_updates_batch_period: Period,

    /// How long a change to an existing slice that mirrors Endpoints waits, so that later changes can join the same write
    ///
    /// A slice that is to be deleted waits only if another slice of its Service is to be updated first.
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub mirroring_endpointslice_updates_batch_period: Period,

    /// Format of the log
    #[arg(long, alias = "logging-format", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// Has no effect: protobuf is used
    #[arg(long, value_name = "TYPE", hide = true)]
    pub kube_api_content_type: Option<String>,

    /// Log level (error, warn, info, debug or trace), or a filter such as `info,endpointd::cluster=debug`
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = parse_log_level)]
    pub log_level: String,
}

/// How to reach the API server. An empty value counts as unset. Without flags, the controller uses its pod's service
/// account; see [`Self::target_of_tool`] for the other commands.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ConnectionArgs {
    /// Kubeconfig file that selects the cluster
    #[arg(long, value_name = "FILE", value_parser = clap::builder::OsStringValueParser::new().map(PathBuf::from))]
    pub kubeconfig: Option<PathBuf>,

    /// URL of the API server, instead of the one in the kubeconfig; without a kubeconfig, no credentials are sent
    /// (for tests, and for proxies on loopback)
    #[arg(long, visible_alias = "master", value_name = "URL")]
    pub server: Option<String>,

    /// Context of the kubeconfig to use, instead of its current context
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// When the credential plugin of the kubeconfig fails, show the last lines of its standard error; they may hold
    /// secrets
    #[arg(long)]
    pub show_credential_plugin_stderr: bool,
}

impl ConnectionArgs {
    /// Returns the API server that the flags select.
    pub(crate) fn target(&self) -> Target {
        if self.show_credential_plugin_stderr {
            plugin_errors::show_stderr();
        }
        let path = given(self.kubeconfig.as_ref());
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

/// Returns the path in a flag, unless it is empty, which is the same as unset.
fn given(path: Option<&PathBuf>) -> Option<PathBuf> {
    path.filter(|path| !path.as_os_str().is_empty()).cloned()
}

/// Formats of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
}

fn parse_qps(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(qps) if qps.is_finite() => Ok(qps),
        _ => Err("not a finite number".to_owned()),
    }
}

/// The value of a flag that is called like a boolean of kube-controller-manager: `--flag` or `--flag=BOOL`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Switch(pub bool);

impl FromStr for Switch {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        golang::parse_bool(text).map(Self).ok_or("expected true or false")
    }
}

/// The value of a flag that is a duration, as Go writes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Period(pub Duration);

impl FromStr for Period {
    type Err = golang::DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        golang::parse_duration(text).map(Self)
    }
}

fn parse_log_level(text: &str) -> Result<String, &'static str> {
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    // The filter takes any other word for a module, and would then log nothing else.
    let is_known = |word: &str| {
        let word = word.trim();
        word.contains(['=', '[', ':']) || levels.contains(&&*word.to_ascii_lowercase())
    };
    if text.split(',').all(is_known) && text.parse::<tracing_subscriber::filter::EnvFilter>().is_ok() {
        return Ok(text.to_owned());
    }
    Err("expected error, warn, info, debug, trace or off, or a filter such as info,endpointd::cluster=debug")
}

#[cfg(test)]
mod tests;
