//! Notices about the annotations that say what is published for a Service: that they begin, change or cease to
//! count, and that they mean nothing.

use crate::core::events::{Notice, Source};
use crate::core::excerpt::beginning;
use crate::core::facts::{ANNOTATION_SELECTOR, ANNOTATION_TOLERATE_UNREADY, ServiceFacts, TolerateUnready};
use crate::core::ids::{ServiceId, SliceId};
use crate::core::namespace::Placement;
use crate::core::namespace::rounds::STRIDE;
use crate::core::object::Phase;
use std::collections::BTreeMap;

/// The reason why the annotations of a Service do not count if [`ServiceFacts::why_not_custom`] gives none.
const NOT_YET: &str = "this controller does not publish for annotations";

/// How far users have been notified of what was there when this process began to write.
#[derive(Clone, Debug, Default)]
pub(in crate::core::namespace) struct Start {
    /// The numbers of the next Service and of the next slice to look at.
    services: usize,
    slices: usize,
    /// The Services whose annotations ceased to count, with the number of their slices.
    opted_out: BTreeMap<ServiceId, usize>,
}

impl Placement<'_> {
    /// Checks the annotations of a Service that is new or has changed.
    pub(in crate::core::namespace) fn notify_annotations(&mut self, service: ServiceId) {
        // While this process does not write, an Event would be lost; the first plan after that reports the problem.
        if !self.ctx.starting {
            self.notify_problems(service);
        }
        let facts = self.services.table[service].facts_on_server();
        if self.ctx.settings.legacy_tolerate_unready
            && let TolerateUnready::Malformed(value) = &facts.tolerate_unready
        {
            let message = format!(
                "The annotation {ANNOTATION_TOLERATE_UNREADY} is ignored, because its value is not a boolean: {value}"
            );
            let involved = self.services.involved(&self.ctx.namespace, service);
            self.ctx.notify(Notice {
                source: Source::Endpoints,
                involved,
                warning: true,
                reason: "AnnotationIgnored",
                message,
            });
        }
    }

    /// Continues to notify users, when this process begins to write, of what is wrong with the annotations that say what is
    /// published, and of the Services whose annotations ceased to count before: their slices are about to go. Returns true
    /// when all is said.
    pub(in crate::core::namespace) fn notify_some_at_start(&mut self, start: &mut Start) -> bool {
        let Start {
            services,
            slices,
            opted_out,
        } = start;
        if !self.ctx.settings.outputs.custom {
            return true;
        }
        if *services < self.services.table.end() {
            for number in *services..*services + STRIDE {
                self.notify_of_one_at_start(ServiceId::from(number));
            }
            *services += STRIDE;
        } else if *slices < self.slices.end() {
            for number in *slices..*slices + STRIDE {
                if let Some(service) = self.opted_out_of(SliceId::from(number)) {
                    *opted_out.entry(service).or_default() += 1;
                }
            }
            *slices += STRIDE;
        } else {
            for _ in 0..STRIDE {
                let Some((service, count)) = opted_out.pop_first() else {
                    return true;
                };
                self.notify_opted_out_before(service, count);
            }
        }
        false
    }

    fn notify_of_one_at_start(&mut self, id: ServiceId) {
        let Some(service) = self.services.table.get_mut(id) else {
            return;
        };
        let facts = service.facts_on_server();
        if facts.annotated.is_some() || facts.unknown_annotations.is_some() {
            let custom = facts.custom;
            self.notify_problems(id);
            if custom {
                self.notify_other_slices(id);
            }
        }
    }

    /// Notifies users that others publish slices for a Service whose selector is an annotation: clients unite them all.
    pub(in crate::core::namespace) fn notify_other_slices(&mut self, service: ServiceId) {
        if self.services[service].is_handed_over() {
            return;
        }
        let count = self.slices.foreign_of(&self.services[service].facts.name);
        let known = std::mem::replace(&mut self.services[service].told_of_others, count > 0);
        if count > 0 && !known {
            let message = format!(
                "{count} EndpointSlices of other controllers name this Service, and clients use their endpoints too"
            );
            self.notify_annotated(service, true, "OtherEndpointSlices", message);
        }
    }

    /// Notifies users of what is wrong with the annotations themselves.
    fn notify_problems(&mut self, service: ServiceId) {
        self.notify_selector(service);
        self.notify_unknown_annotations(service);
    }

    /// Returns the Service of a slice that is about to go, because the annotation that it was published for does not count.
    fn opted_out_of(&self, id: SliceId) -> Option<ServiceId> {
        let slice = self.slices.get(id)?;
        let goes =
            matches!(slice.object.phase, Phase::Deleting | Phase::Unmanaged) && slice.object.remote.is_some();
        let service = self.services.find(&slice.service_name).filter(|_| goes)?;
        let facts = self.services.table[service].facts_on_server();
        self.is_abandoned(slice, facts).then_some(service)
    }

    /// Notifies users of a Service whose annotation ceased to count before this process began to write.
    fn notify_opted_out_before(&mut self, service: ServiceId, slices: usize) {
        let facts = self.services.table[service].facts_on_server();
        let why = self.why_opted_out(facts);
        let message = format!(
            "{why}: {}; this came about before this process led",
            leaving(slices, facts)
        );
        self.notify_annotated(service, false, "OptedOut", message);
    }

    /// Says why the annotations of a Service decide nothing.
    fn why_opted_out(&self, facts: &ServiceFacts) -> String {
        if facts.annotated.is_none() {
            "The annotation that chose the pods of this Service is gone".to_owned()
        } else {
            let why = facts.why_not_custom(&self.ctx.namespace).unwrap_or(NOT_YET);
            format!("The annotations of this Service have no effect, because {why}")
        }
    }

    /// Notifies users of what is wrong with the selector in a Service's annotation, or that it does not count.
    fn notify_selector(&mut self, service: ServiceId) {
        let facts = self.services.table[service].facts_on_server();
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
            let rest = "no pods are added, and those that are published stay until they are gone";
            let message = format!(
                "The selector in the annotation {ANNOTATION_SELECTOR} is not used: {problem}; {rest}"
            );
            ("InvalidSelector", message)
        } else {
            let why = facts.why_not_custom(&self.ctx.namespace).unwrap_or(NOT_YET);
            (
                "SelectorIgnored",
                format!("The annotation {ANNOTATION_SELECTOR} is ignored: {why}"),
            )
        };
        self.notify_annotated(service, true, reason, message);
    }

    /// Notifies users of annotations that look like those of this project and mean nothing.
    fn notify_unknown_annotations(&mut self, service: ServiceId) {
        let facts = self.services.table[service].facts_on_server();
        let unknown = facts.unknown_annotations.as_ref();
        let Some(unknown) = unknown.filter(|_| self.ctx.settings.outputs.custom) else {
            return;
        };
        let mut message = unknown.problem();
        message.replace_range(..1, "T");
        self.notify_annotated(service, true, "UnknownAnnotation", message);
    }

    /// Notifies users of what the annotations of a new Service do, and of what is wrong with them.
    pub(in crate::core::namespace) fn notify_new_service(&mut self, service: ServiceId) {
        self.notify_opted_in(service);
        self.notify_annotations(service);
    }

    /// Notifies users that the annotations of a new Service decide what is published for it.
    fn notify_opted_in(&mut self, service: ServiceId) {
        let facts = self.services.table[service].facts_on_server();
        if !self.ctx.starting && facts.custom {
            let message = opted_in(facts);
            self.notify_annotated(service, false, "OptedIn", message);
        }
    }

    /// Notifies users that the annotations of a Service begin or cease to decide what is published for it, or are about
    /// to decide otherwise.
    pub(in crate::core::namespace) fn notify_opting(&mut self, service: ServiceId, new: &ServiceFacts) {
        let old = self.services.table[service].facts_on_server();
        if self.ctx.starting || !(old.custom || new.custom) {
            return;
        }
        let same = old.annotated == new.annotated && old.selector == new.selector;
        let (reason, message) = if !old.custom {
            ("OptedIn", opted_in(new))
        } else if new.custom {
            if same {
                return;
            }
            (
                "OptInChanged",
                format!("{}; they held {}", opted_in(new), published_by(old)),
            )
        } else {
            let slices = self.slices.of(&self.services.table[service].slices, |slice| {
                slice.object.phase == Phase::Managed
            });
            let why = self.why_opted_out(new);
            let held = published_by(old);
            let then = leaving(slices.len(), new);
            ("OptedOut", format!("{why}: {then}, which held {held}"))
        };
        self.notify_annotated(service, false, reason, message);
    }
}

/// Says what becomes of so many slices of a Service whose annotations decide nothing any more.
fn leaving(slices: usize, facts: &ServiceFacts) -> String {
    let (count, are) = match slices {
        1 => ("1 EndpointSlice".to_owned(), "is"),
        count => (format!("{count} EndpointSlices"), "are"),
    };
    if facts.selectorless || facts.external {
        format!("{count} of this controller {are} deleted")
    } else {
        format!("{count} of this controller {are} handed over")
    }
}

fn opted_in(facts: &ServiceFacts) -> String {
    if facts.is_frozen() {
        return "From now on, this controller publishes for this Service, and no pods are added until the selector is \
                corrected"
            .to_owned();
    }
    format!(
        "From now on, EndpointSlices of this controller hold {}",
        published_by(facts)
    )
}

/// Returns which pods the annotation of a Service has published, in words.
fn published_by(facts: &ServiceFacts) -> String {
    match &facts.selector {
        Some(selector) => format!("the pods that {} selects", beginning(selector)),
        // Its selector cannot be used, and another notice says why.
        None => "no pods but those that were published when the selector became unusable".to_owned(),
    }
}
