//! Cluster addresses and node ports: taken before a Service is stored, given back when it is not or goes.

use super::families;
use super::spec::{needs_cluster_ip, needs_node_ports};
use crate::cause::Faults;
use crate::json::{objects_mut, text, texts};
use crate::kinds::Kind;
use crate::status::{Answer, Refusal};
use crate::store::{Allocator, Held, NODE_PORTS, Store, is_usable, next_address};
use crate::validate::parse_ip;
use serde_json::Value;

/// The addresses and ports taken for a Service that is not stored yet. They are given back unless kept.
#[derive(Debug)]
pub(crate) struct Claims<'a> {
    store: &'a Store,
    taken: Held,
    /// The addresses and ports that the stored Service held and the new one does not.
    freed: Held,
}

// === impl Claims ===

impl Claims<'_> {
    /// The Service is stored: what it took is its own, what it let go is free.
    pub(crate) fn keep(mut self) {
        self.taken = Held::default();
        let freed = std::mem::take(&mut self.freed);
        self.store.write().allocator.give_back(&freed);
    }
}

impl Drop for Claims<'_> {
    fn drop(&mut self) {
        if self.taken != Held::default() {
            self.store.write().allocator.give_back(&self.taken);
        }
    }
}

/// Completes a Service with families, addresses and node ports.
pub(crate) fn allocate<'a>(
    store: &'a Store,
    kind: Kind,
    service: &mut Value,
    old: Option<&Value>,
) -> Answer<Claims<'a>> {
    let mut faults = Faults::default();
    families::settle(service, old, &mut faults);
    let before = old.map(Held::of).unwrap_or_default();
    let mut claims = Claims {
        store,
        taken: Held::default(),
        freed: Held::default(),
    };
    if faults.0.is_empty() {
        let mut state = store.write();
        let state = &mut *state;
        let (allocator, rng) = (&mut state.allocator, &mut state.rng);
        if needs_cluster_ip(service) && text(service, "/spec/clusterIP") != "None" {
            addresses(service, allocator, rng, &before, &mut claims.taken, &mut faults);
        }
        node_ports(service, allocator, rng, &before, &mut claims.taken, &mut faults);
    }
    if !faults.0.is_empty() {
        return Err(Refusal::invalid(kind, text(service, "/metadata/name"), faults.0));
    }
    let after = Held::of(service);
    claims.freed = Held {
        addresses: before.addresses.difference(&after.addresses).copied().collect(),
        ports: before.ports.difference(&after.ports).cloned().collect(),
    };
    Ok(claims)
}

fn addresses(
    service: &mut Value,
    allocator: &mut Allocator,
    rng: &mut fastrand::Rng,
    before: &Held,
    taken: &mut Held,
    faults: &mut Faults,
) {
    let mut ips = texts(service, "/spec/clusterIPs");
    for (i, family) in texts(service, "/spec/ipFamilies").iter().enumerate() {
        let Some(ip) = ips.get(i) else {
            let address = next_address(allocator, rng, family == "IPv6");
            allocator.addresses.insert(address);
            taken.addresses.insert(address);
            ips.push(address.to_string());
            continue;
        };
        match parse_ip(ip) {
            Some(address) if before.addresses.contains(&address) => {}
            Some(address) if is_usable(address) && allocator.addresses.insert(address) => {
                taken.addresses.insert(address);
            }
            _ => {
                let why = "provided IP is allocated, or not in the valid range";
                faults.invalid_text("spec.clusterIPs", ip, why);
            }
        }
    }
    if let Some(first) = ips.first().cloned() {
        service["spec"]["clusterIP"] = first.into();
    }
    service["spec"]["clusterIPs"] = ips.into();
}

fn node_ports(
    service: &mut Value,
    allocator: &mut Allocator,
    rng: &mut fastrand::Rng,
    before: &Held,
    taken: &mut Held,
    faults: &mut Faults,
) {
    let wanted = needs_node_ports(service);
    for (i, port) in objects_mut(service, "/spec/ports").enumerate() {
        let protocol: Box<str> = port.get("protocol").and_then(Value::as_str).unwrap_or("").into();
        let asked = port.get("nodePort").and_then(Value::as_u64).filter(|n| *n != 0);
        let field = format!("spec.ports[{i}].nodePort");
        match asked {
            Some(_) if !wanted => faults.forbidden(&field, "may not be used when `type` is 'ClusterIP'"),
            Some(asked) => {
                let Some(number) = u16::try_from(asked).ok().filter(|n| NODE_PORTS.contains(n)) else {
                    let why =
                        "provided port is not in the valid range. The range of valid ports is 30000-32767";
                    faults.invalid(&field, &asked.into(), why);
                    continue;
                };
                let id = (number, protocol);
                if before.ports.contains(&id) {
                    continue;
                }
                if allocator.ports.insert(id.clone()) {
                    taken.ports.insert(id);
                } else {
                    faults.invalid(&field, &asked.into(), "provided port is already allocated");
                }
            }
            None if wanted => {
                let start = rng.u16(NODE_PORTS);
                let mut all = (start..=*NODE_PORTS.end()).chain(*NODE_PORTS.start()..start);
                let Some(free) = all.find(|n| !allocator.ports.contains(&(*n, protocol.clone()))) else {
                    faults.invalid(&field, &0.into(), "failed to allocate a nodePort: range is full");
                    continue;
                };
                allocator.ports.insert((free, protocol.clone()));
                taken.ports.insert((free, protocol));
                port.insert("nodePort".into(), free.into());
            }
            None => {}
        }
    }
}
