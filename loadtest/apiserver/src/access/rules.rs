//! Roles, bindings, and whether they allow something.

use super::User;
use super::attributes::{About, Attributes, Resource};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The group of RBAC objects.
const RBAC: &str = "rbac.authorization.k8s.io";

/// All roles and bindings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    /// By namespace (empty for a `ClusterRole`) and name.
    pub(crate) roles: BTreeMap<(String, String), Vec<Rule>>,
    /// By namespace (empty for a `ClusterRoleBinding`) and name.
    pub(crate) bindings: BTreeMap<(String, String), Binding>,
}

/// A rule of a role.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Rule {
    pub(crate) api_groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) resource_names: Vec<String>,
    pub(crate) verbs: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    pub(crate) non_resource_urls: Vec<String>,
}

/// A binding, which gives a role to subjects.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Binding {
    pub(crate) role_ref: RoleRef,
    #[serde(default)]
    pub(crate) subjects: Vec<Subject>,
}

/// The role of a binding.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RoleRef {
    pub(crate) kind: String,
    pub(crate) name: String,
}

/// A subject that is given a role.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Subject {
    pub(crate) kind: String,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) namespace: String,
}

impl Tables {
    /// Whether a binding allows a request; else the message about bindings that lead nowhere.
    pub(crate) fn allow(&self, user: &User, attributes: &Attributes) -> Result<(), String> {
        let namespace = match &attributes.about {
            About::Resource(about) => about.namespace.as_str(),
            About::Path(_) => "",
        };
        let mut missing: Vec<String> = Vec::new();
        for (id, binding) in &self.bindings {
            if !id.0.is_empty() && id.0 != namespace {
                continue;
            }
            if !binding.subjects.iter().any(|subject| subject.is(user, &id.0)) {
                continue;
            }
            let home = if binding.role_ref.kind == "ClusterRole" {
                ""
            } else {
                &id.0
            };
            let Some(rules) = self.roles.get(&(home.to_owned(), binding.role_ref.name.clone())) else {
                let RoleRef { kind, name } = &binding.role_ref;
                let said = format!("{}.{RBAC} \"{name}\" not found", kind.to_ascii_lowercase());
                if !missing.contains(&said) {
                    missing.push(said);
                }
                continue;
            };
            // Only a ClusterRoleBinding speaks about paths.
            let heard = id.0.is_empty() || matches!(attributes.about, About::Resource(_));
            if heard && rules.iter().any(|rule| rule.allows(attributes)) {
                return Ok(());
            }
        }
        Err(match missing.as_slice() {
            [] => String::new(),
            [one] => format!("RBAC: {one}"),
            more => format!("RBAC: [{}]", more.join(", ")),
        })
    }
}

impl Rule {
    fn allows(&self, attributes: &Attributes) -> bool {
        let among = |list: &[String], wanted: &str| list.iter().any(|one| one == "*" || one == wanted);
        if !among(&self.verbs, &attributes.verb) {
            return false;
        }
        match &attributes.about {
            About::Path(path) => self
                .non_resource_urls
                .iter()
                .any(|url| match url.strip_suffix('*') {
                    Some(beginning) => path.starts_with(beginning),
                    None => url == path,
                }),
            About::Resource(about) => {
                among(&self.api_groups, &about.group)
                    && self.names_resource(about)
                    && (self.resource_names.is_empty() || self.resource_names.contains(&about.name))
            }
        }
    }

    fn names_resource(&self, about: &Resource) -> bool {
        self.resources.iter().any(|resource| {
            if resource == "*" {
                return true;
            }
            match resource.split_once('/') {
                Some(("*", part)) => !about.subresource.is_empty() && part == about.subresource,
                Some((whole, part)) => whole == about.resource && part == about.subresource,
                None => about.subresource.is_empty() && *resource == about.resource,
            }
        })
    }
}

impl Subject {
    fn is(&self, user: &User, binding_namespace: &str) -> bool {
        match self.kind.as_str() {
            "User" => self.name == user.name,
            "Group" => user.groups.contains(&self.name),
            "ServiceAccount" => {
                let namespace = if self.namespace.is_empty() {
                    binding_namespace
                } else {
                    &self.namespace
                };
                let account = user.name.strip_prefix("system:serviceaccount:");
                !namespace.is_empty()
                    && account.and_then(|rest| rest.split_once(':')) == Some((namespace, self.name.as_str()))
            }
            _ => false,
        }
    }
}
