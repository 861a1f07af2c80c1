//! Notifications for users: collected while events are applied and requests answered, taken by the shard.
//!
//! One change of a Lease may concern a hundred thousand Services, so only a bounded number of each kind waits. Further
//! ones are counted, and the count is reported.

use crate::core::events::Notice;
use crate::core::object::{Interference, ObjectName, ObjectState, RENOTIFY_AFTER, Refusal};
use crate::core::rival::Rival;
use std::collections::VecDeque;
use std::sync::Arc;

/// The most notifications of a kind that wait to be told. So many Events of one namespace wait for their writer at most, and
/// of its lines fewer are logged in an hour.
const MOST_WAITING: u32 = 4096;

/// Number of failed requests for one object before users are notified: with the delays between them, about a minute.
/// While nothing helps, they are notified again after [`RENOTIFY_AFTER`] more: about every ten minutes.
const LASTING: u8 = 10;

/// The reason why Endpoints are not mirrored if their slices would be too large or too many.
pub(crate) const TOO_LARGE_TO_MIRROR: &str = "These Endpoints are not mirrored, and EndpointSlices that mirror them stay as \
     they are: the slices would be more than 16 times as large, because too many ports share a name, or the same ports \
     occur in too many combinations of subsets; or there would be more than 64 slices and one for each 384 bytes, because \
     too many subsets have ports of their own";

/// A notification for users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notification {
    /// Sent as an Event.
    Event(Notice),
    /// Sent as an Event, and logged: what an annotation does to what is published, or why it does nothing.
    Annotated(Notice),
    /// Sent as an Event, and logged together with others of its kind: a problem of a Service's annotations that was there before
    /// this process began to write.
    Standing(Notice),
    /// Logged: an annotation of a Service has an invalid value, and is ignored.
    IgnoredAnnotation {
        /// The Service.
        service: Arc<str>,
        /// The annotation.
        annotation: &'static str,
        /// The beginning of its value, safe to print.
        value: Box<str>,
    },
    /// Logged, beside an Event: the object is larger than the API server accepts. Said once, until it accepts one.
    TooLarge {
        /// The object.
        object: ObjectName,
        /// Its size in JSON.
        bytes: usize,
        /// The API server's message.
        why: Box<str>,
    },
    /// Logged: an object that another client had changed or deleted is as it should be again.
    Corrected {
        /// The object.
        object: ObjectName,
        /// The Service that it is published for.
        service: Arc<str>,
        /// The change that another client had made to it.
        interference: Interference,
    },
    /// In the log, beside Events: pods are left out of slices, because their node does not exist.
    UnknownNode {
        /// The node.
        node: Arc<str>,
        /// One of the pods.
        pod: Box<str>,
    },
    /// Logged: Endpoints are not mirrored, because they stand for slices that are too large.
    NotMirrored {
        /// Their name.
        endpoints: Arc<str>,
    },
    /// Counted: another controller has written an object that this one publishes.
    RivalWrote {
        /// The other controller.
        rival: Rival,
    },
    /// Logged, beside an Event: another controller keeps writing what this one publishes.
    Rival {
        /// The other controller.
        rival: Rival,
        /// The object that it wrote last.
        object: ObjectName,
        /// The Service that the object is published for.
        service: Arc<str>,
    },
    /// Logged: others have changed the object again and again, and it is left to them for some minutes.
    Contested {
        /// The object.
        object: ObjectName,
        /// The Service that it is published for.
        service: Arc<str>,
    },
    /// Counted: so many notifications of a kind were left out, since too many waited to be told.
    LeftOut {
        /// The kind.
        kind: NotificationKind,
        /// Their number.
        count: u64,
    },
}

/// A kind of notifications of which there may be very many at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotificationKind {
    /// Events.
    Event,
    /// Events, each with a line about annotations in the log.
    Annotation,
    /// Lines about objects in the log.
    Object,
}

impl NotificationKind {
    const ALL: [Self; 3] = [Self::Event, Self::Annotation, Self::Object];
}

impl Notification {
    /// Returns the kind. `None` for what is never left out, since little of it comes at once.
    fn kind(&self) -> Option<NotificationKind> {
        match self {
            Self::Event(_) => Some(NotificationKind::Event),
            Self::Annotated(_) | Self::Standing(_) => Some(NotificationKind::Annotation),
            Self::IgnoredAnnotation { .. }
            | Self::TooLarge { .. }
            | Self::Corrected { .. }
            | Self::UnknownNode { .. }
            | Self::NotMirrored { .. } => Some(NotificationKind::Object),
            Self::RivalWrote { .. } | Self::Rival { .. } | Self::Contested { .. } | Self::LeftOut { .. } => {
                None
            }
        }
    }
}

/// The notifications that wait to be told.
#[derive(Clone, Debug, Default)]
pub(super) struct Notifications {
    waiting: VecDeque<Notification>,
    /// For each kind: how many wait, and how many were left out.
    counts: [(u32, u64); NotificationKind::ALL.len()],
    /// How many were composed since the last call of [`Self::take_uncharged`].
    uncharged: u64,
}

impl Notifications {
    /// Adds a notification, or counts it if too many of its kind wait.
    pub(super) fn push(&mut self, notification: Notification) {
        self.uncharged += 1;
        if let Some(kind) = notification.kind() {
            let (waiting, left_out) = &mut self.counts[kind as usize];
            if *waiting >= MOST_WAITING {
                *left_out += 1;
                return;
            }
            *waiting += 1;
        }
        self.waiting.push_back(notification);
    }

    /// Takes some notifications, in the order in which they came, and after the last one how many were left out.
    pub(super) fn take(&mut self, most: usize) -> Vec<Notification> {
        if self.is_empty() {
            // After most messages. Something is left out only while others wait.
            return Vec::new();
        }
        let count = most.min(self.waiting.len());
        let mut taken: Vec<_> = self.waiting.drain(..count).collect();
        for kind in taken.iter().filter_map(Notification::kind) {
            self.counts[kind as usize].0 -= 1;
        }
        if self.waiting.is_empty() {
            self.waiting = VecDeque::new();
            for kind in NotificationKind::ALL {
                let count = std::mem::take(&mut self.counts[kind as usize].1);
                if count > 0 {
                    taken.push(Notification::LeftOut { kind, count });
                }
            }
        }
        taken
    }

    /// Returns whether none wait.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns how many were composed since the last call.
    pub(super) fn take_uncharged(&mut self) -> u64 {
        std::mem::take(&mut self.uncharged)
    }
}

impl Extend<Notification> for Notifications {
    fn extend<T: IntoIterator<Item = Notification>>(&mut self, notifications: T) {
        for notification in notifications {
            self.push(notification);
        }
    }
}

/// The kind of a message about a Service's annotations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Told {
    /// The effect that they have.
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
        // Only a smaller object helps, so this is said once.
        let known = object.note_oversized();
        return (!known).then(|| {
            format!("too large for the API server with its {bytes} bytes, and tried again slowly: {why}")
        });
    }
    if object.refusal == Refusal::Terminating {
        // An Event could not be written either.
        return None;
    }
    let failures = object.failures;
    // The number would make each message different, and nothing could be counted.
    if failures >= LASTING {
        (failures - LASTING)
            .is_multiple_of(RENOTIFY_AFTER)
            .then(|| format!("cannot be brought up to date, and is tried again: {why}"))
    } else {
        (object.refusal == Refusal::Rejected && failures == 1)
            .then(|| format!("refused by the API server, and tried again: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(number: u32) -> Notification {
        Notification::NotMirrored {
            endpoints: number.to_string().into(),
        }
    }

    #[test]
    fn what_is_not_told_is_counted_and_nothing_is_lost_otherwise() {
        let mut waiting = Notifications::default();
        for number in 0..10_000 {
            waiting.push(about(number));
        }
        waiting.push(Notification::RivalWrote {
            rival: Rival::Builtin,
        });
        assert_eq!(waiting.take_uncharged(), 10_001);
        let mut told = Vec::new();
        while !waiting.is_empty() {
            let piece = waiting.take(256);
            assert!(piece.len() <= 256 + NotificationKind::ALL.len());
            told.extend(piece);
        }
        let first: Vec<_> = (0..MOST_WAITING).map(about).collect();
        assert_eq!(told[..first.len()], first[..]);
        let count = u64::from(10_000 - MOST_WAITING);
        let kind = NotificationKind::Object;
        assert_eq!(
            told[first.len()..],
            [
                Notification::RivalWrote {
                    rival: Rival::Builtin
                },
                Notification::LeftOut { kind, count }
            ]
        );
        // There is room again.
        waiting.push(about(1));
        assert_eq!(waiting.take(usize::MAX), [about(1)]);
        assert!(waiting.take(usize::MAX).is_empty());
    }
}
