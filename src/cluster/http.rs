//! The one place that builds requests: paths, media types, and the head of an answer.
//!
//! The callers interpret the answers ([`super::objects`], [`super::events`], [`super::election`], [`super::cause`] for
//! lists and watches): the same status means different things for a write, for a fetch and for a list.

use super::codec::{self, Status};
use crate::core::namespace::Kind;
use http::request::Builder;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use kube::Client;
use kube::client::Body;
use std::time::Duration;

/// Media type of objects in JSON: of those that are not read or written often.
pub(crate) static JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Media type of objects in protobuf.
pub(super) static PROTOBUF: HeaderValue = HeaderValue::from_static("application/vnd.kubernetes.protobuf");
/// Media type of a merge patch (RFC 7396).
pub(super) static MERGE_PATCH: HeaderValue = HeaderValue::from_static("application/merge-patch+json");

/// The forms that an answer in protobuf can be asked for in.
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

impl Form {
    /// Returns the header `Accept`. `managedFields` are of no use, except to a reader that wants to know who changed an
    /// object. API servers without KEP-5958 ignore `drop`.
    pub(super) fn accept(self) -> &'static HeaderValue {
        static WHOLE: HeaderValue =
            HeaderValue::from_static("application/vnd.kubernetes.protobuf;drop=metadata.managedFields");
        static METADATA: HeaderValue = HeaderValue::from_static(
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1;\
            drop=metadata.managedFields",
        );
        static METADATA_LIST: HeaderValue = HeaderValue::from_static(
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1;\
            drop=metadata.managedFields",
        );
        match self {
            Self::Whole => &WHOLE,
            Self::Edited => &PROTOBUF,
            Self::Metadata => &METADATA,
            Self::MetadataList => &METADATA_LIST,
        }
    }
}

const CORE: &str = "/api/v1";
const DISCOVERY: &str = "/apis/discovery.k8s.io/v1";
const COORDINATION: &str = "/apis/coordination.k8s.io/v1";
/// The path at which the API server says whose a token is.
pub(crate) const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
/// The path at which the API server says what a user may do.
pub(crate) const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// Returns the path of a kind's objects, in one namespace or in all.
pub(super) fn collection(kind: Kind, namespace: Option<&str>) -> String {
    let group = match kind {
        Kind::Slice | Kind::Mirrored => DISCOVERY,
        Kind::Node | Kind::Pod | Kind::Service | Kind::Endpoints => CORE,
    };
    within(group, namespace.filter(|_| kind != Kind::Node), kind.resource())
}

/// Returns the path of a namespace itself.
pub(super) fn namespace(name: &str) -> String {
    format!("{CORE}/namespaces/{name}")
}

/// Returns the path of a namespace's Events.
pub(super) fn events(namespace: &str) -> String {
    within(CORE, Some(namespace), "events")
}

/// Returns the path of a namespace's Leases.
pub(super) fn leases(namespace: &str) -> String {
    within(COORDINATION, Some(namespace), "leases")
}

fn within(group: &str, namespace: Option<&str>, resource: &str) -> String {
    match namespace {
        Some(namespace) => [group, "/namespaces/", namespace, "/", resource].concat(),
        None => [group, "/", resource].concat(),
    }
}

/// Builds a request that reads.
pub(super) fn get(uri: &str, accept: &'static HeaderValue) -> Result<Request<Body>, kube::Error> {
    finish(builder(Method::GET, uri, accept), Vec::new())
}

/// Builds a request that writes. Without a body it has no content type either.
pub(crate) fn write(
    method: Method,
    uri: &str,
    accept: &'static HeaderValue,
    content: &'static HeaderValue,
    body: Vec<u8>,
) -> Result<Request<Body>, kube::Error> {
    let mut request = builder(method, uri, accept);
    if !body.is_empty() {
        request = request.header(header::CONTENT_TYPE, content);
    }
    finish(request, body)
}

fn builder(method: Method, uri: &str, accept: &'static HeaderValue) -> Builder {
    Request::builder()
        .method(method)
        .uri(uri)
        .header(header::ACCEPT, accept)
}

fn finish(request: Builder, body: Vec<u8>) -> Result<Request<Body>, kube::Error> {
    request.body(Body::from(body)).map_err(kube::Error::HttpError)
}

/// The parts of an answer's head that are used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    /// The HTTP status.
    pub(crate) code: StatusCode,
    /// The server's `Retry-After`, in seconds.
    pub(super) retry_after: Option<u64>,
}

impl Head {
    pub(super) fn of(code: StatusCode, headers: &HeaderMap) -> Self {
        let asked = headers.get(header::RETRY_AFTER);
        Self {
            code,
            retry_after: asked.and_then(|value| value.to_str().ok()?.parse().ok()),
        }
    }

    /// Returns the pause that a refusal asks for, in its head or in its status.
    pub(super) fn pause(&self, status: &Status) -> Option<Duration> {
        self.retry_after
            .map(Duration::from_secs)
            .or_else(|| status.pause())
    }
}

/// Sends a request, and waits for the head of its answer.
pub(crate) async fn send(client: &Client, request: Request<Body>) -> Result<(Head, Body), kube::Error> {
    let (head, body) = client.send(request).await?.into_parts();
    Ok((Head::of(head.status, &head.headers), body))
}

/// Reads from a path. Returns the body of the answer, once the server has begun to send it, or its refusal. A refusal
/// whose body breaks off counts as one without a body.
pub(super) async fn read(
    client: &Client,
    uri: &str,
    accept: &'static HeaderValue,
) -> Result<Result<Body, (Head, Status)>, kube::Error> {
    let (head, body) = send(client, get(uri, accept)?).await?;
    if head.code == StatusCode::OK {
        return Ok(Ok(body));
    }
    let body = body.collect_bytes().await.unwrap_or_default();
    let status = codec::status(head.code.as_u16(), &body);
    Ok(Err((head, status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_api() {
        let slices = "/apis/discovery.k8s.io/v1/endpointslices";
        assert_eq!(collection(Kind::Slice, None), slices);
        assert_eq!(
            collection(Kind::Pod, Some("shop")),
            "/api/v1/namespaces/shop/pods"
        );
        assert_eq!(collection(Kind::Node, Some("shop")), "/api/v1/nodes");
        assert_eq!(events("shop"), "/api/v1/namespaces/shop/events");
        assert_eq!(
            leases("shop"),
            "/apis/coordination.k8s.io/v1/namespaces/shop/leases"
        );
    }

    #[test]
    fn retry_after_counts_in_seconds_only() {
        let head = |value: &str| {
            let headers = [(header::RETRY_AFTER, value.parse().unwrap())];
            Head::of(StatusCode::OK, &headers.into_iter().collect()).retry_after
        };
        assert_eq!(head("7"), Some(7));
        assert_eq!(head("Wed, 21 Oct 2026 07:28:00 GMT"), None);
        assert_eq!(Head::of(StatusCode::OK, &HeaderMap::new()).retry_after, None);
    }

    #[test]
    fn a_write_without_a_body_has_no_content_type() {
        let request = write(Method::DELETE, "/x", &MERGE_PATCH, &JSON, Vec::new()).unwrap();
        assert!(!request.headers().contains_key(header::CONTENT_TYPE));
        let request = write(Method::PUT, "/x", &MERGE_PATCH, &JSON, b"{}".to_vec()).unwrap();
        assert_eq!(request.headers()[header::CONTENT_TYPE], JSON);
        assert_eq!(request.headers()[header::ACCEPT], MERGE_PATCH);
    }
}
