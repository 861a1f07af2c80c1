//! Pods.

use crate::cause::Faults;
use crate::json::{fill, list, number, object_at, objects_mut, text};
use crate::object::next_generation;
use crate::validate::{address_faults, label_faults, subdomain_faults};
use serde_json::{Map, Value, json};

const CONTAINERS: [&str; 2] = ["initContainers", "containers"];

pub(crate) fn default(value: &mut Value) {
    fill(object_at(value, "spec"), &[("enableServiceLinks", true.into())]);
    default_spec(&mut value["spec"]);
    let status = object_at(value, "status");
    fill(status, &[("phase", "Pending".into())]);
    sync_ips(status);
    for condition in objects_mut(value, "/status/conditions") {
        fill(
            condition,
            &[
                ("lastProbeTime", Value::Null),
                ("lastTransitionTime", Value::Null),
            ],
        );
    }
    for which in ["containerStatuses", "initContainerStatuses"] {
        for container in objects_mut(value, &format!("/status/{which}")) {
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

/// The defaults of a pod's spec, also of one in a template.
pub(super) fn default_spec(value: &mut Value) {
    let Some(spec) = value.as_object_mut() else {
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
        ],
    );
    let host_network = spec.get("hostNetwork").and_then(Value::as_bool).unwrap_or(false);
    for which in CONTAINERS {
        let containers = spec.get_mut(which).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            default_container(container, host_network);
        }
    }
    for volume in objects_mut(value, "/volumes") {
        for source in ["configMap", "secret", "projected", "downwardAPI"] {
            if let Some(source) = volume.get_mut(source).and_then(Value::as_object_mut) {
                fill(source, &[("defaultMode", 420.into())]);
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

fn default_container(value: &mut Value, host_network: bool) {
    let Some(container) = value.as_object_mut() else {
        return;
    };
    let image = container.get("image").and_then(Value::as_str).unwrap_or("");
    let name = image.rsplit('/').next().unwrap_or("");
    let tag = name.split_once(':').map_or("", |(_, tag)| tag);
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
    for port in objects_mut(value, "/ports") {
        fill(port, &[("protocol", "TCP".into())]);
        if host_network && let Some(number) = port.get("containerPort").cloned() {
            fill(port, &[("hostPort", number)]);
        }
    }
    let variables = value.get_mut("env").and_then(Value::as_array_mut);
    for variable in variables.into_iter().flatten() {
        let field = variable.pointer_mut("/valueFrom/fieldRef");
        if let Some(field) = field.and_then(Value::as_object_mut) {
            fill(field, &[("apiVersion", "v1".into())]);
        }
    }
}

pub(crate) fn create(value: &mut Value) {
    value["metadata"]["generation"] = 1.into();
    value["status"] = json!({"phase": "Pending", "qosClass": qos_class(value)});
}

pub(crate) fn update(new: &mut Value, old: &Value) {
    if new.get("spec") != old.get("spec") {
        next_generation(new, old);
    }
}

/// The class is given for life.
pub(crate) fn update_status(new: &mut Value, old: &Value) {
    match old.pointer("/metadata/ownerReferences") {
        Some(owners) => new["metadata"]["ownerReferences"] = owners.clone(),
        None => drop(object_at(new, "metadata").remove("ownerReferences")),
    }
    if let Some(class) = old.pointer("/status/qosClass") {
        new["status"]["qosClass"] = class.clone();
    }
}

fn qos_class(pod: &Value) -> &'static str {
    let mut some = false;
    let mut all = true;
    for which in CONTAINERS {
        for container in list(pod, &format!("/spec/{which}")) {
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

pub(crate) fn check(faults: &mut Faults, value: &Value, old: Option<&Value>) {
    check_spec(faults, "spec", &value["spec"]);
    if let Some(old) = old {
        check_update(faults, value, old);
    }
}

/// Checks a pod's spec, also one in a template; `at` is where it is.
pub(super) fn check_spec(faults: &mut Faults, at: &str, spec: &Value) {
    if list(spec, "/containers").is_empty() {
        faults.required(&format!("{at}.containers"), "");
    }
    let mut names: Vec<&str> = Vec::new();
    for which in CONTAINERS {
        for (i, container) in list(spec, &format!("/{which}")).iter().enumerate() {
            let field = format!("{at}.{which}[{i}]");
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
    let policy = text(spec, "/restartPolicy");
    if !matches!(policy, "Always" | "OnFailure" | "Never") {
        faults.not_supported(
            &format!("{at}.restartPolicy"),
            policy,
            &["Always", "OnFailure", "Never"],
        );
    }
    for field in ["hostname", "subdomain"] {
        let name = text(spec, &format!("/{field}"));
        if !name.is_empty() {
            faults.each(&format!("{at}.{field}"), name, label_faults(name));
        }
    }
    let node = text(spec, "/nodeName");
    if !node.is_empty() {
        faults.each(&format!("{at}.nodeName"), node, subdomain_faults(node));
    }
    let grace = number(spec, "/terminationGracePeriodSeconds");
    if grace < 0 {
        let why = "must be greater than or equal to 0";
        faults.invalid(&format!("{at}.terminationGracePeriodSeconds"), &grace.into(), why);
    }
}

fn check_ports(faults: &mut Faults, field: &str, container: &Value) {
    let mut names = std::collections::HashSet::new();
    for (i, port) in list(container, "/ports").iter().enumerate() {
        let name = text(port, "/name");
        if !name.is_empty() {
            for fault in port_name_faults(name) {
                faults.invalid_text(&format!("{field}[{i}].name"), name, fault);
            }
            if !names.insert(name) {
                faults.duplicate(&format!("{field}[{i}].name"), &name.into());
            }
        }
        match number(port, "/containerPort") {
            0 => faults.required(&format!("{field}[{i}].containerPort"), ""),
            number => faults.port(&format!("{field}[{i}].containerPort"), number),
        }
        faults.protocol(&format!("{field}[{i}].protocol"), port);
    }
}

/// Returns the faults of a port's name.
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
        for container in objects_mut(&mut spec, &format!("/{which}")) {
            container.remove("image");
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

fn check_update(faults: &mut Faults, new: &Value, old: &Value) {
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
    let addresses = list(value, "/status/podIPs");
    let mut families = Vec::new();
    for (i, address) in addresses.iter().enumerate() {
        let ip = text(address, "/ip");
        faults.each(&format!("status.podIPs[{i}]"), ip, address_faults(ip, None));
        families.extend(crate::validate::parse_ip(ip).map(crate::validate::family_of));
    }
    if addresses.len() > 2 || (families.len() == 2 && families[0] == families[1]) {
        let why = "may specify no more than one IP for each IP family";
        faults.invalid("status.podIPs", &addresses.into(), why);
    }
}
