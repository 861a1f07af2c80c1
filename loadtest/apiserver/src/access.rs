//! Access control: bearer tokens, the users behind them, and the rules of RBAC objects.

mod attributes;
mod objects;
mod review;
mod rules;

pub(crate) use self::attributes::Attributes;
pub use self::objects::AccessError;
pub(crate) use self::review::{Review, answer};

use self::rules::Tables;
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
/// It holds from the start the roles of every cluster that a client needs: `system:discovery`, `system:public-info-viewer`, `system:basic-user`, `system:auth-delegator`, and the Role
/// `extension-apiserver-authentication-reader`, bound as a cluster binds them.
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
        for object in yaml::documents(objects::EVERY_CLUSTER).map_err(AccessError::Yaml)? {
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
        user.ok_or_else(Refusal::unauthorized)
    }

    /// 403 when the user may not do this.
    pub(crate) fn authorise(&self, user: &User, attributes: &Attributes) -> Answer<()> {
        self.decide(user, attributes)
            .map_err(|why| attributes.refusal(&user.name, &why))
    }

    /// Returns the reason why the user may not do this, which is mostly empty.
    fn decide(&self, user: &User, attributes: &Attributes) -> Result<(), String> {
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(());
        }
        self.tables.allow(user, attributes)
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
