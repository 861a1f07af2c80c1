//! Differences of Endpoints objects.

use super::{Difference, Found, NamedEndpoint, Rank, addressed};
use crate::core::facts::{AddressFacts, EndpointsFacts, LABEL_HEADLESS};
use crate::core::hash::KeyedMap;
use crate::core::ports::SlicePort;
use crate::core::subsets::TRUNCATED;
use std::collections::{BTreeMap, BTreeSet};

/// Returns why an Endpoints object is to be created, updated or deleted, given the stored and the desired object.
pub(in crate::inspect) fn of(
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
        (Some(_), None) => found.add(
            Rank::Object,
            "left over: no such Service; a controller deletes it when it starts",
        ),
        (None, None) => {}
    }
    found.finish()
}

/// One address of an object, merged over all its subsets.
struct Entry<'a> {
    address: &'a AddressFacts,
    /// The subsets that list it, as indices: each may have thousands of ports.
    subsets: Vec<usize>,
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
    for (at, subset) in endpoints.subsets.iter().enumerate() {
        let ready = subset.ready.iter().map(|address| (address, true));
        let others = subset.not_ready.iter().map(|address| (address, false));
        for (address, ready) in ready.chain(others) {
            let pod = address.pod.as_ref().map(|(name, _)| &**name);
            let entry = entries.entry((&*address.ip, pod)).or_insert(Entry {
                address,
                subsets: Vec::new(),
                ready,
            });
            entry.ready &= ready;
            if entry.subsets.last() != Some(&at) {
                entry.subsets.push(at);
            }
        }
    }
    entries
}

/// Returns the ports of some of an object's subsets.
fn ports(endpoints: &EndpointsFacts, subsets: impl IntoIterator<Item = usize>) -> BTreeSet<&SlicePort> {
    let subsets = subsets.into_iter().map(|at| &endpoints.subsets[at]);
    subsets.flat_map(|subset| &subset.ports).collect()
}

/// An address of which more ports than this differ is reported once.
const MANY_PORTS: usize = 32;

fn changed(found: &mut Found, stored: &EndpointsFacts, desired: &EndpointsFacts) {
    let (have, want) = (entries(stored), entries(desired));
    // A port that no address has, or that each has, is reported once.
    let all = |endpoints, entries: &Entries<'_>| {
        let subsets: BTreeSet<_> = entries
            .values()
            .flat_map(|entry| &entry.subsets)
            .copied()
            .collect();
        ports(endpoints, subsets)
    };
    let (have_ports, want_ports) = (all(stored, &have), all(desired, &want));
    if !have.is_empty() && !want.is_empty() {
        found.ports(have_ports.iter().copied(), want_ports.iter().copied(), "", None);
    }
    // Pods of one template are in the same subsets.
    let mut common = KeyedMap::default();
    for (key, wanted) in &want {
        let Some(entry) = have.get(key) else {
            let text = format!("{} is missing", wanted.name());
            found.about(Rank::Missing, wanted.pod(), text);
            continue;
        };
        let name = wanted.name();
        let of = NamedEndpoint {
            address: &name,
            pod: wanted.pod(),
        };
        let ready = [entry.ready, wanted.ready].map(|ready| Some(if ready { "true" } else { "false" }));
        found.field(of, "ready", ready[0], ready[1]);
        let (is, should) = (entry.address, wanted.address);
        found.field(of, "node", is.node.as_deref(), should.node.as_deref());
        let hostnames = (is.hostname.as_deref(), should.hostname.as_deref());
        found.field(of, "hostname", hostnames.0, hostnames.1);
        if is.pod != should.pod {
            let text = format!("{name}: refers to an earlier pod of that name");
            found.about(Rank::Endpoint, of.pod, text);
        }
        let both = (&entry.subsets, &wanted.subsets);
        let (a, b): &(BTreeSet<_>, BTreeSet<_>) = common.entry(both).or_insert_with(|| {
            let mut a = ports(stored, entry.subsets.iter().copied());
            let mut b = ports(desired, wanted.subsets.iter().copied());
            a.retain(|port| want_ports.contains(port));
            b.retain(|port| have_ports.contains(port));
            (a, b)
        });
        if a.symmetric_difference(b).nth(MANY_PORTS).is_some() {
            found.about(Rank::Port, of.pod, format!("{name}: many of its ports differ"));
        } else {
            let of_it = format!("{name}: ");
            found.ports(a.iter().copied(), b.iter().copied(), &of_it, of.pod);
        }
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
