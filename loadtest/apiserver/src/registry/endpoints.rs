//! Endpoints.

use crate::object::text;
use crate::validate::{Faults, address_faults, label_faults, special_faults, subdomain_faults};
use serde_json::Value;

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value
        .get(field)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

pub(crate) fn default(value: &mut Value) {
    for subset in value
        .get_mut("subsets")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        for port in subset
            .get_mut("ports")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Some(port) = port.as_object_mut() {
                port.entry("protocol").or_insert_with(|| "TCP".into());
            }
        }
    }
}

pub(crate) fn check(faults: &mut Faults, value: &Value) {
    for (i, subset) in list(value, "subsets").iter().enumerate() {
        let field = format!("subsets[{i}]");
        let (ready, not_ready) = (list(subset, "addresses"), list(subset, "notReadyAddresses"));
        if ready.is_empty() && not_ready.is_empty() {
            faults.required(&field, "must specify `addresses` or `notReadyAddresses`");
        }
        for (which, addresses) in [("addresses", ready), ("notReadyAddresses", not_ready)] {
            for (j, address) in addresses.iter().enumerate() {
                check_address(faults, &format!("{field}.{which}[{j}]"), address);
            }
        }
        let ports = list(subset, "ports");
        for (j, port) in ports.iter().enumerate() {
            check_port(faults, &format!("{field}.ports[{j}]"), port, ports.len() > 1);
        }
    }
}

fn check_address(faults: &mut Faults, field: &str, address: &Value) {
    let ip = text(address, "/ip");
    let field_ip = format!("{field}.ip");
    faults.each(&field_ip, ip, address_faults(ip, None));
    faults.each(&field_ip, ip, special_faults(ip));
    let hostname = text(address, "/hostname");
    if !hostname.is_empty() {
        faults.each(&format!("{field}.hostname"), hostname, label_faults(hostname));
    }
    if let Some(node) = address.get("nodeName").and_then(Value::as_str) {
        faults.each(&format!("{field}.nodeName"), node, subdomain_faults(node));
    }
}

fn check_port(faults: &mut Faults, field: &str, port: &Value, named: bool) {
    let name = text(port, "/name");
    if !name.is_empty() {
        faults.each(&format!("{field}.name"), name, label_faults(name));
    } else if named {
        faults.required(&format!("{field}.name"), "");
    }
    let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
    if !(1..=65535).contains(&number) {
        faults.invalid(
            &format!("{field}.port"),
            &number.into(),
            "must be between 1 and 65535, inclusive",
        );
    }
    let protocol = text(port, "/protocol");
    if !matches!(protocol, "TCP" | "UDP" | "SCTP") {
        faults.not_supported(&format!("{field}.protocol"), protocol, &["SCTP", "TCP", "UDP"]);
    }
}
