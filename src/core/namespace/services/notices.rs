//! Notifications about single Services.

use super::Services;
use crate::core::events::{Involved, InvolvedKind, Notice, Source};
use crate::core::hints::HintEvent;
use crate::core::ids::ServiceId;
use crate::core::namespace::Placement;
use crate::core::namespace::notifications::{Notification, Told};
use std::sync::Arc;

impl Services {
    /// Returns a Service as the object of an Event.
    pub(in crate::core::namespace) fn involved(&self, namespace: &Arc<str>, service: ServiceId) -> Involved {
        let facts = &self.table[service].facts;
        Involved {
            kind: InvolvedKind::Service,
            namespace: namespace.clone(),
            name: facts.name.clone(),
            uid: facts.uid.clone(),
            version: None,
        }
    }

    /// Returns the Event that tells users of another controller that writes for a Service.
    pub(in crate::core::namespace) fn rival_notice(
        &self,
        namespace: &Arc<str>,
        service: ServiceId,
        message: String,
    ) -> Notice {
        Notice {
            source: Source::Slices,
            involved: self.involved(namespace, service),
            warning: true,
            reason: "AnotherControllerWrites",
            message,
        }
    }
}

impl Placement<'_> {
    /// Notifies users that a Service's hints have come or gone.
    pub(in crate::core::namespace) fn notify_hints(&mut self, service: ServiceId, event: HintEvent) {
        let HintEvent {
            warning,
            reason,
            message,
        } = event;
        self.ctx.notifications.push(Notification::Event(Notice {
            source: Source::Slices,
            involved: self.services.involved(&self.ctx.namespace, service),
            warning,
            reason,
            message,
        }));
    }

    /// Notifies users that others publish slices for a Service whose selector is an annotation: clients unite them all.
    pub(in crate::core::namespace) fn notify_other_slices(&mut self, service: ServiceId, told: Told) {
        let name = &self.services.table[service].facts.name;
        if self.services.table[service].is_handed_over() {
            return;
        }
        let count = self.slices.foreign_of(name);
        let known = std::mem::replace(&mut self.services.table[service].told_of_others, count > 0);
        if count > 0 && !known {
            let message = format!(
                "{count} EndpointSlices of other controllers name this Service, and clients use their endpoints too"
            );
            self.notify_annotated(service, told, "OtherEndpointSlices", message);
        }
    }
}
