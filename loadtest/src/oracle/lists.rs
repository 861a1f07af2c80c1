//! Lists of whole kinds, page by page, of which only what the comparison needs is kept.

use anyhow::Context;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Container, Endpoints, Namespace, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::core::Resource;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

/// The objects of a page.
const PAGE: u32 = 5_000;
/// How often a list begins again of which the server has forgotten the version.
const TRIES: u32 = 3;
/// The version that a page is of is no longer known.
const GONE: u16 = 410;

/// A kind that is listed.
pub(super) trait Listed:
    Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static
{
    /// Drops what nothing is compared with.
    fn reduce(&mut self) {}
}

impl Listed for Lease {}
impl Listed for Namespace {}
impl Listed for Node {}
impl Listed for Service {}
impl Listed for EndpointSlice {}
impl Listed for Endpoints {}

impl Listed for Pod {
    fn reduce(&mut self) {
        self.metadata.managed_fields = None;
        if let Some(spec) = &mut self.spec {
            let init = spec.init_containers.iter_mut().flatten();
            for container in spec.containers.iter_mut().chain(init) {
                *container = Container {
                    name: std::mem::take(&mut container.name),
                    ports: container.ports.take(),
                    restart_policy: container.restart_policy.take(),
                    ..Container::default()
                };
            }
            spec.containers.shrink_to_fit();
            spec.tolerations = None;
            spec.volumes = None;
        }
        if let Some(status) = &mut self.status {
            status.container_statuses = None;
            status.init_container_statuses = None;
        }
    }
}

/// All objects of a kind, in all namespaces.
pub(super) async fn list<K: Listed>(client: &Client, selected: &ListParams) -> anyhow::Result<Vec<K>> {
    items(Api::all(client.clone()), selected).await
}

/// The objects of a kind in one namespace or in all, if they are wanted.
pub(super) async fn list_if<K>(
    wanted: bool,
    client: &Client,
    selected: &ListParams,
    namespace: Option<&str>,
) -> anyhow::Result<Vec<K>>
where
    K: Listed + Resource<Scope = NamespaceResourceScope>,
{
    match namespace {
        _ if !wanted => Ok(Vec::new()),
        None => list(client, selected).await,
        Some(namespace) => items(Api::namespaced(client.clone(), namespace), selected).await,
    }
}

/// Lists on a task of its own, so that several lists are decoded at once.
async fn items<K: Listed>(api: Api<K>, selected: &ListParams) -> anyhow::Result<Vec<K>> {
    let selected = selected.clone().limit(PAGE);
    // A set ends its task when it is dropped.
    let mut listing = JoinSet::new();
    listing.spawn(async move {
        let mut tries = 1;
        loop {
            match pages(&api, &selected).await {
                Err(kube::Error::Api(status)) if status.code == GONE && tries < TRIES => tries += 1,
                outcome => return outcome,
            }
        }
    });
    let outcome = listing.join_next().await.expect("the set has a task")?;
    outcome.with_context(|| format!("listing {}", K::plural(&())))
}

async fn pages<K: Listed>(api: &Api<K>, selected: &ListParams) -> Result<Vec<K>, kube::Error> {
    let mut all = Vec::new();
    let mut params = selected.clone();
    loop {
        let mut page = api.list(&params).await?;
        page.items.iter_mut().for_each(K::reduce);
        all.append(&mut page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = selected.clone().continue_token(&token),
            None => return Ok(all),
        }
    }
}
