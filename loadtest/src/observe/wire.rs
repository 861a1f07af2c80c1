//! The parts of slices and Endpoints objects that a watching client decodes here: which pods are in them, and in what
//! state.

use super::visible::Shown;
use super::{PodNumber, number_of};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::borrow::Cow;
use std::net::IpAddr;

#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Kind,
    #[serde(borrow)]
    pub(super) object: Object<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Kind {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

#[derive(Deserialize)]
pub(super) struct List<'a> {
    pub(super) metadata: Metadata<'a>,
    #[serde(borrow, default)]
    pub(super) items: Vec<Object<'a>>,
}

/// A slice, an Endpoints object, or, in an event of the kind `ERROR`, a status.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Object<'a> {
    #[serde(borrow, default)]
    pub(super) metadata: Metadata<'a>,
    #[serde(borrow, default)]
    pub(super) address_type: Cow<'a, str>,
    /// The endpoints of a slice.
    #[serde(default)]
    endpoints: Option<Vec<Endpoint>>,
    /// The subsets of an Endpoints object.
    #[serde(default)]
    subsets: Option<Vec<Subset>>,
    #[serde(default)]
    pub(super) code: Option<u16>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata<'a> {
    #[serde(borrow, default)]
    pub(super) name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) resource_version: Cow<'a, str>,
    #[serde(borrow, default)]
    labels: Labels<'a>,
}

#[derive(Default, Deserialize)]
struct Labels<'a> {
    #[serde(borrow, default, rename = "kubernetes.io/service-name")]
    service: Option<Cow<'a, str>>,
    /// Labels of slices that a kube-proxy does not ask for.
    #[serde(default, rename = "service.kubernetes.io/headless")]
    headless: Option<IgnoredAny>,
    #[serde(default, rename = "service.kubernetes.io/service-proxy-name")]
    proxy: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Endpoint {
    /// The first is looked at; the others are the same pod's.
    #[serde(default)]
    addresses: Vec<IpAddr>,
    #[serde(default)]
    conditions: Conditions,
}

#[derive(Default, Deserialize)]
struct Conditions {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Subset {
    #[serde(default)]
    addresses: Vec<Address>,
    #[serde(default)]
    not_ready_addresses: Vec<Address>,
}

#[derive(Deserialize)]
struct Address {
    ip: IpAddr,
}

// === impl Object ===

impl Object<'_> {
    /// Namespace and name.
    pub(super) fn key(&self) -> (String, String) {
        (
            self.metadata.namespace.clone().into_owned(),
            self.metadata.name.clone().into_owned(),
        )
    }

    /// The Service that a slice is of.
    pub(super) fn service(&self) -> Option<&str> {
        self.metadata.labels.service.as_deref()
    }

    /// A kube-proxy asks for slices of these labels.
    pub(super) fn is_proxied(&self) -> bool {
        let labels = &self.metadata.labels;
        labels.headless.is_none() && labels.proxy.is_none()
    }

    /// Our pods in it, by number, each once.
    pub(super) fn pods(&self) -> Vec<(PodNumber, Shown)> {
        let mut pods: Vec<_> = if let Some(endpoints) = &self.endpoints {
            let pod = |endpoint: &Endpoint| {
                Some((
                    number_of(*endpoint.addresses.first()?)?,
                    endpoint.conditions.shown(),
                ))
            };
            endpoints.iter().filter_map(pod).collect()
        } else {
            let subsets = self.subsets.iter().flatten();
            let all = subsets.flat_map(|subset| {
                let ready = subset.addresses.iter().map(|address| (address, Shown::READY));
                let others = subset.not_ready_addresses.iter();
                ready.chain(others.map(|address| (address, Shown::NOT_READY)))
            });
            all.filter_map(|(address, shown)| Some((number_of(address.ip)?, shown)))
                .collect()
        };
        pods.sort_unstable_by_key(|(number, _)| *number);
        // An address of several ports may stand in several subsets, in the same state in all.
        pods.dedup_by_key(|(number, _)| *number);
        pods
    }
}

// === impl Metadata ===

impl Metadata<'_> {
    /// The version as a number, by which versions have their order.
    pub(super) fn version(&self) -> Option<u64> {
        self.resource_version.parse().ok()
    }
}

// === impl Conditions ===

impl Conditions {
    fn shown(&self) -> Shown {
        Shown::Present {
            ready: self.ready.unwrap_or_default(),
            // Slices that are mirrored say nothing else than whether an endpoint is ready.
            serving: self.serving.or(self.ready).unwrap_or_default(),
            terminating: self.terminating.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::pod_ip;
    use crate::oracle::Family;

    fn pods(text: &str) -> Vec<(PodNumber, Shown)> {
        serde_json::from_str::<Object<'_>>(text).unwrap().pods()
    }

    #[test]
    fn a_slice_shows_its_pods_by_address_and_conditions() {
        let ip = |number| pod_ip(number, Family::V4);
        let text = format!(
            r#"{{"metadata":{{"name":"a-1","labels":{{"kubernetes.io/service-name":"a"}}}},"addressType":"IPv4",
            "endpoints":[
                {{"addresses":["{}","{}"],"conditions":{{"ready":true,"serving":true,"terminating":false}},"nodeName":"n"}},
                {{"addresses":["{}"],"conditions":{{"ready":false,"serving":true,"terminating":true}}}},
                {{"addresses":["192.168.0.1"],"conditions":{{"ready":true}}}}]}}"#,
            ip(7),
            ip(8),
            ip(3),
        );
        let leaving = Shown::Present {
            ready: false,
            serving: true,
            terminating: true,
        };
        assert_eq!(pods(&text), [(3, leaving), (7, Shown::READY)]);
        assert_eq!(pods(r#"{"endpoints":null}"#), []);
    }

    #[test]
    fn endpoints_show_each_pod_once() {
        let ip = |number| pod_ip(number, Family::V6);
        let text = format!(
            r#"{{"subsets":[{{"addresses":[{{"ip":"{0}","nodeName":"n"}}],"ports":[{{"port":80}}]}},
            {{"addresses":[{{"ip":"{0}"}}],"notReadyAddresses":[{{"ip":"{1}"}}],"ports":[{{"port":81}}]}}]}}"#,
            ip(7),
            ip(3),
        );
        assert_eq!(pods(&text), [(3, Shown::NOT_READY), (7, Shown::READY)]);
    }
}
