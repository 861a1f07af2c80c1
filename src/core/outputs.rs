//! Which of the two kinds of object this process writes, as `--controllers` has it.

/// The outputs that are switched on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outputs {
    /// Endpoints, as upstream's `endpoints-controller` writes them.
    pub endpoints: bool,
    /// `EndpointSlices`, as upstream's `endpointslice-controller` writes them.
    pub slices: bool,
}

impl Outputs {
    /// Both.
    pub const ALL: Self = Self {
        endpoints: true,
        slices: true,
    };
}

impl Default for Outputs {
    fn default() -> Self {
        Self::ALL
    }
}
