//! Requests for the Lease by which endpointd elects its leader, and a watch of it.

use super::cause::Cause;
use super::codec::{self, EventKind};
use super::connect::client_error::ClientError;
use super::http::{self, Head};
use super::outage::OutageLog;
use super::silence::Silent;
use super::watch::event_stream::EventStream;
use crate::core::leadership::election::{Ask, Reply};
use crate::core::lease::Record;
use crate::core::time::Time;
use ::http::{Method, StatusCode};
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// A watch that shows nothing for this long is restarted: the holder renews the lease far more often.
const SILENCE: Duration = Duration::from_secs(120);
/// The name of the lease where failures are logged.
const LEASE: &str = "the lease";
/// The pause between watches.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause after a watch was refused, so that a client without permission does not ask all the time.
const LONG_PAUSE: Duration = Duration::from_secs(60);
/// How many versions of the Lease are kept, since a late watch may show an outdated one.
const KEPT: usize = 4;

/// An event of the watch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ElectionEvent {
    /// The version of the Lease, and its record.
    Record(u64, Record),
    /// The Lease was deleted, as of a version.
    Gone(u64),
}

/// The location of the Lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Location {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Sends requests for one Lease. Clones share the known versions of it.
#[derive(Clone)]
pub struct LeaseClient {
    client: Client,
    location: Location,
    deadline: Duration,
    /// The last few versions of the Lease, with all fields that others set, in the order in which they arrived. The
    /// election decides which of them is the latest.
    known: Arc<Mutex<VecDeque<(u64, Value)>>>,
    outages: OutageLog,
}

impl fmt::Debug for LeaseClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseClient")
            .field("location", &self.location)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

impl LeaseClient {
    /// Creates a client that gives up each request after `deadline`.
    pub fn new(client: Client, location: Location, deadline: Duration) -> Self {
        Self {
            client,
            location,
            deadline,
            known: Arc::default(),
            outages: OutageLog::new(false),
        }
    }

    /// Has failures logged as part of this account, which others write to as well.
    pub(crate) fn reporting(self, outages: OutageLog) -> Self {
        Self { outages, ..self }
    }

    /// Sends a request, and waits for the answer.
    pub async fn ask(&self, ask: &Ask) -> Reply {
        let Some((method, body)) = self.request(ask) else {
            // After reading the Lease, the election can replace it.
            return Reply::Conflict;
        };
        let answer = timeout(self.deadline, self.exchange(method, body)).await;
        let (reply, failure) = match answer {
            Ok(Ok((code, body))) => self.judge(ask, code, &body),
            Ok(Err(error)) => (Reply::Failed, Some(error.into())),
            Err(_) => (Reply::Failed, Some(Silent(self.deadline).into())),
        };
        match failure {
            None => self.outages.succeeded(LEASE),
            Some(cause) => self.outages.failed(LEASE, &cause),
        }
        reply
    }

    fn request(&self, ask: &Ask) -> Option<(Method, Option<Value>)> {
        let Location { namespace, name } = &self.location;
        match ask {
            Ask::Look => Some((Method::GET, None)),
            Ask::Create(record) => {
                let mut lease = json!({
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "metadata": { "namespace": namespace, "name": name },
                });
                put(&mut lease, record);
                Some((Method::POST, Some(lease)))
            }
            Ask::Replace(version, record) => {
                // Labels and fields that we do not know are preserved.
                let known = self.known.lock();
                let (_, lease) = known.iter().find(|(known, _)| known == version)?;
                let mut lease = lease.clone();
                put(&mut lease, record);
                Some((Method::PUT, Some(lease)))
            }
        }
    }

    async fn exchange(
        &self,
        method: Method,
        body: Option<Value>,
    ) -> Result<(StatusCode, Vec<u8>), ClientError> {
        let collection = http::leases(&self.location.namespace);
        let object = format!("{collection}/{}", self.location.name);
        let uri = if method == Method::POST {
            collection
        } else {
            object
        };
        let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let request = http::write(method, &uri, &http::JSON, &http::JSON, body)?;
        let (head, body) = http::send(&self.client, request).await?;
        Ok((head.code, body.collect_bytes().await?.to_vec()))
    }

    fn judge(&self, ask: &Ask, code: StatusCode, body: &[u8]) -> (Reply, Option<Cause>) {
        if code.is_success() {
            return match serde_json::from_slice(body)
                .ok()
                .and_then(|lease| self.learn(lease))
            {
                Some((version, record)) => (Reply::Record(version, record), None),
                None => (Reply::Failed, Some(Cause::Malformed("it is no Lease".to_owned()))),
            };
        }
        let status = codec::status(code.as_u16(), body);
        match (code, ask) {
            (StatusCode::CONFLICT, _) => (Reply::Conflict, None),
            // On a create, the namespace is missing. Anything that does not know the path may answer 404; the Lease is
            // only gone if the answer names it.
            (StatusCode::NOT_FOUND, Ask::Look | Ask::Replace(..))
                if status.missing() == Some(&*self.location.name) =>
            {
                (Reply::Missing, None)
            }
            _ => (Reply::Failed, Some(Cause::refused(code.as_u16(), status))),
        }
    }

    /// Remembers the Lease. Returns its version and record.
    fn learn(&self, lease: Value) -> Option<(u64, Record)> {
        let (version, record) = read(&lease)?;
        let mut known = self.known.lock();
        // A store that was replaced may reach the same version again.
        known.retain(|(known, _)| *known != version);
        known.push_back((version, lease));
        if known.len() > KEPT {
            known.pop_front();
        }
        Some((version, record))
    }

    /// Parses an event of the watch. `None` ends the watch.
    fn event(&self, line: &[u8]) -> Option<ElectionEvent> {
        let mut event: Value = serde_json::from_slice(line).ok()?;
        let kind = EventKind::parse(event["type"].as_str()?).ok()?;
        let (version, record) = self.learn(event["object"].take())?;
        match kind {
            EventKind::Applied => Some(ElectionEvent::Record(version, record)),
            EventKind::Deleted => Some(ElectionEvent::Gone(version)),
            EventKind::Bookmark | EventKind::Error => None,
        }
    }
}

/// Writes a record into a Lease that [`read`] accepts.
fn put(lease: &mut Value, record: &Record) {
    let spec = &mut lease["spec"];
    spec["holderIdentity"] = json!(record.holder);
    spec["leaseDurationSeconds"] = json!(record.seconds);
    spec["acquireTime"] = json!(record.acquired.map(micro_time));
    spec["renewTime"] = json!(record.renewed.map(micro_time));
    spec["leaseTransitions"] = json!(record.transitions);
}

/// Reads a Lease's version and record. Returns `None` if it is not in the form of a Lease: then no record can be written into it.
pub(super) fn read(lease: &Value) -> Option<(u64, Record)> {
    let version = lease["metadata"]["resourceVersion"].as_str()?.parse().ok()?;
    let spec = Some(&lease["spec"]).filter(|spec| spec.is_object() || spec.is_null())?;
    let number = |field: &str| spec[field].as_i64().and_then(|n| i32::try_from(n).ok());
    let time = |field: &str| spec[field].as_str().and_then(Time::parse);
    let record = Record {
        holder: spec["holderIdentity"].as_str().unwrap_or_default().to_owned(),
        seconds: number("leaseDurationSeconds").unwrap_or_default(),
        acquired: time("acquireTime"),
        renewed: time("renewTime"),
        transitions: number("leaseTransitions").unwrap_or_default(),
    };
    Some((version, record))
}

/// Formats a time as the API's `MicroTime`: always with six digits after the second.
fn micro_time(time: Time) -> String {
    let micros = time.as_nanoseconds().rem_euclid(1_000_000_000) / 1000;
    let seconds = time.whole_seconds().to_string();
    format!("{}.{micros:06}Z", seconds.trim_end_matches('Z'))
}

/// Watches the Lease until the receiver is dropped. This only speeds things up: a lease that was released is acquired
/// at once instead of at the next poll. Without permission to watch, everything else still works.
pub async fn follow(client: LeaseClient, events: mpsc::Sender<ElectionEvent>) {
    let mut refused = false;
    while !events.is_closed() {
        let pause = match watch(&client, &events).await {
            Ok(()) => PAUSE,
            Err(complaint) => {
                if !std::mem::replace(&mut refused, true) {
                    tracing::warn!(
                        complaint,
                        "the lease cannot be watched; it is read from time to time, so a takeover takes longer"
                    );
                }
                LONG_PAUSE
            }
        };
        tokio::select! {
            () = events.closed() => return,
            () = sleep(pause) => {}
        }
    }
}

/// Runs one watch. The error is a refusal, in the server's words.
async fn watch(client: &LeaseClient, events: &mpsc::Sender<ElectionEvent>) -> Result<(), String> {
    let uri = format!(
        "{}?watch=1&fieldSelector=metadata.name%3D{}&timeoutSeconds=600",
        http::leases(&client.location.namespace),
        client.location.name
    );
    let opened = timeout(SILENCE, http::read(&client.client, &uri, &http::JSON)).await;
    let body = match opened {
        Ok(Ok(Ok(body))) => body,
        Ok(Ok(Err((Head { code, .. }, status))))
            if code.is_client_error() && code != StatusCode::TOO_MANY_REQUESTS =>
        {
            return Err(status.to_string());
        }
        _ => return Ok(()),
    };
    let lines = |data: &[u8]| Ok(memchr::memrchr(b'\n', data).map_or(0, |end| end + 1));
    let mut stream = EventStream::split(body, lines);
    while let Ok(Some(arrived)) = stream.next(SILENCE).await {
        for line in arrived
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let Some(event) = client.event(line) else {
                return Ok(());
            };
            if events.send(event).await.is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::client::Body;

    #[test]
    fn a_record_is_written_as_client_go_writes_it_and_read_back() {
        let mut lease = json!({
            "metadata": { "name": "endpointd", "resourceVersion": "12", "labels": { "a": "b" } },
            "spec": { "holderIdentity": "other", "strategy": "OldestEmulationVersion" },
        });
        let record = Record {
            holder: "me".to_owned(),
            seconds: 15,
            acquired: Time::parse("2026-01-01T00:00:00Z"),
            renewed: Time::parse("2026-01-01T00:00:07.00012Z"),
            transitions: 3,
        };
        put(&mut lease, &record);
        assert_eq!(
            lease["spec"],
            json!({
                "holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 3,
                "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:07.000120Z",
                "strategy": "OldestEmulationVersion",
            })
        );
        assert_eq!(lease["metadata"]["labels"], json!({ "a": "b" }));
        assert_eq!(read(&lease), Some((12, record)));
        let empty = json!({ "metadata": { "resourceVersion": "1" } });
        assert_eq!(read(&empty), Some((1, Record::default())));
        assert_eq!(read(&json!({})), None);
    }

    fn client() -> LeaseClient {
        let nobody = tower::service_fn(|_: ::http::Request<Body>| async {
            Err::<::http::Response<Body>, _>(std::io::Error::other("nobody is there"))
        });
        let location = Location {
            namespace: "kube-system".to_owned(),
            name: "endpointd".to_owned(),
        };
        LeaseClient::new(Client::new(nobody, "default"), location, Duration::from_secs(1))
    }

    #[tokio::test]
    async fn a_lease_whose_spec_is_a_text_made_the_election_panic() {
        let client = client();
        for spec in [json!("x"), json!(5), json!([]), json!(true)] {
            let lease = json!({ "metadata": { "resourceVersion": "3" }, "spec": spec });
            let line = json!({ "type": "MODIFIED", "object": lease }).to_string();
            assert_eq!(client.event(line.as_bytes()), None);
            let body = lease.to_string();
            let (reply, cause) = client.judge(&Ask::Look, StatusCode::OK, body.as_bytes());
            assert_eq!(reply, Reply::Failed);
            assert_eq!(cause.unwrap().to_string(), "malformed answer: it is no Lease");
            assert_eq!(client.request(&Ask::Replace(3, Record::default())), None);
        }
    }

    #[tokio::test]
    async fn lines_of_the_watch_mean_what_they_mean() {
        let client = client();
        let event = |kind: &str, version: &str| {
            let line = json!({ "type": kind, "object": { "metadata": { "resourceVersion": version } } });
            client.event(line.to_string().as_bytes())
        };
        assert_eq!(
            event("ADDED", "3"),
            Some(ElectionEvent::Record(3, Record::default()))
        );
        assert_eq!(event("DELETED", "2"), Some(ElectionEvent::Gone(2)));
        assert_eq!(event("ERROR", "1"), None);
        // A version that the watch has shown can be replaced, as it was shown; no other can.
        let replace = |version| client.request(&Ask::Replace(version, Record::default()));
        let (method, body) = replace(3).unwrap();
        assert_eq!(
            (method, &body.unwrap()["metadata"]["resourceVersion"]),
            (Method::PUT, &json!("3"))
        );
        assert!(replace(2).is_some(), "as late as that was");
        for version in ["4", "5", "6"] {
            event("MODIFIED", version);
        }
        assert_eq!(replace(3), None);
        assert_eq!(
            client.ask(&Ask::Replace(3, Record::default())).await,
            Reply::Conflict
        );
        assert_eq!(client.ask(&Ask::Look).await, Reply::Failed);
    }
}
