//! Rows of services, endpoints and slices.

use super::cells::or;
use crate::json::{list, number, text};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::IpAddr;

/// So many are named before the rest is counted.
const NAMED: usize = 3;

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

pub(super) fn service(service: &Value, _now: Timestamp) -> Vec<Value> {
    let kind = text(service, "/spec/type");
    let external: Vec<&str> = list(service, "/spec/externalIPs")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let outside = match kind {
        "ExternalName" => text(service, "/spec/externalName").to_owned(),
        "LoadBalancer" => {
            let given: BTreeSet<&str> = list(service, "/status/loadBalancer/ingress")
                .iter()
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
        .iter()
        .map(|port| {
            let protocol = text(port, "/protocol");
            match (number(port, "/port"), number(port, "/nodePort")) {
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
        or(text(service, "/spec/clusterIPs/0"), "<none>").into(),
        outside.into(),
        or(&ports.join(","), "<none>").into(),
        or(&selector.join(","), "<none>").into(),
    ]
}

/// The ready addresses of an Endpoints, each with each port of its subset.
pub(super) fn endpoints(endpoints: &Value, _now: Timestamp) -> Vec<Value> {
    let subsets = list(endpoints, "/subsets");
    if subsets.is_empty() {
        return vec!["<none>".into()];
    }
    let joined = |ip: &str, port: i64| match ip.parse() {
        Ok(IpAddr::V6(_)) => format!("[{ip}]:{port}"),
        _ => format!("{ip}:{port}"),
    };
    let of_subset = |subset: &Value| -> Vec<String> {
        let addresses = || {
            list(subset, "/addresses")
                .iter()
                .map(|address| text(address, "/ip"))
        };
        // Headless services may have no ports.
        if list(subset, "/ports").is_empty() {
            return addresses().map(str::to_owned).collect();
        }
        list(subset, "/ports")
            .iter()
            .flat_map(|port| {
                let port = number(port, "/port");
                addresses().map(move |ip| joined(ip, port))
            })
            .collect()
    };
    vec![shortened(subsets.iter().flat_map(of_subset)).into()]
}

pub(super) fn slice(slice: &Value, _now: Timestamp) -> Vec<Value> {
    let ports = list(slice, "/ports")
        .iter()
        .map(|port| match port.get("port").and_then(Value::as_i64) {
            Some(number) => number.to_string(),
            None => match port.get("name").and_then(Value::as_str) {
                Some(name) => name.to_owned(),
                None => "*".to_owned(),
            },
        });
    let addresses = list(slice, "/endpoints")
        .iter()
        .flat_map(|endpoint| list(endpoint, "/addresses"))
        .map(|address| address.as_str().unwrap_or("").to_owned());
    vec![
        or(&shortened(ports), "<unset>").into(),
        or(&shortened(addresses), "<unset>").into(),
    ]
}
