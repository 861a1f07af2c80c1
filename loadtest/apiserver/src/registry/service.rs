//! Services: defaults and checks. Addresses and ports are in `allocate`.

mod allocate;
mod families;
mod spec;

pub(crate) use self::allocate::allocate;

use self::spec::{needs_cluster_ip, needs_node_ports, service_type};
use crate::cause::Faults;
use crate::json::{fill, list, number, object_at, objects_mut, text, texts};
use crate::validate::{label_faults, label_key_faults, label_value_faults};
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

fn spec_field(service: &Value, field: &str) -> Option<Value> {
    service.get("spec").and_then(|s| s.get(field)).cloned()
}

/// Keeps the fields that the server allocated, if the update does not mention them.
fn carry_over(new: &mut Value, old: &Value) {
    if needs_cluster_ip(new) && needs_cluster_ip(old) {
        for field in ["clusterIP", "clusterIPs"] {
            if let Some(value) = spec_field(old, field) {
                fill(object_at(new, "spec"), &[(field, value)]);
            }
        }
    }
    if needs_node_ports(new) && needs_node_ports(old) {
        let old_ports = list(old, "/spec/ports");
        for port in objects_mut(new, "/spec/ports") {
            let same =
                |o: &&Value| o.get("port") == port.get("port") && o.get("protocol") == port.get("protocol");
            let kept = old_ports.iter().find(same).and_then(|o| o.get("nodePort"));
            if let Some(kept) = kept.cloned() {
                fill(port, &[("nodePort", kept)]);
            }
        }
    }
}

/// A change of the type lets go of what only the old type had, unless that was changed as well.
fn drop_for_type(new: &mut Value, old: &Value) {
    let mut dropped: Vec<&str> = Vec::new();
    let goes = |had: fn(&Value) -> bool| had(old) && !had(new);
    if goes(needs_cluster_ip) {
        dropped.extend([
            "clusterIP",
            "clusterIPs",
            "ipFamilies",
            "ipFamilyPolicy",
            "internalTrafficPolicy",
        ]);
    }
    if goes(|service| matches!(service_type(service), "NodePort" | "LoadBalancer")) {
        dropped.extend(["externalTrafficPolicy", "healthCheckNodePort"]);
    }
    if goes(|service| service_type(service) == "LoadBalancer") {
        dropped.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass"]);
    }
    if goes(|service| service_type(service) == "ExternalName") {
        dropped.push("externalName");
    }
    let drops_ports = goes(needs_node_ports);
    for field in dropped {
        if spec_field(new, field) == spec_field(old, field)
            && let Some(spec) = new["spec"].as_object_mut()
        {
            spec.remove(field);
        }
    }
    if drops_ports {
        let old_ports = list(old, "/spec/ports");
        for (i, port) in objects_mut(new, "/spec/ports").enumerate() {
            if old_ports.get(i).and_then(|old| old.get("nodePort")) == port.get("nodePort") {
                port.remove("nodePort");
            }
        }
    }
}

/// Keeps the old single field and the list of today in step.
fn join_cluster_ips(new: &mut Value, old: Option<&Value>) {
    let mut single = text(new, "/spec/clusterIP").to_owned();
    let mut list = texts(new, "/spec/clusterIPs");
    let single_changed = old.is_none_or(|old| text(old, "/spec/clusterIP") != single);
    let list_changed = old.is_some_and(|old| texts(old, "/spec/clusterIPs") != list);
    match (single_changed, list_changed) {
        (true, false) if single.is_empty() => list.clear(),
        (true, false) => match list.first_mut() {
            Some(first) => first.clone_from(&single),
            None => list.push(single.clone()),
        },
        (false, true) => single = list.first().cloned().unwrap_or_default(),
        _ => {}
    }
    let spec = object_at(new, "spec");
    if single.is_empty() || list.is_empty() {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    } else {
        spec.insert("clusterIP".into(), single.into());
        spec.insert("clusterIPs".into(), list.into());
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
    if kind == "ExternalName" && text(value, "/spec/externalName").is_empty() {
        faults.required("spec.externalName", "");
    }
    if headless && matches!(kind, "NodePort" | "LoadBalancer") {
        let why = format!("may not be set to 'None' for {kind} services");
        faults.invalid_text("spec.clusterIPs[0]", "None", &why);
    }
    if let Some(selector) = value.pointer("/spec/selector").and_then(Value::as_object) {
        for (key, value) in selector {
            faults.each("spec.selector", key, label_key_faults(key));
            let value = value.as_str().unwrap_or("");
            faults.each("spec.selector", value, label_value_faults(value));
        }
    }
    check_ports(faults, ports);
    let old = old.filter(|old| needs_cluster_ip(old) && needs_cluster_ip(value));
    // The first of both is a Service's for life, unless its type changes.
    for field in ["clusterIPs", "ipFamilies"] {
        let first = |service: &Value| texts(service, &format!("/spec/{field}")).into_iter().next();
        if let (Some(before), Some(after)) = (old.and_then(first), first(value))
            && before != after
        {
            faults.invalid_text(&format!("spec.{field}[0]"), &after, "may not change once set");
        }
    }
}

fn check_ports(faults: &mut Faults, ports: &[Value]) {
    let (mut names, mut numbers) = (HashSet::new(), HashSet::new());
    for (i, port) in ports.iter().enumerate() {
        let field = format!("spec.ports[{i}]");
        let name = text(port, "/name");
        if name.is_empty() {
            if ports.len() > 1 {
                faults.required(&format!("{field}.name"), "");
            }
        } else {
            faults.each(&format!("{field}.name"), name, label_faults(name));
            if !names.insert(name) {
                faults.duplicate(&format!("{field}.name"), &name.into());
            }
        }
        let (number, protocol) = (number(port, "/port"), text(port, "/protocol"));
        faults.port(&format!("{field}.port"), number);
        faults.protocol(&format!("{field}.protocol"), port);
        if !numbers.insert((number, protocol)) {
            faults.duplicate(&field, &json!({"port": number, "protocol": protocol}));
        }
    }
}
