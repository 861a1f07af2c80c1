//! Answers, and the forms they are written in.

use crate::accept::{Accepted, Form, Media, Offer, negotiate};
use crate::body::ResponseBody;
use crate::kinds::Kind;
use crate::list::List;
use crate::object::Object;
use crate::route::Plain;
use crate::status::{Answer, Refusal};
use crate::{discovery, kubectl, protobuf, write};
use bytes::BytesMut;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};
use serde_json::Value;
use std::sync::Arc;

const JSON: &str = "application/json";

/// An answer before it has its form.
pub(crate) enum Reply {
    Object(StatusCode, Arc<Object>),
    /// A document that has no form but JSON.
    Document(Value),
    /// An object that has a message and is not stored: a Status, a review.
    Made(StatusCode, Value),
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
    negotiate(&parts.headers, Offer::JsonOnly)?;
    if let Plain::OpenApi(path) = plain {
        let document = kubectl::openapi(path, kinds).ok_or_else(Refusal::no_such_path)?;
        return Ok(Reply::Document(document));
    }
    let document = discovery::document(plain, kinds, reviews).ok_or_else(Refusal::no_such_path)?;
    Ok(Reply::Document(document))
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
    let found = accepted.iter().find(|one| one.eq_ignore_ascii_case(media));
    found
        .copied()
        .ok_or_else(|| Refusal::unsupported_media(&accepted.join(", ")))
}

pub(crate) fn respond(reply: Reply, accepted: Accepted) -> Answer<Response<ResponseBody>> {
    let media = match accepted.media {
        Media::Json => JSON,
        Media::Protobuf => protobuf::MEDIA,
    };
    let (status, media, body) = match reply {
        Reply::Object(status, object) => (status, media, object_body(&object, accepted)?),
        Reply::Document(value) => (StatusCode::OK, JSON, json_line(&value)),
        // A Status has no metadata of its own to be asked for.
        Reply::Made(status, value) => match made(&value).filter(|_| accepted == Accepted::PROTOBUF) {
            Some(body) => (status, media, body),
            None => (status, JSON, json_line(&value)),
        },
        Reply::Text(text) => (
            StatusCode::OK,
            "text/plain; charset=utf-8",
            ResponseBody::whole(text),
        ),
        Reply::List(list) => (StatusCode::OK, media, list.body(accepted)?),
        Reply::Stream(body) if accepted.media == Media::Protobuf => {
            (StatusCode::OK, protobuf::WATCH_MEDIA, body)
        }
        Reply::Stream(body) => (StatusCode::OK, media, body),
    };
    Ok(response(status, media, body))
}

fn object_body(object: &Object, accepted: Accepted) -> Answer<ResponseBody> {
    let mut out = BytesMut::new();
    match (accepted.form, accepted.media) {
        (Form::MetadataList, _) => {
            return Err(Refusal::not_acceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*{})",
                object.kind.kind
            )));
        }
        (Form::Metadata, Media::Protobuf) => {
            protobuf::write_object(&mut out, protobuf::Type::METADATA, &object.metadata_message());
        }
        (_, Media::Protobuf) => protobuf::write_object(&mut out, object.message_type(), &object.message()),
        (Form::Metadata, Media::Json) => {
            object.write(&mut out, true);
            out.extend_from_slice(b"\n");
        }
        (Form::Table(style), Media::Json) => {
            style.single(&mut out, object, true);
            out.extend_from_slice(b"\n");
        }
        (Form::Whole, Media::Json) => return Ok(ResponseBody::whole(object.bytes.clone())),
    }
    Ok(ResponseBody::whole(out.freeze()))
}

/// Something that is not stored, in protobuf.
fn made(value: &Value) -> Option<ResponseBody> {
    let message = protobuf::made(value)?;
    let mut out = BytesMut::new();
    protobuf::write_object(&mut out, protobuf::type_of(value), &message);
    Some(ResponseBody::whole(out.freeze()))
}

fn json_line(value: &Value) -> ResponseBody {
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

pub(crate) fn refused(refusal: &Refusal, form: Media) -> Response<ResponseBody> {
    let code = StatusCode::from_u16(refusal.code).expect("refusals carry the statuses written in this crate");
    let status = refusal.status();
    let (media, body) = match made(&status).filter(|_| form == Media::Protobuf) {
        Some(body) => (protobuf::MEDIA, body),
        None => (JSON, json_line(&status)),
    };
    let mut response = response(code, media, body);
    if let Some(seconds) = refusal.retry_after {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
