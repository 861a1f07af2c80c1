//! The parts of a run as its flags ask for them.

use super::{Connect, Options, Renewing, RunMode};
use crate::actors::drift::DriftTracker;
use crate::actors::writer::Pacing;
use crate::cluster::connect::{Target, connect};
use crate::core::namespace::Settings;
use crate::ops::admin::{Admin, Tls};
use crate::ops::flags::{AdminArgs, RunArgs};
use crate::ops::logging::one_line;
use futures::FutureExt as _;
use std::time::Duration;

/// Returns the controller's options. All randomness derives from `seed`.
pub(super) fn options(args: &RunArgs, seed: u64) -> Options {
    Options {
        settings: Settings {
            clear_managed_fields: args.clear_managed_fields.0,
            ..args.publishing.settings(seed)
        },
        pacing: Pacing {
            qps: args.kube_api_qps,
            burst: args.kube_api_burst,
            in_flight: usize::from(args.max_requests_in_flight),
            watch: args.watching.limits(),
            slice_batch: args.endpointslice_updates_batch_period.0,
            endpoints_batch: args.endpoint_updates_batch_period.0,
            mirrored_batch: args.mirroring_endpointslice_updates_batch_period.0,
        },
        deadline: Duration::from_secs(30),
        drain: Duration::from_secs(10),
    }
}

/// Decides which process may write: this one alone, the leader of an election, or none in a dry run.
pub(super) fn mode(args: &RunArgs, target: Target) -> RunMode {
    if args.dry_run.dry_run.0 {
        let patience = args.dry_run.dry_run_patience.0;
        tracing::info!(
            patience_seconds = patience.as_secs_f64(),
            "dry run: nothing is written and no lease is taken; differences that last are logged and counted"
        );
        return RunMode::DryRun(DriftTracker::new(patience));
    }
    let Some(candidacy) = args.election.candidacy() else {
        return RunMode::Alone;
    };
    // The election renews on a connection of its own, made as the clients' are.
    let client = async move { connect(&target).await.map_err(|error| one_line(&error)) };
    let connect: Connect = Box::new(move || client.boxed());
    RunMode::Candidate(Renewing::Apart(connect), Box::new(candidacy))
}

/// Logs the flags that have no effect.
pub(super) fn warn_of_flags(args: &RunArgs) {
    if args.kube_api_content_type.is_some() {
        tracing::warn!("--kube-api-content-type has no effect: endpointd speaks protobuf");
    }
    let elsewhere = args.publishing.controllers_elsewhere();
    if !elsewhere.is_empty() {
        tracing::warn!(
            controllers = elsewhere.join(" "),
            "these controllers are named in --controllers but endpointd does not run them"
        );
    }
}

/// Binds the admin server's address, if one is configured, and loads its certificate.
pub(super) async fn admin(args: &AdminArgs, target: &Target) -> Result<Option<Admin>, String> {
    let Some(address) = args.address() else {
        return Ok(None);
    };
    let admin = Admin::bind(address).await.map_err(|error| one_line(&error))?;
    let Some(files) = args.tls_files()? else {
        if !address.ip().is_loopback() {
            tracing::warn!(%address, "/metrics is served without encryption to every client that can connect; --tls-cert-file turns on HTTPS and access control");
        }
        return Ok(Some(admin));
    };
    let tls = Tls::load(files).map_err(|error| format!("TLS: {}", one_line(&error)))?;
    let client = connect(target).await.map_err(|error| one_line(&error))?;
    Ok(Some(admin.with_tls(tls, client)))
}
