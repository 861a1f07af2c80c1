//! `loadtest serve`: the API server alone.

mod tls;

use self::tls::Front;
use crate::play::Play;
use anyhow::Context;
use clap::ArgAction;
use futures::{Stream, StreamExt, stream};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::task::Poll;
use tokio::signal::unix::{SignalKind, signal};

/// Flags of `loadtest serve`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Port on the loopback interface; 0 picks a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Serve HTTPS on that port, with this certificate chain in PEM, and HTTP on another one.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// The key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Write a kubeconfig for this server to this file.
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Run a garbage collector, which deletes objects whose owner is gone. Deleted namespaces are emptied and removed
    /// either way.
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "BOOL")]
    gc: bool,
    /// Keep `managedFields` of all objects, as a cluster does. Without them the server needs less time for a write.
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "BOOL")]
    managed_fields: bool,
    /// Play scheduler, kubelets and the controller of Deployments: three nodes, and pods that get a node, addresses and
    /// readiness. Nothing is run.
    #[arg(long)]
    play: bool,
}

/// Serves until asked to stop.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args {
        port,
        tls_cert_file,
        tls_private_key_file,
        kubeconfig_out,
        gc,
        managed_fields,
        play,
    } = args;
    let front = match tls_cert_file.zip(tls_private_key_file) {
        Some((certificate, key)) => Some(Front::listen(port, &certificate, &key).await?),
        None => None,
    };
    let port = if front.is_some() { 0 } else { port };
    let config = config(gc).port(port).managed_fields(managed_fields);
    // Before anything is printed: a program that reads the address may send a signal right away.
    let stop = asked_to_stop()?;
    let server = memory_apiserver::start(config)
        .await
        .with_context(|| format!("listening on 127.0.0.1:{port}"))?;
    // Before the address is printed, so that the nodes are there for a program that reads it.
    let play = if play {
        Some(Play::begin(server.server()).await.context("--play")?)
    } else {
        None
    };
    if let Some(path) = &kubeconfig_out {
        std::fs::write(path, server.kubeconfig()).with_context(|| format!("writing {}", path.display()))?;
    }
    let mut lines = format!("serving on {}\n", server.url());
    if let Some(front) = &front {
        let _ = writeln!(lines, "and on {}", front.url()?);
    }
    if let Some(path) = &kubeconfig_out {
        let path = std::path::absolute(path)?;
        let _ = writeln!(lines, "export KUBECONFIG={}", path.display());
    }
    match io::stdout().write_all(lines.as_bytes()) {
        // A reader may close the pipe after the first line; that is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error.into()),
        _ => {}
    }
    let front = front.map(|front| tokio::spawn(front.serve(server.addr())));
    match play {
        Some(play) => tokio::select! {
            () = stop => {}
            () = play.run() => {}
        },
        None => stop.await,
    }
    if let Some(front) = front {
        front.abort();
    }
    server.shutdown().await;
    Ok(ExitCode::SUCCESS)
}

/// The settings of the server. Its namespace controller always runs, so that a namespace that was deleted can be
/// created again.
pub(crate) fn config(gc: bool) -> memory_apiserver::Config {
    memory_apiserver::Config::default()
        .gc(gc)
        .namespace_controller(true)
}

/// Takes over Ctrl-C and SIGTERM at once; what is returned waits for one of them.
pub(crate) fn asked_to_stop() -> io::Result<impl Future<Output = ()>> {
    let mut stops = stops()?;
    Ok(async move { stops.next().await.unwrap_or_default() })
}

/// Takes over Ctrl-C and SIGTERM at once; the stream has an item for each time that one of them has come.
pub(crate) fn stops() -> io::Result<impl Stream<Item = ()> + Unpin> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(stream::poll_fn(move |context| {
        if terminate.poll_recv(context).is_ready() {
            return Poll::Ready(Some(()));
        }
        interrupt.poll_recv(context).map(|_| Some(()))
    }))
}
