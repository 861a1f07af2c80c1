//! The read-only commands: flags in, text and an exit code out.

use super::audit::{self, AuditError};
use super::explain::{self, ExplainError};
use super::flags::{AuditArgs, Colour, ExplainArgs, LabelSelector, LeftOver, ToolArgs};
use super::logging::one_line;
use crate::cluster::connect::connect_and_tell;
use crate::cluster::read::{ReadError, Reader};
use crate::inspect::explain::Explanation;
use crate::inspect::text::fit;
use anstream::{AutoStream, ColorChoice};
use ratatui::crossterm::terminal;
use serde::Serialize;
use std::convert::Infallible;
use std::future::pending;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::sleep;

/// The exit code if something is out of sync, or has a problem that was asked for.
const OUT_OF_SYNC: u8 = 1;
/// The exit code if the state could not be determined.
const UNKNOWN: u8 = 2;

/// How long a command waits before it says what for.
const SLOW: Duration = Duration::from_secs(5);

/// Runs `endpointd audit`.
pub(crate) async fn audit(args: AuditArgs) -> ExitCode {
    let scope = audit::Scope {
        namespace: args
            .namespace
            .clone()
            .filter(|name| !name.is_empty() && !args.all_namespaces),
        settings: args.tool.publishing.settings(0),
        labels: args.selector.clone().and_then(|LabelSelector(labels)| labels),
        settle: args.tool.settle.0,
        problems: args.problems,
    };
    let report = async {
        let opened = reader(&args.tool).await?;
        let Opened { reader, server, .. } = opened;
        let report = audit::audit(&reader, &scope).await;
        report.map_err(|error| match error {
            AuditError::Read(error) => unread(&error, &server),
            AuditError::NoNamespace(_) => one_line(&error),
        })
    };
    let report = match report.await {
        Ok(report) => report,
        Err(error) => return cannot_tell(&error),
    };
    if report.counts.services == 0 {
        let labels = scope
            .labels
            .map(|labels| format!(" that has the labels {labels}"));
        let labels = labels.unwrap_or_default();
        match scope.namespace {
            Some(namespace) => {
                eprintln!("note: there is no Service with a selector{labels} in namespace {namespace}");
            }
            None if !labels.is_empty() => eprintln!("note: there is no Service with a selector{labels}"),
            None => {}
        }
    }
    let printed = match &*args.output {
        "json" => print(&json(&report), Colour::Never),
        _ => show(&report.to_text(), args.tool.color),
    };
    if let Err(error) = printed {
        return cannot_tell(&error.to_string());
    }
    let left_over = args.left_over == LeftOver::Fail && report.left_over() > 0;
    exit_code(&[report.verdict(), Some(!left_over)])
}

/// Runs `endpointd explain`.
pub(crate) async fn explain(args: ExplainArgs) -> ExitCode {
    let explained = match explanations(&args).await {
        Ok(explained) => explained,
        Err(error) => return cannot_tell(&error),
    };
    // One that was asked for by its name is printed as such, and not as a list of one.
    let alone = explained.first().filter(|_| args.selector.is_none());
    let printed = match (&*args.output, alone) {
        ("json", Some(alone)) => print(&json(alone), Colour::Never),
        ("json", None) => print(&json(&explained), Colour::Never),
        _ => {
            let texts: Vec<_> = explained.iter().map(|found| found.to_text(args.all)).collect();
            show(&texts.join("\n"), args.tool.color)
        }
    };
    if let Err(error) = printed {
        return cannot_tell(&error.to_string());
    }
    let verdicts: Vec<_> = explained.iter().map(|found| found.verdict).collect();
    exit_code(&verdicts)
}

/// Returns the exit code, given what is in sync. It matters more that something is out of sync than that something is unknown.
fn exit_code(in_sync: &[Option<bool>]) -> ExitCode {
    if in_sync.contains(&Some(false)) {
        ExitCode::from(OUT_OF_SYNC)
    } else if in_sync.contains(&None) {
        ExitCode::from(UNKNOWN)
    } else {
        ExitCode::SUCCESS
    }
}

/// Explains the Services that are asked for. Those that are out of sync are looked at once more after a while.
async fn explanations(args: &ExplainArgs) -> Result<Vec<Explanation>, String> {
    let flag = args.namespace.as_deref().filter(|name| !name.is_empty());
    let (namespace, name) = match args.named()? {
        Some(service) => {
            let (namespace, name) = service.in_namespace(flag)?;
            (namespace, Some(name))
        }
        None => (flag, None),
    };
    let opened = reader(&args.tool).await?;
    let (reader, namespace) = (opened.reader, namespace.unwrap_or(&opened.namespace));
    let settings = args.tool.publishing.settings(0);
    let told = |error| match error {
        ExplainError::Read(error) => unread(&error, &opened.server),
        _ => one_line(&error),
    };
    let look = async |name: &str| {
        let explanation = explain::look(&reader, namespace, name, settings, args.as_served);
        explanation.await.map_err(told)
    };
    let names = match (name, &args.selector) {
        (Some(name), _) => vec![Arc::from(name)],
        (None, labels) => {
            let labels = labels.clone().and_then(|LabelSelector(labels)| labels);
            let found = explain::labelled(&reader, namespace, labels.as_ref()).await;
            found.map_err(told)?
        }
    };
    let mut explained = Vec::new();
    for name in &names {
        explained.push(look(name).await?);
    }
    let is_wrong = |found: &Explanation| found.verdict == Some(false);
    if explained.iter().any(is_wrong) {
        // A controller that has just seen a change takes a moment.
        sleep(args.tool.settle.0).await;
        for (name, explained) in names.iter().zip(&mut explained) {
            if is_wrong(explained) {
                *explained = look(name).await?;
            }
        }
    }
    Ok(explained)
}

/// The server that the flags select.
struct Opened {
    reader: Reader,
    /// The namespace of the kubeconfig's context.
    namespace: String,
    /// The server's URL.
    server: String,
}

/// Adds to the reason why a server could not be read which one it is: another may be meant.
pub(super) fn naming(why: &str, server: &str) -> String {
    format!("{why}; the API server is {server}")
}

fn unread(error: &ReadError, server: &str) -> String {
    naming(&one_line(error), server)
}

/// Returns a reader of the server that the flags select.
async fn reader(args: &ToolArgs) -> Result<Opened, String> {
    let target = args.connection.target_of_tool();
    let (impersonated, limit) = (args.impersonated(), args.limit());
    let slow = async {
        sleep(SLOW).await;
        eprintln!("waiting for the credential plugin of the kubeconfig (--request-timeout)");
        pending::<Infallible>().await
    };
    let (client, server) = tokio::select! {
        biased;
        client = connect_and_tell(&target, impersonated.as_ref(), limit) => {
            client.map_err(|error| one_line(&error))?
        }
        never = slow => match never {},
    };
    let namespace = client.default_namespace().to_owned();
    let said = AtomicBool::new(false);
    let told = move |what: &str| {
        // Many requests may wait at once, and for the same reason.
        if said.swap(true, Ordering::Relaxed) {
            return;
        }
        let until = match limit {
            Some(limit) => format!("it gives up after {} s of silence", limit.as_secs_f64()),
            None => "without a limit".to_owned(),
        };
        eprintln!("waiting for the API server to answer: {what}; {until} (--request-timeout)");
    };
    let reader = Reader::new(client).waiting(limit).telling(SLOW, Arc::new(told));
    Ok(Opened {
        reader,
        namespace,
        server,
    })
}

fn cannot_tell(error: &(impl ToString + ?Sized)) -> ExitCode {
    eprintln!("error: {}", error.to_string());
    ExitCode::from(UNKNOWN)
}

fn json(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("findings are strings and numbers");
    text.push('\n');
    text
}

/// Prints a text for users. On a terminal, long lines are broken between words.
fn show(text: &str, colour: Colour) -> io::Result<()> {
    let width = if io::stdout().is_terminal() {
        terminal::size().ok().map(|(columns, _)| usize::from(columns))
    } else {
        None
    };
    match width.filter(|width| *width > 0) {
        Some(width) => print(&fit(text, width), colour),
        None => print(text, colour),
    }
}

/// Prints a text as it is.
pub(super) fn print(text: &str, colour: Colour) -> io::Result<()> {
    let choice = match colour {
        Colour::Auto => AutoStream::choice(&io::stdout()),
        Colour::Always => ColorChoice::AlwaysAnsi,
        Colour::Never => ColorChoice::Never,
    };
    let mut out = AutoStream::new(io::stdout().lock(), choice);
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // A reader that closes the pipe early, such as `head`, is not an error.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}
