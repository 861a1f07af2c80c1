//! The kinds of objects that this process manages.

/// The enabled outputs, which correspond to upstream's three controllers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Outputs {
    /// Endpoints objects, as upstream's endpoints-controller writes them.
    pub endpoints: bool,
    /// `EndpointSlices`, as upstream's endpointslice-controller writes them.
    pub slices: bool,
    /// `EndpointSlices` that mirror the Endpoints of Services without a selector, as upstream's
    /// endpointslice-mirroring-controller writes them.
    pub mirrored: bool,
}

impl Outputs {
    /// All outputs.
    pub const ALL: Self = Self {
        endpoints: true,
        slices: true,
        mirrored: true,
    };

    /// Returns whether no output is enabled.
    pub fn is_none(self) -> bool {
        !self.endpoints && !self.slices && !self.mirrored
    }
}

impl Default for Outputs {
    fn default() -> Self {
        Self::ALL
    }
}
