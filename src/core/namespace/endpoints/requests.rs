//! Requests for Endpoints, built when their turn has come, and the server's answers.

use super::{Endpoints, Role, by_uid};
use crate::core::body::{AddressBody, EndpointsBody, PodReference, Preconditions, Request};
use crate::core::facts::ServiceFacts;
use crate::core::ids::{PodId, ServiceId};
use crate::core::namespace::addresses::ServiceEndpoints;
use crate::core::namespace::writes::set_back;
use crate::core::namespace::{Content, Granted, NamespaceState, Outcome, Want};
use crate::core::object::{Flight, ObjectName};
use crate::core::queue::Lane;
use crate::core::subsets::MAX_ADDRESSES;
use std::net::IpAddr;
use std::sync::Arc;

impl NamespaceState {
    /// Whether an object may not be written now, since its Service has not been evaluated in full.
    fn holds_endpoints(&self, name: &str, entry: &Endpoints) -> bool {
        let awaiting = || {
            let service = self.services_by_name.get(name);
            service.is_some_and(|id| self.services[id.index()].awaiting > 0)
        };
        !entry.object.unsure && (self.holds.any() || (entry.role == Role::Live && awaiting()))
    }

    /// As [`NamespaceState::grant`].
    pub(in crate::core::namespace) fn grant_endpoints(&mut self, name: &str) -> Option<Granted> {
        let (name, entry) = self.endpoints.get_key_value(name)?;
        if entry.object.flight.is_some() || !entry.is_due() {
            return None;
        }
        let name = name.clone();
        if self.holds_endpoints(&name, entry) {
            self.endpoints_held.insert(name);
            return None;
        }
        if matches!(entry.role, Role::Leftover { .. }) && self.services_by_name.contains_key(&name) {
            self.endpoints.get_mut(&name)?.role = Role::Parked;
            return None;
        }
        let (mut departing, mut visited, mut read) = (entry.departing, 0, 0);
        let (request, flight) = match entry.role {
            _ if entry.object.unsure => (Request::Fetch, Flight::Fetch),
            Role::Live => {
                let id = self.services_by_name[&name];
                let body = self.endpoints_body(id);
                (visited, read) = (body.addresses() as u64, self.listed_ports(id));
                departing = body.fingerprint();
                if entry.published == Some(departing) {
                    // All that changed has changed back, or is not shown.
                    let object = &mut self.endpoints.get_mut(&name)?.object;
                    (object.rewrite, object.trigger, object.changes) = (false, None, 0);
                    object.lane = Lane::Rest;
                    self.work.addresses_visited += visited;
                    self.work.ports_read += read;
                    return None;
                }
                let (remote, extras) = (entry.object.remote.as_ref(), entry.object.extras.as_deref());
                let json = body.into_json(&self.namespace, remote, extras, entry.object.trigger);
                match remote {
                    Some(_) => (Request::Update(json), Flight::Update),
                    None => (Request::Create(json), Flight::Create),
                }
            }
            Role::Doomed | Role::Leftover { confirmed: true } => {
                let Some(remote) = &entry.object.remote else {
                    self.endpoints.remove(&name);
                    return None;
                };
                (
                    Request::Delete(Preconditions::same_version(remote)),
                    Flight::Delete,
                )
            }
            Role::Leftover { confirmed: false } => (Request::Probe, Flight::Probe),
            Role::Parked => return None,
        };
        self.work.addresses_visited += visited;
        self.work.ports_read += read;
        let entry = self.endpoints.get_mut(&name)?;
        let changes = entry.object.changes;
        entry.departing = departing;
        entry.object.depart(flight);
        Some(Granted { request, changes })
    }

    /// As [`NamespaceState::outcome`].
    pub(in crate::core::namespace) fn endpoints_outcome(
        &mut self,
        name: &str,
        outcome: Outcome,
        why: Option<&str>,
    ) -> Option<Want> {
        let known = self.endpoints.get_key_value(name);
        let Some((name, _)) = known.filter(|(_, entry)| entry.object.flight.is_some()) else {
            self.endpoints_late(name, &outcome);
            return None;
        };
        let name = name.clone();
        let entry = self.endpoints.get_mut(&name)?;
        let flight = entry.object.flight.take()?;
        let failures = entry.object.failures;
        let bytes = outcome.too_large();
        let live = entry.role == Role::Live;
        let fetched = matches!(outcome, Outcome::Fetched(_));
        let looked = flight == Flight::Fetch && (fetched || outcome == Outcome::NotFound);
        match (flight, outcome) {
            (_, Outcome::Fetched(Content::Endpoints(facts))) => self.settle_endpoints(&name, *facts),
            (Flight::Create | Flight::Update, Outcome::Written(remote)) => {
                entry.object.written(flight, remote);
                entry.published = Some(entry.departing);
            }
            (Flight::Delete, Outcome::Deleted | Outcome::NotFound) => {
                entry.object.undo_departure();
                self.endpoints_missing(&name);
            }
            (Flight::Fetch | Flight::Update, Outcome::NotFound) => {
                entry.object.undo_departure();
                self.endpoints_lost(&name);
            }
            // A Service that has come since the question has given the object another role, or will, when the
            // watch shows it.
            (Flight::Probe, Outcome::NotFound) => {
                if let Role::Leftover { confirmed } = &mut entry.role {
                    *confirmed = true;
                }
            }
            (Flight::Probe, Outcome::Exists) => {
                if matches!(entry.role, Role::Leftover { .. }) {
                    entry.role = Role::Parked;
                }
            }
            (Flight::Create, Outcome::Terminating) => {
                // The namespace takes no objects any more: not tried again before something changes.
                entry.object.undo_departure();
                entry.object.fail(false);
                if live {
                    return None;
                }
            }
            (flight, outcome) => set_back(&mut entry.object, flight, &outcome),
        }
        if looked && let Some(entry) = self.endpoints.get_mut(&name) {
            entry.object.looked(fetched && live && failures == 0);
        }
        if self.endpoints.get(&name)?.object.failures > failures {
            self.remark_endpoints_failure(&name, flight, bytes, why);
        }
        let entry = self.endpoints.get(&name)?;
        if entry.role == Role::Parked && entry.is_nothing() {
            self.endpoints.remove(&name);
            return None;
        }
        if self.holds_endpoints(&name, entry) {
            self.endpoints_held.insert(name);
            return None;
        }
        (entry.object.flight.is_none() && entry.is_due()).then(|| want(&name, entry))
    }

    /// Objects that were granted while nothing might be written of their Service are looked at again.
    pub(in crate::core::namespace) fn take_held_endpoints(&mut self) {
        for name in std::mem::take(&mut self.endpoints_held) {
            match self.endpoints.get(&name) {
                Some(entry) if self.holds_endpoints(&name, entry) => self.endpoints_held.insert(name),
                _ => self.endpoints_wants.insert(name),
            };
        }
    }

    /// The objects that are due, by name.
    pub(in crate::core::namespace) fn plan_endpoints(&mut self) -> Vec<Want> {
        let wants = std::mem::take(&mut self.endpoints_wants);
        let due = wants.iter().filter_map(|name| {
            let entry = self.endpoints.get(name)?;
            (entry.object.flight.is_none() && entry.is_due()).then(|| want(name, entry))
        });
        due.collect()
    }

    pub(super) fn address_body<'a>(
        &'a self,
        id: PodId,
        ip: IpAddr,
        service: &'a ServiceFacts,
    ) -> AddressBody<'a> {
        let pod = &self.pods[id.index()];
        AddressBody {
            ip,
            hostname: self.hostname(pod, &service.name),
            node: self.nodes.get(pod.node.index()).map(|node| &*node.view.name),
            target: PodReference {
                namespace: &self.namespace,
                name: &pod.name,
                uid: &pod.uid,
            },
        }
    }

    /// How many ports are read to lay a Service's subsets out.
    pub(super) fn listed_ports(&self, id: ServiceId) -> u64 {
        let endpoints = self.services[id.index()].endpoints.as_deref();
        endpoints.map_or(0, |endpoints| endpoints.members.listed_ports())
    }

    pub(super) fn endpoints_body(&self, id: ServiceId) -> EndpointsBody<'_> {
        let service = &self.services[id.index()];
        let ServiceEndpoints { members, .. } = service
            .endpoints
            .as_deref()
            .expect("only objects of managed Services are built");
        let published = members.publish(MAX_ADDRESSES, by_uid(&self.pods));
        EndpointsBody::new(&service.facts, &published, |pod| {
            let (ip, ..) = members.get(pod).expect("only members are published");
            self.address_body(pod, ip, &service.facts)
        })
    }
}

fn want(name: &Arc<str>, entry: &Endpoints) -> Want {
    Want::of(ObjectName::endpoints(name.clone()), name.clone(), &entry.object)
}
