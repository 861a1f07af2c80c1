//! Topology hints: the zones or nodes that an endpoint of a slice is meant for.
//!
//! The first source that applies decides: the annotation `topology-mode: Auto` (and its deprecated spelling), which
//! distributes a Service's ready endpoints over zones in proportion to their CPU ([`assign`]); or the field
//! `spec.trafficDistribution`, which hints each endpoint to its own zone or node ([`HintMode::hint`]).

mod auto;
mod capacity;
mod check;
mod quantity;

pub use auto::{Allocation, HintedEndpoint, HintedSlice, SliceHints, assign};
pub use capacity::{NodeCapacity, ZoneCapacity, ZoneRatios};
pub use check::check;
pub use quantity::milli_cpu;

use std::sync::Arc;

/// A zone, as named by the node label `topology.kubernetes.io/zone`. Shared with the node facts.
pub type Zone = Arc<str>;

/// The annotation that requests hints in proportion to CPU.
pub const ANNOTATION_TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
/// The older spelling of [`ANNOTATION_TOPOLOGY_MODE`]. If it is set, the newer one is ignored.
pub const ANNOTATION_TOPOLOGY_AWARE_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
/// The label that excludes nodes from the capacity, whatever its value.
pub const LABEL_CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
/// The older spelling of [`LABEL_CONTROL_PLANE`].
pub const LABEL_MASTER: &str = "node-role.kubernetes.io/master";

/// The reason of the Normal event sent when a Service gets hints.
pub const REASON_ENABLED: &str = "TopologyAwareHintsEnabled";
/// The reason of the Warning event sent when a Service that requests hints has none, or loses the ones it had.
pub const REASON_DISABLED: &str = "TopologyAwareHintsDisabled";

/// The message for [`REASON_ENABLED`].
pub const MESSAGE_ENABLED: &str = "Topology Aware Hints has been enabled";
/// The message for [`REASON_DISABLED`] when the Service no longer requests hints.
pub const MESSAGE_DISABLED: &str = "Topology Aware Hints has been disabled";
/// The message for [`REASON_DISABLED`] with [`Disabled::NodeInfo`].
pub const MESSAGE_NODE_INFO: &str =
    "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes";
/// The message for [`REASON_DISABLED`] with [`Disabled::OneZone`].
pub const MESSAGE_ONE_ZONE: &str = "Nodes only ready in one zone";
/// The message for [`REASON_DISABLED`] with [`Disabled::TooFewEndpoints`].
pub const MESSAGE_TOO_FEW_ENDPOINTS: &str = "Insufficient number of endpoints";
/// The message for [`REASON_DISABLED`] with [`Disabled::Overload`].
pub const MESSAGE_OVERLOAD: &str =
    "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold";
/// The message for [`REASON_DISABLED`] with [`Disabled::NoZone`].
pub const MESSAGE_NO_ZONE: &str = "One or more endpoints do not have a zone specified";

/// The way a Service's hints are determined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HintMode {
    /// No hints; existing ones are removed.
    #[default]
    None,
    /// In proportion to the CPU of the zones.
    Auto,
    /// Each endpoint serves its own zone.
    SameZone,
    /// Each endpoint serves its own node, and its own zone where the node has none.
    SameNode,
}

/// A hint that follows from `trafficDistribution`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hint<'a> {
    /// The only entry of `forZones`.
    pub zone: Option<&'a str>,
    /// The only entry of `forNodes`.
    pub node: Option<&'a str>,
}

/// The reason why a Service that requests hints has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disabled {
    /// A ready worker node has no zone or no CPU.
    NodeInfo,
    /// There is no ready worker node at all.
    NoNodes,
    /// The ready worker nodes are all in one zone. Upstream has this message too but always sends
    /// [`MESSAGE_NODE_INFO`] instead.
    OneZone,
    /// There are fewer ready endpoints than zones.
    TooFewEndpoints {
        /// The number of ready endpoints.
        endpoints: u32,
        /// The number of zones with capacity.
        zones: u32,
    },
    /// The zones' minimum shares exceed the number of endpoints.
    Overload {
        /// The number of ready endpoints.
        endpoints: u32,
        /// The number of zones with capacity.
        zones: u32,
    },
    /// A ready endpoint has no zone.
    NoZone,
}

/// The outcome of a Service's request for hints in one family, kept to tell changes from repetitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HintState {
    /// The Service has no hints.
    #[default]
    Off,
    /// The Service has hints.
    On,
    /// The Service requests hints but has none.
    Disabled(Disabled),
}

/// An event for a Service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HintEvent {
    /// True if it is a Warning event; otherwise it is Normal.
    pub warning: bool,
    /// The machine-readable reason.
    pub reason: &'static str,
    /// The human-readable message.
    pub message: String,
}

impl HintMode {
    /// Determines the mode from the two annotations and the field. Only one of the annotations counts, with the values
    /// `Auto` and `auto`; otherwise the field decides, and unknown values mean no hints.
    pub fn of(
        topology_aware_hints: Option<&str>,
        topology_mode: Option<&str>,
        traffic_distribution: Option<&str>,
    ) -> Self {
        if matches!(topology_aware_hints.or(topology_mode), Some("Auto" | "auto")) {
            return Self::Auto;
        }
        match traffic_distribution {
            Some("PreferClose" | "PreferSameZone") => Self::SameZone,
            Some("PreferSameNode") => Self::SameNode,
            _ => Self::None,
        }
    }

    /// Returns the hint that follows from the endpoint alone. Endpoints that are not ready have none, and
    /// [`HintMode::Auto`] depends on the whole Service.
    pub fn hint<'a>(self, ready: bool, zone: Option<&'a str>, node: Option<&'a str>) -> Hint<'a> {
        match self {
            Self::SameZone if ready => Hint { zone, node: None },
            Self::SameNode if ready => Hint { zone, node },
            _ => Hint::default(),
        }
    }
}

impl Hint<'_> {
    /// Returns whether there is nothing to write.
    pub fn is_none(&self) -> bool {
        self.zone.is_none() && self.node.is_none()
    }
}

impl Disabled {
    /// Returns the message of the event, without the family.
    pub fn message(self) -> String {
        match self {
            Self::NodeInfo | Self::NoNodes => MESSAGE_NODE_INFO.to_owned(),
            Self::OneZone => MESSAGE_ONE_ZONE.to_owned(),
            Self::TooFewEndpoints { endpoints, zones } => {
                format!("{MESSAGE_TOO_FEW_ENDPOINTS} ({endpoints} endpoints, {zones} zones)")
            }
            Self::Overload { endpoints, zones } => {
                format!("{MESSAGE_OVERLOAD} ({endpoints} endpoints, {zones} zones)")
            }
            Self::NoZone => MESSAGE_NO_ZONE.to_owned(),
        }
    }
}

impl HintState {
    /// Returns the state that an evaluation leads to.
    pub fn after<T>(outcome: &Result<T, Disabled>) -> Self {
        outcome
            .as_ref()
            .map_or_else(|reason| Self::Disabled(*reason), |_| Self::On)
    }

    /// Returns the event for the transition to the next state, if users should see one. New numbers in a message are
    /// not enough, since a Service that scales would otherwise repeat the event with each pod.
    pub fn event(self, next: Self, address_type: &str) -> Option<HintEvent> {
        let (warning, reason, message) = match (self, next) {
            (Self::On, Self::On) | (Self::Off | Self::Disabled(_), Self::Off) => return None,
            (Self::Disabled(a), Self::Disabled(b))
                if std::mem::discriminant(&a) == std::mem::discriminant(&b) =>
            {
                return None;
            }
            (_, Self::On) => (false, REASON_ENABLED, MESSAGE_ENABLED.to_owned()),
            (Self::On, Self::Off) => (true, REASON_DISABLED, MESSAGE_DISABLED.to_owned()),
            (_, Self::Disabled(why)) => (true, REASON_DISABLED, why.message()),
        };
        Some(HintEvent {
            warning,
            reason,
            message: format!("{message}, addressType: {address_type}"),
        })
    }
}

#[cfg(test)]
mod tests;
