//! The encoding that is used for each resource: protobuf or JSON.

use super::codec::Encoding;
use crate::clock;
use crate::core::namespace::Kind;
use http::{HeaderValue, StatusCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Media type of objects in JSON.
pub(crate) static JSON: HeaderValue = HeaderValue::from_static(Encoding::Json.media_type());
/// Media type of objects in protobuf.
static PROTOBUF: HeaderValue = HeaderValue::from_static(Encoding::Protobuf.media_type());

/// The `Accept` header for whole objects: in protobuf if the server has it, without `managedFields`. API servers
/// without KEP-5958 ignore `drop`, and from then on a parameter may stand there only once.
static WHOLE: HeaderValue = HeaderValue::from_static(
    "application/vnd.kubernetes.protobuf;drop=metadata.managedFields,\
    application/json;drop=metadata.managedFields",
);
/// The same, without anything left out, for a reader that wants to know who changed the object.
static EDITED: HeaderValue = HeaderValue::from_static("application/vnd.kubernetes.protobuf,application/json");
static METADATA: HeaderValue = HeaderValue::from_static(
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1;drop=metadata.managedFields,\
    application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1;drop=metadata.managedFields",
);
static METADATA_LIST: HeaderValue = HeaderValue::from_static(
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1;drop=metadata.managedFields,\
    application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1;drop=metadata.managedFields",
);

/// The same in JSON. A server that refuses the above may be refusing `drop` as well.
static METADATA_JSON: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
pub(super) static METADATA_LIST_JSON: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");

/// Returns the media type of an encoding.
pub(super) fn media_type(encoding: Encoding) -> &'static HeaderValue {
    match encoding {
        Encoding::Json => &JSON,
        Encoding::Protobuf => &PROTOBUF,
    }
}

/// The forms that an answer can be asked for in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// Whole objects.
    Whole,
    /// A whole object, with its `managedFields`.
    Edited,
    /// Metadata only.
    Metadata,
    /// A list with its items' metadata only.
    MetadataList,
}

/// How long JSON is used before the server is asked for protobuf again: another server may answer by then, and what
/// answered may have been a proxy.
const AGAIN: Duration = Duration::from_secs(3600);

/// The encoding of each resource's requests and answers. Protobuf costs the API server, the network and this process a
/// fraction of JSON; where a server does not speak it, JSON is used for an hour. Clones share what was learned.
#[derive(Clone, Debug)]
pub struct Encodings(Arc<State>);

#[derive(Debug)]
struct State {
    preferred: Encoding,
    start: Instant,
    resources: [KindEncoding; Kind::COUNT],
}

#[derive(Default, Debug)]
struct KindEncoding {
    /// The time until which JSON is used, in milliseconds since the start; 0 after an answer in protobuf.
    json_until: AtomicU64,
    /// Set once the log says so.
    told: AtomicBool,
}

impl Encodings {
    /// Uses an encoding for all resources that the server speaks it for.
    pub fn new(preferred: Encoding) -> Self {
        Self(Arc::new(State {
            preferred,
            start: Instant::now(),
            resources: Default::default(),
        }))
    }

    /// Returns the encoding of a resource.
    pub fn of(&self, kind: Kind) -> Encoding {
        let until = self.0.resources[kind.index()].json_until.load(Ordering::Relaxed);
        // Nearly always there is no time to be asked for.
        if until > 0 && self.now() < until {
            Encoding::Json
        } else {
            self.0.preferred
        }
    }

    /// Returns the time in milliseconds since the start.
    fn now(&self) -> u64 {
        clock::since(self.0.start).as_millis() as u64
    }

    /// Returns the media types to accept for a resource.
    pub(super) fn accept(&self, kind: Kind, form: Form) -> &'static HeaderValue {
        match (self.of(kind), form) {
            (Encoding::Protobuf, Form::Whole) => &WHOLE,
            (Encoding::Protobuf, Form::Metadata) => &METADATA,
            (Encoding::Protobuf, Form::MetadataList) => &METADATA_LIST,
            (Encoding::Protobuf, Form::Edited) => &EDITED,
            (Encoding::Json, Form::Whole | Form::Edited) => &JSON,
            (Encoding::Json, Form::Metadata) => &METADATA_JSON,
            (Encoding::Json, Form::MetadataList) => &METADATA_LIST_JSON,
        }
    }

    /// Learns from the head of the answer to a request that asked for an encoding: its status, and where an object was
    /// read, its media type (a deletion may be answered in any). Returns whether the request must be sent again, in
    /// JSON: such a refusal comes before anything is written.
    pub(super) fn learn(&self, kind: Kind, asked: Encoding, code: StatusCode, given: Option<&[u8]>) -> bool {
        if asked == Encoding::Json {
            return false;
        }
        let refused = matches!(
            code,
            StatusCode::NOT_ACCEPTABLE | StatusCode::UNSUPPORTED_MEDIA_TYPE
        );
        // Anything but JSON is no answer of an API server.
        let json = Encoding::Json.media_type().as_bytes();
        let other = code.is_success() && given.is_some_and(|given| given.starts_with(json));
        let resource = &self.0.resources[kind.index()];
        if refused || other {
            let until = self.now() + AGAIN.as_millis() as u64;
            resource.json_until.store(until, Ordering::Relaxed);
            if !resource.told.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    resource = kind.as_str(),
                    code = code.as_u16(),
                    "the API server does not speak protobuf for this resource; JSON is used instead"
                );
            }
        } else if code.is_success() && given.is_some() {
            // A request that was under way when another one was refused says nothing about the next.
            let until = resource.json_until.load(Ordering::Relaxed);
            if until > 0 && until <= self.now() {
                resource.json_until.store(0, Ordering::Relaxed);
            }
        }
        refused
    }
}

impl Default for Encodings {
    fn default() -> Self {
        Self::new(Encoding::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn json_is_used_for_an_hour_for_what_is_not_answered_in_protobuf() {
        let encodings = Encodings::default();
        let protobuf = Encoding::Protobuf;
        let answer = |kind, given: Encoding| {
            encodings.learn(
                kind,
                protobuf,
                StatusCode::OK,
                Some(given.media_type().as_bytes()),
            )
        };

        let refusal = StatusCode::NOT_ACCEPTABLE;
        assert!(encodings.learn(Kind::Pod, protobuf, refusal, None));
        assert!(!answer(Kind::Node, Encoding::Json));
        assert!(
            !answer(Kind::Pod, protobuf),
            "it was asked for before the refusal"
        );
        assert_eq!(encodings.of(Kind::Pod), Encoding::Json);
        assert_eq!(encodings.of(Kind::Node), Encoding::Json);
        assert_eq!(encodings.of(Kind::Service), protobuf);

        tokio::time::advance(AGAIN).await;
        assert_eq!(encodings.of(Kind::Pod), protobuf);
        assert!(!answer(Kind::Pod, protobuf));
        // A later answer in JSON counts anew.
        assert!(!answer(Kind::Pod, Encoding::Json));
        assert_eq!(encodings.of(Kind::Pod), Encoding::Json);
    }
}
