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
