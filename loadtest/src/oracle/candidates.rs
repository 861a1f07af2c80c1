//! The pods that a Service can select, found by their labels.
//!
//! To compare every Service with every pod takes as many steps as there are pairs of them: 10,000,000,000 where each of
//! 100,000 Services has a pod of its own. So where there are many pairs, a pod is compared only with Services that name one of
//! its labels. This decides nothing about what a Service selects, for each candidate is compared as if it was one of all
//! pods, and `oracle/tests/worlds.rs` holds that both ways find the same.

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::ResourceExt;
use std::collections::{HashMap, HashSet};

/// The pairs of Services and pods in a namespace up to which every Service is compared with every pod.
const FEW_PAIRS: usize = 1_000_000;

/// A label's key and value.
type Label<'a> = (&'a str, &'a str);

/// How the pods are found that a Service selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Search {
    /// Every pod of the namespace is compared.
    Everywhere,
    /// The pods are compared that have one of the labels in the Service's selector.
    ByLabel,
}

/// The pods of one namespace.
#[derive(Debug, Default)]
pub(super) struct Candidates<'a> {
    all: Vec<&'a Pod>,
    /// Under each label that some selector names, the pods that have it; none if every Service is compared with every pod.
    by_label: Option<HashMap<Label<'a>, Vec<&'a Pod>>>,
}

// === impl Candidates ===

impl<'a> Candidates<'a> {
    /// The pods of a namespace, for its Services. Without `search`, their number decides how they are found.
    pub(super) fn new(pods: Vec<&'a Pod>, services: &[&'a Service], search: Option<Search>) -> Self {
        let few = pods.len().saturating_mul(services.len()) <= FEW_PAIRS;
        let search = search.unwrap_or(if few { Search::Everywhere } else { Search::ByLabel });
        let by_label = (search == Search::ByLabel).then(|| by_label(&pods, services));
        Self { all: pods, by_label }
    }

    /// All pods.
    pub(super) fn all(&self) -> &[&'a Pod] {
        &self.all
    }

    /// Pods among which are all that the Service selects.
    pub(super) fn of(&self, service: &'a Service) -> &[&'a Pod] {
        let Some(by_label) = &self.by_label else {
            return &self.all;
        };
        let labels = selector(service);
        let lists = labels.map(|label| by_label.get(&label).map_or(&[][..], Vec::as_slice));
        // A Service without a selector may have one in an annotation.
        lists.min_by_key(|pods| pods.len()).unwrap_or(&self.all)
    }
}

fn by_label<'a>(pods: &[&'a Pod], services: &[&'a Service]) -> HashMap<Label<'a>, Vec<&'a Pod>> {
    let named: HashSet<Label<'_>> = services.iter().copied().flat_map(selector).collect();
    let mut by_label: HashMap<_, Vec<_>> = HashMap::new();
    for pod in pods {
        let labels = pod.labels().iter();
        let labels = labels.map(|(key, value)| (key.as_str(), value.as_str()));
        for label in labels.filter(|label| named.contains(label)) {
            by_label.entry(label).or_default().push(*pod);
        }
    }
    by_label
}

fn selector(service: &Service) -> impl Iterator<Item = Label<'_>> {
    let selector = service
        .spec
        .iter()
        .flat_map(|spec| spec.selector.iter().flatten());
    selector.map(|(key, value)| (key.as_str(), value.as_str()))
}
