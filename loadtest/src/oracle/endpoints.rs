//! Compares the Endpoints object of one Service with what it should be.

pub(super) mod expected;
mod truncation;

use self::expected::{Address, AddressKey, Offers};
use self::truncation::Truncation;
use super::facts::{self, HEADLESS_LABEL, Port};
use super::report::{Comparison, differs, show, show_labels};
use super::{Difference, Options, Problem};
use k8s_openapi::api::core::v1::{Endpoints, Service};
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet};

const MANAGED_BY_LABEL: &str = "endpoints.kubernetes.io/managed-by";
const MANAGED_BY: &str = "endpoint-controller";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
const TRUNCATED: &str = "truncated";
/// Objects with this one serve as locks.
pub(super) const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
const SUBJECT: &str = "Endpoints";

/// Adds to `differences` what is wrong with the Endpoints object of `service`.
pub(super) fn compare(
    service: &Service,
    expected: &Offers,
    object: Option<&Endpoints>,
    options: &Options,
    differences: &mut Vec<Difference>,
) {
    let mut comparison = Comparison::of(service, differences);
    let Some(object) = object else {
        comparison.add(None, None, SUBJECT.to_owned(), Problem::Missing);
        return;
    };
    let truncation = Truncation::of(expected);
    comparison.labels(service, object, options);
    comparison.annotation(object, truncation.is_some());

    let found = expected::published(object);
    let nothing = BTreeMap::new();
    for port in expected.keys().chain(found.keys()).collect::<BTreeSet<_>>() {
        let expected = expected.get(port).unwrap_or(&nothing);
        let found = found.get(port).cloned().unwrap_or_default();
        comparison.addresses(port.as_ref(), expected, found, truncation.as_ref());
    }
    if let Some(problem) = truncation.and_then(|truncation| truncation.problem(&found)) {
        comparison.add(None, None, SUBJECT.to_owned(), Problem::Truncation(problem));
    }
}

/// Returns the difference of an Endpoints object whose Service does not exist. Objects of other owners are not the
/// controller's, and neither are locks.
pub(super) fn orphan(object: &Endpoints) -> Option<Difference> {
    let is_ours = object.labels().get(MANAGED_BY_LABEL).map(String::as_str) == Some(MANAGED_BY);
    let is_lock = object.annotations().contains_key(LEADER);
    let is_leaving = object.metadata.deletion_timestamp.is_some();
    (is_ours && !is_lock && !is_leaving).then(|| Difference {
        namespace: object.namespace().unwrap_or_default(),
        service: object.name_any(),
        family: None,
        ports: None,
        subject: SUBJECT.to_owned(),
        problem: Problem::Unexpected("its Service is gone"),
    })
}

// === impl Comparison ===

impl Comparison<'_> {
    fn labels(&mut self, service: &Service, object: &Endpoints, options: &Options) {
        let (mut labels, mut found) = (service.labels().clone(), object.labels().clone());
        labels.remove(HEADLESS_LABEL);
        labels.insert(MANAGED_BY_LABEL.to_owned(), MANAGED_BY.to_owned());
        if !options.headless_label {
            found.remove(HEADLESS_LABEL);
        } else if facts::cluster_ip(service).is_none() {
            labels.insert(HEADLESS_LABEL.to_owned(), String::new());
        }
        if found != labels {
            let problem = differs("labels", &show_labels(&labels), &show_labels(&found));
            self.add(None, None, SUBJECT.to_owned(), problem);
        }
    }

    fn annotation(&mut self, object: &Endpoints, is_truncated: bool) {
        let expected = is_truncated.then(|| TRUNCATED.to_owned());
        let found = object.annotations().get(OVER_CAPACITY);
        if found != expected.as_ref() {
            let problem = differs("over-capacity", &show(expected.as_ref()), &show(found));
            self.add(None, None, SUBJECT.to_owned(), problem);
        }
    }

    /// Compares the addresses of a port.
    fn addresses(
        &mut self,
        port: Option<&Port>,
        expected: &BTreeMap<AddressKey, Address>,
        mut found: BTreeMap<AddressKey, Vec<Address>>,
        truncation: Option<&Truncation<'_>>,
    ) {
        let port = port.map_or_else(|| "no ports".to_owned(), ToString::to_string);
        let mut add = |key: &AddressKey, address: &Address, problem| {
            let of = address.target.as_deref().unwrap_or("nothing");
            let subject = format!("{SUBJECT} address {key} of {of}");
            self.add(None, Some(&port), subject, problem);
        };
        for (key, expected) in expected {
            let mentions = found.remove(key).unwrap_or_default();
            let Some(first) = mentions.first() else {
                if !truncation.is_some_and(|truncation| truncation.may_leave_out(expected)) {
                    add(key, expected, Problem::Missing);
                }
                continue;
            };
            if mentions.len() > 1 {
                let lists = mentions
                    .iter()
                    .map(|address| show_ready(address.ready).to_owned());
                add(key, expected, Problem::Duplicate(lists.collect()));
            }
            for problem in address_problems(expected, first) {
                add(key, expected, problem);
            }
            if !expected.ready && truncation.is_some_and(|truncation| truncation.of_ready) {
                add(
                    key,
                    expected,
                    Problem::Unexpected("not even all ready addresses fit"),
                );
            }
        }
        for (key, mentions) in found {
            for address in mentions {
                add(&key, &address, Problem::Unexpected(""));
            }
        }
    }
}

fn address_problems(expected: &Address, found: &Address) -> Vec<Problem> {
    let fields = [
        (
            "ready",
            show_ready(expected.ready).to_owned(),
            show_ready(found.ready).to_owned(),
        ),
        (
            "hostname",
            show(expected.hostname.as_ref()),
            show(found.hostname.as_ref()),
        ),
        (
            "nodeName",
            show(expected.node.as_ref()),
            show(found.node.as_ref()),
        ),
        (
            "targetRef",
            show(expected.target.as_ref()),
            show(found.target.as_ref()),
        ),
    ];
    fields
        .into_iter()
        .filter(|(_, expected, found)| expected != found)
        .map(|(field, expected, found)| differs(field, &expected, &found))
        .collect()
}

fn show_ready(ready: bool) -> &'static str {
    if ready { "addresses" } else { "notReadyAddresses" }
}
