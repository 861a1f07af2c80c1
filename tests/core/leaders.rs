//! Services that publish the pod that holds a Lease: what is written while nothing is known of the Lease, and while two sources
//! show it.

use endpointd::cluster::codec::{Encoding, Namespaced, object};
use endpointd::core::body::Request;
use endpointd::core::facts::{NodeFacts, PodFacts, ServiceFacts, SliceFacts};
use endpointd::core::followed_leases::lease::{
    LeaseAnswer, LeaseChange, LeaseEvent, LeaseFacts, LeaseList, LeaseRequest,
};
use endpointd::core::inbox::{Change, Pending};
use endpointd::core::lease::Record;
use endpointd::core::namespace::{Kind, NamespaceState, Outcome, OutputEvent, PendingLists, Settings};
use endpointd::core::nodes::NodeTable;
use endpointd::core::object::Remote;
use endpointd::core::outputs::Outputs;
use endpointd::core::work::TurnBudget;
use serde_json::{Value, json};
use std::time::Duration;

const CUSTOM: Outputs = Outputs {
    custom: true,
    ..Outputs::NONE
};

/// The Lease with a holder, renewed so many times.
fn lease(version: u64, holder: &str, renewals: i32) -> LeaseFacts {
    LeaseFacts {
        name: "db".into(),
        version,
        record: Record {
            holder: holder.to_owned(),
            seconds: 15,
            transitions: renewals,
            ..Record::default()
        },
    }
}

/// A list that was asked for at this second, as of a version.
fn listed(asked: u64, version: u64, leases: Vec<LeaseFacts>) -> LeaseEvent {
    LeaseEvent::Listed(LeaseList::new(Duration::from_secs(asked), version, leases))
}

fn pod(name: &str, ready: bool) -> PodFacts {
    let last = name.bytes().next().unwrap();
    let pod = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}")},
        "spec": {"nodeName": "n"},
        "status": {
            "podIP": format!("10.0.0.{last}"), "podIPs": [{"ip": format!("10.0.0.{last}")}, {"ip": format!("fd00::{last:x}")}],
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
        },
    });
    object::<Namespaced<PodFacts>>(pod.to_string().as_bytes())
        .unwrap()
        .facts
}

fn service(families: &[&str], port: u16) -> ServiceFacts {
    service_of("s", "db", families, port)
}

fn service_of(name: &str, lease: &str, families: &[&str], port: u16) -> ServiceFacts {
    let service = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name, "annotations": {"endpointd.io/leader": lease}},
        "spec": {"clusterIP": "10.0.0.1", "ipFamilies": families, "ports": [{"port": port}]},
    });
    object::<Namespaced<ServiceFacts>>(service.to_string().as_bytes())
        .unwrap()
        .facts
}

/// A slice of the process before, with ready endpoints of these pods.
fn slice(name: &str, pods: &[&str]) -> SliceFacts {
    let endpoint = |pod: &&str| {
        json!({
            "addresses": [format!("10.0.0.{}", pod.bytes().next().unwrap())],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": "n",
            "targetRef": {"kind": "Pod", "namespace": "ns", "name": pod, "uid": format!("uid-{pod}")},
        })
    };
    let slice = json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": name, "resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"kubernetes.io/service-name": "s", "endpointslice.kubernetes.io/managed-by": "endpointd.io"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "s", "uid": "s", "controller": true}],
        },
        "addressType": "IPv4",
        "ports": if pods.is_empty() { json!([]) } else { json!([{"name": "", "port": 80, "protocol": "TCP"}]) },
        "endpoints": pods.iter().map(endpoint).collect::<Vec<_>>(),
    });
    object::<Namespaced<SliceFacts>>(slice.to_string().as_bytes())
        .unwrap()
        .facts
}

/// A namespace with a node and the Service, and a server that accepts every write.
struct World {
    state: NamespaceState,
    nodes: NodeTable,
    now: u64,
    version: u64,
    generation: u64,
}

impl World {
    /// Begins with these pods and slices, and has the Leases followed, of which nothing is known.
    fn new(families: &[&str], pods: &[PodFacts], slices: &[SliceFacts]) -> Self {
        let settings = Settings {
            outputs: CUSTOM,
            seed: 7,
            ..Settings::default()
        };
        let mut nodes = NodeTable::default();
        nodes.apply(&"n".into(), NodeFacts::default(), 0);
        let mut world = Self {
            state: NamespaceState::new("ns".into(), settings, PendingLists::all(CUSTOM)),
            nodes,
            now: 1,
            version: 1000,
            generation: 0,
        };
        for pod in pods {
            world.apply(pod.clone());
        }
        world.state.apply_service(service(families, 80), 0);
        for slice in slices {
            world.state.apply_output(OutputEvent::slice(slice.clone(), 0));
        }
        for kind in Kind::ALL {
            world.state.end_list(kind, 0, 10, &mut world.nodes);
        }
        world.state.advance(Duration::from_secs(1));
        assert!(world.settle().is_empty(), "what the process before wrote stays");
        let requests = world.state.take_lease_requests();
        let [LeaseRequest::Follow(generation)] = requests[..] else {
            panic!("{requests:?}")
        };
        world.generation = generation;
        world.hear(1, LeaseEvent::Begun);
        world
    }

    fn apply(&mut self, pod: PodFacts) {
        self.state.apply_pod(pod, &[], 0, &mut self.nodes);
    }

    fn hear(&mut self, second: u64, event: LeaseEvent) {
        self.state.apply_leases(LeaseChange {
            generation: self.generation,
            at: Duration::from_secs(second),
            event,
        });
    }

    /// Writes what is due. Returns the pods in each slice that is written, those that are not ready with a `!`; of one that is
    /// deleted, nothing.
    fn settle(&mut self) -> Vec<String> {
        let mut written = Vec::new();
        loop {
            let items = self.state.plan();
            if items.is_empty() {
                return written;
            }
            for item in items {
                let Some(built) = self.state.build_request(&item.object, &mut Encoding::Json) else {
                    continue;
                };
                let outcome = match built.request {
                    Request::Create(body) | Request::Update(body) => {
                        written.push(shown(&serde_json::from_slice(&body).unwrap()));
                        self.version += 1;
                        Outcome::Written(Remote {
                            uid: "u".into(),
                            version: self.version,
                        })
                    }
                    Request::Delete(_) => {
                        written.push("deleted".to_owned());
                        Outcome::Deleted(None)
                    }
                    Request::Fetch | Request::Probe => panic!("{item:?}: all is known"),
                };
                self.state.apply_outcome(&item.object, outcome, None);
            }
        }
    }

    /// Lets time pass in which no Lease can be read. Returns what is written.
    fn pass(&mut self, seconds: u64) -> Vec<String> {
        let mut written = Vec::new();
        for _ in 0..seconds {
            self.now += 1;
            let now = Duration::from_secs(self.now);
            self.state.advance(now);
            while self.state.next_look().is_some_and(|at| at <= now) && self.state.look_at_one(now) {}
            for request in self.state.take_lease_requests() {
                if let LeaseRequest::Read(_, read) = request {
                    self.hear(self.now, LeaseEvent::Read(read, LeaseAnswer::Failed));
                }
            }
            written.extend(self.settle());
        }
        written
    }
}

fn shown(slice: &Value) -> String {
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    let endpoints = endpoints.map(|endpoint| {
        let ready = if endpoint["conditions"]["ready"] == true {
            ""
        } else {
            "!"
        };
        format!("{}{ready}", endpoint["targetRef"]["name"].as_str().unwrap())
    });
    let pods = endpoints.collect::<Vec<_>>().join(" ");
    let port = slice["ports"][0]["port"].as_u64();
    let port = port.filter(|port| *port != 80);
    port.map_or_else(|| format!("[{pods}]"), |port| format!("[{pods}]:{port}"))
}

#[test]
fn a_pod_that_is_gone_leaves_while_its_lease_is_unknown() {
    let mut world = World::new(&["IPv4"], &[pod("a", true)], &[slice("x", &["a"])]);
    assert!(world.pass(60).is_empty(), "nothing says that it does not lead");
    world.state.remove_pod("a", &mut world.nodes);
    assert_eq!(world.settle(), ["[]"]);
    assert!(world.pass(600).is_empty());
    // Another pod is taken in when the Lease is known, and seen to change.
    world.apply(pod("b", true));
    assert!(world.pass(60).is_empty());
    world.hear(world.now, listed(world.now, 10, vec![lease(10, "b", 0)]));
    assert!(world.settle().is_empty());
    world.hear(world.now, LeaseEvent::Seen(lease(11, "b", 1)));
    assert_eq!(world.settle(), ["[b]"]);
}

#[test]
fn a_pod_that_another_has_replaced_leaves_while_its_lease_is_unknown() {
    let mut world = World::new(&["IPv4"], &[pod("a", true)], &[slice("x", &["a"])]);
    let reborn = PodFacts {
        uid: "another".into(),
        ..pod("a", true)
    };
    world.apply(reborn);
    assert_eq!(world.pass(60), ["[]"]);
}

#[test]
fn a_pod_that_is_not_ready_is_shown_so_while_its_lease_is_unknown() {
    let mut world = World::new(&["IPv4"], &[pod("a", true)], &[slice("x", &["a"])]);
    world.apply(pod("a", false));
    assert_eq!(world.settle(), ["[a!]"]);
    world.apply(pod("a", true));
    assert_eq!(world.settle(), ["[a]"]);
    world.hear(2, listed(2, 10, vec![lease(10, "a", 0)]));
    assert!(world.pass(10).is_empty(), "it leads");
}

#[test]
fn each_of_several_pods_stays_while_it_is_there() {
    let pods = [pod("a", true), pod("b", true)];
    let mut world = World::new(&["IPv4"], &pods, &[slice("x", &["a"]), slice("y", &["b"])]);
    world.state.remove_pod("a", &mut world.nodes);
    assert_eq!(world.pass(60), ["deleted"], "the slice that had it");
    world.apply(pod("b", false));
    assert_eq!(world.pass(60), ["[b!]"]);
}

#[test]
fn nobody_joins_or_moves_while_the_lease_is_unknown() {
    // A family that did not show the pod, and other ports, for which its endpoint needs another slice.
    for (families, port) in [(["IPv4", "IPv6"].as_slice(), 80), (&["IPv4"], 81)] {
        let mut world = World::new(&["IPv4"], &[pod("a", true)], &[slice("x", &["a"])]);
        world.apply(pod("b", true));
        world.state.apply_service(service(families, port), 0);
        assert!(world.pass(600).is_empty(), "{families:?} {port}");
        world.hear(700, listed(700, 10, vec![lease(10, "a", 0)]));
        let written = world.settle();
        assert_eq!(written.len(), 1, "{families:?} {port}: {written:?}");
        let expected = if port == 80 { "[a]" } else { "[a]:81" };
        assert_eq!(written, [expected]);
    }
}

/// A world that publishes `a`, by a watch of the namespace that has shown the Lease at version 11.
fn led_by_a() -> World {
    let mut world = World::new(&["IPv4"], &[pod("a", true), pod("b", true)], &[slice("x", &[])]);
    world.hear(1, listed(1, 10, vec![lease(10, "a", 0)]));
    world.settle();
    world.hear(2, LeaseEvent::Seen(lease(11, "a", 1)));
    assert_eq!(world.settle(), ["[a]"]);
    world
}

#[test]
fn a_list_that_is_older_than_another_source_sets_nothing_back() {
    let mut world = led_by_a();
    // The watch of all namespaces is asked for its list, which takes a while; the namespace's own watch goes on.
    world.hear(4, LeaseEvent::Seen(lease(20, "b", 2)));
    assert_eq!(world.settle(), ["[b]"]);
    world.hear(5, listed(3, 15, vec![lease(15, "a", 15)]));
    assert!(world.settle().is_empty());
    // Its watch shows what has happened since.
    world.hear(6, LeaseEvent::Seen(lease(17, "a", 17)));
    world.hear(6, LeaseEvent::Seen(lease(20, "b", 2)));
    assert!(world.settle().is_empty());
    world.hear(7, LeaseEvent::Seen(lease(21, "b", 3)));
    world.hear(8, LeaseEvent::Seen(lease(22, "a", 22)));
    assert_eq!(world.settle(), ["[a]"]);
}

#[test]
fn what_waits_beside_a_list_that_is_older_is_kept() {
    let mut world = led_by_a();
    let mut pending = Pending::default();
    for (second, event) in [
        (4, LeaseEvent::Seen(lease(14, "b", 2))),
        (4, LeaseEvent::Seen(lease(20, "b", 3))),
        (5, listed(3, 15, vec![lease(15, "a", 15)])),
        (5, LeaseEvent::Seen(lease(17, "a", 17))),
    ] {
        pending.push(Change::Leases(LeaseChange {
            generation: world.generation,
            at: Duration::from_secs(second),
            event,
        }));
    }
    pending.apply(&mut world.state, &mut world.nodes);
    assert_eq!(world.settle(), ["[b]"]);
}

#[test]
fn a_list_from_before_a_lease_was_made_or_deleted_sets_nothing_back() {
    let mut world = led_by_a();
    world.hear(4, LeaseEvent::Gone("db".into(), 12));
    assert_eq!(world.settle(), ["[]"]);
    world.hear(5, listed(3, 11, vec![lease(11, "a", 1)]));
    world.hear(5, LeaseEvent::Seen(lease(11, "a", 1)));
    world.hear(5, LeaseEvent::Gone("db".into(), 12));
    assert!(world.settle().is_empty());
    world.hear(7, LeaseEvent::Seen(lease(14, "b", 0)));
    assert_eq!(world.settle(), ["[b]"]);
    world.hear(8, listed(6, 13, Vec::new()));
    assert!(world.settle().is_empty());
    world.hear(9, listed(6, 15, Vec::new()));
    assert_eq!(world.settle(), ["[]"], "a newer list shows that it is gone");
}

#[test]
fn a_list_that_was_asked_for_afterwards_is_believed_at_any_version() {
    let mut world = led_by_a();
    world.hear(4, LeaseEvent::Seen(lease(20, "b", 2)));
    assert_eq!(world.settle(), ["[b]"]);
    // The API server's store was restored from a copy, in which the other pod leads.
    world.hear(6, listed(5, 12, vec![lease(12, "a", 12)]));
    assert_eq!(world.settle(), ["[]"]);
    world.hear(7, LeaseEvent::Seen(lease(13, "a", 13)));
    assert_eq!(world.settle(), ["[a]"]);
    world.hear(9, listed(8, 9, Vec::new()));
    assert_eq!(world.settle(), ["[]"]);
    world.hear(10, LeaseEvent::Seen(lease(10, "b", 0)));
    assert_eq!(world.settle(), ["[b]"]);
}

/// Looks at all whose time has come: new Services that wait a moment, and Leases that are to be forgotten. Returns their number.
fn looked_at(state: &mut NamespaceState, second: u64) -> usize {
    std::iter::repeat_with(|| state.look_at_one(Duration::from_secs(second)))
        .take_while(|looked| *looked)
        .count()
}

/// Leases are still followed for a minute after the last Service has ceased to follow them, but not any number of them: one
/// Service may name another with each of its updates.
#[test]
fn leases_that_no_service_follows_any_more_are_kept_up_to_a_number() {
    let settings = Settings {
        outputs: CUSTOM,
        ..Settings::default()
    };
    let mut state = NamespaceState::new("ns".into(), settings, PendingLists::NONE);
    let follow = |state: &mut NamespaceState, name: &str, lease: String| {
        state.apply_service(service_of(name, &lease, &["IPv4"], 80), 0);
        state.take_lease_requests()
    };
    let mut requests = Vec::new();
    for update in 0..2000 {
        requests.extend(follow(&mut state, "s", format!("lease-{update}")));
    }
    assert!(matches!(requests[..], [LeaseRequest::Follow(_)]), "{requests:?}");
    looked_at(&mut state, 59);
    let kept = looked_at(&mut state, 61);
    assert!((200..=300).contains(&kept), "{kept}");
    // Where Services follow many, as many may come and go at once.
    for number in 0..1000 {
        follow(&mut state, &format!("s{number}"), format!("of-{number}"));
    }
    for number in 0..1000 {
        follow(&mut state, &format!("s{number}"), format!("other-{number}"));
    }
    looked_at(&mut state, 120);
    let kept = looked_at(&mut state, 122);
    assert_eq!(kept, 1000);
    // The watch is left with the last one.
    for number in 0..1000 {
        state.begin_removal(&format!("s{number}"));
    }
    state.begin_removal("s");
    assert!(state.step_passes(&mut TurnBudget::unlimited()));
    assert!(state.take_lease_requests().is_empty());
    looked_at(&mut state, 181);
    let kept = looked_at(&mut state, 183);
    assert!((200..=300).contains(&kept), "{kept}");
    let requests = state.take_lease_requests();
    assert!(matches!(requests[..], [LeaseRequest::Leave]), "{requests:?}");
}
