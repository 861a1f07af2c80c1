//! Reviews: which user is behind a token, and what a user may do, asked by other clients.

use super::attributes::{About, Attributes, Resource};
use super::{Access, User};
use crate::accept::{Body, Media};
use crate::json::{text, texts};
use crate::protobuf;
use crate::status::{Answer, Refusal};
use serde_json::{Value, json};

/// The kinds of reviews that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Review {
    Token,
    Subject,
    SelfSubject,
}

impl Review {
    pub(crate) const ALL: [Self; 3] = [Self::Token, Self::Subject, Self::SelfSubject];

    pub(crate) fn find(group: &str, resource: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|review| review.group() == group && review.resource() == resource)
    }

    pub(crate) fn group(self) -> &'static str {
        match self {
            Self::Token => "authentication.k8s.io",
            Self::Subject | Self::SelfSubject => "authorization.k8s.io",
        }
    }

    pub(crate) fn resource(self) -> String {
        format!("{}s", self.kind().to_ascii_lowercase())
    }

    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Token => "TokenReview",
            Self::Subject => "SubjectAccessReview",
            Self::SelfSubject => "SelfSubjectAccessReview",
        }
    }
}

/// The review with its status filled in.
pub(crate) fn answer(access: &Access, asker: &User, review: Review, body: Body<'_>) -> Answer<Value> {
    let mut given = read(review, body)?;
    let version = format!("{}/v1", review.group());
    let (named, api) = (text(&given, "/kind"), text(&given, "/apiVersion"));
    if !given.is_object() || !["", review.kind()].contains(&named) || !["", version.as_str()].contains(&api) {
        return Err(Refusal::bad_request(format!(
            "the object provided is unrecognized (must be of type {})",
            review.kind()
        )));
    }
    let spec = given.get_mut("spec").map(Value::take).unwrap_or_default();
    let status = match review {
        Review::Token => token(access, &spec),
        Review::Subject => subject(access, &subject_of(&spec)?, review, &spec)?,
        Review::SelfSubject => subject(access, asker, review, &spec)?,
    };
    Ok(json!({
        "kind": review.kind(), "apiVersion": version,
        "metadata": given.get("metadata").filter(|m| m.is_object()).cloned().unwrap_or_else(|| json!({})),
        "spec": spec, "status": status,
    }))
}

fn read(review: Review, Body { bytes, media }: Body<'_>) -> Answer<Value> {
    let read = match media {
        Media::Json => serde_json::from_slice(bytes).map_err(|error| error.to_string()),
        Media::Protobuf => protobuf::read(bytes, review.kind()).map_err(|fault| fault.to_string()),
    };
    read.map_err(|why| protobuf::unrecognised(review.kind(), &why))
}

fn invalid(review: Review, field: &str, message: &str) -> Box<Refusal> {
    Refusal::invalid_review(review.group(), review.kind(), field, message)
}

fn token(access: &Access, spec: &Value) -> Value {
    match access.holder(text(spec, "/token")) {
        Some(user) => json!({
            "authenticated": true,
            "user": {"username": user.name, "groups": user.groups},
        }),
        None => json!({"user": {}, "error": "[invalid bearer token, no user has it]"}),
    }
}

fn subject_of(spec: &Value) -> Answer<User> {
    let user = User {
        name: text(spec, "/user").to_owned(),
        groups: texts(spec, "/groups"),
    };
    if user.name.is_empty() && user.groups.is_empty() {
        let message = "Invalid value: \"\": at least one of user or group must be specified";
        return Err(invalid(Review::Subject, "spec.user", message));
    }
    Ok(user)
}

fn subject(access: &Access, user: &User, review: Review, spec: &Value) -> Answer<Value> {
    let decision = access.decide(user, &attributes(review, spec)?);
    let mut status = json!({"allowed": decision.is_ok()});
    if let Some(why) = decision.err().filter(|why| !why.is_empty()) {
        status["reason"] = why.into();
    }
    Ok(status)
}

fn attributes(review: Review, spec: &Value) -> Answer<Attributes> {
    let path = spec.get("nonResourceAttributes").filter(|a| a.is_object());
    let resource = spec.get("resourceAttributes").filter(|a| a.is_object());
    let at = |value: &Value, field: &str| text(value, &format!("/{field}")).to_owned();
    match (path, resource) {
        (Some(path), None) => Ok(Attributes {
            verb: at(path, "verb"),
            about: About::Path(at(path, "path")),
        }),
        (None, Some(resource)) => Ok(Attributes {
            verb: at(resource, "verb"),
            about: About::Resource(Resource {
                group: at(resource, "group"),
                resource: at(resource, "resource"),
                subresource: at(resource, "subresource"),
                namespace: at(resource, "namespace"),
                name: at(resource, "name"),
            }),
        }),
        _ => {
            let message =
                "Invalid value: exactly one of nonResourceAttributes or resourceAttributes must be specified";
            Err(invalid(review, "spec.resourceAttributes", message))
        }
    }
}
