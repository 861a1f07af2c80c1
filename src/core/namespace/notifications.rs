//! Notifications for people: collected while events are applied and requests answered, taken by the shard.

use super::NamespaceState;
use crate::core::events::{Involved, InvolvedKind, Notice, Source};
use crate::core::facts::{ANNOTATION_TOLERATE_UNREADY, TolerateUnready};
use crate::core::hints::HintEvent;
use crate::core::ids::{ServiceId, SliceId, Uid};
use crate::core::object::{Flight, ObjectName, ObjectState, SAID_AGAIN};
use std::sync::Arc;

/// Number of failed requests for one object before people are notified: with the delays between them, about a minute.
/// While nothing helps, they are notified again after [`SAID_AGAIN`] more: about every ten minutes.
const LASTING: u8 = 10;

/// A notification for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notification {
    /// As an Event.
    Event(Notice),
    /// In the log: an annotation of a Service has an invalid value, and is ignored.
    IgnoredAnnotation {
        /// The Service.
        service: Arc<str>,
        /// The annotation.
        annotation: &'static str,
        /// The beginning of its value, safe to print.
        value: Box<str>,
    },
    /// In the log, beside an Event: the object is larger than the API server accepts. Said once, until it accepts one.
    TooLarge {
        /// The object.
        object: ObjectName,
        /// Its size in JSON.
        bytes: usize,
        /// The API server's message.
        why: Box<str>,
    },
}

impl NamespaceState {
    /// Takes the notifications since the last call.
    pub fn take_remarks(&mut self) -> Vec<Notification> {
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

    /// Notifies people that a Service's hints have come or gone.
    pub(super) fn remark_hints(&mut self, service: ServiceId, event: HintEvent) {
        let HintEvent {
            warning,
            reason,
            message,
        } = event;
        self.remarks.push(Notification::Event(Notice {
            source: Source::Slices,
            involved: self.involved(service),
            warning,
            reason,
            message,
        }));
    }

    /// Checks the annotations of a Service that is new or has changed.
    pub(super) fn remark_annotations(&mut self, service: ServiceId) {
        let facts = &self.services[service.index()].facts;
        if self.settings.legacy_tolerate_unready
            && let TolerateUnready::Malformed(value) = &facts.tolerate_unready
        {
            self.remarks.push(Notification::IgnoredAnnotation {
                service: facts.name.clone(),
                annotation: ANNOTATION_TOLERATE_UNREADY,
                value: value.clone(),
            });
        }
    }

    /// Handles a failed request for a slice. One failure is normal; one that lasts, or an outright refusal, is not.
    /// `bytes` is the size of one that is too large.
    pub(super) fn remark_slice_failure(&mut self, id: SliceId, bytes: Option<usize>, why: Option<&str>) {
        let object = &mut self.slices[id.index()].object;
        let Some(told) = told(object, bytes, why) else {
            return;
        };
        let slice = &self.slices[id.index()];
        if slice.service.is_none() {
            return;
        }
        let notice = Notice {
            source: Source::Slices,
            involved: self.involved(slice.service),
            warning: true,
            reason: "FailedToUpdateEndpointSlices",
            message: format!("EndpointSlice {}: {told}", slice.name),
        };
        let object = ObjectName::slice(slice.name.clone());
        self.remark_failure(object, notice, bytes, why);
    }

    /// Does the same for an Endpoints object.
    pub(super) fn remark_endpoints_failure(
        &mut self,
        name: &Arc<str>,
        flight: Flight,
        bytes: Option<usize>,
        why: Option<&str>,
    ) {
        let Some(object) = self.endpoints.get_mut(name).map(|entry| &mut entry.object) else {
            return;
        };
        let Some(message) = told(object, bytes, why) else {
            return;
        };
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
            message,
        };
        self.remark_failure(ObjectName::endpoints(name.clone()), notice, bytes, why);
    }

    fn remark_failure(
        &mut self,
        object: ObjectName,
        notice: Notice,
        bytes: Option<usize>,
        why: Option<&str>,
    ) {
        self.remarks.push(Notification::Event(notice));
        if let Some(bytes) = bytes {
            self.remarks.push(Notification::TooLarge {
                object,
                bytes,
                why: why.unwrap_or_default().into(),
            });
        }
    }
}

/// Returns what to tell people of the latest failure, if anything.
fn told(object: &mut ObjectState, bytes: Option<usize>, why: Option<&str>) -> Option<String> {
    let why = why.unwrap_or("the API server does not answer, or not in time");
    if let Some(bytes) = bytes {
        // Nothing but a smaller object helps, so this is said once.
        let known = std::mem::replace(&mut object.oversized, true);
        return (!known).then(|| {
            format!("too large for the API server with its {bytes} bytes, and tried again slowly: {why}")
        });
    }
    let failures = object.failures;
    // The number would make each message different, and nothing could be counted.
    if failures >= LASTING {
        (failures - LASTING)
            .is_multiple_of(SAID_AGAIN)
            .then(|| format!("cannot be brought up to date, and is tried again: {why}"))
    } else {
        (object.rejected && failures == 1)
            .then(|| format!("refused by the API server, and tried again: {why}"))
    }
}
