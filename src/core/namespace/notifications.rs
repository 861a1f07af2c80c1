//! Notifications for people: collected while events are applied and requests answered, taken by the shard.

use super::leading::LeaderStatus;
use super::lifecycle::Published;
use super::{NamespaceState, WorkItem};
use crate::core::compact::small::SmallSet;
use crate::core::events::{Involved, InvolvedKind, Notice, Source};
use crate::core::excerpt::Excerpt;
use crate::core::facts::{EndpointsMeta, Manager};
use crate::core::hints::HintEvent;
use crate::core::ids::ServiceId;
use crate::core::leader::Vacancy;
use crate::core::mirror::{LeftOut, MirroredObject};
use crate::core::object::{Flight, Interference, ObjectName, ObjectState, Phase, SAID_AGAIN};
use crate::core::rival::Rival;
use std::sync::Arc;

/// Number of failed requests for one object before people are notified: with the delays between them, about a minute.
/// While nothing helps, they are notified again after [`SAID_AGAIN`] more: about every ten minutes.
const LASTING: u8 = 10;

/// Why Endpoints are not mirrored that stand for slices that are too large or too many.
pub(crate) const TOO_LARGE_TO_MIRROR: &str = "These Endpoints are not mirrored, and EndpointSlices that mirror them stay as \
     they are: the slices would be more than 16 times as large, because too many ports share a name, or the same ports \
     occur in too many combinations of subsets; or there would be more than 64 slices and one for each 384 bytes, because \
     too many subsets have ports of their own";

/// A notification for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notification {
    /// As an Event.
    Event(Notice),
    /// As an Event, and in the log: what an annotation does to what is published, or why it does nothing.
    Annotated(Notice),
    /// In the log, beside an Event: another pod leads a Service than before, or one leads again. The texts are safe to print.
    TookOver {
        /// The Service.
        service: Arc<str>,
        /// The Lease.
        lease: Box<str>,
        /// The identity of its holder.
        identity: Box<str>,
        /// The pod that was published last, if this process knows one.
        from: Option<Box<str>>,
        /// The pod that is published now.
        to: Box<str>,
    },
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
    /// In the log: an object that another client had changed or deleted is as it should be again.
    Corrected {
        /// The object.
        object: ObjectName,
        /// The Service that it is published for.
        service: Arc<str>,
        /// What had been done to it.
        interference: Interference,
    },
    /// In the log, beside Events: pods are left out of slices, because their node does not exist.
    UnknownNode {
        /// The node.
        node: Arc<str>,
        /// One of the pods.
        pod: Box<str>,
    },
    /// In the log: Endpoints are not mirrored, because they stand for slices that are too large.
    NotMirrored {
        /// Their name.
        endpoints: Arc<str>,
    },
    /// In the log, beside an Event: slices of a Service stay, because those that should take their place hold no endpoints.
    Kept {
        /// The Service.
        service: Arc<str>,
        /// What stays, and why.
        message: Box<str>,
    },
    /// Counted: another controller has written an object that this one publishes.
    RivalWrote {
        /// The other controller.
        rival: Rival,
    },
    /// In the log, beside an Event: another controller keeps writing what this one publishes.
    Rival {
        /// The other controller.
        rival: Rival,
        /// The object that it wrote last.
        object: ObjectName,
        /// The Service that the object is published for.
        service: Arc<str>,
    },
    /// In the log: others have changed the object again and again, and it is left to them for some minutes.
    Contested {
        /// The object.
        object: ObjectName,
        /// The Service that it is published for.
        service: Arc<str>,
    },
}

impl NamespaceState {
    /// Takes the notifications since the last call.
    pub fn take_notifications(&mut self) -> Vec<Notification> {
        std::mem::take(&mut self.notifications)
    }

    pub(super) fn involved(&self, service: ServiceId) -> Involved {
        let facts = &self.services[service].facts;
        Involved {
            kind: InvolvedKind::Service,
            namespace: self.namespace.clone(),
            name: facts.name.clone(),
            uid: facts.uid.clone(),
            version: None,
        }
    }

    /// Notifies people that a Service's hints have come or gone.
    pub(super) fn notify_hints(&mut self, service: ServiceId, event: HintEvent) {
        let HintEvent {
            warning,
            reason,
            message,
        } = event;
        self.notifications.push(Notification::Event(Notice {
            source: Source::Slices,
            involved: self.involved(service),
            warning,
            reason,
            message,
        }));
    }

    /// Notifies people of addresses that are not mirrored, if their number has changed. `told` is what they know.
    pub(super) fn notify_left_out(&mut self, content: &MirroredObject, told: LeftOut) {
        let LeftOut {
            invalid,
            beyond_limit,
        } = content.left_out;
        let mut events = Vec::new();
        if invalid > 0 && invalid != told.invalid {
            let message = format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
            events.push(("InvalidIPAddress", message));
        }
        if beyond_limit > 0 && content.left_out != told {
            let (limit, skipped) = (self.settings.max_mirrored, content.left_out.total());
            let message = format!(
                "A max of {limit} addresses can be mirrored to EndpointSlices per Endpoints subset. {skipped} addresses were skipped"
            );
            events.push(("TooManyAddressesToMirror", message));
        }
        for (reason, message) in events {
            let notice = Notice {
                source: Source::Mirroring,
                involved: self.involved_endpoints(content),
                warning: true,
                reason,
                message,
            };
            self.notifications.push(Notification::Event(notice));
        }
    }

    /// Notifies people of Endpoints that are not mirrored, because they stand for slices that are too large.
    pub(super) fn notify_not_mirrored(&mut self, endpoints: &EndpointsMeta) {
        self.notifications.push(Notification::Event(Notice {
            source: Source::Mirroring,
            involved: Involved {
                kind: InvolvedKind::Endpoints,
                namespace: self.namespace.clone(),
                name: endpoints.name.clone(),
                uid: endpoints.uid.clone(),
                version: None,
            },
            warning: true,
            reason: "TooLargeToMirror",
            message: TOO_LARGE_TO_MIRROR.to_owned(),
        }));
        self.notifications.push(Notification::NotMirrored {
            endpoints: endpoints.name.clone(),
        });
    }

    /// Notifies people that an object is left to others, who have changed it again and again.
    pub(super) fn notify_contested<T: Published>(&mut self, id: T::Id) {
        let WorkItem { object, service, .. } = T::objects(self)[id].work_item();
        self.notifications
            .push(Notification::Contested { object, service });
    }

    /// Notifies people that a write has put an object right that another client had changed or deleted.
    pub(super) fn notify_corrected<T: Published>(&mut self, id: T::Id) {
        let object = T::objects_mut(self)[id].object_mut();
        if let Some(interference) = object.interference.take()
            && object.phase == Phase::Managed
        {
            let item = T::objects(self)[id].work_item();
            self.tell_corrected(item, *interference);
        }
    }

    /// Notifies people that nobody is published for a Service that follows a Lease, if that may need their help.
    pub(super) fn notify_leader(&mut self, service: ServiceId, status: LeaderStatus) {
        let facts = &self.services[service].facts;
        let Some(lease) = facts.followed_lease() else {
            return;
        };
        let holder = || {
            let holder = self.leader(&facts.name).and_then(|(_, holder)| holder);
            format!(
                ", whose identity is {}",
                Excerpt::value(holder.unwrap_or_default())
            )
        };
        let mut identity = String::new();
        let (reason, why) = match status {
            LeaderStatus::NoPod => {
                identity = holder();
                (
                    "LeaderNotFound",
                    "no pod that may be published has the name of its holder",
                )
            }
            LeaderStatus::SeveralPods => {
                identity = holder();
                ("LeaderNotFound", "several pods have the name of its holder")
            }
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
            "Nobody is published for the Lease {}: {why}{identity}",
            Excerpt::value(lease)
        );
        self.notify_annotated(service, true, reason, message);
    }

    /// Notifies people that others publish slices for a Service whose selector is an annotation: clients unite them all.
    pub(super) fn notify_other_slices(&mut self, service: ServiceId) {
        let count = {
            let state = &self.services[service];
            let slices = self.unmanaged.get(&state.facts.name);
            let others = slices.into_iter().flat_map(SmallSet::iter);
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
        let told = std::mem::replace(&mut self.services[service].told_of_others, count > 0);
        if count > 0 && !told {
            let message = format!(
                "{count} EndpointSlices of other controllers name this Service, and clients use their endpoints too"
            );
            self.notify_annotated(service, true, "OtherEndpointSlices", message);
        }
    }

    /// Notifies people that slices, and which, stay, because those for the Service's selector, which should take their place, hold no
    /// ready endpoints. `unwritten` means that these could not be written yet.
    pub(super) fn notify_kept(&mut self, name: &str, source: Source, which: &str, unwritten: bool) {
        let Some(service) = self.services.find(name) else {
            return;
        };
        let why = if unwritten {
            "could not be written yet: does the API server refuse them?"
        } else {
            "hold no ready endpoints: does the selector match pods that are ready?"
        };
        let message = format!(
            "EndpointSlices {which} stay, because the EndpointSlices for the Service's selector {why}"
        );
        self.notifications.push(Notification::Kept {
            service: self.services[service].facts.name.clone(),
            message: message.clone().into(),
        });
        self.notifications.push(Notification::Event(Notice {
            source,
            involved: self.involved(service),
            warning: true,
            reason: "EndpointSlicesKept",
            message,
        }));
    }

    /// Notifies people of a failed request, if it is time: one failure is normal; one that lasts, or an outright
    /// refusal, is not. `bytes` is the size of an object that is too large.
    pub(super) fn notify_failure<T: Published>(
        &mut self,
        id: T::Id,
        flight: Flight,
        bytes: Option<usize>,
        why: Option<&str>,
    ) {
        let object = T::objects_mut(self)[id].object_mut();
        let Some(message) = failure_message(object, bytes, why) else {
            return;
        };
        let entry = &T::objects(self)[id];
        let Some(notice) = entry.failure_notice(self, flight, message) else {
            return;
        };
        let object = entry.work_item().object;
        self.notifications.push(Notification::Event(notice));
        if let Some(bytes) = bytes {
            self.notifications.push(Notification::TooLarge {
                object,
                bytes,
                why: why.unwrap_or_default().into(),
            });
        }
    }
}

/// Returns what to tell people of the latest failure, if anything.
fn failure_message(object: &mut ObjectState, bytes: Option<usize>, why: Option<&str>) -> Option<String> {
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
