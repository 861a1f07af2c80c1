//! The pods of one Service that its Endpoints object includes.

use super::many::Many;
use super::{Address, Port, Published, Subset, is_same};
use crate::core::ports::PortList;
use std::cmp::Ordering;
use std::net::IpAddr;

/// The pods of one Service that its Endpoints object includes, at some 20 to 40 bytes each if they are many. One pod alone
/// takes no memory of its own: there may be a hundred thousand Services of one pod each.
///
/// `by_uid` in its methods compares two pods by the text of their UIDs. It is called only for pods that share an IP.
#[derive(Clone, Debug)]
pub struct Members<P, A>(Pods<P, A>);

#[derive(Clone, Debug)]
enum Pods<P, A> {
    None {
        portless: bool,
    },
    One(One<P, A>),
    /// More than one.
    Many(Box<Many<P, A>>),
}

/// The entry of a pod, as [`Members::set`] was last given it.
#[derive(Clone, Debug)]
struct One<P, A> {
    address: A,
    ip: IpAddr,
    ready: bool,
    ports: PortList<P>,
    /// In here, where it takes no room.
    portless: bool,
}

impl<P: Port, A: Address> One<P, A> {
    fn new((address, ip, ready, ports): (A, IpAddr, bool, PortList<P>), portless: bool) -> Self {
        Self {
            address,
            ip,
            ready,
            ports,
            portless,
        }
    }

    /// Returns the subset that shows the pod, if it is shown.
    fn subset(&self) -> Option<Subset<P, A>> {
        if self.ports.is_empty() && !self.portless {
            return None;
        }
        let mut ports = self.ports.to_vec();
        ports.dedup();
        let (mut ready, mut not_ready) = (Vec::new(), Vec::new());
        if self.ready { &mut ready } else { &mut not_ready }.push(self.address);
        Some(Subset {
            ports,
            ready,
            not_ready,
        })
    }
}

impl<P: Port, A: Address> Members<P, A> {
    /// Creates an empty set. `portless` means that the Service is headless and has no ports, so that pods are published
    /// without any; for other Services, a pod without ports is not published.
    pub fn new(portless: bool) -> Self {
        Self(Pods::None { portless })
    }

    /// Creates a set from many pods, each given once. This sorts once, while calling [`Members::set`] for each pod
    /// would shift the others again and again.
    pub fn collect(
        portless: bool,
        pods: impl IntoIterator<Item = (A, IpAddr, bool, PortList<P>)>,
        by_uid: impl Fn(A, A) -> Ordering,
    ) -> Self {
        let mut pods = pods.into_iter();
        Self(match (pods.next(), pods.next()) {
            (None, _) => Pods::None { portless },
            (Some(one), None) => Pods::One(One::new(one, portless)),
            (Some(first), Some(second)) => {
                let all = [first, second].into_iter().chain(pods);
                Pods::Many(Box::new(Many::collect(portless, all, by_uid)))
            }
        })
    }

    /// Adds or updates a pod: its address in the family of the object, whether it is ready (or counts as ready), and
    /// its ports, sorted. Returns whether something changed.
    pub fn set(
        &mut self,
        address: A,
        ip: IpAddr,
        ready: bool,
        ports: &PortList<P>,
        by_uid: impl Fn(A, A) -> Ordering,
    ) -> bool {
        let portless = match &mut self.0 {
            Pods::Many(many) => return many.set(address, ip, ready, ports, by_uid),
            Pods::One(one) if one.address != address => {
                let known = (one.address, one.ip, one.ready, one.ports.clone());
                let mut many = Many::collect(one.portless, [known], &by_uid);
                many.set(address, ip, ready, ports, by_uid);
                self.0 = Pods::Many(Box::new(many));
                return true;
            }
            Pods::One(one) if (one.ip, one.ready) == (ip, ready) && one.ports == *ports => return false,
            Pods::One(One { portless, .. }) | Pods::None { portless } => *portless,
        };
        self.0 = Pods::One(One::new((address, ip, ready, ports.clone()), portless));
        true
    }

    /// Removes a pod that is gone or not to be published. Returns whether it was present. Uses only what
    /// [`Members::set`] was given, since anything else known of the pod may have changed or gone.
    pub fn remove(&mut self, address: A) -> bool {
        match &mut self.0 {
            Pods::Many(many) => {
                let found = many.remove(address);
                if let Some(last) = many.last() {
                    self.0 = Pods::One(One::new(last, many.is_portless()));
                }
                found
            }
            Pods::One(one) if one.address == address => {
                let portless = one.portless;
                self.0 = Pods::None { portless };
                true
            }
            Pods::One(_) | Pods::None { .. } => false,
        }
    }

    /// Returns what [`Members::set`] was last given for a pod: its address, whether it is ready, and its ports.
    pub fn get(&self, address: A) -> Option<(IpAddr, bool, &PortList<P>)> {
        match &self.0 {
            Pods::Many(many) => many.get(address),
            Pods::One(one) if one.address == address => Some((one.ip, one.ready, &one.ports)),
            Pods::One(_) | Pods::None { .. } => None,
        }
    }

    /// Returns the total number of ports that its groups list, all of which are read whenever subsets are laid out.
    pub fn listed_ports(&self) -> u64 {
        match &self.0 {
            Pods::None { .. } => 0,
            Pods::One(one) => one.ports.len() as u64,
            Pods::Many(many) => many.listed_ports(),
        }
    }

    /// Returns whether a pod that is ready here is listed differently, or not at all, in its replacement.
    pub fn loses_to(&self, next: &Self) -> bool {
        let differs = |address| self.get(address) != next.get(address);
        match &self.0 {
            Pods::None { .. } => false,
            Pods::One(one) => one.ready && differs(one.address),
            Pods::Many(many) => many.ready().any(differs),
        }
    }

    /// Returns the number of pods.
    pub fn len(&self) -> usize {
        match &self.0 {
            Pods::None { .. } => 0,
            Pods::One(_) => 1,
            Pods::Many(many) => many.len(),
        }
    }

    /// Returns whether there are no pods.
    pub fn is_empty(&self) -> bool {
        matches!(self.0, Pods::None { .. })
    }

    /// Builds the subsets, truncated to a total number of addresses (an address counts in each subset that it is in).
    pub fn publish(&self, limit: usize, by_uid: impl Fn(A, A) -> Ordering) -> Published<P, A> {
        let only = match &self.0 {
            Pods::Many(many) => return many.publish(limit, by_uid),
            Pods::One(one) => one.subset(),
            Pods::None { .. } => None,
        };
        let truncated = only.is_some() && limit == 0;
        Published {
            subsets: only.into_iter().take(limit).collect(),
            truncated,
        }
    }

    /// Returns whether there are more addresses than the limit, so that the object needs the annotation.
    pub fn is_over(&self, limit: usize) -> bool {
        match &self.0 {
            Pods::None { .. } => false,
            Pods::One(one) => limit == 0 && one.subset().is_some(),
            Pods::Many(many) => many.is_over(limit),
        }
    }

    /// Returns whether an object with these subsets means exactly what would be published.
    pub fn shows(&self, stored: &[Subset<P, A>], limit: usize, by_uid: impl Fn(A, A) -> Ordering) -> bool {
        is_same(&self.publish(limit, by_uid).subsets, stored)
    }

    /// Returns whether an object with these subsets can stay as it is: it means what it should, in whatever form, or,
    /// if there are too many addresses, it is truncated as upstream might do it.
    pub fn accepts(&self, stored: &[Subset<P, A>], limit: usize, by_uid: impl Fn(A, A) -> Ordering) -> bool {
        match &self.0 {
            Pods::Many(many) => many.accepts(stored, limit, by_uid),
            // There is one way to leave one address out.
            Pods::One(_) | Pods::None { .. } => self.shows(stored, limit, by_uid),
        }
    }
}

#[cfg(test)]
impl<P, A> Members<P, A> {
    /// Returns whether its pods take memory of their own.
    pub(super) fn are_boxed(&self) -> bool {
        matches!(self.0, Pods::Many(_))
    }
}
