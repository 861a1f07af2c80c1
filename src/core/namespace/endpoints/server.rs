//! Endpoints as the API server has them: adopting them, and correcting what others did to them.

use super::{Endpoints, EndpointsDesk};
use crate::core::body::endpoints_labels;
use crate::core::facts::{AddressFacts, EndpointsFacts, LABEL_HEADLESS};
use crate::core::ids::{PodId, ServiceId, Uid};
use crate::core::labels::Labels;
use crate::core::namespace::services::{Service, ServiceEndpoints, by_uid};
use crate::core::object::Phase;
use crate::core::ports::SlicePort;
use crate::core::priority::Priority;
use crate::core::subsets::{MAX_ADDRESSES, Members, Subset, TRUNCATED};
use std::num::NonZeroU64;

/// The result of comparing an object on the API server with what it should be.
pub(super) enum Agreement {
    /// It can stay, and has this fingerprint if it is exactly what we would write.
    Same(Option<NonZeroU64>),
    /// It must be written, with this priority.
    Differs(Priority),
}

impl Endpoints {
    /// Reconsiders the phase after another client has written, or may have. A leftover remains one only while it is the
    /// object that was there in the beginning, and of our making; and it is asked again whether its Service is still
    /// gone. Another object that a client has made in place of one deleted with its Service is not deleted either.
    pub(super) fn look_again(&mut self, uid: &Uid, ours: bool) {
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

impl EndpointsDesk<'_> {
    /// Compares what the API server has with what it should have. Order and packing do not count.
    pub(super) fn compare_endpoints(&self, id: ServiceId, facts: &EndpointsFacts) -> Agreement {
        let service = &self.services[id];
        let Some(ServiceEndpoints { members, .. }) = service.endpoints.as_deref() else {
            return Agreement::Differs(Priority::Rest);
        };
        let order = by_uid(self.inputs);
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
            Some(stored) if over && !members.shows(&stored, MAX_ADDRESSES, by_uid(self.inputs)) => {
                Agreement::Same(None)
            }
            Some(_) => Agreement::Same(Some(self.endpoints_fingerprint(id))),
            None => Agreement::Differs(priority),
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
        let id = self.inputs.find(name)?;
        let (ip, ..) = members.get(id)?;
        let pod = self.inputs.pod(id);
        let wanted = self.address_body(id, ip, &service.facts);
        let same = uid == pod.uid()
            && *address.ip == *ip.to_string()
            && address.hostname.as_deref() == wanted.hostname
            && address.node.as_deref() == wanted.node;
        same.then_some(id)
    }
}
