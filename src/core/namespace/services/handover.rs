//! Services that another controller takes over: this process has published slices for the annotation of one that has a
//! selector now, and publishes nothing for selectors. Clients read all slices of a Service, so its slices stay until those of
//! the other controller hold a ready endpoint in each family. Until then the Service is frozen: no pods are added, and pods
//! that are gone leave.

use super::Services;
use crate::core::address::Family;
use crate::core::compact::small::SmallSet;
use crate::core::facts::{Manager, ServiceFacts, SliceFacts};
use crate::core::ids::{ServiceId, SliceId};
use crate::core::namespace::Placement;
use crate::core::namespace::context::Context;
use crate::core::object::Phase;
use std::time::Duration;

/// The time for which slices stay at least, so that the other controller can write all of its own.
const SHORTEST: Duration = Duration::from_secs(30);
/// The time for which slices stay at most. A selector that matches no pod is found to be a mistake within it.
const LONGEST: Duration = Duration::from_secs(600);
/// The number of the other controller's slices that are read when the shortest time is over. After that, each that changes is.
const MOST_READ: usize = 8;

/// The state of a Service that another controller takes over.
#[derive(Clone, Debug)]
pub(in crate::core::namespace) struct Handover {
    since: Duration,
    /// The Service as it is on the API server.
    object: ServiceFacts,
    /// The families in which a slice of the other controller was read that holds a ready endpoint.
    replaced: [bool; 2],
}

impl Handover {
    fn is_replaced(&self) -> bool {
        let has = |family: &Family| self.object.has(*family);
        let mut families = Family::ALL.into_iter().filter(has);
        families.all(|family| self.replaced[family.index()])
    }
}

impl Context {
    /// Returns whether another controller publishes for the selector of a Service, and this process nothing.
    fn is_anothers(&self, facts: &ServiceFacts) -> bool {
        let outputs = self.settings.outputs;
        let selected = !facts.selectorless && !facts.external;
        outputs.custom && selected && !outputs.slices && !outputs.endpoints
    }
}

impl super::Service {
    /// Returns whether another controller takes it over.
    pub(super) fn is_handed_over(&self) -> bool {
        self.handover.is_some()
    }

    /// Returns the Service as it is on the API server.
    pub(in crate::core::namespace) fn facts_on_server(&self) -> &ServiceFacts {
        self.handover
            .as_ref()
            .map_or(&self.facts, |handover| &handover.object)
    }
}

impl Services {
    /// Returns how a Service that has changed is published from now on. Begins, continues or ends its handover.
    pub(in crate::core::namespace) fn facts_to_publish(
        &mut self,
        ctx: &Context,
        id: ServiceId,
        facts: ServiceFacts,
    ) -> ServiceFacts {
        let service = &mut self.table[id];
        if !ctx.is_anothers(&facts) {
            service.handover = None;
            self.handovers.remove(&id);
            return facts;
        }
        if !service.facts.custom {
            // A handover that is scheduled stays scheduled.
            return facts;
        }
        let frozen = frozen(&facts);
        if let Some(handover) = &mut service.handover {
            handover.object = facts;
        } else {
            self.begin_handover(ctx, id, facts);
        }
        frozen
    }

    fn begin_handover(&mut self, ctx: &Context, id: ServiceId, object: ServiceFacts) {
        let handover = Handover {
            since: ctx.now,
            object,
            replaced: [false; 2],
        };
        self.table[id].handover = Some(Box::new(handover));
        self.handovers.set(id, ctx.now + SHORTEST);
    }

    /// Returns when to call [`Self::take_handover`] next.
    pub(in crate::core::namespace) fn next_handover(&self) -> Option<Duration> {
        self.handovers.next()
    }

    /// Takes a Service that is to be looked at.
    pub(in crate::core::namespace) fn take_handover(&mut self, now: Duration) -> Option<ServiceId> {
        self.handovers.pop_due(now)
    }
}

impl Placement<'_> {
    /// Schedules the handover of a Service with a slice that was published for an annotation, if another controller publishes
    /// the Service now. Returns whether it does.
    pub(in crate::core::namespace) fn schedule_handover(&mut self, service: ServiceId) -> bool {
        let is_anothers = self.ctx.is_anothers(&self.services.table[service].facts);
        if is_anothers {
            self.services.handovers.set(service, self.ctx.now);
        }
        is_anothers
    }

    /// Returns whether the handover of a Service is scheduled or goes on.
    pub(in crate::core::namespace) fn has_handover(&self, service: ServiceId) -> bool {
        self.services.handovers.get(&service).is_some()
    }

    /// Looks at a Service that is handed over. Returns how it is published from now on, if that has changed.
    pub(in crate::core::namespace) fn continue_handover(&mut self, id: ServiceId) -> Option<ServiceFacts> {
        let service = self.services.table.get_mut(id)?;
        let Some(handover) = &service.handover else {
            // It was found by its slices, when this process began to write.
            let object = service.facts.clone();
            let frozen = frozen(&object);
            self.services.begin_handover(self.ctx, id, object);
            return Some(frozen);
        };
        let end = handover.since + LONGEST;
        if handover.is_replaced() || self.ctx.now >= end {
            return service.handover.take().map(|handover| handover.object);
        }
        self.services.handovers.set(id, end);
        let name = self.services.table[id].facts.name.clone();
        let named = self.slices.unmanaged_set(&name).into_iter();
        let others: Vec<_> = named
            .flat_map(SmallSet::iter)
            .filter(|id| self.slices[*id].manager == Manager::Builtin)
            .take(MOST_READ)
            .collect();
        for id in others {
            self.read_other(id);
        }
        None
    }

    /// Has a slice read that may be of the controller which takes its Service over.
    pub(in crate::core::namespace) fn read_other(&mut self, id: SliceId) {
        let slice = &self.slices[id];
        let service = self
            .services
            .find(&slice.service_name)
            .map(|id| &self.services.table[id]);
        let handover = service.and_then(|service| service.handover.as_ref());
        let waits = handover.is_some_and(|handover| self.ctx.now >= handover.since + SHORTEST);
        if waits && slice.manager == Manager::Builtin && slice.object.remote.is_some() {
            self.slices[id].object.needs_refetch = true;
            self.slices.want(id);
        }
    }

    /// Takes in the content of a slice that is not managed.
    pub(in crate::core::namespace) fn read_unmanaged(&mut self, id: SliceId, facts: &SliceFacts) {
        let slice = &mut self.slices[id];
        if slice.object.phase != Phase::Unmanaged {
            return;
        }
        slice.object.needs_refetch = false;
        // Clients take an endpoint without the condition for ready.
        let mut endpoints = facts.endpoints.iter();
        let Some(family) = facts.family.filter(|_| {
            slice.manager == Manager::Builtin && endpoints.any(|endpoint| endpoint.ready != Some(false))
        }) else {
            return;
        };
        let Some(id) = self.services.find(&slice.service_name) else {
            return;
        };
        if let Some(handover) = &mut self.services.table[id].handover {
            handover.replaced[family.index()] = true;
            if !handover.is_replaced() {
                return;
            }
            self.services
                .handovers
                .set(id, self.ctx.now.max(handover.since + SHORTEST));
        }
    }
}

/// Returns a Service as it is published while it is handed over.
fn frozen(facts: &ServiceFacts) -> ServiceFacts {
    ServiceFacts {
        custom: true,
        selector: None,
        ..facts.clone()
    }
}
