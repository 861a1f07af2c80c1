//! Rows of events.

use super::cells::age;
use crate::json::{number, text};
use jiff::Timestamp;
use serde_json::Value;

pub(super) fn core(event: &Value, now: Timestamp) -> Vec<Value> {
    row(event, true, now)
}

pub(super) fn new(event: &Value, now: Timestamp) -> Vec<Value> {
    row(event, false, now)
}

/// Both kinds of events have the same columns, but other names for some fields.
fn row(event: &Value, old: bool, now: Timestamp) -> Vec<Value> {
    let at = |core: &str, new: &str| text(event, if old { core } else { new });
    let first = match at("/firstTimestamp", "/deprecatedFirstTimestamp") {
        "" => text(event, "/eventTime"),
        first => first,
    };
    let mut last = match at("/lastTimestamp", "/deprecatedLastTimestamp") {
        "" => first,
        last => last,
    };
    let mut times = number(event, if old { "/count" } else { "/deprecatedCount" }).max(1);
    if event.get("series").is_some() {
        last = text(event, "/series/lastObservedTime");
        times = number(event, "/series/count");
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
        target.into(),
        about("fieldPath").into(),
        source.join(", ").into(),
        at("/message", "/note").trim().into(),
        age(first, now).into(),
        times.into(),
    ]
}
