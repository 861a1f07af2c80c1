//! Answers, and the forms they are written in.

use crate::accept::{Form, negotiate};
use crate::body::ResponseBody;
use crate::kinds::Kind;
use crate::list::List;
use crate::object::Object;
use crate::route::Plain;
use crate::status::{Answer, Refusal};
use crate::write;
use crate::{discovery, openapi};
use bytes::BytesMut;
use http::{HeaderValue, Method, Response, StatusCode, header, request::Parts};
use std::sync::Arc;

/// An answer before it has its form.
pub(crate) enum Reply {
    Object(StatusCode, Arc<Object>),
    Json(StatusCode, serde_json::Value),
    Text(&'static str),
    List(List),
    Stream(ResponseBody),
}

pub(crate) fn document(parts: &Parts, plain: &Plain, kinds: &[Kind], reviews: bool) -> Answer<Reply> {
    if parts.method != Method::GET && parts.method != Method::HEAD {
        return Err(Refusal::method_not_allowed());
    }
    if *plain == Plain::Health {
        return Ok(Reply::Text("ok"));
    }
    negotiate(&parts.headers)?;
    if let Plain::OpenApi(path) = plain {
        let document = openapi::document(path, kinds).ok_or_else(Refusal::no_such_path)?;
        return Ok(Reply::Json(StatusCode::OK, document));
    }
    let host = parts
        .headers
        .get(header::HOST)
        .and_then(|h| h.to_str().ok())
        .unwrap_or("127.0.0.1");
    let document = discovery::document(plain, kinds, host, reviews).ok_or_else(Refusal::no_such_path)?;
    Ok(Reply::Json(StatusCode::OK, document))
}

pub(crate) fn written((object, created): write::Written) -> Reply {
    Reply::Object(
        if created {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        },
        object,
    )
}

/// The type of a request's body, which must be one of these.
pub(crate) fn media_type<'a>(parts: &Parts, accepted: &[&'a str]) -> Answer<&'a str> {
    let given = parts.headers.get(header::CONTENT_TYPE);
    let given = given.and_then(|given| given.to_str().ok()).unwrap_or("");
    let media = given.split(';').next().unwrap_or("").trim();
    let plain = media.is_empty() && accepted[0] == "application/json";
    let found = accepted
        .iter()
        .find(|one| plain || one.eq_ignore_ascii_case(media));
    found
        .copied()
        .ok_or_else(|| Refusal::unsupported_media(&accepted.join(", ")))
}

pub(crate) fn respond(reply: Reply, form: Form) -> Answer<Response<ResponseBody>> {
    let (status, media, body) = match reply {
        Reply::Object(status, object) => {
            if form == Form::MetadataList {
                let mut refusal = Refusal::not_acceptable();
                refusal.message = format!(
                    "you requested PartialObjectMetadataList, but the requested object is not a list (*{})",
                    object.kind.kind
                );
                return Err(refusal);
            }
            let mut out = BytesMut::new();
            let body = match form {
                Form::Metadata => {
                    object.write(&mut out, true);
                    out.extend_from_slice(b"\n");
                    out.freeze()
                }
                Form::Table(style) => {
                    style.single(&mut out, &object, true);
                    out.extend_from_slice(b"\n");
                    out.freeze()
                }
                _ => object.bytes.clone(),
            };
            (status, "application/json", ResponseBody::whole(body))
        }
        Reply::Json(status, value) => (status, "application/json", json_line(&value)),
        Reply::Text(text) => (
            StatusCode::OK,
            "text/plain; charset=utf-8",
            ResponseBody::whole(text),
        ),
        Reply::List(list) => (StatusCode::OK, "application/json", list.body(form)?),
        Reply::Stream(body) => (StatusCode::OK, "application/json", body),
    };
    Ok(response(status, media, body))
}

fn json_line(value: &serde_json::Value) -> ResponseBody {
    ResponseBody::whole(format!("{value}\n"))
}

pub(crate) fn response(
    status: StatusCode,
    media: &'static str,
    body: ResponseBody,
) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    response
}

pub(crate) fn refused(refusal: &Refusal) -> Response<ResponseBody> {
    let status =
        StatusCode::from_u16(refusal.code).expect("refusals carry the statuses written in this crate");
    let mut response = response(status, "application/json", json_line(&refusal.status()));
    if let Some(seconds) = refusal.retry_after {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
