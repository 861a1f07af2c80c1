//! Resolves a Service's ports and a pod's container ports to the ports of a slice.

use super::compact::intern::Recent;
use super::hash::{KeyedMap, hash_of};
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// A transport protocol.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Protocol {
    /// `TCP`, which the API server also sets by default.
    Tcp,
    /// `UDP`.
    Udp,
    /// `SCTP`.
    Sctp,
    /// A protocol that this version does not know.
    Other(Box<str>),
}

impl Protocol {
    /// Returns the API's spelling.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
            Self::Other(text) => text,
        }
    }
}

impl From<&str> for Protocol {
    fn from(text: &str) -> Self {
        match text {
            "" | "TCP" => Self::Tcp,
            "UDP" => Self::Udp,
            "SCTP" => Self::Sctp,
            _ => Self::Other(text.into()),
        }
    }
}

/// The target of a Service port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TargetPort {
    /// The same number on every pod.
    Number(u16),
    /// A named container port, whose number may differ from pod to pod.
    Name(Box<str>),
}

/// A port of a Service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServicePort {
    /// May be empty if the Service has one port.
    pub name: Box<str>,
    /// The protocol, which a named target must have too.
    pub protocol: Protocol,
    /// The target.
    pub target: TargetPort,
    /// A hint for proxies, passed on unchanged.
    pub app_protocol: Option<Box<str>>,
}

/// A named port of a container, or of a restartable init container.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ContainerPort {
    /// Never empty: ports without a name cannot be looked up and are not kept.
    pub name: Box<str>,
    /// The protocol.
    pub protocol: Protocol,
    /// The number.
    pub number: u16,
}

/// A port of a slice.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SlicePort {
    /// The Service port's name, even if it is empty. `None` only in slices written by others.
    pub name: Option<Box<str>>,
    /// The protocol.
    pub protocol: Protocol,
    /// The number. `None` (all ports) only in slices written by others.
    pub number: Option<u16>,
    /// The Service port's `appProtocol`.
    pub app_protocol: Option<Box<str>>,
}

/// A shared list of ports, sorted so that equal lists are equal keys whatever order their ports came in.
///
/// The hash is cached, because a list may have thousands of ports and is looked up for every pod that has it.
#[derive(Clone)]
pub struct PortList<P> {
    ports: Arc<[P]>,
    hash: u64,
}

/// The ports of a slice: the key of a port group. Pods with the same list share slices.
pub type SlicePorts = PortList<SlicePort>;

impl<P: Ord + Hash> From<Vec<P>> for PortList<P> {
    fn from(mut ports: Vec<P>) -> Self {
        ports.sort_unstable();
        Self {
            hash: hash_of(&ports[..]),
            ports: ports.into(),
        }
    }
}

impl<P: Ord + Hash> FromIterator<P> for PortList<P> {
    fn from_iter<I: IntoIterator<Item = P>>(ports: I) -> Self {
        ports.into_iter().collect::<Vec<_>>().into()
    }
}

impl<P: Ord + Hash> Default for PortList<P> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<P> Deref for PortList<P> {
    type Target = [P];

    fn deref(&self) -> &[P] {
        &self.ports
    }
}

impl<P: Eq> PartialEq for PortList<P> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.ports, &other.ports) || (self.hash == other.hash && *self.ports == *other.ports)
    }
}

impl<P: Eq> Eq for PortList<P> {}

impl<P> Hash for PortList<P> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl<P: fmt::Debug> fmt::Debug for PortList<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ports.fmt(f)
    }
}

impl<P> PortList<P> {
    /// Returns the number of references to this very list, not to equal ones.
    fn sharers(&self) -> usize {
        Arc::strong_count(&self.ports)
    }
}

/// Up to this many comparisons of a Service's ports with a pod's are made one by one.
const FEW_COMPARISONS: usize = 64;

/// Resolves the ports under which one pod serves: each Service port that the pod has.
///
/// A number stands for itself; a name is looked up among the pod's ports with the same protocol, ordinary containers
/// before restartable init containers (the order of `pod`); a port that the pod lacks is left out.
pub fn resolve(service: &[ServicePort], pod: &[ContainerPort]) -> SlicePorts {
    let few = service.len().saturating_mul(pod.len()) <= FEW_COMPARISONS;
    let mut by_name: KeyedMap<(&str, &Protocol), u16> = KeyedMap::default();
    if !few {
        for port in pod {
            by_name.entry((&port.name, &port.protocol)).or_insert(port.number);
        }
    }
    let named = |name: &str, protocol: &Protocol| {
        if !few {
            return by_name.get(&(name, protocol)).copied();
        }
        let found = pod.iter().find(|p| *p.name == *name && p.protocol == *protocol);
        found.map(|port| port.number)
    };
    let resolved = service.iter().filter_map(|port| {
        let number = match &port.target {
            TargetPort::Number(number) => *number,
            TargetPort::Name(name) => named(name, &port.protocol)?,
        };
        Some(SlicePort {
            name: Some(port.name.clone()),
            protocol: port.protocol.clone(),
            number: Some(number),
            app_protocol: port.app_protocol.clone(),
        })
    });
    resolved.collect()
}

/// Up to this many ports of a Service and a pod are resolved each time; the results for more are cached.
const FEW_PORTS: usize = 32;
/// The number of cached lists at which unused ones are first removed.
const FIRST_SWEEP: usize = 64;

/// A cache of resolved ports, for Services and pods with many: the pods of one template have the same ports, so a list
/// of thousands is resolved once for all of them.
#[derive(Clone, Debug, Default)]
pub struct ResolvedPorts {
    /// Keyed by the number of the pod's port list and that of the Service's.
    lists: BTreeMap<(u32, u64), (SlicePorts, u32)>,
    /// The number of lists at which unused ones are removed.
    sweep_at: usize,
    /// The number of plans so far. Lists resolved for the next plan are kept until then.
    plans: u32,
    /// Short lists, of which many Services have the same.
    recent: Recent<SlicePorts>,
    recent_of_services: Recent<Arc<[ServicePort]>>,
}

impl ResolvedPorts {
    /// Does what [`resolve`] does, with a cache. `service.0` changes whenever the Service's ports change, and is never
    /// reused; `pod.0` may be reused after [`Self::forget`]. Counts the ports that are read.
    pub fn resolve(
        &mut self,
        service: (u64, &[ServicePort]),
        pod: (u32, &[ContainerPort]),
        read: &mut u64,
    ) -> SlicePorts {
        let ports = service.1.len() + pod.1.len();
        if ports <= FEW_PORTS {
            *read += ports as u64;
            return self.recent.share(resolve(service.1, pod.1));
        }
        let key = (pod.0, service.0);
        if let Some((known, _)) = self.lists.get(&key) {
            return known.clone();
        }
        *read += ports as u64;
        if self.lists.len() >= self.sweep_at.max(FIRST_SWEEP) {
            self.sweep();
        }
        let list = resolve(service.1, pod.1);
        self.lists.insert(key, (list.clone(), self.plans));
        list
    }

    /// Returns an equal list of a Service's ports, if one of the last few that are short is one, or else the same.
    pub fn share(&mut self, service: Arc<[ServicePort]>) -> Arc<[ServicePort]> {
        if service.len() > FEW_PORTS {
            return service;
        }
        self.recent_of_services.share(service)
    }

    /// Returns whether the result for these ports is cached.
    pub fn remembers(service: &[ServicePort], pod: &[ContainerPort]) -> bool {
        service.len() + pod.len() > FEW_PORTS
    }

    /// Records that a plan has been made.
    pub fn planned(&mut self) {
        self.plans = self.plans.wrapping_add(1);
    }

    /// Removes the results for ports that no Service has any more. Only long lists are cached at all.
    pub fn forget_service(&mut self, service: (u64, &[ServicePort])) {
        if service.1.len() > FEW_PORTS {
            self.lists.retain(|(_, known), _| *known != service.0);
        }
    }

    /// Removes the lists that are used nowhere else.
    fn sweep(&mut self) {
        let plans = self.plans;
        self.lists
            .retain(|_, (list, plan)| *plan == plans || list.sharers() > 1);
        self.sweep_at = 2 * self.lists.len();
    }

    /// Removes the results for ports that no pod has any more.
    pub fn forget(&mut self, pod: u32) {
        while let Some((&key, _)) = self.lists.range((pod, 0)..=(pod, u64::MAX)).next() {
            self.lists.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service_port(name: &str, protocol: &str, target: TargetPort) -> ServicePort {
        ServicePort {
            name: name.into(),
            protocol: protocol.into(),
            target,
            app_protocol: None,
        }
    }

    fn container_port(name: &str, protocol: &str, number: u16) -> ContainerPort {
        ContainerPort {
            name: name.into(),
            protocol: protocol.into(),
            number,
        }
    }

    #[test]
    fn names_are_looked_up_with_their_protocol() {
        let ports = [
            service_port("dns", "UDP", TargetPort::Name("dns".into())),
            service_port("dns-tcp", "TCP", TargetPort::Name("dns".into())),
            service_port("web", "TCP", TargetPort::Number(80)),
            service_port("gone", "TCP", TargetPort::Name("gone".into())),
        ];
        let pod = [
            container_port("dns", "TCP", 5353),
            container_port("dns", "UDP", 53),
            container_port("dns", "UDP", 54),
        ];
        let got = resolve(&ports, &pod);
        let got: Vec<_> = got
            .iter()
            .map(|p| (p.name.as_deref().unwrap(), p.number.unwrap()))
            .collect();
        assert_eq!(got, [("dns", 53), ("dns-tcp", 5353), ("web", 80)]);
        assert!(resolve(&[], &pod).is_empty());
    }

    #[test]
    fn many_ports_lead_where_few_do() {
        let pod: Vec<_> = (0..300)
            .map(|i| {
                container_port(
                    &format!("p{}", i % 200),
                    if i % 3 == 0 { "UDP" } else { "TCP" },
                    i,
                )
            })
            .collect();
        let service: Vec<_> = (0..250)
            .map(|i| {
                let target = match i % 4 {
                    0 => TargetPort::Number(i),
                    _ => TargetPort::Name(format!("p{i}").into()),
                };
                service_port(&format!("s{i}"), if i % 5 == 0 { "UDP" } else { "TCP" }, target)
            })
            .collect();
        let one_by_one: SlicePorts = service
            .iter()
            .flat_map(|port| resolve(std::slice::from_ref(port), &pod).to_vec())
            .collect();
        assert_eq!(resolve(&service, &pod), one_by_one);
        assert!(
            (100..200).contains(&one_by_one.len()),
            "some are there and some are not"
        );
    }

    #[test]
    fn what_many_ports_lead_to_is_worked_out_once_and_forgotten_when_nobody_needs_it() {
        let service: Vec<_> = (0..100)
            .map(|i| service_port(&format!("s{i}"), "TCP", TargetPort::Name(format!("p{i}").into())))
            .collect();
        let pod: Vec<_> = (0..100)
            .map(|i| container_port(&format!("p{i}"), "TCP", i))
            .collect();
        let (mut known, mut read) = (ResolvedPorts::default(), 0);
        let first = known.resolve((0, &service), (0, &pod), &mut read);
        assert_eq!(first, resolve(&service, &pod));
        assert_eq!(read, 200);
        assert!(Arc::ptr_eq(
            &first.ports,
            &known.resolve((0, &service), (0, &pod), &mut read).ports
        ));
        assert_eq!(read, 200);
        known.resolve((1, &service), (0, &pod), &mut read);
        assert_eq!(read, 400, "the Service's ports have changed");
        known.forget(0);
        assert!(known.lists.is_empty());
        let kept: Vec<_> = (0..100)
            .map(|pods| known.resolve((1, &service), (pods, &pod), &mut read))
            .collect();
        for service_ports in 2..1000 {
            known.resolve((service_ports, &service), (0, &pod), &mut read);
            known.planned();
        }
        assert!(
            known.lists.len() <= 2 * kept.len() + FIRST_SWEEP,
            "{}",
            known.lists.len()
        );
    }

    #[test]
    fn services_of_one_kind_share_a_short_list_of_which_few_are_kept() {
        let service = |number: u16| [service_port("web", "TCP", TargetPort::Number(number))];
        let (mut known, mut read) = (ResolvedPorts::default(), 0);
        let mut ports = |known: &mut ResolvedPorts, kind: u16, number: u64| {
            known.resolve((number, &service(kind)), (0, &[]), &mut read)
        };
        let of_service = |known: &mut ResolvedPorts| known.share(service(1).into());
        assert!(Arc::ptr_eq(&of_service(&mut known), &of_service(&mut known)));
        let first = ports(&mut known, 1, 0);
        let second = ports(&mut known, 1, 1);
        assert!(
            Arc::ptr_eq(&first.ports, &second.ports),
            "another Service of the kind"
        );
        let other = ports(&mut known, 2, 2);
        assert_ne!(first, other);
        let third = ports(&mut known, 1, 3);
        assert!(Arc::ptr_eq(&first.ports, &third.ports), "it is still kept");
        for kind in 0..1000 {
            ports(&mut known, kind, u64::from(kind));
        }
        assert_eq!(
            (first.sharers(), other.sharers()),
            (3, 1),
            "neither is kept for ever"
        );
    }

    #[test]
    fn order_makes_no_group() {
        let a = service_port("a", "TCP", TargetPort::Number(1));
        let b = service_port("b", "TCP", TargetPort::Number(2));
        assert_eq!(resolve(&[a.clone(), b.clone()], &[]), resolve(&[b, a], &[]));
    }
}
