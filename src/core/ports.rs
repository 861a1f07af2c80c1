//! From a Service's ports and a pod's containers to the ports of a slice.

use super::hash::{KeyedMap, hash_of};
use serde::Serialize;
use serde::ser::SerializeStruct as _;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// A transport protocol.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Protocol {
    /// `TCP`, which the API server also fills in where none is given.
    Tcp,
    /// `UDP`.
    Udp,
    /// `SCTP`.
    Sctp,
    /// One that this version does not know.
    Other(Box<str>),
}

impl Protocol {
    /// As the API spells it.
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

/// Where a Service port leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TargetPort {
    /// The same number on every pod.
    Number(u16),
    /// A named container port, which may be another number on each pod.
    Name(Box<str>),
}

/// A port of a Service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServicePort {
    /// May be empty when the Service has one port.
    pub name: Box<str>,
    /// The protocol; a named target must have the same.
    pub protocol: Protocol,
    /// Where it leads.
    pub target: TargetPort,
    /// A hint for proxies, passed on as it is.
    pub app_protocol: Option<Box<str>>,
}

/// A named port of a container, or of an init container that runs on beside the others.
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
    /// The Service port's name, also when empty. `None` only in slices that others wrote.
    pub name: Option<Box<str>>,
    /// The protocol.
    pub protocol: Protocol,
    /// The number. `None` (all ports) only in slices that others wrote.
    pub number: Option<u16>,
    /// The Service port's.
    pub app_protocol: Option<Box<str>>,
}

impl Serialize for SlicePort {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("EndpointPort", 4)?;
        if let Some(name) = &self.name {
            out.serialize_field("name", name)?;
        }
        out.serialize_field("protocol", self.protocol.as_str())?;
        if let Some(number) = self.number {
            out.serialize_field("port", &number)?;
        }
        if let Some(app_protocol) = &self.app_protocol {
            out.serialize_field("appProtocol", app_protocol)?;
        }
        out.end()
    }
}

/// Ports that many have in common, sorted, so that equal ones are equal keys whatever order they came in.
///
/// Their hash is kept: there may be thousands of them, and they are looked up for every pod that has them.
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
    /// How many have this very list, and not one that is equal to it.
    fn sharers(&self) -> usize {
        Arc::strong_count(&self.ports)
    }
}

/// Up to so many comparisons of a Service's ports with a pod's are made one by one.
const FEW_COMPARISONS: usize = 64;

/// The ports under which one pod serves: each Service port that the pod has.
///
/// A number is itself; a name is looked up among the pod's ports with the same protocol, ordinary containers
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

/// Up to so many ports of a Service and a pod are resolved each time; what more lead to is remembered.
const FEW_PORTS: usize = 32;
/// So many lists are remembered before it is looked which of them nobody has any more.
const FIRST_SWEEP: usize = 64;

/// What the ports of pods lead to, for Services and pods with many: the pods of one template have the same ports, and
/// a list of thousands is worked out once for all of them.
#[derive(Clone, Debug, Default)]
pub struct ResolvedPorts {
    /// By the number of the pod's ports, and that of the Service's.
    lists: BTreeMap<(u32, u64), (SlicePorts, u32)>,
    /// With so many lists, those that nobody else has are forgotten.
    sweep_at: usize,
    /// How many plans there have been. What was resolved for the next one is kept until then.
    plans: u32,
}

impl ResolvedPorts {
    /// As [`resolve`]. `service.0` is another number whenever the Service's ports change, and is never used again;
    /// `pod.0` may be, after [`Self::forget`]. Counts the ports that are read.
    pub fn resolve(
        &mut self,
        service: (u64, &[ServicePort]),
        pod: (u32, &[ContainerPort]),
        read: &mut u64,
    ) -> SlicePorts {
        let ports = service.1.len() + pod.1.len();
        if ports <= FEW_PORTS {
            *read += ports as u64;
            return resolve(service.1, pod.1);
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

    /// Whether what the ports lead to is remembered.
    pub fn remembers(service: &[ServicePort], pod: &[ContainerPort]) -> bool {
        service.len() + pod.len() > FEW_PORTS
    }

    /// A plan has been made.
    pub fn planned(&mut self) {
        self.plans = self.plans.wrapping_add(1);
    }

    /// No Service has these ports any more. Only long lists are worth a look at all.
    pub fn forget_service(&mut self, service: (u64, &[ServicePort])) {
        if service.1.len() > FEW_PORTS {
            self.lists.retain(|(_, known), _| *known != service.0);
        }
    }

    /// Forgets the lists that nobody else has.
    fn sweep(&mut self) {
        let plans = self.plans;
        self.lists
            .retain(|_, (list, plan)| *plan == plans || list.sharers() > 1);
        self.sweep_at = 2 * self.lists.len();
    }

    /// No pod has these ports any more.
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
    fn order_makes_no_group() {
        let a = service_port("a", "TCP", TargetPort::Number(1));
        let b = service_port("b", "TCP", TargetPort::Number(2));
        assert_eq!(resolve(&[a.clone(), b.clone()], &[]), resolve(&[b, a], &[]));
    }

    #[test]
    fn serialises_as_the_api_does() {
        let ports = resolve(&[service_port("", "TCP", TargetPort::Number(80))], &[]);
        assert_eq!(
            serde_json::to_string(&*ports).unwrap(),
            r#"[{"name":"","protocol":"TCP","port":80}]"#
        );
    }
}
