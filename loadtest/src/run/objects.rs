//! The bodies of a run's objects, as the API server gets them.

use super::kinds::Kind;
use super::sizes::Layout;
use super::world::{Node, Pod, Selection, Service, State, World};
use crate::names::LABEL;
use crate::objects::{ZONE_LABEL, condition, names, namespaced, object, pod_status, seconds};
use crate::observe::pod_ip;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::net::IpAddr;

const PORT: u16 = 8080;
const OLD_PORT: u16 = 8000;

pub(super) fn namespace(world: &World, name: &str) -> Value {
    object("Namespace", name, json!({ LABEL: world.run }))
}

/// A node that pods from outside of the run are not put on.
pub(super) fn node(world: &World, node: &Node) -> Value {
    let labels = json!({ LABEL: world.run, "kubernetes.io/hostname": node.name, ZONE_LABEL: node.zone });
    let mut body = object("Node", &node.name, labels);
    body["spec"] = json!({ "taints": [{ "key": LABEL, "value": world.run, "effect": "NoSchedule" }] });
    body["status"] = node_status(node.up)["status"].take();
    let capacity = json!({ "cpu": node.cpu, "memory": "64Gi", "pods": "1000" });
    body["status"]["capacity"] = capacity.clone();
    body["status"]["allocatable"] = capacity;
    body
}

/// The status that a kubelet reports of its node now and then, or that the node gets when its kubelet is silent.
/// Serves as a patch.
pub(super) fn node_status(up: bool) -> Value {
    let now = now();
    let (status, reason) = if up {
        ("True", "KubeletReady")
    } else {
        ("Unknown", "NodeStatusUnknown")
    };
    json!({
        "status": {
            "conditions": [{
                "type": "Ready",
                "status": status,
                "reason": reason,
                "lastHeartbeatTime": now,
                "lastTransitionTime": now,
            }],
        },
    })
}

pub(super) fn service(world: &World, service: &Service) -> Value {
    let kind = service.kind;
    let mut spec = json!({ "ports": service_ports(service) });
    if service.selection != Selection::None && kind.has_selector() {
        spec["selector"] = service_selector(world, service);
    }
    if kind == Kind::ExternalName {
        spec = json!({ "type": "ExternalName", "externalName": "example.com" });
    }
    if let Some(policy) = kind.family_policy() {
        spec["ipFamilyPolicy"] = json!(policy);
        spec["ipFamilies"] = names(kind.families());
    }
    if kind.is_headless() {
        spec["clusterIP"] = json!("None");
    }
    if kind.publishes_not_ready() {
        spec["publishNotReadyAddresses"] = json!(true);
    }
    if let Some(distribution) = service.distribution {
        spec["trafficDistribution"] = json!(distribution);
    }
    let namespace = &world.namespaces[service.namespace];
    let labels = service_labels(world, service);
    let mut body = namespaced("Service", namespace, &service.name, labels, spec);
    match kind {
        Kind::Balanced => {
            body["metadata"]["annotations"] = json!({ "service.kubernetes.io/topology-mode": "Auto" });
        }
        // The deprecated annotation rules out the other one, which leaves the distribution.
        Kind::Near if service.distribution == Some("PreferSameZone") => {
            body["metadata"]["annotations"] = json!({
                "service.kubernetes.io/topology-aware-hints": "Disabled",
                "service.kubernetes.io/topology-mode": "Auto",
            });
        }
        _ => {}
    }
    body
}

/// The Service's labels; the patch of a label edit, too.
pub(super) fn service_labels(world: &World, service: &Service) -> Value {
    let mut labels = json!({ "app.kubernetes.io/name": service.name, LABEL: world.run });
    if service.edits > 0 {
        labels["revision"] = json!(service.edits.to_string());
    }
    labels
}

/// The Service's selector. The patch of one that selected by the track names that, too.
pub(super) fn service_selector(world: &World, service: &Service) -> Value {
    let mut selector = match service.selection {
        Selection::None => json!({}),
        Selection::Nobody => json!({ "app": service.name }),
        Selection::Group(group) => json!({ "app": world.groups[group].name }),
        Selection::Tier(tier) => json!({ "tier": tier }),
    };
    if service.stable {
        selector["track"] = json!("stable");
    }
    selector
}

/// The Service's ports; every other edit adds one.
pub(super) fn service_ports(service: &Service) -> Value {
    let http = json!({ "name": "http", "port": 80, "targetPort": PORT, "protocol": "TCP" });
    let mut ports = match service.kind {
        Kind::ExternalName => return json!([]),
        Kind::HeadlessNoPorts => Vec::new(),
        Kind::NamedPort => {
            vec![json!({ "name": "web", "port": 80, "targetPort": "http", "appProtocol": "http" })]
        }
        Kind::MultiPort => vec![
            json!({ "name": "http", "port": 80, "targetPort": "http" }),
            json!({ "name": "metrics", "port": 9090, "targetPort": "metrics" }),
            json!({ "name": "grpc", "port": 9000, "targetPort": 9000, "appProtocol": "kubernetes.io/h2c" }),
        ],
        Kind::TwoProtocols => vec![
            json!({ "name": "dns", "port": 53, "targetPort": "dns", "protocol": "UDP" }),
            json!({ "name": "dns-tcp", "port": 53, "targetPort": "dns", "protocol": "TCP" }),
        ],
        Kind::Sidecar => vec![
            json!({ "name": "mesh", "port": 443, "targetPort": "proxy" }),
            http,
        ],
        _ => vec![http],
    };
    if service.edits % 2 == 1 {
        ports.push(json!({ "name": "extra", "port": 7000, "targetPort": "metrics", "protocol": "TCP" }));
    }
    json!(ports)
}

/// The name that a pod has in its namespace.
pub(super) fn pod_name(world: &World, pod: &Pod) -> String {
    format!("{}-{:06}", world.groups[pod.group].name, pod.number)
}

/// A pod as a Deployment's, before its kubelet says anything. It is deleted at once when the deletion asks for no
/// grace, because there is no kubelet to confirm it.
pub(super) fn pod(world: &World, pod: &Pod) -> Value {
    let group = &world.groups[pod.group];
    let name = pod_name(world, pod);
    let labels = pod_labels(world, pod);
    let spec = json!({
        "nodeName": world.nodes[pod.node].name,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        // No other controller is to evict it.
        "tolerations": [{ "operator": "Exists" }],
        "containers": [container(pod)],
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
    });
    let mut body = namespaced("Pod", &world.namespaces[group.namespace], &name, labels, spec);
    body["metadata"]["annotations"] =
        json!({ "example.com/config-hash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c" });
    if world.layout == Layout::Demo {
        add_demo(&mut body, world, pod);
    }
    body
}

fn pod_labels(world: &World, pod: &Pod) -> Value {
    let group = &world.groups[pod.group];
    let mut labels = json!({ "app": group.name, "pod-template-hash": "5d4f8c7b9", LABEL: world.run });
    if world.labels_zones {
        labels[ZONE_LABEL] = json!(world.nodes[pod.node].zone);
    }
    labels
}

/// Makes a copy of one pod, as the server shows it while it runs, into another of the same layout.
pub(super) fn turn_into(copy: &mut Value, world: &World, pod: &Pod) {
    let group = &world.groups[pod.group];
    copy["metadata"]["name"] = json!(pod_name(world, pod));
    copy["metadata"]["namespace"] = json!(world.namespaces[group.namespace]);
    copy["metadata"]["labels"] = pod_labels(world, pod);
    copy["spec"]["nodeName"] = json!(world.nodes[pod.node].name);
    if let Value::Object(fields) = first_status(world, pod, pod.ready())["status"].take() {
        for (field, value) in fields {
            copy["status"][field] = value;
        }
    }
}

fn container(pod: &Pod) -> Value {
    let probe = |path: &str| {
        json!({ "httpGet": { "path": path, "port": "http", "scheme": "HTTP" }, "periodSeconds": 5, "timeoutSeconds": 1,
            "successThreshold": 1, "failureThreshold": 3 })
    };
    let port = if pod.old { OLD_PORT } else { PORT };
    let mut ports = vec![json!({ "name": "http", "containerPort": port, "protocol": "TCP" })];
    if !pod.old {
        ports.push(json!({ "name": "metrics", "containerPort": 9090, "protocol": "TCP" }));
    }
    json!({
        "name": "main",
        "image": "example.com/app:2",
        "imagePullPolicy": "IfNotPresent",
        "args": ["--listen", "0.0.0.0:8080", "--log-format", "json"],
        "env": [
            { "name": "POD_IP", "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": "status.podIP" } } },
            { "name": "POD_NAME", "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.name" } } },
            { "name": "LOG_LEVEL", "value": "info" },
        ],
        "ports": ports,
        "resources": { "requests": { "cpu": "100m", "memory": "128Mi" }, "limits": { "memory": "256Mi" } },
        "livenessProbe": probe("/live"),
        "readinessProbe": probe("/ready"),
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "securityContext": { "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true },
    })
}

/// Adds what the demo's sorts of Services need: a track and a tier, a label that no other pod has, ports of two
/// protocols under one name, a sidecar.
fn add_demo(body: &mut Value, world: &World, pod: &Pod) {
    let group = &world.groups[pod.group];
    let name = body["metadata"]["name"].clone();
    let labels = &mut body["metadata"]["labels"];
    labels["tier"] = json!(group.tier);
    labels["track"] = json!(if pod.canary { "canary" } else { "stable" });
    labels["statefulset.kubernetes.io/pod-name"] = name.clone();
    let dns = |protocol| json!({ "name": "dns", "containerPort": 5353, "protocol": protocol });
    let spec = &mut body["spec"];
    if let Some(ports) = spec["containers"][0]["ports"].as_array_mut() {
        ports.push(dns("UDP"));
    }
    if let Some(containers) = spec["containers"].as_array_mut() {
        containers.push(json!({ "name": "dns", "image": "example.com/dns:1", "ports": [dns("TCP")] }));
    }
    let proxy = |port: u16| json!([{ "name": "proxy", "containerPort": port, "protocol": "TCP" }]);
    spec["initContainers"] = json!([
        // An init container that ends has the name of the sidecar's port, too, and must not be taken.
        { "name": "setup", "image": "example.com/setup:1", "ports": proxy(1) },
        { "name": "proxy", "image": "example.com/proxy:1", "restartPolicy": "Always", "ports": proxy(15001) },
    ]);
    if group.kind.names_pods() {
        spec["hostname"] = name;
        spec["subdomain"] = json!(group.name);
    }
}

/// The addresses of a pod, of each of its families.
fn pod_ips(world: &World, pod: &Pod) -> Vec<IpAddr> {
    let families = world.groups[pod.group].kind.families().iter();
    families.map(|family| pod_ip(pod.number, *family)).collect()
}

/// The status of a pod that runs, as its kubelet reports it first. Serves as a patch.
pub(super) fn first_status(world: &World, pod: &Pod, ready: bool) -> Value {
    let now = now();
    let mut patch = pod_status("Running", &pod_ips(world, pod), ready, &now);
    let status = &mut patch["status"];
    status["conditions"] = readiness(ready)["status"]["conditions"].take();
    status["hostIP"] = json!("172.16.0.1");
    status["startTime"] = json!(now);
    status["containerStatuses"] = json!([{
        "name": "main",
        "ready": ready,
        "started": true,
        "restartCount": 0,
        "image": "example.com/app:2",
        "imageID": format!("example.com/app@sha256:{:064x}", world.groups[pod.group].size),
        "containerID": format!("containerd://{:064x}", pod.number),
        "state": { "running": { "startedAt": now } },
    }]);
    patch
}

/// The conditions of a pod that runs. Serves as a patch.
fn readiness(ready: bool) -> Value {
    let now = now();
    json!({
        "status": {
            "conditions": [
                condition("Initialized", true, &now),
                condition("Ready", ready, &now),
                condition("ContainersReady", ready, &now),
                condition("PodScheduled", true, &now),
            ],
        },
    })
}

/// The patch that brings a pod to that state.
pub(super) fn pod_patch(world: &World, pod: &Pod, state: State) -> Value {
    match (pod.state, state) {
        (State::Pending, State::Running { ready }) => first_status(world, pod, ready),
        (_, State::Running { ready } | State::Ending { ready }) => readiness(ready),
        (_, State::Pending | State::Gone) => json!({}),
    }
}

fn now() -> String {
    seconds(Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::phase::{Profile, Tuning};
    use crate::run::plan::{Plan, Source};
    use crate::run::sizes::SizeFlags;

    fn world() -> World {
        let sizes = SizeFlags {
            pods: Some(1000),
            services: Some(60),
            namespaces: Some(3),
            nodes: Some(12),
            ..SizeFlags::default()
        };
        let plan = Plan::new(
            &Source::Profile(Profile::Demo),
            &sizes,
            &Tuning::default(),
            Some(1),
        )
        .unwrap();
        World::new(&plan, "r")
    }

    #[test]
    fn a_demo_has_an_example_of_everything() {
        let world = world();
        let services: Vec<Value> = world.services.iter().map(|it| service(&world, it)).collect();
        let some = |what: &str, is: &dyn Fn(&Value) -> bool| {
            assert!(services.iter().any(is), "no Service {what}");
        };
        some("requires both families", &|it| {
            it["spec"]["ipFamilyPolicy"] == "RequireDualStack"
        });
        some("prefers both families, IPv6 first", &|it| {
            it["spec"]["ipFamilyPolicy"] == "PreferDualStack" && it["spec"]["ipFamilies"][0] == "IPv6"
        });
        some("has IPv6 alone", &|it| {
            it["spec"]["ipFamilies"] == json!(["IPv6"])
        });
        let is_headless = |it: &Value| it["spec"]["clusterIP"] == "None";
        some("is headless with ports", &|it| {
            is_headless(it) && it["spec"]["ports"] != json!([])
        });
        some("is headless without ports", &|it| {
            is_headless(it) && it["spec"]["ports"] == json!([])
        });
        some("publishes pods that are not ready", &|it| {
            it["spec"]["publishNotReadyAddresses"] == true
        });
        for distribution in ["PreferClose", "PreferSameZone", "PreferSameNode"] {
            some(distribution, &|it| {
                it["spec"]["trafficDistribution"] == distribution
            });
        }
        let annotation = |it: &Value, key: &str| it["metadata"]["annotations"][key].clone();
        let deprecated = "service.kubernetes.io/topology-aware-hints";
        let current = "service.kubernetes.io/topology-mode";
        some("shares its endpoints over zones", &|it| {
            annotation(it, current) == "Auto" && annotation(it, deprecated).is_null()
        });
        some("has a deprecated annotation that decides", &|it| {
            annotation(it, deprecated) == "Disabled" && it["spec"]["trafficDistribution"].is_string()
        });
        some("has no selector", &|it| {
            it["spec"].get("selector").is_none() && it["spec"]["type"] != "ExternalName"
        });
        some("is an ExternalName", &|it| it["spec"]["type"] == "ExternalName");
    }

    #[test]
    fn pods_differ_in_their_ports_and_families_and_some_have_two_services() {
        let world = world();
        let bodies: Vec<Value> = world.pods().map(|it| pod(&world, it)).collect();
        let main = |body: &Value| body["spec"]["containers"][0]["ports"][0]["containerPort"].clone();
        for number in [PORT, OLD_PORT] {
            assert!(bodies.iter().any(|body| main(body) == number), "{number}");
        }
        let ips = |count| world.pods().any(|pod| pod_ips(&world, pod).len() == count);
        assert!(ips(1) && ips(2));
        assert!(world.pods().any(|pod| pod_ips(&world, pod)[0].is_ipv6()));
        let services = |pod| {
            let sets = world.places(pod).into_iter().map(|place| place.set.0);
            sets.collect::<std::collections::BTreeSet<_>>().len()
        };
        assert!(world.pods().any(|pod| services(pod) > 1));
        assert!(bodies.iter().any(|body| body["spec"]["hostname"].is_string()));
    }
}
