//! The kinds of objects that this process manages.

/// The enabled outputs. The first three correspond to upstream's controllers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Outputs {
    /// Endpoints objects, as upstream's endpoints-controller writes them.
    pub endpoints: bool,
    /// `EndpointSlices`, as upstream's endpointslice-controller writes them.
    pub slices: bool,
    /// `EndpointSlices` that mirror the Endpoints of Services without a selector, as upstream's
    /// endpointslice-mirroring-controller writes them.
    pub mirrored: bool,
    /// `EndpointSlices` of Services whose selector is an annotation, which no controller of upstream's writes.
    pub custom: bool,
}

impl Outputs {
    /// The outputs that correspond to upstream's controllers.
    pub const ALL: Self = Self {
        endpoints: true,
        slices: true,
        mirrored: true,
        custom: false,
    };
    /// No outputs.
    pub const NONE: Self = Self {
        endpoints: false,
        slices: false,
        mirrored: false,
        custom: false,
    };

    /// Returns whether no output is enabled.
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }
}

impl Default for Outputs {
    fn default() -> Self {
        Self::ALL
    }
}
