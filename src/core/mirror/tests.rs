use super::*;
use crate::core::facts::{
    ANNOTATION_LAST_APPLIED, ANNOTATION_TRIGGER_TIME, AddressFacts, EndpointsMeta, Extras, SubsetFacts,
};
use crate::core::ports::{Protocol, SlicePort};

fn port(name: &str, number: u16) -> SlicePort {
    SlicePort {
        name: Some(name.into()),
        protocol: Protocol::Tcp,
        number: Some(number),
        app_protocol: None,
    }
}

fn address(ip: &str) -> AddressFacts {
    AddressFacts {
        ip: ip.into(),
        ..AddressFacts::default()
    }
}

fn subset(ready: &[&str], not_ready: &[&str], ports: &[(&str, u16)]) -> SubsetFacts {
    SubsetFacts {
        ports: ports.iter().map(|(name, number)| port(name, *number)).collect(),
        ready: ready.iter().map(|ip| address(ip)).collect(),
        not_ready: not_ready.iter().map(|ip| address(ip)).collect(),
    }
}

fn facts(subsets: Vec<SubsetFacts>) -> EndpointsFacts {
    EndpointsFacts {
        meta: EndpointsMeta {
            name: "s".into(),
            uid: Uid::from("u"),
            version: 7,
            ours: false,
            leader: false,
            skip_mirror: false,
            deleting: false,
        },
        labels: Labels::default(),
        extras: Extras::default(),
        over_capacity: None,
        subsets,
    }
}

fn mirrored(subsets: Vec<SubsetFacts>, limit: usize) -> MirroredObject {
    MirroredObject::new("ns", &facts(subsets), limit).unwrap()
}

/// Returns the groups as text: ports, and addresses with a `!` behind those that are not ready.
fn groups(object: &MirroredObject) -> Vec<String> {
    let text = |group: &MirroredGroup| {
        let ports: Vec<_> = group
            .ports
            .iter()
            .filter_map(|port| port.name.as_deref())
            .collect();
        let endpoints = object.endpoints_of(group);
        let endpoints: Vec<_> = endpoints
            .map(|endpoint| format!("{}{}", endpoint.ip, if endpoint.ready { "" } else { "!" }))
            .collect();
        format!(
            "{} {}: {}",
            group.family.as_str(),
            ports.join("+"),
            endpoints.join(" ")
        )
    };
    object.groups.iter().map(text).collect()
}

#[test]
fn subsets_are_repacked_by_their_addresses() {
    let one = mirrored(
        vec![
            subset(&["10.0.0.1"], &[], &[("a", 1), ("b", 2)]),
            subset(&["10.0.0.2"], &[], &[("a", 1)]),
            subset(&["10.0.0.1"], &[], &[("c", 3)]),
        ],
        1000,
    );
    assert_eq!(groups(&one), ["IPv4 a: 10.0.0.1 10.0.0.2", "IPv4 b+c: 10.0.0.1"]);
}

#[test]
fn an_address_that_is_not_ready_in_one_subset_is_not_ready() {
    let one = mirrored(
        vec![
            subset(&["10.0.0.1", "10.0.0.2"], &[], &[("a", 1)]),
            subset(&[], &["10.0.0.1"], &[("a", 1)]),
        ],
        1000,
    );
    assert_eq!(groups(&one), ["IPv4 a: 10.0.0.1! 10.0.0.2"]);
}

#[test]
fn subsets_without_ports_are_kept() {
    let one = mirrored(vec![subset(&["10.0.0.1"], &[], &[])], 1000);
    assert_eq!(groups(&one), ["IPv4 : 10.0.0.1"]);
    let joined = mirrored(
        vec![
            subset(&["10.0.0.1"], &[], &[]),
            subset(&["10.0.0.1"], &[], &[("a", 1)]),
        ],
        1000,
    );
    assert_eq!(groups(&joined), ["IPv4 a: 10.0.0.1"]);
}

/// Returns the numbers of the ports of each group.
fn numbers(object: &MirroredObject) -> Vec<Vec<u16>> {
    let ports = |group: &MirroredGroup| group.ports.iter().filter_map(|port| port.number).collect();
    object.groups.iter().map(ports).collect()
}

#[test]
fn ports_of_one_name_are_not_in_one_slice() {
    // In one subset, and in two that have the same addresses.
    let in_one = vec![subset(
        &["10.0.0.1", "fd00::1"],
        &["10.0.0.2"],
        &[("dns", 53), ("dns", 54), ("http", 80)],
    )];
    let one = mirrored(in_one, 1000);
    assert_eq!(
        groups(&one),
        [
            "IPv4 dns+http: 10.0.0.1 10.0.0.2!",
            "IPv4 dns: 10.0.0.1 10.0.0.2!",
            "IPv6 dns+http: fd00::1",
            "IPv6 dns: fd00::1",
        ]
    );
    assert_eq!(numbers(&one), [vec![53, 80], vec![54], vec![53, 80], vec![54]]);
    let unnamed = [80, 443].map(|number| subset(&["10.0.0.1"], &[], &[("", number)]));
    let two = mirrored(unnamed.to_vec(), 1000);
    assert_eq!(groups(&two), ["IPv4 : 10.0.0.1", "IPv4 : 10.0.0.1"]);
    assert_eq!(numbers(&two), [[80], [443]]);
}

#[test]
fn a_slice_has_no_more_ports_than_the_api_server_accepts() {
    let names: Vec<_> = (1..=20_001).map(|number| format!("p{number}")).collect();
    let ports: Vec<_> = (1..)
        .zip(&names)
        .map(|(number, name)| (&**name, number))
        .collect();
    let one = mirrored(vec![subset(&["10.0.0.1"], &[], &ports)], 1000);
    let mut sizes: Vec<_> = numbers(&one).iter().map(Vec::len).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [1, 20_000]);
}

/// Returns a subset of as many addresses and as many ports that share a name.
fn alike(addresses: usize, ports: u16) -> EndpointsFacts {
    let addresses: Vec<_> = (0..addresses)
        .map(|n| format!("10.0.{}.{}", n / 250, n % 250))
        .collect();
    let addresses: Vec<_> = addresses.iter().map(|address| &**address).collect();
    let ports: Vec<_> = (1..=ports).map(|number| ("http", number)).collect();
    facts(vec![subset(&addresses, &[], &ports)])
}

#[test]
fn slices_are_at_most_sixteen_times_as_large_as_their_endpoints() {
    let of = |addresses, ports| MirroredObject::new("ns", &alike(addresses, ports), 1000);
    assert_eq!(of(1000, 5).unwrap().groups.len(), 5);
    assert_eq!(of(1000, 130), None);
    assert_eq!(of(1000, 10_000), None);
    // With few addresses, there may be more ports.
    assert_eq!(of(1, 60).unwrap().groups.len(), 60);
    assert_eq!(of(1, 10_000), None);
    // Labels and annotations are in each slice.
    let subsets: Vec<_> = (1..=60)
        .map(|port| subset(&["10.0.0.1"], &[], &[("a", port)]))
        .collect();
    let mut large = facts(subsets);
    assert_eq!(MirroredObject::new("ns", &large, 1000).unwrap().groups.len(), 60);
    large.extras.annotations = [("a".into(), "x".repeat(200_000).into())].into();
    assert_eq!(MirroredObject::new("ns", &large, 1000), None);
}

#[test]
fn ports_that_share_a_name_share_their_endpoints() {
    let one = MirroredObject::new("ns", &alike(1000, 5), 1000).unwrap();
    assert_eq!(one.table.len(), 1000);
    let lists: Vec<_> = one.groups.iter().map(|group| group.members.as_ptr()).collect();
    assert!(lists.iter().all(|list| *list == lists[0]));
}

/// Lays out in steps of a unit. Returns the object and the most units of a step.
fn in_steps(facts: &EndpointsFacts) -> (Option<MirroredObject>, u64) {
    let mut layout = Layout::new("ns".into(), Box::new(facts.clone()), 1000);
    let (mut work, mut most) = (Work::default(), 0);
    loop {
        let before = work.total();
        let laid = layout.step(&mut TurnBudget::new(1), &mut work);
        most = most.max(work.total() - before);
        match laid {
            Laid::Partly => {}
            Laid::Out(object) => return (Some(*object), most),
            Laid::TooLarge(_) => return (None, most),
        }
    }
}

#[test]
fn a_layout_in_steps_ends_as_one_at_once_does() {
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..300 {
        let subsets = (0..random.usize(0..5)).map(|_| {
            let mut list = || -> Vec<String> {
                let list = (0..random.usize(0..4)).map(|_| format!("10.0.0.{}", random.u8(0..5)));
                list.collect()
            };
            let (ready, not_ready) = (list(), list());
            let texts = |list: &[String]| list.iter().map(|text| address(text)).collect();
            let ports =
                (0..random.usize(0..4)).map(|_| port(["a", "b", ""][random.usize(0..3)], random.u16(0..4)));
            SubsetFacts {
                ports: ports.collect(),
                ready: texts(&ready),
                not_ready: texts(&not_ready),
            }
        });
        let facts = facts(subsets.collect());
        let (cut, _) = in_steps(&facts);
        assert_eq!(cut, MirroredObject::new("ns", &facts, 1000));
        let object = cut.unwrap();
        for group in &object.groups {
            assert!(object.endpoints_of(group).is_sorted());
            assert_eq!(
                object
                    .position(group.family, &group.ports)
                    .map(|at| &object.groups[at]),
                Some(group)
            );
        }
    }
}

fn changes(old: &MirroredObject, new: &MirroredObject) -> (Changes, u64) {
    let mut work = Work::default();
    let mut comparison = Comparison::default();
    loop {
        let changes = comparison.step(Some(old), new, &mut TurnBudget::new(1), &mut work);
        if let Some(changes) = changes {
            return (changes, work.total());
        }
    }
}

#[test]
fn changes_are_counted_by_address_and_only_in_groups_that_differ() {
    let subsets = |first: &[&str], not_ready: &[&str]| {
        vec![
            subset(first, not_ready, &[("a", 1), ("b", 2)]),
            subset(&["10.1.0.1", "10.1.0.2"], &[], &[("c", 3)]),
        ]
    };
    let old = mirrored(subsets(&["10.0.0.1", "10.0.0.2", "10.0.0.3"], &[]), 1000);
    let new = mirrored(
        subsets(&["10.0.0.1", "10.0.0.4", "10.0.0.5"], &["10.0.0.2"]),
        1000,
    );
    let counted = Changes {
        added: 2,
        updated: 1,
        removed: 1,
    };
    assert_eq!(changes(&old, &new).0, counted);
    let many: Vec<_> = (0..1000)
        .map(|n| format!("10.0.{}.{}", n / 250, n % 250))
        .collect();
    let many: Vec<_> = many.iter().map(|address| &**address).collect();
    let large = mirrored(subsets(&many, &[]), 1000);
    let (none, work) = changes(&large, &large.clone());
    assert_eq!(none, Changes::default());
    assert!(work < 10, "{work}");
}

#[test]
fn families_get_slices_of_their_own_and_share_the_limit() {
    let both = subset(&["10.0.0.1", "fd00::1"], &["10.0.0.2", "nonsense"], &[("a", 1)]);
    let all = mirrored(vec![both.clone()], 1000);
    assert_eq!(groups(&all), ["IPv4 a: 10.0.0.1 10.0.0.2!", "IPv6 a: fd00::1"]);
    assert_eq!(
        all.left_out,
        LeftOut {
            invalid: 1,
            beyond_limit: 0
        }
    );
    let cut = mirrored(vec![both], 2);
    assert_eq!(groups(&cut), ["IPv4 a: 10.0.0.1", "IPv6 a: fd00::1"]);
    assert_eq!(
        cut.left_out,
        LeftOut {
            invalid: 0,
            beyond_limit: 2
        }
    );
}

#[test]
fn ready_addresses_come_first_and_each_kind_by_its_text() {
    let one = mirrored(
        vec![subset(
            &["10.0.0.9", "10.0.0.10"],
            &["10.0.0.1", "10.0.0.11"],
            &[("a", 1)],
        )],
        3,
    );
    assert_eq!(groups(&one), ["IPv4 a: 10.0.0.1! 10.0.0.9 10.0.0.10"]);
}

#[test]
fn endpoints_that_agree_in_address_hostname_and_target_are_one() {
    let named = |uid: &str| AddressFacts {
        pod: Some(("p".into(), Uid::from(uid))),
        ..address("10.0.0.1")
    };
    let other = AddressFacts {
        hostname: Some("h".into()),
        ..named("c")
    };
    let mut both = subset(&[], &[], &[("a", 1)]);
    both.ready = vec![named("a"), named("b"), other];
    let one = mirrored(vec![both], 1000);
    assert_eq!(one.endpoints(), 2);
    let uids = one.endpoints_of(&one.groups[0]);
    let uids: Vec<_> = uids
        .map(|endpoint| &*endpoint.target.as_ref().unwrap().uid)
        .collect();
    assert_eq!(uids, ["b", "c"]);
}

#[test]
fn fingerprints_cover_what_is_written_and_nothing_else() {
    let plain = || facts(vec![subset(&["10.0.0.1", "10.0.0.2"], &[], &[("a", 1)])]);
    let of = |facts: &EndpointsFacts| MirroredObject::new("ns", facts, 1000).unwrap().groups[0].fingerprint;
    let base = of(&plain());
    let mut same = plain();
    same.subsets[0].ready.reverse();
    same.meta.uid = Uid::from("another");
    let annotations = [ANNOTATION_LAST_APPLIED, ANNOTATION_TRIGGER_TIME];
    let annotations = annotations.map(|key| (key.into(), "x".into()));
    same.extras.annotations = annotations.into();
    same.labels = [(LABEL_MANAGED_BY, "me"), (LABEL_SERVICE_NAME, "other")]
        .into_iter()
        .collect();
    assert_eq!(of(&same), base);
    let changes: [fn(&mut EndpointsFacts); 6] = [
        |facts| facts.labels = [("a", "b")].into_iter().collect(),
        |facts| facts.extras.annotations = [("a".into(), "b".into())].into(),
        |facts| facts.over_capacity = Some("truncated".into()),
        |facts| facts.subsets[0].ready[0].node = Some("n".into()),
        |facts| {
            let gone = facts.subsets[0].ready.pop();
            facts.subsets[0].not_ready.extend(gone);
        },
        |facts| facts.subsets[0].ports[0].app_protocol = Some("http".into()),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut changed = plain();
        change(&mut changed);
        assert_ne!(of(&changed), base, "change {at}");
    }
}
