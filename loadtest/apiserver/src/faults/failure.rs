//! How requests fail, and what is then answered.

use super::Ask;
use crate::body::ResponseBody;
use crate::cause::Cause;
use crate::list;
use crate::reply::{refused, response};
use crate::status::Refusal;
use http::{HeaderValue, Response, StatusCode, header};

/// How a request fails. Statuses are written as the real server writes them, about the object of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// 409 Conflict: the object has been modified.
    Conflict,
    /// 409 `AlreadyExists`.
    AlreadyExists,
    /// 404.
    NotFound,
    /// 404 with a page, from something before the server that does not know the path.
    NoRoute,
    /// 403, as by RBAC.
    Forbidden,
    /// 403 with the cause `NamespaceTerminating`.
    NamespaceTerminating,
    /// 422.
    Invalid,
    /// 429 with a Status, `retryAfterSeconds` and Retry-After.
    TooManyRequests {
        /// Seconds.
        retry_after: u32,
    },
    /// 429 in plain text with Retry-After, as by priority and fairness.
    Overloaded {
        /// Seconds.
        retry_after: u32,
    },
    /// 500 `InternalError`.
    Internal,
    /// 500 without a reason, as etcd's timeouts come through.
    StorageTimeout,
    /// 503.
    Unavailable,
    /// 504 Timeout.
    Timeout,
    /// 410 Expired: a version, or a continue token, that is too old.
    Gone,
    /// The connection is reset without an answer.
    Reset,
    /// The connection is closed without an answer.
    Closed,
    /// No answer, with the connection open, until the client goes away. When the plan is cleared, the request goes on
    /// from where it hung.
    Hang,
}

/// Returns the answer to a failed request; none when there is no answer. `rv` is the version of the store.
pub(crate) fn answer(failure: Failure, ask: &Ask, rv: u64) -> Option<Response<ResponseBody>> {
    let Ask {
        kind,
        namespace,
        name,
        ..
    } = ask;
    let refusal = match failure {
        Failure::Conflict => Refusal::stale(*kind, name),
        Failure::AlreadyExists => Refusal::exists(*kind, name),
        Failure::NotFound => Refusal::not_found(*kind, name),
        Failure::NoRoute => return Some(no_route()),
        Failure::Forbidden => Refusal::forbidden(*kind, name, &no_right(ask), Vec::new()),
        Failure::NamespaceTerminating => Refusal::terminating(*kind, name, namespace),
        Failure::Invalid => {
            let cause = Cause::new(
                "FieldValueTooLong",
                "metadata.annotations",
                "Too long: may not be more than 262144 bytes",
            );
            Refusal::invalid(*kind, name, vec![cause])
        }
        Failure::TooManyRequests { retry_after } => Refusal::too_many_requests(retry_after),
        Failure::Overloaded { retry_after } => return Some(overloaded(retry_after)),
        Failure::Internal => Refusal::internal("an error on the server has prevented the request"),
        Failure::StorageTimeout => Box::new(Refusal::new(500, "", "etcdserver: request timed out")),
        Failure::Unavailable => Box::new(Refusal::new(
            503,
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        )),
        Failure::Timeout => Refusal::timeout(),
        Failure::Gone if ask.is_continued() => list::token_expired(ask.query.text("continue")),
        Failure::Gone => {
            let asked = match ask.query.text("resourceVersion") {
                "" => "0",
                asked => asked,
            };
            Refusal::expired(format!("too old resource version: {asked} ({rv})"), None)
        }
        Failure::Reset | Failure::Closed | Failure::Hang => return None,
    };
    Some(refused(&refusal, ask.refusals))
}

/// RBAC's words.
fn no_right(ask: &Ask) -> String {
    let place = if ask.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace \"{}\"", ask.namespace)
    };
    format!(
        "User \"{}\" cannot {} resource \"{}\" in API group \"{}\" {place}",
        if ask.client.is_empty() {
            "system:anonymous"
        } else {
            &ask.client
        },
        ask.verb,
        ask.kind.resource,
        ask.kind.group()
    )
}

/// Returns the answer of priority and fairness: Go's `http.Error`, not a Status.
fn overloaded(retry_after: u32) -> Response<ResponseBody> {
    let body = ResponseBody::whole("Too many requests, please try again later.\n");
    let mut response = response(StatusCode::TOO_MANY_REQUESTS, "text/plain; charset=utf-8", body);
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from(retry_after));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}

/// Returns the answer of a proxy that has no backend for a path.
fn no_route() -> Response<ResponseBody> {
    let body = ResponseBody::whole("default backend - 404");
    response(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", body)
}

/// Refused options of a streaming list, as a server answers that does not offer these.
pub(crate) fn no_streaming_lists(ask: &Ask) -> Response<ResponseBody> {
    let cause = Cause::new(
        "FieldValueForbidden",
        "sendInitialEvents",
        "Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
    );
    refused(&Refusal::invalid_options(vec![cause]), ask.refusals)
}
