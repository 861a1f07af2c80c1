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
    "slices leave it out until there is such a Node",
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
        leader: None,
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

#[test]
fn each_pod_has_one_reason_and_nothing_that_contradicts_it() {
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
                        for leads in [None, Some(false), Some(true)] {
                            for (published, amiss) in EITHER.into_iter().flat_map(|p| EITHER.map(|a| (p, a)))
                            {
                                cases += 1;
                                let amiss = if amiss {
                                    vec!["amiss".to_owned()]
                                } else {
                                    Vec::new()
                                };
                                check(&pod, &service, node, leads, published, amiss);
                            }
                        }
                    }
                }
            }
        }
    }
    assert_eq!(cases, 3 * 4 * 32 * 3 * 4 * 3 * 4);
}

fn check(
    pod: &PodFacts,
    service: &ServiceFacts,
    node: &str,
    leads: Option<bool>,
    published: bool,
    amiss: Vec<String>,
) {
    let is_amiss = !amiss.is_empty();
    let looked = Looked {
        pod,
        service,
        leads,
        node: match node {
            "unbound" => Node::Unbound,
            "there" => Node::There,
            "gone" => Node::Gone,
            _ => Node::Untold,
        },
        amiss,
    };
    let seen = ObservedPod {
        facts: pod.clone(),
        phase: "Running".into(),
        reason: None,
        told: Some("ContainersNotReady".into()),
    };
    let why = looked.why(&seen, published);
    let case = format!("{pod:?} {service:?} {node} leads {leads:?} published {published}: {why:?}");
    let [left_out, not_placed, not_ready, incomplete] =
        [&LEFT_OUT[..], &NOT_PLACED, &NOT_READY, &INCOMPLETE].map(|phrases| count(&why, phrases));
    assert_eq!(
        left_out + not_placed + not_ready + incomplete,
        why.len(),
        "{case}"
    );
    // One reason, and it comes first.
    assert!(left_out + not_placed + not_ready <= 1, "{case}");
    assert_eq!(
        count(&why[..why.len().min(1)], &INCOMPLETE),
        usize::from(incomplete > 0 && incomplete == why.len()),
        "{case}"
    );
    if published {
        // A pod that slices must not have has no other reason.
        assert!(left_out == 0 || why.len() == 1, "{case}");
        assert_eq!(not_placed, 0, "{case}");
        let plain = pod.ready && !pod.terminating;
        assert!(left_out == 1 || plain != (not_ready == 1), "{case}");
    } else {
        assert_eq!((not_ready, incomplete), (0, 0), "{case}");
        // There is a reason, unless it is said elsewhere.
        let elsewhere = leads == Some(false) || is_amiss;
        let unknown = node == "there" || service.publish_not_ready;
        let fits = looked.why_left_out(&seen).is_none() && unknown && !service.deleting;
        assert!(elsewhere || fits || why.len() == 1, "{case}");
        assert!(leads != Some(false) || why.is_empty(), "{case}");
    }
}

#[test]
fn what_decides_comes_first() {
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
    let bound = PodFacts {
        node: Some("n1".into()),
        ..unbound.clone()
    };
    for (pod, node, expected) in [
        (
            &ended,
            Node::Unbound,
            "phase Pending: it has ended, so slices leave it out",
        ),
        (&no_ip, Node::Unbound, "it has no IP yet (phase Pending)"),
        (
            &other_family,
            Node::Unbound,
            "it has no IPv4 address, and the Service is IPv4",
        ),
        (
            &unbound,
            Node::Unbound,
            "it is not bound to a node: slices leave it out until it is",
        ),
        (
            &bound,
            Node::There,
            "the Service is being deleted, and gets no new slice for it",
        ),
    ] {
        let looked = Looked {
            pod,
            service: &service,
            leads: None,
            node,
            amiss: Vec::new(),
        };
        let seen = ObservedPod {
            facts: pod.clone(),
            phase: "Pending".into(),
            reason: None,
            told: None,
        };
        assert_eq!(looked.why(&seen, false), [expected]);
    }
}
