//! The two resources that are written. Each has turns and places of its own.

use crate::core::object::Output;

/// Whether an object is a slice or an Endpoints object. They have turns of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resource {
    /// discovery.k8s.io/v1 `EndpointSlice`, mirrored ones included.
    Slices,
    /// v1 Endpoints.
    Endpoints,
}

impl Resource {
    /// Both resources.
    pub const ALL: [Self; 2] = [Self::Slices, Self::Endpoints];

    /// Returns the name of the resource in metrics, as it stands in paths.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Slices => "endpointslices",
            Self::Endpoints => "endpoints",
        }
    }
}

impl From<Output> for Resource {
    fn from(output: Output) -> Self {
        match output {
            Output::Slice | Output::Mirrored => Self::Slices,
            Output::Endpoints => Self::Endpoints,
        }
    }
}
