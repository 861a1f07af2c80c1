//! What users are told of Endpoints that are mirrored.

use super::Mirroring;
use crate::core::events::{Involved, InvolvedKind, Notice, Source};
use crate::core::facts::EndpointsMeta;
use crate::core::mirror::{LeftOut, MirroredObject};

/// The reason why Endpoints are not mirrored if their slices would be too large or too many.
const TOO_LARGE_TO_MIRROR: &str = "These Endpoints are not mirrored, and EndpointSlices that mirror them stay as \
     they are: the slices would be more than 16 times as large, because too many ports share a name, or the same ports \
     occur in too many combinations of subsets; or there would be more than 64 slices and one for each 384 bytes, because \
     too many subsets have ports of their own";

impl Mirroring<'_> {
    fn notify_of_endpoints(&mut self, involved: Involved, reason: &'static str, message: String) {
        self.ctx.notify(Notice {
            source: Source::Mirroring,
            involved,
            warning: true,
            reason,
            message,
        });
    }

    /// Returns Endpoints that are mirrored as the object of an Event.
    pub(super) fn involved(&self, content: &MirroredObject) -> Involved {
        Involved {
            kind: InvolvedKind::Endpoints,
            namespace: self.ctx.namespace.clone(),
            name: content.name.clone(),
            uid: content.uid.clone(),
            version: Some(content.version),
        }
    }

    /// Notifies users of addresses that are not mirrored, if their number has changed. `told` is what they know.
    pub(super) fn notify_left_out(&mut self, content: &MirroredObject, told: LeftOut) {
        let LeftOut {
            invalid,
            beyond_limit,
        } = content.left_out;
        if invalid > 0 && invalid != told.invalid {
            let message = format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
            self.notify_of_endpoints(self.involved(content), "InvalidIPAddress", message);
        }
        if beyond_limit > 0 && content.left_out != told {
            let (limit, skipped) = (self.ctx.settings.max_mirrored, content.left_out.total());
            let message = format!(
                "A max of {limit} addresses can be mirrored to EndpointSlices per Endpoints subset. {skipped} addresses were skipped"
            );
            self.notify_of_endpoints(self.involved(content), "TooManyAddressesToMirror", message);
        }
    }

    /// Notifies users of Endpoints that are not mirrored, because they stand for slices that are too large.
    pub(super) fn notify_not_mirrored(&mut self, endpoints: &EndpointsMeta) {
        let involved = Involved {
            kind: InvolvedKind::Endpoints,
            namespace: self.ctx.namespace.clone(),
            name: endpoints.name.clone(),
            uid: endpoints.uid.clone(),
            version: None,
        };
        self.notify_of_endpoints(involved, "TooLargeToMirror", TOO_LARGE_TO_MIRROR.to_owned());
    }
}
