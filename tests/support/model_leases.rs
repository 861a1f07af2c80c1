//! The part of the model that is the server's Leases and their holders, and which pods should lead by an independent
//! computation.

use super::{Model, NAMESPACE};
use endpointd::core::facts::{Manager, PodFacts, ServiceFacts};
use endpointd::core::followed_leases::lease::{
    LeaseAnswer, LeaseChange, LeaseEvent, LeaseFacts, LeaseList, LeaseRequest,
};
use endpointd::core::lease::Record;
use endpointd::core::selector::Requirement;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Leases, and what the state has yet to hear of them.
#[derive(Clone, Default)]
pub(crate) struct Leases {
    pub(crate) there: BTreeMap<Arc<str>, LeaseFacts>,
    /// The number under which the state follows them.
    following: Option<u64>,
    news: VecDeque<LeaseEvent>,
    /// The version of the last change.
    version: u64,
    /// Counts changes of Leases, and what the state has heard of them.
    changes: i32,
    clock: Duration,
}

impl Model {
    /// A Lease gets another holder, none, or goes.
    pub(crate) fn lead(&mut self, lease: u8, holder: Option<&str>) {
        let name: Arc<str> = lease_name(lease).into();
        self.version += 1;
        // Leases are not restored with the rest.
        self.leases.version = self.version.max(self.leases.version + 1);
        let version = self.leases.version;
        let event = if let Some(holder) = holder {
            self.leases.changes += 1;
            let record = Record {
                holder: holder.to_owned(),
                // It does not run out here.
                seconds: i32::MAX,
                transitions: self.leases.changes,
                ..Record::default()
            };
            let facts = LeaseFacts {
                name: name.clone(),
                version,
                record,
            };
            self.leases.there.insert(name, facts.clone());
            LeaseEvent::Seen(facts)
        } else {
            self.leases.there.remove(&name);
            LeaseEvent::Gone(name, version)
        };
        if self.leases.following.is_some() {
            self.leases.news.push_back(event);
        }
    }

    /// All holders renew their Leases.
    pub(crate) fn renew_leases(&mut self) {
        for (number, lease) in self.leases.there.clone().into_values().enumerate() {
            assert_eq!(*lease.name, *lease_name(lease_number(&lease.name)), "{number}");
            self.lead(lease_number(&lease.name), Some(&lease.record.holder));
        }
    }

    /// Takes the state's requests about Leases, unless it stands by: it follows none then.
    pub(crate) fn serve_leases(&mut self) {
        if self.stands_by {
            return;
        }
        for request in self.state.take_lease_requests() {
            match request {
                LeaseRequest::Follow(number) => {
                    self.leases.following = Some(number);
                    let all: Vec<_> = self.leases.there.values().cloned().collect();
                    let version = all.iter().map(|lease| lease.version).max().unwrap_or_default();
                    let list = LeaseList::new(self.leases.clock, version, all);
                    self.leases.news = [LeaseEvent::Begun, LeaseEvent::Listed(list)].into();
                }
                LeaseRequest::Read(number, read) if Some(number) == self.leases.following => {
                    let found = self.leases.there.get(&read.name).cloned();
                    let answer = found.map_or(LeaseAnswer::Missing, LeaseAnswer::Found);
                    self.leases.news.push_back(LeaseEvent::Read(read, answer));
                }
                // Reads begin at once.
                LeaseRequest::Read(..) | LeaseRequest::Cancel(_) => {}
                LeaseRequest::Leave => {
                    self.leases.following = None;
                    self.leases.news.clear();
                }
            }
        }
    }

    /// The state hears the next of what happened to Leases. Returns false if there is nothing.
    pub(crate) fn hear_of_leases(&mut self) -> bool {
        self.serve_leases();
        let (Some(generation), Some(event)) = (self.leases.following, self.leases.news.pop_front()) else {
            return false;
        };
        self.leases.clock += Duration::from_secs(1);
        self.state.apply_leases(LeaseChange {
            generation,
            at: self.leases.clock,
            event,
        });
        true
    }

    /// Time passes until a Lease is to be looked at, unless that is when it runs out. Returns false if none is.
    pub(crate) fn look_at_lease(&mut self) -> bool {
        let soon = |at: &Duration| *at < self.leases.clock + Duration::from_secs(10);
        let next = self.leases.following.and_then(|_| self.state.next_look());
        let Some(at) = next.filter(soon) else {
            return false;
        };
        self.leases.clock = self.leases.clock.max(at);
        self.state.look_at_one(at)
    }

    /// Stops following the Leases.
    pub(crate) fn leave_leases(&mut self) {
        self.leases.following = None;
        self.leases.news.clear();
    }

    /// The pods that a Service should publish: those that it selects, or of these the one that leads it.
    pub(super) fn chosen(&self, service: &ServiceFacts) -> Vec<&PodFacts> {
        let selected = |pod: &&PodFacts| {
            service.selector.as_ref().is_none_or(|selector| {
                let meets = |it: Requirement<'_>| it.accepts(pod.labels.get(it.key));
                let mut pairs = selector.pairs();
                pairs.all(|(key, value)| pod.labels.get(key) == Some(value))
                    && selector.requirements().all(meets)
            })
        };
        let pods = self.pods.values().filter(selected);
        let Some(lease) = service.followed_lease() else {
            return pods.collect();
        };
        let holder = self.leases.there.get(lease).map(|lease| &*lease.record.holder);
        let others = self.store.values().any(|slice| {
            slice.meta.service == service.name
                && slice.meta.manager == Manager::Builtin
                && slice.is_ours()
                && !slice.endpoints.is_empty()
        });
        let name = holder.and_then(|holder| holder.split('_').next());
        let Some(name) = name.filter(|name| !others && !name.is_empty()) else {
            return Vec::new();
        };
        let leads = |pod: &&PodFacts| {
            let hostname = pod.host.as_ref().map(|host| &*host.hostname);
            *pod.name == *name || hostname == Some(name)
        };
        let found: Vec<_> = pods.filter(leads).collect();
        if found.len() == 1 { found } else { Vec::new() }
    }
}

/// The name of the Lease of a number.
pub(crate) fn lease_name(number: u8) -> String {
    format!("{NAMESPACE}-lease-{number}")
}

fn lease_number(name: &str) -> u8 {
    let number = name.rsplit('-').next();
    number
        .and_then(|number| number.parse().ok())
        .expect("a Lease of the model")
}
