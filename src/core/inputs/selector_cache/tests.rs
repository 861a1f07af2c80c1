use super::*;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().copied().collect()
}

fn selector(pairs: &[(&str, &str)]) -> Selector {
    Selector::new(labels(pairs)).unwrap()
}

fn add(cache: &mut SelectorCache, service: ServiceId, selector: &Selector, work: &mut Work) {
    if let Some(mut matching) = cache.begin_add(service, selector, work) {
        while !cache.step(&mut matching, work) {}
    }
}

#[test]
fn matches_are_found_in_both_orders_of_arrival() {
    let (mut cache, mut work) = (SelectorCache::default(), Work::default());
    add(&mut cache, ServiceId(0), &selector(&[("app", "a")]), &mut work);
    let (a, _) = cache.attach(PodId(0), &labels(&[("app", "a"), ("x", "1")]), &mut work);
    let (b, _) = cache.attach(PodId(1), &labels(&[("app", "a"), ("x", "2")]), &mut work);
    assert_eq!(cache.services(a)[..], [ServiceId(0)]);
    assert_eq!(cache.sizes(), (2, 1), "both are matched by the same");
    add(
        &mut cache,
        ServiceId(1),
        &selector(&[("app", "a"), ("x", "2")]),
        &mut work,
    );
    assert_eq!(cache.services(a)[..], [ServiceId(0)]);
    assert_eq!(cache.services(b)[..], [ServiceId(0), ServiceId(1)]);
    assert_eq!(cache.sizes(), (2, 2));
    assert_eq!(cache.pods(ServiceId(0)).len(), 2);
    assert_eq!(cache.pods(ServiceId(1)), [PodId(1)]);
    cache.remove(ServiceId(1));
    assert_eq!(cache.services(b)[..], [ServiceId(0)]);
    assert_eq!(cache.sizes(), (2, 1), "as before");
}

#[test]
fn nothing_is_kept_of_what_is_gone() {
    let (mut cache, mut work) = (SelectorCache::default(), Work::default());
    add(&mut cache, ServiceId(0), &selector(&[("app", "a")]), &mut work);
    for i in 0..100 {
        let unique = i.to_string();
        let at = cache.attach(PodId(i), &labels(&[("app", "a"), ("hash", &unique)]), &mut work);
        assert_eq!(cache.detach(at.0, at.1), None);
    }
    assert_eq!(cache.sizes(), (0, 0));
    cache.remove(ServiceId(0));
    assert!(cache.pairs.is_empty() && cache.selectors.is_empty() && cache.matches_by_selectors.is_empty());
}

#[test]
fn a_reused_index_does_not_meet_an_old_match() {
    let (mut cache, mut work) = (SelectorCache::default(), Work::default());
    add(&mut cache, ServiceId(0), &selector(&[("app", "a")]), &mut work);
    let first = cache.attach(PodId(0), &labels(&[("app", "a")]), &mut work);
    assert_eq!(cache.services(first.0)[..], [ServiceId(0)]);
    cache.detach(first.0, first.1);
    let second = cache.attach(PodId(1), &labels(&[("app", "b")]), &mut work);
    assert_eq!(second.0, first.0, "the index is used again");
    assert!(cache.services(second.0).is_empty());
    cache.remove(ServiceId(0));
    add(&mut cache, ServiceId(0), &selector(&[("app", "b")]), &mut work);
    assert_eq!(cache.services(second.0)[..], [ServiceId(0)]);
}

#[test]
fn detaching_tells_which_pod_moved() {
    let (mut cache, mut work) = (SelectorCache::default(), Work::default());
    let set = labels(&[("app", "a")]);
    let places: Vec<_> = (0..3).map(|i| cache.attach(PodId(i), &set, &mut work)).collect();
    assert_eq!(cache.detach(places[0].0, places[0].1), Some(PodId(2)));
    assert_eq!(cache.detach(places[0].0, 1), None);
}

#[test]
fn a_pair_that_all_share_makes_no_candidates_of_all() {
    let (mut cache, mut work) = (SelectorCache::default(), Work::default());
    for i in 0..1000 {
        add(
            &mut cache,
            ServiceId(i),
            &selector(&[("app", "web"), ("shard", &i.to_string())]),
            &mut work,
        );
    }
    let before = work.selector_evaluations;
    let (set, _) = cache.attach(PodId(0), &labels(&[("app", "web"), ("shard", "7")]), &mut work);
    assert_eq!(cache.services(set)[..], [ServiceId(7)]);
    assert!(
        work.selector_evaluations - before <= 2,
        "the rarest pair is the index"
    );
}

fn parse(text: &str) -> Selector {
    Selector::parse(text).unwrap().unwrap()
}

/// Selectors of every kind, and sets of labels that tell them apart.
const SELECTORS: [&str; 17] = [
    "app=a",
    "app=a,tier!=back",
    "app in (a,b)",
    "app in (a,b),tier in (front,back,mid)",
    "tier",
    "tier,app!=a",
    "!tier",
    "app!=a",
    "app notin (a,b)",
    "n>5",
    "n<5,app",
    "app=a,n>5,!legacy",
    "app=a,app=b",
    "!app,!tier",
    "app in (b,c,d,e,f,g)",
    "app in (b,c,d,e,f,g),tier",
    "app=a,app=b,n in (1,2,3,4,5,6),tier=front,legacy",
];

#[test]
fn whatever_the_order_selectors_match_what_they_should_and_leave_nothing() {
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..300 {
        let (mut cache, mut work) = (SelectorCache::default(), Work::default());
        let (mut pods, mut services) = (Vec::new(), Vec::new());
        for step in 0..60 {
            match random.u8(..6) {
                0 | 1 => {
                    let choice = |random: &mut fastrand::Rng, values: &[&'static str]| {
                        random.choice(values).copied().unwrap()
                    };
                    let app = choice(&mut random, &["a", "b", "c", ""]);
                    let tier = choice(&mut random, &["front", "back", ""]);
                    let n = choice(&mut random, &["4", "5", "6", "x", ""]);
                    let legacy = choice(&mut random, &["1", ""]);
                    let pairs = [("app", app), ("tier", tier), ("n", n), ("legacy", legacy)];
                    let set: Labels = pairs.into_iter().filter(|(_, value)| !value.is_empty()).collect();
                    if let Some(mut matching) = cache.begin_labels(&set, &mut work) {
                        while !cache.step(&mut matching, &mut work) {}
                    }
                    let (id, at) = cache.attach(PodId(step), &set, &mut work);
                    pods.push((PodId(step), set, id, at));
                }
                2 | 3 => {
                    let selector = parse(SELECTORS[random.usize(..SELECTORS.len())]);
                    add(&mut cache, ServiceId(step), &selector, &mut work);
                    services.push((ServiceId(step), selector));
                }
                4 if !pods.is_empty() => {
                    let (_, _, id, at) = pods.swap_remove(random.usize(..pods.len()));
                    if let Some(moved) = cache.detach(id, at) {
                        let moved = pods.iter_mut().find(|(pod, ..)| *pod == moved).unwrap();
                        moved.3 = at;
                    }
                }
                _ if !services.is_empty() => {
                    let (service, _) = services.swap_remove(random.usize(..services.len()));
                    cache.remove(service);
                }
                _ => {}
            }
            for (service, selector) in &services {
                let mut expected: Vec<PodId> = Vec::new();
                for (pod, set, id, _) in &pods {
                    let matches = selector.matches(set, &mut Work::default());
                    assert_eq!(cache.selects(*service, *id), matches, "{selector} {set:?}");
                    assert_eq!(cache.services(*id).contains(service), matches);
                    expected.extend(matches.then_some(*pod));
                }
                let mut found = cache.pods(*service);
                found.sort_unstable();
                expected.sort_unstable();
                assert_eq!(found, expected, "{selector}");
            }
        }
        let mut lists: Vec<Vec<ServiceId>> = pods
            .iter()
            .map(|(_, _, id, _)| cache.services(*id).to_vec())
            .collect();
        lists.sort_unstable();
        lists.dedup();
        lists.retain(|list| !list.is_empty());
        assert_eq!(cache.sizes().1, lists.len(), "each distinct list is counted once");
        for (service, _) in services {
            cache.remove(service);
        }
        for at in (0..pods.len()).rev() {
            let (_, _, id, position) = pods.swap_remove(at);
            if let Some(moved) = cache.detach(id, position) {
                let moved = pods.iter_mut().find(|(pod, ..)| *pod == moved).unwrap();
                moved.3 = position;
            }
        }
        assert!(cache.pairs.is_empty() && cache.selectors.is_empty() && cache.by_key.is_empty());
        assert!(cache.unanchored.is_empty() && cache.selector_bytes == 0);
        assert!(cache.matches.is_empty() && cache.only == 0);
    }
}

#[test]
fn selectors_by_values_and_keys_are_compared_only_with_labels_that_have_one() {
    let (mut cache, mut work) = (SelectorCache::default(), Work::default());
    for number in 0..1000_u32 {
        let text = format!("app in (a{number},b{number})");
        add(&mut cache, ServiceId(2 * number), &parse(&text), &mut work);
        let text = format!("key{number},!legacy");
        add(&mut cache, ServiceId(2 * number + 1), &parse(&text), &mut work);
    }
    let before = work;
    let (full, _) = cache.attach(PodId(0), &labels(&[("app", "b7"), ("key9", "")]), &mut work);
    assert_eq!((work - before).selector_evaluations, 2);
    assert_eq!(cache.services(full)[..], [ServiceId(14), ServiceId(19)]);

    // One that only excludes labels is compared once with each distinct set of labels.
    add(&mut cache, ServiceId(5000), &parse("app!=b7"), &mut work);
    let before = work;
    for pod in 1..100 {
        cache.attach(PodId(pod), &labels(&[("app", "c")]), &mut work);
    }
    assert_eq!((work - before).selector_evaluations, 1);
}
