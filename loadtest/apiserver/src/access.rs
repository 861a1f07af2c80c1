//! Access control: bearer tokens, the users behind them, and the rules of RBAC objects.

mod attributes;
mod objects;
mod review;
mod rules;

pub(crate) use self::attributes::Attributes;
pub use self::objects::AccessError;
pub(crate) use self::review::{Review, answer};

use self::rules::{Grant, Tables};
use crate::status::{Answer, Refusal};
use crate::yaml;
use http::{HeaderMap, header};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The group whose members may do everything, whatever the rules say.
const MASTERS: &str = "system:masters";

/// Access control: who is behind a bearer token, and what RBAC objects allow them.
///
/// It holds from the start the roles every cluster has that a client needs to be one: `cluster-admin`,
/// `system:discovery`, `system:public-info-viewer`, `system:basic-user`, `system:auth-delegator`, and the Role
/// `extension-apiserver-authentication-reader`, bound as a cluster binds them.
///
/// ```
/// use memory_apiserver::{Access, Config};
///
/// # fn main() -> Result<(), memory_apiserver::AccessError> {
/// let access = Access::from_yaml(
///     r#"
/// apiVersion: rbac.authorization.k8s.io/v1
/// kind: ClusterRole
/// metadata: {name: reader}
/// rules:
/// - apiGroups: [""]
///   resources: [pods, pods/status]
///   verbs: [get, list, watch]
/// ---
/// apiVersion: rbac.authorization.k8s.io/v1
/// kind: ClusterRoleBinding
/// metadata: {name: reader}
/// roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
/// subjects:
/// - {kind: ServiceAccount, name: controller, namespace: kube-system}
/// "#,
/// )?
/// .service_account("its-token", "kube-system", "controller")
/// .user("my-token", "me", ["system:masters"]);
/// let config = Config::default().access(access);
/// # let _ = config;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Access {
    tokens: BTreeMap<String, User>,
    tables: Tables,
    anonymous: bool,
}

/// The user that sends a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
}

// === impl Access ===

impl Access {
    /// The access that these objects give: `Role`, `ClusterRole` and their bindings, of
    /// `rbac.authorization.k8s.io/v1`, alone or in Lists. Others are passed over, so that a whole manifest can be
    /// given.
    ///
    /// # Errors
    ///
    /// When one of these objects has not the fields of its kind. A real server checks more than that.
    pub fn from_objects(objects: impl IntoIterator<Item = Value>) -> Result<Self, AccessError> {
        let mut tables = Tables::default();
        for object in objects::every_cluster() {
            objects::add(&mut tables, object)?;
        }
        for object in objects {
            objects::add(&mut tables, object)?;
        }
        Ok(Self {
            tokens: BTreeMap::new(),
            tables,
            anonymous: true,
        })
    }

    /// The same, from a YAML text of one or more documents.
    ///
    /// # Errors
    ///
    /// When the text is not YAML, or as [`Access::from_objects`].
    pub fn from_yaml(text: &str) -> Result<Self, AccessError> {
        Self::from_objects(yaml::documents(text).map_err(AccessError::Yaml)?)
    }

    /// Requests with this bearer token are made by this service account.
    #[must_use]
    pub fn service_account(mut self, token: &str, namespace: &str, name: &str) -> Self {
        let user = User::named(format!("system:serviceaccount:{namespace}:{name}"), Vec::new());
        self.tokens.insert(token.to_owned(), user);
        self
    }

    /// Requests with this bearer token are made by this user, who is a member of these groups and of
    /// `system:authenticated`. Members of `system:masters` may do everything.
    #[must_use]
    pub fn user<'a>(mut self, token: &str, name: &str, groups: impl IntoIterator<Item = &'a str>) -> Self {
        let groups = groups.into_iter().map(str::to_owned).collect();
        self.tokens
            .insert(token.to_owned(), User::named(name.to_owned(), groups));
        self
    }

    /// Whether a request without a token is one of `system:anonymous`, who may do what its bindings allow (by default
    /// ask for the version and for health). It is so at first, as in a cluster; else such a request is refused with
    /// 401. A token that belongs to no user is refused with 401 in both cases.
    #[must_use]
    pub fn anonymous(mut self, allowed: bool) -> Self {
        self.anonymous = allowed;
        self
    }

    /// Returns the user behind a token.
    pub(crate) fn holder(&self, token: &str) -> Option<&User> {
        self.tokens.get(token)
    }

    /// Returns the user that a request's headers authenticate; 401 if they authenticate none.
    pub(crate) fn authenticate(&self, headers: &HeaderMap, token: Option<&str>) -> Answer<User> {
        let given = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim())
            .filter(|token| !token.is_empty())
            .or(token);
        let user = match given {
            Some(token) => self.holder(token).cloned(),
            None => self.anonymous.then(User::anonymous),
        };
        let user = user.ok_or_else(Refusal::unauthorized)?;
        self.impersonate(user, headers)
    }

    /// Returns the user that the headers ask to impersonate, if that is allowed; without such a header, the user as it
    /// is.
    fn impersonate(&self, user: User, headers: &HeaderMap) -> Answer<User> {
        let text = |value: &http::HeaderValue| value.to_str().unwrap_or("").to_owned();
        let groups: Vec<String> = headers.get_all("impersonate-group").iter().map(text).collect();
        let Some(name) = headers.get("impersonate-user").map(text) else {
            return Ok(user);
        };
        self.authorise(&user, &Attributes::impersonation_of(&name))?;
        for group in &groups {
            self.authorise(&user, &Attributes::impersonation_in(group))?;
        }
        Ok(User::named(name, groups))
    }

    /// 403 when the user may not do this.
    pub(crate) fn authorise(&self, user: &User, attributes: &Attributes) -> Answer<()> {
        match self.decide(user, attributes) {
            Ok(_) => Ok(()),
            Err(why) => Err(attributes.refusal(&user.name, &why)),
        }
    }

    /// Returns the grant that allows a request (none for a member of `system:masters`, who needs no grant), or the
    /// reason why none does, which is mostly empty.
    fn decide(&self, user: &User, attributes: &Attributes) -> Result<Option<Grant<'_>>, String> {
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(None);
        }
        self.tables.find(user, attributes).map(Some)
    }
}

// === impl User ===

impl User {
    /// A user who has shown who they are, with the groups this gives beside their own.
    fn named(name: String, mut groups: Vec<String>) -> Self {
        if let Some((namespace, _)) = name
            .strip_prefix("system:serviceaccount:")
            .and_then(|rest| rest.split_once(':'))
            && groups.is_empty()
        {
            groups.push("system:serviceaccounts".to_owned());
            groups.push(format!("system:serviceaccounts:{namespace}"));
        }
        let proof = if name == ANONYMOUS {
            "system:unauthenticated"
        } else {
            "system:authenticated"
        };
        if !groups.iter().any(|group| group == proof) {
            groups.push(proof.to_owned());
        }
        Self { name, groups }
    }

    fn anonymous() -> Self {
        Self::named(ANONYMOUS.to_owned(), Vec::new())
    }
}

const ANONYMOUS: &str = "system:anonymous";

/// Access control and the user that sends a request; nothing when access is not controlled.
pub(crate) type Admitted = Option<(Arc<Access>, User)>;
