//! Objects of the repository's manifests, and how they get into a cluster.

use crate::api::{self, Http};
use crate::wait::until;
use anyhow::{Context, anyhow, bail};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

/// How long the API server may take to make kube-system, and to know new rules.
pub(super) const LIMIT: Duration = Duration::from_secs(30);
pub(super) const NAMESPACE: &str = "kube-system";
/// The name of endpointd's account, and of its Lease.
pub(super) const ACCOUNT: &str = "endpointd";
/// As long as a run can take.
const TOKEN_SECONDS: u32 = 12 * 3600;

/// The account that endpointd runs as and all rights that the manifests give to it, mirroring included.
const RULES: [&str; 4] = [
    include_str!("../../../deploy/kustomize/base/serviceaccount.yaml"),
    include_str!("../../../deploy/kustomize/base/rbac.yaml"),
    include_str!("../../../deploy/kustomize/base/flowschema.yaml"),
    include_str!("../../../deploy/kustomize/overlays/mirroring/rbac.yaml"),
];

/// Applies objects, of whatever kinds the server has.
pub(super) struct Applier {
    http: Http,
    /// The collections of the kinds of each group and version, and whether these are in namespaces.
    kinds: HashMap<String, HashMap<String, (String, bool)>>,
}

// === impl Applier ===

impl Applier {
    pub(super) fn new(http: Http) -> Self {
        Self {
            http,
            kinds: HashMap::new(),
        }
    }

    /// The path of an object.
    pub(super) async fn path(&mut self, object: &Value) -> anyhow::Result<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let base = if version.contains('/') {
            format!("/apis/{version}")
        } else {
            format!("/api/{version}")
        };
        if !self.kinds.contains_key(&version) {
            let list = self.http.read(&base).await;
            let list = list.with_context(|| format!("the server has no {version}"))?;
            let resources = list["resources"].as_array().into_iter().flatten();
            let whole = resources.filter(|resource| !text(&resource["name"]).contains('/'));
            let kinds = whole.map(|resource| {
                let namespaced = resource["namespaced"] == true;
                (text(&resource["kind"]), (text(&resource["name"]), namespaced))
            });
            self.kinds.insert(version.clone(), kinds.collect());
        }
        let found = self.kinds[&version].get(&kind);
        let (plural, namespaced) = found.with_context(|| format!("the server has no {kind} in {version}"))?;
        let meta = &object["metadata"];
        let name = text(&meta["name"]);
        Ok(match (namespaced, meta["namespace"].as_str()) {
            (false, _) => format!("{base}/{plural}/{name}"),
            (true, Some(namespace)) => format!("{base}/namespaces/{namespace}/{plural}/{name}"),
            (true, None) => bail!("{kind} {name} names no namespace"),
        })
    }

    /// Whether the server has objects of this kind.
    pub(super) async fn knows(&mut self, object: &Value) -> bool {
        self.path(object).await.is_ok()
    }

    /// Applies an object, or has the server only check it.
    pub(super) async fn apply(&mut self, object: &Value, dry_run: bool) -> anyhow::Result<Value> {
        let what = || format!("{} {}", object["kind"], object["metadata"]["name"]).replace('"', "");
        let path = self.path(object).await.with_context(what)?;
        self.http.apply(&path, object, dry_run).await.with_context(what)
    }

    pub(super) async fn apply_all(&mut self, objects: &[Value]) -> anyhow::Result<()> {
        for object in objects {
            self.apply(object, false).await?;
        }
        Ok(())
    }
}

/// The documents of a YAML text.
pub(super) fn documents(text: &str) -> anyhow::Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| anyhow!("{error}"))?;
    Ok(documents
        .into_iter()
        .filter(|document| !document.is_null())
        .collect())
}

/// The objects of [`RULES`], in the order in which they are applied.
pub(super) fn rules() -> anyhow::Result<Vec<Value>> {
    let documents = RULES.iter().map(|text| documents(text));
    let documents: Vec<Vec<Value>> = documents.collect::<anyhow::Result<_>>()?;
    Ok(documents.concat())
}

/// Waits until there is the namespace that the API server itself makes.
pub(super) async fn wait_for_namespace(http: &Http) -> anyhow::Result<()> {
    let path = api::Resource::Namespaces.path("", NAMESPACE);
    until("the namespace kube-system", LIMIT, async || {
        http.read(&path).await.map(drop)
    })
    .await
}

/// A token of endpointd's service account.
pub(super) async fn account_token(http: &Http) -> anyhow::Result<String> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token");
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": { "expirationSeconds": TOKEN_SECONDS },
    });
    let answer = http.ask(&path, &request).await?;
    let token = answer["status"]["token"].as_str();
    Ok(token.context("the server made no token")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_name_one_account_and_what_it_may_do() {
        let rules = rules().unwrap();
        let of = |kind: &str| rules.iter().filter(|object| object["kind"] == kind).count();
        assert_eq!(of("ServiceAccount"), 1);
        assert!(of("ClusterRole") >= 3 && of("ClusterRoleBinding") >= 3 && of("FlowSchema") == 2);
        let account = rules
            .iter()
            .find(|object| object["kind"] == "ServiceAccount")
            .unwrap();
        assert_eq!(account["metadata"]["name"], ACCOUNT);
        assert_eq!(account["metadata"]["namespace"], NAMESPACE);
    }
}
