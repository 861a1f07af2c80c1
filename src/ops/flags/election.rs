//! The flags of leader election, by kube-controller-manager's names.

use super::{Period, Switch};
use crate::actors::events::WallClock;
use crate::cluster::election::Location;
use crate::cluster::fence::Clock;
use crate::core::leadership::election::{Timing, TimingError};
use crate::ops::election::{Candidacy, identity};
use crate::ops::progress::STALLED_AFTER;

/// The flags of leader election.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ElectionArgs {
    /// Write only while holding a Lease, so that several processes can run and one of them writes
    #[arg(long, value_name = "BOOL", default_value = "true")]
    pub leader_elect: Switch,

    /// How long a standby waits after it has last seen the Lease change, before it takes the Lease
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    pub leader_elect_lease_duration: Period,

    /// How long a leader goes on writing after it sent the last renewal that was accepted
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub leader_elect_renew_deadline: Period,

    /// How often a leader renews the Lease, and how often a standby tries to take it
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    pub leader_elect_retry_period: Period,

    /// Kind of the object to hold; only Leases are supported
    #[arg(
        long = "leader-elect-resource-lock",
        value_name = "KIND",
        default_value = "leases",
        value_parser = ["leases"]
    )]
    pub resource_lock: String,

    /// The Lease.
    #[command(flatten)]
    pub lease: LeaseArgs,
}

/// The flags that say which Lease the controller holds.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LeaseArgs {
    /// Name of the Lease; it must not be kube-controller-manager's, which still runs its other controllers
    #[arg(
        long = "leader-elect-resource-name",
        value_name = "NAME",
        default_value = "endpointd",
        value_parser = parse_lease
    )]
    name: String,

    /// Namespace of the Lease
    #[arg(
        long = "leader-elect-resource-namespace",
        value_name = "NAME",
        default_value = "kube-system",
        value_parser = parse_name
    )]
    namespace: String,
}

/// Parses the name of a Lease, which must be of our own.
fn parse_lease(text: &str) -> Result<String, &'static str> {
    if text == "kube-controller-manager" {
        // With it, none of kube-controller-manager's controllers would run.
        return Err("this is the Lease of kube-controller-manager; leave the flag out");
    }
    parse_name(text)
}

impl LeaseArgs {
    /// Returns the Lease's namespace and name.
    pub(crate) fn location(&self) -> Location {
        Location {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

impl ElectionArgs {
    /// Returns the three times, or none without leader election.
    ///
    /// # Errors
    ///
    /// When the times do not fit together.
    pub(crate) fn timing(&self) -> Result<Option<Timing>, TimingError> {
        let (Period(lease), Period(deadline), Period(retry)) = (
            self.leader_elect_lease_duration,
            self.leader_elect_renew_deadline,
            self.leader_elect_retry_period,
        );
        let timing = self.leader_elect.0.then(|| Timing::new(lease, deadline, retry));
        timing.transpose()
    }

    /// Returns the candidacy of this process, if leader election is enabled. [`super::parse`] has checked that the
    /// times fit together.
    pub(crate) fn candidacy(&self) -> Option<Candidacy> {
        Some(Candidacy {
            location: self.lease.location(),
            identity: identity(),
            timing: self.timing().ok()??,
            clock: Clock::default(),
            wall: WallClock::default(),
            stalled_after: STALLED_AFTER,
        })
    }
}

/// Parses the name of an object, which becomes part of request paths without escaping.
fn parse_name(text: &str) -> Result<String, &'static str> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    if !text.is_empty() && text.len() <= 253 && text.chars().all(plain) {
        Ok(text.to_owned())
    } else {
        Err("not a name of an object: expected lower-case letters, digits, '-' and '.'")
    }
}
