//! The findings of `endpointd audit`: the objects that are not as they should be, and why.

use super::census::{Counts, Due, Objects};
use super::desired::Desired;
use super::differences::{Difference, PodState, SliceContext, of_endpoints, of_slice};
use super::text::{Table, plural};
use crate::core::hash::KeyedMap;
use crate::core::object::{Output, Verb};
use serde::Serialize;
use serde::ser::{SerializeStruct as _, Serializer};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

/// The number of differences that are printed for an object.
const SHOWN: usize = 3;

/// An object that is not as it should be.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The Service that the object is published for, or was.
    pub service: Arc<str>,
    /// The object's kind.
    pub output: Output,
    /// The object's name; none for a slice that has yet to be created.
    pub name: Option<Arc<str>>,
    /// The write that would fix it.
    pub verb: Verb,
    /// The differences, most severe first, each with the state of the pod that it is about.
    pub why: Vec<(Difference, Option<PodState>)>,
}

impl Finding {
    /// Creates the finding for a write that is due.
    pub fn of(due: &Due, objects: &Objects) -> Self {
        let name = &due.object.name;
        let slice = || objects.slices.iter().find(|slice| *slice.meta.name == **name);
        let endpoints = || objects.endpoints.iter().find(|e| e.meta.name == *name);
        let around = SliceContext {
            service: objects.services.iter().find(|s| s.name == due.service),
            stored: &objects.slices,
        };
        let why = match (&due.desired, due.object.output) {
            (Some(Desired::Slice(desired)), _) => of_slice(slice(), Some(desired), around),
            (Some(Desired::Endpoints(desired)), _) => of_endpoints(endpoints(), Some(desired)),
            (None, Output::Slice) => of_slice(slice(), None, around),
            (None, Output::Endpoints) => of_endpoints(endpoints(), None),
        };
        let seen = |pod: &str| objects.pods.iter().find(|facts| *facts.name == *pod);
        let why = why.into_iter().map(|difference| {
            let state = difference.pod.as_deref().and_then(seen).map(PodState::of);
            (difference, state)
        });
        let made_up = due.object.output == Output::Slice && due.verb == Verb::Create;
        Self {
            namespace: due.namespace.clone(),
            service: due.service.clone(),
            output: due.object.output,
            name: (!made_up).then(|| name.clone()),
            verb: due.verb,
            why: why.collect(),
        }
    }

    /// Returns the key that identifies a difference across two looks. A difference about a pod leaves out the object,
    /// because an endpoint may be missing from another slice the next time; any other difference includes it.
    fn key<'a>(&'a self, (difference, state): &'a (Difference, Option<PodState>)) -> Key<'a> {
        Key {
            namespace: &self.namespace,
            service: &self.service,
            output: self.output,
            object: match difference.pod {
                Some(_) => None,
                None => self.name.as_deref(),
            },
            text: &difference.text,
            state: state.as_ref(),
        }
    }
}

#[derive(PartialEq)]
struct Key<'a> {
    namespace: &'a str,
    service: &'a str,
    output: Output,
    object: Option<&'a str>,
    text: &'a str,
    state: Option<&'a PodState>,
}

/// Returns those of the later findings that an earlier look had made already: about the same object, for the same
/// reason, and about pods that have not changed since. This leaves out what a running controller has fixed in the
/// meantime or has not got to yet.
pub fn still(earlier: &[Finding], later: Vec<Finding>) -> Vec<Finding> {
    let mut known: KeyedMap<(&str, &str), Vec<Key<'_>>> = KeyedMap::default();
    for finding in earlier {
        let place = (&*finding.namespace, &*finding.service);
        let keys = finding.why.iter().map(|one| finding.key(one));
        known.entry(place).or_default().extend(keys);
    }
    let mut left = Vec::new();
    for mut finding in later {
        let Some(known) = known.get(&(&*finding.namespace, &*finding.service)) else {
            continue;
        };
        let kept = finding.why.iter().filter(|one| known.contains(&finding.key(one)));
        finding.why = kept.cloned().collect();
        if !finding.why.is_empty() {
            left.push(finding);
        }
    }
    left
}

/// The result of an audit.
#[derive(Clone, Debug)]
pub struct Report {
    /// The numbers of Services and namespaces that were checked.
    pub counts: Counts,
    /// The objects that are wrong, by namespace and Service.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Returns the number of Services that are out of sync.
    pub fn out_of_sync(&self) -> usize {
        let services = self.findings.iter().map(|f| (&f.namespace, &f.service));
        services.collect::<BTreeSet<_>>().len()
    }

    /// Returns whether nothing is wrong.
    pub fn is_in_sync(&self) -> bool {
        self.findings.is_empty()
    }

    /// Returns a summary on one line.
    pub fn summary(&self) -> String {
        let Counts { services, namespaces } = self.counts;
        format!(
            "{} in {} checked: {} out of sync",
            plural(services, "Service"),
            plural(namespaces, "namespace"),
            self.out_of_sync()
        )
    }

    /// Formats the report for people.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        if !self.findings.is_empty() {
            text.push_str(&table(&self.findings, true));
            text.push('\n');
        }
        let _ = writeln!(text, "{}", self.summary());
        text
    }
}

/// Formats findings as a table, with a line for each reason that is shown.
pub(super) fn table(findings: &[Finding], with_service: bool) -> String {
    let mut table = Table::default();
    if with_service {
        table.row(["SERVICE", "OBJECT", "WOULD", "WHY"].map(str::to_owned));
    }
    let mut last = None;
    for finding in findings {
        let service = format!("{}/{}", finding.namespace, finding.service);
        let again = last.as_ref() == Some(&service);
        let mut head = vec![
            if again { String::new() } else { service.clone() },
            object(finding),
            finding.verb.as_str().to_owned(),
        ];
        if !with_service {
            head.remove(0);
        }
        last = Some(service);
        let more = finding.why.len().saturating_sub(SHOWN);
        // One more reason takes no more room than the line "and 1 more" would.
        let shown = if more == 1 { SHOWN + 1 } else { SHOWN };
        let mut reasons: Vec<_> = finding
            .why
            .iter()
            .take(shown)
            .map(|(d, _)| d.text.clone())
            .collect();
        if more > 1 {
            reasons.push(format!("and {more} more"));
        }
        for reason in reasons {
            let blank = vec![String::new(); head.len()];
            let mut row = std::mem::replace(&mut head, blank);
            row.push(reason);
            table.row(row);
        }
    }
    table.to_string()
}

fn object(finding: &Finding) -> String {
    match (&finding.name, finding.output) {
        (None, output) => format!("new {output}"),
        (Some(_), Output::Endpoints) => "endpoints".to_owned(),
        (Some(name), output) => format!("{output} {name}"),
    }
}

impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Finding", 6)?;
        out.serialize_field("namespace", &*self.namespace)?;
        out.serialize_field("service", &*self.service)?;
        out.serialize_field(
            "kind",
            match self.output {
                Output::Slice => "EndpointSlice",
                Output::Endpoints => "Endpoints",
            },
        )?;
        out.serialize_field("name", &self.name.as_deref())?;
        out.serialize_field("would", &self.verb)?;
        let why: Vec<&str> = self.why.iter().map(|(d, _)| &*d.text).collect();
        out.serialize_field("why", &why)?;
        out.end()
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Report", 5)?;
        out.serialize_field("inSync", &self.is_in_sync())?;
        out.serialize_field("services", &self.counts.services)?;
        out.serialize_field("namespaces", &self.counts.namespaces)?;
        out.serialize_field("outOfSync", &self.out_of_sync())?;
        out.serialize_field("findings", &self.findings)?;
        out.end()
    }
}
