//! What people should hear of: collected while events are applied and requests answered, taken by the shard.

use super::NamespaceState;
use crate::core::events::{Involved, InvolvedKind, Notice, Source};
use crate::core::facts::{ANNOTATION_TOLERATE_UNREADY, TolerateUnready};
use crate::core::hints::HintEvent;
use crate::core::ids::{ServiceId, SliceId, Uid};
use crate::core::object::{Flight, ObjectState};
use std::sync::Arc;

/// So many requests for one object fail before people hear of it: with the delays between them, about a minute.
const LASTING: u8 = 10;
/// And so often again, while nothing helps: about every ten minutes.
const REPEAT: u8 = 20;

/// Something that people should hear of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Remark {
    /// As an Event.
    Event(Notice),
    /// In the log: an annotation of a Service is not what it should be, and is ignored.
    IgnoredAnnotation {
        /// The Service.
        service: Arc<str>,
        /// The annotation.
        annotation: &'static str,
        /// What it begins with, fit to be printed.
        value: Box<str>,
    },
}

impl NamespaceState {
    /// What there is to say since the last time.
    pub fn take_remarks(&mut self) -> Vec<Remark> {
        std::mem::take(&mut self.remarks)
    }

    fn involved(&self, service: ServiceId) -> Involved {
        let facts = &self.services[service.index()].facts;
        Involved {
            kind: InvolvedKind::Service,
            namespace: self.namespace.clone(),
            name: facts.name.clone(),
            uid: facts.uid.clone(),
            version: None,
        }
    }

    /// A Service's hints have come or gone.
    pub(super) fn remark_hints(&mut self, service: ServiceId, event: HintEvent) {
        let HintEvent {
            warning,
            reason,
            message,
        } = event;
        self.remarks.push(Remark::Event(Notice {
            source: Source::Slices,
            involved: self.involved(service),
            warning,
            reason,
            message,
        }));
    }

    /// A Service has been seen for the first time, or has changed.
    pub(super) fn remark_annotations(&mut self, service: ServiceId) {
        let facts = &self.services[service.index()].facts;
        if self.settings.legacy_tolerate_unready
            && let TolerateUnready::Malformed(value) = &facts.tolerate_unready
        {
            self.remarks.push(Remark::IgnoredAnnotation {
                service: facts.name.clone(),
                annotation: ANNOTATION_TOLERATE_UNREADY,
                value: value.clone(),
            });
        }
    }

    /// A request for a slice has failed. Once is everyday life; what lasts, or was refused outright, is not.
    pub(super) fn remark_slice_failure(&mut self, id: SliceId, why: Option<&str>) {
        let slice = &self.slices[id.index()];
        if slice.service.is_none() || !is_told(&slice.object) {
            return;
        }
        let message = format!("EndpointSlice {}: {}", slice.name, told(&slice.object, why));
        let notice = Notice {
            source: Source::Slices,
            involved: self.involved(slice.service),
            warning: true,
            reason: "FailedToUpdateEndpointSlices",
            message,
        };
        self.remarks.push(Remark::Event(notice));
    }

    /// The same of an Endpoints object.
    pub(super) fn remark_endpoints_failure(&mut self, name: &Arc<str>, flight: Flight, why: Option<&str>) {
        let Some(object) = self.endpoints.get(name).map(|entry| &entry.object) else {
            return;
        };
        if !is_told(object) {
            return;
        }
        let notice = Notice {
            source: Source::Endpoints,
            involved: Involved {
                kind: InvolvedKind::Endpoints,
                namespace: self.namespace.clone(),
                name: name.clone(),
                uid: object
                    .remote
                    .as_ref()
                    .map_or_else(Uid::none, |remote| remote.uid.clone()),
                version: object.remote.as_ref().map(|remote| remote.version),
            },
            warning: true,
            reason: match flight {
                Flight::Create => "FailedToCreateEndpoint",
                _ => "FailedToUpdateEndpoint",
            },
            message: told(object, why),
        };
        self.remarks.push(Remark::Event(notice));
    }
}

/// Whether the latest failure is one that people should hear of.
fn is_told(object: &ObjectState) -> bool {
    let failures = object.failures;
    (object.rejected && failures == 1) || (failures >= LASTING && (failures - LASTING).is_multiple_of(REPEAT))
}

fn told(object: &ObjectState, why: Option<&str>) -> String {
    let why = why.unwrap_or("the API server does not answer, or not in time");
    // The number would make each a message of its own, and nothing could be counted.
    if object.failures >= LASTING {
        format!("cannot be brought up to date, and is tried again: {why}")
    } else {
        format!("refused by the API server, and tried again: {why}")
    }
}
