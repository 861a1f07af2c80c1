//! The hostnames of pods, which their endpoints show.

use super::{Inputs, Pod};
use crate::core::compact::intern::Interner;
use crate::core::facts::HostName;
use crate::core::ids::HostId;

/// A hostname and the subdomain it is valid in. The pods of a `StatefulSet` share one entry, since the hostname of
/// each is its name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Host {
    /// `None` if it is the pod's name.
    hostname: Option<Box<str>>,
    subdomain: Box<str>,
}

/// The hostnames of a namespace's pods.
#[derive(Clone, Default, Debug)]
pub(super) struct Hosts {
    known: Interner<Host>,
}

impl Hosts {
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
}

impl Inputs {
    /// Returns a pod's hostname in a subdomain, if it has one there.
    #[inline]
    pub(crate) fn hostname<'a>(&'a self, pod: &'a Pod, subdomain: &str) -> Option<&'a str> {
        self.hosts.hostname(pod, subdomain)
    }
}
