//! The rules of `deploy/kustomize`, as a server takes them, and one verb on one resource at a time.

use memory_apiserver::Access;
use serde_json::{Value, json};
use std::path::Path;

/// The token of the test, which may do everything.
pub(crate) const ADMIN: &str = "the-tests-own-token";

/// One verb on one resource.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Grant {
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) verb: String,
}

/// Roles and bindings, and the token of the service account that they are for.
pub(crate) struct Grants {
    objects: Vec<Value>,
    account: (String, String),
    token: &'static str,
}

fn read(path: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("deploy/kustomize")
        .join(path);
    let text = std::fs::read_to_string(&path).unwrap();
    serde_saphyr::from_multiple(&text).unwrap()
}

fn name(object: &Value) -> (&Value, &Value) {
    (&object["kind"], &object["metadata"]["name"])
}

impl Grants {
    /// The grants of a leader.
    pub(crate) fn of_base() -> Self {
        let [account] = &read("base/serviceaccount.yaml")[..] else {
            panic!("one service account");
        };
        let text = |key: &str| account["metadata"][key].as_str().unwrap().to_owned();
        Self {
            objects: read("base/rbac.yaml"),
            account: (text("namespace"), text("name")),
            token: "token-of-a-leader",
        }
    }

    /// The grants of a dry run: those of the base that its overlay leaves.
    pub(crate) fn of_dry_run() -> Self {
        let mut grants = Self::of_base();
        // Another account, so that what the base grants in the same cluster is not granted here.
        let account = ("shadow".to_owned(), grants.account.1.clone());
        for object in &mut grants.objects {
            let meta = &mut object["metadata"];
            meta["name"] = json!(format!("shadow-{}", meta["name"].as_str().unwrap()));
            if !object["roleRef"].is_null() {
                let role = object["roleRef"]["name"].as_str().unwrap();
                object["roleRef"]["name"] = json!(format!("shadow-{role}"));
                object["subjects"][0]["namespace"] = json!(account.0);
            }
        }
        (grants.account, grants.token) = (account, "token-of-a-dry-run");
        let [overlay] = &read("overlays/shadow/kustomization.yaml")[..] else {
            panic!("one kustomization");
        };
        let before = grants.objects.len();
        for patch in overlay["patches"].as_array().unwrap() {
            let Some(text) = patch["patch"].as_str() else {
                continue;
            };
            let patch: Value = serde_saphyr::from_str(text).unwrap();
            assert_eq!(patch["$patch"], "delete", "{patch}");
            let (kind, gone) = name(&patch);
            let gone = json!(format!("shadow-{}", gone.as_str().unwrap()));
            grants.objects.retain(|object| name(object) != (kind, &gone));
        }
        assert_eq!(grants.objects.len(), before - 4, "two roles and their bindings");
        grants
    }

    /// The grants of audits that run as a `CronJob` beside the controller.
    pub(crate) fn of_audits() -> Self {
        let [account] = &read("components/audit/serviceaccount.yaml")[..] else {
            panic!("one service account");
        };
        let text = |key: &str| account["metadata"][key].as_str().unwrap().to_owned();
        let mut grants = Self::of_base();
        let is_role = |object: &Value| {
            object["kind"] == "ClusterRole" && object["metadata"]["name"] == "endpointd-reader"
        };
        grants.objects.retain(is_role);
        grants.objects.extend(read("components/audit/rbac.yaml"));
        (grants.account, grants.token) = ((text("namespace"), text("name")), "token-of-an-audit");
        grants
    }

    pub(crate) fn token(&self) -> &'static str {
        self.token
    }

    /// All that is granted.
    pub(crate) fn all(&self) -> Vec<Grant> {
        let mut all = Vec::new();
        for rule in self.objects.iter().flat_map(|object| texts(&object["rules"])) {
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    for verb in texts(&rule["verbs"]) {
                        let text = |value: &Value| value.as_str().unwrap().to_owned();
                        all.push(Grant {
                            group: text(group),
                            resource: text(resource),
                            verb: text(verb),
                        });
                    }
                }
            }
        }
        all
    }

    /// With all roles, and bound to none of them.
    pub(crate) fn without_bindings(mut self) -> Self {
        self.objects.retain(|object| object["roleRef"].is_null());
        self
    }

    /// With one thing less.
    pub(crate) fn without(mut self, less: &Grant) -> Self {
        for object in &mut self.objects {
            let Some(rules) = object.get_mut("rules").and_then(Value::as_array_mut) else {
                continue;
            };
            let mut cut = Vec::new();
            for rule in rules.drain(..) {
                // Each resource gets a rule of its own, so that it can lose a verb by itself.
                for resource in texts(&rule["resources"]) {
                    let mut one = rule.clone();
                    one["resources"] = json!([resource]);
                    let group = one["apiGroups"] == json!([less.group]);
                    if group && resource.as_str() == Some(&less.resource) {
                        let verbs = one["verbs"].as_array_mut().unwrap();
                        verbs.retain(|verb| verb.as_str() != Some(&less.verb));
                    }
                    cut.push(one);
                }
            }
            cut.retain(|rule| rule["verbs"] != json!([]));
            *rules = cut;
        }
        self
    }
}

fn texts(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The rules that the server is to enforce.
pub(crate) fn access(grants: &[&Grants]) -> Access {
    let objects = grants.iter().flat_map(|grants| grants.objects.iter().cloned());
    let mut access = Access::from_objects(objects)
        .unwrap()
        .user(ADMIN, "test", ["system:masters"]);
    for grants in grants {
        let (namespace, name) = &grants.account;
        access = access.service_account(grants.token, namespace, name);
    }
    access
}

/// The resource in a request's path.
pub(crate) fn resource_of(path: &str) -> &str {
    let path = path.split('?').next().unwrap();
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let rest = &parts[if parts[0] == "api" { 2 } else { 3 }.min(parts.len())..];
    match rest {
        ["namespaces", _, resource, ..] | [resource, ..] => resource,
        [] => "",
    }
}
