//! Pods. Of a pod that is checked which Services depend on: containers, ports, names and addresses.

use crate::cause::Faults;
use crate::json::{fill, list, number, object_at, objects_mut, text};
use crate::object::next_generation;
use crate::validate::{address_faults, family_of, label_faults, parse_ip, subdomain_faults};
use serde_json::{Map, Value, json};

const CONTAINERS: [&str; 2] = ["initContainers", "containers"];

pub(crate) fn default(value: &mut Value) {
    let defaults = [
        ("containers", Value::Null),
        ("enableServiceLinks", true.into()),
        ("restartPolicy", "Always".into()),
        ("terminationGracePeriodSeconds", 30.into()),
        ("dnsPolicy", "ClusterFirst".into()),
        ("securityContext", json!({})),
        ("schedulerName", "default-scheduler".into()),
    ];
    fill(object_at(value, "spec"), &defaults);
    for which in CONTAINERS {
        for container in objects_mut(value, &format!("/spec/{which}")) {
            let defaults = [
                ("resources", json!({})),
                ("terminationMessagePath", "/dev/termination-log".into()),
                ("terminationMessagePolicy", "File".into()),
                ("imagePullPolicy", "IfNotPresent".into()),
            ];
            fill(container, &defaults);
            let ports = container.get_mut("ports").and_then(Value::as_array_mut);
            for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
                fill(port, &[("protocol", "TCP".into())]);
            }
        }
    }
    let status = object_at(value, "status");
    fill(status, &[("phase", "Pending".into())]);
    sync_ips(status);
    for condition in objects_mut(value, "/status/conditions") {
        let always = [
            ("lastProbeTime", Value::Null),
            ("lastTransitionTime", Value::Null),
        ];
        fill(condition, &always);
    }
    for container in objects_mut(value, "/status/containerStatuses") {
        let always = [
            ("state", json!({})),
            ("lastState", json!({})),
            ("ready", false.into()),
            ("restartCount", 0.into()),
            ("image", "".into()),
            ("imageID", "".into()),
        ];
        fill(container, &always);
    }
}

/// `podIP` is the first of `podIPs`; when they differ, it is `podIP` that counts.
fn sync_ips(status: &mut Map<String, Value>) {
    let first = status.get("podIPs").and_then(|ips| ips.pointer("/0/ip")).cloned();
    match (status.get("podIP").filter(|ip| *ip != "").cloned(), first) {
        (Some(ip), first) if first.as_ref() != Some(&ip) => {
            status.insert("podIPs".into(), json!([{"ip": ip}]));
        }
        (None, Some(first)) => {
            status.insert("podIP".into(), first);
        }
        _ => {}
    }
}

pub(crate) fn create(value: &mut Value) {
    value["metadata"]["generation"] = 1.into();
    value["status"] = json!({"phase": "Pending"});
}

pub(crate) fn update(new: &mut Value, old: &Value) {
    if new.get("spec") != old.get("spec") {
        next_generation(new, old);
    }
}

pub(crate) fn check(faults: &mut Faults, value: &Value, old: Option<&Value>) {
    let spec = &value["spec"];
    if list(spec, "/containers").is_empty() {
        faults.required("spec.containers", "");
    }
    for which in CONTAINERS {
        for (i, container) in list(spec, &format!("/{which}")).iter().enumerate() {
            let field = format!("spec.{which}[{i}]");
            match text(container, "/name") {
                "" => faults.required(&format!("{field}.name"), ""),
                name => faults.each(&format!("{field}.name"), name, label_faults(name)),
            }
            for (i, port) in list(container, "/ports").iter().enumerate() {
                let field = format!("{field}.ports[{i}]");
                faults.port(&format!("{field}.containerPort"), number(port, "/containerPort"));
                faults.protocol(&format!("{field}.protocol"), port);
            }
        }
    }
    let policy = text(spec, "/restartPolicy");
    let policies = ["Always", "OnFailure", "Never"];
    if !policies.contains(&policy) {
        faults.not_supported("spec.restartPolicy", policy, &policies);
    }
    for field in ["hostname", "subdomain"] {
        let name = text(spec, &format!("/{field}"));
        if !name.is_empty() {
            faults.each(&format!("spec.{field}"), name, label_faults(name));
        }
    }
    let node = text(spec, "/nodeName");
    if !node.is_empty() {
        faults.each("spec.nodeName", node, subdomain_faults(node));
    }
    if old.is_some_and(|old| ![node, ""].contains(&text(old, "/spec/nodeName"))) {
        faults.forbidden("spec", "pod updates may not change the node");
    }
    let addresses = list(value, "/status/podIPs");
    let mut families = Vec::new();
    for (i, address) in addresses.iter().enumerate() {
        let ip = text(address, "/ip");
        faults.each(&format!("status.podIPs[{i}]"), ip, address_faults(ip, None));
        families.extend(parse_ip(ip).map(family_of));
    }
    if addresses.len() > 2 || (families.len() == 2 && families[0] == families[1]) {
        let why = "may specify no more than one IP for each IP family";
        faults.invalid("status.podIPs", &addresses.into(), why);
    }
}
