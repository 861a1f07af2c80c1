use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn zone(name: &str) -> Zone {
    name.into()
}

fn node(zone: &str, cpu: &str) -> NodeCapacity {
    NodeCapacity {
        ready: true,
        excluded: false,
        zone: (!zone.is_empty()).then(|| zone.into()),
        cpu: milli_cpu(cpu),
    }
}

fn capacity(nodes: &[NodeCapacity]) -> ZoneCapacity {
    let mut capacity = ZoneCapacity::default();
    for (i, node) in nodes.iter().enumerate() {
        capacity.apply(&format!("n{i}").into(), Some(node));
    }
    capacity
}

fn ratios(cpu: &[i128]) -> ZoneRatios {
    let names = cpu
        .iter()
        .enumerate()
        .map(|(i, cpu)| (zone(&format!("z{i}")), *cpu));
    ZoneRatios::new(names).unwrap()
}

/// Ready, zone, hint.
type Endpoint = (bool, Option<Zone>, Option<Zone>);

type Named<'a> = (bool, &'a str, &'a str);

/// Owns what slices borrow.
#[derive(Clone, Debug)]
struct Input(Vec<(bool, Vec<Endpoint>)>);

impl Input {
    fn new(slices: &[(bool, &[Named<'_>])]) -> Self {
        let name = |name: &str| (!name.is_empty()).then(|| zone(name));
        Self(
            slices
                .iter()
                .map(|(touched, endpoints)| {
                    let endpoints = endpoints.iter().map(|(r, z, h)| (*r, name(z), name(h)));
                    (*touched, endpoints.collect())
                })
                .collect(),
        )
    }

    fn slices(&self) -> Vec<HintedSlice<'_>> {
        self.0
            .iter()
            .map(|(touched, endpoints)| HintedSlice {
                touched: *touched,
                endpoints: endpoints
                    .iter()
                    .map(|(ready, zone, hint)| HintedEndpoint {
                        ready: *ready,
                        zone: zone.as_ref(),
                        hint: hint.as_ref(),
                    })
                    .collect(),
            })
            .collect()
    }

    fn assign(&self, ratios: &ZoneRatios) -> Result<Vec<SliceHints>, Disabled> {
        let result = assign(ratios, &self.slices());
        check(ratios, &self.slices(), &result).unwrap();
        result
    }

    fn apply(&mut self, result: &[SliceHints]) {
        for (touched, _) in &mut self.0 {
            *touched = false;
        }
        for SliceHints { slice, hints } in result {
            for (endpoint, hint) in self.0[*slice].1.iter_mut().zip(hints) {
                endpoint.2.clone_from(hint);
            }
        }
    }

    fn totals(&self) -> BTreeMap<&str, usize> {
        let mut totals = BTreeMap::new();
        for (_, _, hint) in self.0.iter().flat_map(|s| &s.1).filter(|e| e.0) {
            *totals.entry(hint.as_deref().unwrap()).or_default() += 1;
        }
        totals
    }
}

fn hints(result: Result<Vec<SliceHints>, Disabled>) -> Vec<Vec<String>> {
    result
        .unwrap()
        .into_iter()
        .map(|s| {
            s.hints
                .into_iter()
                .map(|h| h.map_or_else(String::new, |h| h.to_string()))
                .collect()
        })
        .collect()
}

#[test]
fn the_older_annotation_decides_where_it_stands() {
    for (older, newer, field, mode) in [
        (None, None, None, HintMode::None),
        (None, Some("Auto"), None, HintMode::Auto),
        (None, Some("auto"), Some("PreferClose"), HintMode::Auto),
        (Some("auto"), None, None, HintMode::Auto),
        (Some("disabled"), Some("Auto"), None, HintMode::None),
        (
            Some("disabled"),
            Some("Auto"),
            Some("PreferClose"),
            HintMode::SameZone,
        ),
        (Some("Auto"), Some("Disabled"), None, HintMode::Auto),
        (None, Some("AUTO"), Some("PreferSameZone"), HintMode::SameZone),
        (None, Some(""), Some("PreferSameNode"), HintMode::SameNode),
        (None, None, Some("PreferSomething"), HintMode::None),
        (None, None, Some(""), HintMode::None),
    ] {
        assert_eq!(
            HintMode::of(older, newer, field),
            mode,
            "{older:?} {newer:?} {field:?}"
        );
    }
}

/// Goldens prefer-close, prefer-same-zone, prefer-same-node.
#[test]
fn traffic_distribution_hints_each_endpoint_by_itself() {
    let hint = |mode: HintMode, ready, zone, node| {
        let hint = mode.hint(ready, zone, node);
        (hint.zone, hint.node)
    };
    let (z, n) = (Some("z1"), Some("n1"));
    assert_eq!(hint(HintMode::SameZone, true, z, n), (z, None));
    assert_eq!(hint(HintMode::SameZone, true, None, n), (None, None));
    assert_eq!(hint(HintMode::SameZone, false, z, n), (None, None));
    assert_eq!(hint(HintMode::SameNode, true, z, n), (z, n));
    assert_eq!(hint(HintMode::SameNode, true, None, n), (None, n));
    assert!(HintMode::SameNode.hint(false, z, n).is_none());
    assert!(HintMode::None.hint(true, z, n).is_none());
    assert!(HintMode::Auto.hint(true, z, n).is_none());
}

/// Goldens hints-control-plane and hints-one-zone-nodes.
#[test]
fn only_ready_workers_count() {
    let third = |c: &ZoneCapacity| {
        c.ratios()
            .unwrap()
            .iter()
            .map(|(z, r)| (z.to_string(), r))
            .collect::<Vec<_>>()
    };
    let mut c = capacity(&[node("z1", "4"), node("z2", "4"), node("z3", "4")]);
    let expected: Vec<_> = ["z1", "z2", "z3"].map(|z| (z.to_owned(), 1.0 / 3.0)).into();
    assert_eq!(third(&c), expected);
    let excluded = NodeCapacity {
        excluded: true,
        ..node("z4", "4")
    };
    let unready = NodeCapacity {
        ready: false,
        ..node("", "4")
    };
    assert!(!c.apply(&"cp".into(), Some(&excluded)));
    assert!(!c.apply(&"down".into(), Some(&unready)));
    assert!(!c.apply(&"n0".into(), Some(&node("z1", "4000m"))));
    assert_eq!(third(&c), expected);
    assert!(c.apply(&"n2".into(), Some(&node("z1", "4"))));
    assert_eq!(
        third(&c),
        [("z1".to_owned(), 2.0 / 3.0), ("z2".to_owned(), 1.0 / 3.0)]
    );
    assert!(c.apply(&"n1".into(), None));
    assert_eq!(c.ratios(), Err(Disabled::OneZone));
    assert!(!c.apply(&"n1".into(), None));
    assert_eq!(ZoneCapacity::default().ratios(), Err(Disabled::NoNodes));
}

#[test]
fn one_unclear_node_disables_and_its_recovery_enables() {
    let mut c = capacity(&[node("z1", "4"), node("z2", "4")]);
    for unclear in [node("", "4"), node("z1", "0"), node("z1", "nonsense")] {
        assert!(c.apply(&"late".into(), Some(&unclear)));
        assert_eq!(c.ratios(), Err(Disabled::NodeInfo));
        assert!(c.apply(&"late".into(), Some(&node("z2", "4"))));
        assert_eq!(c.ratios().unwrap().len(), 2);
    }
    assert!(c.apply(&"late".into(), None));
    assert_eq!(
        c.ratios().unwrap().iter().map(|(_, r)| r).collect::<Vec<_>>(),
        [0.5, 0.5]
    );
}

/// Goldens hints-balanced and hints-unready-pod.
#[test]
fn one_pod_a_zone_is_balanced() {
    let input = Input::new(&[(
        true,
        &[
            (true, "z0", ""),
            (true, "z1", ""),
            (true, "z2", ""),
            (false, "z0", ""),
        ],
    )]);
    assert_eq!(hints(input.assign(&ratios(&[4, 4, 4]))), [["z0", "z1", "z2", ""]]);
}

/// Golden hints-too-few, and hints-over-distribution.
#[test]
fn too_few_endpoints_get_none() {
    let input = Input::new(&[(true, &[(true, "z0", ""), (true, "z1", ""), (false, "z2", "")])]);
    let reason = input.assign(&ratios(&[4, 4, 4])).unwrap_err();
    assert_eq!(
        reason,
        Disabled::TooFewEndpoints {
            endpoints: 2,
            zones: 3
        }
    );
    assert_eq!(
        reason.message(),
        "Insufficient number of endpoints (2 endpoints, 3 zones)"
    );
}

#[test]
fn minimums_above_the_number_disable() {
    let input = Input::new(&[(true, &[(true, "z0", ""), (true, "z1", ""), (true, "z2", "")])]);
    let reason = input.assign(&ratios(&[60, 20, 20])).unwrap_err();
    assert_eq!(
        reason,
        Disabled::Overload {
            endpoints: 3,
            zones: 3
        }
    );
}

#[test]
fn a_ready_endpoint_without_a_zone_disables() {
    let in_zones = [(true, "z0", ""), (true, "z1", ""), (true, "z0", "")];
    let input = |last| Input::new(&[(true, &in_zones), (true, &[last])]);
    let ratios = ratios(&[4, 4]);
    assert_eq!(input((true, "", "")).assign(&ratios), Err(Disabled::NoZone));
    let result = Input::new(&[(true, &[in_zones[0], in_zones[1], (false, "", "")])]).assign(&ratios);
    assert_eq!(hints(result), [["z0", "z1", ""]]);
}

/// Shares 0.35, 0.35, 0.30 of ten endpoints of which five, two and three are there: upstream ends with 4, 3, 3.
#[test]
fn endpoints_move_from_zones_with_too_many() {
    let mut input = Input::new(&[
        (true, &[(true, "z0", ""), (true, "z1", "")]),
        (true, &[(true, "z2", ""), (true, "z2", ""), (true, "z0", "")]),
        (true, &[(true, "z0", ""), (true, "z0", "")]),
        (true, &[(true, "z1", ""), (true, "z2", ""), (true, "z0", "")]),
    ]);
    let ratios = ratios(&[35, 35, 30]);
    let result = input.assign(&ratios).unwrap();
    input.apply(&result);
    assert_eq!(input.totals(), BTreeMap::from([("z0", 4), ("z1", 3), ("z2", 3)]));
    assert_eq!(input.assign(&ratios), Ok(Vec::new()));
}

#[test]
fn untouched_slices_keep_what_is_possible() {
    let ratios = ratios(&[4, 4]);
    // Swapped, but each zone has enough.
    let input = Input::new(&[(false, &[(true, "z0", "z1"), (true, "z1", "z0")])]);
    assert_eq!(input.assign(&ratios), Ok(Vec::new()));
    // A missing hint, a zone without capacity.
    for hint in ["", "z9"] {
        let input = Input::new(&[
            (false, &[(true, "z0", "z1"), (true, "z1", "z0")]),
            (false, &[(true, "z0", "z0"), (true, "z1", hint)]),
        ]);
        let result = input.assign(&ratios).unwrap();
        assert_eq!(result.iter().map(|s| s.slice).collect::<Vec<_>>(), [1]);
        assert_eq!(hints(Ok(result)), [["z0", "z1"]]);
    }
    // The second slice would put z0 over its maximum.
    let input = Input::new(&[
        (false, &[(true, "z0", "z0"), (true, "z1", "z0")]),
        (false, &[(true, "z0", "z0"), (true, "z1", "z0")]),
    ]);
    let result = input.assign(&ratios).unwrap();
    assert_eq!(result.iter().map(|s| s.slice).collect::<Vec<_>>(), [1]);
}

#[test]
fn an_endpoint_in_a_zone_without_capacity_stays_there() {
    let ratios = ratios(&[4, 4]);
    let mut input = Input::new(&[(
        true,
        &[
            (true, "z0", ""),
            (true, "z1", ""),
            (true, "z9", ""),
            (true, "z0", ""),
        ],
    )]);
    let result = input.assign(&ratios);
    assert_eq!(hints(result.clone()), [["z0", "z1", "z9", "z0"]]);
    input.apply(&result.unwrap());
    assert_eq!(input.assign(&ratios), Ok(Vec::new()));
}

/// Minimums of 9, 2 and 2 leave nothing to spare, and the stopping rule leaves 10, 2 and 1: over the maximum of
/// the first zone, so that upstream rewrites a slice at every turn.
#[test]
fn what_stays_over_the_maximum_is_not_written_again() {
    let ratios = ratios(&[8, 1, 1]);
    let one = (true, "z0", "");
    let mut input = Input::new(&[(true, &[one; 6]), (true, &[one; 7])]);
    let result = input.assign(&ratios).unwrap();
    input.apply(&result);
    assert_eq!(input.totals(), BTreeMap::from([("z0", 10), ("z1", 2), ("z2", 1)]));
    assert_eq!(input.assign(&ratios), Ok(Vec::new()));
}

/// The endpoints that the first slice keeps are due to z1, but only endpoints of z0 could move, of which it has 0.4 too
/// many.
#[test]
fn what_is_kept_gives_way_when_a_zone_would_be_over_its_maximum() {
    let ratios = ratios(&[106, 17, 17]);
    let allocations = ratios.allocate(14).unwrap();
    assert_eq!(
        allocations.iter().map(|a| a.maximum).collect::<Vec<_>>(),
        [10, 3, 3]
    );
    let mut input = Input::new(&[(false, &[(true, "z2", "z2"); 3]), (true, &[(true, "z0", ""); 11])]);
    let result = input.assign(&ratios).unwrap();
    assert_eq!(result.len(), 2);
    input.apply(&result);
    assert_eq!(input.totals(), BTreeMap::from([("z0", 11), ("z1", 1), ("z2", 2)]));
    assert_eq!(input.assign(&ratios), Ok(Vec::new()));
}

#[test]
fn who_was_moved_before_is_moved_again() {
    let ratios = ratios(&[4, 4]);
    let input = Input::new(&[(
        true,
        &[
            (true, "z0", "z0"),
            (true, "z0", "z0"),
            (true, "z0", "z1"),
            (true, "z0", "z1"),
        ],
    )]);
    assert_eq!(hints(input.assign(&ratios)), [["z0", "z0", "z1", "z1"]]);
}

#[test]
fn events_tell_changes_only() {
    let few = |endpoints| HintState::Disabled(Disabled::TooFewEndpoints { endpoints, zones: 3 });
    let event = |a: HintState, b| a.event(b, "IPv4").map(|e| (e.warning, e.message));
    let on = Some((
        false,
        "Topology Aware Hints has been enabled, addressType: IPv4".to_owned(),
    ));
    assert_eq!(event(HintState::Off, HintState::On), on);
    assert_eq!(event(few(1), HintState::On), on);
    assert_eq!(event(HintState::On, HintState::On), None);
    assert_eq!(event(few(1), few(2)), None);
    assert_eq!(event(few(1), HintState::Off), None);
    assert_eq!(
        event(HintState::On, HintState::Off).unwrap().1,
        "Topology Aware Hints has been disabled, addressType: IPv4"
    );
    assert_eq!(
        event(few(1), HintState::Disabled(Disabled::NoZone)).unwrap().1,
        "One or more endpoints do not have a zone specified, addressType: IPv4"
    );
    assert_eq!(
        event(HintState::On, few(2)).unwrap(),
        (
            true,
            "Insufficient number of endpoints (2 endpoints, 3 zones), addressType: IPv4".to_owned()
        )
    );
}

fn input() -> impl Strategy<Value = Input> {
    let zone_name = |missing: u32| {
        prop_oneof![
            30 => Just(Some(zone("z0"))),
            40 => (0..4usize).prop_map(|i| Some(zone(&format!("z{i}")))),
            4 => Just(Some(zone("z9"))),
            missing => Just(None),
        ]
    };
    let endpoint = (prop::bool::weighted(0.9), zone_name(0), zone_name(4));
    let slice = (any::<bool>(), prop::collection::vec(endpoint, 0..12));
    prop::collection::vec(slice, 0..6).prop_map(Input)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn assignments_are_right_and_final(
        mut input in input(),
        cpu in prop::collection::vec(1..12i128, 2..5),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 3),
    ) {
        let ratios = ratios(&cpu);
        for (slice, endpoint) in flips {
            let result = assign(&ratios, &input.slices());
            prop_assert_eq!(check(&ratios, &input.slices(), &result), Ok(()));
            let Ok(result) = result else { return Ok(()) };
            input.apply(&result);
            prop_assert_eq!(assign(&ratios, &input.slices()), Ok(Vec::new()));
            if let Some(slice) = (!input.0.is_empty()).then(|| slice.index(input.0.len())) {
                let (touched, endpoints) = &mut input.0[slice];
                if !endpoints.is_empty() {
                    let at = endpoint.index(endpoints.len());
                    (*touched, endpoints[at].0) = (true, !endpoints[at].0);
                }
            }
        }
    }

    #[test]
    fn capacity_is_the_sum_of_the_nodes_that_are_there(
        changes in prop::collection::vec((0..6usize, prop::option::of((0..4usize, 0..4i64, any::<bool>()))), 0..40),
    ) {
        let mut incremental = ZoneCapacity::default();
        let mut last = BTreeMap::new();
        for (name, change) in changes {
            let facts = change.map(|(z, cpu, ready)| NodeCapacity {
                ready,
                excluded: false,
                zone: (z > 0).then(|| zone(&format!("z{z}"))),
                cpu: Some(cpu * 1000),
            });
            let name: Arc<str> = format!("n{name}").into();
            let before = incremental.ratios().map(Arc::clone);
            let changed = incremental.apply(&name, facts.as_ref());
            prop_assert_eq!(changed, before != incremental.ratios().map(Arc::clone));
            match facts {
                Some(facts) => last.insert(name, facts),
                None => last.remove(&name),
            };
        }
        let mut rebuilt = ZoneCapacity::default();
        for (name, facts) in &last {
            rebuilt.apply(name, Some(facts));
        }
        prop_assert_eq!(incremental.ratios(), rebuilt.ratios());
    }
}
