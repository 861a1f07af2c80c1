//! The memory of a dry run does not grow with what happens.

use crate::model::protobuf::facts;
use crate::world::{ip, pod, service, time};
use endpointd::core::facts::{EndpointsFacts, NodeFacts, PodFacts, ServiceFacts, SliceFacts};
use endpointd::core::hints::NodeCapacity;
use endpointd::core::inbox::{Change, Pending};
use endpointd::core::namespace::ObjectEvent::Gone;
use endpointd::core::namespace::{Kind, NamespaceState, OutputEvent, PendingLists, Settings, Sizes};
use endpointd::core::nodes::NodeTable;
use endpointd::inspect::dry_run::DryRun;
use serde_json::{Value, json};
use std::time::Duration;

fn meta(object: &mut Value, round: u64) {
    object["metadata"]["namespace"] = json!("default");
    object["metadata"]["resourceVersion"] = json!((round + 1).to_string());
    object["metadata"]["uid"] = json!(format!(
        "{}-{round}",
        object["metadata"]["name"].as_str().unwrap()
    ));
}

/// The namespace `default`, as a dry run knows it.
struct World {
    dry_run: DryRun,
    state: NamespaceState,
    nodes: NodeTable,
    pending: Pending,
    now: Duration,
}

impl World {
    /// Applies what waits, and looks. Returns how many Services were looked at, and how much differs.
    fn look(&mut self) -> (usize, usize) {
        self.take();
        self.now += Duration::from_secs(1);
        let (looked_at, _) = self.dry_run.look(&mut self.state, self.now);
        (looked_at, self.dry_run.differences())
    }

    fn take(&mut self) {
        let mut pending = std::mem::take(&mut self.pending);
        self.dry_run.take(&mut pending, &self.state);
        pending.apply(&mut self.state, &mut self.nodes);
    }
}

/// A round in which the Service, its pods, and what is published of them are all new.
fn round(world: &mut World, round: u64) -> usize {
    let pending = &mut world.pending;
    let mut service = service();
    service["metadata"]["creationTimestamp"] = json!(time(0));
    service["spec"]["clusterIP"] = json!("10.0.0.1");
    service["spec"]["ipFamilies"] = json!(["IPv4"]);
    meta(&mut service, round);
    pending.push(Change::Service(facts::<ServiceFacts>("Service", &service), 1));
    let mut endpoints = Vec::new();
    for number in 0..30 {
        let address = ip((round as usize * 7 + number) % 2000);
        let mut pod = pod(&format!("p{number}-{}", round % 3), &address, "n1");
        meta(&mut pod, round);
        endpoints.push(json!({
            "addresses": [address], "conditions": {"ready": true, "serving": true, "terminating": false}, "nodeName": "n1",
            "targetRef": {"kind": "Pod", "namespace": "default", "name": pod["metadata"]["name"],
                "uid": pod["metadata"]["uid"]},
        }));
        pending.push(Change::Pod(facts::<PodFacts>("Pod", &pod), 1));
        if round > 0 {
            pending.push(Change::PodGone(format!("p{number}-{}", (round - 1) % 3).into()));
        }
    }
    let mut slice = json!({
        "metadata": {"name": format!("s-{}", round % 5), "labels": {
            "kubernetes.io/service-name": "s",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        }, "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "s", "uid": service["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true}]},
        "addressType": "IPv4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}], "endpoints": endpoints,
    });
    meta(&mut slice, round);
    let slice = || facts::<SliceFacts>("EndpointSlice", &slice);
    pending.push(Change::Output(OutputEvent::slice(slice(), 1)));
    if round % 4 == 3 {
        // Slices are listed again: what the last look took over is of the list before.
        let epoch = (round % 200) as u8 + 2;
        pending.push(Change::Begin(Kind::Slice));
        pending.push(Change::Output(OutputEvent::slice(slice(), epoch)));
        pending.push(Change::End(Kind::Slice, epoch, round + 1));
    }
    if round > 0 {
        pending.push(Change::Output(OutputEvent::Slice(Gone(
            format!("s-{}", (round - 1) % 5).into(),
            round + 1,
        ))));
    }
    let mut object = json!({"metadata": {"name": "s"}});
    meta(&mut object, round);
    pending.push(Change::Output(OutputEvent::endpoints(
        facts::<EndpointsFacts>("Endpoints", &object),
        1,
    )));
    world.look().1
}

#[test]
fn memory_does_not_grow_and_is_released_in_the_end() {
    let mut nodes = NodeTable::default();
    let node = "n1".into();
    nodes.apply_capacity(&node, &NodeCapacity::default());
    nodes.apply(&node, NodeFacts::default(), 1);
    let settings = Settings {
        max_endpoints: 100,
        ..Settings::default()
    };
    let mut world = World {
        dry_run: DryRun::new(Duration::ZERO),
        state: NamespaceState::new("default".into(), settings, PendingLists::NONE),
        nodes,
        pending: Pending::default(),
        now: Duration::ZERO,
    };
    let mut sizes: Option<Sizes> = None;
    for number in 0..300 {
        let found = round(&mut world, number);
        assert_eq!(
            found, 31,
            "the Endpoints have no address and no label, the slice is right"
        );
        let now = world.state.sizes();
        if number >= 5 {
            assert_eq!(*sizes.get_or_insert(now), now, "after {number} rounds");
        }
    }
    let sizes = sizes.unwrap();
    assert_eq!(
        (sizes.pods, sizes.services, sizes.slices),
        (30, 1, 1),
        "{sizes:?}"
    );
    assert_eq!(world.state.plan(), []);

    world.pending.push(Change::ServiceGone("s".into()));
    world
        .pending
        .push(Change::Output(OutputEvent::Slice(Gone("s-4".into(), 1000))));
    world
        .pending
        .push(Change::Output(OutputEvent::Endpoints(Gone("s".into(), 1000))));
    for number in 0..30 {
        world.pending.push(Change::PodGone(format!("p{number}-2").into()));
    }
    world.take();
    assert!(!world.dry_run.is_empty(), "the Service is still to be looked at");
    assert_eq!(world.look(), (1, 0));
    assert!(world.dry_run.is_empty() && world.state.is_empty());
}

/// A dry run of an empty namespace with one node.
fn empty(patience: Duration) -> World {
    let mut nodes = NodeTable::default();
    let node = "n1".into();
    nodes.apply_capacity(&node, &NodeCapacity::default());
    nodes.apply(&node, NodeFacts::default(), 1);
    World {
        dry_run: DryRun::new(patience),
        state: NamespaceState::new("default".into(), Settings::default(), PendingLists::NONE),
        nodes,
        pending: Pending::default(),
        now: Duration::ZERO,
    }
}

fn named_service() -> Change {
    let mut service = service();
    service["spec"]["clusterIP"] = json!("10.0.0.1");
    service["spec"]["ipFamilies"] = json!(["IPv4"]);
    meta(&mut service, 0);
    Change::Service(facts::<ServiceFacts>("Service", &service), 1)
}

fn endpoints(object: Value) -> Change {
    let mut object = object;
    meta(&mut object, 0);
    Change::Output(OutputEvent::endpoints(
        facts::<EndpointsFacts>("Endpoints", &object),
        1,
    ))
}

#[test]
fn a_service_without_objects_that_a_list_no_longer_shows_is_forgotten() {
    let mut world = empty(Duration::ZERO);
    world.pending.push(named_service());
    assert!(world.look().1 > 0, "nothing is published for it");
    world.pending.push(Change::Begin(Kind::Service));
    world.pending.push(Change::End(Kind::Service, 2, 100));
    assert_eq!(world.look().1, 0);
    assert!(world.dry_run.is_empty() && world.state.is_empty());
}

#[test]
fn endpoints_that_lose_their_service_before_the_first_look_would_be_deleted() {
    for relisted in [false, true] {
        let mut world = empty(Duration::ZERO);
        world.pending.push(named_service());
        world.take();
        world.pending.push(endpoints(json!({"metadata": {"name": "s"}})));
        world.take();
        if relisted {
            world.pending.push(Change::Begin(Kind::Service));
            world.pending.push(Change::End(Kind::Service, 2, 100));
        } else {
            world.pending.push(Change::ServiceGone("s".into()));
        }
        assert_eq!(world.look().1, 1, "by a list: {relisted}");
    }
}

/// Which thousand of more addresses are published is the writer's choice, so they are compared as a whole; the labels
/// are not.
#[test]
fn a_wrong_label_of_a_truncated_object_is_reported_while_its_pods_change() {
    let mut world = empty(Duration::from_secs(5));
    world.pending.push(named_service());
    let make = |number: usize, round: u64| {
        let mut pod = pod(&format!("p{number}"), &ip(number), "n1");
        meta(&mut pod, round);
        Change::Pod(facts::<PodFacts>("Pod", &pod), 1)
    };
    for number in 0..1100 {
        world.pending.push(make(number, 0));
    }
    world.pending.push(endpoints(
        json!({"metadata": {"name": "s", "labels": {"wrong": "label"}}}),
    ));
    let mut reported = Vec::new();
    for second in 0..12 {
        world.pending.push(Change::PodGone(format!("p{second}").into()));
        world.pending.push(make(2000 + second, 1));
        world.take();
        world.now += Duration::from_secs(1);
        let (_, drift) = world.dry_run.look(&mut world.state, world.now);
        let lasting = drift.iter().flat_map(|drift| &drift.lasting);
        let lines = lasting.map(|finding| serde_json::to_string(finding).unwrap());
        reported.extend(lines.filter(|line| line.contains("wrong")).map(|_| second));
    }
    assert_eq!(reported.first(), Some(&5));
}
