//! Compares the slices of one Service with what they should be.

mod endpoint;
pub(super) mod expected;
pub(super) mod hints;

use self::endpoint::{Endpoint, EndpointKey, PortGroup};
use self::expected::Expected;
use self::hints::{Mode, Sharing, Zones};
use super::facts::{self, HEADLESS_LABEL};
use super::report::{Comparison, differs, show, show_labels};
use super::{Difference, Family, Options, Problem, annotated};
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet};

/// Names the Service that a slice belongs to.
pub(super) const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";
pub(super) const MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGED_BY: &str = "endpointslice-controller.k8s.io";
const CUSTOM_MANAGED_BY: &str = "endpointd.io";

/// An endpoint that stands in a slice, and the slice.
type Found = BTreeMap<(Family, PortGroup), BTreeMap<EndpointKey, Vec<(String, Endpoint)>>>;

/// Adds to `differences` what is wrong with the slices of `service`; `slices` are those that name it.
pub(super) fn compare(
    service: &Service,
    expected: &Expected,
    slices: &[&EndpointSlice],
    zones: &Zones,
    options: &Options,
    differences: &mut Vec<Difference>,
) {
    let mut comparison = Comparison::of(service, differences);
    let mut found = Found::new();
    let mut placeholders: BTreeMap<Family, Vec<String>> = BTreeMap::new();

    for slice in slices.iter().filter(|slice| is_by(slice, manager(service))) {
        let Some(family) = comparison.family(service, slice, expected) else {
            continue;
        };
        comparison.slice(service, slice, family, options);

        let subject = format!("slice {}", slice.name_any());
        let group = PortGroup::of_slice(slice.ports.as_deref().unwrap_or_default());
        let endpoints = slice.endpoints.as_deref().unwrap_or_default();
        if endpoints.is_empty() {
            // Beside slices of its group an empty one stays, as upstream leaves it: the next endpoints go there.
            let has_others = expected[&family].contains_key(&group);
            if group.is_empty() {
                placeholders.entry(family).or_default().push(subject);
            } else if !has_others {
                let problem = Problem::Unexpected("it has no endpoints");
                comparison.add(Some(family), Some(&group), subject, problem);
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
        let placeholders = placeholders.remove(family).unwrap_or_default();
        // Beside slices of pods that have none of the ports, an empty one is of their group, and may stay in it.
        if !groups.keys().any(PortGroup::is_empty) {
            comparison.placeholders(*family, groups.is_empty(), placeholders);
        }
        let endpoints = groups.values().flat_map(BTreeMap::values);
        let sharing = match Mode::of(service) {
            Mode::Balanced => zones.share_out(endpoints),
            _ => Sharing::None,
        };
        comparison.endpoints(*family, groups, &mut found, &sharing);
    }
}

/// Adds the slices that were published for an annotation of the Service that no longer counts.
pub(super) fn abandoned(service: &Service, slices: &[&EndpointSlice], differences: &mut Vec<Difference>) {
    let mut comparison = Comparison::of(service, differences);
    for slice in slices.iter().filter(|slice| is_by(slice, CUSTOM_MANAGED_BY)) {
        let problem = Problem::Unexpected("no annotation asks for it");
        comparison.add(None, None, format!("slice {}", slice.name_any()), problem);
    }
}

/// The controller that publishes the Service's slices.
fn manager(service: &Service) -> &'static str {
    if annotated::of(service).is_some() {
        CUSTOM_MANAGED_BY
    } else {
        MANAGED_BY
    }
}

/// Whether a slice of the Service holds this very pod.
fn is_held(service: &Service, slices: &[&EndpointSlice], pod: &Pod, family: Family) -> bool {
    let uid = pod.metadata.uid.as_ref();
    let slices = slices.iter().filter(|slice| {
        let of_family = Family::from_name(&slice.address_type) == Some(family);
        of_family && is_by(slice, manager(service)) && is_owned(service, slice)
    });
    let mut endpoints = slices.flat_map(|slice| slice.endpoints.iter().flatten());
    endpoints.any(|endpoint| {
        let target = endpoint.target_ref.as_ref();
        uid.is_some() && target.and_then(|target| target.uid.as_ref()) == uid
    })
}

/// Whether the slice belongs to this very Service.
fn is_owned(service: &Service, slice: &EndpointSlice) -> bool {
    let mut owners = slice.owner_references().iter();
    owners.any(|owner| Some(&owner.uid) == service.metadata.uid.as_ref())
}

/// Whether the slice belongs to the controller. One that is being deleted no longer counts.
fn is_by(slice: &EndpointSlice, controller: &str) -> bool {
    slice.labels().get(MANAGED_BY_LABEL).map(String::as_str) == Some(controller)
        && slice.metadata.deletion_timestamp.is_none()
}

fn slice_labels(service: &Service) -> BTreeMap<String, String> {
    let reserved = [SERVICE_NAME_LABEL, MANAGED_BY_LABEL, HEADLESS_LABEL];
    let mut labels = service.labels().clone();
    labels.retain(|key, _| !reserved.contains(&key.as_str()));
    labels.insert(SERVICE_NAME_LABEL.to_owned(), service.name_any());
    labels.insert(MANAGED_BY_LABEL.to_owned(), manager(service).to_owned());
    if facts::cluster_ip(service).is_none() {
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

// === impl Comparison ===

impl Comparison<'_> {
    /// The slice's family, unless the slice should not be there at all.
    fn family(&mut self, service: &Service, slice: &EndpointSlice, expected: &Expected) -> Option<Family> {
        let subject = format!("slice {}", slice.name_any());
        let family = Family::from_name(&slice.address_type).filter(|family| expected.contains_key(family));
        let Some(family) = family else {
            let problem = Problem::Unexpected("the Service does not have its family");
            self.add(None, None, subject, problem);
            return None;
        };
        if !is_owned(service, slice) {
            let problem = Problem::Unexpected("not owned by this Service's UID");
            self.add(Some(family), None, subject, problem);
            return None;
        }
        Some(family)
    }

    /// Compares the labels and the owner of a slice, and checks its size.
    fn slice(&mut self, service: &Service, slice: &EndpointSlice, family: Family, options: &Options) {
        let subject = format!("slice {}", slice.name_any());
        let (mut labels, mut found) = (slice_labels(service), slice.labels().clone());
        if !options.headless_label {
            labels.remove(HEADLESS_LABEL);
            found.remove(HEADLESS_LABEL);
        }
        if found != labels {
            let problem = differs("labels", &show_labels(&labels), &show_labels(&found));
            self.add(Some(family), None, subject.clone(), problem);
        }
        let owner = owner(service);
        if !slice.owner_references().contains(&owner) {
            let found = slice.owner_references().iter().map(show_owner);
            let found = found.collect::<Vec<_>>().join("; ");
            let problem = differs("ownerReferences", &show_owner(&owner), &found);
            self.add(Some(family), None, subject.clone(), problem);
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
            let subject = "placeholder slice".to_owned();
            self.add(Some(family), None, subject, Problem::Missing);
        }
        found.sort();
        for subject in found.into_iter().skip(usize::from(wanted)) {
            let problem = Problem::Unexpected("a needless placeholder");
            self.add(Some(family), None, subject, problem);
        }
    }

    /// Compares the endpoints of a family.
    fn endpoints(
        &mut self,
        family: Family,
        expected: &BTreeMap<PortGroup, BTreeMap<EndpointKey, Endpoint>>,
        found: &mut Found,
        sharing: &Sharing<'_>,
    ) {
        let nothing = BTreeMap::new();
        let groups: BTreeSet<PortGroup> = found
            .keys()
            .filter(|(of, _)| *of == family)
            .map(|(_, group)| group)
            .chain(expected.keys())
            .cloned()
            .collect();
        let before = self.differences.len();
        let mut hinted = BTreeMap::new();
        for group in groups {
            let expected = expected.get(&group).unwrap_or(&nothing);
            let place = (family, group);
            let found = found.remove(&place).unwrap_or_default();
            self.group(&place, expected, found, sharing, &mut hinted);
        }
        // The sums mean something only if every endpoint is there once, with one zone.
        let Sharing::Among(shares) = sharing else { return };
        if self.differences.len() > before {
            return;
        }
        for (zone, endpoints, maximum) in shares.overloaded(&hinted) {
            let problem = Problem::Overloaded { endpoints, maximum };
            self.add(Some(family), None, format!("zone {zone}"), problem);
        }
    }

    fn group(
        &mut self,
        (family, group): &(Family, PortGroup),
        expected: &BTreeMap<EndpointKey, Endpoint>,
        mut found: BTreeMap<EndpointKey, Vec<(String, Endpoint)>>,
        sharing: &Sharing<'_>,
        hinted: &mut BTreeMap<String, usize>,
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
                let problem = Problem::Duplicate(slices);
                self.add(Some(*family), Some(group), subject.clone(), problem);
            }
            for problem in endpoint_problems(expected, first, sharing) {
                self.add(Some(*family), Some(group), subject.clone(), problem);
            }
            for zone in first.hints.iter().flat_map(|hints| &hints.zones) {
                *hinted.entry(zone.clone()).or_default() += 1;
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

fn endpoint_problems(expected: &Endpoint, found: &Endpoint, sharing: &Sharing<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut compare = |field, expected: String, found: String| {
        if expected != found {
            problems.push(differs(field, &expected, &found));
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
    compare(
        "hostname",
        show(expected.hostname.as_ref()),
        show(found.hostname.as_ref()),
    );
    let Some(zone) = &expected.zone else {
        // The Node does not tell it, so the slice may show another one, and hints of that zone.
        let nodes = |endpoint: &Endpoint| {
            let hints = endpoint.hints.as_ref();
            format!("{:?}", hints.map_or(&[][..], |hints| &hints.nodes))
        };
        compare("hints.forNodes", nodes(expected), nodes(found));
        return problems;
    };
    compare("zone", zone.clone(), show(found.zone.as_ref()));
    match sharing {
        Sharing::Unknown => {}
        Sharing::Among(shares) if expected.is_ready() => {
            if !shares.allow(expected, found) {
                let one_of = format!("one zone of {:?}", shares.zones());
                compare("hints", one_of, show(found.hints.as_ref()));
            }
        }
        _ => compare("hints", show(expected.hints.as_ref()), show(found.hints.as_ref())),
    }
    problems
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
