//! The baseline of all figures: a controller that keeps whole objects and recomputes a Service whenever
//! one of its pods changes. It is written to be fast at that: it borrows what it compares, clones no pod, and
//! hashes with the same fast hash as the core.

use endpointd::core::address::Family;
use endpointd::core::facts::{PodFacts, ServiceFacts};
use endpointd::core::ids::Uid;
use endpointd::core::slices::Conditions;
use endpointd::core::subsets::{MAX_ADDRESSES, compare_printed};
use endpointd::core::work::Work;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// The most that the baseline may cost per endpoint: a slow one would prove nothing.
pub(crate) const LIMIT_NS: f64 = 5000.0;

/// A namespace, as watches of whole objects would show it.
#[derive(Default)]
pub(crate) struct Naive {
    pub(crate) services: Vec<ServiceFacts>,
    pub(crate) pods: Vec<PodFacts>,
    pub(crate) zones: FxHashMap<Arc<str>, Option<Arc<str>>>,
    /// By Service: what its slices hold.
    slices: FxHashMap<Arc<str>, Vec<Vec<Stored>>>,
    /// By Service: what its Endpoints object holds.
    endpoints: FxHashMap<Arc<str>, Vec<(IpAddr, Uid, bool)>>,
}

/// An endpoint as a slice holds it.
#[derive(PartialEq)]
struct Stored {
    ip: Ipv4Addr,
    conditions: Conditions,
    hostname: Option<Box<str>>,
    node: Option<Arc<str>>,
    zone: Option<Arc<str>>,
    name: Box<str>,
    uid: Uid,
}

/// An endpoint as it should be, borrowed from its pod.
struct Desired<'a> {
    ip: Ipv4Addr,
    conditions: Conditions,
    hostname: Option<&'a str>,
    node: Option<&'a Arc<str>>,
    zone: Option<&'a Arc<str>>,
    name: &'a str,
    uid: &'a Uid,
}

impl Desired<'_> {
    fn is(&self, stored: &Stored) -> bool {
        self.ip == stored.ip
            && self.conditions == stored.conditions
            && self.hostname == stored.hostname.as_deref()
            && self.node == stored.node.as_ref()
            && self.zone == stored.zone.as_ref()
            && *self.name == *stored.name
            && *self.uid == stored.uid
    }

    fn store(&self) -> Stored {
        Stored {
            ip: self.ip,
            conditions: self.conditions,
            hostname: self.hostname.map(Into::into),
            node: self.node.cloned(),
            zone: self.zone.cloned(),
            name: self.name.into(),
            uid: self.uid.clone(),
        }
    }
}

/// The result of a sync of slices.
#[derive(Default, Debug, PartialEq, Eq)]
pub(crate) struct Sync {
    /// Slices that hold something else than they should.
    pub(crate) touched: Vec<usize>,
    /// Endpoints that are in no slice.
    pub(crate) missing: usize,
}

impl Naive {
    /// Which Services select a pod: each selector of the namespace is asked.
    pub(crate) fn select(&self, pod: usize) -> Vec<usize> {
        let labels = &self.pods[pod].labels;
        let mut work = Work::default();
        let mut selects = |service: &ServiceFacts| {
            let selector = service.selector.as_ref();
            selector.is_some_and(|selector| selector.matches(labels, &mut work))
        };
        let services = self.services.iter().enumerate();
        services
            .filter(|(_, service)| selects(service))
            .map(|(at, _)| at)
            .collect()
    }

    fn pods_of<'a>(&'a self, service: &'a ServiceFacts) -> impl Iterator<Item = &'a PodFacts> {
        let mut work = Work::default();
        let selector = service.selector.as_ref();
        let selected = move |pod: &&PodFacts| selector.is_some_and(|s| s.matches(&pod.labels, &mut work));
        self.pods.iter().filter(selected)
    }

    fn desired<'a>(&'a self, service: &'a ServiceFacts) -> impl Iterator<Item = Desired<'a>> {
        self.pods_of(service).filter_map(|pod| {
            let ready = service.publish_not_ready || (pod.ready && !pod.terminating);
            let host = pod.host.as_ref().filter(|host| *host.subdomain == *service.name);
            Some(Desired {
                ip: pod.v4.filter(|_| service.has(Family::V4))?,
                conditions: Conditions::new(ready, pod.ready, pod.terminating),
                hostname: host.map(|host| &*host.hostname),
                node: pod.node.as_ref(),
                zone: self.zones.get(pod.node.as_ref()?)?.as_ref(),
                name: &pod.name,
                uid: &pod.uid,
            })
        })
    }

    /// Recomputes a Service's slices: builds all its endpoints and compares them with all that it has.
    pub(crate) fn sync_slices(&self, service: usize) -> Sync {
        let service = &self.services[service];
        let mut desired: FxHashMap<Ipv4Addr, Desired<'_>> = FxHashMap::default();
        desired.extend(self.desired(service).map(|endpoint| (endpoint.ip, endpoint)));
        let mut sync = Sync::default();
        for (at, slice) in self.slices.get(&service.name).into_iter().flatten().enumerate() {
            let mut touched = false;
            for stored in slice {
                let wanted = desired.remove(&stored.ip);
                touched |= !wanted.is_some_and(|wanted| wanted.is(stored));
            }
            if touched {
                sync.touched.push(at);
            }
        }
        sync.missing = desired.len();
        sync
    }

    /// Recomputes a Service's Endpoints: lists all its addresses, sorts them, cuts them, and compares them with
    /// what it has. Returns whether that is another list.
    pub(crate) fn sync_endpoints(&self, service: usize) -> bool {
        let service = &self.services[service];
        let addresses = self.addresses(service);
        let stored = self.endpoints.get(&service.name).map_or(&[][..], Vec::as_slice);
        let stored = stored.iter().map(|(ip, uid, ready)| (*ip, uid, *ready));
        !addresses.into_iter().eq(stored)
    }

    fn addresses<'a>(&'a self, service: &'a ServiceFacts) -> Vec<(IpAddr, &'a Uid, bool)> {
        let pods = self.pods_of(service).filter(|pod| !pod.terminating);
        let mut addresses: Vec<_> = pods
            .filter_map(|pod| Some((IpAddr::V4(pod.v4?), &pod.uid, pod.ready)))
            .collect();
        addresses.sort_unstable_by(|a, b| {
            let by_state = Reverse(a.2).cmp(&Reverse(b.2));
            by_state
                .then_with(|| compare_printed(a.0, b.0))
                .then_with(|| a.1.compare(b.1))
        });
        addresses.truncate(MAX_ADDRESSES);
        addresses
    }

    /// Takes what a Service should have as what it has, in slices of 100.
    pub(crate) fn store(&mut self, service: usize) {
        let service = &self.services[service];
        let mut desired: Vec<_> = self.desired(service).map(|endpoint| endpoint.store()).collect();
        let mut slices = Vec::new();
        while !desired.is_empty() {
            slices.push(desired.drain(..desired.len().min(100)).collect());
        }
        let addresses = self.addresses(service);
        let addresses = addresses
            .into_iter()
            .map(|(ip, uid, ready)| (ip, uid.clone(), ready));
        let (name, addresses) = (service.name.clone(), addresses.collect());
        self.slices.insert(name.clone(), slices);
        self.endpoints.insert(name, addresses);
    }
}

/// Refuses a baseline that is slower than it has to be.
pub(crate) fn check(nanoseconds: f64, endpoints: u32) {
    let each = nanoseconds / f64::from(endpoints);
    assert!(
        each <= LIMIT_NS,
        "the baseline takes {each:.0} ns for an endpoint; it may take {LIMIT_NS}: a win against it says nothing"
    );
}
