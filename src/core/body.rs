//! The objects to be written, as values. An [`Encode`] turns them into the body of a request.

use super::facts::{
    ANNOTATION_TRIGGER_TIME, ENDPOINTS_MANAGED_BY, Extras, LABEL_ENDPOINTS_MANAGED_BY, LABEL_HEADLESS,
    LABEL_MANAGED_BY, LABEL_SERVICE_NAME, MIRRORED_BY, OwnerReference, ServiceFacts, is_reserved_label,
};
use super::hash::LongHasher;
use super::hints::Hint;
use super::ids::Uid;
use super::mirror::{MirroredEndpoints, MirroredObject};
use super::object::{Remote, RequestKind};
use super::ports::SlicePort;
use super::slices::Conditions;
use super::subsets::{ANNOTATION_OVER_CAPACITY, Subset, TRUNCATED};
use super::time::Time;
use serde::Serialize;
use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::num::NonZeroU64;

/// An encoding of the objects to be written.
pub trait Encode {
    /// An encoded object.
    type Body;

    /// Encodes a slice.
    fn slice<'a>(&mut self, slice: SliceBody<'a, impl Iterator<Item = EndpointBody<'a>>>) -> Self::Body;

    /// Encodes a slice that mirrors Endpoints.
    fn mirrored(&mut self, slice: SliceBody<'_, MirroredEndpoints<'_>>) -> Self::Body;

    /// Encodes an Endpoints object.
    fn endpoints(&mut self, endpoints: EndpointsBody<'_>) -> Self::Body;

    /// Returns the number of bytes of an encoded object; 0 if the encoding makes no bytes.
    fn size(body: &Self::Body) -> usize;
}

/// The request to send for one object. `B` is an encoded object.
#[derive(Clone, PartialEq, Eq)]
pub enum Request<B = Vec<u8>> {
    /// POST this object.
    Create(B),
    /// PUT this object. It carries the resourceVersion that it was computed against.
    Update(B),
    /// DELETE, if the object is still this one.
    Delete(Preconditions),
    /// GET.
    Fetch,
    /// GET of the Service with the object's name. Only Endpoints are asked about in this way.
    Probe,
}

impl<B> Request<B> {
    /// Returns the kind of request.
    pub fn kind(&self) -> RequestKind {
        match self {
            Self::Create(_) => RequestKind::Create,
            Self::Update(_) => RequestKind::Update,
            Self::Delete(_) => RequestKind::Delete,
            Self::Fetch => RequestKind::Fetch,
            Self::Probe => RequestKind::Probe,
        }
    }
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

/// The object that an object to be written is published for, and that determines its labels.
#[derive(Clone, Copy)]
pub enum Subject<'a> {
    /// A Service, of which this is a slice.
    SliceOf(&'a ServiceFacts),
    /// A Service, of which these are the Endpoints.
    EndpointsOf(&'a ServiceFacts),
    /// Endpoints, which this slice mirrors.
    Mirrors(&'a MirroredObject),
}

impl<'a> Subject<'a> {
    /// Returns the Service, unless the object mirrors Endpoints.
    pub fn service(self) -> Option<&'a ServiceFacts> {
        match self {
            Self::SliceOf(service) | Self::EndpointsOf(service) => Some(service),
            Self::Mirrors(_) => None,
        }
    }

    /// Returns the Endpoints that the object mirrors.
    fn mirrors(self) -> Option<&'a MirroredObject> {
        match self {
            Self::Mirrors(object) => Some(object),
            Self::SliceOf(_) | Self::EndpointsOf(_) => None,
        }
    }

    /// Returns the owner of a slice: the kind, the name and the UID.
    fn owner(self) -> Option<(&'static str, &'a str, &'a Uid)> {
        match self {
            Self::SliceOf(service) => Some(("Service", &*service.name, &service.uid)),
            Self::EndpointsOf(_) => None,
            Self::Mirrors(object) => Some(("Endpoints", &*object.name, &object.uid)),
        }
    }
}

/// The metadata of an object to be written.
#[derive(Clone, Copy)]
pub struct Metadata<'a> {
    /// `namespace`.
    pub namespace: &'a str,
    /// `name`.
    pub name: &'a str,
    /// The object that it is published for.
    pub subject: Subject<'a>,
    /// The server's copy, for an update.
    pub remote: Option<&'a Remote>,
    /// Metadata that others added to the object.
    pub extras: Option<&'a Extras>,
    /// The trigger time, if the write has one.
    pub trigger: Option<Time>,
    /// Set to have an update clear `managedFields`: the server then stops tracking who owns which field, until a client
    /// applies the object.
    pub clear_managed_fields: bool,
    /// Set when addresses are left out of the object.
    pub truncated: bool,
}

impl<'a> Metadata<'a> {
    /// Returns `generateName`.
    pub fn generate_name(&self) -> Option<Cow<'a, str>> {
        match self.extras {
            Some(extras) => extras.generate_name.as_deref().map(Cow::Borrowed),
            None => self
                .subject
                .owner()
                .map(|(_, name, _)| Cow::Owned(format!("{name}-"))),
        }
    }

    /// Returns `labels`: those of the object that this one is published for, as far as they are copied, and our own.
    pub fn labels(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let headless = |service: &ServiceFacts| service.headless.then_some((LABEL_HEADLESS, ""));
        let (labels, copied, own): (_, fn(&str) -> bool, _) = match self.subject {
            Subject::SliceOf(service) => (
                &service.labels,
                |key| !is_reserved_label(key),
                [
                    Some((LABEL_MANAGED_BY, service.manager().as_str())),
                    Some((LABEL_SERVICE_NAME, &*service.name)),
                    headless(service),
                ],
            ),
            Subject::EndpointsOf(service) => (
                &service.labels,
                |key| !matches!(key, LABEL_ENDPOINTS_MANAGED_BY | LABEL_HEADLESS),
                [
                    Some((LABEL_ENDPOINTS_MANAGED_BY, ENDPOINTS_MANAGED_BY)),
                    None,
                    headless(service),
                ],
            ),
            Subject::Mirrors(object) => (
                &object.labels,
                |_| true,
                [
                    Some((LABEL_MANAGED_BY, MIRRORED_BY)),
                    Some((LABEL_SERVICE_NAME, &*object.name)),
                    None,
                ],
            ),
        };
        let labels = labels.iter().filter(move |(key, _)| copied(key));
        labels.chain(own.into_iter().flatten())
    }

    /// Returns `annotations`.
    pub fn annotations(&self) -> impl Iterator<Item = (&'a str, Cow<'a, str>)> + use<'a> {
        let mirrored = self.subject.mirrors().map(|object| &object.annotations);
        let others = mirrored.or(self.extras.map(|extras| &extras.annotations));
        let others = others.into_iter().flatten();
        let others = others.map(|(key, value)| (&**key, Cow::Borrowed(&**value)));
        let time = self.trigger.map(|time| Cow::Owned(time.to_string()));
        let time = time.map(|time| (ANNOTATION_TRIGGER_TIME, time));
        let truncated = self
            .truncated
            .then_some((ANNOTATION_OVER_CAPACITY, Cow::Borrowed(TRUNCATED)));
        others.chain(time).chain(truncated)
    }

    /// Returns `ownerReferences`. A slice is owned by its Service, or by the Endpoints that it mirrors.
    pub fn owners(&self) -> impl Iterator<Item = Cow<'a, OwnerReference>> + use<'a> {
        let others = self.extras.map_or(&[][..], |extras| &extras.owners);
        // If the preserved references include the Service, all of them stay as others wrote them, because there can be
        // only one controller.
        let own = self.subject.owner();
        let own = own.map(|(kind, name, uid)| (kind, name, uid.to_string()));
        let own = own.filter(|(_, _, uid)| others.iter().all(|owner| *owner.uid != **uid));
        let own = own.map(|(kind, name, uid)| {
            Cow::Owned(OwnerReference {
                api_version: "v1".into(),
                kind: kind.into(),
                name: name.into(),
                uid: uid.into(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            })
        });
        own.into_iter().chain(others.iter().map(Cow::Borrowed))
    }

    /// Returns whether `managedFields` is one empty entry, which clears it. A create is always tracked.
    pub fn clears_managed_fields(&self) -> bool {
        self.clear_managed_fields && self.remote.is_some()
    }

    /// Returns `finalizers`.
    pub fn finalizers(&self) -> &'a [Box<str>] {
        self.extras.map_or(&[], |extras| &extras.finalizers)
    }
}

/// Returns the labels that an Endpoints object must have, except the one that marks a headless Service.
pub fn endpoints_labels(service: &ServiceFacts) -> impl Iterator<Item = (&str, &str)> {
    let metadata = Metadata {
        namespace: "",
        name: "",
        subject: Subject::EndpointsOf(service),
        remote: None,
        extras: None,
        trigger: None,
        clear_managed_fields: false,
        truncated: false,
    };
    metadata.labels().filter(|(key, _)| *key != LABEL_HEADLESS)
}

/// A slice to be written.
pub struct SliceBody<'a, I> {
    /// `metadata`.
    pub metadata: Metadata<'a>,
    /// `addressType`.
    pub address_type: &'static str,
    /// `ports`.
    pub ports: &'a [SlicePort],
    /// `endpoints`.
    pub endpoints: I,
}

/// An Endpoints object to be written.
pub struct EndpointsBody<'a> {
    /// `metadata`.
    pub metadata: Metadata<'a>,
    /// `subsets`.
    pub subsets: &'a [Subset<SlicePort, AddressBody<'a>>],
}

impl<'a> EndpointsBody<'a> {
    /// Returns the labels that it must have, except the one that marks a headless Service.
    fn labels(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.metadata.labels().filter(|(key, _)| *key != LABEL_HEADLESS)
    }

    /// Returns the number of addresses in all subsets.
    pub fn addresses(&self) -> usize {
        let subsets = self.subsets.iter();
        subsets
            .map(|subset| subset.ready.len() + subset.not_ready.len())
            .sum()
    }

    /// Returns a 64-bit hash that tells the object apart from what was written before. It covers the labels (except the
    /// headless one, which is no reason to write), whether addresses are left out, and the subsets. If a pod's UID is a
    /// UUID, the hash covers only what can change while the pod lives: its address, whether it is ready, and whether it
    /// has a node and a hostname here. The API server does not let their names change.
    pub fn fingerprint(&self) -> NonZeroU64 {
        // If two bodies had the same fingerprint, the change would never be written.
        let mut hasher = LongHasher::default();
        for label in self.labels() {
            label.hash(&mut hasher);
        }
        self.metadata.truncated.hash(&mut hasher);
        for subset in self.subsets {
            subset.ports.hash(&mut hasher);
            for list in [&subset.ready, &subset.not_ready] {
                hasher.write_usize(list.len());
                for address in list {
                    address.hash(&mut hasher);
                }
            }
        }
        // Not zero, so that an optional one takes no more room: there is one for each object.
        NonZeroU64::new(hasher.finish()).unwrap_or(NonZeroU64::MAX)
    }
}

/// A `targetRef` to a pod of the object's namespace.
#[derive(Clone, Copy)]
pub struct PodReference<'a> {
    /// The pod's name.
    pub name: &'a str,
    /// The pod's UID.
    pub uid: &'a Uid,
}

/// An endpoint to be written.
#[derive(Clone, Copy)]
pub struct EndpointBody<'a> {
    /// Its only address.
    pub ip: IpAddr,
    /// Its conditions.
    pub conditions: Conditions,
    /// `hostname`.
    pub hostname: Option<&'a str>,
    /// `targetRef`.
    pub target: PodReference<'a>,
    /// `nodeName`.
    pub node: Option<&'a str>,
    /// `zone`.
    pub zone: Option<&'a str>,
    /// `hints`.
    pub hints: Hint<'a>,
}

/// An address of an Endpoints object, to be written.
#[derive(Clone, Copy)]
pub struct AddressBody<'a> {
    /// `ip`.
    pub ip: IpAddr,
    /// `hostname`.
    pub hostname: Option<&'a str>,
    /// `nodeName`.
    pub node: Option<&'a str>,
    /// `targetRef`.
    pub target: PodReference<'a>,
}

impl Hash for AddressBody<'_> {
    /// Hashes in as few pieces as possible, because an object has up to 1,000 addresses. The first piece says which others
    /// there are, and how long they are.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let mut first = [0; 32];
        put_length(&mut first, 4, self.node);
        put_length(&mut first, 8, self.hostname);
        match self.ip {
            IpAddr::V4(ip) => first[0..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(_) => first[12] = 1,
        }
        match self.target.uid {
            Uid::Uuid(uid) => first[16..32].copy_from_slice(uid),
            Uid::Text(uid) => {
                first[13] = 1;
                put_length(&mut first, 16, Some(self.target.name));
                put_length(&mut first, 20, Some(uid));
            }
        }
        hasher.write(&first);
        if let IpAddr::V6(ip) = self.ip {
            hasher.write(&ip.octets());
        }
        // The API server gives a UUID to one pod, and a pod keeps its name, its hostname, and its node once it has one.
        if let Uid::Text(uid) = self.target.uid {
            let others = self.node.into_iter().chain(self.hostname);
            for text in others.chain([self.target.name, uid]) {
                hasher.write(text.as_bytes());
            }
        }
    }
}

/// Writes the length of a text that is hashed later, which tells it from the next one, and whether there is one at all.
fn put_length(piece: &mut [u8; 32], at: usize, text: Option<&str>) {
    // No text is longer than the API server's largest object, which is 3 MiB.
    let length = text.map_or(u32::MAX, |text| text.len() as u32);
    piece[at..at + 4].copy_from_slice(&length.to_le_bytes());
}
