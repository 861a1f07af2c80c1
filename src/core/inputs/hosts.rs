//! The hostnames of pods: what their endpoints show, and the names by which the holder of a Lease may mean them.

use super::{Inputs, Pod};
use crate::core::compact::intern::Interner;
use crate::core::compact::small::SmallSet;
use crate::core::facts::HostName;
use crate::core::hash::KeyedMap;
use crate::core::ids::{HostId, PodId};

/// The bytes to which a hostname is cut, as the kubelet cuts it.
const HOSTNAME: usize = 63;

/// Returns the hostname that the kubelet gives a pod for a longer name; `None` if that is no longer than hostnames may
/// be.
pub(crate) fn cut_hostname(name: &str) -> Option<&str> {
    let cut = name.get(..HOSTNAME).filter(|cut| cut.len() < name.len())?;
    Some(cut.trim_end_matches(['-', '.']))
}

/// A hostname and the subdomain it is valid in. The pods of a `StatefulSet` share one entry, since the hostname of
/// each is its name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Host {
    /// `None` if it is the pod's name.
    hostname: Option<Box<str>>,
    subdomain: Box<str>,
}

/// The hostnames of a namespace's pods.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    known: Interner<Host>,
    /// True if pods are looked for by these names.
    found: bool,
    /// Pods by the names that they may be known by, where these differ from the pods' own.
    by_name: KeyedMap<Box<str>, SmallSet<PodId>>,
    /// Pods on the network of their node. Few are, so that this is not a part of each pod.
    on_host: SmallSet<PodId>,
}

impl Hosts {
    pub(super) fn new(found: bool) -> Self {
        Self {
            known: Interner::default(),
            found,
            by_name: KeyedMap::default(),
            on_host: SmallSet::default(),
        }
    }

    /// Returns whether pods are looked for by hostnames.
    pub(super) fn are_found(&self) -> bool {
        self.found
    }

    /// Adds the hostname of the pod of a name.
    pub(super) fn enter(&mut self, pod: &str, host: Option<&HostName>) -> HostId {
        host.map_or(HostId::NONE, |host| {
            HostId(self.known.acquire(Host {
                hostname: (*host.hostname != *pod).then(|| host.hostname.clone()),
                subdomain: host.subdomain.clone(),
            }))
        })
    }

    /// Gives up the hostname of a pod.
    pub(super) fn leave(&mut self, id: HostId) {
        if !id.is_none() {
            self.known.release(id.0);
        }
    }

    /// Returns whether a pod has this hostname and subdomain.
    pub(super) fn has(&self, pod: &Pod, host: Option<&HostName>) -> bool {
        match host {
            None => pod.host.is_none(),
            Some(host) => self.hostname(pod, &host.subdomain) == Some(&*host.hostname),
        }
    }

    #[inline]
    fn hostname<'a>(&'a self, pod: &'a Pod, subdomain: &str) -> Option<&'a str> {
        if pod.host.is_none() {
            return None;
        }
        let host = self.known.get(pod.host.0);
        (*host.subdomain == *subdomain).then(|| host.hostname.as_deref().unwrap_or(pod.name()))
    }

    /// Returns whether a pod's hostname is that of its node.
    pub(super) fn is_on_host(&self, id: PodId) -> bool {
        self.on_host.contains(&id)
    }

    /// Notes whether a pod's hostname is that of its node, if pods are looked for by hostnames.
    pub(super) fn set_on_host(&mut self, id: PodId, on_host: bool) {
        if !on_host {
            self.on_host.remove(&id);
        } else if self.found {
            self.on_host.insert(id);
        }
    }
}

impl Inputs {
    /// Returns a pod's hostname in a subdomain, if it has one there.
    #[inline]
    pub(crate) fn hostname<'a>(&'a self, pod: &'a Pod, subdomain: &str) -> Option<&'a str> {
        self.hosts.hostname(pod, subdomain)
    }

    /// Returns the pods whose name, hostname or, on the host's network, node has this name. `None` if they are more than
    /// `most` beside the one of this name.
    pub(crate) fn named(&self, name: &str, most: usize) -> Option<Vec<PodId>> {
        let hosts = self.hosts.by_name.get(name);
        if hosts.is_some_and(|hosts| hosts.len() > most) {
            return None;
        }
        let mut pods: Vec<_> = hosts.into_iter().flat_map(SmallSet::iter).collect();
        pods.extend(self.pods.find(name));
        pods.sort_unstable();
        pods.dedup();
        Some(pods)
    }

    /// Returns the names by which [`Self::named`] finds a pod.
    pub(crate) fn names_of(&self, id: PodId) -> Vec<Box<str>> {
        let mut names = self.host_names(id);
        names.push(self.pods[id].name().into());
        names
    }

    /// Returns the names, other than its own, by which a pod is found.
    fn host_names(&self, id: PodId) -> Vec<Box<str>> {
        if !self.hosts.found {
            return Vec::new();
        }
        let pod = &self.pods[id];
        let host = (!pod.host.is_none()).then(|| self.hosts.known.get(pod.host.0));
        let hostname = host.and_then(|host| host.hostname.as_deref());
        let node = self.node_name(pod).filter(|_| self.hosts.is_on_host(id));
        let cut = [Some(pod.name()), hostname]
            .into_iter()
            .flatten()
            .filter_map(cut_hostname);
        let mut names: Vec<Box<str>> = hostname.into_iter().chain(cut).map(Into::into).collect();
        names.extend(node.map(|node| (**node).into()));
        names.retain(|name| **name != *pod.name());
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Enters a pod under the names by which it is found.
    pub(super) fn enter_host_names(&mut self, id: PodId) {
        for name in self.host_names(id) {
            self.hosts.by_name.entry(name).or_default().insert(id);
        }
    }

    /// Undoes [`Self::enter_host_names`], before these names change.
    pub(super) fn leave_host_names(&mut self, id: PodId) {
        for name in self.host_names(id) {
            if let Some(pods) = self.hosts.by_name.get_mut(&name) {
                pods.remove(&id);
                if pods.is_empty() {
                    self.hosts.by_name.remove(&name);
                }
            }
        }
    }
}
