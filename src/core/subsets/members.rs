//! The pods of one Service, in the order in which its Endpoints object lists them.

use super::layout::{Group, Packed, layout};
use super::order::{PrintedIp, compare_printed, v4_key};
use super::same::{is_same, meaning};
use super::truncate::{Cut, Truncation};
use super::{Address, Port, Published, Subset};
use rustc_hash::FxHashMap;
use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

/// The pods of one Service that its Endpoints object takes in, some 40 to 70 bytes each.
///
/// `by_uid` in its methods tells the order of two pods by the text of their UIDs. It is asked only of pods that
/// share an IP.
#[derive(Clone, Debug)]
pub struct Members<P, A> {
    places: FxHashMap<A, Place>,
    /// An emptied group stays until its place is needed, so that places do not shift.
    groups: Vec<Group<P, A>>,
    by_ports: FxHashMap<Arc<[P]>, u32>,
    vacant: Vec<u32>,
    portless: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    ip: IpAddr,
    group: u32,
    ready: bool,
}

impl<P: Port, A: Address> Members<P, A> {
    /// No pods. `portless` says that the Service is headless and has no ports, so that pods are published
    /// without any; of other Services a pod without ports is not published.
    pub fn new(portless: bool) -> Self {
        Self {
            places: FxHashMap::default(),
            groups: Vec::new(),
            by_ports: FxHashMap::default(),
            vacant: Vec::new(),
            portless,
        }
    }

    /// Many pods at once, each of them once: sorted once, where [`Members::set`] for each would shift the
    /// others again and again.
    pub fn collect(
        portless: bool,
        pods: impl IntoIterator<Item = (A, IpAddr, bool, Arc<[P]>)>,
        by_uid: impl Fn(A, A) -> Ordering,
    ) -> Self {
        let mut members = Self::new(portless);
        let pods = pods.into_iter();
        members.places.reserve(pods.size_hint().0);
        let mut last: Option<(Arc<[P]>, u32)> = None;
        for (address, ip, ready, ports) in pods {
            let group = match &last {
                Some((known, group)) if Arc::ptr_eq(known, &ports) => *group,
                _ => members.group(&ports),
            };
            last = Some((ports, group));
            let place = Place { ip, group, ready };
            let before = members.places.insert(address, place);
            debug_assert_eq!(before, None, "a pod is collected once");
            members.list(place).push(address);
        }
        for group in &mut members.groups {
            sort(&mut group.ready, |a| members.places[&a].ip, &by_uid);
            sort(&mut group.not_ready, |a| members.places[&a].ip, &by_uid);
        }
        members
    }

    /// A pod as it is now: its address in the family of the object, whether it is ready (or counts as it), and
    /// its ports, sorted. Says whether something changed.
    pub fn set(
        &mut self,
        address: A,
        ip: IpAddr,
        ready: bool,
        ports: &Arc<[P]>,
        by_uid: impl Fn(A, A) -> Ordering,
    ) -> bool {
        if let Some(place) = self.places.get(&address) {
            let same_ports = self.groups[place.group as usize].ports == *ports;
            if (place.ip, place.ready, same_ports) == (ip, ready, true) {
                return false;
            }
            self.remove(address);
        }
        let group = self.group(ports);
        let place = Place { ip, group, ready };
        self.places.insert(address, place);
        let list = list(&mut self.groups, place);
        let at = list.partition_point(|other| {
            compare_printed(self.places[other].ip, ip)
                .then_with(|| by_uid(*other, address))
                .is_lt()
        });
        list.insert(at, address);
        true
    }

    /// What [`Members::set`] was last told of a pod: its address, whether it is ready, and its ports.
    pub fn get(&self, address: A) -> Option<(IpAddr, bool, &Arc<[P]>)> {
        let place = self.places.get(&address)?;
        Some((place.ip, place.ready, &self.groups[place.group as usize].ports))
    }

    /// A pod is gone, or is not to be published. Says whether it was there. Works from what
    /// [`Members::set`] was told; what else is known of the pod may have changed or gone.
    pub fn remove(&mut self, address: A) -> bool {
        let Some(place) = self.places.get(&address).copied() else {
            return false;
        };
        let list = list(&mut self.groups, place);
        let first = list.partition_point(|other| compare_printed(self.places[other].ip, place.ip).is_lt());
        let at = first
            + list[first..]
                .iter()
                .position(|other| *other == address)
                .expect("a pod stands in the list that its place names");
        list.remove(at);
        self.places.remove(&address);
        let group = &self.groups[place.group as usize];
        if group.ready.is_empty() && group.not_ready.is_empty() {
            self.by_ports.remove(&group.ports);
            self.vacant.push(place.group);
        }
        true
    }

    /// How many pods there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are no pods.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The subsets, cut down to a number of addresses in all (an address counts in each subset that it is in).
    pub fn publish(&self, limit: usize, by_uid: impl Fn(A, A) -> Ordering) -> Published<P, A> {
        let layout = layout(&self.groups, self.portless);
        let truncation = truncation(&layout, limit);
        let shares = truncation.shares();
        let subsets = layout
            .iter()
            .zip(shares)
            .map(|(packed, share)| {
                let (ready, not_ready) = match truncation.cut {
                    Cut::Nothing => (usize::MAX, usize::MAX),
                    Cut::Ready => (share, 0),
                    Cut::NotReady => (usize::MAX, share),
                };
                Subset {
                    ports: packed.ports.iter().copied().cloned().collect(),
                    ready: self.first(&packed.groups, true, ready, &by_uid),
                    not_ready: self.first(&packed.groups, false, not_ready, &by_uid),
                }
            })
            .filter(|subset| !subset.ready.is_empty() || !subset.not_ready.is_empty())
            .collect();
        Published {
            subsets,
            truncated: truncation.cut != Cut::Nothing,
        }
    }

    /// Whether there are more addresses than a limit, so that the object must have the annotation.
    pub fn is_over(&self, limit: usize) -> bool {
        truncation(&layout(&self.groups, self.portless), limit).cut != Cut::Nothing
    }

    /// Whether an object with these subsets says just what would be published.
    pub fn shows(&self, stored: &[Subset<P, A>], limit: usize, by_uid: impl Fn(A, A) -> Ordering) -> bool {
        is_same(&self.publish(limit, by_uid).subsets, stored)
    }

    /// Whether an object with these subsets can stay as it is: it says what it should, in whatever form, or, if
    /// that is too much, it is cut down as upstream might do it.
    pub fn accepts(&self, stored: &[Subset<P, A>], limit: usize, by_uid: impl Fn(A, A) -> Ordering) -> bool {
        let published = self.publish(limit, &by_uid);
        if is_same(&published.subsets, stored) {
            return true;
        }
        published.truncated && self.is_valid_truncation(stored, limit, &by_uid)
    }

    /// Whether upstream, from all of this, might have made that. It takes the first addresses of each subset;
    /// how many, depends on an order of the subsets that is not laid down.
    fn is_valid_truncation(
        &self,
        stored: &[Subset<P, A>],
        limit: usize,
        by_uid: &impl Fn(A, A) -> Ordering,
    ) -> bool {
        let layout = layout(&self.groups, self.portless);
        let truncation = truncation(&layout, limit);
        let mut stored = meaning(stored);
        let mut shares = Vec::with_capacity(layout.len());
        for packed in &layout {
            let mut ports = packed.ports.iter().copied().map(Some);
            // All ports of a subset have the same addresses, also after the cut.
            let has = stored.remove(&ports.next().flatten()).unwrap_or_default();
            if !ports.all(|port| stored.remove(&port).unwrap_or_default() == has) {
                return false;
            }
            let ready = has.iter().filter(|(_, ready)| *ready).count();
            let not_ready = has.len() - ready;
            let fits = match truncation.cut {
                Cut::Nothing => false,
                Cut::Ready => not_ready == 0,
                Cut::NotReady => ready == packed.counts.ready,
            };
            if !fits {
                return false;
            }
            let mut wants: Vec<_> = self
                .first(&packed.groups, true, ready, by_uid)
                .into_iter()
                .map(|address| (address, true))
                .collect();
            let others = self.first(&packed.groups, false, not_ready, by_uid);
            wants.extend(others.into_iter().map(|address| (address, false)));
            wants.sort_unstable();
            if wants != has {
                return false;
            }
            shares.push(if truncation.cut == Cut::Ready {
                ready
            } else {
                not_ready
            });
        }
        stored.is_empty() && truncation.allows(&shares)
    }

    /// The first addresses of some groups taken together.
    fn first(&self, groups: &[u32], ready: bool, count: usize, by_uid: &impl Fn(A, A) -> Ordering) -> Vec<A> {
        let lists = groups.iter().map(|group| {
            let group = &self.groups[*group as usize];
            let list = if ready { &group.ready } else { &group.not_ready };
            &list[..list.len().min(count)]
        });
        let mut first = lists.collect::<Vec<_>>().concat();
        if groups.len() > 1 {
            sort(&mut first, |address| self.places[&address].ip, by_uid);
            first.truncate(count);
        }
        first
    }

    fn group(&mut self, ports: &Arc<[P]>) -> u32 {
        debug_assert!(
            ports.is_sorted(),
            "ports come sorted, or equal lists would be two groups"
        );
        if let Some(group) = self.by_ports.get(ports) {
            return *group;
        }
        let new = Group {
            ports: ports.clone(),
            ready: Vec::new(),
            not_ready: Vec::new(),
        };
        let index = if let Some(index) = self.vacant.pop() {
            self.groups[index as usize] = new;
            index
        } else {
            self.groups.push(new);
            u32::try_from(self.groups.len() - 1).expect("no Service has 2^32 pods")
        };
        self.by_ports.insert(ports.clone(), index);
        index
    }

    fn list(&mut self, place: Place) -> &mut Vec<A> {
        list(&mut self.groups, place)
    }
}

/// The list that a place names.
fn list<P, A>(groups: &mut [Group<P, A>], place: Place) -> &mut Vec<A> {
    let group = &mut groups[place.group as usize];
    if place.ready {
        &mut group.ready
    } else {
        &mut group.not_ready
    }
}

fn truncation<P>(layout: &[Packed<'_, P>], limit: usize) -> Truncation {
    let counts: Vec<_> = layout.iter().map(|packed| packed.counts).collect();
    Truncation::new(&counts, limit)
}

/// Sorts by printed IP, then UID. The keys are made once: comparisons are many.
fn sort<A: Address>(addresses: &mut [A], ip: impl Fn(A) -> IpAddr, by_uid: &impl Fn(A, A) -> Ordering) {
    let v4: Option<Vec<(u64, A)>> = addresses
        .iter()
        .map(|a| match ip(*a) {
            IpAddr::V4(ip) => Some((v4_key(ip), *a)),
            IpAddr::V6(_) => None,
        })
        .collect();
    if let Some(keyed) = v4 {
        sort_keyed(addresses, keyed, by_uid);
    } else {
        let keyed = addresses.iter().map(|a| (PrintedIp::from(ip(*a)), *a)).collect();
        sort_keyed(addresses, keyed, by_uid);
    }
}

fn sort_keyed<K: Ord, A: Address>(
    addresses: &mut [A],
    mut keyed: Vec<(K, A)>,
    by_uid: &impl Fn(A, A) -> Ordering,
) {
    keyed.sort_unstable_by(|(a, x), (b, y)| a.cmp(b).then_with(|| by_uid(*x, *y)));
    for (slot, (_, address)) in addresses.iter_mut().zip(keyed) {
        *slot = address;
    }
}
