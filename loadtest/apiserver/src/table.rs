//! Tables: what `kubectl get` shows, one row per object.

mod cells;
mod columns;
mod network;
mod pod;

pub(crate) use self::columns::Column;

use self::cells::{age, or};
use crate::kinds::Kind;
use crate::object::{Object, text};
use crate::status::{Answer, Refusal};
use bytes::BytesMut;
use jiff::Timestamp;
use serde_json::{Value, json};

/// How a table is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    include: Include,
    /// What ages are counted to.
    pub(crate) now: Timestamp,
}

/// What a row carries of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Include {
    Nothing,
    Metadata,
    Object,
}

// === impl Style ===

impl Default for Style {
    /// Before the request's options are looked at.
    fn default() -> Self {
        Self {
            include: Include::Metadata,
            now: Timestamp::UNIX_EPOCH,
        }
    }
}

impl Style {
    pub(crate) fn new(include: &str, now: Timestamp) -> Answer<Self> {
        let include = match include {
            "None" => Include::Nothing,
            "" | "Metadata" => Include::Metadata,
            "Object" => Include::Object,
            other => {
                return Err(Refusal::bad_request(format!(
                    "unrecognized includeObject value: \"{other}\""
                )));
            }
        };
        Ok(Self { include, now })
    }

    /// The same at another time.
    pub(crate) fn at(self, now: Timestamp) -> Self {
        Self { now, ..self }
    }

    /// A bookmark, which has a row without cells.
    pub(crate) fn bookmark(rv: u64, object: &str) -> String {
        format!(
            "{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{{\"resourceVersion\":\"{rv}\"}},\
             \"columnDefinitions\":null,\"rows\":[{{\"cells\":[],\"object\":{object}}}]}}"
        )
    }

    /// Writes a table's beginning, up to its first row. `metadata` is what follows the opening brace.
    pub(crate) fn open(out: &mut BytesMut, kind: Kind, metadata: &str, with_columns: bool) {
        out.extend_from_slice(br#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"#);
        out.extend_from_slice(metadata.as_bytes());
        out.extend_from_slice(br#"},"columnDefinitions":"#);
        if with_columns {
            let columns: Vec<Value> = columns::of(kind).iter().map(Column::value).collect();
            out.extend_from_slice(Value::from(columns).to_string().as_bytes());
        } else {
            out.extend_from_slice(b"null");
        }
        out.extend_from_slice(br#","rows":["#);
    }

    /// Writes a table of one object.
    pub(crate) fn single(self, out: &mut BytesMut, object: &Object, with_columns: bool) {
        let metadata = format!("\"resourceVersion\":\"{}\"", object.rv);
        Self::open(out, object.kind, &metadata, with_columns);
        self.row(out, object);
        out.extend_from_slice(b"]}");
    }

    /// Writes an object's row.
    pub(crate) fn row(self, out: &mut BytesMut, object: &Object) {
        out.extend_from_slice(br#"{"cells":"#);
        let value = object.value();
        let cells = Value::from(row(object.kind, &value, self.now));
        out.extend_from_slice(cells.to_string().as_bytes());
        out.extend_from_slice(br#","object":"#);
        match self.include {
            Include::Nothing => out.extend_from_slice(b"null"),
            Include::Metadata => object.write(out, true),
            Include::Object => object.write(out, false),
        }
        out.extend_from_slice(b"}");
    }
}

/// The cells of an object.
fn row(kind: Kind, object: &Value, now: Timestamp) -> Vec<Value> {
    let name = text(object, "/metadata/name");
    let old = age(text(object, "/metadata/creationTimestamp"), now);
    let cells: Vec<String> = match kind {
        Kind::Pod => pod::row(object, name, &old, now),
        Kind::Service => network::service(object, name, &old),
        Kind::Endpoints => vec![name.to_owned(), network::endpoints(object), old],
        Kind::EndpointSlice => network::slice(object, name, &old),
        Kind::Node => node(object, name, &old),
        Kind::Namespace => vec![name.to_owned(), text(object, "/status/phase").to_owned(), old],
        Kind::Lease => vec![
            name.to_owned(),
            text(object, "/spec/holderIdentity").to_owned(),
            old,
        ],
        Kind::Event | Kind::NewEvent => return event(kind, object, name, now),
    };
    cells.into_iter().map(Value::from).collect()
}

fn node(node: &Value, name: &str, old: &str) -> Vec<String> {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|c| text(c, "/type") == "Ready");
    let mut status = match ready.map(|c| text(c, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node.pointer("/spec/unschedulable") == Some(&json!(true)) {
        status.push_str(",SchedulingDisabled");
    }
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    let mut roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(
            |(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
                Some(role) => Some(role),
                None if key == "kubernetes.io/role" => value.as_str(),
                None => None,
            },
        )
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    let addresses = node.pointer("/status/addresses").and_then(Value::as_array);
    let address = |kind: &str| {
        let found = addresses.into_iter().flatten().find(|a| text(a, "/type") == kind);
        or(found.map_or("", |a| text(a, "/address")), "<none>")
    };
    let info = |field: &str| or(text(node, &format!("/status/nodeInfo/{field}")), "<unknown>");
    vec![
        name.to_owned(),
        status,
        or(&roles.join(","), "<none>"),
        old.to_owned(),
        text(node, "/status/nodeInfo/kubeletVersion").to_owned(),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

/// Both kinds of events have the same columns, but other names for some fields.
fn event(kind: Kind, event: &Value, name: &str, now: Timestamp) -> Vec<Value> {
    let old = kind == Kind::Event;
    let at = |core: &str, new: &str| text(event, if old { core } else { new });
    let first = match at("/firstTimestamp", "/deprecatedFirstTimestamp") {
        "" => text(event, "/eventTime"),
        first => first,
    };
    let mut last = match at("/lastTimestamp", "/deprecatedLastTimestamp") {
        "" => first,
        last => last,
    };
    let count = |pointer: &str| event.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let mut times = count(if old { "/count" } else { "/deprecatedCount" }).max(1);
    if event.get("series").is_some() {
        last = text(event, "/series/lastObservedTime");
        times = count("/series/count");
    }
    let about = if old { "/involvedObject" } else { "/regarding" };
    let about = |field: &str| text(event, &format!("{about}/{field}"));
    let mut target = about("kind").to_lowercase();
    if !about("name").is_empty() {
        target.extend(["/", about("name")]);
    }
    let either = |a: &str, b: &str| if a.is_empty() { b.to_owned() } else { a.to_owned() };
    let source = [
        either(
            at("/source/component", "/deprecatedSource/component"),
            at("/reportingComponent", "/reportingController"),
        ),
        either(
            at("/source/host", "/deprecatedSource/host"),
            text(event, "/reportingInstance"),
        ),
    ];
    let source: Vec<String> = source.into_iter().filter(|part| !part.is_empty()).collect();
    vec![
        age(last, now).into(),
        text(event, "/type").into(),
        text(event, "/reason").into(),
        target.into(),
        about("fieldPath").into(),
        source.join(", ").into(),
        at("/message", "/note").trim().into(),
        age(first, now).into(),
        times.into(),
        name.into(),
    ]
}
