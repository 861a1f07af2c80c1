//! Server-side apply.

use super::walk::{compare, fields_of, merge, take_away};
use super::{BEFORE, Fields, Manager, Managers, Writer};
use crate::cause::Cause;
use crate::json::text;
use crate::registry;
use crate::schema::Place;
use crate::status::{Answer, Refusal};
use serde_json::Value;

/// A configuration that is applied.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    config: Value,
    force: bool,
}

/// How the annotation is called in which `kubectl apply` keeps what it sent.
const LAST_APPLIED: &str = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";

// === impl Applied ===

impl Applied {
    /// Reads a body, which is YAML.
    pub(crate) fn parse(kind: crate::kinds::Kind, body: &[u8], force: bool) -> Answer<Self> {
        let bad = |why: String| Refusal::bad_request(format!("error decoding YAML: {why}"));
        // JSON is YAML too, and read faster.
        let config: Value = if let Ok(config) = serde_json::from_slice(body) {
            config
        } else {
            let body = std::str::from_utf8(body).map_err(|error| bad(error.to_string()))?;
            serde_saphyr::from_str(body).map_err(|error| bad(error.to_string()))?
        };
        if !config.is_object() {
            return Err(bad("an object is wanted".to_owned()));
        }
        if text(&config, "/apiVersion").is_empty() || text(&config, "/kind").is_empty() {
            return Err(Refusal::bad_request("Object 'Kind' is missing in the patch"));
        }
        if config
            .pointer("/metadata/managedFields")
            .is_some_and(|fields| !fields.is_null())
        {
            return Err(Refusal::bad_request("metadata.managedFields must be nil"));
        }
        if let Some(path) = registry::unknown_fields(kind, &config).first() {
            let (namespace, name) = (
                text(&config, "/metadata/namespace"),
                text(&config, "/metadata/name"),
            );
            let api = match kind.group() {
                "" => "/v1",
                _ => kind.api_version,
            };
            return Err(Box::new(Refusal::new(
                500,
                "",
                format!(
                    "failed to create typed patch object ({namespace}/{name}; {api}, Kind={}): .{path}: field not \
                     declared in schema",
                    kind.kind
                ),
            )));
        }
        Ok(Self { config, force })
    }
}

/// Returns the object to store if there is none yet: the configuration, with its manager as the owner.
pub(crate) fn create(writer: Writer<'_>, applied: &Applied) -> Answer<Value> {
    let mut value = registry::decode_value(writer.kind, applied.config.clone())?;
    let fields = writer.own(fields_of(Place::root(writer.kind), &applied.config));
    Managers(vec![writer.entry(true, fields)]).store(&mut value);
    Ok(value)
}

/// The object with the configuration applied, and whether its owners are others than before; refused with the
/// conflicts there are.
pub(crate) fn apply(writer: Writer<'_>, applied: &Applied, old: &Value) -> Answer<(Value, bool)> {
    let place = Place::root(writer.kind);
    let mut managers = Managers::of(old);
    let before = managers.clone();
    if managers.0.is_empty() {
        managers.0.push(Manager {
            name: BEFORE.to_owned(),
            applies: false,
            part: String::new(),
            version: writer.kind.api_version.to_owned(),
            time: writer.now.to_owned(),
            fields: Writer {
                sub: crate::route::Sub::Finalize,
                ..writer
            }
            .own(fields_of(place, old)),
        });
    }
    let mine = managers.0.iter().position(|manager| writer.is(manager, true));
    let last = mine.map_or_else(Fields::default, |i| managers.0.swap_remove(i).fields);
    let fields = writer.own(fields_of(place, &applied.config));

    let mut merged = merge(place, Some(old), &applied.config);
    let mut kept = fields.clone();
    for other in &managers.0 {
        kept.add(&other.fields);
    }
    take_away(place, &mut merged, &last.minus(&fields), Some(&kept));
    let mut new = registry::decode_value(writer.kind, merged)?;

    let difference = compare(place, old, &new);
    let (changed, removed) = (writer.own(difference.changed), writer.own(difference.removed));
    let conflicts: Vec<(usize, Fields)> = managers
        .0
        .iter()
        .enumerate()
        .map(|(i, manager)| (i, manager.fields.and(&changed)))
        .filter(|(_, fields)| !fields.is_empty())
        .collect();
    if !applied.force {
        let forgiven = forgiven(writer, old);
        let left: Vec<(usize, Fields)> = conflicts
            .iter()
            .map(|(i, fields)| (*i, fields.minus(&forgiven)))
            .filter(|(_, fields)| !fields.is_empty())
            .collect();
        if !left.is_empty() {
            return Err(refusal(&managers, &left));
        }
    }
    for (i, fields) in conflicts {
        managers.0[i].fields = managers.0[i].fields.minus(&fields);
    }
    for manager in &mut managers.0 {
        manager.fields = manager.fields.minus(&removed);
    }
    managers.0.push(writer.entry(true, fields));
    if managers.same_as(&before) {
        // The times of what is as it was stay.
        before.store(&mut new);
        return Ok((new, false));
    }
    for manager in &mut managers.0 {
        let was = before.0.iter().find(|was| {
            (&was.name, was.applies, &was.part) == (&manager.name, manager.applies, &manager.part)
                && was.fields == manager.fields
        });
        if let Some(was) = was {
            manager.time.clone_from(&was.time);
        }
    }
    managers.store(&mut new);
    Ok((new, true))
}

/// Returns the fields that `kubectl` may take over without force: those that it had sent itself before it applied on
/// the server's side, unless they have changed since.
fn forgiven(writer: Writer<'_>, old: &Value) -> Fields {
    let sent: Value = match (writer.manager, text(old, LAST_APPLIED)) {
        ("kubectl", sent) if !sent.is_empty() => serde_json::from_str(sent).unwrap_or_default(),
        _ => return Fields::default(),
    };
    let place = Place::root(writer.kind);
    let mut all = fields_of(place, &sent);
    let Ok(sent) = registry::decode_value(writer.kind, sent) else {
        return Fields::default();
    };
    let since = compare(place, &sent, old);
    all = all.minus(&since.changed).minus(&since.removed);
    // The annotation that holds the sent text is kubectl's own.
    let annotation = serde_json::json!({"metadata": {"annotations": {
        "kubectl.kubernetes.io/last-applied-configuration": ""
    }}});
    all.add(&fields_of(place, &annotation));
    all
}

fn refusal(managers: &Managers, conflicts: &[(usize, Fields)]) -> Box<Refusal> {
    let mut causes = Vec::new();
    let mut said = Vec::new();
    for (i, fields) in conflicts {
        let manager = managers.0[*i].said();
        let paths = fields.paths();
        let lines: Vec<String> = paths.iter().map(|path| format!("- {path}")).collect();
        said.push(format!("conflicts with {manager}:\n{}", lines.join("\n")));
        causes.extend(
            paths
                .into_iter()
                .map(|path| Cause::new("FieldManagerConflict", &path, format!("conflict with {manager}"))),
        );
    }
    let message = match causes.as_slice() {
        [one] => format!("Apply failed with 1 conflict: {}: {}", one.message, one.field),
        all => format!("Apply failed with {} conflicts: {}", all.len(), said.join("\n")),
    };
    Refusal::apply_conflict(message, causes)
}
