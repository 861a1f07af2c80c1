//! Endpoints as the API server has them: adopting them, and correcting what others did to them.

use super::{Endpoints, by_uid};
use crate::core::body::endpoints_labels;
use crate::core::facts::{AddressFacts, EndpointsFacts, EndpointsMeta, LABEL_HEADLESS};
use crate::core::ids::{EndpointsId, PodId, ServiceId, Uid};
use crate::core::labels::Labels;
use crate::core::namespace::addresses::ServiceEndpoints;
use crate::core::namespace::lifecycle::Outcome;
use crate::core::namespace::{NamespaceState, Service};
use crate::core::object::{Phase, Remote};
use crate::core::ports::SlicePort;
use crate::core::queue::Priority;
use crate::core::subsets::{MAX_ADDRESSES, Members, Subset, TRUNCATED};

/// The result of comparing an object on the API server with what it should be.
pub(super) enum Verdict {
    /// It can stay, and has this fingerprint if it is exactly what we would write.
    Same(Option<u64>),
    /// It must be written, with this priority.
    Differs(Priority),
}

impl Endpoints {
    /// Reconsiders the phase after somebody else has written, or may have. A leftover remains one only while it is the
    /// object that was there in the beginning, and of our making; and it is asked again whether its Service is still
    /// gone. Another object that somebody has made in place of one deleted with its Service is not deleted either.
    fn look_again(&mut self, uid: &Uid, ours: bool) {
        let same = self
            .object
            .remote
            .as_ref()
            .is_none_or(|remote| remote.uid == *uid);
        self.object.phase = match self.object.phase {
            Phase::Leftover { .. } if same && ours => Phase::Leftover { confirmed: false },
            Phase::Leftover { .. } => Phase::Unmanaged,
            Phase::Deleting if !same => Phase::Unmanaged,
            phase => phase,
        };
    }
}

impl NamespaceState {
    /// Applies a whole object from the list of an epoch.
    pub fn apply_endpoints(&mut self, facts: EndpointsFacts, epoch: u8) {
        match &mut self.shown {
            Some(shown) => shown.endpoints(facts, epoch),
            None => self.listed::<Endpoints>(facts, epoch),
        }
    }

    /// Applies the metadata of an object from a watch.
    pub fn apply_endpoints_meta(&mut self, meta: &EndpointsMeta, epoch: u8) {
        self.watched::<Endpoints>(meta, epoch);
    }

    /// Handles an object that is gone, as of a resourceVersion.
    pub fn endpoints_gone(&mut self, name: &str, version: u64) {
        match &mut self.shown {
            Some(shown) => shown.endpoints_gone(name, version),
            None => self.vanished::<Endpoints>(name, version),
        }
    }

    /// Takes in an object that a watch shows and that was not known: written since it was listed, or it would have
    /// arrived then.
    pub(super) fn endpoints_appeared(&mut self, meta: &EndpointsMeta, epoch: u8) {
        let phase = if self.manages(&meta.name) {
            Phase::Managed
        } else if self.starting && meta.ours && !meta.leader {
            // It may still be a leftover.
            Phase::Leftover { confirmed: false }
        } else {
            // One that appears later is left alone, as upstream: somebody may create it ahead of its Service.
            Phase::Unmanaged
        };
        let mut entry = Endpoints::new(meta.name.clone(), phase);
        (entry.object.epoch, entry.object.seen) = (epoch, meta.version);
        let id = self.endpoints.insert(entry);
        self.endpoints_written(id, meta);
    }

    /// Handles a version of an object that is not known to be what it should be. A managed object is fetched.
    pub(super) fn endpoints_written(&mut self, id: EndpointsId, meta: &EndpointsMeta) {
        let entry = &mut self.endpoints[id];
        entry.look_again(&meta.uid, meta.ours && !meta.leader);
        entry.published = None;
        if entry.object.phase == Phase::Managed {
            // The refetch that follows shows more than the version.
            entry.object.mark_stale();
        } else {
            entry.object.remote = Some(Remote {
                uid: meta.uid.clone(),
                version: meta.version,
            });
        }
        if matches!(entry.object.phase, Phase::Managed | Phase::Leftover { .. }) {
            self.endpoints.want(id);
        }
    }

    /// Handles the answer to a request that was forgotten when this process became a standby. The list since then may
    /// be from before the request was carried out, and the Service may be gone when the watch shows the object that it
    /// made, which then could not be told from what others make.
    pub(super) fn endpoints_late(&mut self, name: &str, outcome: &Outcome) {
        match outcome {
            Outcome::Written(_) | Outcome::Unknown => {}
            _ => return,
        }
        let id = self.endpoints.find(name).unwrap_or_else(|| {
            let left = Phase::Leftover { confirmed: false };
            self.endpoints.insert(Endpoints::new(name.into(), left))
        });
        let entry = &mut self.endpoints[id];
        let known = |remote: &Remote| !entry.object.is_news(remote.version);
        if entry.object.phase == Phase::Unmanaged
            || matches!(outcome, Outcome::Written(remote) if known(remote))
        {
            return;
        }
        // The API server may have gone back from the version in the answer since.
        entry.object.needs_refetch = true;
        self.endpoints.want(id);
    }

    /// Handles an object that the API server does not have.
    pub(super) fn endpoints_missing(&mut self, id: EndpointsId) {
        let entry = &mut self.endpoints[id];
        entry.published = None;
        entry.object.forget_remote();
        if entry.object.phase == Phase::Managed {
            entry.object.priority = entry.object.priority.min(Priority::Add);
            self.endpoints.want(id);
        } else {
            self.endpoints.remove(id);
        }
    }

    /// Takes in an object that was not known, once its pods and Service are. Its owner is checked as on any change.
    pub(super) fn take_endpoints(&mut self, facts: EndpointsFacts, epoch: u8) {
        let name = facts.meta.name.clone();
        let left = self.starting && self.services.find(&name).is_none();
        let phase = if left {
            Phase::Leftover { confirmed: false }
        } else {
            Phase::Unmanaged
        };
        let mut entry = Endpoints::new(name, phase);
        entry.object.epoch = epoch;
        let id = self.endpoints.insert(entry);
        self.observed::<Endpoints>(id, facts);
    }

    /// Applies the content of an object that was read while nothing of ours was in flight.
    pub(super) fn reconcile_endpoints(&mut self, id: EndpointsId, facts: EndpointsFacts) {
        let verdict = self.services.find(&facts.meta.name).map(|id| {
            let service = &mut self.services[id];
            if self.starting
                && facts.meta.ours
                && service.facts.selector.is_some()
                && !std::mem::replace(&mut service.known, true)
            {
                // The object is older than this process, so the Service's creation is long past.
                service.trigger = None;
            }
            let verdict = self.judge_endpoints(id, &facts);
            self.work.ports_read += 4 * self.listed_ports(id);
            if let (Some(endpoints), Verdict::Same(_)) = (&mut self.services[id].endpoints, &verdict) {
                // It was compared with the current members.
                (endpoints.changes, endpoints.priority) = (0, Priority::Rest);
            }
            verdict
        });
        let entry = &mut self.endpoints[id];
        let EndpointsFacts { meta, extras, .. } = facts;
        entry.look_again(&meta.uid, meta.ours && !meta.leader);
        let moved = entry.object.read(Remote {
            uid: meta.uid,
            version: meta.version,
        });
        entry.object.extras = (!extras.is_empty()).then(|| Box::new(extras));
        entry.published = None;
        match (entry.object.phase, verdict) {
            (Phase::Managed, Some(Verdict::Same(fingerprint))) => {
                entry.published = fingerprint;
                (entry.object.rewrite, entry.object.trigger) = (false, None);
                // As with slices.
                if moved && !entry.object.needs_refetch {
                    entry.object.succeed();
                }
            }
            (Phase::Managed, Some(Verdict::Differs(priority))) => {
                entry.object.rewrite = true;
                entry.object.priority = entry.object.priority.min(priority);
            }
            _ => {}
        }
        self.endpoints.want(id);
    }

    /// Compares what the API server has with what it should have. Order and packing do not count.
    pub(super) fn judge_endpoints(&self, id: ServiceId, facts: &EndpointsFacts) -> Verdict {
        let service = &self.services[id];
        let Some(ServiceEndpoints { members, .. }) = service.endpoints.as_deref() else {
            return Verdict::Differs(Priority::Rest);
        };
        let order = by_uid(&self.pods);
        let mut priority = Priority::Add;
        let mut resolve = |list: &[AddressFacts], ready: bool| -> Option<Vec<PodId>> {
            let mut found = Vec::with_capacity(list.len());
            let mut all = true;
            for address in list {
                let pod = self.address_pod(service, members, address);
                if ready && pod.is_none_or(|pod| members.get(pod).is_none_or(|(_, ready, _)| !ready)) {
                    priority = Priority::Remove;
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
            // If there are too many addresses, others may have chosen which of them are there: then the object is not
            // known to be what we would write.
            Some(stored) if over && !members.shows(&stored, MAX_ADDRESSES, by_uid(&self.pods)) => {
                Verdict::Same(None)
            }
            Some(_) => Verdict::Same(Some(self.endpoints_body(id).fingerprint())),
            None => Verdict::Differs(priority),
        }
    }

    /// Returns the pod of an address, if all that it says is what we would say.
    fn address_pod(
        &self,
        service: &Service,
        members: &Members<SlicePort, PodId>,
        address: &AddressFacts,
    ) -> Option<PodId> {
        let (name, uid) = address.pod.as_ref()?;
        let id = self.pods.find(name)?;
        let (ip, ..) = members.get(id)?;
        let pod = &self.pods[id];
        let wanted = self.address_body(id, ip, &service.facts);
        let same = *uid == pod.uid
            && *address.ip == *ip.to_string()
            && address.hostname.as_deref() == wanted.hostname
            && address.node.as_deref() == wanted.node;
        same.then_some(id)
    }

    /// Returns whether we manage the Service of a name.
    fn manages(&self, name: &str) -> bool {
        let service = self.services.find(name);
        service.is_some_and(|id| self.services[id].endpoints.is_some())
    }
}
