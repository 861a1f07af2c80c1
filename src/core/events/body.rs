//! Event objects as the API server wants them, in JSON.

use super::{Involved, Source};
use crate::core::time::Time;
use serde_json::json;

/// An Event of the core group, in full.
pub(super) struct EventBody<'a> {
    pub(super) name: &'a str,
    pub(super) involved: &'a Involved,
    pub(super) source: Source,
    pub(super) warning: bool,
    pub(super) reason: &'static str,
    pub(super) message: &'a str,
    pub(super) first: Time,
    pub(super) last: Time,
    pub(super) count: u32,
}

impl EventBody<'_> {
    /// Returns the object to create.
    pub(super) fn create(&self) -> Vec<u8> {
        let mut involved = json!({
            "apiVersion": "v1",
            "kind": self.involved.kind.as_str(),
            "namespace": &*self.involved.namespace,
            "name": &*self.involved.name,
        });
        if !self.involved.uid.is_none() {
            involved["uid"] = self.involved.uid.to_string().into();
        }
        if let Some(version) = self.involved.version {
            involved["resourceVersion"] = version.to_string().into();
        }
        let component = self.source.component();
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": self.name, "namespace": &*self.involved.namespace},
            "involvedObject": involved,
            "type": if self.warning { "Warning" } else { "Normal" },
            "reason": self.reason,
            "message": self.message,
            "source": {"component": component},
            "reportingComponent": component,
            "reportingInstance": "",
            "firstTimestamp": self.first.whole_seconds().to_string(),
            "lastTimestamp": self.last.whole_seconds().to_string(),
            "count": self.count,
        });
        event.to_string().into_bytes()
    }

    /// Returns a merge patch with the fields that change when the Event repeats.
    pub(super) fn patch(&self) -> Vec<u8> {
        let patch = json!({
            "count": self.count,
            "lastTimestamp": self.last.whole_seconds().to_string(),
            "message": self.message,
        });
        patch.to_string().into_bytes()
    }
}
