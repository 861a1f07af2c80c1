//! The command line.

use crate::report::compare;
use crate::run::{self, INTERRUPTED, demo};
use crate::{api, chaos, clean, real, record, serve};
use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use std::ffi::OsString;
use std::io::{IsTerminal, Write as _};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// Load tests, demo and verification of endpointd, on an in-memory API server or a real cluster.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Fill an in-memory cluster, run endpointd on it, churn its pods, and verify every endpoint.
    Demo(demo::Args),
    /// Run random histories of small clusters under random faults, and verify the end of each.
    Chaos(chaos::Args),
    /// Put a cluster under load, and measure how fast and at what cost its controller follows.
    Run(Box<run::Args>),
    /// Play scenarios on a cluster, and record or compare what its controllers settle on.
    Record(record::Args),
    /// Start throw-away control planes from real binaries, and hold endpointd against them, part by part.
    Real(real::Args),
    /// Delete the objects that runs left behind in a cluster.
    Clean(clean::Args),
    /// Run the in-memory API server alone, until Ctrl-C.
    Serve(serve::Args),
    /// Compare two or more reports side by side, as a table and as a page.
    Compare(compare::Args),
    /// Print the completions for a shell.
    ///
    /// For bash: `source <(loadtest completions bash)`.
    #[command(alias = "completion")]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Run endpointd itself: the demo starts its controller so, and no second binary is needed.
    #[command(hide = true, disable_help_flag = true)]
    Endpointd {
        /// What endpointd is given.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Become another program, which the system ends together with the process that started it.
    #[command(hide = true, disable_help_flag = true)]
    WithParent {
        /// The program.
        program: PathBuf,
        /// What it is given.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

/// Parses the command line of the process and does what it says.
pub fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Demo(args) => block_on(interruptible(demo::run(args))),
        Command::Run(args) => block_on(run::run(*args)),
        Command::Record(args) => block_on(record::run(args)),
        Command::Real(args) => block_on(interruptible(real::run(args))),
        Command::Clean(args) => block_on(interruptible(clean::run(args))),
        Command::Serve(args) => block_on(serve::run(args)),
        Command::Chaos(args) if args.hostile.is_wanted() => {
            block_on(interruptible(chaos::hostile::run(args.hostile)))
        }
        Command::Chaos(args) => {
            log_to_stderr("off");
            chaos::run(&args)
        }
        Command::Completions { shell } => print_completions(shell),
        Command::Compare(args) => compare::run(&args).unwrap_or_else(|error| fail(&error)),
        Command::Endpointd { args } => {
            die_with_parent();
            endpointd::main_from(std::iter::once(OsString::from("endpointd")).chain(args))
        }
        Command::WithParent { program, args } => {
            die_with_parent();
            let error = std::process::Command::new(&program).args(args).exec();
            fail(&anyhow::Error::new(error).context(format!("running {}", program.display())))
        }
    }
}

fn print_completions(shell: Shell) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "loadtest", &mut text);
    match std::io::stdout().write_all(&text) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => fail(&error.into()),
        _ => ExitCode::SUCCESS,
    }
}

/// Shows what the environment asks for, or else what this filter lets through.
fn log_to_stderr(filter: &str) {
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(filter)))
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
}

fn block_on(command: impl Future<Output = anyhow::Result<ExitCode>>) -> ExitCode {
    // Errors of requests are reported by the code that sends them, so kube's own messages are left out.
    log_to_stderr("warn,kube_client=off");
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.into()),
    };
    runtime.block_on(command).unwrap_or_else(|error| fail(&error))
}

/// Ends the command when the user or the system asks to: dropping its future is what cleans up after it.
async fn interruptible(command: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let stop = serve::asked_to_stop()?;
    tokio::select! {
        biased;
        () = stop => Ok(ExitCode::from(INTERRUPTED)),
        outcome = command => outcome,
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {}", api::in_words(error));
    ExitCode::FAILURE
}

/// A command that is killed outright cannot stop its processes, so the system is asked to. Without mercy: the API
/// server goes with the command, so a controller that ended in order would wait for answers that never come.
fn die_with_parent() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
    {
        eprintln!("warning: would outlive its parent: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_have_the_name_that_they_have_in_endpointd_too() {
        for name in ["completions", "completion"] {
            let cli = Cli::try_parse_from(["loadtest", name, "bash"]).unwrap();
            assert!(matches!(cli.command, Command::Completions { shell: Shell::Bash }));
        }
    }
}
