//! The kinds of objects that this process manages.

/// The enabled outputs, which correspond to upstream's two controllers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Outputs {
    /// Endpoints objects, as upstream's endpoints-controller writes them.
    pub endpoints: bool,
    /// `EndpointSlices`, as upstream's endpointslice-controller writes them.
    pub slices: bool,
}

impl Outputs {
    /// Both outputs.
    pub const ALL: Self = Self {
        endpoints: true,
        slices: true,
    };

    /// Returns whether no output is enabled.
    pub fn is_none(self) -> bool {
        !self.endpoints && !self.slices
    }
}

impl Default for Outputs {
    fn default() -> Self {
        Self::ALL
    }
}
