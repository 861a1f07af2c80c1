//! Endpoints.

use crate::object::text;
use crate::validate::{Faults, address_faults, label_faults, special_faults, subdomain_faults};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

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

/// An address is told apart by its IP and its target's uid.
type Id = (String, String);

/// Brings the subsets into the canonical form: each address once for a set of ports, not ready when any of its
/// mentions says so, subsets with the same ports joined. The real server orders subsets by a hash; here they are
/// ordered by their ports.
pub(crate) fn repack(value: &mut Value) {
    let Some(subsets) = value.get("subsets").and_then(Value::as_array) else {
        return;
    };
    let mut known: BTreeMap<Id, Value> = BTreeMap::new();
    // By the port as text: which addresses offer it, and whether they are ready.
    let mut offers: BTreeMap<String, (Value, BTreeMap<Id, bool>)> = BTreeMap::new();
    for subset in subsets {
        for port in list(subset, "ports") {
            let offer = offers
                .entry(port.to_string())
                .or_insert_with(|| (port.clone(), BTreeMap::new()));
            for (addresses, ready) in [("addresses", true), ("notReadyAddresses", false)] {
                for address in list(subset, addresses) {
                    let id = (
                        text(address, "/ip").to_owned(),
                        text(address, "/targetRef/uid").to_owned(),
                    );
                    known.entry(id.clone()).or_insert_with(|| address.clone());
                    let state = offer.1.entry(id).or_insert(ready);
                    *state = *state && ready;
                }
            }
        }
    }
    let mut packed: BTreeMap<Vec<(Id, bool)>, Vec<Value>> = BTreeMap::new();
    for (_, (port, addresses)) in offers {
        packed
            .entry(addresses.into_iter().collect())
            .or_default()
            .push(port);
    }
    let mut out: Vec<Value> = packed
        .into_iter()
        .map(|(addresses, ports)| subset(&known, addresses, ports))
        .collect();
    out.sort_by_key(|s| s.get("ports").map(Value::to_string));
    if let Some(fields) = value.as_object_mut() {
        if out.is_empty() {
            fields.remove("subsets");
        } else {
            fields.insert("subsets".into(), out.into());
        }
    }
}

fn subset(known: &BTreeMap<Id, Value>, addresses: Vec<(Id, bool)>, ports: Vec<Value>) -> Value {
    let mut subset = Map::new();
    for (id, ready) in addresses {
        let field = if ready { "addresses" } else { "notReadyAddresses" };
        let list = subset.entry(field).or_insert_with(|| Value::Array(Vec::new()));
        if let (Some(list), Some(address)) = (list.as_array_mut(), known.get(&id)) {
            list.push(address.clone());
        }
    }
    subset.insert("ports".into(), ports.into());
    subset.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn packing() {
        let port = |n: i32| json!({"port": n, "protocol": "TCP"});
        let mut value = json!({"subsets": [
            {"addresses": [{"ip": "10.1.0.2"}, {"ip": "10.1.0.1"}], "ports": [port(80)]},
            {"addresses": [{"ip": "10.1.0.1"}], "notReadyAddresses": [{"ip": "10.1.0.2"}], "ports": [port(80)]},
            {"addresses": [{"ip": "10.1.0.1"}], "notReadyAddresses": [{"ip": "10.1.0.2"}], "ports": [port(81)]},
        ]});
        repack(&mut value);
        assert_eq!(
            value,
            json!({"subsets": [{
                "addresses": [{"ip": "10.1.0.1"}],
                "notReadyAddresses": [{"ip": "10.1.0.2"}],
                "ports": [port(80), port(81)],
            }]})
        );
        let mut without_ports = json!({"subsets": [{"addresses": [{"ip": "10.1.0.2"}]}]});
        repack(&mut without_ports);
        assert_eq!(without_ports, json!({}));
    }
}
