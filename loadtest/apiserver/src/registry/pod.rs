//! Pods.

use crate::object::text;
use crate::validate::{Faults, address_faults, label_faults, subdomain_faults};
use serde_json::{Map, Value, json};

const CONTAINERS: [&str; 2] = ["initContainers", "containers"];

fn fill(fields: &mut Map<String, Value>, defaults: &[(&str, Value)]) {
    for (name, value) in defaults {
        if !fields.contains_key(*name) {
            fields.insert((*name).to_owned(), value.clone());
        }
    }
}

pub(crate) fn default(value: &mut Value) {
    if !value.get("spec").is_some_and(Value::is_object) {
        value["spec"] = json!({});
    }
    if !value.get("status").is_some_and(Value::is_object) {
        value["status"] = json!({});
    }
    let Some(spec) = value["spec"].as_object_mut() else {
        return;
    };
    fill(
        spec,
        &[
            ("containers", Value::Null),
            ("restartPolicy", "Always".into()),
            ("terminationGracePeriodSeconds", 30.into()),
            ("dnsPolicy", "ClusterFirst".into()),
            ("securityContext", json!({})),
            ("schedulerName", "default-scheduler".into()),
            ("enableServiceLinks", true.into()),
        ],
    );
    let host_network = spec.get("hostNetwork").and_then(Value::as_bool).unwrap_or(false);
    for which in CONTAINERS {
        for container in spec
            .get_mut(which)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Some(container) = container.as_object_mut() {
                default_container(container, host_network);
            }
        }
    }
    for volume in spec
        .get_mut("volumes")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        for source in ["configMap", "secret", "projected", "downwardAPI"] {
            if let Some(source) = volume.get_mut(source).and_then(Value::as_object_mut) {
                fill(source, &[("defaultMode", 420.into())]);
            }
        }
    }
    let Some(status) = value["status"].as_object_mut() else {
        return;
    };
    if !status.contains_key("phase") {
        status.insert("phase".into(), "Pending".into());
    }
    sync_ips(status);
    for condition in status
        .get_mut("conditions")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(condition) = condition.as_object_mut() {
            fill(
                condition,
                &[
                    ("lastProbeTime", Value::Null),
                    ("lastTransitionTime", Value::Null),
                ],
            );
        }
    }
    for which in ["containerStatuses", "initContainerStatuses"] {
        for container in status
            .get_mut(which)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Some(container) = container.as_object_mut() {
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

fn default_container(container: &mut Map<String, Value>, host_network: bool) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or("");
    let tag = image
        .rsplit('/')
        .next()
        .unwrap_or("")
        .split_once(':')
        .map_or("", |(_, tag)| tag);
    let policy = if (tag.is_empty() && !image.contains('@')) || tag == "latest" {
        "Always"
    } else {
        "IfNotPresent"
    };
    fill(
        container,
        &[
            ("resources", json!({})),
            ("terminationMessagePath", "/dev/termination-log".into()),
            ("terminationMessagePolicy", "File".into()),
            ("imagePullPolicy", policy.into()),
        ],
    );
    for port in container
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(port) = port.as_object_mut() {
            fill(port, &[("protocol", "TCP".into())]);
            if host_network && let Some(number) = port.get("containerPort").cloned() {
                fill(port, &[("hostPort", number)]);
            }
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get_mut(probe).and_then(Value::as_object_mut) else {
            continue;
        };
        fill(
            probe,
            &[
                ("timeoutSeconds", 1.into()),
                ("periodSeconds", 10.into()),
                ("successThreshold", 1.into()),
                ("failureThreshold", 3.into()),
            ],
        );
        if let Some(get) = probe.get_mut("httpGet").and_then(Value::as_object_mut) {
            fill(get, &[("path", "/".into()), ("scheme", "HTTP".into())]);
        }
    }
    for variable in container
        .get_mut("env")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(field) = variable
            .pointer_mut("/valueFrom/fieldRef")
            .and_then(Value::as_object_mut)
        {
            fill(field, &[("apiVersion", "v1".into())]);
        }
    }
}

pub(crate) fn prepare_create(value: &mut Value) {
    value["metadata"]["generation"] = 1.into();
    value["status"] = json!({"phase": "Pending", "qosClass": qos_class(value)});
}

pub(crate) fn prepare_update(new: &mut Value, old: &Value) {
    if new.get("spec") != old.get("spec") {
        let generation = old
            .pointer("/metadata/generation")
            .and_then(Value::as_i64)
            .unwrap_or(0);
        new["metadata"]["generation"] = (generation + 1).into();
    }
}

/// The class is given for life.
pub(crate) fn prepare_status(new: &mut Value, old: &Value) {
    if let Some(class) = old.pointer("/status/qosClass") {
        new["status"]["qosClass"] = class.clone();
    }
}

fn qos_class(pod: &Value) -> &'static str {
    let mut some = false;
    let mut all = true;
    for which in CONTAINERS {
        let containers = pod.pointer(&format!("/spec/{which}")).and_then(Value::as_array);
        for container in containers.into_iter().flatten() {
            let at = |kind: &str, what: &str| container.pointer(&format!("/resources/{kind}/{what}"));
            for what in ["cpu", "memory"] {
                let (request, limit) = (at("requests", what), at("limits", what));
                some |= request.is_some() || limit.is_some();
                all &= limit.is_some() && request.is_none_or(|r| Some(r) == limit);
            }
        }
    }
    match (some, all) {
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
        (false, _) => "BestEffort",
    }
}

pub(crate) fn check(faults: &mut Faults, value: &Value) {
    let containers = value.pointer("/spec/containers").and_then(Value::as_array);
    if containers.is_none_or(Vec::is_empty) {
        faults.required("spec.containers", "");
    }
    let mut names: Vec<&str> = Vec::new();
    for which in CONTAINERS {
        let containers = value.pointer(&format!("/spec/{which}")).and_then(Value::as_array);
        for (i, container) in containers.into_iter().flatten().enumerate() {
            let field = format!("spec.{which}[{i}]");
            let name = text(container, "/name");
            if name.is_empty() {
                faults.required(&format!("{field}.name"), "");
            } else {
                faults.each(&format!("{field}.name"), name, label_faults(name));
                if names.contains(&name) {
                    faults.duplicate(&format!("{field}.name"), &name.into());
                }
                names.push(name);
            }
            if text(container, "/image").is_empty() {
                faults.required(&format!("{field}.image"), "");
            }
            check_ports(faults, &format!("{field}.ports"), container);
        }
    }
    let policy = text(value, "/spec/restartPolicy");
    if !matches!(policy, "Always" | "OnFailure" | "Never") {
        faults.not_supported("spec.restartPolicy", policy, &["Always", "OnFailure", "Never"]);
    }
    for field in ["hostname", "subdomain"] {
        let name = text(value, &format!("/spec/{field}"));
        if !name.is_empty() {
            faults.each(&format!("spec.{field}"), name, label_faults(name));
        }
    }
    let node = text(value, "/spec/nodeName");
    if !node.is_empty() {
        faults.each("spec.nodeName", node, subdomain_faults(node));
    }
    let grace = value
        .pointer("/spec/terminationGracePeriodSeconds")
        .and_then(Value::as_i64);
    if let Some(grace) = grace.filter(|g| *g < 0) {
        let why = "must be greater than or equal to 0";
        faults.invalid("spec.terminationGracePeriodSeconds", &grace.into(), why);
    }
}

fn check_ports(faults: &mut Faults, field: &str, container: &Value) {
    let ports = container.get("ports").and_then(Value::as_array);
    let mut names = std::collections::HashSet::new();
    for (i, port) in ports.into_iter().flatten().enumerate() {
        let name = text(port, "/name");
        if !name.is_empty() {
            for fault in port_name_faults(name) {
                faults.invalid_text(&format!("{field}[{i}].name"), name, fault);
            }
            if !names.insert(name) {
                faults.duplicate(&format!("{field}[{i}].name"), &name.into());
            }
        }
        let number = port.get("containerPort").and_then(Value::as_i64).unwrap_or(0);
        if number == 0 {
            faults.required(&format!("{field}[{i}].containerPort"), "");
        } else if !(1..=65535).contains(&number) {
            let why = "must be between 1 and 65535, inclusive";
            faults.invalid(&format!("{field}[{i}].containerPort"), &number.into(), why);
        }
        let protocol = text(port, "/protocol");
        if !matches!(protocol, "TCP" | "UDP" | "SCTP") {
            faults.not_supported(
                &format!("{field}[{i}].protocol"),
                protocol,
                &["SCTP", "TCP", "UDP"],
            );
        }
    }
}

/// What is wrong with a port's name.
pub(crate) fn port_name_faults(name: &str) -> Vec<&'static str> {
    let mut faults = Vec::new();
    if name.len() > 15 {
        faults.push("must be no more than 15 characters");
    }
    if !name
        .bytes()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
    {
        faults.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !name.bytes().any(|c| c.is_ascii_lowercase()) {
        faults.push("must contain at least one letter (a-z)");
    }
    if name.contains("--") {
        faults.push("must not contain consecutive hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        faults.push("must not begin or end with a hyphen");
    }
    faults
}

/// The spec without what may change in place.
fn fixed_spec(pod: &Value) -> Value {
    let mut spec = pod.get("spec").cloned().unwrap_or_default();
    for which in CONTAINERS {
        for container in spec
            .get_mut(which)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Some(container) = container.as_object_mut() {
                // A changed image changes the default of the pull policy too.
                container.remove("image");
            }
        }
    }
    if let Some(spec) = spec.as_object_mut() {
        for field in [
            "activeDeadlineSeconds",
            "terminationGracePeriodSeconds",
            "tolerations",
            "schedulingGates",
        ] {
            spec.remove(field);
        }
    }
    spec
}

pub(crate) fn check_update(faults: &mut Faults, new: &Value, old: &Value) {
    let grace = |pod: &Value| {
        pod.pointer("/spec/terminationGracePeriodSeconds")
            .and_then(Value::as_i64)
    };
    // Only a negative one may be corrected to 1, and negative ones are not let in.
    if fixed_spec(new) != fixed_spec(old) || grace(new) != grace(old) {
        faults.forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,\
             `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to \
             existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
             previously negative)",
        );
    }
}

pub(crate) fn check_status(faults: &mut Faults, value: &Value) {
    let addresses = value.pointer("/status/podIPs").and_then(Value::as_array);
    let mut families = Vec::new();
    for (i, address) in addresses.into_iter().flatten().enumerate() {
        let ip = text(address, "/ip");
        faults.each(&format!("status.podIPs[{i}]"), ip, address_faults(ip, None));
        families.extend(crate::validate::parse_ip(ip).map(crate::validate::family_of));
    }
    let count = addresses.map_or(0, Vec::len);
    if count > 2 || (families.len() == 2 && families[0] == families[1]) {
        let list = addresses.cloned().unwrap_or_default();
        faults.invalid(
            "status.podIPs",
            &list.into(),
            "may specify no more than one IP for each IP family",
        );
    }
}
