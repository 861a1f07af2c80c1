//! Answers that a server, or whatever stands before it, gives to each request of a kind, for as long as a test lasts.

use super::gate::{Answer, Sent, unknown_path};
use super::model::protobuf;
use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use serde_json::json;
use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};

/// Picks the requests that a rule is for.
pub(crate) type Picks = fn(&Sent) -> bool;

/// An answer that is always the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Constant {
    /// 200, and the end.
    Empty,
    /// 204.
    NoContent,
    /// A Status of this code.
    Status(u16),
    /// The same code with a page, which is no answer of an API server.
    Page(u16),
    /// A Status 404 that names nothing, as an API server answers since 1.38 that does not know the path.
    UnknownPath,
    /// A Status 429 that asks for a pause of so many seconds.
    Pause(u64),
    /// 200, and a page.
    Garbage,
    /// 200, the beginning of an answer, and then the connection breaks.
    Half,
    /// No answer.
    Silence,
    /// 200, and then nothing.
    Stalled,
    /// An empty page of a list, always with the same token for the next one.
    SameToken,
    /// An empty page of a list, each time with another token for the next one.
    NewToken,
    /// A watch that shows a bookmark of a newer version and ends; an empty list of a newer version.
    Moves,
    /// The same, but the watch ends with 410.
    MovesAndExpires,
}

/// Versions that are newer than any of a server in a test, and only rise.
static NEWER: AtomicU64 = AtomicU64::new(1_000_000);

impl Constant {
    /// All of them.
    pub(crate) const ALL: [Self; 24] = [
        Self::Empty,
        Self::NoContent,
        Self::Status(400),
        Self::Status(401),
        Self::Status(403),
        Self::Status(404),
        Self::Page(404),
        Self::UnknownPath,
        Self::Status(409),
        Self::Status(410),
        Self::Status(422),
        Self::Status(429),
        Self::Pause(7),
        Self::Status(500),
        Self::Page(502),
        Self::Status(503),
        Self::Garbage,
        Self::Half,
        Self::Silence,
        Self::Stalled,
        Self::SameToken,
        Self::NewToken,
        Self::Moves,
        Self::MovesAndExpires,
    ];

    /// Answers a request.
    pub(crate) async fn answer(self, sent: &Sent) -> Answer {
        match self {
            Self::Empty => answer(200, ""),
            Self::NoContent => answer(204, ""),
            Self::Status(code) => status(code, sent),
            Self::Page(code) => answer(code, "<html><head><title>Not here</title></head></html>\n"),
            Self::UnknownPath => unknown_path(),
            Self::Pause(seconds) => {
                let mut refusal = status(429, sent);
                let pause = HeaderValue::from(seconds);
                refusal.headers_mut().insert(header::RETRY_AFTER, pause);
                refusal
            }
            Self::Garbage => answer(200, "<html><head><title>Welcome</title></head></html>\n"),
            Self::Half => {
                let whole = if sent.watch { bookmark() } else { list("") };
                let pieces = [
                    Ok(Frame::data(Bytes::copy_from_slice(&whole[..whole.len() / 2]))),
                    Err(std::io::ErrorKind::ConnectionReset.into()),
                ];
                Response::new(StreamBody::new(stream::iter(pieces)).boxed_unsync())
            }
            Self::Silence => pending().await,
            Self::Stalled => Response::new(StreamBody::new(stream::pending()).boxed_unsync()),
            Self::SameToken => body(list("x")),
            Self::NewToken => body(list(&newer())),
            Self::Moves | Self::MovesAndExpires if !sent.watch => body(list("")),
            Self::Moves => body(bookmark()),
            Self::MovesAndExpires => {
                let expired = json!({"status": "Failure", "reason": "Expired", "code": 410});
                let expired = protobuf::event("ERROR", &protobuf::object("Status", &expired));
                body([bookmark(), expired].concat())
            }
        }
    }
}

fn newer() -> String {
    NEWER.fetch_add(1, Ordering::Relaxed).to_string()
}

/// An empty page of a list, at a newer version, with a token for the next page.
fn list(token: &str) -> Vec<u8> {
    let list = json!({"metadata": {"resourceVersion": newer(), "continue": token}});
    protobuf::object("PodList", &list)
}

/// A bookmark of a newer version, which also ends the initial events of a watch that has some.
fn bookmark() -> Vec<u8> {
    let metadata = json!({"resourceVersion": newer(), "annotations": {"k8s.io/initial-events-end": "true"}});
    protobuf::event(
        "BOOKMARK",
        &protobuf::object("PartialObjectMetadata", &json!({"metadata": metadata})),
    )
}

fn body(body: Vec<u8>) -> Answer {
    let body = Full::new(Bytes::from(body));
    Response::new(body.map_err(|never| match never {}).boxed_unsync())
}

fn answer(code: u16, body: &'static str) -> Answer {
    let body = Full::new(Bytes::from_static(body.as_bytes()));
    let mut response = Response::new(body.map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}

fn json_type(mut answer: Answer) -> Answer {
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}

/// As an API server refuses: a 404 is about the object of the request.
fn status(code: u16, sent: &Sent) -> Answer {
    let reason = match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 if sent.verb == Method::POST => "AlreadyExists",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    let (name, kind) = (sent.name(), sent.kind());
    let text = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "reason": reason, "code": code,
        "message": format!("{kind} \"{}\": {reason}", name.unwrap_or_default()),
        "details": {"name": name, "kind": kind},
    });
    let body = Full::new(Bytes::from(text.to_string()));
    let mut response = Response::new(body.map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    json_type(response)
}
