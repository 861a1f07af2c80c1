//! The flags of a dry run. kube-controller-manager has no such flags.

use super::{Period, Switch};

/// The flags of a dry run.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DryRunArgs {
    /// Write nothing, and report in metrics and logs what would be written: for a trial beside the controllers that
    /// write
    ///
    /// A dry run watches slices and Endpoints, and compares each Service with what it should have. It writes no
    /// Events and takes no Lease, whatever --leader-elect says. Several processes may run so at once.
    #[arg(long, value_name = "BOOL", default_value = "false")]
    pub dry_run: Switch,

    /// With --dry-run: how long a difference must last before it is reported, since the controllers that write take
    /// some time
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    pub dry_run_patience: Period,
}
