//! Field selectors: equalities over the few fields a kind offers.

use crate::kinds::Kind;
use crate::object::Object;
use crate::status::{Answer, Refusal};

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
pub(crate) struct FieldSelector(Vec<Term>);

impl FieldSelector {
    pub(crate) fn parse(kind: Kind, text: &str) -> Answer<Self> {
        let terms = text.split(',').filter(|part| !part.is_empty()).map(|part| {
            let (name, value, equal) = match (part.split_once("!="), part.split_once('=')) {
                (Some((name, value)), _) => (name, value, false),
                (None, Some((name, value))) => (name, value.trim_start_matches('='), true),
                (None, None) => {
                    let message = format!("invalid selector: '{text}'; can't understand '{part}'");
                    return Err(Refusal::bad_request(message));
                }
            };
            Ok(Term {
                field: field(kind, name)?,
                value: value.to_owned(),
                equal,
            })
        });
        Ok(Self(terms.collect::<Answer<_>>()?))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, object: &Object) -> bool {
        self.0.iter().all(|term| {
            let value = match term.field {
                Field::Name => object.name(),
                Field::Namespace => object.namespace(),
                Field::Own(i) => &object.fields[i],
            };
            (value == term.value) == term.equal
        })
    }
}

fn field(kind: Kind, name: &str) -> Answer<Field> {
    if let Some(i) = kind.fields.iter().position(|field| *field == name) {
        return Ok(Field::Own(i));
    }
    match name {
        "metadata.name" => Ok(Field::Name),
        "metadata.namespace" if kind.namespaced => Ok(Field::Namespace),
        _ => Err(Refusal::bad_request(format!("field label not supported: {name}"))),
    }
}
