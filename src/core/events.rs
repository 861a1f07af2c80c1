//! What users are told, as Kubernetes Events. A notice that repeats one of the last ten minutes is counted in the same Event.

use super::excerpt;
use super::hash::{KeyedMap, hash_of};
use super::ids::Uid;
use super::time::Time;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// For this long after an Event was written, the same notice is counted in it.
const REPEATED_WITHIN: Duration = Duration::from_secs(600);
/// The number of Events from which on those that are too old to be counted up are forgotten. Five are written a second, so no
/// more than 3,050 are young enough.
const MOST_REMEMBERED: usize = 4096;
/// Longer messages are cut: the newer Events API, which shows the same objects, allows no longer ones.
const LONGEST_MESSAGE_BYTES: usize = 1024;

/// The upstream controller that an Event is written for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// The controller that writes Endpoints.
    Endpoints,
    /// The controller that writes `EndpointSlices`.
    Slices,
    /// The controller that mirrors Endpoints.
    Mirroring,
    /// The controller for Services whose selector is an annotation.
    Custom,
}

impl Source {
    /// Returns the name that the controller gives itself in Events, which is that of upstream's if there is one.
    pub fn component(self) -> &'static str {
        match self {
            Self::Endpoints => "endpoint-controller",
            Self::Slices => "endpoint-slice-controller",
            Self::Mirroring => "endpoint-slice-mirroring-controller",
            Self::Custom => "custom-selector-controller",
        }
    }
}

/// The kind of object that an Event is about; both are of `v1`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum InvolvedKind {
    /// A Service.
    Service,
    /// An Endpoints object.
    Endpoints,
}

impl InvolvedKind {
    /// Returns the kind as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::Endpoints => "Endpoints",
        }
    }
}

/// The object that an Event is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Involved {
    /// Its kind.
    pub kind: InvolvedKind,
    /// Its namespace, where the Event goes too.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its UID; none if it could not be created.
    pub uid: Uid,
    /// Its resourceVersion, if known.
    pub version: Option<u64>,
}

/// A notice for users. It becomes a line of the log and an Event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice {
    /// The source of the Event.
    pub source: Source,
    /// The object that it is about.
    pub involved: Involved,
    /// True if it is a warning.
    pub warning: bool,
    /// A reason for machines, in `UpperCamelCase`.
    pub reason: &'static str,
    /// A sentence for users.
    pub message: String,
}

impl Notice {
    /// Returns a hash that the repetitions of a notice share.
    fn hash(&self) -> u64 {
        let Involved {
            kind,
            namespace,
            name,
            uid,
            version: _,
        } = &self.involved;
        hash_of(&(
            (self.source, kind, namespace, name, uid),
            (self.warning, self.reason, &self.message),
        ))
    }
}

/// A request for one Event object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventWrite {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
    /// The request to send.
    pub request: EventRequest,
    notice: u64,
    count: u32,
    at: Time,
}

/// The request for an Event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EventRequest {
    /// POST this object.
    Create(Vec<u8>),
    /// PATCH with this merge patch.
    Patch(Vec<u8>),
}

/// The result of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventOutcome {
    /// The request was carried out.
    Written,
    /// An Event of that name exists, so an earlier create was carried out after all.
    Exists,
    /// The Event no longer exists: API servers keep Events for an hour.
    NotFound,
    /// The API server refuses it, and would the next time too.
    Rejected,
    /// The API server did not answer, or asks for a pause.
    Failed {
        /// The length of the pause.
        pause: Option<Duration>,
        /// True if the failure concerns this Event or its namespace only, and not the API server.
        alone: bool,
    },
}

/// The Events that were written lately.
#[derive(Debug, Default)]
pub struct EventLog {
    /// By the hash of the notice.
    written: KeyedMap<u64, Written>,
    /// The number in the last name: names are never the same.
    last_name: i64,
}

#[derive(Debug)]
struct Written {
    name: Arc<str>,
    count: u32,
    last: Time,
}

impl Written {
    fn is_recent(&self, now: Time) -> bool {
        let passed = now.as_nanoseconds().saturating_sub(self.last.as_nanoseconds());
        i128::from(passed) <= REPEATED_WITHIN.as_nanos().cast_signed()
    }
}

impl EventLog {
    /// Returns the request for the Event of a notice that was given at this time.
    pub fn write(&mut self, notice: &Notice, at: Time) -> EventWrite {
        let hash = notice.hash();
        let message = excerpt::cut(&notice.message, LONGEST_MESSAGE_BYTES);
        let repeated = self.written.get(&hash).filter(|written| written.is_recent(at));
        let (name, count, request) = if let Some(Written { name, count, .. }) = repeated {
            let count = count.saturating_add(1).min(i32::MAX as u32);
            (name.clone(), count, EventRequest::Patch(patch(count, at)))
        } else {
            self.last_name = at.as_nanoseconds().max(self.last_name + 1);
            let name: Arc<str> = format!("{}.{:x}", notice.involved.name, self.last_name).into();
            let body = create(notice, &name, message, at);
            (name, 1, EventRequest::Create(body))
        };
        EventWrite {
            namespace: notice.involved.namespace.clone(),
            name,
            request,
            notice: hash,
            count,
            at,
        }
    }

    /// Remembers an Event that was written.
    pub fn remember(&mut self, write: &EventWrite) {
        if self.written.len() >= MOST_REMEMBERED {
            self.written.retain(|_, written| written.is_recent(write.at));
        }
        let written = Written {
            name: write.name.clone(),
            count: write.count,
            last: write.at,
        };
        self.written.insert(write.notice, written);
    }

    /// Forgets an Event that is not there any more: the next request for the notice creates another one.
    pub fn forget(&mut self, write: &EventWrite) {
        self.written.remove(&write.notice);
    }
}

/// Returns the object to create, an Event of the core group.
fn create(notice: &Notice, name: &str, message: &str, at: Time) -> Vec<u8> {
    let Involved {
        kind,
        namespace,
        name: of,
        uid,
        version,
    } = &notice.involved;
    let mut involved = json!({
        "apiVersion": "v1", "kind": kind.as_str(), "namespace": &**namespace, "name": &**of,
    });
    if !uid.is_none() {
        involved["uid"] = uid.to_string().into();
    }
    if let Some(version) = version {
        involved["resourceVersion"] = version.to_string().into();
    }
    let (component, at) = (notice.source.component(), at.whole_seconds().to_string());
    let event = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": &**namespace},
        "involvedObject": involved,
        "type": if notice.warning { "Warning" } else { "Normal" },
        "reason": notice.reason,
        "message": message,
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": "",
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    });
    event.to_string().into_bytes()
}

/// Returns a merge patch with the fields that change when the Event repeats.
fn patch(count: u32, at: Time) -> Vec<u8> {
    let patch = json!({"count": count, "lastTimestamp": at.whole_seconds().to_string()});
    patch.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    const START: i64 = 1_767_225_600;

    fn at(seconds: i64) -> Time {
        Time::from_seconds(START + seconds)
    }

    fn notice(name: &str, message: &str) -> Notice {
        Notice {
            source: Source::Slices,
            involved: Involved {
                kind: InvolvedKind::Service,
                namespace: "ns".into(),
                name: name.into(),
                uid: Uid::from("u1"),
                version: Some(7),
            },
            warning: true,
            reason: "FailedToUpdateEndpointSlices",
            message: message.to_owned(),
        }
    }

    /// Whether a write is a create, and its body.
    fn body(write: &EventWrite) -> (bool, Value) {
        match &write.request {
            EventRequest::Create(body) => (true, serde_json::from_slice(body).unwrap()),
            EventRequest::Patch(body) => (false, serde_json::from_slice(body).unwrap()),
        }
    }

    /// Writes an Event with success.
    fn written(log: &mut EventLog, notice: &Notice, at: Time) -> EventWrite {
        let write = log.write(notice, at);
        log.remember(&write);
        write
    }

    #[test]
    fn an_event_is_created_then_counted_for_ten_minutes() {
        let mut log = EventLog::default();
        let write = log.write(&notice("s", "m"), at(1));
        let name = format!("s.{:x}", (START + 1) * 1_000_000_000);
        assert_eq!((&*write.namespace, &*write.name), ("ns", &*name));
        let created = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "ns"},
            "involvedObject": {
                "apiVersion": "v1", "kind": "Service", "namespace": "ns", "name": "s", "uid": "u1",
                "resourceVersion": "7",
            },
            "type": "Warning", "reason": "FailedToUpdateEndpointSlices", "message": "m",
            "source": {"component": "endpoint-slice-controller"},
            "reportingComponent": "endpoint-slice-controller", "reportingInstance": "",
            "firstTimestamp": "2026-01-01T00:00:01Z", "lastTimestamp": "2026-01-01T00:00:01Z", "count": 1,
        });
        assert_eq!(body(&write), (true, created));
        log.remember(&write);
        for (seconds, count) in [(4, 2), (604, 3), (1204, 4)] {
            let write = written(&mut log, &notice("s", "m"), at(seconds));
            let last = at(seconds).to_string();
            let patch = json!({"count": count, "lastTimestamp": last});
            assert_eq!((&*write.name, body(&write)), (&*name, (false, patch)));
        }
        let later = written(&mut log, &notice("s", "m"), at(1805));
        assert!(body(&later).0 && *later.name != *name);
    }

    #[test]
    fn another_notice_is_another_event() {
        let mut log = EventLog::default();
        let mut notices = vec![notice("s", "m"), notice("t", "m"), notice("s", "n")];
        let other = |change: fn(&mut Notice)| {
            let mut other = notice("s", "m");
            change(&mut other);
            other
        };
        notices.push(other(|n| n.warning = false));
        notices.push(other(|n| n.reason = "Other"));
        notices.push(other(|n| n.source = Source::Endpoints));
        notices.push(other(|n| n.involved.kind = InvolvedKind::Endpoints));
        notices.push(other(|n| n.involved.uid = Uid::none()));
        notices.push(other(|n| n.involved.namespace = "other".into()));
        let writes: Vec<_> = notices.iter().map(|n| written(&mut log, n, at(1))).collect();
        let mut names: Vec<_> = writes.iter().map(|write| &write.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), notices.len(), "names differ at one moment too");
        assert!(writes.iter().all(|write| body(write).0));
        assert_eq!(body(&writes[3]).1["type"], "Normal");
        assert_eq!(body(&writes[5]).1["source"]["component"], "endpoint-controller");
        assert_eq!(body(&writes[6]).1["involvedObject"]["kind"], "Endpoints");
        assert_eq!(body(&writes[7]).1["involvedObject"].get("uid"), None);
        let mut newer = notice("s", "m");
        newer.involved.version = Some(8);
        assert!(!body(&log.write(&newer, at(2))).0, "the version does not matter");
    }

    #[test]
    fn what_was_not_written_or_is_gone_is_created() {
        let mut log = EventLog::default();
        log.write(&notice("s", "m"), at(1));
        assert!(body(&log.write(&notice("s", "m"), at(2))).0);
        written(&mut log, &notice("s", "m"), at(3));
        let write = log.write(&notice("s", "m"), at(4));
        assert!(!body(&write).0);
        log.forget(&write);
        assert!(body(&log.write(&notice("s", "m"), at(4))).0);
    }

    #[test]
    fn memory_is_bounded() {
        let mut log = EventLog::default();
        for second in 0..10_000 {
            for number in 0..5 {
                written(&mut log, &notice("s", &format!("{second} {number}")), at(second));
            }
            assert!(log.written.len() <= MOST_REMEMBERED);
        }
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let mut log = EventLog::default();
        for (message, length) in [
            ("\u{e9}".repeat(2000), 1024),
            (format!("x{}", "\u{e9}".repeat(2000)), 1023),
        ] {
            let (_, event) = body(&log.write(&notice("s", &message), at(1)));
            assert_eq!(event["message"].as_str().unwrap().len(), length);
        }
    }
}
