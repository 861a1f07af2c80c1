//! What users are told of single Services.

use super::Services;
use crate::core::events::{Involved, InvolvedKind, Notice, Source};
use crate::core::hints::HintEvent;
use crate::core::ids::ServiceId;
use crate::core::namespace::Placement;
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

    /// Returns the Event that tells users of another client that writes for a Service.
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
        let involved = self.services.involved(&self.ctx.namespace, service);
        self.ctx.notify(Notice {
            source: Source::Slices,
            involved,
            warning,
            reason,
            message,
        });
    }

    /// Notifies users of what annotations do to what is published.
    pub(in crate::core::namespace) fn notify_annotated(
        &mut self,
        service: ServiceId,
        warning: bool,
        reason: &'static str,
        message: String,
    ) {
        let involved = self.services.involved(&self.ctx.namespace, service);
        self.ctx.notify(Notice {
            source: Source::Custom,
            involved,
            warning,
            reason,
            message,
        });
    }
}
