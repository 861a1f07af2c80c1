//! `EndpointSelector` objects, of which only the metadata is read.

use super::decode::{Decode, DecodeError, required};
use super::fields::MetaOnly;

/// The metadata of an `EndpointSelector`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SelectorMeta {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// Set if it only repeats the selector of a Service: the Service of its name controls it.
    pub stands_for_service: bool,
}

impl Decode for SelectorMeta {
    type Wire<'a> = MetaOnly<'a>;

    fn decode(MetaOnly { metadata: meta }: MetaOnly<'_>) -> Result<Self, DecodeError> {
        let mut owners = meta.owner_references.iter().flatten();
        let stands_for_service = owners.any(|owner| {
            owner.controller == Some(true)
                && (&*owner.api_version, &*owner.kind) == ("v1", "Service")
                && *owner.name == *meta.name
        });
        Ok(Self {
            namespace: required(&meta.namespace, "metadata.namespace")?.into(),
            name: required(&meta.name, "metadata.name")?.into(),
            stands_for_service,
        })
    }

    fn version_of<'w>(wire: &'w MetaOnly<'_>) -> &'w str {
        &wire.metadata.resource_version
    }
}
