//! Slices of endpoints.

use crate::object::text;
use crate::validate::{
    Faults, address_faults, label_faults, label_key_faults, special_faults, subdomain_faults,
};
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};

const MOST_ENDPOINTS: usize = 1000;
const MOST_ADDRESSES: usize = 100;
/// Since 1.21.
const MOST_PORTS: usize = 20_000;
const MOST_HINTS: usize = 8;

pub(crate) fn default(value: &mut Value) {
    let Some(fields) = value.as_object_mut() else {
        return;
    };
    fields.entry("addressType").or_insert_with(|| "".into());
    // Absent ones are written as null.
    let endpoints = fields.entry("endpoints").or_insert(Value::Null);
    for endpoint in endpoints.as_array_mut().into_iter().flatten() {
        if let Some(endpoint) = endpoint.as_object_mut() {
            endpoint
                .entry("conditions")
                .or_insert_with(|| serde_json::json!({}));
            endpoint.entry("addresses").or_insert(Value::Null);
        }
    }
    let ports = fields.entry("ports").or_insert(Value::Null);
    for port in ports.as_array_mut().into_iter().flatten() {
        if let Some(port) = port.as_object_mut() {
            port.entry("name").or_insert_with(|| "".into());
            port.entry("protocol").or_insert_with(|| "TCP".into());
        }
    }
}

pub(crate) fn prepare_create(value: &mut Value) {
    value["metadata"]["generation"] = 1.into();
    drop_topology(value);
}

pub(crate) fn prepare_update(new: &mut Value, old: &Value) {
    if new.get("endpoints") != old.get("endpoints") {
        drop_topology(new);
    }
    let same = ["addressType", "endpoints", "ports"]
        .into_iter()
        .all(|f| new.get(f) == old.get(f))
        && new.pointer("/metadata/labels") == old.pointer("/metadata/labels");
    if !same {
        let generation = old
            .pointer("/metadata/generation")
            .and_then(Value::as_i64)
            .unwrap_or(0);
        new["metadata"]["generation"] = (generation + 1).into();
    }
}

/// Of the beta version; cleared on writes through v1.
fn drop_topology(value: &mut Value) {
    for endpoint in value
        .get_mut("endpoints")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(endpoint) = endpoint.as_object_mut() {
            endpoint.remove("deprecatedTopology");
        }
    }
}

/// Addresses that are stored already are not looked at again, so that stricter rules never block an update.
pub(crate) fn check_update(faults: &mut Faults, new: &Value, old: &Value) {
    let endpoints = old
        .get("endpoints")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let addresses = endpoints
        .filter_map(|e| e.get("addresses").and_then(Value::as_array))
        .flatten();
    check_slice(faults, new, &addresses.filter_map(Value::as_str).collect());
    let at = |value: &Value| value.get("addressType").cloned().unwrap_or_default();
    faults.immutable("addressType", &at(new), &at(old));
}

pub(crate) fn check(faults: &mut Faults, value: &Value) {
    check_slice(faults, value, &BTreeSet::new());
}

fn check_slice(faults: &mut Faults, value: &Value, stored: &BTreeSet<&str>) {
    let address_type = text(value, "/addressType");
    match address_type {
        "" => faults.required("addressType", ""),
        "IPv4" | "IPv6" | "FQDN" => {}
        other => faults.not_supported("addressType", other, &["FQDN", "IPv4", "IPv6"]),
    }
    let list = |field: &str| {
        value
            .get(field)
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice)
    };
    let endpoints = list("endpoints");
    if endpoints.len() > MOST_ENDPOINTS {
        faults.too_many("endpoints", endpoints.len(), MOST_ENDPOINTS);
    } else {
        for (i, endpoint) in endpoints.iter().enumerate() {
            check_endpoint(faults, &format!("endpoints[{i}]"), endpoint, address_type, stored);
        }
    }
    check_ports(faults, list("ports"));
}

fn check_endpoint(
    faults: &mut Faults,
    field: &str,
    endpoint: &Value,
    address_type: &str,
    stored: &BTreeSet<&str>,
) {
    let addresses = endpoint
        .get("addresses")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    if addresses.is_empty() {
        faults.required(&format!("{field}.addresses"), "must contain at least 1 address");
    } else if addresses.len() > MOST_ADDRESSES {
        faults.too_many(&format!("{field}.addresses"), addresses.len(), MOST_ADDRESSES);
    }
    for (i, address) in addresses.iter().enumerate() {
        let (field, address) = (format!("{field}.addresses[{i}]"), address.as_str().unwrap_or(""));
        match address_type {
            _ if stored.contains(address) => {}
            "IPv4" | "IPv6" => {
                faults.each(&field, address, address_faults(address, Some(address_type)));
                faults.each(&field, address, special_faults(address));
            }
            "FQDN" => {
                let name = address.strip_suffix('.').unwrap_or(address);
                if name.is_empty() {
                    faults.required(&field, "");
                } else {
                    faults.each(&field, address, subdomain_faults(name));
                    if !name.contains('.') {
                        let why = "should be a domain with at least two segments separated by dots";
                        faults.invalid_text(&field, address, why);
                    }
                }
            }
            _ => {}
        }
    }
    if let Some(node) = endpoint.get("nodeName").and_then(Value::as_str) {
        faults.each(&format!("{field}.nodeName"), node, subdomain_faults(node));
    }
    let topology = endpoint.get("deprecatedTopology").and_then(Value::as_object);
    if let Some(topology) = topology {
        let field = format!("{field}.deprecatedTopology");
        if topology.len() > 16 {
            faults.too_many(&field, topology.len(), 16);
        }
        if topology.contains_key("kubernetes.io/hostname") {
            faults.invalid_text(
                &format!("{field}[kubernetes.io/hostname]"),
                text(endpoint, "/deprecatedTopology/kubernetes.io~1hostname"),
                "may not be set",
            );
        }
    }
    if let Some(hostname) = endpoint.get("hostname").and_then(Value::as_str) {
        faults.each(&format!("{field}.hostname"), hostname, label_faults(hostname));
    }
    if endpoint.get("hints").is_some() {
        let field = format!("{field}.hints");
        check_hints(faults, &field, endpoint, "forZones");
        check_hints(faults, &field, endpoint, "forNodes");
    }
}

fn check_hints(faults: &mut Faults, field: &str, endpoint: &Value, which: &str) {
    let hints = endpoint
        .pointer(&format!("/hints/{which}"))
        .and_then(Value::as_array);
    let hints = hints.map_or(&[][..], Vec::as_slice);
    let field = format!("{field}.{which}");
    if hints.len() > MOST_HINTS {
        faults.too_many(&field, hints.len(), MOST_HINTS);
        return;
    }
    let mut seen: Vec<&str> = Vec::new();
    for (i, hint) in hints.iter().enumerate() {
        let (field, name) = (format!("{field}[{i}].name"), text(hint, "/name"));
        if seen.contains(&name) {
            faults.duplicate(&field, &name.into());
            continue;
        }
        seen.push(name);
        if which == "forZones" {
            faults.each(&field, name, label_key_faults(name));
        } else {
            faults.each(&field, name, subdomain_faults(name));
        }
    }
}

fn check_ports(faults: &mut Faults, ports: &[Value]) {
    if ports.len() > MOST_PORTS {
        faults.too_many("ports", ports.len(), MOST_PORTS);
        return;
    }
    let mut names = HashSet::new();
    for (i, port) in ports.iter().enumerate() {
        let name = text(port, "/name");
        if !name.is_empty() {
            faults.each(&format!("ports[{i}].name"), name, label_faults(name));
        }
        if !names.insert(name) {
            faults.duplicate(&format!("ports[{i}].name"), &name.into());
        }
        if let Some(number) = port.get("port").and_then(Value::as_i64)
            && !(1..=65535).contains(&number)
        {
            let why = "must be between 1 and 65535, inclusive";
            faults.invalid(&format!("ports[{i}].port"), &number.into(), why);
        }
        let protocol = text(port, "/protocol");
        if !matches!(protocol, "TCP" | "UDP" | "SCTP") {
            faults.not_supported(&format!("ports[{i}].protocol"), protocol, &["SCTP", "TCP", "UDP"]);
        }
        if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
            faults.each(
                &format!("ports[{i}].appProtocol"),
                protocol,
                label_key_faults(protocol),
            );
        }
    }
}
