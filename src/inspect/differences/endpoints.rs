//! Differences of Endpoints objects.

use super::{Difference, Found, Rank, Subject, addressed};
use crate::core::facts::{AddressFacts, EndpointsFacts, LABEL_HEADLESS};
use crate::core::ports::SlicePort;
use crate::core::subsets::TRUNCATED;
use std::collections::BTreeMap;

/// Returns why an Endpoints object is to be created, updated or deleted, given the stored and the desired object.
pub(crate) fn of_endpoints(
    stored: Option<&EndpointsFacts>,
    desired: Option<&EndpointsFacts>,
) -> Vec<Difference> {
    let mut found = Found::default();
    match (stored, desired) {
        (Some(stored), Some(desired)) => changed(&mut found, stored, desired),
        (None, Some(desired)) => {
            found.add(Rank::Object, "there is no such object");
            for wanted in entries(desired).values() {
                found.about(
                    Rank::Missing,
                    wanted.pod(),
                    format!("{} is missing", wanted.name()),
                );
            }
        }
        (Some(_), None) => found.add(Rank::Object, "left over: no such Service"),
        (None, None) => {}
    }
    found.finish()
}

/// One address of an object, merged over all its subsets.
struct Entry<'a> {
    address: &'a AddressFacts,
    ports: Vec<SlicePort>,
    ready: bool,
}

impl Entry<'_> {
    fn pod(&self) -> Option<&str> {
        self.address.pod.as_ref().map(|(name, _)| &**name)
    }

    fn name(&self) -> String {
        addressed(&self.address.ip, self.pod())
    }
}

/// Entries by address, and by pod where several pods share an address.
type Entries<'a> = BTreeMap<(&'a str, Option<&'a str>), Entry<'a>>;

fn entries(endpoints: &EndpointsFacts) -> Entries<'_> {
    let mut entries = Entries::new();
    for subset in &endpoints.subsets {
        let ready = subset.ready.iter().map(|address| (address, true));
        let others = subset.not_ready.iter().map(|address| (address, false));
        for (address, ready) in ready.chain(others) {
            let pod = address.pod.as_ref().map(|(name, _)| &**name);
            let entry = entries.entry((&*address.ip, pod)).or_insert(Entry {
                address,
                ports: Vec::new(),
                ready,
            });
            entry.ready &= ready;
            entry.ports.extend(subset.ports.iter().cloned());
        }
    }
    entries
}

fn changed(found: &mut Found, stored: &EndpointsFacts, desired: &EndpointsFacts) {
    let (have, want) = (entries(stored), entries(desired));
    // A port that no address has, or that each has, is reported once.
    let ports = |entries: &Entries<'_>| {
        let mut ports: Vec<_> = entries.values().flat_map(|entry| entry.ports.clone()).collect();
        ports.sort();
        ports.dedup();
        ports
    };
    let (have_ports, want_ports) = (ports(&have), ports(&want));
    if !have.is_empty() && !want.is_empty() {
        found.ports(&have_ports, &want_ports, "", None);
    }
    for (key, wanted) in &want {
        let Some(entry) = have.get(key) else {
            let text = format!("{} is missing", wanted.name());
            found.about(Rank::Missing, wanted.pod(), text);
            continue;
        };
        let name = wanted.name();
        let of = Subject {
            address: &name,
            pod: wanted.pod(),
        };
        if entry.ready != wanted.ready {
            let text = format!("{name}: ready {}, should be {}", entry.ready, wanted.ready);
            found.about(Rank::Endpoint, of.pod, text);
        }
        let (stored, wanted_at) = (entry.address, wanted.address);
        found.field(of, "node", stored.node.as_deref(), wanted_at.node.as_deref());
        let hostnames = (stored.hostname.as_deref(), wanted_at.hostname.as_deref());
        found.field(of, "hostname", hostnames.0, hostnames.1);
        if stored.pod != wanted_at.pod {
            let text = format!("{name}: refers to an earlier pod of that name");
            found.about(Rank::Endpoint, of.pod, text);
        }
        let common = |ports: &[SlicePort], all: &[SlicePort]| -> Vec<SlicePort> {
            ports.iter().filter(|port| all.contains(port)).cloned().collect()
        };
        let (a, b) = (
            common(&entry.ports, &want_ports),
            common(&wanted.ports, &have_ports),
        );
        found.ports(&a, &b, &format!("{name}: "), of.pod);
    }
    for (_, extra) in have.iter().filter(|(key, _)| !want.contains_key(*key)) {
        let text = format!("{} should not be there", extra.name());
        found.about(Rank::Extra, extra.pod(), text);
    }
    found.labels(&stored.labels, &desired.labels, |key| key != LABEL_HEADLESS);
    match (stored.over_capacity.as_deref(), desired.over_capacity.as_deref()) {
        (Some(_), None) => found.add(Rank::Metadata, "marked as truncated, and is not"),
        (other, Some(_)) if other != Some(TRUNCATED) => {
            found.add(Rank::Metadata, "is truncated, and not marked so");
        }
        _ => {}
    }
}
