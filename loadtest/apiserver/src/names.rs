//! The names that definitions compete for.

use crate::json::{list, text, texts};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Names that definitions hold in a group: of resources, and of kinds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

// === impl Taken ===

impl Taken {
    /// The names that a definition was given.
    pub(crate) fn by(definition: &Value) -> Self {
        let names = &definition["status"]["acceptedNames"];
        let of = |fields: [&str; 2]| {
            let names = fields.map(|field| text(names, field));
            names
                .into_iter()
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
        };
        Self {
            resources: of(["/plural", "/singular"])
                .chain(texts(names, "/shortNames"))
                .collect(),
            kinds: of(["/kind", "/listKind"]).collect(),
        }
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        self.resources.extend(other.resources.iter().cloned());
        self.kinds.extend(other.kinds.iter().cloned());
    }
}

/// Gives a definition the names that it asks for and that no other has taken, as upstream's naming controller does, and
/// establishes it when it has them all. One that was established stays so. True when this changes the definition.
pub(crate) fn accept_names(definition: &mut Value, taken: &Taken, now: &str) -> bool {
    let wanted = definition["spec"]["names"].clone();
    let before = definition["status"].clone();
    let mut accepted = before["acceptedNames"].clone();
    let mut conflict = None;
    let in_use = |name: &str| format!("\"{name}\" is already in use");
    for (field, reason, taken) in [
        ("plural", "PluralConflict", &taken.resources),
        ("singular", "SingularConflict", &taken.resources),
        ("shortNames", "ShortNamesConflict", &taken.resources),
        ("kind", "KindConflict", &taken.kinds),
        ("listKind", "ListKindConflict", &taken.kinds),
    ] {
        let of = |names: &Value| match &names[field] {
            Value::String(name) => vec![name.clone()],
            names => texts(names, ""),
        };
        let had = of(&accepted);
        let refused: Vec<String> = of(&wanted)
            .iter()
            .filter(|name| !had.contains(name) && taken.contains(*name))
            .map(|name| in_use(name))
            .collect();
        match &refused[..] {
            [] => accepted[field] = wanted[field].clone(),
            [one] => conflict = Some((reason, one.clone())),
            all => conflict = Some((reason, format!("[{}]", all.join(", ")))),
        }
    }
    accepted["categories"] = wanted["categories"].clone();
    if let Some(fields) = accepted.as_object_mut() {
        fields.retain(|_, name| !name.is_null());
    }
    definition["status"]["acceptedNames"] = accepted;
    let is_accepted = conflict.is_none();
    let (reason, message) = conflict.unwrap_or_else(|| ("NoConflicts", "no conflicts found".to_owned()));
    set_condition(definition, "NamesAccepted", is_accepted, (reason, &message), now);
    if !is_established(definition) {
        let why = if is_accepted {
            ("InitialNamesAccepted", "the initial names have been accepted")
        } else {
            ("NotAccepted", "not all names are accepted")
        };
        set_condition(definition, "Established", is_accepted, why, now);
    }
    definition["status"] != before
}

fn conditions(definition: &Value) -> &[Value] {
    list(definition, "/status/conditions")
}

/// Whether the kinds that a definition defines are served.
pub(crate) fn is_established(definition: &Value) -> bool {
    let is_it = |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
    conditions(definition).iter().any(is_it)
}

/// Sets a condition, which keeps its time when its status stays.
fn set_condition(
    definition: &mut Value,
    kind: &str,
    status: bool,
    (reason, message): (&str, &str),
    now: &str,
) {
    let status = if status { "True" } else { "False" };
    let mut conditions = conditions(definition).to_vec();
    let at = conditions.iter().position(|condition| condition["type"] == kind);
    let mut condition = json!({
        "lastTransitionTime": now, "message": message, "reason": reason, "status": status, "type": kind,
    });
    match at {
        Some(at) => {
            if conditions[at]["status"] == status {
                condition["lastTransitionTime"] = conditions[at]["lastTransitionTime"].clone();
            }
            conditions[at] = condition;
        }
        None => conditions.push(condition),
    }
    definition["status"]["conditions"] = conditions.into();
}
