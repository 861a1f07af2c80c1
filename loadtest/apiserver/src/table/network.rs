//! Rows of services, endpoints and slices.

use super::cells::or;
use crate::object::text;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::IpAddr;

/// So many are named before the rest is counted.
const NAMED: usize = 3;

fn list<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn number(value: &Value, field: &str) -> i64 {
    value.get(field).and_then(Value::as_i64).unwrap_or(0)
}

/// The first few of many, and how many more there are.
fn shortened(all: impl Iterator<Item = String>) -> String {
    let mut said = String::new();
    let mut count = 0;
    for one in all {
        if count < NAMED {
            if count > 0 {
                said.push(',');
            }
            said.push_str(&one);
        }
        count += 1;
    }
    if count > NAMED {
        let rest = count - NAMED;
        write!(said, " + {rest} more...").expect("a String takes all that is written");
    }
    said
}

pub(crate) fn service(service: &Value, name: &str, old: &str) -> Vec<String> {
    let kind = text(service, "/spec/type");
    let external: Vec<&str> = list(service, "/spec/externalIPs")
        .filter_map(Value::as_str)
        .collect();
    let outside = match kind {
        "ExternalName" => text(service, "/spec/externalName").to_owned(),
        "LoadBalancer" => {
            let given: BTreeSet<&str> = list(service, "/status/loadBalancer/ingress")
                .map(|ingress| match text(ingress, "/ip") {
                    "" => text(ingress, "/hostname"),
                    ip => ip,
                })
                .filter(|address| !address.is_empty())
                .collect();
            let all: Vec<&str> = given.into_iter().chain(external).collect();
            or(&all.join(","), "<pending>")
        }
        _ => or(&external.join(","), "<none>"),
    };
    let ports: Vec<String> = list(service, "/spec/ports")
        .map(|port| {
            let protocol = text(port, "/protocol");
            match (number(port, "port"), number(port, "nodePort")) {
                (port, 0) => format!("{port}/{protocol}"),
                (port, node) => format!("{port}:{node}/{protocol}"),
            }
        })
        .collect();
    let selector = service.pointer("/spec/selector").and_then(Value::as_object);
    let selector: Vec<String> = selector
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("")))
        .collect();
    vec![
        name.to_owned(),
        kind.to_owned(),
        or(text(service, "/spec/clusterIPs/0"), "<none>"),
        outside,
        or(&ports.join(","), "<none>"),
        old.to_owned(),
        or(&selector.join(","), "<none>"),
    ]
}

/// The ready addresses of an Endpoints, each with each port of its subset.
pub(crate) fn endpoints(endpoints: &Value) -> String {
    if list(endpoints, "/subsets").next().is_none() {
        return "<none>".to_owned();
    }
    let joined = |ip: &str, port: i64| match ip.parse() {
        Ok(IpAddr::V6(_)) => format!("[{ip}]:{port}"),
        _ => format!("{ip}:{port}"),
    };
    let of_subset = |subset: &Value| -> Vec<String> {
        let addresses = || list(subset, "/addresses").map(|address| text(address, "/ip"));
        // Headless services may have no ports.
        if list(subset, "/ports").next().is_none() {
            return addresses().map(str::to_owned).collect();
        }
        list(subset, "/ports")
            .flat_map(|port| {
                let port = number(port, "port");
                addresses().map(move |ip| joined(ip, port))
            })
            .collect()
    };
    shortened(list(endpoints, "/subsets").flat_map(of_subset))
}

pub(crate) fn slice(slice: &Value, name: &str, old: &str) -> Vec<String> {
    let ports = list(slice, "/ports").map(|port| match port.get("port").and_then(Value::as_i64) {
        Some(number) => number.to_string(),
        None => match port.get("name").and_then(Value::as_str) {
            Some(name) => name.to_owned(),
            None => "*".to_owned(),
        },
    });
    let addresses = list(slice, "/endpoints")
        .flat_map(|endpoint| list(endpoint, "/addresses"))
        .map(|address| address.as_str().unwrap_or("").to_owned());
    vec![
        name.to_owned(),
        text(slice, "/addressType").to_owned(),
        or(&shortened(ports), "<unset>"),
        or(&shortened(addresses), "<unset>"),
        old.to_owned(),
    ]
}
