//! Refusals: what becomes a `Status` on the wire.

use crate::cause::{Cause, Faults};
use crate::kinds::Kind;
use serde_json::{Value, json};
use std::borrow::Cow;

/// A request refused: everything its Status says.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Refusal {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// Name, group and kind (or resource) as details give them.
    about: Option<About>,
    causes: Vec<Cause>,
    pub(crate) retry_after: Option<u32>,
    /// Where an interrupted list can go on.
    continue_token: Option<String>,
}

#[derive(Clone, Debug, Default)]
struct About {
    name: String,
    group: Cow<'static, str>,
    kind: String,
}

pub(crate) type Answer<T> = Result<T, Box<Refusal>>;

impl Refusal {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            about: None,
            causes: Vec::new(),
            retry_after: None,
            continue_token: None,
        }
    }

    /// One that is about no object, and says so with empty details.
    fn general(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            about: Some(About::default()),
            ..Self::new(code, reason, message)
        }
    }

    fn about(mut self, kind: Kind, name: &str) -> Self {
        self.about = Some(About {
            name: name.to_owned(),
            group: kind.group().into(),
            kind: kind.resource.to_owned(),
        });
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Box<Self> {
        Box::new(Self::new(400, "BadRequest", message))
    }

    pub(crate) fn not_found(kind: Kind, name: &str) -> Box<Self> {
        let message = format!("{} \"{name}\" not found", kind.qualified_resource());
        Box::new(Self::new(404, "NotFound", message).about(kind, name))
    }

    /// A path nothing is served at.
    pub(crate) fn no_such_path() -> Box<Self> {
        Box::new(Self::general(
            404,
            "NotFound",
            "the server could not find the requested resource",
        ))
    }

    pub(crate) fn exists(kind: Kind, name: &str) -> Box<Self> {
        let message = format!("{} \"{name}\" already exists", kind.qualified_resource());
        Box::new(Self::new(409, "AlreadyExists", message).about(kind, name))
    }

    pub(crate) fn conflict(kind: Kind, name: &str, why: &str) -> Box<Self> {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {why}",
            kind.qualified_resource()
        );
        Box::new(Self::new(409, "Conflict", message).about(kind, name))
    }

    /// A patch a client wanted to be read strictly.
    pub(crate) fn invalid_patch(why: &str) -> Box<Self> {
        let cause = Cause::new("FieldValueInvalid", "patch", format!("Invalid value: {why}"));
        Self::invalid_of("", "", "", "", vec![cause])
    }

    /// A patch that does not fit the object.
    pub(crate) fn unprocessable(kind: Kind, name: &str) -> Box<Self> {
        let message = "the server rejected our request due to an error in our request";
        Box::new(Self::new(422, "Invalid", message).about(kind, name))
    }

    /// The version in the request is not the stored one.
    pub(crate) fn stale(kind: Kind, name: &str) -> Box<Self> {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, why)
    }

    pub(crate) fn forbidden(kind: Kind, name: &str, why: &str, causes: Vec<Cause>) -> Box<Self> {
        let message = format!("{} \"{name}\" is forbidden: {why}", kind.qualified_resource());
        let mut refusal = Self::new(403, "Forbidden", message).about(kind, name);
        refusal.causes = causes;
        Box::new(refusal)
    }

    /// A request that authenticates as no user.
    pub(crate) fn unauthorized() -> Box<Self> {
        Box::new(Self::new(401, "Unauthorized", "Unauthorized"))
    }

    /// Rules do not allow this.
    pub(crate) fn denied(message: String, name: &str, group: &str, resource: &str) -> Box<Self> {
        let mut refusal = Self::new(403, "Forbidden", message);
        refusal.about = Some(About {
            name: name.to_owned(),
            group: group.to_owned().into(),
            kind: resource.to_owned(),
        });
        Box::new(refusal)
    }

    /// Something is to be made in a namespace on its way out.
    pub(crate) fn terminating(kind: Kind, name: &str, namespace: &str) -> Box<Self> {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let cause = Cause::new(
            "NamespaceTerminating",
            "metadata.namespace",
            format!("namespace {namespace} is being terminated"),
        );
        Self::forbidden(kind, name, &why, vec![cause])
    }

    pub(crate) fn invalid(kind: Kind, name: &str, causes: Vec<Cause>) -> Box<Self> {
        Self::invalid_of(&kind.qualified_kind(), kind.group(), kind.kind, name, causes)
    }

    /// Refused options of a list or watch.
    pub(crate) fn invalid_options(causes: Vec<Cause>) -> Box<Self> {
        Self::invalid_of(
            "ListOptions.meta.k8s.io",
            "meta.k8s.io",
            "ListOptions",
            "",
            causes,
        )
    }

    /// Options of a list or watch, refused when something is wrong with them.
    pub(crate) fn of_options(faults: Faults) -> Answer<()> {
        if faults.0.is_empty() {
            Ok(())
        } else {
            Err(Self::invalid_options(faults.0))
        }
    }

    /// A review that does not say what it asks.
    pub(crate) fn invalid_review(group: &'static str, kind: &str, field: &str, message: &str) -> Box<Self> {
        let cause = Cause::new("FieldValueInvalid", field, message);
        Self::invalid_of(&format!("{kind}.{group}"), group, kind, "", vec![cause])
    }

    fn invalid_of(
        qualified: &str,
        group: &'static str,
        kind: &str,
        name: &str,
        causes: Vec<Cause>,
    ) -> Box<Self> {
        let line = |cause: &Cause| format!("{}: {}", cause.field, cause.message);
        let mut said: Vec<String> = causes.iter().map(line).collect();
        said.dedup();
        let list = match said.as_slice() {
            [one] => one.clone(),
            all => format!("[{}]", all.join(", ")),
        };
        let mut refusal = Self::new(
            422,
            "Invalid",
            format!("{qualified} \"{name}\" is invalid: {list}"),
        );
        refusal.about = Some(About {
            name: name.to_owned(),
            group: group.into(),
            kind: kind.to_owned(),
        });
        refusal.causes = causes;
        Box::new(refusal)
    }

    pub(crate) fn method_not_allowed() -> Box<Self> {
        Self::not_now("the server does not allow this method on the requested resource")
    }

    /// A method that is not allowed as things stand.
    pub(crate) fn not_now(message: &str) -> Box<Self> {
        Box::new(Self::general(405, "MethodNotAllowed", message))
    }

    /// A request whose client accepts no form that the server has.
    pub(crate) fn not_acceptable(message: impl Into<String>) -> Box<Self> {
        Box::new(Self::new(406, "NotAcceptable", message))
    }

    pub(crate) fn unsupported_media(accepted: &str) -> Box<Self> {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Box::new(Self::new(415, "UnsupportedMediaType", message))
    }

    pub(crate) fn too_large(limit: usize) -> Box<Self> {
        let message = format!("Request entity too large: limit is {limit}");
        Box::new(Self::new(413, "RequestEntityTooLarge", message))
    }

    pub(crate) fn expired(message: impl Into<String>, token: Option<String>) -> Box<Self> {
        let mut refusal = Self::new(410, "Expired", message);
        refusal.continue_token = token;
        Box::new(refusal)
    }

    /// A version that is not there yet.
    pub(crate) fn future_version(asked: u64, current: u64) -> Box<Self> {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let mut refusal = Self::general(504, "Timeout", message);
        refusal.causes.push(Cause::new(
            "ResourceVersionTooLarge",
            "",
            "Too large resource version",
        ));
        refusal.retry_after = Some(1);
        Box::new(refusal)
    }

    pub(crate) fn too_many_requests(retry_after: u32) -> Box<Self> {
        let message = "the server has received too many requests and has asked us to try again later";
        let mut refusal = Self::general(429, "TooManyRequests", message);
        refusal.retry_after = Some(retry_after);
        Box::new(refusal)
    }

    pub(crate) fn internal(why: &str) -> Box<Self> {
        let message = format!("Internal error occurred: {why}");
        let mut refusal = Self::general(500, "InternalError", message);
        refusal.causes.push(Cause::new("", "", why));
        Box::new(refusal)
    }

    /// The server gave up on the request, which may have been applied.
    pub(crate) fn timeout() -> Box<Self> {
        let message = "Timeout: request did not complete within the allotted timeout";
        Box::new(Self::general(504, "Timeout", message))
    }

    /// The Status object.
    pub(crate) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message,
            "code": self.code,
        });
        if let Some(token) = &self.continue_token {
            status["metadata"]["continue"] = token.as_str().into();
        }
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(About { name, group, kind }) = &self.about {
            let mut details = json!({"name": name, "group": group, "kind": kind});
            if let Some(fields) = details.as_object_mut() {
                fields.retain(|_, text| *text != "");
            }
            if !self.causes.is_empty() {
                details["causes"] = self.causes.iter().map(cause_value).collect();
            }
            if let Some(seconds) = self.retry_after {
                details["retryAfterSeconds"] = seconds.into();
            }
            status["details"] = details;
        }
        status
    }
}

fn cause_value(cause: &Cause) -> Value {
    let mut value = json!({"message": cause.message, "reason": cause.reason, "field": cause.field});
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|name, text| name == "message" || *text != "");
    }
    value
}
