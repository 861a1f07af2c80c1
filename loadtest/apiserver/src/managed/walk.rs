//! Values against sets of fields: which fields a value has, what differs, what is merged and taken away.

use super::fields::{Element, Fields};
use crate::schema::{Form, Place};
use serde_json::{Map, Value};

/// The differences between two states of an object.
#[derive(Debug, Default)]
pub(crate) struct Difference {
    /// The fields that are new or have another value.
    pub(crate) changed: Fields,
    pub(crate) removed: Fields,
}

fn field(name: &str) -> Element {
    Element::Field(name.to_owned())
}

fn of_text(item: &Value) -> Element {
    Element::Value(item.to_string())
}

/// The fields an applied configuration speaks about.
pub(crate) fn fields_of(place: Place<'_>, value: &Value) -> Fields {
    let mut fields = Fields::default();
    collect(place, value, &mut fields, false);
    fields.own = false;
    fields
}

/// Adds the fields of a value; `whole` is for what is new with all around it: the containers belong to it too.
fn collect(place: Place<'_>, value: &Value, out: &mut Fields, whole: bool) {
    match (place.form(), value) {
        (Form::Struct | Form::Map, Value::Object(entries)) => {
            out.own |= whole || entries.is_empty();
            for (name, value) in entries.iter().filter(|(_, value)| !value.is_null()) {
                out.within(field(name), |out| collect(place.child(name), value, out, whole));
            }
        }
        (Form::Keyed(list), Value::Array(items)) => {
            out.own |= whole || items.is_empty();
            for item in items {
                match list.key_of(item) {
                    Some(key) => out.within(Element::item(&key), |out| {
                        out.own = true;
                        collect(place.item(), item, out, whole);
                    }),
                    None => out.own = true,
                }
            }
        }
        (Form::Set, Value::Array(items)) => {
            out.own |= whole || items.is_empty();
            for item in items {
                out.within(of_text(item), |out| out.own = true);
            }
        }
        _ => out.own = true,
    }
}

/// Returns the fields that differ from `old` in `new`.
pub(crate) fn compare(place: Place<'_>, old: &Value, new: &Value) -> Difference {
    let mut difference = Difference::default();
    differ(
        place,
        Some(old),
        Some(new),
        &mut difference.changed,
        &mut difference.removed,
    );
    // No manager owns these top-level fields themselves, only what is in them.
    for set in [&mut difference.changed, &mut difference.removed] {
        set.own = false;
        for field in ["metadata", "spec", "status"] {
            if matches!(place.child(field).form(), Form::Struct) {
                set.disown(&[field]);
            }
        }
    }
    difference
}

fn differ(
    place: Place<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    changed: &mut Fields,
    removed: &mut Fields,
) {
    let (old, new) = (old.filter(|v| !v.is_null()), new.filter(|v| !v.is_null()));
    let (old, new) = match (old, new) {
        (None, None) => return,
        (None, Some(new)) => return collect(place, new, changed, true),
        (Some(old), None) => return collect(place, old, removed, true),
        (Some(old), Some(new)) if old == new => return,
        (Some(old), Some(new)) => (old, new),
    };
    // Both sets are walked side by side; what stays empty is not kept.
    let step = |element: Element, place: Place<'_>, old, new, changed: &mut Fields, removed: &mut Fields| {
        changed.within(element.clone(), |changed| {
            removed.within(element, |removed| differ(place, old, new, changed, removed));
        });
    };
    match (place.form(), old, new) {
        (Form::Struct | Form::Map, Value::Object(old), Value::Object(new)) => {
            for (name, value) in old {
                step(
                    field(name),
                    place.child(name),
                    Some(value),
                    new.get(name),
                    changed,
                    removed,
                );
            }
            for (name, value) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
                step(
                    field(name),
                    place.child(name),
                    None,
                    Some(value),
                    changed,
                    removed,
                );
            }
        }
        (Form::Keyed(list), Value::Array(old), Value::Array(new)) => {
            let find = |items: &[Value], key| items.iter().position(|item| list.key_of(item) == key);
            if old.iter().chain(new).any(|item| list.key_of(item).is_none()) {
                changed.own = true;
                return;
            }
            let of_item = |item: &Value| list.key_of(item).map(|key| Element::item(&key));
            for item in old {
                let other = find(new, list.key_of(item)).map(|i| &new[i]);
                if let Some(element) = of_item(item) {
                    step(element, place.item(), Some(item), other, changed, removed);
                }
            }
            for item in new.iter().filter(|item| find(old, list.key_of(item)).is_none()) {
                if let Some(element) = of_item(item) {
                    step(element, place.item(), None, Some(item), changed, removed);
                }
            }
        }
        (Form::Set, Value::Array(old), Value::Array(new)) => {
            for item in old.iter().filter(|item| !new.contains(item)) {
                removed.within(of_text(item), |out| out.own = true);
            }
            for item in new.iter().filter(|item| !old.contains(item)) {
                changed.within(of_text(item), |out| out.own = true);
            }
        }
        _ => changed.own = true,
    }
}

/// The live value with what is applied laid over it.
pub(crate) fn merge(place: Place<'_>, live: Option<&Value>, applied: &Value) -> Value {
    match (place.form(), applied) {
        (_, Value::Null) => live.cloned().unwrap_or_default(),
        (Form::Struct | Form::Map, Value::Object(entries)) => {
            let mut merged = live.and_then(Value::as_object).cloned().unwrap_or_default();
            for (name, value) in entries.iter().filter(|(_, value)| !value.is_null()) {
                let value = merge(place.child(name), merged.get(name), value);
                merged.insert(name.clone(), value);
            }
            merged.into()
        }
        (Form::Keyed(list), Value::Array(items)) => {
            let mut merged = live.and_then(Value::as_array).cloned().unwrap_or_default();
            for item in items {
                let key = list.key_of(item);
                match merged
                    .iter()
                    .position(|live| key.is_some() && list.key_of(live) == key)
                {
                    Some(i) => merged[i] = merge(place.item(), Some(&merged[i]), item),
                    None => merged.push(merge(place.item(), None, item)),
                }
            }
            merged.into()
        }
        (Form::Set, Value::Array(items)) => {
            let mut merged = live.and_then(Value::as_array).cloned().unwrap_or_default();
            for item in items {
                if !merged.contains(item) {
                    merged.push(item.clone());
                }
            }
            merged.into()
        }
        _ => applied.clone(),
    }
}

/// Takes fields away, except those that are kept.
pub(crate) fn take_away(place: Place<'_>, value: &mut Value, gone: &Fields, kept: Option<&Fields>) {
    let form = place.form();
    let of = |element: &Element| kept.and_then(|kept| kept.get(element));
    match value {
        Value::Object(entries) if matches!(form, Form::Struct | Form::Map) => {
            for (element, gone) in gone.below() {
                let Element::Field(name) = element else { continue };
                let kept = of(element);
                if gone.own && kept.is_none() {
                    entries.remove(name);
                } else if let Some(value) = entries.get_mut(name) {
                    take_away(place.child(name), value, gone, kept);
                    if kept.is_none() && is_hollow(value) {
                        entries.remove(name);
                    }
                }
            }
        }
        Value::Array(items) => match form {
            Form::Keyed(list) => items.retain_mut(|item| {
                let Some(element) = list.key_of(item).map(|key| Element::item(&key)) else {
                    return true;
                };
                let Some(gone) = gone.get(&element) else {
                    return true;
                };
                let kept = of(&element);
                if gone.own && kept.is_none() {
                    return false;
                }
                take_away(place.item(), item, gone, kept);
                true
            }),
            Form::Set => items.retain(|item| {
                let element = of_text(item);
                gone.get(&element).is_none() || of(&element).is_some()
            }),
            _ => {}
        },
        _ => {}
    }
}

fn is_hollow(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}
