//! The attributes of a request, as rules see them: read from the path, whether or not anything is served there.

use crate::query::Query;
use crate::status::Refusal;
use http::Method;
use http::request::Parts;
use percent_encoding::percent_decode_str;

/// A verb and what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) verb: String,
    pub(crate) about: About,
}

/// The subject of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// Discovery, health and the like.
    Path(String),
    Resource(Resource),
}

/// A resource; empty is what is not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_field_names, reason = "so the API calls it")]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Attributes {
    pub(crate) fn of(parts: &Parts) -> Self {
        let path = parts.uri.path();
        let decoded: Vec<String> = path
            .split('/')
            .filter(|segment| !segment.is_empty())
            .map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned())
            .collect();
        let segments: Vec<&str> = decoded.iter().map(String::as_str).collect();
        let (group, rest) = match segments.as_slice() {
            ["api", _version, rest @ ..] if !rest.is_empty() => ("", rest),
            ["apis", group, _version, rest @ ..] if !rest.is_empty() => (*group, rest),
            _ => {
                return Self {
                    verb: parts.method.as_str().to_ascii_lowercase(),
                    about: About::Path(path.to_owned()),
                };
            }
        };
        let mut resource = Resource {
            group: group.to_owned(),
            ..Resource::default()
        };
        let rest = match rest {
            ["namespaces", namespace, tail @ ..] => {
                (*namespace).clone_into(&mut resource.namespace);
                // A namespace and its parts lie in themselves.
                if matches!(tail, [] | ["status" | "finalize"]) {
                    rest
                } else {
                    tail
                }
            }
            rest => rest,
        };
        let at = |i: usize| rest.get(i).copied().unwrap_or("").to_owned();
        (resource.resource, resource.name, resource.subresource) = (at(0), at(1), at(2));
        let query = Query::parse(parts.uri.query());
        let collection = resource.name.is_empty();
        let verb = match parts.method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if collection => "deletecollection",
            Method::DELETE => "delete",
            _ if collection && query.flag("watch") => "watch",
            _ if collection => "list",
            _ => "get",
        };
        if matches!(verb, "list" | "watch" | "deletecollection") {
            resource.name = name_selected(query.text("fieldSelector"));
        }
        Self {
            verb: verb.to_owned(),
            about: About::Resource(resource),
        }
    }

    /// The same with another verb.
    pub(crate) fn with_verb(&self, verb: &str) -> Self {
        Self {
            verb: verb.to_owned(),
            about: self.about.clone(),
        }
    }

    /// How it is refused to a user; `why` is empty when there is nothing more to say.
    pub(crate) fn refusal(&self, user: &str, why: &str) -> Box<Refusal> {
        let verb = &self.verb;
        let mut message = match &self.about {
            About::Path(path) => format!("forbidden: User \"{user}\" cannot {verb} path \"{path}\""),
            About::Resource(about) => {
                let Resource {
                    group,
                    resource,
                    namespace,
                    name,
                    ..
                } = about;
                let qualified = match group.as_str() {
                    "" => resource.clone(),
                    group => format!("{resource}.{group}"),
                };
                let object = if name.is_empty() {
                    qualified
                } else {
                    format!("{qualified} \"{name}\"")
                };
                let scope = if namespace.is_empty() {
                    "at the cluster scope".to_owned()
                } else {
                    format!("in the namespace \"{namespace}\"")
                };
                format!(
                    "{object} is forbidden: User \"{user}\" cannot {verb} resource \"{}\" in API group \"{group}\" {scope}",
                    about.with_part()
                )
            }
        };
        if !why.is_empty() {
            message.extend([": ", why]);
        }
        match &self.about {
            About::Path(_) => Refusal::denied(message, "", "", ""),
            About::Resource(about) => Refusal::denied(message, &about.name, &about.group, &about.resource),
        }
    }
}

impl Resource {
    /// `pods` or `pods/status`.
    pub(crate) fn with_part(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }
}

/// The one name a field selector lets through: a rule for that name allows such a list or watch.
fn name_selected(selector: &str) -> String {
    selector
        .split(',')
        .filter_map(|term| term.trim().strip_prefix("metadata.name="))
        .map(|name| name.strip_prefix('=').unwrap_or(name))
        .next()
        .unwrap_or("")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    #[test]
    fn requests_are_read_as_the_real_server_reads_them() {
        // What is refused, the verb, the resource and where.
        for line in [
            "GET /api/v1/pods|pods|list|pods|",
            "GET /api/v1/namespaces/x/pods?watch=1|pods|watch|pods|x",
            "PATCH /api/v1/namespaces/x/pods/p/status|pods \"p\"|patch|pods/status|x",
            "GET /api/v1/namespaces/x|namespaces \"x\"|get|namespaces|x",
            "PUT /api/v1/namespaces/x/finalize|namespaces \"x\"|update|namespaces/finalize|x",
            "DELETE /api/v1/namespaces/x/services|services|deletecollection|services|x",
            "GET /api/v1/nodes?fieldSelector=metadata.name%3Dn|nodes \"n\"|list|nodes|",
        ] {
            let [asked, about, verb, resource, place] = line.split('|').collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            let (method, uri) = asked.split_once(' ').unwrap();
            let request = Request::builder().method(method).uri(uri).body(()).unwrap();
            let said = Attributes::of(&request.into_parts().0)
                .refusal("u", "")
                .message
                .clone();
            let place = match place {
                "" => "at the cluster scope".to_owned(),
                place => format!("in the namespace \"{place}\""),
            };
            let wanted = format!(
                r#"{about} is forbidden: User "u" cannot {verb} resource "{resource}" in API group "" {place}"#
            );
            assert_eq!(said, wanted);
        }
    }
}
