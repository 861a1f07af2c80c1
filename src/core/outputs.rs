//! Which kinds of objects this process keeps right.

/// The outputs that are on: upstream's two controllers, one by one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Outputs {
    /// Endpoints, as upstream's endpoints-controller writes them.
    pub endpoints: bool,
    /// `EndpointSlices`, as upstream's endpointslice-controller writes them.
    pub slices: bool,
}

impl Outputs {
    /// Both.
    pub const ALL: Self = Self {
        endpoints: true,
        slices: true,
    };

    /// Whether nothing is left to do.
    pub fn is_none(self) -> bool {
        !self.endpoints && !self.slices
    }
}

impl Default for Outputs {
    fn default() -> Self {
        Self::ALL
    }
}
