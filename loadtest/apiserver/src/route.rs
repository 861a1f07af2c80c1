//! From a path to what it names.

use crate::access::Review;
use crate::kinds::Kind;
use crate::object::Object;
use crate::store::State;
use percent_encoding::percent_decode_str;

/// The target that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// `/api`, `/version` and the like.
    Plain(Plain),
    Object(ObjectTarget),
    /// Where reviews are posted, when access is controlled.
    Review(Review),
    Nothing,
}

/// The paths that name no objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plain {
    Api,
    Apis,
    Group(String),
    /// A group, which is empty for the core, and its version.
    Resources(String, String),
    Version,
    Health,
    /// `v2`, `v3`, `v3/api/v1` and so on.
    OpenApi(String),
}

/// A collection, an object in it, or a part of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectTarget {
    pub(crate) kind: Kind,
    /// Empty for what has no namespace, and for a list of all namespaces.
    pub(crate) namespace: String,
    /// Empty for the collection.
    pub(crate) name: String,
    pub(crate) sub: Sub,
}

/// The part of an object that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sub {
    Main,
    Status,
    Finalize,
    /// The node of a pod.
    Binding,
    /// The number of replicas.
    Scale,
}

impl ObjectTarget {
    /// An object that is stored.
    pub(crate) fn of(object: &Object) -> Self {
        Self {
            kind: object.kind,
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            sub: Sub::Main,
        }
    }
}

/// Returns the target that a path names, among the kinds that `state` serves.
pub(crate) fn target(path: &str, state: &State) -> Target {
    let segments: Vec<String> = path
        .split('/')
        .filter(|s| !s.is_empty())
        .map(|s| percent_decode_str(s).decode_utf8_lossy().into_owned())
        .collect();
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    let resources = |group: &str, version: &str| Plain::Resources(group.to_owned(), version.to_owned());
    match parts.as_slice() {
        ["api"] => Target::Plain(Plain::Api),
        ["apis"] => Target::Plain(Plain::Apis),
        ["apis", group] => Target::Plain(Plain::Group((*group).to_owned())),
        ["api", "v1"] => Target::Plain(resources("", "v1")),
        ["apis", group, version] => Target::Plain(resources(group, version)),
        ["openapi", rest @ ..] => Target::Plain(Plain::OpenApi(rest.join("/"))),
        ["version"] => Target::Plain(Plain::Version),
        ["healthz" | "livez" | "readyz", ..] => Target::Plain(Plain::Health),
        ["api", "v1", rest @ ..] => object(state, "", "v1", rest),
        ["apis", group, version, rest @ ..] if !group.is_empty() => {
            let review = match rest {
                [resource] if *version == "v1" => Review::find(group, resource),
                _ => None,
            };
            review.map_or_else(|| object(state, group, version, rest), Target::Review)
        }
        _ => Target::Nothing,
    }
}

fn object(state: &State, group: &str, version: &str, rest: &[&str]) -> Target {
    let find = |resource: &str| state.find(group, version, resource);
    let found = match rest {
        ["namespaces", namespace, resource, tail @ ..] if find(resource).is_some_and(|k| k.namespaced) => {
            find(resource).map(|kind| (kind, *namespace, tail))
        }
        [resource, tail @ ..] => find(resource)
            .filter(|kind| !kind.namespaced || tail.is_empty())
            .map(|kind| (kind, "", tail)),
        [] => None,
    };
    let Some((kind, namespace, tail)) = found else {
        return Target::Nothing;
    };
    let (name, sub) = match tail {
        [] => ("", Sub::Main),
        [name] => (*name, Sub::Main),
        [name, sub] if kind.subresources.contains(sub) => match *sub {
            "status" => (*name, Sub::Status),
            "binding" => (*name, Sub::Binding),
            "scale" => (*name, Sub::Scale),
            _ => (*name, Sub::Finalize),
        },
        _ => return Target::Nothing,
    };
    Target::Object(ObjectTarget {
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        sub,
    })
}
