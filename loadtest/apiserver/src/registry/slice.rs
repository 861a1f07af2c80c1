//! Slices of endpoints.

use crate::cause::Faults;
use crate::json::{fill, list, objects_mut, text};
use crate::object::next_generation;
use crate::validate::{address_faults, label_faults, label_key_faults, special_faults, subdomain_faults};
use serde_json::{Value, json};
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
    // Absent lists are written as null.
    let nothing = Value::Null;
    let always = [
        ("addressType", "".into()),
        ("endpoints", nothing.clone()),
        ("ports", nothing.clone()),
    ];
    fill(fields, &always);
    for endpoint in objects_mut(value, "/endpoints") {
        fill(
            endpoint,
            &[("conditions", json!({})), ("addresses", nothing.clone())],
        );
    }
    for port in objects_mut(value, "/ports") {
        fill(port, &[("name", "".into()), ("protocol", "TCP".into())]);
    }
}

pub(crate) fn create(value: &mut Value) {
    value["metadata"]["generation"] = 1.into();
    drop_topology(value);
}

pub(crate) fn update(new: &mut Value, old: &Value) {
    if new.get("endpoints") != old.get("endpoints") {
        drop_topology(new);
    }
    let same = ["addressType", "endpoints", "ports"]
        .into_iter()
        .all(|f| new.get(f) == old.get(f))
        && new.pointer("/metadata/labels") == old.pointer("/metadata/labels");
    if !same {
        next_generation(new, old);
    }
}

/// Removes the topology of the beta version, which is cleared on writes through v1.
fn drop_topology(value: &mut Value) {
    for endpoint in objects_mut(value, "/endpoints") {
        endpoint.remove("deprecatedTopology");
    }
}

pub(crate) fn check(faults: &mut Faults, value: &Value, old: Option<&Value>) {
    // Addresses that are stored already are not looked at again, so that stricter rules never block an update.
    let endpoints = old.map_or(&[][..], |old| list(old, "/endpoints"));
    let stored = endpoints.iter().flat_map(|endpoint| list(endpoint, "/addresses"));
    let stored: BTreeSet<&str> = stored.filter_map(Value::as_str).collect();
    let address_type = text(value, "/addressType");
    match address_type {
        "" => faults.required("addressType", ""),
        "IPv4" | "IPv6" | "FQDN" => {}
        other => faults.not_supported("addressType", other, &["FQDN", "IPv4", "IPv6"]),
    }
    let endpoints = list(value, "/endpoints");
    if endpoints.len() > MOST_ENDPOINTS {
        faults.too_many("endpoints", endpoints.len(), MOST_ENDPOINTS);
    } else {
        for (i, endpoint) in endpoints.iter().enumerate() {
            check_endpoint(
                faults,
                &format!("endpoints[{i}]"),
                endpoint,
                address_type,
                &stored,
            );
        }
    }
    check_ports(faults, list(value, "/ports"));
    if let Some(old) = old {
        faults.immutable("addressType", &value["addressType"], &old["addressType"]);
    }
}

fn check_endpoint(
    faults: &mut Faults,
    field: &str,
    endpoint: &Value,
    address_type: &str,
    stored: &BTreeSet<&str>,
) {
    let addresses = list(endpoint, "/addresses");
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
    let hints = list(endpoint, &format!("/hints/{which}"));
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
        if let Some(number) = port.get("port").and_then(Value::as_i64) {
            faults.port(&format!("ports[{i}].port"), number);
        }
        faults.protocol(&format!("ports[{i}].protocol"), port);
        if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
            faults.each(
                &format!("ports[{i}].appProtocol"),
                protocol,
                label_key_faults(protocol),
            );
        }
    }
}
