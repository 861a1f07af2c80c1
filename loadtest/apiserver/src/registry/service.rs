//! Services: defaults and checks. Addresses and ports are in `allocate`.

mod allocate;
mod families;
mod spec;

pub(crate) use self::allocate::allocate;

use self::spec::{needs_cluster_ip, needs_node_ports, service_type};
use super::pod::port_name_faults;
use crate::cause::Faults;
use crate::json::{fill, list, number, object_at, objects_mut, text, texts};
use crate::validate::{is_ip, subdomain_faults};
use serde_json::{Value, json};
use std::collections::HashSet;

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

pub(crate) fn default(value: &mut Value) {
    fill(object_at(value, "status"), &[("loadBalancer", json!({}))]);
    let spec = object_at(value, "spec");
    fill(
        spec,
        &[("sessionAffinity", "None".into()), ("type", "ClusterIP".into())],
    );
    if spec["sessionAffinity"] == "ClientIP" && !spec.contains_key("sessionAffinityConfig") {
        spec.insert(
            "sessionAffinityConfig".into(),
            json!({"clientIP": {"timeoutSeconds": 10800}}),
        );
    }
    if spec["sessionAffinity"] == "None" {
        spec.remove("sessionAffinityConfig");
    }
    let kind = spec["type"].as_str().unwrap_or("").to_owned();
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        fill(spec, &[("externalTrafficPolicy", "Cluster".into())]);
    }
    if kind != "ExternalName" {
        fill(spec, &[("internalTrafficPolicy", "Cluster".into())]);
    }
    if kind == "LoadBalancer" {
        fill(spec, &[("allocateLoadBalancerNodePorts", true.into())]);
    }
    for port in objects_mut(value, "/spec/ports") {
        fill(port, &[("protocol", "TCP".into())]);
        let target = port.get("targetPort").filter(|t| **t != json!(0) && *t != "");
        if target.is_none()
            && let Some(number) = port.get("port").cloned()
        {
            port.insert("targetPort".into(), number);
        }
    }
}

pub(crate) fn create(value: &mut Value) {
    value["status"] = json!({"loadBalancer": {}});
    join_cluster_ips(value, None);
}

pub(crate) fn update(new: &mut Value, old: &Value) {
    carry_over(new, old);
    drop_for_type(new, old);
    join_cluster_ips(new, Some(old));
}

fn has(service: &Value, field: &str) -> bool {
    service
        .get("spec")
        .and_then(|s| s.get(field))
        .is_some_and(|v| v != "")
}

fn spec_field(service: &Value, field: &str) -> Option<Value> {
    service.get("spec").and_then(|s| s.get(field)).cloned()
}

/// Keeps the fields that the server allocated, if the update does not mention them.
fn carry_over(new: &mut Value, old: &Value) {
    if needs_cluster_ip(new) && needs_cluster_ip(old) {
        for field in ["clusterIP", "clusterIPs"] {
            if !has(new, field)
                && let Some(value) = spec_field(old, field)
            {
                new["spec"][field] = value;
            }
        }
    }
    if needs_node_ports(new) && needs_node_ports(old) {
        let old_ports = spec_field(old, "ports").unwrap_or_default();
        let new_ports = new.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
        for port in new_ports.into_iter().flatten() {
            if number(port, "/nodePort") != 0 {
                continue;
            }
            let same =
                |o: &&Value| o.get("port") == port.get("port") && o.get("protocol") == port.get("protocol");
            let kept = old_ports
                .as_array()
                .into_iter()
                .flatten()
                .find(same)
                .and_then(|o| o.get("nodePort"))
                .cloned();
            if let Some(kept) = kept {
                port["nodePort"] = kept;
            }
        }
    }
}

/// A change of the type lets go of what only the old type had, unless that was changed as well.
fn drop_for_type(new: &mut Value, old: &Value) {
    let mut dropped: Vec<&str> = Vec::new();
    if needs_cluster_ip(old) && !needs_cluster_ip(new) {
        dropped.extend([
            "clusterIP",
            "clusterIPs",
            "ipFamilies",
            "ipFamilyPolicy",
            "internalTrafficPolicy",
        ]);
    }
    let external = |s: &Value| matches!(service_type(s), "NodePort" | "LoadBalancer");
    if external(old) && !external(new) {
        dropped.extend([
            "externalTrafficPolicy",
            "healthCheckNodePort",
            "allocateLoadBalancerNodePorts",
        ]);
    }
    if service_type(old) == "LoadBalancer" && service_type(new) != "LoadBalancer" {
        dropped.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass"]);
    }
    if service_type(old) == "ExternalName" && service_type(new) != "ExternalName" {
        dropped.push("externalName");
    }
    for field in dropped {
        if spec_field(new, field) == spec_field(old, field)
            && let Some(spec) = new["spec"].as_object_mut()
        {
            spec.remove(field);
        }
    }
    if needs_node_ports(old) && !needs_node_ports(new) {
        let old_ports = spec_field(old, "ports").unwrap_or_default();
        let new_ports = new.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
        for (i, port) in new_ports.into_iter().flatten().enumerate() {
            if old_ports.get(i).and_then(|o| o.get("nodePort")) == port.get("nodePort")
                && let Some(port) = port.as_object_mut()
            {
                port.remove("nodePort");
            }
        }
    }
}

/// Keeps the old single field and the list of today in step.
fn join_cluster_ips(new: &mut Value, old: Option<&Value>) {
    let single = text(new, "/spec/clusterIP").to_owned();
    let list = texts(new, "/spec/clusterIPs");
    let put = |new: &mut Value, single: Option<String>, list: Option<Vec<String>>| {
        let Some(spec) = new["spec"].as_object_mut() else {
            return;
        };
        match single {
            Some(ip) => spec.insert("clusterIP".into(), ip.into()),
            None => spec.remove("clusterIP"),
        };
        match list {
            Some(ips) => spec.insert("clusterIPs".into(), ips.into()),
            None => spec.remove("clusterIPs"),
        };
    };
    let old_single = old.map(|o| text(o, "/spec/clusterIP").to_owned());
    let old_list = old.map(|o| texts(o, "/spec/clusterIPs"));
    let single_changed = old_single.as_ref().is_some_and(|o| *o != single);
    let list_changed = old_list.as_ref().is_some_and(|o| *o != list);
    if !single.is_empty() && list.is_empty() {
        if old.is_none() || single_changed {
            put(new, Some(single.clone()), Some(vec![single]));
        } else {
            put(new, None, None);
        }
    } else if single.is_empty() && !list.is_empty() && old.is_some() {
        if single_changed && !list_changed {
            put(new, None, None);
        }
    } else if single_changed && !list_changed && !list.is_empty() {
        let mut list = list;
        list[0].clone_from(&single);
        put(new, Some(single), Some(list));
    } else if list_changed && !single_changed && !list.is_empty() {
        put(new, list.first().cloned(), Some(list));
    }
}

pub(crate) fn check(faults: &mut Faults, value: &Value, old: Option<&Value>) {
    let kind = service_type(value);
    if !TYPES.contains(&kind) {
        faults.not_supported("spec.type", kind, &TYPES);
    }
    let ports = list(value, "/spec/ports");
    let headless = text(value, "/spec/clusterIP") == "None";
    if ports.is_empty() && !headless && kind != "ExternalName" {
        faults.required("spec.ports", "");
    }
    if kind == "ExternalName" {
        let name = text(value, "/spec/externalName");
        let trimmed = name.strip_suffix('.').unwrap_or(name);
        if trimmed.is_empty() {
            faults.required("spec.externalName", "");
        } else {
            faults.each("spec.externalName", name, subdomain_faults(trimmed));
        }
        if has(value, "clusterIP") {
            faults.forbidden("spec.clusterIP", "may not be set when type is 'ExternalName'");
        }
    }
    if headless && matches!(kind, "NodePort" | "LoadBalancer") {
        let why = format!("may not be set to 'None' for {kind} services");
        faults.invalid_text("spec.clusterIPs[0]", "None", &why);
    }
    if let Some(selector) = value.pointer("/spec/selector").and_then(Value::as_object) {
        for (key, value) in selector {
            faults.each("spec.selector", key, crate::validate::label_key_faults(key));
            let value = value.as_str().unwrap_or("");
            faults.each("spec.selector", value, crate::validate::label_value_faults(value));
        }
    }
    let affinity = text(value, "/spec/sessionAffinity");
    if !matches!(affinity, "None" | "ClientIP") {
        faults.not_supported("spec.sessionAffinity", affinity, &["ClientIP", "None"]);
    }
    for (i, ip) in texts(value, "/spec/externalIPs").iter().enumerate() {
        if !is_ip(ip) {
            let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            faults.invalid_text(&format!("spec.externalIPs[{i}]"), ip, why);
        }
    }
    check_ports(faults, ports);
    if let Some(old) = old {
        check_update(faults, value, old);
    }
}

fn check_ports(faults: &mut Faults, ports: &[Value]) {
    let (mut names, mut numbers, mut node_ports) = (HashSet::new(), HashSet::new(), HashSet::new());
    for (i, port) in ports.iter().enumerate() {
        let field = format!("spec.ports[{i}]");
        let name = text(port, "/name");
        if name.is_empty() {
            if ports.len() > 1 {
                faults.required(&format!("{field}.name"), "");
            }
        } else {
            faults.each(
                &format!("{field}.name"),
                name,
                crate::validate::label_faults(name),
            );
            if !names.insert(name) {
                faults.duplicate(&format!("{field}.name"), &name.into());
            }
        }
        let node_port = number(port, "/nodePort");
        let (number, protocol) = (number(port, "/port"), text(port, "/protocol"));
        faults.port(&format!("{field}.port"), number);
        faults.protocol(&format!("{field}.protocol"), port);
        match port.get("targetPort") {
            Some(Value::String(name)) => {
                for fault in port_name_faults(name) {
                    faults.invalid_text(&format!("{field}.targetPort"), name, fault);
                }
            }
            Some(target) if !target.as_i64().is_some_and(|t| (1..=65535).contains(&t)) => {
                faults.invalid(
                    &format!("{field}.targetPort"),
                    target,
                    "must be between 1 and 65535, inclusive",
                );
            }
            _ => {}
        }
        if !numbers.insert((number, protocol)) {
            let shown = json!({"port": number, "protocol": protocol});
            faults.duplicate(&field, &shown);
        }
        if node_port != 0 && !node_ports.insert((node_port, protocol)) {
            faults.duplicate(&format!("{field}.nodePort"), &node_port.into());
        }
        if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
            let faulty = crate::validate::label_key_faults(protocol);
            faults.each(&format!("{field}.appProtocol"), protocol, faulty);
        }
    }
}

/// The first address of a Service is its for life, unless its type changes.
fn check_update(faults: &mut Faults, new: &Value, old: &Value) {
    if !needs_cluster_ip(new) || !needs_cluster_ip(old) {
        return;
    }
    let (before, after) = (texts(old, "/spec/clusterIPs"), texts(new, "/spec/clusterIPs"));
    if before.is_empty() {
        return;
    }
    let shown = Value::from(after.clone());
    match after.first() {
        None => faults.invalid("spec.clusterIPs[0]", &shown, "primary clusterIP can not be unset"),
        Some(first) if *first != before[0] => {
            faults.invalid("spec.clusterIPs[0]", &shown, "may not change once set");
        }
        Some(_) => {}
    }
    if let (Some(first), Some(second)) = (before.get(1), after.get(1))
        && first != second
    {
        faults.invalid("spec.clusterIPs[1]", &shown, "may not change once set");
    }
    let (before, after) = (texts(old, "/spec/ipFamilies"), texts(new, "/spec/ipFamilies"));
    if let (Some(first), Some(second)) = (before.first(), after.first())
        && first != second
    {
        faults.invalid(
            "spec.ipFamilies[0]",
            &Value::from(after.clone()),
            "may not change once set",
        );
    }
}
