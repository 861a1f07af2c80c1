//! Field selectors: equalities over the few fields a kind offers.

use crate::kinds::Kind;
use crate::object::Object;
use crate::status::{Answer, Refusal};
use std::borrow::Cow;

/// Which field a term looks at.
#[derive(Clone, Copy, Debug)]
enum Field {
    Name,
    Namespace,
    /// An index into the kind's own fields.
    Own(usize),
}

#[derive(Clone, Debug)]
struct Term {
    field: Field,
    value: String,
    equal: bool,
}

/// A parsed field selector.
#[derive(Clone, Debug)]
pub(crate) struct FieldSelector {
    kind: Kind,
    terms: Vec<Term>,
}

impl FieldSelector {
    pub(crate) fn parse(kind: Kind, text: &str) -> Answer<Self> {
        let mut terms = Vec::new();
        for part in split_terms(text) {
            if part.is_empty() {
                continue;
            }
            let Some((name, equal, value)) = split_term(part) else {
                let message = format!("invalid selector: '{text}'; can't understand '{part}'");
                return Err(Refusal::bad_request(message));
            };
            let Some(value) = unescape(value) else {
                let message = format!("invalid field selector: invalid escape sequence: {value}");
                return Err(Refusal::bad_request(message));
            };
            terms.push(Term {
                field: field(kind, name)?,
                value,
                equal,
            });
        }
        Ok(Self { kind, terms })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    pub(crate) fn matches(&self, object: &Object) -> bool {
        self.terms.iter().all(|term| {
            let value = match term.field {
                Field::Name => Cow::Borrowed(object.name()),
                Field::Namespace => object.namespace().into(),
                Field::Own(i) => own(self.kind, object, i),
            };
            (value == term.value) == term.equal
        })
    }
}

/// The value of the field at this place of `kind`. An object keeps the values of the version that it was written in, as
/// that was defined then: a field that is none of these is read from the object.
fn own(kind: Kind, object: &Object, i: usize) -> Cow<'_, str> {
    let field = &kind.fields[i];
    let written = object.kind.fields;
    let at = if std::ptr::eq(written, kind.fields) {
        Some(i)
    } else {
        written.iter().position(|there| there.name == field.name)
    };
    match at.and_then(|at| object.fields.get(at)) {
        Some(value) => Cow::Borrowed(value),
        None => Cow::Owned(field.value(&object.value()).into()),
    }
}

fn field(kind: Kind, name: &str) -> Answer<Field> {
    if let Some(i) = kind.fields.iter().position(|field| field.name == name) {
        return Ok(Field::Own(i));
    }
    match name {
        "metadata.name" => Ok(Field::Name),
        "metadata.namespace" if kind.namespaced => Ok(Field::Namespace),
        _ if kind.fields.is_empty() => Err(Refusal::bad_request(format!(
            "\"{name}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        ))),
        _ => Err(Refusal::bad_request(format!("field label not supported: {name}"))),
    }
}

/// Splits at commas that no backslash guards.
fn split_terms(text: &str) -> Vec<&str> {
    let (mut terms, mut start, mut escaped) = (Vec::new(), 0, false);
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    term.char_indices().find_map(|(i, _)| {
        [("!=", false), ("==", true), ("=", true)]
            .into_iter()
            .find_map(|(operator, equal)| {
                term[i..]
                    .strip_prefix(operator)
                    .map(|value| (&term[..i], equal, value))
            })
    })
}

/// Removes backslashes; none for a sequence that is no escape.
fn unescape(value: &str) -> Option<String> {
    let (mut out, mut escaped) = (String::with_capacity(value.len()), false);
    for c in value.chars() {
        match (escaped, c) {
            (true, '\\' | ',' | '=') => {
                escaped = false;
                out.push(c);
            }
            (true, _) | (false, ',' | '=') => return None,
            (false, '\\') => escaped = true,
            (false, c) => out.push(c),
        }
    }
    (!escaped).then_some(out)
}
