//! Tables: what `kubectl get` shows, one row per object.

mod cells;
mod columns;
mod config;
mod event;
mod network;
mod node;
mod path;
mod pod;

use self::cells::age;
use self::columns::Column;
use crate::kinds::Kind;
use crate::object::Object;
use crate::status::{Answer, Refusal};
use bytes::BytesMut;
use jiff::Timestamp;
use serde_json::Value;

/// How a table is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    include: Include,
    /// The time to which ages are counted.
    pub(crate) now: Timestamp,
}

/// The part of its object that a row carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Include {
    Nothing,
    Metadata,
    Object,
}

// === impl Style ===

impl Style {
    /// A table as an Accept header asks for it, before the request's options are looked at; none where there are no tables.
    pub(crate) const ASKED: Option<Self> = Some(Self {
        include: Include::Metadata,
        now: Timestamp::UNIX_EPOCH,
    });

    /// The table that the request's options ask for.
    pub(crate) fn with_options(self, include: &str, now: Timestamp) -> Answer<Self> {
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
        Ok(Self {
            include,
            ..self.at(now)
        })
    }

    /// The same at another time.
    fn at(self, now: Timestamp) -> Self {
        Self { now, ..self }
    }

    /// A bookmark, which has a row without cells.
    #[expect(clippy::unused_self, reason = "without the feature there is no table to open")]
    pub(crate) fn bookmark(self, rv: u64, object: &str) -> String {
        format!(
            "{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{{\"resourceVersion\":\"{rv}\"}},\
             \"columnDefinitions\":null,\"rows\":[{{\"cells\":[],\"object\":{object}}}]}}"
        )
    }

    /// Writes a table's beginning, up to its first row. `metadata` is what follows the opening brace.
    #[expect(clippy::unused_self, reason = "without the feature there is no table to open")]
    pub(crate) fn open(self, out: &mut BytesMut, kind: Kind, metadata: &str, with_columns: bool) {
        out.extend_from_slice(br#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"#);
        out.extend_from_slice(metadata.as_bytes());
        out.extend_from_slice(br#"},"columnDefinitions":"#);
        if with_columns {
            let columns: Vec<Value> = columns::of(kind).0.iter().map(Column::value).collect();
            out.extend_from_slice(Value::from(columns).to_string().as_bytes());
        } else {
            out.extend_from_slice(b"null");
        }
        out.extend_from_slice(br#","rows":["#);
    }

    /// Writes a table of one object.
    pub(crate) fn single(self, out: &mut BytesMut, object: &Object, with_columns: bool) {
        let metadata = format!("\"resourceVersion\":\"{}\"", object.rv);
        self.open(out, object.kind, &metadata, with_columns);
        self.row(out, object);
        out.extend_from_slice(b"]}");
    }

    /// Writes a table of one object as it is at another time.
    pub(crate) fn single_at(self, now: Timestamp, out: &mut BytesMut, object: &Object, with_columns: bool) {
        self.at(now).single(out, object, with_columns);
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

/// The cells of an object: those whose place its columns name, and between them those its kind makes.
fn row(kind: Kind, object: &Value, now: Timestamp) -> Vec<Value> {
    let (columns, cells) = columns::of(kind);
    let mut own = cells
        .map_or_else(Vec::new, |cells| cells(object, now))
        .into_iter();
    columns
        .iter()
        .map(|column| match column.path {
            "" => own.next().unwrap_or_default(),
            path => cell(column.shape, path::find(object, path), kind.is_custom(), now),
        })
        .collect()
}

/// A cell whose value stands in the object. A value that is absent is empty, and null in a custom resource.
fn cell(shape: &str, found: Option<&Value>, custom: bool, now: Timestamp) -> Value {
    match (shape, found) {
        ("date" | "age", found) if found.is_some() || !custom => {
            age(found.and_then(Value::as_str).unwrap_or(""), now).into()
        }
        (_, None) if custom => Value::Null,
        (_, None) => "".into(),
        ("string", Some(Value::String(text))) => text.as_str().into(),
        ("string", Some(other)) => other.to_string().into(),
        (_, Some(other)) => other.clone(),
    }
}
