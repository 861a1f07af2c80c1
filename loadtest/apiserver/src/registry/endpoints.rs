//! Endpoints.

use crate::cause::Faults;
use crate::json::{fill, list, number, objects_mut, text};
use crate::validate::{address_faults, label_faults, special_faults, subdomain_faults};
use serde_json::Value;

pub(crate) fn default(value: &mut Value) {
    let subsets = value.get_mut("subsets").and_then(Value::as_array_mut);
    for subset in subsets.into_iter().flatten() {
        for port in objects_mut(subset, "/ports") {
            fill(port, &[("protocol", "TCP".into())]);
        }
    }
}

pub(crate) fn check(faults: &mut Faults, value: &Value, _old: Option<&Value>) {
    for (i, subset) in list(value, "/subsets").iter().enumerate() {
        let field = format!("subsets[{i}]");
        let (ready, not_ready) = (list(subset, "/addresses"), list(subset, "/notReadyAddresses"));
        if ready.is_empty() && not_ready.is_empty() {
            faults.required(&field, "must specify `addresses` or `notReadyAddresses`");
        }
        for (which, addresses) in [("addresses", ready), ("notReadyAddresses", not_ready)] {
            for (j, address) in addresses.iter().enumerate() {
                check_address(faults, &format!("{field}.{which}[{j}]"), address);
            }
        }
        let ports = list(subset, "/ports");
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
    faults.port(&format!("{field}.port"), number(port, "/port"));
    faults.protocol(&format!("{field}.protocol"), port);
}
