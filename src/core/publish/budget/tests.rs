use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn limits(watchers: Watchers) -> WatchLimits {
    WatchLimits {
        watchers,
        total: 10_000_000.0,
        each: 100_000.0,
        ..WatchLimits::UNWATCHED
    }
}

fn pay(budget: &mut WatchBudget, removes: bool) {
    let paid = budget.pay(removes);
    budget.correct(paid, Some(Size::Bytes(10_000)), Duration::ZERO);
}

/// Writes whatever may be written for so long, and returns the numbers of removals and of others.
fn drain(
    budget: &mut WatchBudget,
    from: Duration,
    lasting: Duration,
    removals: bool,
    others: bool,
) -> (u32, u32) {
    let (mut count, mut now) = ((0, 0), from);
    while now < from + lasting {
        match budget.allow(now) {
            (_, true) if others && !(removals && count.0 <= count.1) => {
                pay(budget, false);
                count.1 += 1;
            }
            (true, _) if removals => {
                pay(budget, true);
                count.0 += 1;
            }
            _ => {
                let wait = if removals {
                    budget.wait_of_removals()
                } else {
                    budget.wait()
                };
                assert!(wait > Duration::ZERO, "a caller that may not write has to wait");
                now += wait;
            }
        }
    }
    count
}

/// Checks how many writes go each second, once what was saved up is spent.
fn assert_rate(limits: WatchLimits, nodes: usize, expected: u32) {
    let mut budget = WatchBudget::new(limits);
    budget.set_nodes(nodes, Duration::ZERO);
    drain(&mut budget, Duration::ZERO, SECOND * 10, true, true);
    let (removals, others) = drain(&mut budget, SECOND * 20, SECOND * 100, true, true);
    let rate = f64::from(removals + others) / 100.0;
    let expected = f64::from(expected);
    assert!(
        (expected..expected * 1.2 + 0.1).contains(&rate),
        "{nodes} nodes: {rate}"
    );
}

#[test]
fn the_rate_is_that_of_each_watcher_or_that_of_all() {
    // Ten writes a second of 10 KB to each; the API servers are the limit from 100 watchers on.
    for (nodes, expected) in [(1, 10), (50, 10), (100, 10), (200, 5), (500, 2)] {
        assert_rate(limits(Watchers::PerNode(1.0)), nodes, expected);
    }
}

#[test]
fn few_watchers_may_receive_more_each() {
    // Fewer watchers may receive what ten may receive together, as long as that is below the limit for all.
    for (nodes, few, expected) in [
        (1, 1_000_000.0, 100),
        (5, 1_000_000.0, 20),
        (10, 1_000_000.0, 10),
        (50, 1_000_000.0, 10),
        (5, 20_000_000.0, 200),
    ] {
        let limits = WatchLimits {
            few,
            ..limits(Watchers::PerNode(1.0))
        };
        assert_rate(limits, nodes, expected);
    }
}

#[test]
fn what_is_kept_for_removals_that_are_not_there_is_for_all() {
    let mut budget = WatchBudget::new(limits(Watchers::Fixed(100)));
    drain(&mut budget, Duration::ZERO, SECOND * 10, false, true);
    let (_, others) = drain(&mut budget, SECOND * 10, SECOND * 100, false, true);
    assert!(
        (950..=1_050).contains(&others),
        "what removals do not use is used: {others}"
    );
    let (removals, others) = drain(&mut budget, SECOND * 110, SECOND * 100, true, true);
    assert!(
        removals >= 400 && others >= 190 && removals + others < 1_050,
        "{removals} {others}"
    );
}

#[test]
fn without_watchers_or_limits_there_is_no_limit() {
    for limits in [
        WatchLimits::UNWATCHED,
        limits(Watchers::PerNode(1.0)),
        WatchLimits {
            watchers: Watchers::Fixed(1_000),
            ..WatchLimits::UNWATCHED
        },
    ] {
        let mut budget = WatchBudget::new(limits);
        for _ in 0..1_000 {
            assert_eq!(budget.allow(Duration::ZERO), (true, true));
            let paid = budget.pay(false);
            budget.correct(paid, Some(Size::Bytes(1_000_000)), Duration::ZERO);
        }
        assert_eq!((budget.wait(), budget.pace()), (Duration::ZERO, None));
    }
}

#[test]
fn requests_that_are_built_later_do_not_go_beyond_it() {
    // As many as have places are granted before the first of them is built.
    for removes in [false, true] {
        let mut budget = WatchBudget::new(limits(Watchers::Fixed(100)));
        let (mut now, mut count) = (Duration::ZERO, 0);
        while now < SECOND * 100 {
            let mut paid = Vec::new();
            let may = |budget: &mut WatchBudget| {
                let (removals, others) = budget.allow(now);
                if removes { removals } else { others }
            };
            while paid.len() < 16 && may(&mut budget) {
                paid.push(budget.pay(removes));
            }
            count += paid.len();
            for paid in paid {
                budget.correct(paid, Some(Size::Bytes(10_000)), Duration::ZERO);
            }
            now += Duration::from_millis(10);
        }
        assert!((950..1_150).contains(&count), "{removes}: {count}");
    }
}

#[test]
fn what_is_not_sent_is_not_paid_for() {
    let mut budget = WatchBudget::new(limits(Watchers::Fixed(100)));
    for _ in 0..10_000 {
        assert_eq!(budget.allow(Duration::ZERO), (true, true));
        let paid = budget.pay(false);
        assert!(budget.correct(paid, None, Duration::ZERO).sent.abs() < 1.0);
    }
}

#[test]
fn half_of_it_is_left_while_echoes_tell_nothing() {
    let mut budget = WatchBudget::new(limits(Watchers::Fixed(100)));
    drain(&mut budget, Duration::ZERO, SECOND * 10, true, true);
    budget.set_blind(true, SECOND * 10);
    let (removals, others) = drain(&mut budget, SECOND * 10, SECOND * 100, true, true);
    assert!((490..=520).contains(&(removals + others)), "{removals} {others}");
}

#[test]
fn what_was_owed_on_five_thousand_nodes_was_owed_in_full_on_one() {
    let limits = WatchLimits {
        watchers: Watchers::PerNode(1.0),
        total: 2.0e9,
        each: 0.4e6,
        few: 120e6,
        ..WatchLimits::UNWATCHED
    };
    let mut budget = WatchBudget::new(limits);
    budget.set_nodes(5_000, Duration::ZERO);
    while budget.allow(Duration::ZERO).1 {
        let paid = budget.pay(false);
        let cost = budget.correct(paid, Some(Size::Bytes(1_000_000)), Duration::ZERO);
        budget.owe(&"huge".into(), cost, Duration::ZERO);
    }
    let owed_until = |budget: &WatchBudget, now: Duration| {
        let debt = budget.debts.missing().unwrap();
        (budget.owed_until(now).unwrap().saturating_sub(now), debt)
    };
    let (before, debt) = owed_until(&budget, Duration::ZERO);
    assert!(before > SECOND, "{before:?}");
    budget.set_nodes(1, Duration::ZERO);
    // As after ten minutes, in which what is owed would be paid.
    budget.falls.clear();
    budget.count_watchers();
    let (after, same) = owed_until(&budget, Duration::ZERO);
    assert!(
        (debt - same).abs() < 1.0,
        "the same writes are owed: {debt} {same}"
    );
    // One watcher may receive 120 MB/s instead of 0.4, of which a quarter goes to what is owed until the budget is full.
    let shorter = before.as_secs_f64() / after.as_secs_f64();
    assert!((70.0..310.0).contains(&shorter), "{shorter}");
    assert!(budget.wait() < SECOND, "{:?}", budget.wait());
    budget.set_nodes(5_000, Duration::ZERO);
    assert!(budget.wait() < SECOND, "{:?}", budget.wait());
}

#[test]
fn a_small_write_was_almost_free() {
    let mut budget = WatchBudget::new(limits(Watchers::Fixed(100)));
    let (mut now, mut writes) = (Duration::ZERO, 0);
    while now < SECOND * 100 {
        if budget.allow(now).1 {
            let paid = budget.pay(false);
            let cost = budget.correct(paid, Some(Size::Bytes(400)), now);
            assert!(
                (cost.sent - 40_000.0).abs() < 1.0,
                "that is what watchers receive"
            );
            writes += 1;
        } else {
            now += budget.wait();
        }
    }
    assert!((990..1_050).contains(&writes), "ten a second, not 250: {writes}");
}

#[test]
fn one_namespace_alone_made_huge_slices_usual_and_deletes_as_dear() {
    let limits = WatchLimits {
        total: 120e6,
        each: 0.0,
        ..limits(Watchers::Fixed(300))
    };
    let mut budget = WatchBudget::new(limits);
    let full = budget.full();
    let (mut now, namespace) = (Duration::ZERO, Arc::from("huge"));
    while now < SECOND * 20 * 60 {
        let removes = budget.debts.len() == 0;
        if removes && budget.allow(now).0 {
            let paid = budget.pay(removes);
            let cost = budget.correct(paid, Some(Size::Bytes(1_200_000)), now);
            budget.owe(&namespace, cost, now);
            assert!(budget.debts.len() > 0, "it owes what is beyond the usual");
        }
        now += SECOND / 10;
    }
    assert_eq!(budget.full(), full, "no more is saved up for a burst");
    let (since, mut deletes) = (now, 0);
    while deletes < 200 {
        if budget.allow(now).0 {
            let paid = budget.pay(true);
            budget.correct(paid, Some(Size::Unknown), now);
            deletes += 1;
        } else {
            now += budget.wait_of_removals();
        }
    }
    let took = now.saturating_sub(since);
    assert!(took < SECOND * 8, "{took:?}");
}

/// The proxy of a deleted node goes on to watch for a while.
#[test]
fn the_largest_number_of_nodes_of_ten_minutes_counts() {
    let mut budget = WatchBudget::new(limits(Watchers::PerNode(1.0)));
    let minute = 60 * SECOND;
    budget.set_nodes(300, Duration::ZERO);
    budget.set_nodes(200, minute);
    budget.set_nodes(0, 9 * minute);
    let watchers = |budget: &mut WatchBudget, at| {
        budget.allow(at);
        budget.watchers() as u32
    };
    assert_eq!(watchers(&mut budget, 10 * minute), 300);
    assert_eq!(watchers(&mut budget, 11 * minute), 200);
    budget.set_nodes(100, 12 * minute);
    assert_eq!(watchers(&mut budget, 18 * minute), 200);
    assert_eq!(watchers(&mut budget, 19 * minute), 100);
    budget.set_nodes(400, 20 * minute);
    assert_eq!(watchers(&mut budget, 20 * minute), 400, "at once");
}
