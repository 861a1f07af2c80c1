//! The findings of `endpointd audit`: the objects that are not as they should be, and why.

use super::desired::{Desired, Due};
use super::differences::{self, Difference, PodState};
use super::published::Around;
use super::text::{BAD, BOLD, GOOD, Page, Piece, Table, WARN, listed, painted, plural};
use crate::core::facts::{ANNOTATION_SELECTOR, ServiceFacts};
use crate::core::hash::hash_of;
use crate::core::namespace::NamespaceState;
use crate::core::object::{Output, Verb};
use serde::Serialize;
use serde::ser::{SerializeStruct as _, Serializer};
use std::collections::BTreeSet;
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
    /// True if there is no such Service: the object is left over. A controller that runs leaves it alone, and deletes it
    /// when it starts, as upstream's does.
    pub left_over: bool,
    /// True if no pods are published for the Service, so that it is not one of those that are counted as checked.
    pub unmanaged: bool,
    /// Set when its differences last together or not at all: each controller may choose which addresses a truncated
    /// object leaves out, and any pod may change it.
    pub(crate) as_whole: bool,
    /// The differences, most severe first, each with the state of the pod that it is about.
    pub why: Vec<(Difference, Option<PodState>)>,
}

impl Finding {
    /// Creates the finding for a write that is due, given what is known and what is published for the Service.
    pub(super) fn of(due: &Due, core: &NamespaceState, around: &Around<'_>) -> Self {
        let Due {
            service,
            object,
            verb,
            desired,
        } = due;
        let why = differences::of(due, core, around).into_iter().map(|difference| {
            let state = difference.pod.as_deref().and_then(|pod| PodState::of(core, pod));
            (difference, state)
        });
        let made_up = object.output != Output::Endpoints && *verb == Verb::Create;
        Self {
            namespace: core.namespace().clone(),
            service: service.clone(),
            output: object.output,
            name: (!made_up).then(|| object.name.clone()),
            verb: *verb,
            left_over: core.service(service).is_none(),
            unmanaged: !core.service(service).is_some_and(ServiceFacts::is_managed),
            as_whole: matches!(desired, Some(Desired::Endpoints(desired)) if desired.over_capacity.is_some()),
            why: why.collect(),
        }
    }

    /// Returns the keys that identify its differences across looks. A difference about a pod leaves out the object,
    /// because an endpoint may be missing from another slice the next time; any other difference includes it. Where the
    /// addresses are judged as a whole, those of a pod include all differences of pods.
    pub(super) fn keys(&self) -> impl Iterator<Item = u64> {
        let pods = || self.why.iter().filter(|(difference, _)| difference.pod.is_some());
        let texts = || pods().map(|(difference, _)| &difference.text);
        let whole = self.as_whole.then(|| texts().collect::<Vec<_>>());
        let whole = whole.map(|texts| hash_of(&texts));
        self.why.iter().map(move |(difference, state)| {
            let object = self.name.as_deref().filter(|_| difference.pod.is_none());
            let whole = whole.filter(|_| difference.pod.is_some());
            let place = (&self.namespace, &self.service, self.output, object);
            hash_of(&(place, whole, &difference.text, state))
        })
    }

    /// Returns the finding with some of its differences only; none if there are none.
    pub(super) fn only(&self, keep: impl Fn(u64) -> bool) -> Option<Self> {
        let mut kept = self.keys().map(keep);
        let mut finding = self.clone();
        finding.why.retain(|_| kept.next() == Some(true));
        Some(finding).filter(|finding| !finding.why.is_empty())
    }
}

/// The kinds of problems of a Service. The names are part of the interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub enum Reason {
    /// The annotation that selects its pods cannot be used.
    SelectorUnusable,
    /// An annotation that would say what is published is ignored.
    AnnotationIgnored,
    /// An annotation looks like one of this project, and means nothing.
    AnnotationUnknown,
    /// Slices that were published for an annotation are left, and no annotation counts.
    SlicesLeftBehind,
    /// Slices of other managers name it, and hold addresses of no pod of it.
    ForeignSlices,
    /// Its selector matches no pod.
    NoPodsMatch,
    /// It has pods, but none of them is ready in one of its families, or in any.
    NoReadyEndpoints,
    /// Pods run on nodes that do not exist.
    UnknownNodes,
    /// A named target port is one that no container of any of its pods has.
    PortNotFound,
    /// Endpoints hold fewer addresses than the Service has.
    EndpointsTruncated,
    /// It asks for hints that cannot be given.
    HintsUnavailable,
}

/// A problem of a Service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Problem {
    /// The namespace.
    pub namespace: String,
    /// The Service.
    pub service: String,
    /// The kind of problem.
    pub reason: Reason,
    /// The same in words, on one line, with a few of the names that it is about.
    pub message: String,
}

/// The numbers of Services and namespaces.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Managed Services, which are those with a selector.
    pub services: usize,
    /// Namespaces with such a Service.
    pub namespaces: usize,
}

/// Says of how many Services nothing is said, because those that annotations decide were not asked for; `None` if there
/// are none.
pub(crate) fn left_out(services: usize) -> Option<String> {
    let (are, them) = if services == 1 {
        ("is", "its")
    } else {
        ("are", "their")
    };
    (services > 0).then(|| {
        format!(
            "{} with the annotation {ANNOTATION_SELECTOR} {are} left out: what {them} slices should \
             hold is checked if --controllers names custom-selector-controller",
            plural(services, "Service")
        )
    })
}

/// Says which slices were published for annotations and belong `to` something else now; `None` if there are none.
pub(crate) fn left_behind(to: &str, slices: &[String]) -> Option<String> {
    let names: Vec<&str> = slices.iter().map(String::as_str).collect();
    let (belong, they_hold, them) = if slices.len() == 1 {
        ("belongs", "it holds", "it")
    } else {
        ("belong", "they hold", "them")
    };
    (!slices.is_empty()).then(|| {
        format!(
            "{} labelled endpointd.io {belong} to {to}: {}; traffic goes on being sent to what {they_hold}, until an endpointd \
             that runs with custom-selector-controller, or somebody else, deletes {them}",
            plural(slices.len(), "slice"),
            listed(&names, SHOWN)
        )
    })
}

/// The result of an audit.
#[derive(Clone, Debug)]
pub struct Report {
    /// The numbers of Services and namespaces that were checked.
    pub counts: Counts,
    /// The objects that are wrong, by namespace and Service.
    pub findings: Vec<Finding>,
    /// The problems of Services, by namespace and Service; `None` if they were not asked for.
    pub problems: Option<Vec<Problem>>,
    /// Notes on what could not be judged, and why.
    pub notes: Vec<String>,
    /// The number of Services that annotations decide, if `--controllers` does not name the controller that heeds them.
    pub left_out: usize,
    /// Whether something that was to be judged could not be read.
    pub unjudged: bool,
}

impl Report {
    /// Returns the number of Services that are out of sync.
    pub fn out_of_sync(&self) -> usize {
        self.services_with(|finding| !finding.left_over)
    }

    fn services_with(&self, counts: impl Fn(&Finding) -> bool) -> usize {
        let findings = self.findings.iter().filter(|finding| counts(finding));
        let services = findings.map(|f| (&f.namespace, &f.service));
        services.collect::<BTreeSet<_>>().len()
    }

    /// Returns the number of objects that are left over from Services that are gone.
    pub fn left_over(&self) -> usize {
        let findings = self.findings.iter();
        findings.filter(|finding| finding.left_over).count()
    }

    /// Returns the number of Services with problems, as far as these were asked for.
    pub fn with_problems(&self) -> usize {
        let problems = self.problems.iter().flatten();
        let services = problems.map(|problem| (&problem.namespace, &problem.service));
        services.collect::<BTreeSet<_>>().len()
    }

    /// Returns whether nothing was found that is not published as it should be. Objects that are left over do not count: a
    /// controller that runs leaves them alone, and any user who may create Endpoints can make some.
    pub fn is_in_sync(&self) -> bool {
        self.out_of_sync() == 0
    }

    /// Returns whether everything is published as it should be; `None` if nothing was found, and not everything that was asked for
    /// could be judged.
    pub fn in_sync(&self) -> Option<bool> {
        Some(self.is_in_sync()).filter(|good| !(*good && self.unjudged))
    }

    /// Returns the same for all that was asked for, problems too.
    pub fn verdict(&self) -> Option<bool> {
        Some(self.is_clean()).filter(|good| !(*good && self.unjudged))
    }

    /// Returns whether there is nothing to report: everything is in sync, and no problem that was asked for was found.
    pub fn is_clean(&self) -> bool {
        self.is_in_sync() && self.problems.iter().flatten().next().is_none()
    }

    fn sum(&self) -> Piece {
        let Counts { services, namespaces } = self.counts;
        let judged = |count: usize, style, what| {
            let style = if count == 0 { GOOD } else { style };
            painted(style, format!("{count} {what}"))
        };
        let mut sum = Piece::from(format!(
            "{} in {} checked: ",
            plural(services, "Service"),
            plural(namespaces, "namespace")
        ))
        .then(judged(
            self.services_with(|finding| !finding.left_over && !finding.unmanaged),
            BAD,
            "out of sync",
        ));
        let others = self.services_with(|finding| !finding.left_over && finding.unmanaged);
        if others > 0 {
            let others = format!("{} out of sync", plural(others, "other Service"));
            sum = sum.then("; ").then(painted(BAD, others));
        }
        let left_over = self.left_over();
        if left_over > 0 {
            let left_over = format!("{} left over", plural(left_over, "object"));
            sum = sum.then("; ").then(painted(WARN, left_over));
        }
        if let Some(problems) = &self.problems {
            let style = if problems.is_empty() { GOOD } else { WARN };
            let problems = painted(style, plural(problems.len(), "problem"));
            sum = sum.then("; ").then(problems);
        }
        if self.unjudged {
            sum = sum.then("; ").then(painted(WARN, "some could not be judged"));
        }
        sum
    }

    /// Formats the report for users, with colours that the caller may strip.
    pub fn to_text(&self) -> String {
        let mut page = Page::default();
        if !self.findings.is_empty() {
            page.table(0, &table(&self.findings, true));
            page.gap();
        }
        let problems = self.problems.as_deref().unwrap_or_default();
        if !problems.is_empty() {
            page.table(0, &problem_table(problems));
            page.gap();
        }
        for note in &self.notes {
            page.line(0, note);
        }
        page.line(0, self.sum());
        page.finish()
    }
}

fn problem_table(problems: &[Problem]) -> Table {
    let mut table = Table::default();
    table.row(["SERVICE", "PROBLEM", "WHY"].map(|title| painted(BOLD, title)));
    let mut last = None;
    for problem in problems {
        let service = format!("{}/{}", problem.namespace, problem.service);
        let again = last.as_ref() == Some(&service);
        table.row([
            if again { "" } else { &*service }.into(),
            painted(WARN, format!("{:?}", problem.reason)),
            (&problem.message).into(),
        ]);
        last = Some(service);
    }
    table
}

/// Lays findings out as a table, with a line for each reason that is shown.
pub(super) fn table(findings: &[Finding], with_service: bool) -> Table {
    let mut table = Table::default();
    if with_service {
        table.row(["SERVICE", "OBJECT", "WOULD", "WHY"].map(|title| painted(BOLD, title)));
    }
    let mut last = None;
    for finding in findings {
        let service = format!("{}/{}", finding.namespace, finding.service);
        let again = last.as_ref() == Some(&service);
        let shown_service = if again { String::new() } else { service.clone() };
        let mut head = Vec::from_iter(with_service.then_some(shown_service));
        head.extend([object(finding), finding.verb.as_str().to_owned()]);
        last = Some(service);
        let more = finding.why.len().saturating_sub(SHOWN);
        // One more reason takes no more room than the line "and 1 more" would.
        let shown = if more == 1 { SHOWN + 1 } else { SHOWN };
        let reasons = finding.why.iter().take(shown).map(|(why, _)| why.text.clone());
        let more = (more > 1).then(|| format!("and {more} more"));
        for reason in reasons.chain(more) {
            let blank = vec![String::new(); head.len()];
            let mut row = std::mem::replace(&mut head, blank);
            row.push(reason);
            table.row(row);
        }
    }
    table
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
        out.serialize_field("kind", self.output.kind())?;
        out.serialize_field("name", &self.name.as_deref())?;
        out.serialize_field("would", &self.verb)?;
        let why: Vec<&str> = self.why.iter().map(|(d, _)| &*d.text).collect();
        out.serialize_field("why", &why)?;
        out.end()
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Report", 11)?;
        out.serialize_field("inSync", &self.in_sync())?;
        out.serialize_field("services", &self.counts.services)?;
        out.serialize_field("namespaces", &self.counts.namespaces)?;
        out.serialize_field("outOfSync", &self.out_of_sync())?;
        out.serialize_field("leftOver", &self.left_over())?;
        out.serialize_field("leftOut", &self.left_out)?;
        out.serialize_field("unjudged", &self.unjudged)?;
        out.serialize_field("findings", &self.findings)?;
        if let Some(problems) = &self.problems {
            out.serialize_field("withProblems", &self.with_problems())?;
            out.serialize_field("problems", problems)?;
        }
        out.serialize_field("notes", &self.notes)?;
        out.end()
    }
}
