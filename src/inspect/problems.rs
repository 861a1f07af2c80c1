//! The problems of Services that are published as they should be, and still serve no client, or not as users expect:
//! `endpointd audit --problems`. Which pods belong to a Service, and what of them is published, the core says
//! ([`NamespaceState::health`]); here it is put into words.

use super::explain::Near;
use super::findings::{Problem, Reason};
use super::text::{listed, plural};
use crate::core::facts::{ANNOTATION_SELECTOR, Manager, ServiceFacts, SliceFacts};
use crate::core::hash::KeyedMap;
use crate::core::hints::HintState;
use crate::core::labels::Labels;
use crate::core::namespace::{FamilyHealth, NamespaceState, ServiceHealth};
use crate::core::outputs::Outputs;
use crate::core::ports::TargetPort;
use crate::core::subsets::MAX_ADDRESSES;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The number of names of a kind in one problem.
const NAMES: usize = 3;
/// The most label sets of a namespace that are compared with selectors that match nothing, for all such selectors
/// together. Each set is compared once for each selector, which would otherwise be the product of the two.
const MOST_COMPARED: usize = 200_000;

/// Returns the problems of Services of a namespace, given slices that name them, of which those of other managers count. Everything
/// must have been planned. There is one problem of a kind for each Service at most.
pub(crate) fn problems(
    core: &NamespaceState,
    services: impl Iterator<Item = Arc<str>>,
    slices: &[SliceFacts],
) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut foreign: KeyedMap<&str, Vec<&SliceFacts>> = KeyedMap::default();
    for slice in slices.iter().filter(|slice| is_foreign(slice)) {
        foreign.entry(&slice.meta.service).or_default().push(slice);
    }
    let mut nearly = Nearly::new(core);
    for name in services {
        let Some(health) = core.health(&name) else {
            continue;
        };
        let mut of = ProblemFinder {
            core,
            health: &health,
            found: Vec::new(),
        };
        of.look(&mut nearly);
        if let Some(slices) = foreign.get(&*name) {
            of.foreign(slices);
        }
        found.extend(named(core.namespace(), &name, of.found));
    }
    found
}

/// Returns what is wrong with the annotations of a Service, as it was read and whatever its controller is: that they are
/// ignored or not known and, if nothing is published here for annotations, that its selector cannot be used.
/// [`problems`] says the last of Services that are published here.
pub(crate) fn annotation_problems(namespace: &str, facts: &ServiceFacts, outputs: Outputs) -> Vec<Problem> {
    let mut found = Vec::new();
    let why_not = facts.why_not_custom(namespace);
    if let Some(why) = why_not {
        if facts.annotated.is_some() {
            let ignored = format!("{ANNOTATION_SELECTOR} is ignored: {why}");
            found.push((Reason::AnnotationIgnored, ignored));
        }
    } else if !outputs.custom && facts.annotated.is_some() {
        let custom = Outputs {
            custom: true,
            ..outputs
        };
        let resolved = facts.clone().resolve(namespace, custom);
        found.extend(unusable(&resolved).map(|message| (Reason::SelectorUnusable, message)));
    }
    let unknown = facts.unknown_annotations.as_ref();
    found.extend(unknown.map(|unknown| (Reason::AnnotationUnknown, unknown.problem())));
    named(namespace, &facts.name, found).collect()
}

/// Makes problems of a Service of what was found.
fn named(namespace: &str, service: &str, found: Vec<(Reason, String)>) -> impl Iterator<Item = Problem> {
    found.into_iter().map(move |(reason, message)| Problem {
        namespace: namespace.to_owned(),
        service: service.to_owned(),
        reason,
        message,
    })
}

/// Returns whether a slice has another manager than the controllers that endpointd replaces, or none.
fn is_foreign(slice: &SliceFacts) -> bool {
    slice.manager().and_then(Manager::parse).is_none() && !slice.meta.deleting
}

/// Sorts problems by Service, the most important ones first.
pub(crate) fn sort_problems(problems: &mut [Problem]) {
    problems.sort_by(|a, b| (&a.namespace, &a.service, a.reason).cmp(&(&b.namespace, &b.service, b.reason)));
}

/// Says why the selector in a Service's annotation is not used, if it is not.
fn unusable(facts: &ServiceFacts) -> Option<String> {
    let annotated = facts.annotated.as_ref().filter(|_| facts.custom)?;
    let problem = annotated.problem()?;
    Some(format!(
        "the selector in the annotation {ANNOTATION_SELECTOR} is not used: {problem}"
    ))
}

struct ProblemFinder<'a> {
    core: &'a NamespaceState,
    health: &'a ServiceHealth<'a>,
    found: Vec<(Reason, String)>,
}

impl ProblemFinder<'_> {
    fn look(&mut self, nearly: &mut Nearly<'_>) {
        let health = self.health;
        let facts = health.facts;
        if let Some(message) = unusable(facts) {
            self.add(Reason::SelectorUnusable, message);
        }
        if health.pods == 0 {
            // Which pods are published, the selector does not say while it cannot be used.
            if self.found.is_empty() {
                let why = facts.selector.as_ref().map(|_| nearly.why(facts));
                let why = why.unwrap_or_else(|| "it has no selector".to_owned());
                self.add(Reason::NoPodsMatch, why);
            }
            return;
        }
        self.readiness();
        self.nodes();
        self.ports();
        if let Some(addresses) = health.too_many_addresses {
            self.add(
                Reason::EndpointsTruncated,
                format!(
                    "{addresses} addresses, of which Endpoints hold {MAX_ADDRESSES}; clients that read slices get all"
                ),
            );
        }
        self.hints();
    }

    /// Looks for addresses of no pod in slices of other managers, which kube-proxy uses like ours.
    fn foreign(&mut self, slices: &[&SliceFacts]) {
        let of_pods = self.core.addresses_of_pods(&self.health.facts.name);
        let is_of_pod = |address: &str| address.parse().is_ok_and(|address| of_pods.contains(&address));
        let found = slices.iter().filter_map(|slice| {
            let addresses = slice.endpoints.iter().flat_map(|endpoint| &endpoint.addresses);
            let addresses: BTreeSet<&str> = addresses.map(|address| &**address).collect();
            let strays: Vec<_> = addresses
                .into_iter()
                .filter(|address| !is_of_pod(address))
                .collect();
            (!strays.is_empty()).then(|| {
                let manager = slice.manager().filter(|name| !name.is_empty());
                let (name, manager) = (&slice.meta.name, manager.unwrap_or("nobody"));
                let strays = listed(&strays, NAMES);
                format!("foreign slice {name} (managed by {manager}) publishes {strays} of no pod")
            })
        });
        let found: Vec<String> = found.collect();
        let more = match found.len().saturating_sub(NAMES) {
            0 => String::new(),
            more => format!("; and so {}", plural(more, "more slice")),
        };
        if !found.is_empty() {
            let shown = found[..found.len().min(NAMES)].join("; ");
            self.add(Reason::ForeignSlices, format!("{shown}{more}"));
        }
    }

    fn add(&mut self, reason: Reason, message: impl Into<String>) {
        self.found.push((reason, message.into()));
    }

    fn readiness(&mut self) {
        let families = &self.health.families;
        let dead: Vec<_> = families.iter().filter(|family| family.ready == 0).collect();
        let [first, rest @ ..] = &dead[..] else {
            return;
        };
        // In two families, pods mostly fail for the same reason.
        let same = rest.iter().all(|other| counts(other) == counts(first));
        let message = if dead.len() == families.len() && same {
            why_none_ready(first, self.health.pods)
        } else {
            let each = dead.iter().map(|family| {
                let why = why_none_ready(family, self.health.pods);
                format!("{}: {why}", family.family.as_str())
            });
            each.collect::<Vec<_>>().join("; ")
        };
        self.add(Reason::NoReadyEndpoints, message);
    }

    fn nodes(&mut self) {
        let pods = &self.health.on_unknown_nodes;
        if pods.is_empty() {
            return;
        }
        let names: Vec<_> = pods
            .iter()
            .map(|(pod, node)| format!("{pod} on {node}"))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (runs, nodes, them) = if pods.len() == 1 {
            ("is", "a node that does not exist", "it")
        } else {
            ("are", "nodes that do not exist", "them")
        };
        let effect = if self.health.facts.publish_not_ready {
            format!("so slices have no zone for {them}")
        } else {
            "which keeps new endpoints out".to_owned()
        };
        self.add(
            Reason::UnknownNodes,
            format!(
                "{} {runs} on {nodes}, {effect}: {}",
                plural(pods.len(), "pod"),
                listed(&names, NAMES)
            ),
        );
    }

    fn ports(&mut self) {
        let ports: Vec<_> = self
            .health
            .ports_of_nobody
            .iter()
            .filter_map(|port| match &port.target {
                TargetPort::Name(target) => Some(format!("{target}/{}", port.protocol.as_str())),
                TargetPort::Number(_) => None,
            })
            .collect();
        if ports.is_empty() {
            return;
        }
        let names: Vec<&str> = ports.iter().map(|port| &**port).collect();
        let what = if ports.len() == 1 { "a port" } else { "ports" };
        self.add(
            Reason::PortNotFound,
            format!(
                "no container of {} has {what} named {}",
                if self.health.pods == 1 {
                    "its pod".to_owned()
                } else {
                    format!("its {} pods", self.health.pods)
                },
                listed(&names, NAMES)
            ),
        );
    }

    fn hints(&mut self) {
        let families = &self.health.families;
        // Without a ready endpoint there is nothing to hint.
        let families = families.iter().filter(|family| family.ready > 0);
        let texts: Vec<_> = families
            .filter_map(|family| {
                let why = match family.hints {
                    HintState::Disabled(why) => why.message(),
                    _ if family.unhinted > 0 => format!(
                        "the nodes of {} of {} have no zone",
                        family.unhinted,
                        plural(family.ready, "ready endpoint")
                    ),
                    HintState::Off | HintState::On => return None,
                };
                Some(format!("{}: {why}", family.family.as_str()))
            })
            .collect();
        if !texts.is_empty() {
            self.add(Reason::HintsUnavailable, texts.join("; "));
        }
    }
}

/// Returns why pods are not ready, with the number of those that are so for each reason.
fn counts(family: &FamilyHealth) -> [(usize, String); 6] {
    let of = family.family.as_str();
    [
        (family.not_ready, "not ready".to_owned()),
        (family.terminating, "terminating".to_owned()),
        (family.without_ip, "without an IP".to_owned()),
        (family.unbound, "not bound to a node".to_owned()),
        (family.unknown_node, "on a node that does not exist".to_owned()),
        (family.other_family, format!("without an {of} address")),
    ]
}

fn why_none_ready(family: &FamilyHealth, pods: usize) -> String {
    let counts = counts(family).into_iter().filter(|(count, _)| *count > 0);
    let each: Vec<_> = counts.map(|(count, what)| format!("{count} {what}")).collect();
    format!("of {}, none is ready: {}", plural(pods, "pod"), each.join(", "))
}

/// The label sets of a namespace, with the pods that have each. They are collected once, when they are first needed.
struct Nearly<'a> {
    core: &'a NamespaceState,
    sets: Option<Vec<(Labels, Vec<&'a str>)>>,
    compared: usize,
}

impl<'a> Nearly<'a> {
    fn new(core: &'a NamespaceState) -> Self {
        Self {
            core,
            sets: None,
            compared: 0,
        }
    }

    /// Explains why the selector of a Service matches nothing, by the pods that it nearly matches.
    fn why(&mut self, service: &ServiceFacts) -> String {
        let Some(selector) = &service.selector else {
            return String::new();
        };
        let sets = self.sets.get_or_insert_with(|| self.core.label_sets().collect());
        self.compared += sets.len();
        if self.compared > MOST_COMPARED {
            return "the selector matches no running pod; pods that it nearly matches were not looked for, because too \
                    many selectors of the namespace match nothing"
                .to_owned();
        }
        let mut near = Near::default();
        for (labels, pods) in sets {
            near.see(selector, labels, pods);
        }
        let (pods, total) = near.pods();
        let [first, ..] = &pods[..] else {
            let mut reasons = near.why_none(selector);
            let more = reasons.len() - 1;
            let first = reasons.swap_remove(0);
            return if more > 0 {
                format!("{first}; the same is so for {}", plural(more, "other label"))
            } else {
                first
            };
        };
        let alike: Vec<&str> = pods
            .iter()
            .filter(|pod| pod.difference() == first.difference())
            .map(|pod| &*pod.pod)
            .collect();
        let verb = if total == 1 { "matches" } else { "match" };
        let others = alike.len() < pods.len();
        // Only so many are kept, so it is not known how many more there are of one difference.
        let such = if alike.len() > NAMES { "such as " } else { "" };
        format!(
            "{} nearly {verb}, but for one label: {}{} ({such}{})",
            plural(total, "pod"),
            first.difference(),
            if others { ", among others" } else { "" },
            alike[..alike.len().min(NAMES)].join(", ")
        )
    }
}
