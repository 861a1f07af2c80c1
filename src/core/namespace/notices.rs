//! What users are told of a namespace, and the texts about failures.

use crate::core::events::Notice;
use crate::core::object::{ObjectState, RENOTIFY_AFTER, Refusal};

/// The most notices that wait to be taken. Further ones are dropped, and counted.
const MOST_WAITING: usize = 1024;
/// Number of failed requests for one object before users are notified: with the delays between them, about a minute.
/// While nothing helps, they are notified again after [`RENOTIFY_AFTER`] more: about every ten minutes.
const LASTING: u8 = 10;

/// The notices that wait to be taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Notices {
    waiting: Vec<Notice>,
    dropped: u64,
}

impl Notices {
    /// Adds a notice.
    pub(super) fn push(&mut self, notice: Notice) {
        if self.waiting.len() < MOST_WAITING {
            self.waiting.push(notice);
        } else {
            self.dropped += 1;
        }
    }

    /// Takes all notices.
    pub(super) fn take(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.waiting)
    }

    /// Returns how many were dropped since the last call.
    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
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
    use crate::core::events::{Involved, InvolvedKind, Source};

    #[test]
    fn a_notice_for_which_there_is_no_room_is_counted() {
        let mut notices = Notices::default();
        for number in 0..MOST_WAITING + 10 {
            notices.push(Notice {
                source: Source::Slices,
                involved: Involved {
                    kind: InvolvedKind::Service,
                    namespace: "ns".into(),
                    name: "s".into(),
                    uid: "u".into(),
                    version: None,
                },
                warning: true,
                reason: "Test",
                message: number.to_string(),
            });
        }
        let taken = notices.take();
        assert_eq!((taken.len(), notices.take_dropped()), (MOST_WAITING, 10));
        assert_eq!(taken[0].message, "0", "the first ones stay");
        assert_eq!((notices.take().len(), notices.take_dropped()), (0, 0));
    }
}
