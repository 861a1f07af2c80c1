//! Topology hints: which zones or nodes an endpoint of a slice is meant for.
//!
//! Three sources, in this order: the annotation `topology-mode: Auto` (and its deprecated spelling), by which
//! the ready endpoints of a Service are shared over zones in proportion to their CPU ([`assign`]); the field
//! `spec.trafficDistribution`, by which each endpoint serves its own surroundings ([`HintMode::hint`]); nothing.

mod auto;
mod capacity;
mod check;
mod quantity;

pub use auto::{Allocation, HintedEndpoint, HintedSlice, SliceHints, assign};
pub use capacity::{NodeCapacity, ZoneCapacity, ZoneRatios};
pub use check::check;
pub use quantity::milli_cpu;

use std::sync::Arc;

/// A zone, as the node label `topology.kubernetes.io/zone` names it. Shared with the node facts.
pub type Zone = Arc<str>;

/// The annotation that asks for hints in proportion to CPU.
pub const ANNOTATION_TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
/// The older spelling of [`ANNOTATION_TOPOLOGY_MODE`]. Where it stands, the newer one is not read.
pub const ANNOTATION_TOPOLOGY_AWARE_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
/// The label of nodes that do not count as capacity, whatever its value.
pub const LABEL_CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
/// The older spelling of [`LABEL_CONTROL_PLANE`].
pub const LABEL_MASTER: &str = "node-role.kubernetes.io/master";

/// The reason of the Normal event that says a Service got hints.
pub const REASON_ENABLED: &str = "TopologyAwareHintsEnabled";
/// The reason of the Warning event that says a Service has no hints although it asks for them, or no more.
pub const REASON_DISABLED: &str = "TopologyAwareHintsDisabled";

/// With [`REASON_ENABLED`].
pub const MESSAGE_ENABLED: &str = "Topology Aware Hints has been enabled";
/// With [`REASON_DISABLED`], when the Service does not ask for hints any more.
pub const MESSAGE_DISABLED: &str = "Topology Aware Hints has been disabled";
/// With [`REASON_DISABLED`]; see [`Disabled::NodeInfo`].
pub const MESSAGE_NODE_INFO: &str =
    "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes";
/// With [`REASON_DISABLED`]; see [`Disabled::OneZone`].
pub const MESSAGE_ONE_ZONE: &str = "Nodes only ready in one zone";
/// With [`REASON_DISABLED`]; see [`Disabled::TooFewEndpoints`].
pub const MESSAGE_TOO_FEW_ENDPOINTS: &str = "Insufficient number of endpoints";
/// With [`REASON_DISABLED`]; see [`Disabled::Overload`].
pub const MESSAGE_OVERLOAD: &str =
    "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold";
/// With [`REASON_DISABLED`]; see [`Disabled::NoZone`].
pub const MESSAGE_NO_ZONE: &str = "One or more endpoints do not have a zone specified";

/// What decides about the hints of a Service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HintMode {
    /// There are none, and those that stand are removed.
    #[default]
    None,
    /// In proportion to the CPU of the zones.
    Auto,
    /// Each endpoint serves its own zone.
    SameZone,
    /// Each endpoint serves its own node, and its own zone where the node has none.
    SameNode,
}

/// A hint as `trafficDistribution` gives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hint<'a> {
    /// The one entry of `forZones`.
    pub zone: Option<&'a str>,
    /// The one entry of `forNodes`.
    pub node: Option<&'a str>,
}

/// Why a Service that asks for hints has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disabled {
    /// A ready worker node has no zone or no CPU, or there is no such node at all.
    NodeInfo,
    /// The ready worker nodes are all in one zone. Upstream has this message too but always sends
    /// [`MESSAGE_NODE_INFO`] instead.
    OneZone,
    /// Not even one ready endpoint for each zone.
    TooFewEndpoints {
        /// The ready ones.
        endpoints: usize,
        /// The zones with capacity.
        zones: usize,
    },
    /// The zones' minimum shares are more than there are endpoints.
    Overload {
        /// The ready ones.
        endpoints: usize,
        /// The zones with capacity.
        zones: usize,
    },
    /// A ready endpoint is in no zone.
    NoZone,
}

/// What became of a Service's wish for hints, in one family: kept to tell changes from repetitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HintState {
    /// It has none.
    #[default]
    Off,
    /// It has hints.
    On,
    /// It has the wish but no hints.
    Disabled(Disabled),
}

/// An event for a Service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HintEvent {
    /// Warning, or Normal.
    pub warning: bool,
    /// The machine's reason.
    pub reason: &'static str,
    /// The text.
    pub message: String,
}

impl HintMode {
    /// From the two annotations and the field. Of the annotations one decides alone, and only the values
    /// `Auto` and `auto` mean something; else the field counts, where values unknown to us are as none.
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

    /// The hint that follows from the endpoint alone. Endpoints that are not ready have none, and with
    /// [`HintMode::Auto`] it takes the whole Service to tell.
    pub fn hint<'a>(self, ready: bool, zone: Option<&'a str>, node: Option<&'a str>) -> Hint<'a> {
        match self {
            Self::SameZone if ready => Hint { zone, node: None },
            Self::SameNode if ready => Hint { zone, node },
            _ => Hint::default(),
        }
    }
}

impl Hint<'_> {
    /// Whether there is nothing to write.
    pub fn is_none(&self) -> bool {
        self.zone.is_none() && self.node.is_none()
    }
}

impl Disabled {
    /// The text of the event, without the family.
    pub fn message(self) -> String {
        match self {
            Self::NodeInfo => MESSAGE_NODE_INFO.to_owned(),
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
    /// The state that an evaluation leads to.
    pub fn after<T>(outcome: &Result<T, Disabled>) -> Self {
        outcome
            .as_ref()
            .map_or_else(|reason| Self::Disabled(*reason), |_| Self::On)
    }

    /// The event for the step from this state to the next, if people should hear of it. The numbers in a
    /// message make no new event: a Service that scales would else repeat it with each pod.
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
