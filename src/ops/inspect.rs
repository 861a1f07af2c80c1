//! The read-only commands: flags in, text and an exit code out.

use super::flags::{AuditArgs, Colour, ConnectionArgs, ExplainArgs};
use super::logging::one_line;
use super::{audit, explain};
use crate::cluster::connect::connect;
use crate::cluster::encodings::Encodings;
use crate::cluster::read::Reader;
use anstream::{AutoStream, ColorChoice};
use serde::Serialize;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// The exit code if something is out of sync.
const OUT_OF_SYNC: u8 = 1;
/// The exit code if the state could not be determined.
const UNKNOWN: u8 = 2;

/// Runs `endpointd audit`.
pub(crate) async fn audit(args: AuditArgs) -> ExitCode {
    let scope = audit::Scope {
        namespace: args.namespace.clone().filter(|name| !name.is_empty()),
        settings: args.publishing.settings(0),
        settle: args.settle,
    };
    let report = async {
        let reader = reader(&args.connection).await?;
        let report = audit::audit(&reader, &scope).await;
        report.map_err(|error| one_line(&error))
    };
    let report = match report.await {
        Ok(report) => report,
        Err(error) => return cannot_tell(&error),
    };
    if let Some(namespace) = scope.namespace.filter(|_| report.counts.services == 0) {
        eprintln!("note: there is no Service with a selector in namespace {namespace}");
    }
    let text = if args.output == "json" {
        json(&report)
    } else {
        report.to_text()
    };
    if let Err(error) = print(&text, Colour::Never) {
        return cannot_tell(&error.to_string());
    }
    if report.is_in_sync() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(OUT_OF_SYNC)
    }
}

/// Runs `endpointd explain`.
pub(crate) async fn explain(args: ExplainArgs) -> ExitCode {
    let (namespace, name) = &args.service;
    let explanation = async {
        let reader = reader(&args.connection).await?;
        let max_mirrored = usize::from(args.mirroring.max_per_subset);
        let explanation = explain::look(&reader, namespace, name, max_mirrored).await;
        explanation.map_err(|error| one_line(&error))
    };
    let explanation = match explanation.await {
        Ok(explanation) => explanation,
        Err(error) => return cannot_tell(&error),
    };
    let printed = if args.output == "json" {
        print(&json(&explanation), Colour::Never)
    } else {
        print(&explanation.to_text(args.all), args.color)
    };
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => cannot_tell(&error.to_string()),
    }
}

async fn reader(connection: &ConnectionArgs) -> Result<Reader, String> {
    let client = connect(&connection.target_of_tool()).await;
    let encodings = Encodings::new(connection.encoding);
    client
        .map(|client| Reader::new(client, encodings))
        .map_err(|error| one_line(&error))
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

fn print(text: &str, colour: Colour) -> io::Result<()> {
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
