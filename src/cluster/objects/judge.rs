//! Decides what the answer to a request for a single object proves. Load balancers and proxies between the API server
//! and us may answer in its place: with their own pages, or with answers of servers that know nothing of the object. So
//! an answer counts for what its body says, and only if that is about the object of the request.

use crate::cluster::codec::{self, DecodeError, Identity, Namespaced, Status};
use crate::core::facts::{CUSTOM_MANAGED_BY, EndpointsFacts, MANAGED_BY, MIRRORED_BY, SliceFacts};
use crate::core::namespace::{Content, Outcome};
use crate::core::object::{Output, Remote, RequestKind};
use http::StatusCode;

/// The parts of a request that its answer must match.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) verb: RequestKind,
    /// The size of the object in the request.
    pub(super) bytes: usize,
    pub(super) output: Output,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

/// The names of a resource in answers.
struct ResourceNames {
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
}

const NAMESPACES: ResourceNames = ResourceNames {
    group: "",
    plural: "namespaces",
    kind: "Namespace",
};
const METADATA: &str = "PartialObjectMetadata";

impl Asked<'_> {
    fn resource(&self) -> ResourceNames {
        let (group, plural, kind) = match (self.verb, self.output) {
            (RequestKind::Probe, _) => ("", "services", "Service"),
            (_, Output::Slice | Output::Mirrored) => ("discovery.k8s.io", "endpointslices", "EndpointSlice"),
            (_, Output::Endpoints) => ("", "endpoints", "Endpoints"),
        };
        ResourceNames { group, plural, kind }
    }

    /// Returns the object in an answer, if it is the requested one.
    fn object<'b>(&self, body: &'b [u8]) -> Result<Identity<'b>, Unreadable> {
        let object = codec::identity(body)?;
        let whole = object.kind == self.resource().kind;
        let fits = (whole || (self.verb != RequestKind::Fetch && object.kind == METADATA))
            && *object.name == *self.name
            && *object.namespace == *self.namespace
            && !object.uid.is_none();
        fits.then_some(object).ok_or(Unreadable::Another)
    }
}

/// The reason why an answer of success does not show the object.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("it does not show the object")]
    Another,
    #[error("{0}")]
    Malformed(#[from] DecodeError),
}

/// A part of an answer that its outcome does not hold.
#[derive(Debug)]
pub(super) enum Remark {
    /// It is a refusal.
    Refused(Box<Status>),
    /// It says that the request was carried out, but does not show the object as it should.
    Unreadable(Unreadable),
}

impl ResourceNames {
    /// Returns whether a `Status` is about the object of this name.
    fn is_subject(&self, status: &Status, name: &str) -> bool {
        status.about(name).is_some_and(|details| {
            (details.kind == self.plural || details.kind == self.kind)
                && (details.group.is_empty() || details.group == self.group)
        })
    }
}

/// Interprets an answer. If it does not show the object, the outcome is not known.
pub(super) fn judge(asked: &Asked<'_>, code: StatusCode, body: &[u8]) -> (Outcome, Option<Remark>) {
    if code.is_success() {
        return match accepted(asked, body) {
            Ok(outcome) => (outcome, None),
            Err(why) => (Outcome::Unknown, Some(Remark::Unreadable(why))),
        };
    }
    let status = codec::status(code.as_u16(), body);
    (
        refused(asked, code, &status),
        Some(Remark::Refused(Box::new(status))),
    )
}

fn refused(asked: &Asked<'_>, code: StatusCode, status: &Status) -> Outcome {
    let about_it = || asked.resource().is_subject(status, asked.name);
    let about_its_namespace = || NAMESPACES.is_subject(status, asked.namespace);
    match (code, asked.verb) {
        // Whatever the conflict is about, the object is looked at next.
        (StatusCode::CONFLICT, RequestKind::Create) if status.reason == "AlreadyExists" => Outcome::Exists,
        (StatusCode::CONFLICT, _) => Outcome::Conflict,
        (StatusCode::NOT_FOUND, verb) if status.reason == "NotFound" => match verb {
            RequestKind::Create if about_its_namespace() => Outcome::Terminating,
            // The object to create is missing anyway, so this says nothing.
            RequestKind::Create => Outcome::Unknown,
            _ if about_it() || about_its_namespace() => Outcome::NotFound,
            _ => Outcome::Unknown,
        },
        // Sent by something that does not know the path: a proxy, or a server without this API.
        (StatusCode::NOT_FOUND, _) => Outcome::Unknown,
        (StatusCode::FORBIDDEN, RequestKind::Create)
            if status.is_of_terminating_namespace() && about_it() =>
        {
            Outcome::Terminating
        }
        (StatusCode::TOO_MANY_REQUESTS, _) => Outcome::Throttled,
        (code, RequestKind::Create | RequestKind::Update) if is_too_large(code, status) => {
            Outcome::TooLarge { bytes: asked.bytes }
        }
        (code, _) if code.is_client_error() && code != StatusCode::REQUEST_TIMEOUT => Outcome::Rejected,
        _ => Outcome::Unknown,
    }
}

/// Returns whether the object in the request is too large to be stored. The API server limits the size of requests; an
/// object within that limit may still be too large for etcd, or for the server's own connection to it, and those errors
/// are only recognizable by their text.
fn is_too_large(code: StatusCode, status: &Status) -> bool {
    const OF_ETCD: [&str; 2] = [
        "etcdserver: request is too large",
        "trying to send message larger than max",
    ];
    code == StatusCode::PAYLOAD_TOO_LARGE
        || (code == StatusCode::INTERNAL_SERVER_ERROR
            && status.kind == "Status"
            && OF_ETCD.iter().any(|words| status.message.contains(words)))
}

fn accepted(asked: &Asked<'_>, body: &[u8]) -> Result<Outcome, Unreadable> {
    if asked.verb == RequestKind::Delete {
        // The answer shows the object itself while finalizers keep it, as of when its deletion began.
        let status = codec::status(200, body);
        let done = status.status == "Success" && asked.resource().is_subject(&status, asked.name);
        return if done {
            Ok(Outcome::Deleted(status.version()))
        } else {
            asked.object(body).map(|object| Outcome::Deleted(object.version))
        };
    }
    let object = asked.object(body)?;
    Ok(match (asked.verb, asked.output) {
        (RequestKind::Probe, _) => Outcome::Exists,
        (RequestKind::Create | RequestKind::Update | RequestKind::Delete, _) => match object.version {
            Some(version) => Outcome::Written(Remote {
                uid: object.uid,
                version,
            }),
            None => return Err(DecodeError::Field("metadata.resourceVersion").into()),
        },
        (RequestKind::Fetch, Output::Endpoints) => {
            let endpoints = codec::object::<Namespaced<EndpointsFacts>>(body)?;
            fetched(body, Content::Endpoints(Box::new(endpoints.facts)))
        }
        (RequestKind::Fetch, Output::Slice) => slice(body, &[MANAGED_BY, CUSTOM_MANAGED_BY, MIRRORED_BY])?,
        (RequestKind::Fetch, Output::Mirrored) => slice(body, &[MIRRORED_BY])?,
    })
}

/// Interprets a slice that was fetched, if one of these controllers manages it.
fn slice(body: &[u8], controllers: &[&str]) -> Result<Outcome, DecodeError> {
    if !codec::is_managed_by(body, controllers)? {
        let editor = codec::last_editor(body);
        return Ok(Outcome::Foreign { editor });
    }
    let slice = codec::object::<Namespaced<SliceFacts>>(body)?;
    Ok(fetched(body, Content::Slice(Box::new(slice.facts))))
}

fn fetched(body: &[u8], content: Content) -> Outcome {
    Outcome::Fetched {
        content,
        editor: codec::last_editor(body),
    }
}

#[cfg(test)]
mod tests;
