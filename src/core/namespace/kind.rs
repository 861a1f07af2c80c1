//! The kinds of objects that are read, and which of their lists are still to come.

use crate::core::object::Output;
use crate::core::outputs::Outputs;

/// A kind that plans depend on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// v1 Node.
    Node,
    /// v1 Pod.
    Pod,
    /// v1 Service.
    Service,
    /// discovery.k8s.io/v1 `EndpointSlice`.
    Slice,
    /// v1 Endpoints.
    Endpoints,
    /// discovery.k8s.io/v1 `EndpointSlice` that mirrors Endpoints.
    Mirrored,
}

impl Kind {
    /// The number of kinds.
    pub const COUNT: usize = 6;
    /// All kinds.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Node,
        Self::Pod,
        Self::Service,
        Self::Slice,
        Self::Endpoints,
        Self::Mirrored,
    ];

    /// Returns whether the outputs depend on this kind. Endpoints do not depend on nodes. Mirrored slices are computed
    /// from Endpoints, and their names must differ from those of slices.
    pub fn is_needed(self, outputs: Outputs) -> bool {
        match self {
            Self::Service => true,
            Self::Pod => outputs.slices || outputs.endpoints || outputs.custom,
            Self::Node => outputs.slices || outputs.custom,
            Self::Slice => outputs.slices || outputs.mirrored || outputs.custom,
            Self::Endpoints => outputs.endpoints || outputs.mirrored,
            Self::Mirrored => outputs.mirrored,
        }
    }

    /// Returns the kinds that the outputs depend on.
    pub fn needed_for(outputs: Outputs) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |kind| kind.is_needed(outputs))
    }

    /// Returns whether this kind is an output, rather than one that outputs are computed from.
    pub fn is_output(self) -> bool {
        matches!(self, Self::Slice | Self::Endpoints | Self::Mirrored)
    }

    /// Returns the output of this kind, if it is one.
    pub fn output(self) -> Option<Output> {
        match self {
            Self::Slice => Some(Output::Slice),
            Self::Endpoints => Some(Output::Endpoints),
            Self::Mirrored => Some(Output::Mirrored),
            Self::Node | Self::Pod | Self::Service => None,
        }
    }

    /// Returns the index in per-kind tables.
    pub fn index(self) -> usize {
        self as usize
    }

    /// Returns the name in the plural, as users write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mirrored => "mirrored-endpointslices",
            other => other.resource(),
        }
    }

    /// Returns the name of the resource, as it stands in paths.
    pub fn resource(self) -> &'static str {
        match self {
            Self::Node => "nodes",
            Self::Pod => "pods",
            Self::Service => "services",
            Self::Slice | Self::Mirrored => "endpointslices",
            Self::Endpoints => "endpoints",
        }
    }
}

impl From<Output> for Kind {
    fn from(output: Output) -> Self {
        match output {
            Output::Slice => Self::Slice,
            Output::Endpoints => Self::Endpoints,
            Output::Mirrored => Self::Mirrored,
        }
    }
}

/// The kinds whose complete list, initial or repeated, has not arrived yet. Nothing is planned while any list is
/// pending.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PendingLists(u8);

impl PendingLists {
    /// No list is pending.
    pub const NONE: Self = Self(0);

    /// Creates the set of all lists that the outputs depend on, as before anything was listed.
    pub fn all(outputs: Outputs) -> Self {
        let mut pending = Self::NONE;
        for kind in Kind::needed_for(outputs) {
            pending.set(kind);
        }
        pending
    }

    /// Marks the list of the kind as pending: it has begun to arrive.
    pub fn set(&mut self, kind: Kind) {
        self.0 |= 1 << kind.index();
    }

    /// Marks the list of the kind as complete.
    pub fn clear(&mut self, kind: Kind) {
        self.0 &= !(1 << kind.index());
    }

    /// Returns the kinds that are pending in either.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether any list is pending.
    pub fn any(self) -> bool {
        self.0 != 0
    }

    /// Returns whether a list of what endpoints are computed from is pending.
    pub fn hides_inputs(self) -> bool {
        [Kind::Node, Kind::Pod, Kind::Service]
            .into_iter()
            .any(|kind| self.has(kind))
    }

    /// Returns whether the list of the kind is pending.
    pub fn has(self, kind: Kind) -> bool {
        self.0 & (1 << kind.index()) != 0
    }
}
