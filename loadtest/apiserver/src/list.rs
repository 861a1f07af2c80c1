//! Lists: which version is shown, in pages, and how they are written.

mod message;

use crate::accept::{Accepted, Form, Media};
use crate::body::ResponseBody;
use crate::cause::Faults;
use crate::kinds::Kind;
use crate::kubectl;
use crate::object::Object;
use crate::query::Query;
use crate::route::ObjectTarget;
use crate::selector::Selection;
use crate::status::{Answer, Refusal};
use crate::store::{State, Store};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD;
use bytes::{Bytes, BytesMut};
use futures::stream;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How much of a list is made at a time.
const CHUNK: usize = 128 * 1024;

const EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start \
    a new list without the continue parameter, or use the continue token in this response to retrieve the remainder \
    of the results. Continuing with the provided token results in an inconsistent list - objects that were created, \
    modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// A list ready to be written.
pub(crate) struct List {
    pub(crate) kind: Kind,
    pub(crate) rv: u64,
    pub(crate) items: Vec<Arc<Object>>,
    next: Option<String>,
}

/// Where a list goes on.
struct Token {
    /// None goes on at the present version, not at that of the list's beginning.
    rv: Option<u64>,
    after: String,
}

/// A version in a request, as a number.
pub(crate) fn parse_version(text: &str) -> Answer<u64> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        let mut faults = Faults::default();
        let why = format!("strconv.ParseUint: parsing \"{text}\": invalid syntax");
        faults.invalid_text("resourceVersion", text, &why);
        Refusal::invalid_options(faults.0)
    })
}

/// Checks the options every list has in common.
fn check(query: &Query) -> Answer<()> {
    let mut faults = Faults::default();
    let (matching, rv) = (query.text("resourceVersionMatch"), query.text("resourceVersion"));
    let field = "resourceVersionMatch";
    match (matching, rv) {
        ("", _) => {}
        (_, "") => faults.forbidden(field, "it is forbidden unless resourceVersion is provided"),
        ("Exact", "0") => faults.forbidden(field, "it is forbidden for resourceVersion \"0\""),
        ("Exact" | "NotOlderThan", _) => {}
        (matching, _) => faults.not_supported(field, matching, &["", "Exact", "NotOlderThan"]),
    }
    if query.get("sendInitialEvents").is_some_and(|v| !v.is_empty()) {
        faults.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
    }
    Refusal::of_options(faults)
}

/// Refuses a version that is not there yet.
pub(crate) fn not_future(rv: u64, state: &State) -> Answer<()> {
    if rv > state.rv {
        Err(Refusal::future_version(rv, state.rv))
    } else {
        Ok(())
    }
}

/// A continue token is too old; the answer says where the list can go on at the present version.
pub(crate) fn token_expired(token: &str) -> Box<Refusal> {
    let next = Token::parse(token).ok().map(|t| Token { rv: None, ..t }.text());
    Refusal::expired(EXPIRED, next)
}

pub(crate) fn collect(store: &Store, target: &ObjectTarget, query: &Query) -> Answer<List> {
    check(query)?;
    let (kind, namespace) = (target.kind, target.namespace.as_str());
    let selection = Selection::new(
        kind,
        namespace,
        query.text("labelSelector"),
        query.text("fieldSelector"),
    )?;
    let asked = parse_version(query.text("resourceVersion"))?;
    let limit: usize = match query.text("limit") {
        "" => 0,
        text => text
            .parse()
            .map_err(|_| Refusal::bad_request(format!("invalid limit: {text:?}")))?,
    };
    let token = match query.text("continue") {
        "" => None,
        text => Some(Token::parse(text)?),
    };
    let root = if namespace.is_empty() {
        String::new()
    } else {
        format!("{namespace}/")
    };
    let state = store.read();
    not_future(asked, &state)?;
    let after = token.as_ref().map(|token| format!("{root}{}", token.after));
    let is_present = match &token {
        None => query.text("resourceVersionMatch") != "Exact",
        Some(Token { rv, .. }) => rv.is_none_or(|rv| state.table(kind).ring.is_as_at(rv)),
    };
    let (rv, objects) = match &token {
        _ if is_present => {
            // No more is read than the page needs: the pages of a long list take as long as the list.
            let rest = state.range_after(kind, namespace, after.as_deref());
            let matching = rest.filter(|object| selection.matches(object)).cloned();
            let page = if limit > 0 { limit + 1 } else { usize::MAX };
            let rv = token.and_then(|token| token.rv).unwrap_or(state.rv);
            (rv, matching.take(page).collect())
        }
        Some(Token { rv: Some(rv), .. }) => {
            let Some(all) = snapshot(&state, kind, namespace, *rv) else {
                return Err(token_expired(query.text("continue")));
            };
            (*rv, all)
        }
        _ => {
            let Some(all) = snapshot(&state, kind, namespace, asked) else {
                let message = format!(
                    "The resourceVersion for the provided list is too old: {asked} ({})",
                    state.table(kind).ring.floor()
                );
                return Err(Refusal::expired(message, None));
            };
            (asked, all)
        }
    };
    drop(state);
    let is_after = |object: &Arc<Object>| after.as_ref().is_none_or(|after| *object.key > **after);
    let mut items: Vec<Arc<Object>> = objects;
    items.retain(|object| is_after(object) && selection.matches(object));
    let more = limit > 0 && items.len() > limit;
    if more {
        items.truncate(limit);
    }
    let next = items.last().filter(|_| more).map(|last| {
        let token = Token {
            rv: Some(rv),
            after: last.key[root.len()..].to_owned(),
        };
        token.text()
    });
    Ok(List {
        kind,
        rv,
        items,
        next,
    })
}

/// The objects as they were at a version, undone from the history; none when that is too old.
fn snapshot(state: &State, kind: Kind, namespace: &str, rv: u64) -> Option<Vec<Arc<Object>>> {
    let table = state.table(kind);
    let position = table.ring.after(rv)?;
    let mut objects: BTreeMap<Arc<str>, Arc<Object>> = state
        .range(kind, namespace)
        .into_iter()
        .map(|o| (Arc::clone(&o.key), o))
        .collect();
    let events: Vec<_> = table.ring.from(position)?.collect();
    for event in events.into_iter().rev() {
        if !namespace.is_empty() && event.object.namespace() != namespace {
            continue;
        }
        match &event.previous {
            Some(previous) => objects.insert(Arc::clone(&previous.key), Arc::clone(previous)),
            None => objects.remove(&event.object.key),
        };
    }
    Some(objects.into_values().collect())
}

impl Token {
    fn parse(text: &str) -> Answer<Self> {
        let bad = || Refusal::bad_request("continue key is not valid: cannot decode the token");
        let json: Value = URL_SAFE_NO_PAD
            .decode(text.trim_end_matches('='))
            .ok()
            .and_then(|b| serde_json::from_slice(&b).ok())
            .ok_or_else(bad)?;
        let rv = json.get("rv").and_then(Value::as_i64).ok_or_else(bad)?;
        let start = json.get("start").and_then(Value::as_str).ok_or_else(bad)?;
        let after = start
            .strip_suffix('\0')
            .and_then(|s| s.strip_prefix('/'))
            .ok_or_else(bad)?;
        Ok(Self {
            rv: u64::try_from(rv).ok(),
            after: after.to_owned(),
        })
    }

    fn text(&self) -> String {
        let rv = self.rv.map_or(-1, u64::cast_signed);
        let json = json!({"v": "meta.k8s.io/v1", "rv": rv, "start": format!("/{}\0", self.after)});
        URL_SAFE_NO_PAD.encode(json.to_string())
    }
}

impl List {
    /// Writes the list; a long one as it is read.
    pub(crate) fn body(self, accepted: Accepted) -> Answer<ResponseBody> {
        let form = accepted.form;
        let mut out = BytesMut::new();
        let mut metadata = format!("\"resourceVersion\":\"{}\"", self.rv);
        if let Some(next) = &self.next {
            metadata.extend([",\"continue\":\"", next, "\""]);
        }
        let (kind, version) = match form {
            Form::Whole => (self.kind.list(), self.kind.api_version),
            Form::MetadataList => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1"),
            Form::Table(_) => (String::new(), ""),
            Form::Metadata => {
                return Err(Refusal::not_acceptable(format!(
                    "you requested PartialObjectMetadata, but the requested object is a list (*{}List)",
                    self.kind.kind
                )));
            }
        };
        if accepted.media == Media::Protobuf {
            let metadata_only = form == Form::MetadataList;
            return Ok(message::body(self, &format!("{{{metadata}}}"), metadata_only));
        }
        if let Form::Table(_) = form {
            kubectl::open(&mut out, self.kind, &metadata, true);
        } else {
            out.extend_from_slice(
                format!(
                    "{{\"kind\":\"{kind}\",\"apiVersion\":\"{version}\",\"metadata\":{{{metadata}}},\"items\":["
                )
                .as_bytes(),
            );
        }
        let mut items = self.items.into_iter().enumerate().peekable();
        if write_chunk(&mut out, &mut items, form) {
            return Ok(ResponseBody::whole(out.freeze()));
        }
        Ok(ResponseBody::stream(stream::unfold(
            (out.freeze(), Some(items)),
            move |(ready, items)| async move {
                let mut items = items?;
                let mut out = BytesMut::new();
                let done = write_chunk(&mut out, &mut items, form);
                // The piece made before goes out first; the last one goes out with it.
                if done {
                    let mut both = BytesMut::with_capacity(ready.len() + out.len());
                    both.extend_from_slice(&ready);
                    both.extend_from_slice(&out);
                    Some((both.freeze(), (Bytes::new(), None)))
                } else {
                    Some((ready, (out.freeze(), Some(items))))
                }
            },
        )))
    }
}

/// Writes items until the chunk is full; true when the list is finished.
fn write_chunk(
    out: &mut BytesMut,
    items: &mut std::iter::Peekable<std::iter::Enumerate<std::vec::IntoIter<Arc<Object>>>>,
    form: Form,
) -> bool {
    while out.len() < CHUNK {
        let Some((i, object)) = items.next() else {
            out.extend_from_slice(b"]}\n");
            return true;
        };
        if i > 0 {
            out.extend_from_slice(b",");
        }
        match form {
            Form::Table(style) => style.row(out, &object),
            form => object.write_item(out, form == Form::MetadataList),
        }
    }
    if items.peek().is_none() {
        out.extend_from_slice(b"]}\n");
        return true;
    }
    false
}
