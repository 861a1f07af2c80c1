//! Notifications about single Services.

use super::Services;
use crate::core::events::{Involved, InvolvedKind, Notice, Source};
use crate::core::excerpt::Excerpt;
use crate::core::facts::{
    ANNOTATION_FOLLOWED, ANNOTATION_SELECTOR, ANNOTATION_TOLERATE_UNREADY, Manager, TolerateUnready,
};
use crate::core::followed_leases::LeaderStatus;
use crate::core::followed_leases::lease::Vacancy;
use crate::core::hints::HintEvent;
use crate::core::ids::ServiceId;
use crate::core::namespace::Placement;
use crate::core::namespace::notifications::Notification;
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
    /// Notifies people that a Service's hints have come or gone.
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

    /// Checks the annotations of a Service that is new or has changed.
    pub(in crate::core::namespace) fn notify_annotations(&mut self, service: ServiceId) {
        // While nobody writes, no Event would be recorded: the first plan makes up for it.
        if !self.ctx.starting {
            self.notify_selector(service);
            self.notify_leader_annotation(service);
        }
        let facts = &self.services.table[service].facts;
        if self.ctx.settings.legacy_tolerate_unready
            && let TolerateUnready::Malformed(value) = &facts.tolerate_unready
        {
            self.ctx.notifications.push(Notification::IgnoredAnnotation {
                service: facts.name.clone(),
                annotation: ANNOTATION_TOLERATE_UNREADY,
                value: value.clone(),
            });
        }
    }

    /// Notifies people of what is wrong with the annotations that say what is published, when this process begins to
    /// write.
    pub(in crate::core::namespace) fn notify_at_start(&mut self) {
        if !self.ctx.settings.outputs.custom {
            return;
        }
        let annotated = self.services.table.iter().filter(|(_, service)| {
            let facts = &service.facts;
            facts.annotated.is_some() || facts.leader.is_some()
        });
        let annotated: Vec<_> = annotated.map(|(id, _)| id).collect();
        for service in annotated {
            self.services.table[service].told_of_others = false;
            self.notify_selector(service);
            self.notify_leader_annotation(service);
        }
    }

    /// Notifies people of what is wrong with the selector in a Service's annotation, or that it does not count.
    fn notify_selector(&mut self, service: ServiceId) {
        let facts = &self.services.table[service].facts;
        let Some(annotated) = facts
            .annotated
            .as_deref()
            .filter(|_| self.ctx.settings.outputs.custom)
        else {
            return;
        };
        let (reason, message) = if facts.custom {
            let Some(problem) = annotated.problem() else {
                return;
            };
            let rest =
                "no pods are added, and those that are published stay until they are gone or not ready";
            let message = format!(
                "The selector in the annotation {ANNOTATION_SELECTOR} is not used: {problem}; {rest}"
            );
            ("InvalidSelector", message)
        } else {
            let why = self.why_not_custom(service);
            (
                "SelectorIgnored",
                format!("The annotation {ANNOTATION_SELECTOR} is ignored: {why}"),
            )
        };
        self.notify_custom(service, reason, message);
    }

    /// Returns why the annotations of a Service do not count.
    fn why_not_custom(&self, service: ServiceId) -> &'static str {
        let facts = &self.services.table[service].facts;
        if facts.external {
            "the Service is of type ExternalName"
        } else if facts.is_api(&self.ctx.namespace) {
            "the endpoints of this Service are the API servers"
        } else {
            "the Service has a selector"
        }
    }

    /// Notifies people of what does not count beside the annotation that names a Lease, or that it does not count
    /// itself.
    fn notify_leader_annotation(&mut self, service: ServiceId) {
        let facts = &self.services.table[service].facts;
        let Some(leader) = facts
            .leader
            .as_deref()
            .filter(|_| self.ctx.settings.outputs.custom)
        else {
            return;
        };
        if !facts.custom {
            let why = self.why_not_custom(service);
            let message = format!("The annotation {ANNOTATION_FOLLOWED} is ignored: {why}");
            self.notify_custom(service, "LeaderIgnored", message);
        } else if leader.ignores_not_ready {
            let message = format!(
                "publishNotReadyAddresses is ignored: with the annotation {ANNOTATION_FOLLOWED}, a leader that is not \
                 ready is published as not ready"
            );
            self.notify_custom(service, "PublishNotReadyIgnored", message);
        }
    }

    /// Notifies people that nobody is published for a Service that follows a Lease, if that may need their help.
    pub(in crate::core::namespace) fn notify_leader(&mut self, service: ServiceId, status: LeaderStatus) {
        let Some(lease) = self.services.table[service].facts.followed_lease() else {
            return;
        };
        let (reason, why) = match status {
            LeaderStatus::NoPod => (
                "LeaderNotFound",
                "no pod that may be published has the name of its holder",
            ),
            LeaderStatus::SeveralPods => ("LeaderNotFound", "several pods have the name of its holder"),
            LeaderStatus::Vacant(Vacancy::NoLease) => ("NoLease", "there is no such Lease in the namespace"),
            LeaderStatus::Vacant(Vacancy::Expired) => {
                ("LeaseExpired", "its holder has not renewed it for its duration")
            }
            LeaderStatus::Vacant(Vacancy::Unreadable) => {
                ("LeaseNotReadable", "this controller may not read it")
            }
            LeaderStatus::OthersPublish => (
                "OtherEndpointSlices",
                "EndpointSlices of other controllers hold endpoints of this Service",
            ),
            LeaderStatus::Unknown
            | LeaderStatus::Leads
            | LeaderStatus::AwaitsRenewal
            | LeaderStatus::OthersUnread
            | LeaderStatus::Vacant(Vacancy::NoHolder) => return,
        };
        let message = format!(
            "Nobody is published for the Lease {}: {why}",
            Excerpt::value(lease)
        );
        self.notify_custom(service, reason, message);
    }

    /// Notifies people that others publish slices for a Service whose selector is an annotation: clients unite them all.
    pub(in crate::core::namespace) fn notify_other_slices(&mut self, service: ServiceId) {
        let count = {
            let state = &self.services.table[service];
            let others = self.slices.unmanaged_of(&state.facts.name);
            let mut others = others.filter(|id| {
                let slice = &self.slices[*id];
                slice.manager != Manager::Custom && slice.object.remote.is_some()
            });
            // This is asked at each evaluation, and there may be many.
            if state.told_of_others {
                usize::from(others.next().is_some())
            } else {
                others.count()
            }
        };
        let told = std::mem::replace(&mut self.services.table[service].told_of_others, count > 0);
        if count > 0 && !told {
            let message = format!(
                "{count} EndpointSlices of other controllers name this Service, and clients use their endpoints too"
            );
            self.notify_custom(service, "OtherEndpointSlices", message);
        }
    }

    /// Notifies people that slices, and which, stay, because those for the Service's selector, which should take their place, hold no
    /// endpoints.
    pub(in crate::core::namespace) fn notify_kept(&mut self, name: &str, source: Source, which: &str) {
        let Some(service) = self.services.find(name) else {
            return;
        };
        let message = format!(
            "EndpointSlices {which} stay, because the EndpointSlices for the Service's selector hold no endpoints: does \
             the selector match the pods?"
        );
        self.ctx.notifications.push(Notification::Kept {
            service: self.services.table[service].facts.name.clone(),
            message: message.clone().into(),
        });
        self.ctx.notifications.push(Notification::Event(Notice {
            source,
            involved: self.services.involved(&self.ctx.namespace, service),
            warning: true,
            reason: "EndpointSlicesKept",
            message,
        }));
    }

    fn notify_custom(&mut self, service: ServiceId, reason: &'static str, message: String) {
        self.ctx.notifications.push(Notification::Event(Notice {
            source: Source::Custom,
            involved: self.services.involved(&self.ctx.namespace, service),
            warning: true,
            reason,
            message,
        }));
    }
}
