//! The requests sent to the API server, with objects encoded as JSON.

use super::facts::{
    ANNOTATION_TRIGGER_TIME, Extras, LABEL_HEADLESS, LABEL_MANAGED_BY, LABEL_SERVICE_NAME, MANAGED_BY,
};
use super::facts::{OwnerReference, ServiceFacts, is_reserved_label};
use super::ids::Uid;
use super::object::Remote;
use super::ports::SlicePort;
use super::subsets::{ANNOTATION_OVER_CAPACITY, TRUNCATED};
use super::time::Time;
use serde::Serialize;
use serde::ser::{SerializeMap as _, SerializeSeq as _, Serializer};
use std::fmt;

mod endpoint;
mod endpoints;

pub use endpoint::{AddressBody, EndpointBody};
pub use endpoints::{EndpointsBody, labels as endpoints_labels};

use endpoint::push_all;

/// The request to send for one object.
#[derive(Clone, PartialEq, Eq)]
pub enum Request {
    /// POST this object.
    Create(Vec<u8>),
    /// PUT this object. It carries the resourceVersion that it was computed against.
    Update(Vec<u8>),
    /// DELETE, if the object is still this one.
    Delete(Preconditions),
    /// GET.
    Fetch,
    /// GET of the Service with the object's name.
    Probe,
}

impl Request {
    /// Returns the size of its body in bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Create(body) | Self::Update(body) => body.len(),
            Self::Delete(_) | Self::Fetch | Self::Probe => 0,
        }
    }
}

/// The properties that the object must still have for a delete to be carried out.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconditions {
    /// `metadata.uid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<Uid>,
    /// `metadata.resourceVersion`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

impl Preconditions {
    /// Requires the object to be exactly as it was last acknowledged.
    pub fn same_version(remote: &Remote) -> Self {
        Self {
            uid: (!remote.uid.is_none()).then(|| remote.uid.clone()),
            resource_version: Some(remote.version.to_string()),
        }
    }

    /// Returns whether there are no preconditions.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(body) => write!(f, "Create({})", String::from_utf8_lossy(body)),
            Self::Update(body) => write!(f, "Update({})", String::from_utf8_lossy(body)),
            Self::Delete(preconditions) => f.debug_tuple("Delete").field(preconditions).finish(),
            Self::Fetch => f.write_str("Fetch"),
            Self::Probe => f.write_str("Probe"),
        }
    }
}

/// A slice, ready to be written.
pub struct SliceBody<'a, E> {
    /// `metadata.namespace`.
    pub namespace: &'a str,
    /// `metadata.name`.
    pub name: &'a str,
    /// The server's copy, for an update.
    pub remote: Option<&'a Remote>,
    /// Metadata that others added to the object.
    pub extras: Option<&'a Extras>,
    /// The Service.
    pub service: &'a ServiceFacts,
    /// The trigger time, if the write has one.
    pub trigger: Option<Time>,
    /// `addressType`.
    pub address_type: &'static str,
    /// `ports`.
    pub ports: &'a [SlicePort],
    /// A function that returns an iterator over `endpoints`.
    pub endpoints: E,
}

impl<'a, E, I> SliceBody<'a, E>
where
    E: Fn() -> I,
    I: Iterator<Item = EndpointBody<'a>>,
{
    /// Encodes the slice as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        let endpoints = (self.endpoints)();
        let mut out = Vec::with_capacity(1024 + 320 * endpoints.size_hint().0);
        let metadata = Metadata {
            namespace: self.namespace,
            name: self.name,
            generate_name_of: Some(&self.service.name),
            remote: self.remote,
            extras: self.extras,
            owner: Some(self.service),
            labels: SliceLabels(self.service),
            trigger: self.trigger,
            truncated: false,
        };
        out.extend_from_slice(br#"{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":"#);
        push(&mut out, &metadata);
        out.extend_from_slice(br#","addressType":"#);
        push(&mut out, self.address_type);
        out.extend_from_slice(br#","endpoints":["#);
        push_all(&mut out, endpoints, |endpoint, out| endpoint.push_to(out));
        out.extend_from_slice(br#"],"ports":"#);
        push(&mut out, self.ports);
        out.push(b'}');
        out
    }
}

/// Appends a value as JSON.
fn push(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("strings and numbers can always be written to memory");
}

struct Metadata<'a, L> {
    namespace: &'a str,
    name: &'a str,
    /// The name that `generateName` is derived from.
    generate_name_of: Option<&'a str>,
    remote: Option<&'a Remote>,
    extras: Option<&'a Extras>,
    /// The Service that owns the object.
    owner: Option<&'a ServiceFacts>,
    labels: L,
    trigger: Option<Time>,
    /// True if addresses were left out of the object.
    truncated: bool,
}

impl<L: Serialize> Serialize for Metadata<'_, L> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(None)?;
        out.serialize_entry("name", self.name)?;
        match (self.extras, self.generate_name_of) {
            (None, Some(of)) => out.serialize_entry("generateName", &format_args!("{of}-"))?,
            (
                Some(Extras {
                    generate_name: Some(name),
                    ..
                }),
                _,
            ) => out.serialize_entry("generateName", name)?,
            _ => {}
        }
        out.serialize_entry("namespace", self.namespace)?;
        if let Some(remote) = self.remote {
            out.serialize_entry("uid", &remote.uid)?;
            out.serialize_entry("resourceVersion", &format_args!("{}", remote.version))?;
        }
        out.serialize_entry("labels", &self.labels)?;
        let annotations = Annotations {
            extras: self.extras,
            trigger: self.trigger,
            truncated: self.truncated,
        };
        if !annotations.is_empty() {
            out.serialize_entry("annotations", &annotations)?;
        }
        let owners = Owners {
            service: self.owner,
            extras: self.extras,
        };
        if !owners.is_empty() {
            out.serialize_entry("ownerReferences", &owners)?;
        }
        if let Some(extras) = self.extras.filter(|extras| !extras.finalizers.is_empty()) {
            out.serialize_entry("finalizers", &extras.finalizers)?;
        }
        out.end()
    }
}

/// The Service's labels without reserved ones, plus the slice's own.
struct SliceLabels<'a>(&'a ServiceFacts);

impl Serialize for SliceLabels<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(None)?;
        for (key, value) in self.0.labels.iter().filter(|(key, _)| !is_reserved_label(key)) {
            out.serialize_entry(key, value)?;
        }
        out.serialize_entry(LABEL_MANAGED_BY, MANAGED_BY)?;
        out.serialize_entry(LABEL_SERVICE_NAME, &*self.0.name)?;
        if self.0.headless {
            out.serialize_entry(LABEL_HEADLESS, "")?;
        }
        out.end()
    }
}

struct Annotations<'a> {
    extras: Option<&'a Extras>,
    trigger: Option<Time>,
    truncated: bool,
}

impl Annotations<'_> {
    fn is_empty(&self) -> bool {
        self.trigger.is_none()
            && !self.truncated
            && self.extras.is_none_or(|extras| extras.annotations.is_empty())
    }
}

impl Serialize for Annotations<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(None)?;
        for (key, value) in self.extras.iter().flat_map(|extras| &extras.annotations) {
            out.serialize_entry(key, value)?;
        }
        if let Some(time) = self.trigger {
            out.serialize_entry(ANNOTATION_TRIGGER_TIME, &format_args!("{time}"))?;
        }
        if self.truncated {
            out.serialize_entry(ANNOTATION_OVER_CAPACITY, TRUNCATED)?;
        }
        out.end()
    }
}

struct Owners<'a> {
    service: Option<&'a ServiceFacts>,
    extras: Option<&'a Extras>,
}

impl Owners<'_> {
    fn is_empty(&self) -> bool {
        self.service.is_none() && self.others().is_empty()
    }

    fn others(&self) -> &[OwnerReference] {
        self.extras.map_or(&[], |extras| &extras.owners)
    }
}

impl Serialize for Owners<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_seq(None)?;
        let service = self.service.map(|service| (service, service.uid.to_string()));
        // If the preserved references include the Service, all of them stay as others wrote them, because there can be
        // only one controller.
        if let Some((service, uid)) = service
            && self.others().iter().all(|owner| *owner.uid != *uid)
        {
            out.serialize_element(&OwnerReference {
                api_version: "v1".into(),
                kind: "Service".into(),
                name: (&*service.name).into(),
                uid: uid.into(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            })?;
        }
        for owner in self.others() {
            out.serialize_element(owner)?;
        }
        out.end()
    }
}

/// A `targetRef` to a pod.
#[derive(Clone, Copy)]
pub struct PodReference<'a> {
    /// The pod's namespace.
    pub namespace: &'a str,
    /// The pod's name.
    pub name: &'a str,
    /// The pod's UID.
    pub uid: &'a Uid,
}
