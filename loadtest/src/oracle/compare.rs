//! Compares the slices of one Service with what they should be.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::{core::v1::Service, discovery::v1::EndpointSlice},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::ResourceExt;

use super::{
    Difference, Family, Options, Problem,
    expected::{Endpoint, EndpointKey, Expected, PortGroup, cluster_ip},
};

const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";
const MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGED_BY: &str = "endpointslice-controller.k8s.io";
const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";
/// The deprecated one first: where it stands, the other is not read.
const TOPOLOGY_ANNOTATIONS: [&str; 2] = [
    "service.kubernetes.io/topology-aware-hints",
    "service.kubernetes.io/topology-mode",
];

/// An endpoint that stands in a slice, and the slice.
type Found = BTreeMap<(Family, PortGroup), BTreeMap<EndpointKey, Vec<(String, Endpoint)>>>;

/// Adds to `differences` what is wrong with the slices of `service`; `slices` are those of its namespace.
pub(super) fn service(
    service: &Service,
    expected: &Expected,
    slices: &[&EndpointSlice],
    options: &Options,
    differences: &mut Vec<Difference>,
) {
    let mut comparison = Comparison {
        namespace: service.namespace().unwrap_or_default(),
        name: service.name_any(),
        differences,
    };
    let name = service.name_any();
    let mut found = Found::new();
    let mut placeholders: BTreeMap<Family, Vec<String>> = BTreeMap::new();

    for slice in slices.iter().filter(|slice| is_ours(slice, &name)) {
        let family = Family::from_name(&slice.address_type).filter(|family| expected.contains_key(family));
        let subject = format!("slice {}", slice.name_any());
        let owned = slice
            .owner_references()
            .iter()
            .any(|owner| Some(&owner.uid) == service.metadata.uid.as_ref());
        let Some(family) = family else {
            comparison.add(
                None,
                None,
                subject,
                Problem::Unexpected("the Service does not have its family"),
            );
            continue;
        };
        if !owned {
            comparison.add(
                Some(family),
                None,
                subject,
                Problem::Unexpected("not owned by this Service's UID"),
            );
            continue;
        }
        comparison.slice(service, slice, family, options);

        let group = PortGroup::of_slice(slice.ports.as_deref().unwrap_or_default());
        let endpoints = slice.endpoints.as_deref().unwrap_or_default();
        if endpoints.is_empty() {
            if group.is_empty() {
                placeholders.entry(family).or_default().push(subject);
            } else {
                comparison.add(
                    Some(family),
                    Some(&group),
                    subject,
                    Problem::Unexpected("it has no endpoints"),
                );
            }
        }
        for endpoint in endpoints {
            let place = (slice.name_any(), Endpoint::of_slice(endpoint));
            let group = found.entry((family, group.clone())).or_default();
            group
                .entry(EndpointKey::of_slice(endpoint))
                .or_default()
                .push(place);
        }
    }

    for (family, groups) in expected {
        comparison.placeholders(
            *family,
            groups.is_empty(),
            placeholders.remove(family).unwrap_or_default(),
        );
    }
    let any_hints = has_balanced_hints(service);
    let nothing = BTreeMap::new();
    let places = expected
        .iter()
        .flat_map(|(family, groups)| groups.keys().map(|group| (*family, group.clone())))
        .chain(found.keys().cloned());
    for place in places.collect::<BTreeSet<_>>() {
        let expected = expected
            .get(&place.0)
            .and_then(|groups| groups.get(&place.1))
            .unwrap_or(&nothing);
        comparison.group(
            &place,
            expected,
            found.remove(&place).unwrap_or_default(),
            any_hints,
        );
    }
}

/// Whether the slice belongs to the Service of that name and to the controller. One that is being deleted
/// no longer counts.
fn is_ours(slice: &EndpointSlice, service: &str) -> bool {
    let label = |key: &str| slice.labels().get(key).map(String::as_str);
    label(SERVICE_NAME_LABEL) == Some(service)
        && label(MANAGED_BY_LABEL) == Some(MANAGED_BY)
        && slice.metadata.deletion_timestamp.is_none()
}

/// Whether a Service's hints depend on the CPUs of the zones and on history, so that they are not compared.
fn has_balanced_hints(service: &Service) -> bool {
    let annotations = service.annotations();
    let value = TOPOLOGY_ANNOTATIONS.iter().find_map(|key| annotations.get(*key));
    value.is_some_and(|value| value == "Auto" || value == "auto")
}

fn slice_labels(service: &Service) -> BTreeMap<String, String> {
    let reserved = [SERVICE_NAME_LABEL, MANAGED_BY_LABEL, HEADLESS_LABEL];
    let mut labels = service.labels().clone();
    labels.retain(|key, _| !reserved.contains(&key.as_str()));
    labels.insert(SERVICE_NAME_LABEL.to_owned(), service.name_any());
    labels.insert(MANAGED_BY_LABEL.to_owned(), MANAGED_BY.to_owned());
    if cluster_ip(service).is_none() {
        labels.insert(HEADLESS_LABEL.to_owned(), String::new());
    }
    labels
}

fn owner(service: &Service) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        block_owner_deletion: Some(true),
        controller: Some(true),
        kind: "Service".to_owned(),
        name: service.name_any(),
        uid: service.uid().unwrap_or_default(),
    }
}

/// The Service under comparison and where its differences go.
struct Comparison<'a> {
    namespace: String,
    name: String,
    differences: &'a mut Vec<Difference>,
}

// === impl Comparison ===

impl Comparison<'_> {
    fn add(&mut self, family: Option<Family>, ports: Option<&PortGroup>, subject: String, problem: Problem) {
        self.differences.push(Difference {
            namespace: self.namespace.clone(),
            service: self.name.clone(),
            family,
            ports: ports.map(ToString::to_string),
            subject,
            problem,
        });
    }

    /// What can be wrong with a slice as an object.
    fn slice(&mut self, service: &Service, slice: &EndpointSlice, family: Family, options: &Options) {
        let subject = format!("slice {}", slice.name_any());
        let labels = slice_labels(service);
        if *slice.labels() != labels {
            let problem = differs("labels", &show_labels(&labels), &show_labels(slice.labels()));
            self.add(Some(family), None, subject.clone(), problem);
        }
        let owner = owner(service);
        if !slice.owner_references().contains(&owner) {
            let found = slice
                .owner_references()
                .iter()
                .map(show_owner)
                .collect::<Vec<_>>()
                .join("; ");
            self.add(
                Some(family),
                None,
                subject.clone(),
                differs("ownerReferences", &show_owner(&owner), &found),
            );
        }
        let limit = options.max_endpoints_per_slice;
        let endpoints = slice.endpoints.as_ref().map_or(0, Vec::len);
        if endpoints > limit {
            let problem = Problem::TooLarge { endpoints, limit };
            self.add(Some(family), None, subject, problem);
        }
    }

    /// A family without endpoints has exactly one slice without ports and endpoints, any other has none.
    fn placeholders(&mut self, family: Family, wanted: bool, mut found: Vec<String>) {
        if wanted && found.is_empty() {
            self.add(
                Some(family),
                None,
                "placeholder slice".to_owned(),
                Problem::Missing,
            );
        }
        found.sort();
        for subject in found.into_iter().skip(usize::from(wanted)) {
            self.add(
                Some(family),
                None,
                subject,
                Problem::Unexpected("a needless placeholder"),
            );
        }
    }

    fn group(
        &mut self,
        (family, group): &(Family, PortGroup),
        expected: &BTreeMap<EndpointKey, Endpoint>,
        mut found: BTreeMap<EndpointKey, Vec<(String, Endpoint)>>,
        any_hints: bool,
    ) {
        for (key, expected) in expected {
            let places = found.remove(key).unwrap_or_default();
            let subject = format!("{key} ({})", expected.addresses.join(", "));
            let Some((_, first)) = places.first() else {
                self.add(Some(*family), Some(group), subject, Problem::Missing);
                continue;
            };
            if places.len() > 1 {
                let slices = places.iter().map(|(slice, _)| slice.clone()).collect();
                self.add(
                    Some(*family),
                    Some(group),
                    subject.clone(),
                    Problem::Duplicate(slices),
                );
            }
            for problem in endpoint_problems(expected, first, any_hints) {
                self.add(Some(*family), Some(group), subject.clone(), problem);
            }
        }
        for (key, places) in found {
            for (slice, endpoint) in places {
                let subject = format!("{key} ({}) in slice {slice}", endpoint.addresses.join(", "));
                self.add(Some(*family), Some(group), subject, Problem::Unexpected(""));
            }
        }
    }
}

fn endpoint_problems(expected: &Endpoint, found: &Endpoint, any_hints: bool) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut compare = |field, expected: String, found: String| {
        if expected != found {
            problems.push(Problem::Differs {
                field,
                expected,
                found,
            });
        }
    };
    compare(
        "addresses",
        expected.addresses.join(", "),
        found.addresses.join(", "),
    );
    compare(
        "conditions.ready",
        show(expected.ready.as_ref()),
        show(found.ready.as_ref()),
    );
    compare(
        "conditions.serving",
        show(expected.serving.as_ref()),
        show(found.serving.as_ref()),
    );
    compare(
        "conditions.terminating",
        show(expected.terminating.as_ref()),
        show(found.terminating.as_ref()),
    );
    compare(
        "targetRef.uid",
        show(expected.target_uid.as_ref()),
        show(found.target_uid.as_ref()),
    );
    compare(
        "nodeName",
        show(expected.node.as_ref()),
        show(found.node.as_ref()),
    );
    compare("zone", show(expected.zone.as_ref()), show(found.zone.as_ref()));
    compare(
        "hostname",
        show(expected.hostname.as_ref()),
        show(found.hostname.as_ref()),
    );
    if !any_hints {
        compare("hints", show(expected.hints.as_ref()), show(found.hints.as_ref()));
    }
    problems
}

fn differs(field: &'static str, expected: &str, found: &str) -> Problem {
    Problem::Differs {
        field,
        expected: expected.to_owned(),
        found: found.to_owned(),
    }
}

fn show<T: ToString>(value: Option<&T>) -> String {
    value.map_or_else(|| "none".to_owned(), ToString::to_string)
}

fn show_labels(labels: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    format!("{{{}}}", pairs.join(", "))
}

fn show_owner(owner: &OwnerReference) -> String {
    let flag = |value: Option<bool>| value.unwrap_or_default();
    format!(
        "{} {} {} uid {} controller={} blockOwnerDeletion={}",
        owner.api_version,
        owner.kind,
        owner.name,
        owner.uid,
        flag(owner.controller),
        flag(owner.block_owner_deletion)
    )
}
