//! Cluster addresses and node ports of Services.

use crate::json::{list, number, text, texts};
use crate::kinds::Role;
use crate::object::Object;
use crate::validate::parse_ip;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The ports a node gives to Services.
pub(crate) const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

const V4: (Ipv4Addr, u32) = (Ipv4Addr::new(10, 0, 0, 0), 12);
const V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0xfd00, 0x10, 0, 0, 0, 0, 0, 0), 108);

/// The addresses and ports that are handed out.
#[derive(Debug)]
pub(crate) struct Allocator {
    pub(crate) addresses: BTreeSet<IpAddr>,
    pub(crate) ports: BTreeSet<(u16, Box<str>)>,
}

/// The addresses and ports that a Service holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) addresses: BTreeSet<IpAddr>,
    pub(crate) ports: BTreeSet<(u16, Box<str>)>,
}

// === impl Allocator ===

impl Default for Allocator {
    /// The first address of the primary range is the API server's own Service's.
    fn default() -> Self {
        let own = IpAddr::V4(Ipv4Addr::from(u32::from(V4.0) + 1));
        Self {
            addresses: BTreeSet::from([own]),
            ports: BTreeSet::new(),
        }
    }
}

impl Allocator {
    /// Takes back what was handed out.
    pub(crate) fn give_back(&mut self, held: &Held) {
        for address in &held.addresses {
            self.addresses.remove(address);
        }
        for port in &held.ports {
            self.ports.remove(port);
        }
    }

    /// Frees what a deleted Service held.
    pub(crate) fn release(&mut self, object: &Object) {
        if object.kind.role == Role::Service {
            self.give_back(&Held::of(&object.value()));
        }
    }
}

// === impl Held ===

impl Held {
    /// Reads the addresses and ports that a Service names.
    pub(crate) fn of(service: &Value) -> Self {
        let mut held = Self::default();
        let addresses = texts(service, "/spec/clusterIPs");
        held.addresses
            .extend(addresses.iter().filter_map(|ip| parse_ip(ip)));
        for port in list(service, "/spec/ports") {
            if let Ok(number @ 1..) = u16::try_from(number(port, "/nodePort")) {
                held.ports.insert((number, text(port, "/protocol").into()));
            }
        }
        held
    }
}

/// Whether Services can have this address.
pub(crate) fn is_usable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let offset = u32::from(v4).wrapping_sub(u32::from(V4.0));
            offset > 0 && offset < (1 << (32 - V4.1)) - 1
        }
        IpAddr::V6(v6) => {
            let offset = u128::from(v6).wrapping_sub(u128::from(V6.0));
            offset > 0 && offset < 1 << (128 - V6.1)
        }
    }
}

/// A free address of a family. The lowest 256 are left to Services that ask for a certain one, as upstream does.
pub(crate) fn next_address(allocator: &Allocator, rng: &mut fastrand::Rng, v6: bool) -> IpAddr {
    let size: u32 = 1 << 20;
    let at = |offset: u32| {
        if v6 {
            IpAddr::V6(Ipv6Addr::from(u128::from(V6.0) + u128::from(offset)))
        } else {
            IpAddr::V4(Ipv4Addr::from(u32::from(V4.0) + offset))
        }
    };
    let start = rng.u32(256..size - 1);
    (start..size - 1)
        .chain(256..start)
        .map(at)
        .find(|address| !allocator.addresses.contains(address))
        .expect("a million Services do not fit this server's memory")
}
