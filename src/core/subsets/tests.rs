use super::truncate::{Counts, Cut, Truncation};
use super::*;
use crate::core::ports::PortList;
use proptest::prelude::*;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Name and number.
type TestPort = (&'static str, u16);
type TestSubset = Subset<TestPort, usize>;

#[derive(Clone, Debug)]
struct Pod {
    ip: IpAddr,
    uid: String,
    ready: bool,
    ports: Vec<TestPort>,
}

fn pod(ip: &str, uid: &str, ready: bool, ports: &[TestPort]) -> Pod {
    Pod {
        ip: ip.parse().unwrap(),
        uid: uid.to_owned(),
        ready,
        ports: ports.to_vec(),
    }
}

fn by_uid(pods: &[Pod]) -> impl Fn(usize, usize) -> Ordering {
    |a, b| pods[a].uid.cmp(&pods[b].uid)
}

fn collect(pods: &[Pod], portless: bool) -> Members<TestPort, usize> {
    let mut lists: BTreeMap<Vec<TestPort>, PortList<TestPort>> = BTreeMap::new();
    let pods_of = pods.iter().enumerate().map(|(i, pod)| {
        let mut ports = pod.ports.clone();
        ports.sort_unstable();
        let ports = lists.entry(ports.clone()).or_insert_with(|| ports.into()).clone();
        (i, pod.ip, pod.ready, ports)
    });
    Members::collect(portless, pods_of, by_uid(pods))
}

fn subset(ports: &[TestPort], ready: &[usize], not_ready: &[usize]) -> TestSubset {
    Subset {
        ports: ports.to_vec(),
        ready: ready.to_vec(),
        not_ready: not_ready.to_vec(),
    }
}

fn publish(pods: &[Pod], portless: bool) -> Vec<TestSubset> {
    let published = collect(pods, portless).publish(MAX_ADDRESSES, by_uid(pods));
    assert!(!published.truncated);
    published.subsets
}

const HTTP: TestPort = ("http", 8080);
const ADMIN: TestPort = ("admin", 9000);

/// Goldens multi-port, multi-port-named-mixed, named-port-missing and named-port-protocol.
#[test]
fn ports_with_the_same_addresses_share_a_subset() {
    let pods = [pod("10.1.0.1", "p1", true, &[HTTP, ADMIN, ("dia", 3868)])];
    assert_eq!(
        publish(&pods, false),
        [subset(&[ADMIN, ("dia", 3868), HTTP], &[0], &[])]
    );

    let pods = [
        pod("10.1.0.1", "p1", true, &[HTTP, ADMIN]),
        pod("10.1.0.2", "p2", true, &[HTTP]),
    ];
    assert_eq!(
        publish(&pods, false),
        [subset(&[ADMIN], &[0], &[]), subset(&[HTTP], &[0, 1], &[])]
    );

    let pods = [
        pod("10.1.0.1", "p1", true, &[HTTP]),
        pod("10.1.0.2", "p2", true, &[]),
    ];
    assert_eq!(publish(&pods, false), [subset(&[HTTP], &[0], &[])]);

    let pods = [
        pod("10.1.0.1", "p1", true, &[("t", 53)]),
        pod("10.1.0.2", "p2", true, &[("d", 5353)]),
    ];
    assert_eq!(
        publish(&pods, false),
        [subset(&[("d", 5353)], &[1], &[]), subset(&[("t", 53)], &[0], &[])]
    );
}

/// Golden no-pods-clusterip.
#[test]
fn no_pods_make_no_subsets() {
    assert_eq!(publish(&[], false), []);
    assert_eq!(publish(&[], true), []);
}

/// Golden headless-no-ports.
#[test]
fn a_headless_service_may_have_no_ports() {
    let pods = [
        pod("10.1.0.1", "p1", true, &[]),
        pod("10.1.0.2", "p2", false, &[]),
    ];
    assert_eq!(publish(&pods, true), [subset(&[], &[0], &[1])]);
    assert_eq!(publish(&pods, false), []);
}

/// Goldens same-ip and host-network.
#[test]
fn pods_that_share_an_ip_stay_apart() {
    let pods = [
        pod("10.1.0.5", "p1", true, &[HTTP]),
        pod("10.1.0.5", "p2", false, &[HTTP]),
    ];
    assert_eq!(publish(&pods, false), [subset(&[HTTP], &[0], &[1])]);
    let (a, b) = (("http", 8080), ("http", 8081));
    let pods = [
        pod("192.168.1.1", "p1", true, &[a]),
        pod("192.168.1.1", "p2", true, &[b]),
    ];
    assert_eq!(
        publish(&pods, false),
        [subset(&[a], &[0], &[]), subset(&[b], &[1], &[])]
    );
    let pods = [
        pod("10.1.0.5", "p2", true, &[HTTP]),
        pod("10.1.0.5", "p1", true, &[HTTP]),
    ];
    assert_eq!(publish(&pods, false), [subset(&[HTTP], &[1, 0], &[])]);
}

/// Golden truncate: 1003 pods, then four of them go.
#[test]
fn one_port_keeps_the_first_thousand() {
    let ip = |i: usize| format!("10.2.{}.{}", i / 250, i % 250 + 1);
    let pods: Vec<_> = (0..1003)
        .map(|i| pod(&ip(i), &format!("p{i}"), true, &[HTTP]))
        .collect();
    let mut members = collect(&pods, false);
    let published = members.publish(MAX_ADDRESSES, by_uid(&pods));
    assert!(published.truncated && members.is_over(MAX_ADDRESSES));
    let mut ips: Vec<_> = (0..1003).map(ip).collect();
    ips.sort_unstable();
    let got: Vec<_> = published.subsets[0].ready.iter().map(|i| ip(*i)).collect();
    assert_eq!(got, ips[..1000]);
    assert_eq!(got[..3], ["10.2.0.1", "10.2.0.10", "10.2.0.100"]);
    assert_eq!(got[999], "10.2.3.99");
    assert!(members.accepts(&published.subsets, MAX_ADDRESSES, by_uid(&pods)));
    for i in 0..4 {
        assert!(members.remove(i));
    }
    let after = members.publish(MAX_ADDRESSES, by_uid(&pods));
    assert!(!after.truncated && !members.is_over(MAX_ADDRESSES));
    assert_eq!(after.subsets[0].ready.len(), 999);
    assert!(!members.accepts(&published.subsets, MAX_ADDRESSES, by_uid(&pods)));
}

#[test]
fn truncation_takes_ready_addresses_first() {
    let truncation = |counts: &[(usize, usize)], limit| {
        let counts: Vec<_> = counts
            .iter()
            .map(|(ready, not_ready)| Counts {
                ready: *ready,
                not_ready: *not_ready,
            })
            .collect();
        Truncation::new(&counts, limit)
    };
    let shares = |counts, limit| {
        let truncation = truncation(counts, limit);
        (truncation.cut, truncation.shares())
    };
    assert_eq!(shares(&[(600, 400)], 1000).0, Cut::Nothing);
    assert_eq!(shares(&[(600, 401)], 1000), (Cut::NotReady, vec![400]));
    assert_eq!(shares(&[(1001, 50)], 1000), (Cut::Ready, vec![1000]));
    assert_eq!(shares(&[(1000, 50), (0, 50)], 1000), (Cut::NotReady, vec![0, 0]));
    assert_eq!(
        shares(&[(400, 1200), (400, 300)], 1000),
        (Cut::NotReady, vec![160, 40])
    );
    // Upstream, depending on its order, might leave the last subset empty, which the server refuses.
    assert_eq!(
        shares(&[(500, 0), (500, 0), (1, 0)], 1000),
        (Cut::Ready, vec![500, 499, 1])
    );

    let three = truncation(&[(500, 0), (500, 0), (1, 0)], 1000);
    for (shares, allowed) in [
        ([500, 500, 0], true),
        ([500, 499, 1], true),
        ([499, 500, 1], true),
        ([499, 499, 1], false),
        ([500, 500, 1], false),
        ([501, 498, 1], false),
    ] {
        assert_eq!(three.allows(&shares), allowed, "{shares:?}");
    }
    let even = truncation(&[(334, 0), (334, 0), (334, 0)], 1000);
    assert!(even.allows(&[332, 334, 334]) && !even.allows(&[333, 333, 334]));
}

#[test]
fn a_stored_object_with_more_than_the_cut_is_not_accepted() {
    let pods: Vec<_> = (0..8)
        .map(|i| pod(&format!("10.0.0.{i}"), "", i < 6, &[HTTP]))
        .collect();
    let members = collect(&pods, false);
    let accepts = |subsets: &[TestSubset], limit| members.accepts(subsets, limit, by_uid(&pods));
    let ready = [0, 1, 2, 3, 4, 5];
    assert!(accepts(&[subset(&[HTTP], &ready[..5], &[])], 5));
    assert!(!accepts(&[subset(&[HTTP], &ready[..5], &[6])], 5));
    assert!(!accepts(&[subset(&[HTTP], &ready[1..], &[])], 5));
    assert!(!accepts(
        &[subset(&[HTTP], &ready[..5], &[]), subset(&[ADMIN], &[0], &[])],
        5
    ));
    assert!(accepts(&[subset(&[HTTP], &ready, &[6])], 7));
    assert!(!accepts(&[subset(&[HTTP], &ready, &[7])], 7));
    assert!(!accepts(&[subset(&[HTTP], &ready[..5], &[6, 7])], 7));
}

/// Upstream tries to write a subset without addresses here, in vain.
#[test]
fn a_subset_with_nothing_left_is_not_published() {
    let pods: Vec<_> = (0..8)
        .map(|i| {
            pod(
                &format!("10.0.0.{i}"),
                "",
                i < 6,
                if i < 6 { &[HTTP] } else { &[ADMIN] },
            )
        })
        .collect();
    let published = collect(&pods, false).publish(5, by_uid(&pods));
    assert_eq!(published.subsets, [subset(&[HTTP], &[0, 1, 2, 3, 4], &[])]);
}

#[test]
fn comparison_ignores_order_and_packing() {
    let packed = [subset(&[ADMIN, HTTP], &[0, 1], &[2])];
    let unpacked = [
        subset(&[HTTP], &[1], &[2]),
        subset(&[], &[], &[]),
        subset(&[ADMIN], &[1, 0], &[]),
        subset(&[HTTP], &[0], &[]),
        subset(&[ADMIN], &[], &[2]),
    ];
    assert!(is_same(&packed, &unpacked));
    // Not ready wins.
    assert!(is_same(
        &[subset(&[HTTP], &[0, 1], &[1])],
        &[subset(&[HTTP], &[0], &[1])]
    ));
    // A subset without ports counts, unless a port has the same addresses.
    let portless = subset(&[], &[0], &[]);
    assert!(!is_same(std::slice::from_ref(&portless), &[]));
    assert!(is_same(
        &[portless.clone(), subset(&[HTTP], &[0], &[])],
        &[subset(&[HTTP], &[0], &[])]
    ));
    assert!(!is_same(
        &[portless, subset(&[HTTP], &[1], &[])],
        &[subset(&[HTTP], &[1], &[])]
    ));
    for other in [
        subset(&[ADMIN, HTTP], &[0], &[2]),
        subset(&[ADMIN, HTTP], &[0, 1, 2], &[]),
        subset(&[HTTP], &[0, 1], &[2]),
    ] {
        assert!(!is_same(&packed, &[other]));
    }
}

#[test]
fn an_emptied_group_is_used_again() {
    let mut members = Members::new(false);
    let tie = |_, _| Ordering::Equal;
    members.set(8, IpAddr::from([10, 0, 0, 2]), true, &vec![ADMIN].into(), tie);
    for i in 0..100u16 {
        let ports: PortList<TestPort> = vec![("http", i)].into();
        let ip = IpAddr::from([10, 0, 0, 1]);
        assert!(members.set(7, ip, true, &ports, tie));
        assert!(!members.set(7, ip, true, &ports, tie));
        assert_eq!(
            members.publish(10, tie).subsets,
            [subset(&[ADMIN], &[8], &[]), subset(&[("http", i)], &[7], &[])]
        );
        assert_eq!(members.listed_ports(), 2);
    }
    assert!(members.remove(7) && !members.remove(7) && members.remove(8) && members.is_empty());
    assert_eq!(members.publish(10, tie).subsets, []);
}

#[test]
fn one_pod_takes_no_memory_of_its_own_whatever_others_came_and_went() {
    let pods = [
        pod("10.0.0.1", "p1", true, &[HTTP]),
        pod("fd00::1", "p2", false, &[HTTP, ADMIN]),
        pod("10.0.0.3", "p3", true, &[HTTP]),
    ];
    let mut members = collect(&pods[..1], false);
    assert!(!members.are_boxed());
    let set = |members: &mut Members<_, _>, at: usize| {
        let mut ports = pods[at].ports.clone();
        ports.sort_unstable();
        members.set(at, pods[at].ip, pods[at].ready, &ports.into(), by_uid(&pods))
    };
    assert!(set(&mut members, 1) && set(&mut members, 2) && members.are_boxed());
    assert!(members.remove(0) && members.remove(2) && !members.are_boxed());
    let (ip, ready, ports) = members.get(1).unwrap();
    assert_eq!((ip, ready, &ports[..]), (pods[1].ip, false, &[ADMIN, HTTP][..]));
    assert_eq!((members.get(0), members.len()), (None, 1));
    assert!(!set(&mut members, 1) && set(&mut members, 0) && members.are_boxed());
}

/// Upstream's way, as plainly as it goes: unpack, repack, then cut in a given order.
fn reference(pods: &[Pod], portless: bool, limit: usize, order: &[usize]) -> (Vec<TestSubset>, bool) {
    type Key = (String, String);
    type Entry = (usize, bool);
    let mut by_port: BTreeMap<Option<TestPort>, BTreeMap<Key, Entry>> = BTreeMap::new();
    for (i, pod) in pods.iter().enumerate() {
        let entry = ((pod.ip.to_string(), pod.uid.clone()), (i, pod.ready));
        for port in &pod.ports {
            by_port.entry(Some(*port)).or_default().extend([entry.clone()]);
        }
        if portless {
            by_port.entry(None).or_default().extend([entry]);
        }
    }
    let mut packed: Vec<(Vec<Entry>, Vec<TestPort>)> = Vec::new();
    for (port, addresses) in by_port {
        let addresses: Vec<_> = addresses.into_values().collect();
        match packed.iter_mut().find(|(other, _)| *other == addresses) {
            Some((_, ports)) => ports.extend(port),
            None => packed.push((addresses, port.into_iter().collect())),
        }
    }
    let select = |a: &[(usize, bool)], side| a.iter().filter(|a| a.1 == side).map(|a| a.0).collect();
    let mut subsets: Vec<TestSubset> = packed
        .iter()
        .map(|(addresses, ports)| Subset {
            ports: ports.clone(),
            ready: select(addresses, true),
            not_ready: select(addresses, false),
        })
        .collect();
    subsets.sort_by(|a, b| a.ports.cmp(&b.ports));
    let ready: usize = subsets.iter().map(|s| s.ready.len()).sum();
    let not_ready: usize = subsets.iter().map(|s| s.not_ready.len()).sum();
    if ready + not_ready <= limit {
        return (subsets, false);
    }
    let cut_ready = ready > limit;
    let (max, total) = if cut_ready {
        (limit, ready)
    } else {
        (limit - ready, not_ready)
    };
    let mut order: Vec<usize> = order.iter().copied().filter(|i| *i < subsets.len()).collect();
    order.extend(
        (0..subsets.len())
            .filter(|i| !order.contains(i))
            .collect::<Vec<_>>(),
    );
    let mut left = max;
    for i in order {
        let subset = &mut subsets[i];
        if cut_ready {
            subset.not_ready.clear();
        }
        let list = if cut_ready {
            &mut subset.ready
        } else {
            &mut subset.not_ready
        };
        let part = (list.len() as f64 / total as f64 * max as f64).ceil() as usize;
        list.truncate(part.min(left));
        left -= list.len();
    }
    (subsets, true)
}

fn pods() -> impl Strategy<Value = Vec<Pod>> {
    let ports = prop::sample::subsequence(vec![HTTP, ADMIN, ("http", 81), ("dns", 53)], 0..=4);
    let one = (0..4u8, 0..130u8, any::<bool>(), ports);
    prop::collection::vec(one, 0..40).prop_map(|pods| {
        let one = |(i, (c, d, ready, ports)): (usize, (u8, u8, bool, Vec<TestPort>))| Pod {
            ip: if c == 3 {
                IpAddr::from([
                    0xfd00,
                    0,
                    u16::from(d % 3),
                    0,
                    0,
                    0,
                    u16::from(d % 5),
                    u16::from(d),
                ])
            } else {
                IpAddr::from([10, 0, c, d % 40])
            },
            uid: format!("{}-{i}", i * 7 % 5),
            ready,
            ports,
        };
        pods.into_iter().enumerate().map(one).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn keys_order_as_text(
        v4 in prop::collection::vec(any::<u32>(), 0..6),
        v6 in prop::collection::vec(any::<u128>(), 0..6),
        mask: u128,
    ) {
        let sparse = |ip: &u128| {
            (0..8).fold(*ip, |ip, i| if mask >> i & 1 == 0 { ip } else { ip & !(0xffff << (16 * i)) })
        };
        let mut ips: Vec<IpAddr> = v4.iter().map(|ip| IpAddr::from(ip.to_be_bytes())).collect();
        ips.extend(v4.iter().map(|ip| IpAddr::from((ip & 0x0103_0a64).to_be_bytes())));
        ips.extend(v6.iter().map(|ip| IpAddr::from(ip.to_be_bytes())));
        ips.extend(v6.iter().map(|ip| IpAddr::from(sparse(ip).to_be_bytes())));
        ips.extend(v6.iter().map(|ip| IpAddr::from((ip & mask & 0x000f_0000_0000_0001_u128).to_be_bytes())));
        for a in &ips {
            for b in &ips {
                let text = a.to_canonical().to_string().cmp(&b.to_canonical().to_string());
                prop_assert_eq!(compare_printed(*a, *b), text, "{} {}", a, b);
                prop_assert_eq!(PrintedIp::from(*a).cmp(&PrintedIp::from(*b)), text, "{} {}", a, b);
            }
        }
    }

    #[test]
    fn subsets_are_canonical(pods in pods(), portless: bool) {
        let pods: Vec<_> = pods
            .into_iter()
            .map(|pod| if portless { Pod { ports: Vec::new(), ..pod } } else { pod })
            .collect();
        let (expected, _) = reference(&pods, portless, usize::MAX, &[]);
        prop_assert_eq!(publish(&pods, portless), expected);
    }

    #[test]
    fn incremental_equals_collected(
        pods in pods(),
        few: bool,
        steps in prop::collection::vec((any::<prop::sample::Index>(), prop::option::weighted(0.7, pods())), 0..60),
    ) {
        let mut pods = pods;
        if few {
            pods.truncate(3);
        }
        let mut members = collect(&pods, false);
        let mut there = vec![true; pods.len()];
        for (at, change) in steps {
            if pods.is_empty() {
                break;
            }
            let at = at.index(pods.len());
            if let Some(new) = change.and_then(|pods| pods.into_iter().next()) {
                // A pod keeps its UID.
                let uid = pods[at].uid.clone();
                pods[at] = Pod { uid, ..new };
                let mut ports = pods[at].ports.clone();
                ports.sort_unstable();
                members.set(at, pods[at].ip, pods[at].ready, &ports.into(), by_uid(&pods));
                there[at] = true;
            } else {
                prop_assert_eq!(members.remove(at), std::mem::take(&mut there[at]));
            }
        }
        // Handles must not shift, so a pod that is gone loses its ports instead.
        for (pod, there) in pods.iter_mut().zip(there) {
            if !there {
                pod.ports.clear();
            }
        }
        prop_assert_eq!(members.publish(100, by_uid(&pods)), collect(&pods, false).publish(100, by_uid(&pods)));
    }

    #[test]
    fn whatever_upstream_may_make_is_accepted(
        pods in pods(),
        limit in 0..40usize,
        order in Just((0..8).collect::<Vec<usize>>()).prop_shuffle(),
    ) {
        let members = collect(&pods, false);
        let (theirs, truncated) = reference(&pods, false, limit, &order);
        prop_assert!(members.accepts(&theirs, limit, by_uid(&pods)));
        prop_assert_eq!(members.is_over(limit), truncated);
        let ours = members.publish(limit, by_uid(&pods));
        prop_assert_eq!(ours.truncated, truncated);
        let published: usize = ours.subsets.iter().map(|s| s.ready.len() + s.not_ready.len()).sum();
        let fits = if truncated { published == limit } else { published <= limit };
        prop_assert!(fits);
        prop_assert!(members.accepts(&ours.subsets, limit, by_uid(&pods)));
        // As little else as a packing of its own makes a difference.
        let mut unpacked = Vec::new();
        for subset in theirs.iter().rev() {
            for port in &subset.ports {
                unpacked.push(Subset { ports: vec![*port], ..subset.clone() });
            }
        }
        prop_assert!(members.accepts(&unpacked, limit, by_uid(&pods)));
    }

    #[test]
    fn nothing_else_is_accepted(
        pods in pods(),
        limit in 0..40usize,
        order in Just((0..8).collect::<Vec<usize>>()).prop_shuffle(),
        at: prop::sample::Index,
        how in 0..4,
    ) {
        let members = collect(&pods, false);
        let (mut theirs, _) = reference(&pods, false, limit, &order);
        theirs.retain(|s| !s.ready.is_empty() || !s.not_ready.is_empty());
        prop_assume!(!theirs.is_empty());
        let at = at.index(theirs.len());
        let subset = &mut theirs[at];
        match how {
            0 if !subset.ready.is_empty() => {
                subset.ready.pop();
            }
            1 => subset.not_ready.push(usize::MAX),
            2 if !subset.not_ready.is_empty() => subset.ready.extend(subset.not_ready.pop()),
            _ => subset.ports[0] = ("other", 1),
        }
        // The loss of a whole part may be upstream's: then the sum tells.
        prop_assert!(!members.accepts(&theirs, limit, by_uid(&pods)));
    }
}
