//! The pods of a Service that has several, in the order in which its Endpoints object lists them.

use super::layout::{Group, Packed, layout};
use super::order::{PrintedIp, compare_printed, v4_key};
use super::same::{Lists, is_same, meaning};
use super::truncate::{Cut, Truncation};
use super::{Address, Port, Published, Subset};
use crate::core::compact::index::NumberIndex;
use crate::core::compact::slab::Slab;
use crate::core::compact::small::SmallMap;
use crate::core::hash::hash_of;
use crate::core::ports::PortList;
use std::cmp::Ordering;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The pods of a Service that has several. Its methods do what those of [`Members`](super::Members) do.
#[derive(Clone, Debug)]
pub(super) struct Many<P, A> {
    positions: SmallMap<A, Position>,
    /// The IPv6 addresses that positions refer to.
    v6: Slab<Ipv6Addr>,
    /// An emptied group stays until its index is reused, so that indices do not shift.
    groups: Vec<Group<P, A>>,
    by_ports: NumberIndex,
    vacant: Vec<u32>,
    portless: bool,
}

/// The position where a pod is listed, in 8 bytes because there is one for each pod of each Service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Position {
    /// The bits of an IPv4 address, or the index of an IPv6 one.
    ip: u32,
    /// The group's index, shifted past the two flags.
    group: u32,
}

impl Position {
    const READY: u32 = 1;
    const V6: u32 = 2;

    fn group(self) -> usize {
        (self.group >> 2) as usize
    }

    fn is_ready(self) -> bool {
        self.group & Self::READY != 0
    }

    fn is_v6(self) -> bool {
        self.group & Self::V6 != 0
    }
}

impl<P: Port, A: Address> Many<P, A> {
    fn new(portless: bool) -> Self {
        Self {
            positions: SmallMap::default(),
            v6: Slab::default(),
            groups: Vec::new(),
            by_ports: NumberIndex::default(),
            vacant: Vec::new(),
            portless,
        }
    }

    /// Creates a set from many pods, each given once. This sorts once, while calling [`Self::set`] for each pod
    /// would shift the others again and again.
    pub(super) fn collect(
        portless: bool,
        pods: impl IntoIterator<Item = (A, IpAddr, bool, PortList<P>)>,
        by_uid: impl Fn(A, A) -> Ordering,
    ) -> Self {
        let mut members = Self::new(portless);
        let pods = pods.into_iter();
        members.positions = SmallMap::with_capacity(pods.size_hint().0);
        let mut last: Option<(PortList<P>, u32)> = None;
        for (address, ip, ready, ports) in pods {
            let group = match &last {
                Some((known, group)) if *known == ports => *group,
                _ => members.group(&ports),
            };
            last = Some((ports, group));
            let position = members.position(ip, group, ready);
            let before = members.positions.insert(address, position);
            debug_assert_eq!(before, None, "a pod is collected once");
            list(&mut members.groups, position).push(address);
        }
        let mut groups = std::mem::take(&mut members.groups);
        for group in &mut groups {
            for list in [&mut group.ready, &mut group.not_ready] {
                sort(list, |a| members.ip_of(a), &by_uid);
                list.shrink_to_fit();
            }
        }
        members.groups = groups;
        members
    }

    /// Adds or updates a pod: its address in the family of the object, whether it is ready (or counts as ready), and
    /// its ports, sorted. Returns whether something changed.
    pub(super) fn set(
        &mut self,
        address: A,
        ip: IpAddr,
        ready: bool,
        ports: &PortList<P>,
        by_uid: impl Fn(A, A) -> Ordering,
    ) -> bool {
        if let Some((known_ip, known_ready, known_ports)) = self.get(address) {
            if (known_ip, known_ready) == (ip, ready) && known_ports == ports {
                return false;
            }
            self.remove(address);
        }
        let group = self.group(ports);
        let position = self.position(ip, group, ready);
        let before = position.list(&self.groups);
        let at = before.partition_point(|other| {
            compare_printed(self.ip_of(*other), ip)
                .then_with(|| by_uid(*other, address))
                .is_lt()
        });
        self.positions.insert(address, position);
        let list = list(&mut self.groups, position);
        if list.len() == list.capacity() {
            list.reserve_exact(list.len() / 8 + 4);
        }
        list.insert(at, address);
        true
    }

    /// Returns the total number of ports that its groups list, all of which are read whenever subsets are laid out.
    pub(super) fn listed_ports(&self) -> u64 {
        self.groups.iter().map(|group| group.ports.len() as u64).sum()
    }

    /// Returns what [`Self::set`] was last given for a pod: its address, whether it is ready, and its ports.
    pub(super) fn get(&self, address: A) -> Option<(IpAddr, bool, &PortList<P>)> {
        let position = self.positions.get(&address)?;
        Some((
            self.ip(position),
            position.is_ready(),
            &self.groups[position.group()].ports,
        ))
    }

    /// Removes a pod that is gone or not to be published. Returns whether it was present. Uses only what
    /// [`Self::set`] was given, since anything else known of the pod may have changed or gone.
    pub(super) fn remove(&mut self, address: A) -> bool {
        let Some(position) = self.positions.get(&address) else {
            return false;
        };
        let (before, ip) = (position.list(&self.groups), self.ip(position));
        let first = before.partition_point(|other| compare_printed(self.ip_of(*other), ip).is_lt());
        let at = first
            + before[first..]
                .iter()
                .position(|other| *other == address)
                .expect("a pod stands in the list that its position names");
        list(&mut self.groups, position).remove(at);
        self.positions.remove(&address);
        if position.is_v6() {
            self.v6.remove(position.ip as usize);
        }
        let group = &self.groups[position.group()];
        if group.ready.is_empty() && group.not_ready.is_empty() {
            let index = position.group() as u32;
            let known = self.by_ports.remove(hash_of(&group.ports), index);
            assert!(known, "a group in use is in the table of its ports");
            self.vacant.push(index);
        }
        true
    }

    /// Returns the pods that are ready.
    pub(super) fn ready(&self) -> impl Iterator<Item = A> {
        self.groups.iter().flat_map(|group| &group.ready).copied()
    }

    pub(super) fn is_portless(&self) -> bool {
        self.portless
    }

    /// Returns the only pod, and what is known of it, if there is just one.
    pub(super) fn last(&self) -> Option<(A, IpAddr, bool, PortList<P>)> {
        if self.len() != 1 {
            return None;
        }
        let mut listed = self
            .groups
            .iter()
            .flat_map(|group| [&group.ready, &group.not_ready]);
        let address = *listed.find_map(|list| list.first())?;
        let (ip, ready, ports) = self.get(address)?;
        Some((address, ip, ready, ports.clone()))
    }

    /// Returns the number of pods.
    pub(super) fn len(&self) -> usize {
        self.positions.len()
    }

    /// Builds the subsets, truncated to a total number of addresses (an address counts in each subset that it is in).
    pub(super) fn publish(&self, limit: usize, by_uid: impl Fn(A, A) -> Ordering) -> Published<P, A> {
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

    /// Returns whether there are more addresses than the limit, so that the object needs the annotation.
    pub(super) fn is_over(&self, limit: usize) -> bool {
        truncation(&layout(&self.groups, self.portless), limit).cut != Cut::Nothing
    }

    /// Returns whether an object with these subsets can stay as it is: it means what it should, in whatever form, or,
    /// if there are too many addresses, it is truncated as upstream might do it.
    pub(super) fn accepts(
        &self,
        stored: &[Subset<P, A>],
        limit: usize,
        by_uid: impl Fn(A, A) -> Ordering,
    ) -> bool {
        let published = self.publish(limit, &by_uid);
        if is_same(&published.subsets, stored) {
            return true;
        }
        published.truncated && self.is_valid_truncation(stored, limit, &by_uid)
    }

    /// Returns whether upstream might have built these subsets from all pods. It takes the first addresses of each
    /// subset; how many depends on an order of the subsets that is not specified.
    fn is_valid_truncation(
        &self,
        stored: &[Subset<P, A>],
        limit: usize,
        by_uid: &impl Fn(A, A) -> Ordering,
    ) -> bool {
        let layout = layout(&self.groups, self.portless);
        let truncation = truncation(&layout, limit);
        let mut lists = Lists::default();
        let Some(mut stored) = meaning(stored, &mut lists) else {
            return false;
        };
        let lists = lists.in_order();
        let none = Vec::new();
        let mut shares = Vec::with_capacity(layout.len());
        let mut addresses = 0;
        for packed in &layout {
            let mut ports = packed.ports.iter().copied().map(Some);
            // All ports of a subset have the same addresses, even after truncation.
            let list = stored.by_port.remove(&ports.next().flatten());
            if !ports.all(|port| stored.by_port.remove(&port) == list) {
                return false;
            }
            let has = list.map_or(&none, |list| lists[list]);
            addresses += has.len();
            if addresses > limit {
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
            if wants != *has {
                return false;
            }
            shares.push(if truncation.cut == Cut::Ready {
                ready
            } else {
                not_ready
            });
        }
        stored.by_port.is_empty() && truncation.allows(&shares)
    }

    /// Returns the first addresses of several groups combined.
    fn first(&self, groups: &[u32], ready: bool, count: usize, by_uid: &impl Fn(A, A) -> Ordering) -> Vec<A> {
        let lists = groups.iter().map(|group| {
            let group = &self.groups[*group as usize];
            let list = if ready { &group.ready } else { &group.not_ready };
            &list[..list.len().min(count)]
        });
        let mut first = lists.collect::<Vec<_>>().concat();
        if groups.len() > 1 {
            sort(&mut first, |address| self.ip_of(address), by_uid);
            first.truncate(count);
        }
        first
    }

    fn group(&mut self, ports: &PortList<P>) -> u32 {
        debug_assert!(
            ports.is_sorted(),
            "ports come sorted, or equal lists would be two groups"
        );
        let hash = hash_of(ports);
        if let Some(group) = self
            .by_ports
            .find(hash, |group| self.groups[group as usize].ports == *ports)
        {
            return group;
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
            if self.groups.len() == self.groups.capacity() {
                self.groups.reserve_exact(1 + self.groups.len() / 8);
            }
            self.groups.push(new);
            u32::try_from(self.groups.len() - 1).expect("no Service has 2^30 pods")
        };
        self.by_ports.insert(hash, index);
        index
    }

    fn position(&mut self, ip: IpAddr, group: u32, ready: bool) -> Position {
        let flags = if ready { Position::READY } else { 0 };
        match ip {
            IpAddr::V4(ip) => Position {
                ip: ip.to_bits(),
                group: group << 2 | flags,
            },
            IpAddr::V6(ip) => Position {
                ip: u32::try_from(self.v6.insert(ip)).expect("no Service has 2^32 pods"),
                group: group << 2 | Position::V6 | flags,
            },
        }
    }

    fn ip(&self, position: Position) -> IpAddr {
        if position.is_v6() {
            IpAddr::V6(self.v6[position.ip as usize])
        } else {
            IpAddr::V4(Ipv4Addr::from_bits(position.ip))
        }
    }

    fn ip_of(&self, address: A) -> IpAddr {
        self.ip(self
            .positions
            .get(&address)
            .expect("what is listed has a position"))
    }
}

impl Position {
    fn list<P, A>(self, groups: &[Group<P, A>]) -> &[A] {
        let group = &groups[self.group()];
        if self.is_ready() {
            &group.ready
        } else {
            &group.not_ready
        }
    }
}

/// Returns the list that a position refers to.
fn list<P, A>(groups: &mut [Group<P, A>], position: Position) -> &mut Vec<A> {
    let group = &mut groups[position.group()];
    if position.is_ready() {
        &mut group.ready
    } else {
        &mut group.not_ready
    }
}

fn truncation<P>(layout: &[Packed<'_, P>], limit: usize) -> Truncation {
    let counts: Vec<_> = layout.iter().map(|packed| packed.counts).collect();
    Truncation::new(&counts, limit)
}

/// Sorts by printed IP, then UID. The keys are computed once, because there are many comparisons.
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
