//! Endpoints as the server shows them: taking them over, and putting right what others did to them.

use super::{Endpoints, Role, by_uid};
use crate::core::body::endpoints_labels;
use crate::core::facts::{AddressFacts, EndpointsFacts, EndpointsMeta, LABEL_HEADLESS};
use crate::core::ids::{PodId, ServiceId, Uid};
use crate::core::labels::Labels;
use crate::core::namespace::addresses::ServiceEndpoints;
use crate::core::namespace::{NamespaceState, Outcome, Service};
use crate::core::object::Remote;
use crate::core::ports::SlicePort;
use crate::core::queue::Lane;
use crate::core::subsets::{MAX_ADDRESSES, Members, Subset, TRUNCATED};
use std::sync::Arc;

/// How an object on the server compares with what it should be.
pub(super) enum Verdict {
    /// It can stay, and has this fingerprint if it is just what we would write.
    Same(Option<u64>),
    /// It must be written, this urgently.
    Differs(Lane),
}

impl Endpoints {
    /// Somebody else has written, or may have. A leftover is only one for as long as it is the object that was
    /// there in the beginning, and of our making; and whether its Service is still gone is asked again. Nor is
    /// another object deleted that somebody has made in the place of one that goes with its Service.
    fn look_again(&mut self, uid: &Uid, ours: bool) {
        let same = self
            .object
            .remote
            .as_ref()
            .is_none_or(|remote| remote.uid == *uid);
        self.role = match self.role {
            Role::Leftover { .. } if same && ours => Role::Leftover { confirmed: false },
            Role::Leftover { .. } => Role::Parked,
            Role::Doomed if !same => Role::Parked,
            role => role,
        };
    }
}

impl NamespaceState {
    /// A whole object, from a list of the given epoch. What it means depends on pods and Services: it is taken
    /// over as soon as all of those are known.
    pub fn apply_endpoints(&mut self, facts: EndpointsFacts, epoch: u8) {
        if let Some(shown) = &mut self.shown {
            return shown.endpoints(facts, epoch);
        }
        if let Some(entry) = self.endpoints.get_mut(&facts.meta.name) {
            entry.object.epoch = epoch;
        }
        if self.holds.hides_inputs() {
            self.endpoints_arrivals
                .insert(facts.meta.name.clone(), (epoch, facts));
        } else {
            self.endpoints_arrivals.remove(&facts.meta.name);
            self.take_endpoints(facts, epoch);
        }
    }

    /// The metadata of an object, from a watch. A version that is our own write's is nothing new; any other
    /// means that somebody else wrote, and the object is fetched if it is one that we keep.
    pub fn apply_endpoints_meta(&mut self, meta: &EndpointsMeta, epoch: u8) {
        if let Some((_, facts)) = self.endpoints_arrivals.get(&meta.name) {
            if facts.meta.version >= meta.version {
                return;
            }
            self.endpoints_arrivals.remove(&meta.name);
        }
        let managed = self.manages(&meta.name);
        // Written to since it was listed, or it would be among the arrivals; it may be a leftover all the same. One
        // that appears later is left alone, as upstream leaves it: somebody may make it ahead of its Service.
        let left = self.starting && meta.ours && !meta.leader;
        let entry = self.endpoints.entry(meta.name.clone()).or_insert_with(|| {
            let role = if managed {
                Role::Live
            } else if left {
                Role::Leftover { confirmed: false }
            } else {
                Role::Parked
            };
            Box::new(Endpoints::new(role))
        });
        entry.object.epoch = epoch;
        entry.object.seen = entry.object.seen.max(meta.version);
        if entry.object.flight.is_none() && entry.object.is_news(meta.version) {
            entry.look_again(&meta.uid, meta.ours && !meta.leader);
            let remote = Remote {
                uid: meta.uid.clone(),
                version: meta.version,
            };
            self.endpoints_written(&meta.name, remote);
        }
    }

    /// The server has a version of an object that is not known to be what it should be.
    fn endpoints_written(&mut self, name: &Arc<str>, remote: Remote) {
        let Some(entry) = self.endpoints.get_mut(name) else {
            return;
        };
        entry.published = None;
        match entry.role {
            // The look that follows shows more than the version.
            Role::Live => {
                entry.object.suspect();
                self.endpoints_wants.insert(name.clone());
            }
            Role::Leftover { .. } => {
                entry.object.remote = Some(remote);
                self.endpoints_wants.insert(name.clone());
            }
            Role::Doomed | Role::Parked => entry.object.remote = Some(remote),
        }
    }

    /// The answer to a request that was forgotten when this process began to stand by. The list since then may be
    /// from before the request was carried out, and the Service may be gone when the watch shows what it made, which
    /// then could not be told from what others make.
    pub(super) fn endpoints_late(&mut self, name: &str, outcome: &Outcome) {
        match outcome {
            Outcome::Written(_) | Outcome::Unknown => {}
            _ => return,
        }
        let name: Arc<str> = name.into();
        let entry = self
            .endpoints
            .entry(name.clone())
            .or_insert_with(|| Box::new(Endpoints::new(Role::Leftover { confirmed: false })));
        let known = |remote: &Remote| !entry.object.is_news(remote.version);
        if entry.role == Role::Parked || matches!(outcome, Outcome::Written(remote) if known(remote)) {
            return;
        }
        // The version in the answer may be one that the server has gone back from since.
        entry.object.unsure = true;
        self.endpoints_wants.insert(name);
    }

    /// An object is gone, as of a version. One that we keep is made again.
    pub fn endpoints_gone(&mut self, name: &str, version: u64) {
        if let Some(shown) = &mut self.shown {
            return shown.endpoints_gone(name, version);
        }
        if self
            .endpoints_arrivals
            .get(name)
            .is_some_and(|(_, facts)| facts.meta.version <= version)
        {
            self.endpoints_arrivals.remove(name);
        }
        let Some((name, _)) = self.endpoints.get_key_value(name) else {
            return;
        };
        let name = name.clone();
        let entry = self.endpoints.get_mut(&name).expect("it was found by this name");
        entry.object.seen = entry.object.seen.max(version);
        // What is in flight is answered first: a later version has already taken the place of the one that went.
        if entry.object.flight.is_some() || !entry.object.is_news(version) {
            return;
        }
        self.endpoints_lost(&name);
    }

    /// Others have deleted an object, unless it never was there.
    pub(super) fn endpoints_lost(&mut self, name: &Arc<str>) {
        if let Some(entry) = self.endpoints.get_mut(name)
            && entry.object.remote.is_some()
        {
            entry.object.lose();
        }
        self.endpoints_missing(name);
    }

    /// The server does not have an object.
    pub(super) fn endpoints_missing(&mut self, name: &Arc<str>) {
        let Some(entry) = self.endpoints.get_mut(name) else {
            return;
        };
        entry.published = None;
        entry.object.forget_remote();
        if entry.role == Role::Live {
            entry.object.lane = entry.object.lane.min(Lane::Add);
            self.endpoints_wants.insert(name.clone());
        } else {
            self.endpoints.remove(name);
        }
    }

    /// The list of an epoch is whole: what it did not show is gone.
    pub(in crate::core::namespace) fn sweep_endpoints(&mut self, epoch: u8, version: u64) {
        let gone: Vec<_> = self
            .endpoints
            .iter()
            .filter(|(_, entry)| entry.object.is_unlisted(epoch, version))
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            self.endpoints_gone(&name, version);
        }
        self.endpoints_arrivals.retain(|_, (at, _)| *at == epoch);
    }

    /// The objects that were listed before their pods and Services were known, to be taken over.
    pub(in crate::core::namespace) fn take_endpoints_arrivals(&mut self) -> Vec<(u8, EndpointsFacts)> {
        let mut arrivals: Vec<_> = std::mem::take(&mut self.endpoints_arrivals)
            .into_values()
            .collect();
        arrivals.sort_unstable_by(|(_, a), (_, b)| a.meta.name.cmp(&b.meta.name));
        arrivals
    }

    /// Takes over an object whose pods and Service are known, or compares it with what is known of it.
    pub(in crate::core::namespace) fn take_endpoints(&mut self, facts: EndpointsFacts, epoch: u8) {
        let name = facts.meta.name.clone();
        let service = self.services_by_name.get(&name).copied();
        let entry = self.endpoints.entry(name.clone()).or_insert_with(|| {
            // Whose it is, is looked at below, as whenever it changes.
            let role = if self.starting && service.is_none() {
                self.endpoints_wants.insert(name.clone());
                Role::Leftover { confirmed: false }
            } else {
                Role::Parked
            };
            Box::new(Endpoints::new(role))
        });
        entry.object.epoch = epoch;
        if self.starting
            && facts.meta.ours
            && let Some(id) = service
        {
            // An object from before this process began: the Service's creation is long past.
            let service = &mut self.services[id.index()];
            if service.facts.selector.is_some() && !std::mem::replace(&mut service.known, true) {
                service.trigger = None;
            }
        }
        let object = &mut entry.object;
        if object.flight.is_some() {
            object.seen = object.seen.max(facts.meta.version);
        } else if object.unsure || object.is_news(facts.meta.version) {
            self.settle_endpoints(&name, facts);
        }
    }

    /// The content of an object has been read, and nothing of ours is on its way to it.
    pub(super) fn settle_endpoints(&mut self, name: &Arc<str>, facts: EndpointsFacts) {
        let verdict = self.services_by_name.get(name).copied().map(|id| {
            let verdict = self.judge_endpoints(id, &facts);
            self.work.ports_read += 4 * self.listed_ports(id);
            if let (Some(endpoints), Verdict::Same(_)) = (&mut self.services[id.index()].endpoints, &verdict)
            {
                // It was compared with the members as they are now.
                (endpoints.changes, endpoints.lane) = (0, Lane::Rest);
            }
            verdict
        });
        let Some(entry) = self.endpoints.get_mut(name) else {
            return;
        };
        let EndpointsFacts { meta, extras, .. } = facts;
        entry.look_again(&meta.uid, meta.ours && !meta.leader);
        let moved = entry.object.read(Remote {
            uid: meta.uid,
            version: meta.version,
        });
        entry.object.extras = (!extras.is_empty()).then(|| Box::new(extras));
        entry.published = None;
        match (entry.role, verdict) {
            (Role::Live, Some(Verdict::Same(fingerprint))) => {
                entry.published = fingerprint;
                (entry.object.rewrite, entry.object.trigger) = (false, None);
                // As with slices.
                if moved && !entry.object.unsure {
                    entry.object.succeed();
                }
            }
            (Role::Live, Some(Verdict::Differs(lane))) => {
                entry.object.rewrite = true;
                entry.object.lane = entry.object.lane.min(lane);
            }
            _ => {}
        }
        if entry.object.unsure {
            // Somebody wrote while it was read: it is read again, but not as often as they write.
            entry.object.fail(false);
        }
        self.endpoints_wants.insert(name.clone());
    }

    /// Compares what the server has with what it should have. Order and packing do not count.
    pub(super) fn judge_endpoints(&self, id: ServiceId, facts: &EndpointsFacts) -> Verdict {
        let service = &self.services[id.index()];
        let Some(ServiceEndpoints { members, .. }) = service.endpoints.as_deref() else {
            return Verdict::Differs(Lane::Rest);
        };
        let order = by_uid(&self.pods);
        let mut lane = Lane::Add;
        let mut resolve = |list: &[AddressFacts], ready: bool| -> Option<Vec<PodId>> {
            let mut found = Vec::with_capacity(list.len());
            let mut all = true;
            for address in list {
                let pod = self.address_pod(service, members, address);
                if ready && pod.is_none_or(|pod| members.get(pod).is_none_or(|(_, ready, _)| !ready)) {
                    lane = Lane::Remove;
                }
                all &= pod.is_some();
                found.extend(pod);
            }
            all.then_some(found)
        };
        let subsets: Vec<_> = facts
            .subsets
            .iter()
            .map(|subset| {
                let (ready, not_ready) = (resolve(&subset.ready, true), resolve(&subset.not_ready, false));
                let (ready, not_ready) = ready.zip(not_ready)?;
                Some(Subset {
                    ports: subset.ports.clone(),
                    ready,
                    not_ready,
                })
            })
            .collect();
        let wanted: Labels = endpoints_labels(&service.facts).collect();
        let over = members.is_over(MAX_ADDRESSES);
        let marked = facts.over_capacity.as_deref();
        let same = facts.labels.project(|key| key != LABEL_HEADLESS) == wanted
            && marked == over.then_some(TRUNCATED);
        let stored: Option<Vec<_>> = subsets.into_iter().collect();
        let accepted = stored.filter(|stored| same && members.accepts(stored, MAX_ADDRESSES, order));
        match accepted {
            // Which of too many addresses stand there may be another's choice: then nothing is known to be as
            // we would have it.
            Some(stored) if over && !members.shows(&stored, MAX_ADDRESSES, by_uid(&self.pods)) => {
                Verdict::Same(None)
            }
            Some(_) => Verdict::Same(Some(self.endpoints_body(id).fingerprint())),
            None => Verdict::Differs(lane),
        }
    }

    /// The pod whose address this is, if all that it says is what we would say.
    fn address_pod(
        &self,
        service: &Service,
        members: &Members<SlicePort, PodId>,
        address: &AddressFacts,
    ) -> Option<PodId> {
        let (name, uid) = address.pod.as_ref()?;
        let id = self.find_pod(name)?;
        let (ip, ..) = members.get(id)?;
        let pod = &self.pods[id.index()];
        let wanted = self.address_body(id, ip, &service.facts);
        let same = *uid == pod.uid
            && *address.ip == *ip.to_string()
            && address.hostname.as_deref() == wanted.hostname
            && address.node.as_deref() == wanted.node;
        same.then_some(id)
    }

    /// Whether the Service of a name is one that we manage.
    fn manages(&self, name: &str) -> bool {
        let service = self.services_by_name.get(name);
        service.is_some_and(|id| self.services[id.index()].endpoints.is_some())
    }
}
