//! From a Service's ports and a pod's containers to the ports of a slice.

use serde::Serialize;
use serde::ser::SerializeStruct as _;
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

/// The ports of a slice, sorted: the key of a port group. Pods with the same list share slices.
pub type SlicePorts = Arc<[SlicePort]>;

/// Sorts the ports of a slice, so that equal groups are equal keys whatever order they came in.
pub fn slice_ports(mut ports: Vec<SlicePort>) -> SlicePorts {
    ports.sort_unstable();
    ports.into()
}

/// The ports under which one pod serves: each Service port that the pod has.
///
/// A number is itself; a name is looked up among the pod's ports with the same protocol, ordinary containers
/// before restartable init containers (the order of `pod`); a port that the pod lacks is left out.
pub fn resolve(service: &[ServicePort], pod: &[ContainerPort]) -> SlicePorts {
    let resolved = service.iter().filter_map(|port| {
        let number = match &port.target {
            TargetPort::Number(number) => *number,
            TargetPort::Name(name) => {
                pod.iter()
                    .find(|p| p.name == *name && p.protocol == port.protocol)?
                    .number
            }
        };
        Some(SlicePort {
            name: Some(port.name.clone()),
            protocol: port.protocol.clone(),
            number: Some(number),
            app_protocol: port.app_protocol.clone(),
        })
    });
    slice_ports(resolved.collect())
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
