//! The oracle against the recorded scenarios: what upstream's controllers published is right in its eyes, and
//! what differs from that is not. So it cannot have the controller's mistakes without being found out here.
#![allow(
    clippy::unwrap_used,
    reason = "clippy does not see that helpers of a test are tests"
)]

use kube::Client;
use loadtest::oracle::{self, Cluster, Options, Outputs};
use memory_apiserver::{ApiServer, Config};
use scenario::{Api, carry_out};
use serde_json::{Value, json};
use std::path::PathBuf;

/// States in which upstream left what is not right.
const EXCEPTIONS: [&str; 2] = [
    // A quota refuses the slice that one of the pods is to move to.
    "create-refused-moves step 1",
    // It takes the slice that another controller manages now for one that its cache has yet to show, and waits for it.
    "slice-disowned step 1",
];

/// A recorded scenario, played on an API server that no controller works on.
struct Play {
    api: Api,
    namespace: String,
    limit: usize,
}

fn scenarios() -> Vec<Value> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/goldens");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    assert!(files.len() >= 100, "no scenario is missing");
    let read = |path: &PathBuf| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    files.iter().map(read).collect()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn name(value: &Value) -> &str {
    value["name"].as_str().unwrap()
}

// === impl Play ===

impl Play {
    async fn begin(scenario: &Value) -> Self {
        let server = ApiServer::new(Config::default().gc(false).seed(1));
        let play = Self {
            api: Api(Client::new(server.service(), "default")),
            namespace: format!("g-{}", name(scenario)),
            limit: if scenario["config"] == "max4" { 4 } else { 100 },
        };
        let namespace = json!({ "kind": "Namespace", "metadata": { "name": play.namespace } });
        play.api.create(&namespace, "").await.unwrap();
        play
    }

    /// Does what was done to the inputs. Outputs are as recorded, no matter which client wrote them.
    async fn operate(&self, operation: &Value) {
        let object = ["create", "patch", "delete"]
            .into_iter()
            .find_map(|verb| operation.get(verb));
        let is_input =
            |object: &Value| ["Node", "Pod", "Service"].contains(&object["kind"].as_str().unwrap());
        if object.is_some_and(is_input) || operation.get("delete_namespace").is_some() {
            carry_out(&self.api, &self.namespace, operation).await.unwrap();
        }
    }

    /// The inputs as they are, and the outputs as recorded.
    async fn cluster(&self, recorded: &Value) -> Cluster {
        let mut cluster = Cluster::read(&self.api.0, Outputs::ALL).await.unwrap();
        assert!(cluster.slices.is_empty() && cluster.endpoints.is_empty());
        // Records have names in place of what no two runs share.
        for pod in &mut cluster.pods {
            pod.metadata.uid = Some(format!("Pod/{}", pod.metadata.name.as_ref().unwrap()));
        }
        for service in &mut cluster.services {
            service.metadata.uid = Some(format!("Service/{}", service.metadata.name.as_ref().unwrap()));
        }
        let recorded: Value =
            serde_json::from_str(&recorded.to_string().replace("<ns>", &self.namespace)).unwrap();
        let object = |mut output: Value, name: String| {
            output["metadata"] = json!({
                "namespace": self.namespace,
                "name": name,
                "labels": output["labels"],
                "annotations": output["annotations"],
                "ownerReferences": output["ownerReferences"],
            });
            output
        };
        for endpoints in items(&recorded["endpoints"]) {
            let object = object(endpoints.clone(), name(endpoints).to_owned());
            cluster.endpoints.push(serde_json::from_value(object).unwrap());
        }
        let slices = items(&recorded["endpointslices"]).cloned();
        // Where it is free which slice holds what, only all that have the same ports were recorded together.
        let chunks = items(&recorded["groups"]).flat_map(|group| {
            let all = group["endpoints"].as_array().unwrap();
            let mut chunks: Vec<&[Value]> = all.chunks(self.limit).collect();
            if all.is_empty() {
                chunks.push(all);
            }
            let slice = |endpoints: &[Value]| {
                let mut slice = group.clone();
                slice["endpoints"] = endpoints.into();
                slice
            };
            chunks.into_iter().map(slice).collect::<Vec<_>>()
        });
        for (number, slice) in slices.chain(chunks).enumerate() {
            let object = object(slice, format!("slice-{number}"));
            cluster.slices.push(serde_json::from_value(object).unwrap());
        }
        cluster
    }
}

/// Plays every scenario, and looks at the cluster after each of its steps.
async fn each_state(mut look: impl FnMut(&str, Cluster, &Options)) {
    for scenario in scenarios() {
        let play = Play::begin(&scenario).await;
        for (number, step) in items(&scenario["steps"]).enumerate() {
            for operation in items(&step["do"]) {
                play.operate(operation).await;
            }
            let cluster = play.cluster(&step["then"]).await;
            let options = Options {
                max_endpoints_per_slice: play.limit,
                ..Options::default()
            };
            look(&format!("{} step {number}", name(&scenario)), cluster, &options);
        }
    }
}

#[tokio::test]
async fn what_upstream_published_is_right() {
    let (mut states, mut wrong) = (0, Vec::new());
    each_state(|state, cluster, options| {
        let report = cluster.check(options);
        states += 1;
        let excused = EXCEPTIONS.contains(&state);
        if report.is_correct() == excused {
            wrong.push(format!("{state}: {report}"));
        }
    })
    .await;
    assert!(states >= 300, "{states} states were looked at");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Spoils each state that was right, and in which there is something to spoil.
async fn assert_is_found(outputs: Outputs, spoil: fn(&mut Cluster) -> bool) {
    let (mut spoilt, mut missed) = (0, Vec::new());
    each_state(|state, mut cluster, options| {
        let options = Options {
            outputs,
            ..options.clone()
        };
        let before = cluster.check(&options).differences.len();
        if !EXCEPTIONS.contains(&state) && spoil(&mut cluster) {
            spoilt += 1;
            if cluster.check(&options).differences.len() <= before {
                missed.push(state.to_owned());
            }
        }
    })
    .await;
    assert!(spoilt >= 150, "{spoilt} states were spoilt");
    assert!(missed.is_empty(), "{missed:?}");
}

/// The Services whose outputs are the controller's business.
fn managed(cluster: &Cluster) -> Vec<String> {
    let is_managed = |service: &&k8s_openapi::api::core::v1::Service| {
        let spec = service.spec.as_ref().unwrap();
        let selects = spec
            .selector
            .as_ref()
            .is_some_and(|selector| !selector.is_empty());
        selects
            && spec.type_.as_deref() != Some("ExternalName")
            && service.metadata.deletion_timestamp.is_none()
    };
    let services = cluster.services.iter().filter(is_managed);
    services
        .map(|service| service.metadata.name.clone().unwrap())
        .collect()
}

#[tokio::test]
async fn an_address_that_upstream_published_and_is_gone_is_missed() {
    assert_is_found(Outputs::ENDPOINTS, |cluster| {
        let managed = managed(cluster);
        let mut objects = cluster
            .endpoints
            .iter_mut()
            .filter(|object| managed.contains(object.metadata.name.as_ref().unwrap()));
        let addresses = objects.find_map(|object| {
            let subset = object.subsets.as_mut()?.first_mut()?;
            let addresses = subset.addresses.as_mut().or(subset.not_ready_addresses.as_mut());
            addresses.filter(|addresses| !addresses.is_empty())
        });
        addresses.is_some_and(|addresses| addresses.pop().is_some())
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_that_upstream_published_and_is_gone_is_missed() {
    assert_is_found(Outputs::SLICES, |cluster| {
        let managed = managed(cluster);
        let nodes: Vec<_> = cluster.nodes.iter().map(|node| &node.metadata.name).collect();
        let endpoint = cluster.slices.iter_mut().find_map(|slice| {
            let labels = slice.metadata.labels.as_ref()?;
            let is_ours = labels.get("endpointslice.kubernetes.io/managed-by")?
                == "endpointslice-controller.k8s.io"
                && managed.contains(labels.get("kubernetes.io/service-name")?);
            let endpoints = slice.endpoints.as_mut().filter(|_| is_ours)?;
            // Without its Node, an endpoint may be there or not.
            let last = endpoints
                .iter()
                .rposition(|endpoint| nodes.contains(&&endpoint.node_name))?;
            Some(endpoints.remove(last))
        });
        endpoint.is_some()
    })
    .await;
}

#[tokio::test]
async fn a_cluster_can_be_checked_through_a_client() {
    let play = Play::begin(&json!({ "name": "alone" })).await;
    let client = &play.api.0;
    let service = json!({
        "kind": "Service",
        "metadata": { "name": "s" },
        "spec": { "selector": { "app": "a" }, "ports": [{ "port": 80 }] },
    });
    play.operate(&json!({ "create": service })).await;

    let report = oracle::check(client, &Options::default()).await.unwrap();
    let lines: Vec<String> = report.to_string().lines().map(str::to_owned).collect();
    let expected = [
        "wrong: 2 differences in 1 services, 0 endpoints, 0 slices, 0 Endpoints objects",
        "  g-alone/s Endpoints: missing",
        "  g-alone/s IPv4 placeholder slice: missing",
    ];
    assert_eq!(lines, expected);
}

/// A Service with a pod, in two namespaces of three; nothing is published.
const UNPUBLISHED: &str = r#"
{apiVersion: v1, kind: Namespace, metadata: {name: NS, labels: {run: a}}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: NS, labels: {run: a}},
 spec: {selector: {app: web}, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-1, namespace: NS, labels: {run: a, app: web}},
 spec: {nodeName: node-1, containers: [{name: main, image: "example.com/a:1"}]},
 status: {phase: Running, podIP: ADDRESS, podIPs: [{ip: ADDRESS}], conditions: [{type: Ready, status: "True"}]}}
---
{apiVersion: v1, kind: Endpoints, metadata: {name: left, namespace: NS, labels: {run: a}}}
"#;

#[tokio::test]
async fn a_cluster_read_by_namespaces_has_the_same_differences() {
    let server = ApiServer::new(Config::default().gc(false).seed(1));
    server
        .load("{apiVersion: v1, kind: Node, metadata: {name: node-1, labels: {run: a}}}")
        .unwrap();
    for (namespace, ip) in [("one", "10.1.0.1"), ("two", "10.1.0.2")] {
        let objects = UNPUBLISHED.replace("NS", namespace).replace("ADDRESS", ip);
        server.load(&objects).unwrap();
    }
    server
        .load("{apiVersion: v1, kind: Service, metadata: {name: alien, namespace: three}, spec: {selector: {a: b}, ports: [{port: 1}]}}")
        .unwrap();
    let client = Client::new(server.service(), "default");
    let options = Options::default();
    let at_once = oracle::check_labelled(&client, &options, "run=a").await.unwrap();
    let by_namespaces = oracle::check_by_namespaces(&client, &options, "run=a")
        .await
        .unwrap();
    let sorted = |report: &oracle::Report| {
        let mut lines: Vec<String> = report.differences.iter().map(ToString::to_string).collect();
        lines.sort();
        lines
    };
    assert!(
        sorted(&at_once).iter().any(|line| line.contains("10.1.0.2")),
        "{at_once}"
    );
    assert_eq!(sorted(&at_once), sorted(&by_namespaces));
    let counts = |report: &oracle::Report| (report.services, report.endpoints, report.slices, report.objects);
    assert_eq!(counts(&at_once), (2, 2, 0, 2));
    assert_eq!(counts(&by_namespaces), counts(&at_once));
}
