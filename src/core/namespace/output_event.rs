//! Events of the objects that this process may write, as lists and watches show that the API server has them.

use super::lifecycle::{ObjectEvent, name_of, version_of};
use crate::core::facts::{EndpointsFacts, EndpointsMeta, SliceFacts, SliceMeta};
use crate::core::object::Output;

/// An event of a slice.
pub type SliceEvent = ObjectEvent<SliceFacts, SliceMeta>;
/// An event of an Endpoints object.
pub type EndpointsEvent = ObjectEvent<EndpointsFacts, EndpointsMeta>;

/// An event of an object of any output.
#[derive(Clone, Debug)]
pub enum OutputEvent {
    /// An event of a slice.
    Slice(SliceEvent),
    /// An event of an Endpoints object.
    Endpoints(EndpointsEvent),
    /// An event of a slice that mirrors Endpoints.
    Mirrored(SliceEvent),
}

impl OutputEvent {
    /// Creates the event of a whole slice from the list of an epoch.
    pub fn slice(facts: SliceFacts, epoch: u8) -> Self {
        Self::Slice(ObjectEvent::Whole(Box::new(facts), epoch))
    }

    /// Creates the event of a whole Endpoints object from the list of an epoch.
    pub fn endpoints(facts: EndpointsFacts, epoch: u8) -> Self {
        Self::Endpoints(ObjectEvent::Whole(Box::new(facts), epoch))
    }

    /// Creates the event of a whole slice that mirrors Endpoints, from the list of an epoch.
    pub fn mirrored(facts: SliceFacts, epoch: u8) -> Self {
        Self::Mirrored(ObjectEvent::Whole(Box::new(facts), epoch))
    }

    /// Returns the output of the object.
    pub fn output(&self) -> Output {
        match self {
            Self::Slice(_) => Output::Slice,
            Self::Endpoints(_) => Output::Endpoints,
            Self::Mirrored(_) => Output::Mirrored,
        }
    }

    /// Returns the name of the object.
    pub fn name(&self) -> &str {
        match self {
            Self::Slice(event) | Self::Mirrored(event) => name_of(event),
            Self::Endpoints(event) => name_of(event),
        }
    }

    /// Returns whether the object is gone.
    pub fn is_gone(&self) -> bool {
        matches!(
            self,
            Self::Slice(ObjectEvent::Gone(..))
                | Self::Endpoints(ObjectEvent::Gone(..))
                | Self::Mirrored(ObjectEvent::Gone(..))
        )
    }

    /// Returns whether this event says more than an earlier one of the same object. A whole object has more than its
    /// metadata, so it does also when both have the same version.
    pub fn supersedes(&self, earlier: &Self) -> bool {
        let whole = matches!(
            self,
            Self::Slice(ObjectEvent::Whole(..))
                | Self::Endpoints(ObjectEvent::Whole(..))
                | Self::Mirrored(ObjectEvent::Whole(..))
        );
        let (known, version) = (earlier.version(), self.version());
        known == 0 || known < version || (whole && known == version)
    }

    /// Returns the resourceVersion that it shows.
    pub fn version(&self) -> u64 {
        match self {
            Self::Slice(event) | Self::Mirrored(event) => version_of(event),
            Self::Endpoints(event) => version_of(event),
        }
    }
}
