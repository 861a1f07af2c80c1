//! The kinds of objects that this process manages, and the controllers that they are named for.

/// The name of the controller that writes Endpoints, as `--controllers` and health checks have it.
pub const ENDPOINTS_CONTROLLER: &str = "endpoints-controller";
/// The name of the controller that writes `EndpointSlices`.
pub const SLICES_CONTROLLER: &str = "endpointslice-controller";
/// The name of the controller that mirrors Endpoints into `EndpointSlices`.
pub const MIRRORING_CONTROLLER: &str = "endpointslice-mirroring-controller";
/// The name of the controller for Services whose selector is an annotation.
pub const CUSTOM_CONTROLLER: &str = "custom-selector-controller";

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

    /// Returns the names of the controllers that these outputs are enabled for.
    pub fn controllers(self) -> impl Iterator<Item = &'static str> {
        let all = [
            (self.endpoints, ENDPOINTS_CONTROLLER),
            (self.slices, SLICES_CONTROLLER),
            (self.mirrored, MIRRORING_CONTROLLER),
            (self.custom, CUSTOM_CONTROLLER),
        ];
        all.into_iter().filter_map(|(on, name)| on.then_some(name))
    }

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
