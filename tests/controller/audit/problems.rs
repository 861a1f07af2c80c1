//! `endpointd audit --problems`: Services that are published as they should be, and serve no client, or not as
//! expected.

use super::{Scope, audit, plain};
use crate::command::{endpointd, serve};
use crate::custom::{ANNOTATION, CUSTOM};
use crate::world::{World, dual_pod, ip, node, pod, ready_condition, service, service_with, text};
use endpointd::cluster::read::Reader;
use endpointd::core::outputs::Outputs;
use endpointd::inspect::findings::{Reason, Report};
use kube::Client;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

async fn audited(world: &World) -> Report {
    let scope = Scope {
        labels: None,
        namespace: None,
        settings: world.options.settings,
        settle: Duration::from_secs(1),
        problems: true,
    };
    let reader = Reader::new(Client::new(world.gate.clone(), "default"));
    audit(&reader, &scope).await.unwrap()
}

/// The problems that an audit finds. Everything must be in sync.
async fn found(world: &World) -> Vec<(Reason, String)> {
    let report = audited(world).await;
    assert!(report.is_in_sync(), "{}", plain(&report));
    let problems = report.problems.unwrap().into_iter();
    problems
        .map(|problem| (problem.reason, problem.message))
        .collect()
}

/// Returns the problems of these objects once a controller has published what it publishes. Node `n1` is in zone `z1`,
/// and `n2` in `z2`; `bare` has no zone.
async fn problems(objects: &[Value]) -> Vec<(Reason, String)> {
    problems_with(Outputs::ALL, objects).await
}

async fn problems_with(outputs: Outputs, objects: &[Value]) -> Vec<(Reason, String)> {
    let mut world = World::new(100);
    world.options.settings.outputs = outputs;
    world.nodes(2).await;
    world.make(node("bare", None, Some("4"))).await;
    for object in objects {
        world.make(object.clone()).await;
    }
    world.start_up().await;
    world.stop().await;
    found(&world).await
}

fn labelled(name: &str, labels: &Value) -> Value {
    let mut pod = pod(name, "10.1.0.1", "n1");
    pod["metadata"]["labels"] = labels.clone();
    pod
}

fn with_status(name: &str, status: &Value) -> Value {
    let mut pod = pod(name, "10.1.0.1", "n1");
    for (key, value) in status.as_object().unwrap() {
        pod["status"][key] = value.clone();
    }
    pod
}

fn unready(name: &str) -> Value {
    with_status(name, &json!({"conditions": [ready_condition(false, 1)]}))
}

fn without_ip(name: &str) -> Value {
    with_status(
        name,
        &json!({"phase": "Pending", "conditions": [], "podIP": null, "podIPs": null}),
    )
}

fn with_selector(selector: &Value) -> Value {
    let mut service = service();
    service["spec"]["selector"] = selector.clone();
    service
}

/// Asserts that there is one problem, and what is said of it.
fn assert_one(found: &[(Reason, String)], reason: Reason, says: &str) {
    assert_eq!(found, [(reason, says.to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_healthy_service_has_none() {
    let dual = json!({"metadata": {"name": "t"}, "spec": {"ipFamilyPolicy": "RequireDualStack",
        "ipFamilies": ["IPv4", "IPv6"], "trafficDistribution": "PreferClose",
        "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}});
    let healthy = [
        service(),
        service_with(&dual),
        dual_pod("p1", "10.1.0.1", "fd00::1", "n1"),
        dual_pod("p2", "10.1.0.2", "fd00::2", "n2"),
        // One pod that is not ready, or has no address yet, is as usual.
        unready("p3"),
        without_ip("p4"),
    ];
    assert_eq!(problems(&healthy).await, []);
    // No controller publishes pods for these.
    let mut bare = service();
    bare["spec"] = json!({"ports": [{"port": 80}]});
    assert_eq!(problems(&[bare]).await, []);
    let external = json!({"spec": {"type": "ExternalName", "externalName": "example.com"}});
    assert_eq!(problems(&[service_with(&external)]).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_selector_that_matches_nothing_says_what_it_nearly_matches() {
    let found = problems(&[service()]).await;
    assert_one(
        &found,
        Reason::NoPodsMatch,
        "there is no running pod in the namespace",
    );

    let two = json!({"app": "web", "tier": "front"});
    let service = with_selector(&two);
    let found = problems(&[
        service.clone(),
        labelled("p1", &json!({"app": "wbe", "tier": "front"})),
        labelled("p2", &json!({"app": "wbe", "tier": "front"})),
        labelled("p3", &json!({"app": "api", "tier": "back"})),
    ])
    .await;
    assert_one(
        &found,
        Reason::NoPodsMatch,
        "2 pods nearly match, but for one label: app=wbe where the selector has app=web (p1, p2)",
    );
    // A key that is missing.
    let found = problems(&[service.clone(), labelled("p1", &json!({"app": "web"}))]).await;
    assert_one(
        &found,
        Reason::NoPodsMatch,
        "1 pod nearly matches, but for one label: no label tier where the selector has tier=front (p1)",
    );
    // A pod that has ended does not count, even if it matches.
    let mut ended = labelled("p1", &two);
    ended["status"]["phase"] = json!("Succeeded");
    let found = problems(&[service.clone(), ended]).await;
    assert_one(
        &found,
        Reason::NoPodsMatch,
        "there is no running pod in the namespace",
    );
    // No pod is near.
    let found = problems(&[service, labelled("p1", &json!({"name": "x"}))]).await;
    assert_one(
        &found,
        Reason::NoPodsMatch,
        "no pod in the namespace has app=web; the same is so for 1 other label",
    );
}

#[tokio::test(start_paused = true)]
async fn names_are_few_however_many_pods_nearly_match() {
    let pods = (1..=30).map(|i| labelled(&format!("p{i:02}"), &json!({"app": "b", "tier": "front"})));
    let mut objects: Vec<_> = pods.collect();
    objects.push(with_selector(&json!({"app": "a", "tier": "front"})));
    let found = problems(&objects).await;
    assert_one(
        &found,
        Reason::NoPodsMatch,
        "30 pods nearly match, but for one label: app=b where the selector has app=a (such as p01, p02, p03)",
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_ready_endpoint_all_reasons_are_counted() {
    let found = problems(&[service(), unready("p1"), unready("p2"), without_ip("p3")]).await;
    assert_one(
        &found,
        Reason::NoReadyEndpoints,
        "of 3 pods, none is ready: 2 not ready, 1 without an IP",
    );
    let mut terminating = pod("p1", "10.1.0.1", "n1");
    terminating["metadata"]["finalizers"] = json!(["example.com/wait"]);
    let mut world = World::new(100);
    world.nodes(1).await;
    world.make(service()).await;
    world.make(terminating).await;
    world.delete("Pod", "p1").await;
    world.start_up().await;
    world.stop().await;
    assert_one(
        &self::found(&world).await,
        Reason::NoReadyEndpoints,
        "of 1 pod, none is ready: 1 terminating",
    );
    // In one family of two.
    let dual = json!({"spec": {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]}});
    let found = problems(&[service_with(&dual), pod("p1", "10.1.0.1", "n1")]).await;
    assert_one(
        &found,
        Reason::NoReadyEndpoints,
        "IPv6: of 1 pod, none is ready: 1 without an IPv6 address",
    );
    // publishNotReadyAddresses publishes all as ready.
    let tolerant = json!({"spec": {"publishNotReadyAddresses": true}});
    assert_eq!(problems(&[service_with(&tolerant), unready("p1")]).await, []);
}

#[tokio::test(start_paused = true)]
async fn pods_on_nodes_that_do_not_exist_are_named_with_the_node() {
    let objects = [
        service(),
        pod("p1", "10.1.0.1", "n1"),
        pod("p2", "10.1.0.2", "gone"),
    ];
    assert_one(
        &problems(&objects).await,
        Reason::UnknownNodes,
        "1 pod is on a node that does not exist, which keeps new endpoints out: p2 on gone",
    );
    // Endpoints do not look at nodes.
    let endpoints = Outputs {
        slices: false,
        mirrored: false,
        custom: false,
        ..Outputs::ALL
    };
    assert_eq!(problems_with(endpoints, &objects).await, []);
    let found = problems(&[service(), pod("p2", "10.1.0.2", "gone")]).await;
    assert_eq!(
        found,
        [
            (
                Reason::NoReadyEndpoints,
                "of 1 pod, none is ready: 1 on a node that does not exist".to_owned()
            ),
            (
                Reason::UnknownNodes,
                "1 pod is on a node that does not exist, which keeps new endpoints out: p2 on gone"
                    .to_owned()
            ),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_named_port_that_no_container_has() {
    let port = |target: &str, protocol: &str| json!({"spec": {"ports": [{"name": "x", "port": 80, "targetPort": target, "protocol": protocol}]}});
    let pods = [pod("p1", "10.1.0.1", "n1"), pod("p2", "10.1.0.2", "n2")];
    let with = |service: Value| [&[service][..], &pods].concat();
    assert_one(
        &problems(&with(service_with(&port("web", "TCP")))).await,
        Reason::PortNotFound,
        "no container of its 2 pods has a port named web/TCP",
    );
    // The protocol counts.
    assert_one(
        &problems(&with(service_with(&port("http", "UDP")))).await,
        Reason::PortNotFound,
        "no container of its 2 pods has a port named http/UDP",
    );
    assert_eq!(problems(&with(service_with(&port("http", "TCP")))).await, []);
    // One pod that has it is enough.
    let mut other = pod("p3", "10.1.0.3", "n1");
    other["spec"]["containers"][0]["ports"][0]["name"] = json!("web");
    let objects = [with(service_with(&port("web", "TCP"))), vec![other]].concat();
    assert_eq!(problems(&objects).await, []);
}

#[tokio::test(start_paused = true)]
async fn endpoints_are_truncated_beyond_a_thousand_addresses() {
    let mut objects = vec![service()];
    objects.extend((0..1000).map(|i| pod(&format!("p{i}"), &ip(i), "n1")));
    assert_eq!(problems(&objects).await, []);
    objects.push(pod("last", "10.2.0.1", "n1"));
    assert_one(
        &problems(&objects).await,
        Reason::EndpointsTruncated,
        "1001 addresses, of which Endpoints hold 1000; clients that read slices get all",
    );
}

#[tokio::test(start_paused = true)]
async fn hints_that_cannot_be_given_say_why() {
    let close = json!({"spec": {"trafficDistribution": "PreferClose"}});
    let found = problems(&[
        service_with(&close),
        pod("p1", "10.1.0.1", "n1"),
        pod("p2", "10.1.0.2", "bare"),
    ])
    .await;
    assert_one(
        &found,
        Reason::HintsUnavailable,
        "IPv4: the nodes of 1 of 2 ready endpoints have no zone",
    );
    let auto = json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": "Auto"}}});
    let found = problems(&[service_with(&auto), pod("p1", "10.1.0.1", "n1")]).await;
    assert_one(
        &found,
        Reason::HintsUnavailable,
        "IPv4: Insufficient Node information: allocatable CPU or zone not specified on one or more nodes",
    );
}

/// A slice for Service `s` with these addresses, of a manager or of none.
fn foreign(name: &str, manager: Option<&str>, addresses: &[&str]) -> Value {
    let endpoints: Vec<_> = addresses
        .iter()
        .map(|address| json!({"addresses": [address], "conditions": {"ready": true}}))
        .collect();
    let mut labels = json!({"kubernetes.io/service-name": "s"});
    if let Some(manager) = manager {
        labels["endpointslice.kubernetes.io/managed-by"] = json!(manager);
    }
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": endpoints,
        "metadata": {"name": name, "labels": labels}})
}

#[tokio::test(start_paused = true)]
async fn slices_of_other_managers_with_addresses_of_no_pod_are_named() {
    let mut other = service();
    other["metadata"]["name"] = json!("unselective");
    other["spec"].as_object_mut().unwrap().remove("selector");
    let mut elsewhere = foreign("elsewhere", Some("me"), &["10.9.9.9"]);
    elsewhere["metadata"]["labels"]["kubernetes.io/service-name"] = json!("unselective");
    let found = problems(&[
        service(),
        pod("p1", "10.1.0.1", "n1"),
        unready("p2"),
        // Whoever writes it, what it says is the case.
        foreign("same", Some("me"), &["10.1.0.1"]),
        foreign("given", Some("me"), &["10.1.0.1", "10.9.9.9", "10.9.9.8"]),
        foreign("bare", None, &["10.9.9.7"]),
        other,
        elsewhere,
    ])
    .await;
    assert_one(
        &found,
        Reason::ForeignSlices,
        "foreign slice bare (managed by nobody) publishes 10.9.9.7 of no pod; foreign slice given (managed by me) publishes \
         10.9.9.8, 10.9.9.9 of no pod",
    );
    // Nor is any address one of a pod where there are no pods.
    let found = problems(&[service(), foreign("left", Some("me"), &["10.1.0.1"])]).await;
    assert_eq!(
        found,
        [
            (
                Reason::ForeignSlices,
                "foreign slice left (managed by me) publishes 10.1.0.1 of no pod".to_owned()
            ),
            (
                Reason::NoPodsMatch,
                "there is no running pod in the namespace".to_owned()
            ),
        ]
    );
}

/// A slice that is given to another manager by its label keeps its addresses, whatever becomes of its pods.
#[tokio::test(start_paused = true)]
async fn a_slice_that_was_given_away_is_a_problem_once_its_pods_are_gone() {
    let mut world = World::new(100);
    world.nodes(1).await;
    for object in [
        service(),
        pod("p1", "10.1.0.1", "n1"),
        pod("p2", "10.1.0.2", "n1"),
    ] {
        world.make(object).await;
    }
    world.start_up().await;
    let slice = text(&world.slices().await[0]["metadata"]["name"]);
    let given = json!({"metadata": {"labels": {"endpointslice.kubernetes.io/managed-by": "me"}}});
    world.patch("EndpointSlice", &slice, given).await;
    world.rest().await;
    world.stop().await;
    world.start_up().await;
    assert_eq!(found(&world).await, [], "its addresses are those of pods");
    world.delete("Pod", "p2").await;
    world.rest().await;
    world.stop().await;
    let says = format!("foreign slice {slice} (managed by me) publishes 10.1.0.2 of no pod");
    assert_one(&found(&world).await, Reason::ForeignSlices, &says);
}

fn annotated(annotations: &Value) -> Value {
    let mut service = service();
    service["metadata"]["annotations"] = annotations.clone();
    service["spec"].as_object_mut().unwrap().remove("selector");
    service
}

#[tokio::test(start_paused = true)]
async fn services_that_opted_in_have_the_same_problems() {
    let near = labelled("p1", &json!({"app": "wbe", "tier": "front"}));
    let found = problems_with(
        CUSTOM,
        &[
            annotated(&json!({ANNOTATION: "app=web,tier in (front,back)"})),
            near,
        ],
    )
    .await;
    assert_one(
        &found,
        Reason::NoPodsMatch,
        "1 pod nearly matches, but for one label: app=wbe where the selector has app=web (p1)",
    );
    let found = problems_with(CUSTOM, &[annotated(&json!({ANNOTATION: "app=a"})), unready("p1")]).await;
    assert_one(
        &found,
        Reason::NoReadyEndpoints,
        "of 1 pod, none is ready: 1 not ready",
    );
    let healthy = [
        annotated(&json!({ANNOTATION: "app=a"})),
        pod("p1", "10.1.0.1", "n1"),
    ];
    assert_eq!(problems_with(CUSTOM, &healthy).await, []);
    let found = problems_with(
        CUSTOM,
        &[
            annotated(&json!({ANNOTATION: "app=("})),
            pod("p1", "10.1.0.1", "n1"),
        ],
    )
    .await;
    let [(Reason::SelectorUnusable, says)] = &found[..] else {
        panic!("{found:?}")
    };
    assert!(
        says.starts_with("the selector in the annotation endpointd.io/selector is not used: "),
        "{says}"
    );
}

/// A problem that has gone by the second look is not reported.
#[tokio::test(start_paused = true)]
async fn a_problem_that_passes_is_not_reported() {
    let mut world = World::new(100);
    world.nodes(1).await;
    world.make(unready("p1")).await;
    world.make(service()).await;
    world.start_up().await;
    let report = tokio::join!(audited(&world), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        world.flip("p1", true, 5).await;
    })
    .0;
    assert_eq!(report.problems.unwrap(), []);
    world.flip("p1", false, 6).await;
    world.rest().await;
    world.stop().await;
    assert_eq!(found(&world).await.len(), 1);
}

/// Each Service is looked at once more, or its namespace is: the two ways find the same.
#[tokio::test(start_paused = true)]
async fn many_services_in_trouble_are_read_with_their_namespace() {
    let mut objects = vec![unready("p1")];
    for i in 0..25 {
        let mut service = service();
        service["metadata"]["name"] = json!(format!("s{i:02}"));
        if i % 2 == 0 {
            service["spec"]["selector"] = json!({"app": "none"});
        }
        objects.push(service);
    }
    let found = problems(&objects).await;
    assert_eq!(found.len(), 25);
    let reasons: BTreeSet<_> = found.iter().map(|(reason, _)| *reason).collect();
    assert_eq!(
        reasons,
        BTreeSet::from([Reason::NoPodsMatch, Reason::NoReadyEndpoints])
    );
}

#[tokio::test]
async fn the_command_reports_problems_only_if_asked_and_in_every_format() {
    let (handle, api) = serve().await;
    let url = handle.url();
    api.create(&service(), "default").await.unwrap();
    let running = crate::cluster::controller(handle.server(), crate::cluster::options(100));
    let look = async |more: &[&str]| {
        endpointd(&[&["audit", "--server", &url, "--settle=50ms"], more].concat()).await
    };
    let mut ended = look(&[]).await;
    for _ in 0..50 {
        if ended.code == Some(0) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        ended = look(&[]).await;
    }
    running.abort();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let json: Value = serde_json::from_str(&look(&["-o", "json"]).await.stdout).unwrap();
    assert_eq!((json.get("problems"), json.get("withProblems")), (None, None));

    let ended = look(&["--problems"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(
        ended.stdout,
        "SERVICE    PROBLEM      WHY\n\
         default/s  NoPodsMatch  there is no running pod in the namespace\n\n\
         1 Service in 1 namespace checked: 0 out of sync; 1 problem\n"
    );
    let coloured = look(&["--problems", "--color=always"]).await.stdout;
    assert!(coloured.contains("\u{1b}[33mNoPodsMatch"), "{coloured:?}");
    assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), ended.stdout);

    let ended = look(&["--problems", "-o", "json"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let json: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        (&json["inSync"], &json["withProblems"]),
        (&json!(true), &json!(1))
    );
    assert_eq!(
        json["problems"],
        json!([{"namespace": "default", "service": "s", "reason": "NoPodsMatch",
            "message": "there is no running pod in the namespace"}])
    );
}

/// An annotation on a Service with a selector does nothing: both databases were published, and no problem was listed.
#[tokio::test(start_paused = true)]
async fn an_annotation_that_does_nothing_is_a_problem_whoever_publishes() {
    let annotations = json!({ANNOTATION: "app=db", "endpointd.io/lease": "db"});
    let both = service_with(&json!({
        "metadata": {"name": "db", "annotations": annotations},
        "spec": {"selector": {"app": "db"}},
    }));
    let mut unusable = service_with(&json!({
        "metadata": {"name": "web", "annotations": {ANNOTATION: "app in web"}},
    }));
    unusable["spec"].as_object_mut().unwrap().remove("selector");
    let mut pod = labelled("db-0", &json!({"app": "db"}));
    pod["status"]["conditions"] = json!([ready_condition(true, 1)]);
    for outputs in [
        Outputs::ALL,
        Outputs {
            custom: true,
            ..Outputs::ALL
        },
    ] {
        let found = problems_with(outputs, &[both.clone(), unusable.clone(), pod.clone()]).await;
        assert_eq!(
            found,
            [
                (
                    Reason::AnnotationIgnored,
                    "endpointd.io/selector is ignored: the Service has a selector".to_owned()
                ),
                (
                    Reason::AnnotationUnknown,
                    "the annotation endpointd.io/lease is not known, and nothing is done about it; the known one is \
                     endpointd.io/selector"
                        .to_owned()
                ),
                (
                    Reason::SelectorUnusable,
                    "the selector in the annotation endpointd.io/selector is not used: column 8: found \"web\", expected \
                     \"(\""
                        .to_owned()
                ),
            ],
            "{outputs:?}"
        );
    }
}

#[tokio::test]
async fn slices_left_behind_are_a_problem_of_their_service() {
    let (handle, api) = serve().await;
    api.create(&service(), "default").await.unwrap();
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": [],
        "metadata": {"name": "s-abcde", "labels": {
            "kubernetes.io/service-name": "s", "endpointslice.kubernetes.io/managed-by": "endpointd.io",
        }},
    });
    api.create(&slice, "default").await.unwrap();
    let url = handle.url();
    let ended = endpointd(&["audit", "--server", &url, "--settle=0s", "--problems"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.stdout.contains("SlicesLeftBehind") && ended.stdout.contains("default/s-abcde"),
        "{ended:?}"
    );
    assert!(
        !ended.stdout.contains("belongs to no Service that opts in"),
        "{ended:?}"
    );
}
