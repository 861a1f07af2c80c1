//! Notifications about Endpoints that are mirrored.

use super::Mirroring;
use crate::core::events::{Involved, InvolvedKind, Notice, Source};
use crate::core::facts::EndpointsMeta;
use crate::core::mirror::{LeftOut, MirroredObject};
use crate::core::namespace::notifications::{Notification, TOO_LARGE_TO_MIRROR};
use std::sync::Arc;

/// Returns Endpoints that are mirrored as the object of an Event.
pub(super) fn involved_endpoints(namespace: &Arc<str>, content: &MirroredObject) -> Involved {
    Involved {
        kind: InvolvedKind::Endpoints,
        namespace: namespace.clone(),
        name: content.name.clone(),
        uid: content.uid.clone(),
        version: Some(content.version),
    }
}

impl Mirroring<'_> {
    /// Notifies users of addresses that are not mirrored, if their number has changed. `told` is what they know.
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
            let (limit, skipped) = (self.ctx.settings.max_mirrored, content.left_out.total());
            let message = format!(
                "A max of {limit} addresses can be mirrored to EndpointSlices per Endpoints subset. {skipped} addresses were skipped"
            );
            events.push(("TooManyAddressesToMirror", message));
        }
        for (reason, message) in events {
            let notice = Notice {
                source: Source::Mirroring,
                involved: involved_endpoints(&self.ctx.namespace, content),
                warning: true,
                reason,
                message,
            };
            self.ctx.notifications.push(Notification::Event(notice));
        }
    }

    /// Notifies users of Endpoints that are not mirrored, because they stand for slices that are too large.
    pub(super) fn notify_not_mirrored(&mut self, endpoints: &EndpointsMeta) {
        self.ctx.notifications.push(Notification::Event(Notice {
            source: Source::Mirroring,
            involved: Involved {
                kind: InvolvedKind::Endpoints,
                namespace: self.ctx.namespace.clone(),
                name: endpoints.name.clone(),
                uid: endpoints.uid.clone(),
                version: None,
            },
            warning: true,
            reason: "TooLargeToMirror",
            message: TOO_LARGE_TO_MIRROR.to_owned(),
        }));
        self.ctx.notifications.push(Notification::NotMirrored {
            endpoints: endpoints.name.clone(),
        });
    }
}
