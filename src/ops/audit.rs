//! `endpointd audit`: lists everything once, then looks closely at the Services that seem wrong.

use crate::cluster::codec::{Decode, NamedNode, Namespaced};
use crate::cluster::read::{Item, ReadError, Reader, Selection};
use crate::core::facts::{
    CUSTOM_MANAGED_BY, LABEL_MANAGED_BY, LABEL_SERVICE_NAME, MANAGED_BY, MIRRORED_BY, PodFacts, ServiceFacts,
    SliceFacts,
};
use crate::core::namespace::{Kind, Settings};
use crate::core::nodes::NodeTable;
use crate::core::selector::Selector;
use crate::core::work::Work;
use crate::inspect::census::{Census, opts_in};
use crate::inspect::examine::Objects;
use crate::inspect::findings::{Finding, Problem, Reason, Report, left_behind, left_out};
use crate::inspect::lasting::still;
use crate::inspect::problems::{annotation_problems, problems, sort_problems};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// A field selector that leaves out pods that have ended, which are never published.
const ALIVE: &str = "status.phase!=Succeeded,status.phase!=Failed";
/// A namespace with more suspects than this is read whole, which takes fewer requests and not many more objects.
const FEW: usize = 10;
/// The number of reads in flight while suspects are looked at.
const AT_ONCE: usize = 8;

/// The scope of an audit.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The namespace to audit, or all of them if unset.
    pub namespace: Option<String>,
    /// The settings by which the desired objects are computed.
    pub settings: Settings,
    /// The labels of the Services to audit. With some, objects of Services that are gone are left out.
    pub labels: Option<Selector>,
    /// The time that a controller is given to correct a difference.
    pub settle: Duration,
    /// Whether problems of Services that are in sync are looked for too.
    pub problems: bool,
}

/// The reason why a cluster could not be audited, on one line.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// Something could not be read.
    #[error("{0}")]
    Read(#[from] ReadError),
    /// There is no such namespace.
    #[error("there is no namespace {0}")]
    NoNamespace(String),
}

/// Services that seem wrong, by namespace.
type Suspects = BTreeMap<Arc<str>, BTreeSet<Arc<str>>>;

/// Slices that were published for annotations and are left behind, as `namespace/name`, by the namespace and name of their
/// Service.
type Abandoned = BTreeMap<(Arc<str>, String), Vec<String>>;

/// Compares the desired objects with those that are published. Writes nothing.
pub async fn audit(reader: &Reader, scope: &Scope) -> Result<Report, AuditError> {
    if let Some(namespace) = &scope.namespace
        && is_missing(reader, namespace).await?
    {
        return Err(AuditError::NoNamespace(namespace.clone()));
    }
    let mut scope = scope.clone();
    let (mut report, suspects, mut nodes, mut abandoned) = survey_readable(reader, &mut scope).await?;
    let scope = &scope;
    let surveyed = report.problems.take();
    report.problems = scope.problems.then(Vec::new);
    // A long list is stale by the time it ends, so a suspect may be right by now. Two close looks confirm it.
    let (first, _) = look(reader, scope, &suspects, &mut nodes).await?;
    let mut left = Suspects::new();
    let found = first
        .iter()
        .map(|found| (found.namespace.clone(), found.service.clone()));
    let problems = surveyed.iter().flatten();
    let problems =
        problems.map(|problem| (problem.namespace.as_str().into(), problem.service.as_str().into()));
    for (namespace, service) in found.chain(problems) {
        left.entry(namespace).or_default().insert(service);
    }
    let confirms = scope.problems && !abandoned.is_empty();
    if left.is_empty() && !confirms {
        let slices: Vec<_> = abandoned.into_values().flatten().collect();
        report
            .notes
            .extend(left_behind("no Service that opts in by an annotation", &slices));
        return Ok(report);
    }
    sleep(scope.settle).await;
    if confirms {
        let first = abandoned;
        let concerns = |namespace: &Arc<str>, service: &str| {
            first.contains_key(&(namespace.clone(), service.to_owned()))
        };
        abandoned = slices_of_nobody(reader, &everywhere(scope), concerns).await?;
    }
    if Kind::Node.is_needed(scope.settings.outputs) {
        nodes = node_table(reader).await?;
    }
    let (second, still_there) = look(reader, scope, &left, &mut nodes).await?;
    report.findings = still(&first, &second);
    report.problems = surveyed.map(|surveyed| lasting(surveyed, &still_there));
    let mut unnamed = Vec::new();
    for ((namespace, service), slices) in abandoned {
        match &mut report.problems {
            Some(problems) if !service.is_empty() => {
                let to = "a Service without an annotation that has an effect";
                problems.extend(left_behind(to, &slices).map(|message| Problem {
                    namespace: namespace.to_string(),
                    service,
                    reason: Reason::SlicesLeftBehind,
                    message,
                }));
            }
            _ => unnamed.extend(slices),
        }
    }
    sort_problems(report.problems.as_deref_mut().unwrap_or_default());
    report
        .notes
        .extend(left_behind("no Service that opts in by an annotation", &unnamed));
    Ok(report)
}

/// Returns the problems of a survey that a later look has found again. A look at one Service does not see the pods that its
/// selector does not match, so the survey's words are kept.
fn lasting(surveyed: Vec<Problem>, later: &[Problem]) -> Vec<Problem> {
    let key = |problem: &Problem| (problem.namespace.clone(), problem.service.clone(), problem.reason);
    let later: BTreeSet<_> = later.iter().map(key).collect();
    let lasts = surveyed
        .into_iter()
        .filter(|problem| later.contains(&key(problem)));
    lasts.collect()
}

/// Returns whether a namespace is known not to exist. A user who may not read namespaces can still be told of what is
/// in them.
pub(super) async fn is_missing(reader: &Reader, namespace: &str) -> Result<bool, ReadError> {
    let found = unless_forbidden(reader.has_namespace(namespace).await)?;
    Ok(found == Some(false))
}

/// A report without findings, the Services that a starting controller would write something for, the nodes, and the slices
/// that are left behind.
type Survey = (Report, Suspects, NodeTable, Abandoned);

/// A survey, or the reason why Endpoints may not be listed, though more than Endpoints is to be audited.
type Surveyed = Result<Survey, ReadError>;

fn everywhere(scope: &Scope) -> Selection {
    Selection {
        namespace: scope.namespace.clone(),
        ..Selection::default()
    }
}

/// Reads everything once. If Endpoints may not be read, the scope leaves them out from then on, and a note says so.
async fn survey_readable(reader: &Reader, scope: &mut Scope) -> Result<Survey, ReadError> {
    let why = match survey(reader, scope).await? {
        Ok(survey) => return Ok(survey),
        Err(why) => why,
    };
    // As for an endpointd that serves annotated Services alone.
    let outputs = &mut scope.settings.outputs;
    (outputs.endpoints, outputs.mirrored) = (false, false);
    let mut surveyed = survey(reader, scope).await??;
    let report = &mut surveyed.0;
    report.unjudged = true;
    report.notes.push(format!(
        "Endpoints, and slices that mirror them, are left out: {why}; for an endpointd that serves annotated Services alone, \
         give --controllers=custom-selector-controller"
    ));
    Ok(surveyed)
}

/// Returns the objects of a kind that an audit reads.
fn selection(kind: Kind, scope: &Scope) -> Selection {
    let mut selection = everywhere(scope);
    match kind {
        Kind::Pod => selection.fields = ALIVE,
        Kind::Slice if scope.settings.outputs.custom => {
            selection.labels = format!("{LABEL_MANAGED_BY} in ({CUSTOM_MANAGED_BY},{MANAGED_BY})");
        }
        Kind::Slice => selection.labels = format!("{LABEL_MANAGED_BY}={MANAGED_BY}"),
        Kind::Mirrored => selection.labels = format!("{LABEL_MANAGED_BY}={MIRRORED_BY}"),
        Kind::Node | Kind::Service | Kind::Endpoints => {}
    }
    selection
}

/// Returns the slices of other managers that name Services.
fn foreign(scope: &Scope) -> Selection {
    Selection {
        labels: format!(
            "{LABEL_SERVICE_NAME},{LABEL_MANAGED_BY} notin ({MANAGED_BY},{CUSTOM_MANAGED_BY},{MIRRORED_BY})"
        ),
        ..everywhere(scope)
    }
}

/// Reads everything once, as a starting controller does.
async fn survey(reader: &Reader, scope: &Scope) -> Result<Surveyed, ReadError> {
    let outputs = scope.settings.outputs;
    let mut census = Census::new(scope.settings, scope.labels.clone());
    let mut nodes = NodeTable::default();
    let (mut notes, mut abandoned) = (Vec::new(), Abandoned::new());
    let mut services_left_out = 0;
    // Inputs come first and published objects last, as when the controller starts.
    for kind in Kind::needed_for(outputs) {
        let of = selection(kind, scope);
        match kind {
            Kind::Node => nodes = node_table(reader).await?,
            Kind::Pod => {
                let take = |census: &mut Census, namespace: &_, facts| {
                    census.pod(namespace, facts, &mut nodes);
                };
                count(reader, kind, &of, &mut census, take).await?;
            }
            Kind::Service => count(reader, kind, &of, &mut census, Census::service).await?,
            Kind::Slice => {
                count(reader, kind, &of, &mut census, Census::slice).await?;
                if scope.problems {
                    for Namespaced { namespace, facts } in reader.all(kind, &foreign(scope)).await? {
                        census.foreign(namespace, facts);
                    }
                }
                if !outputs.custom {
                    let concerns = |namespace: &Arc<str>, service: &str| {
                        census.picks(namespace, service) && !census.is_left_out(namespace, service)
                    };
                    abandoned = slices_of_nobody(reader, &everywhere(scope), concerns).await?;
                }
            }
            Kind::Endpoints => {
                let listed = count(reader, kind, &of, &mut census, Census::endpoints).await;
                match listed {
                    Err(why) if why.is_forbidden() && (outputs.slices || outputs.custom) => {
                        return Ok(Err(why));
                    }
                    listed => listed?,
                }
            }
            Kind::Mirrored => count(reader, kind, &of, &mut census, Census::mirrored).await?,
        }
        census.end(kind, &mut nodes);
        if kind == Kind::Service {
            services_left_out = census.left_out();
            notes.extend(left_out(services_left_out));
        }
    }
    let counts = census.counts();
    let mut suspects = Suspects::new();
    let problems = census.suspects(scope.problems, |namespace, service| {
        suspects.entry(namespace.clone()).or_default().insert(service);
    });
    let report = Report {
        counts,
        findings: Vec::new(),
        problems: scope.problems.then_some(problems),
        notes,
        left_out: services_left_out,
        unjudged: false,
    };
    Ok(Ok((report, suspects, nodes, abandoned)))
}

/// Returns the slices that were made for annotated Services and belong to none any more. Which ones there are, only
/// `custom-selector-controller` would know; until it runs again, they stay as they are.
async fn slices_of_nobody(
    reader: &Reader,
    everywhere: &Selection,
    concerns: impl Fn(&Arc<str>, &str) -> bool,
) -> Result<Abandoned, ReadError> {
    let custom = Selection {
        labels: format!("{LABEL_MANAGED_BY}={CUSTOM_MANAGED_BY}"),
        ..everywhere.clone()
    };
    let mut slices = Abandoned::new();
    let each = |item| match item {
        Item::Object(Namespaced { namespace, facts }) => {
            let facts: SliceFacts = facts;
            let service = facts.labels.get(LABEL_SERVICE_NAME).unwrap_or_default();
            if concerns(&namespace, service) {
                let name = format!("{namespace}/{}", facts.meta.name);
                slices
                    .entry((namespace, service.to_owned()))
                    .or_default()
                    .push(name);
            }
        }
        Item::Restart => slices.clear(),
    };
    reader.list(Kind::Slice, &custom, each).await?;
    // A Service may be younger than the list of Services.
    let looks = slices
        .into_iter()
        .map(|((namespace, service), slices)| async move {
            if service.is_empty() {
                return Ok::<_, ReadError>(Some(((namespace, service), slices)));
            }
            let now = reader.get(Kind::Service, Some(&namespace), &service).await;
            let now: Option<Option<Namespaced<ServiceFacts>>> = unless_forbidden(now)?;
            let cared_for = now
                .flatten()
                .is_some_and(|service| opts_in(&service.facts, &namespace));
            Ok((!cared_for).then_some(((namespace, service), slices)))
        });
    let of_nobody: Vec<_> = stream::iter(looks).buffered(AT_ONCE).try_collect().await?;
    Ok(of_nobody.into_iter().flatten().collect())
}

/// Adds the list of one kind to a census.
async fn count<T>(
    reader: &Reader,
    kind: Kind,
    of: &Selection,
    census: &mut Census,
    mut take: impl FnMut(&mut Census, &Arc<str>, T),
) -> Result<(), ReadError>
where
    Namespaced<T>: Decode,
{
    let each = |item| match item {
        Item::Object(Namespaced { namespace, facts }) => take(census, &namespace, facts),
        Item::Restart => census.again(kind),
    };
    reader.list(kind, of, each).await
}

/// Reads all nodes.
pub(super) async fn node_table(reader: &Reader) -> Result<NodeTable, ReadError> {
    let mut table = NodeTable::default();
    reader
        .list(Kind::Node, &Selection::default(), |item| match item {
            Item::Object(NamedNode {
                name,
                facts,
                capacity,
            }) => {
                table.apply_capacity(&name, &capacity);
                table.apply(&name, facts, 0);
            }
            Item::Restart => table = NodeTable::default(),
        })
        .await?;
    Ok(table)
}

/// Reads the suspected Services again, and returns their differences, and their problems if they are asked for.
async fn look(
    reader: &Reader,
    scope: &Scope,
    suspects: &Suspects,
    nodes: &mut NodeTable,
) -> Result<(Vec<Finding>, Vec<Problem>), ReadError> {
    let settings = scope.settings;
    let mut looks: Vec<(&Arc<str>, Option<&Arc<str>>)> = Vec::new();
    for (namespace, services) in suspects {
        if services.len() > FEW {
            looks.push((namespace, None));
        } else {
            looks.extend(services.iter().map(|service| (namespace, Some(service))));
        }
    }
    let mut looks = stream::iter(looks.into_iter().map(|(namespace, service)| async move {
        let objects = objects(reader, settings, namespace, service.map(|name| &**name)).await?;
        Ok::<_, ReadError>((namespace, objects))
    }))
    .buffered(AT_ONCE);
    let (mut findings, mut found_problems) = (Vec::new(), Vec::new());
    while let Some((namespace, objects)) = looks.try_next().await? {
        let (core, found) = objects.take_up(namespace, settings, nodes);
        if scope.problems {
            found_problems.extend(objects.annotations);
            let services = objects.services.iter().map(|service| service.name.clone());
            found_problems.extend(problems(&core, services, &objects.slices));
        }
        let found = found.into_iter();
        // In a namespace that was read whole, other Services may look wrong for a moment.
        let found = found.filter(|(service, _)| suspects[namespace].contains(service));
        findings.extend(found.flat_map(|(_, found)| found));
    }
    Ok((findings, found_problems))
}

fn facts<T>(items: Vec<Namespaced<T>>) -> Vec<T> {
    items.into_iter().map(|item| item.facts).collect()
}

/// Returns what was read, or `None` if it may not be read.
pub(super) fn unless_forbidden<T>(read: Result<T, ReadError>) -> Result<Option<T>, ReadError> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_forbidden() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a Service, or all of a namespace, with what is published, by other managers too.
async fn objects(
    reader: &Reader,
    settings: Settings,
    namespace: &str,
    name: Option<&str>,
) -> Result<Objects, ReadError> {
    let all = Selection::in_namespace(namespace);
    let services: Vec<Namespaced<ServiceFacts>> = match name {
        Some(name) => Vec::from_iter(reader.get(Kind::Service, Some(namespace), name).await?),
        None => reader.all(Kind::Service, &all).await?,
    };
    let mut objects = Objects::default();
    for Namespaced { facts, .. } in services {
        let problems = annotation_problems(namespace, &facts, settings.outputs);
        objects.annotations.extend(problems);
        // Only a resolved Service tells whether its annotations count.
        objects.services.push(facts.resolve(namespace, settings.outputs));
    }
    if objects.services.iter().any(ServiceFacts::is_managed) {
        // Without a selector that can be used, the labels of pods do not count.
        let service = name.and(objects.services.first());
        let selector = service.and_then(|service| service.selector.as_ref());
        let mut selected = Selection {
            labels: selector.map(ToString::to_string).unwrap_or_default(),
            fields: ALIVE,
            ..all.clone()
        };
        let too_long = selected.is_too_long();
        if too_long {
            selected.labels.clear();
        }
        let selects = |pod: &PodFacts| {
            let mut selector = selector.iter().filter(|_| too_long);
            selector.all(|selector| selector.matches(&pod.labels, &mut Work::default()))
        };
        let take = |item: Item<Namespaced<PodFacts>>| match item {
            Item::Object(pod) if selects(&pod.facts) => objects.pods.push(pod.facts),
            Item::Object(_) => {}
            Item::Restart => objects.pods.clear(),
        };
        reader.list(Kind::Pod, &selected, take).await?;
    }
    if Kind::Slice.is_needed(settings.outputs) {
        objects.slices = match name {
            Some(name) => published_slices(reader, namespace, name).await?,
            None => facts(reader.all(Kind::Slice, &all).await?),
        };
    }
    if Kind::Endpoints.is_needed(settings.outputs) {
        objects.endpoints = facts(match name {
            Some(name) => Vec::from_iter(reader.get(Kind::Endpoints, Some(namespace), name).await?),
            None => reader.all(Kind::Endpoints, &all).await?,
        });
    }
    Ok(objects)
}

/// Reads the slices of a Service, including those of other managers.
pub(super) async fn published_slices(
    reader: &Reader,
    namespace: &str,
    name: &str,
) -> Result<Vec<SliceFacts>, ReadError> {
    let its = Selection {
        labels: format!("{LABEL_SERVICE_NAME}={name}"),
        ..Selection::in_namespace(namespace)
    };
    Ok(facts(reader.all(Kind::Slice, &its).await?))
}
