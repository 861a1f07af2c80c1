//! The bodies of the demo's objects, as the API server gets them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::world::{Kind, Node, Pod, Service, TRACK, World};

const MAIN_PORT: u16 = 8080;
const OLD_MAIN_PORT: u16 = 8000;

pub(super) fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

pub(super) fn node(node: &Node) -> Value {
    let capacity = json!({ "cpu": node.cpu, "memory": "64Gi", "pods": "250" });
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "labels": { "kubernetes.io/hostname": node.name, "topology.kubernetes.io/zone": node.zone },
        },
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{ "type": "Ready", "status": "True", "reason": "KubeletReady" }],
        },
    })
}

pub(super) fn service(world: &World, service: &Service) -> Value {
    let mut spec = json!({ "ports": service_ports(service) });
    if !service.selector.is_empty() {
        spec["selector"] = selector(service);
    }
    match service.kind {
        Kind::ExternalName => {
            spec = json!({ "type": "ExternalName", "externalName": "example.com" });
        }
        Kind::DualStack => {
            spec["ipFamilyPolicy"] = json!("RequireDualStack");
            spec["ipFamilies"] = json!(["IPv4", "IPv6"]);
        }
        Kind::PreferDualStack => {
            spec["ipFamilyPolicy"] = json!("PreferDualStack");
            spec["ipFamilies"] = json!(["IPv6", "IPv4"]);
        }
        Kind::Ipv6 => {
            spec["ipFamilyPolicy"] = json!("SingleStack");
            spec["ipFamilies"] = json!(["IPv6"]);
        }
        _ => {}
    }
    if service.is_headless() {
        spec["clusterIP"] = json!("None");
    }
    if service.publishes_not_ready() {
        spec["publishNotReadyAddresses"] = json!(true);
    }
    if let Some(distribution) = service.distribution {
        spec["trafficDistribution"] = json!(distribution);
    }
    let annotations = match service.kind {
        Kind::Balanced => json!({ "service.kubernetes.io/topology-mode": "Auto" }),
        // The deprecated annotation rules out the other one, which leaves the distribution.
        Kind::Near if service.distribution == Some("PreferSameZone") => json!({
            "service.kubernetes.io/topology-aware-hints": "Disabled",
            "service.kubernetes.io/topology-mode": "Auto",
        }),
        _ => json!({}),
    };
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": service.name,
            "namespace": world.namespaces[service.namespace],
            "labels": service_labels(service),
            "annotations": annotations,
        },
        "spec": spec,
    })
}

/// The Service's labels; the patch of a label edit, too.
pub(super) fn service_labels(service: &Service) -> Value {
    let mut labels = json!({ "app.kubernetes.io/name": service.name, "team": "demo" });
    if service.edits.label > 0 {
        labels["revision"] = json!(service.edits.label.to_string());
    }
    labels
}

fn selector(service: &Service) -> Value {
    service
        .selector
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect()
}

/// The patch of a selector edit, which takes away what is no longer selected by.
pub(super) fn selector_patch(service: &Service) -> Value {
    let mut patch = json!({ TRACK: null });
    for (key, value) in &service.selector {
        patch[*key] = json!(value);
    }
    patch
}

/// The Service's ports, with those that edits added.
pub(super) fn service_ports(service: &Service) -> Value {
    let http = json!({ "name": "http", "port": 80, "targetPort": MAIN_PORT, "protocol": "TCP" });
    let mut ports = match service.kind {
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
    if service.edits.extra_port {
        ports.push(json!({ "name": "extra", "port": 7000, "targetPort": 7000, "protocol": "TCP" }));
    }
    json!(ports)
}

pub(super) fn pod(world: &World, pod: &Pod) -> Value {
    let workload = &world.workloads[pod.workload];
    let label = |key| world.label(pod, key);
    let mut spec = json!({
        "nodeName": world.nodes[pod.node].name,
        "terminationGracePeriodSeconds": 30,
        "initContainers": [
            // An init container that ends has the name of the sidecar's port, too, and must not be taken.
            { "name": "setup", "image": "example.com/setup:1", "ports": [{ "name": "proxy", "containerPort": 1 }] },
            {
                "name": "proxy",
                "image": "example.com/proxy:1",
                "restartPolicy": "Always",
                "ports": [{ "name": "proxy", "containerPort": 15001, "protocol": "TCP" }],
            },
        ],
        "containers": containers(pod),
        "tolerations": [
            { "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 },
            { "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 },
        ],
        "volumes": [{ "name": "config", "configMap": { "name": workload.app } }],
    });
    if let Some(subdomain) = &workload.subdomain {
        spec["hostname"] = json!(pod.name);
        spec["subdomain"] = json!(subdomain);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.name,
            "namespace": world.namespaces[workload.namespace],
            "labels": {
                "app": label("app"),
                "tier": label("tier"),
                "track": label("track"),
                "statefulset.kubernetes.io/pod-name": pod.name,
            },
            "annotations": { "example.com/config-hash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c" },
        },
        "spec": spec,
    })
}

fn containers(pod: &Pod) -> Value {
    let main = if pod.old { OLD_MAIN_PORT } else { MAIN_PORT };
    let mut ports = vec![
        json!({ "name": "http", "containerPort": main, "protocol": "TCP" }),
        json!({ "name": "dns", "containerPort": 5353, "protocol": "UDP" }),
    ];
    if !pod.old {
        ports.push(json!({ "name": "metrics", "containerPort": 9090, "protocol": "TCP" }));
    }
    json!([
        {
            "name": "main",
            "image": "example.com/app:2",
            "args": ["--listen", "0.0.0.0"],
            "env": [{ "name": "POD_IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } }],
            "ports": ports,
            "resources": { "requests": { "cpu": "100m", "memory": "128Mi" }, "limits": { "memory": "256Mi" } },
            "readinessProbe": { "httpGet": { "path": "/ready", "port": "http" }, "periodSeconds": 5 },
            "volumeMounts": [{ "name": "config", "mountPath": "/etc/app" }],
        },
        {
            "name": "dns",
            "image": "example.com/dns:1",
            "ports": [{ "name": "dns", "containerPort": 5353, "protocol": "TCP" }],
        },
    ])
}

/// The pod's status, as its kubelet reports it. Serves as a patch.
pub(super) fn pod_status(pod: &Pod) -> Value {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = |kind: &str, status: bool| {
        let status = if status { "True" } else { "False" };
        json!({ "type": kind, "status": status, "lastTransitionTime": now })
    };
    let ips: Vec<Value> = pod.ips.iter().map(|ip| json!({ "ip": ip })).collect();
    json!({
        "status": {
            "phase": "Running",
            "conditions": [
                condition("Initialized", true),
                condition("Ready", pod.ready),
                condition("ContainersReady", pod.ready),
                condition("PodScheduled", true),
            ],
            "hostIP": "172.16.0.1",
            "podIP": pod.ips[0],
            "podIPs": ips,
            "startTime": now,
            "containerStatuses": [{
                "name": "main",
                "ready": pod.ready,
                "started": true,
                "restartCount": 0,
                "image": "example.com/app:2",
                "imageID": "example.com/app@sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
                "containerID": "containerd://e258d248fda94c63753607f7c4494ee0fcbe92f1a76bfdac795c9d84101eb317",
                "state": { "running": { "startedAt": now } },
            }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::sizes::Sizes;

    fn world() -> World {
        let sizes = Sizes {
            pods: 1000,
            services: 60,
            namespaces: 3,
            nodes: 12,
        };
        World::generate(&sizes, 1)
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
        let bodies: Vec<Value> = world.idle.iter().map(|it| pod(&world, it)).collect();
        let main = |body: &Value| body["spec"]["containers"][0]["ports"][0]["containerPort"].clone();
        for number in [MAIN_PORT, OLD_MAIN_PORT] {
            assert!(bodies.iter().any(|body| main(body) == number), "{number}");
        }
        let ips = |count| world.idle.iter().any(|pod| pod.ips.len() == count);
        assert!(ips(1) && ips(2));
        assert!(world.idle.iter().any(|pod| pod.ips[0].is_ipv6()));
        let services = |pod| {
            let sets = world.published_in(pod).map(|(service, _)| service);
            sets.collect::<std::collections::BTreeSet<_>>().len()
        };
        assert!(world.idle.iter().any(|pod| services(pod) > 1));
        assert!(bodies.iter().any(|body| body["spec"]["hostname"].is_string()));
    }

    #[test]
    fn every_zone_has_nodes_of_every_size() {
        let world = world();
        let kinds: std::collections::BTreeSet<_> =
            world.nodes.iter().map(|node| (node.zone, node.cpu)).collect();
        assert_eq!(kinds.len(), 12);
        assert_eq!(node(&world.nodes[3])["status"]["allocatable"]["cpu"], "4.5");
    }
}
