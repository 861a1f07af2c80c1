//! The flags of a dry run. They are our own: kube-controller-manager has none.

use super::parse_bool;
use crate::core::golang;
use std::time::Duration;

/// Whether to write at all.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DryRunArgs {
    /// Write nothing, and tell by metrics and logs what would be written: for a trial beside the controllers that
    /// write
    ///
    /// Slices and Endpoints are followed, each Service is compared with what it should have, and that is all: no
    /// Events are written either, and no Lease is asked for, whatever --leader-elect says. Several processes may do
    /// this at once.
    #[arg(
        long,
        value_name = "BOOL",
        default_value = "false",
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        action = clap::ArgAction::Set,
        value_parser = parse_bool
    )]
    pub dry_run: bool,

    /// With --dry-run: how long a difference must last before it counts. Whoever writes needs time for it
    #[arg(
        long = "dry-run-patience",
        value_name = "DURATION",
        default_value = "5s",
        value_parser = golang::parse_duration,
        allow_hyphen_values = true
    )]
    pub patience: Duration,
}
