//! Plays every combination of what the explanation of a pod depends on.

use super::*;
use crate::core::facts::TolerateUnready;
use crate::core::hints::HintMode;
use crate::core::ids::Uid;
use crate::core::labels::Labels;
use crate::core::ports::{ContainerPort, Protocol, ServicePort};

/// Parts of the reasons for a pod that slices must not have.
const LEFT_OUT: [&str; 5] = [
    "it has ended",
    "it has no IP yet",
    ", and the Service is",
    "it is not bound to a node",
    "which keeps new endpoints out",
];
/// Parts of the reasons for a pod that slices may have, and that is in none.
const NOT_PLACED: [&str; 2] = ["nodes could not be read", "the Service is being deleted"];
/// Parts of the reasons for a published pod.
const NOT_READY: [&str; 2] = ["terminating, and", "not ready"];
const INCOMPLETE: [&str; 5] = [
    ", so it is in no",
    "its endpoint has no zone",
    "it is published without port http",
    "it is published without port admin",
    "no port of the Service is left",
];

fn port(name: &str) -> ServicePort {
    ServicePort {
        name: name.into(),
        protocol: Protocol::Tcp,
        target: TargetPort::Name(name.into()),
        app_protocol: None,
    }
}

fn service(families: [bool; 2], publish_not_ready: bool, deleting: bool) -> ServiceFacts {
    ServiceFacts {
        name: "web".into(),
        uid: Uid::from("web"),
        created: None,
        deleting,
        foreground: false,
        labels: Labels::default(),
        selector: None,
        annotated: None,
        unknown_annotations: None,
        custom: false,
        external: false,
        selectorless: false,
        headless: false,
        no_cluster_ip: false,
        families,
        endpoints_family: Some(Family::V4),
        ports: [port("http"), port("admin")].into(),
        publish_not_ready,
        tolerate_unready: TolerateUnready::Unset,
        hints: HintMode::None,
    }
}

fn pod([v4, v6]: [bool; 2], bound: bool, ports: &[&str]) -> PodFacts {
    let container_port = |name: &&str| ContainerPort {
        name: (*name).into(),
        protocol: Protocol::Tcp,
        number: 8080,
    };
    PodFacts {
        node: bound.then(|| "n1".into()),
        v4: v4.then(|| "10.1.0.1".parse().unwrap()),
        v6: v6.then(|| "fd00::1".parse().unwrap()),
        ports: ports.iter().map(container_port).collect(),
        ..PodFacts::bare("p")
    }
}

fn count(why: &[String], phrases: &[&str]) -> usize {
    let has = |text: &&String| phrases.iter().any(|phrase| text.contains(phrase));
    why.iter().filter(has).count()
}

/// Whether something is the case, and whether it is not.
const EITHER: [bool; 2] = [false, true];
const ADDRESSES: [[bool; 2]; 4] = [[false, false], [true, false], [false, true], [true, true]];

/// The place of a published pod, on a node of this zone.
fn place(zone: Option<&str>) -> Place {
    Place {
        slice: "web-abcde".to_owned(),
        family: "IPv4",
        address: "10.1.0.1".to_owned(),
        ready: true,
        serving: true,
        terminating: false,
        zone: zone.map(str::to_owned),
        hints: None,
    }
}

fn observed(pod: &PodFacts) -> ObservedPod {
    ObservedPod {
        facts: pod.clone(),
        phase: "Running".into(),
        reason: None,
        told: Some("ContainersNotReady".into()),
        containers_ready: false,
        unmet_gates: Vec::new(),
    }
}

#[test]
fn each_pod_has_all_its_reasons_and_none_that_contradicts_another() {
    let mut cases = 0;
    for families in &ADDRESSES[1..] {
        for addresses in ADDRESSES {
            for flags in 0..32 {
                let flag = |at: u32| flags >> at & 1 == 1;
                let service = service(*families, flag(0), flag(1));
                for ports in [&["http", "admin"][..], &["http"], &[]] {
                    for node in ["unbound", "there", "gone", "untold"] {
                        let pod = PodFacts {
                            ready: flag(2),
                            terminating: flag(3),
                            terminal: flag(4),
                            ..pod(addresses, node != "unbound", ports)
                        };
                        for (published, amiss) in EITHER.into_iter().flat_map(|p| EITHER.map(|a| (p, a))) {
                            cases += 1;
                            let amiss = if amiss {
                                vec!["amiss".to_owned()]
                            } else {
                                Vec::new()
                            };
                            check(&pod, &service, node, published, amiss);
                        }
                    }
                }
            }
        }
    }
    assert_eq!(cases, 3 * 4 * 32 * 3 * 4 * 4);
}

fn check(pod: &PodFacts, service: &ServiceFacts, node: &str, published: bool, amiss: Vec<String>) {
    let is_amiss = !amiss.is_empty();
    let looked = Looked {
        pod,
        service,
        node: match node {
            "unbound" => Node::Unbound,
            "there" => Node::There,
            "gone" => Node::Gone,
            _ => Node::Untold,
        },
        amiss,
    };
    let seen = observed(pod);
    let places: Vec<_> = published.then(|| place(None)).into_iter().collect();
    let why = looked.why(&seen, &places);
    let case = format!("{pod:?} {service:?} {node} published {published}: {why:?}");
    let [left_out, not_placed, not_ready, incomplete] =
        [&LEFT_OUT[..], &NOT_PLACED, &NOT_READY, &INCOMPLETE].map(|phrases| count(&why, phrases));
    assert_eq!(
        left_out + not_placed + not_ready + incomplete,
        why.len(),
        "{case}"
    );
    if published {
        // A pod that slices must not have has no other reasons, and a missing Node is none.
        assert!(left_out == 0 || why.len() == left_out, "{case}");
        assert_eq!(not_placed, 0, "{case}");
        assert_eq!(count(&why, &["keeps new endpoints out"]), 0, "{case}");
        let plain = pod.ready && !pod.terminating;
        assert!(left_out > 0 || plain != (not_ready == 1), "{case}");
        assert_eq!(
            count(&why[..not_ready], &NOT_READY),
            not_ready,
            "{case}: it comes first"
        );
    } else {
        assert_eq!((not_ready, incomplete), (0, 0), "{case}");
        let lacks_node = !service.publish_not_ready && matches!(node, "unbound" | "gone");
        let expected = if pod.terminal {
            1
        } else {
            usize::from(!looked.has_address()) + usize::from(lacks_node)
        };
        assert_eq!(left_out, expected, "{case}");
        // What is amiss is a reason of its own.
        let unknown = left_out == 0 && node == "untold" && !service.publish_not_ready;
        let not_placed_expected = usize::from(unknown) + usize::from(service.deleting);
        assert_eq!(
            not_placed,
            if is_amiss || pod.terminal {
                0
            } else {
                not_placed_expected
            },
            "{case}"
        );
    }
}

#[test]
fn what_is_not_ready_is_named_beside_the_message() {
    let seen = |containers_ready, gates: &[&str]| ObservedPod {
        told: None,
        containers_ready,
        unmet_gates: gates.iter().map(|&gate| gate.into()).collect(),
        ..observed(&pod([true, false], true, &[]))
    };
    for (seen, says) in [
        (seen(false, &[]), ""),
        (
            seen(false, &["a.example/x"]),
            "; its readiness gate a.example/x is not True",
        ),
        (
            seen(true, &["a.example/x", "b.example/y"]),
            "; its containers are ready (ContainersReady is True), and its readiness gates a.example/x, b.example/y are not True",
        ),
        (
            seen(true, &[]),
            "; its containers are ready (ContainersReady is True): Ready alone turns False when its Node stops reporting",
        ),
    ] {
        assert_eq!(containers_and_gates(&seen), says);
    }
}

#[test]
fn a_published_pod_without_its_node_may_keep_its_zone() {
    let service = service([true, false], false, false);
    let pod = PodFacts {
        ready: true,
        ..pod([true, false], true, &["http", "admin"])
    };
    let looked = Looked {
        pod: &pod,
        service: &service,
        node: Node::Gone,
        amiss: Vec::new(),
    };
    for (zone, says) in [
        (Some("z1"), "its Node n1 does not exist"),
        (None, "its Node n1 does not exist: its endpoint has no zone"),
    ] {
        assert_eq!(looked.why(&observed(&pod), &[place(zone)]), [says]);
    }
}

#[test]
fn no_reason_hides_another() {
    let service = service([true, false], false, true);
    let ended = PodFacts {
        terminal: true,
        ready: false,
        ..pod([false, false], false, &[])
    };
    let no_ip = PodFacts {
        terminal: false,
        ..ended.clone()
    };
    let other_family = PodFacts {
        v6: Some("fd00::1".parse().unwrap()),
        ..no_ip.clone()
    };
    let unbound = PodFacts {
        v4: Some("10.1.0.1".parse().unwrap()),
        ..no_ip.clone()
    };
    let bound_without_ip = PodFacts {
        node: Some("n1".into()),
        ..no_ip.clone()
    };
    let bound = PodFacts {
        node: Some("n1".into()),
        ..unbound.clone()
    };
    let unbound_says = "it is not bound to a node: slices leave it out until it is";
    let gone_says =
        "its Node n1 does not exist, which keeps new endpoints out (Endpoints do not look at nodes)";
    let deleting_says = "the Service is being deleted, and gets no new slice for it";
    for (pod, node, expected) in [
        (
            &ended,
            Node::Unbound,
            &["phase Pending: it has ended, so slices leave it out"][..],
        ),
        (
            &no_ip,
            Node::Unbound,
            &["it has no IP yet (phase Pending)", unbound_says, deleting_says],
        ),
        (
            &other_family,
            Node::Unbound,
            &[
                "it has no IPv4 address, and the Service is IPv4",
                unbound_says,
                deleting_says,
            ],
        ),
        (&unbound, Node::Unbound, &[unbound_says, deleting_says]),
        (
            &bound_without_ip,
            Node::Gone,
            &["it has no IP yet (phase Pending)", gone_says, deleting_says],
        ),
        (&bound, Node::There, &[deleting_says]),
    ] {
        let looked = Looked {
            pod,
            service: &service,
            node,
            amiss: Vec::new(),
        };
        let seen = ObservedPod {
            phase: "Pending".into(),
            told: None,
            ..observed(pod)
        };
        assert_eq!(looked.why(&seen, &[]), expected);
    }
}
