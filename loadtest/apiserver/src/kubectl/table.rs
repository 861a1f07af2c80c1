//! Tables: what `kubectl get` shows, one row for each object.

use super::cells::columns;
use crate::kinds::Kind;
use crate::object::Object;
use bytes::BytesMut;
use jiff::Timestamp;
use serde_json::{Value, json};

/// How a table is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    /// Rows carry the whole object, not its metadata alone.
    whole: bool,
    /// The time to which ages are counted.
    now: Timestamp,
}

// === impl Style ===

impl Style {
    /// A table as an Accept header asks for it, before the request's options are looked at.
    pub(crate) const ASKED: Self = Self {
        whole: false,
        now: Timestamp::UNIX_EPOCH,
    };

    /// The table that the request's options ask for.
    pub(crate) fn of(include: &str, now: Timestamp) -> Self {
        Self {
            whole: include == "Object",
            now,
        }
    }

    /// The same at another time.
    pub(crate) fn at(self, now: Timestamp) -> Self {
        Self { now, ..self }
    }

    /// Writes a table of one object.
    pub(crate) fn single(self, out: &mut BytesMut, object: &Object, with_columns: bool) {
        let metadata = format!("\"resourceVersion\":\"{}\"", object.rv);
        open(out, object.kind, &metadata, with_columns);
        self.row(out, object);
        out.extend_from_slice(b"]}");
    }

    /// Writes an object's row.
    pub(crate) fn row(self, out: &mut BytesMut, object: &Object) {
        let value = object.value();
        let cells = columns(object.kind)
            .iter()
            .map(|(_, _, cell)| cell.of(&value, self.now));
        let cells: Vec<String> = cells.collect();
        out.extend_from_slice(format!("{{\"cells\":{},\"object\":", json!(cells)).as_bytes());
        object.write(out, !self.whole);
        out.extend_from_slice(b"}");
    }
}

/// Writes a table's beginning, up to its first row. `metadata` is what follows the opening brace.
pub(crate) fn open(out: &mut BytesMut, kind: Kind, metadata: &str, with_columns: bool) {
    let columns = columns(kind).iter().map(|(name, priority, _)| {
        let format = if *name == "Name" { "name" } else { "" };
        json!({"name": name, "type": "string", "format": format, "description": "", "priority": priority})
    });
    let columns: Option<Vec<Value>> = with_columns.then(|| columns.collect());
    let columns = json!(columns);
    out.extend_from_slice(
        format!(
            "{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{{{metadata}}},\
             \"columnDefinitions\":{columns},\"rows\":["
        )
        .as_bytes(),
    );
}

/// A bookmark, which has a row without cells.
pub(crate) fn bookmark(rv: u64, object: &str) -> String {
    format!(
        "{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{{\"resourceVersion\":\"{rv}\"}},\
         \"columnDefinitions\":null,\"rows\":[{{\"cells\":[],\"object\":{object}}}]}}"
    )
}
