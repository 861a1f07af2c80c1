//! Notifications for users: collected while events are applied and requests answered, taken by the shard.

use crate::core::events::Notice;
use crate::core::object::{Interference, ObjectName, ObjectState, RENOTIFY_AFTER};
use crate::core::rival::Rival;
use std::sync::Arc;

/// Number of failed requests for one object before users are notified: with the delays between them, about a minute.
/// While nothing helps, they are notified again after [`RENOTIFY_AFTER`] more: about every ten minutes.
const LASTING: u8 = 10;

/// Why Endpoints are not mirrored that stand for slices that are too large or too many.
pub(crate) const TOO_LARGE_TO_MIRROR: &str = "These Endpoints are not mirrored, and EndpointSlices that mirror them stay as \
     they are: the slices would be more than 16 times as large, because too many ports share a name, or the same ports \
     occur in too many combinations of subsets; or there would be more than 64 slices and one for each 384 bytes, because \
     too many subsets have ports of their own";

/// A notification for users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notification {
    /// As an Event.
    Event(Notice),
    /// As an Event, and in the log: what an annotation does to what is published, or why it does nothing.
    Annotated(Notice),
    /// As an Event, and in the log together with others of its kind: a problem of a Service's annotations that was there before
    /// this process began to write.
    Standing(Notice),
    /// In the log, beside an Event: a pod leads a Service that had no leader, or another one had, or that one had before. The
    /// texts are safe to print.
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
    /// In the log, beside an Event: the pod that led a Service is published no more, and no other takes its place. The texts
    /// are safe to print.
    Withdrew {
        /// The Service.
        service: Arc<str>,
        /// The Lease.
        lease: Box<str>,
        /// The pod.
        from: Box<str>,
        /// Why.
        why: Box<str>,
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

/// What users are told of a Service's annotations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Told {
    /// What they do.
    News,
    /// A problem that has come about.
    Problem,
    /// A problem that was there before this process began to write.
    Standing,
}

/// Returns what to tell users of the latest failure, if anything.
pub(super) fn failure_message(
    object: &mut ObjectState,
    bytes: Option<usize>,
    why: Option<&str>,
) -> Option<String> {
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
            .is_multiple_of(RENOTIFY_AFTER)
            .then(|| format!("cannot be brought up to date, and is tried again: {why}"))
    } else {
        (object.rejected && failures == 1)
            .then(|| format!("refused by the API server, and tried again: {why}"))
    }
}
