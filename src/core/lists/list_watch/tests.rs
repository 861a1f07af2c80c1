mod brief;

use super::*;
use std::collections::HashSet;

fn at(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Returns all that is to be done now.
fn act(view: &mut ListWatch, now: Duration) -> Vec<Action> {
    std::iter::from_fn(|| view.act(now)).collect()
}

const FIRST: Demand = Demand::of(1);
const MANY: usize = 20_000;

/// Returns a view that was listed at 10, and watches.
fn watching() -> ListWatch {
    let mut view = ListWatch::new(Demand::of(0));
    assert_eq!(act(&mut view, at(0)), [Action::List]);
    view.listed(10, MANY, at(0), 0.5);
    let watch = Action::Watch {
        from: 10,
        short: false,
    };
    assert_eq!(act(&mut view, at(0)), [Action::Prove(Demand::of(0)), watch]);
    assert_eq!(view.wake(), None);
    view
}

#[test]
fn a_quiet_watch_is_proven_by_the_bookmark_of_a_short_one() {
    let mut view = watching();
    view.demanded(FIRST, at(100));
    assert_eq!(act(&mut view, at(100)), [Action::ReadVersion]);
    view.version_read(Ok(15), at(110), 0.5);
    let short = Action::Watch {
        from: 10,
        short: true,
    };
    assert_eq!(act(&mut view, at(110)), [short]);
    assert_eq!(view.wake(), Some(at(2110)));
    view.shown(14);
    assert_eq!(act(&mut view, at(900)), [], "not there yet");
    view.shown(15);
    assert_eq!(act(&mut view, at(1000)), [Action::Prove(FIRST)]);
    // The watch ends as it was meant to, which is not a failure.
    view.ended(End::Orderly, at(3110), 0.5);
    let long = Action::Watch {
        from: 15,
        short: false,
    };
    assert_eq!(act(&mut view, at(3110)), [long, Action::ReadVersion]);
}

#[test]
fn a_view_that_has_reached_the_floor_already_needs_no_watch() {
    let mut view = watching();
    view.shown(12);
    view.demanded(FIRST, at(100));
    act(&mut view, at(100));
    view.version_read(Ok(12), at(110), 0.5);
    assert_eq!(act(&mut view, at(110)), [Action::Prove(FIRST)]);
}

#[test]
fn where_a_list_is_small_it_is_the_quicker_proof() {
    let mut view = ListWatch::new(Demand::of(0));
    act(&mut view, at(0));
    view.listed(10, 500, at(0), 0.5);
    act(&mut view, at(0));
    view.demanded(FIRST, at(100));
    assert_eq!(act(&mut view, at(100)), [Action::List]);
    view.listed(12, 500, at(120), 0.5);
    assert_eq!(act(&mut view, at(120))[0], Action::Prove(FIRST));
    // And so it is when the list has only just been asked for.
    let mut view = ListWatch::new(Demand::of(0));
    act(&mut view, at(0));
    view.demanded(FIRST, at(200));
    assert_eq!(act(&mut view, at(200)), [Action::List]);
}

#[test]
fn what_falls_short_of_the_floor_is_listed_again() {
    let mut view = watching();
    view.demanded(FIRST, at(0));
    act(&mut view, at(0));
    view.version_read(Ok(15), at(10), 0.5);
    act(&mut view, at(10));
    view.shown(14);
    assert_eq!(act(&mut view, at(2009)), []);
    assert_eq!(act(&mut view, at(2010)), [Action::List]);
    view.listed(16, MANY, at(2500), 0.5);
    assert_eq!(
        act(&mut view, at(2500))[0],
        Action::Prove(FIRST),
        "asked for after the demand, a list needs no floor"
    );
}

#[test]
fn a_demand_is_heard_in_a_pause_and_no_watch_begins_before_a_version_was_read() {
    let mut view = watching();
    for _ in 0..5 {
        let now = view.wake().unwrap_or(at(0));
        act(&mut view, now);
        if view.is_reading() {
            view.version_read(Ok(10), now, 1.0);
            act(&mut view, now);
        }
        view.ended(End::Broken, now, 1.0);
    }
    assert!(view.wake().unwrap() > at(3200), "it waits");
    view.demanded(FIRST, at(3000));
    assert_eq!(act(&mut view, at(3000)), [Action::ReadVersion]);
    view.version_read(Err(None), at(3010), 0.5);
    assert_eq!(act(&mut view, at(3010)), []);
    assert_eq!(act(&mut view, at(3110)).len(), 0);
    assert_eq!(act(&mut view, at(3160)), [Action::ReadVersion]);
    // The version cannot be read, but a list may succeed.
    let mut now = at(3160);
    loop {
        view.version_read(Err(None), now, 0.5);
        now = now.max(view.wake().unwrap());
        if act(&mut view, now) == [Action::List] {
            break;
        }
    }
    assert!(now < at(5000), "{now:?}");
    view.list_failed(None, now, 0.5);
    assert!(view.wake().unwrap() > now + at(4000), "what failed before counts");
}

#[test]
fn a_list_from_before_the_demand_counts_if_it_reaches_the_floor() {
    for (version, proven) in [(14, false), (15, true)] {
        let mut view = ListWatch::new(Demand::of(0));
        act(&mut view, at(0));
        view.demanded(FIRST, at(300));
        assert_eq!(act(&mut view, at(300)), [Action::ReadVersion]);
        view.version_read(Ok(15), at(310), 0.5);
        view.listed(version, MANY, at(500), 0.5);
        assert_eq!(act(&mut view, at(500)).contains(&Action::Prove(FIRST)), proven);
    }
    // However long it takes, it is not begun anew. A watch may show what it lacks.
    let mut view = ListWatch::new(Demand::of(0));
    act(&mut view, at(0));
    view.demanded(FIRST, at(300));
    act(&mut view, at(300));
    view.version_read(Ok(15), at(310), 0.5);
    assert_eq!(act(&mut view, at(90_000)), []);
    view.demanded(FIRST.next(), at(91_000));
    assert_eq!(act(&mut view, at(91_000)), [Action::ReadVersion]);
    view.version_read(Ok(15), at(91_010), 0.5);
    assert_eq!(act(&mut view, at(95_000)), []);
    view.listed(14, MANY, at(99_000), 0.5);
    let short = Action::Watch {
        from: 14,
        short: true,
    };
    assert_eq!(act(&mut view, at(99_000)), [short]);
    // A demand that is made meanwhile needs the bookmark of another.
    view.demanded(FIRST.next().next(), at(100_000));
    assert_eq!(act(&mut view, at(100_000)), [Action::ReadVersion]);
    view.version_read(Ok(15), at(100_010), 0.5);
    assert_eq!(act(&mut view, at(100_010)), [short]);
    view.shown(15);
    let proof = Action::Prove(FIRST.next().next());
    assert_eq!(act(&mut view, at(101_000)), [proof]);
}

#[test]
fn once_versions_are_known_to_have_gone_backwards_only_a_list_is_believed() {
    let mut view = watching();
    view.shown(95);
    // Another kind has shown it. This one's history has gone on beyond what was known of the last one.
    let demand = Demand::of(0).next_history();
    view.demanded(demand, at(1000));
    assert_eq!(act(&mut view, at(1000)), [Action::List]);
    view.shown(99);
    assert_eq!(act(&mut view, at(1010)), []);
    // And it may be lower.
    assert!(view.accepts(60));
    view.listed(60, MANY, at(1500), 0.5);
    assert_eq!(act(&mut view, at(1500))[0], Action::Prove(demand));
    assert_eq!(view.reached(), Some(60));
}

#[test]
fn versions_that_go_backwards_are_noticed_by_what_is_read_and_not_by_late_events() {
    let mut view = watching();
    view.shown(20);
    view.shown(11);
    assert_eq!(view.reached(), Some(20), "late, and no more than that");
    view.ended(End::Orderly, at(300_000), 0.5);
    act(&mut view, at(300_000));
    view.version_read(Ok(5), at(300_010), 0.5);
    let actions = act(&mut view, at(300_010));
    assert_eq!(actions, [Action::Rewound { under: Demand::of(0) }, Action::List]);
    assert!(view.accepts(5) && !view.accepts(4));
    view.listed(6, MANY, at(300_020), 0.5);
    assert_eq!(view.reached(), Some(6), "the new ones are trusted");

    // By a list.
    let mut view = watching();
    view.shown(11);
    view.ended(End::Expired, at(0), 0.5);
    assert_eq!(act(&mut view, at(0)), [Action::List]);
    assert!(!view.accepts(9));
    view.listed(9, MANY, at(10), 0.5);
    assert_eq!(
        act(&mut view, at(10)),
        [Action::Rewound { under: Demand::of(0) }, Action::List],
        "once more, when it was forgotten"
    );
    // A version that was seen after a reading was sent says nothing about it.
    let mut view = watching();
    view.ended(End::Orderly, at(300_000), 0.5);
    act(&mut view, at(300_000));
    view.shown(30);
    view.version_read(Ok(25), at(300_010), 0.5);
    assert_eq!(act(&mut view, at(300_010)), []);
}

#[test]
fn stores_that_take_turns_are_not_listed_without_a_pause() {
    let (mut view, mut now, mut lists) = (watching(), at(0), 0);
    let mut demand = Demand::default();
    view.ended(End::Orderly, now, 0.5);
    while now < at(600_000) {
        match view.act(now) {
            Some(Action::List) => {
                lists += 1;
                view.listed(1000, MANY, now, 0.5);
            }
            Some(Action::ReadVersion) => view.version_read(Ok(1), now, 0.5),
            Some(Action::Rewound { .. }) => {
                demand = demand.next_history();
                view.demanded(demand, now);
            }
            Some(Action::Watch { .. }) => {
                view.shown(1001);
                view.ended(End::Orderly, now, 0.5);
            }
            Some(Action::Prove(_)) => {}
            None => now = view.wake().unwrap(),
        }
    }
    assert!(lists < 80, "{lists}");
}

// === every order of what can happen ===

/// A server, what is under way, and what is true of the view.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Case {
    view: ListWatch,
    now: Duration,
    /// The kind's current version, and the history of the store that it belongs to.
    present: u64,
    history: u8,
    /// The version and the history at the time of the last demand.
    demanded: (u64, u8),
    /// The history that the view is of, as of its last list.
    of: u8,
    /// A list that is under way: the history is that of the present when it is answered.
    listing: bool,
    /// A watch that is under way: the history that its server tells of, and the version that it tells next.
    watch: Option<(u8, u64)>,
    /// How far the history goes that watches of old connections tell of.
    old: u64,
    reading: bool,
    /// How many objects a list shows.
    size: usize,
    changes: u8,
    terms: u8,
    faults: u8,
}

impl Case {
    fn new() -> Self {
        let mut case = Self {
            view: ListWatch::new(Demand::of(0)),
            now: Duration::ZERO,
            present: 10,
            history: 0,
            demanded: (0, 0),
            of: 0,
            listing: false,
            watch: None,
            old: 0,
            reading: false,
            size: MANY,
            changes: 0,
            terms: 0,
            faults: 0,
        };
        case.act();
        case
    }

    /// Carries out what the view says, and checks what it claims.
    fn act(&mut self) {
        for _ in 0..20 {
            let Some(action) = self.view.act(self.now) else {
                self.reading &= self.view.is_reading();
                return;
            };
            match action {
                Action::List => {
                    (self.listing, self.watch) = (true, None);
                }
                Action::Watch { from, .. } => {
                    self.listing = false;
                    self.watch = Some((self.history, from));
                }
                Action::ReadVersion => self.reading = true,
                Action::Prove(demand) => {
                    assert_eq!(demand, self.view.demand());
                    let known = self.view.reached().expect("something was listed");
                    assert!(
                        self.of >= self.demanded.1,
                        "proven by what is known of another history: {:?}",
                        self.view
                    );
                    assert!(
                        self.of > self.demanded.1 || known >= self.demanded.0,
                        "{known} proves nothing about {:?}: {:?}",
                        self.demanded,
                        self.view
                    );
                }
                Action::Rewound { under } => {
                    assert!(self.history > 0, "versions went on: {:?}", self.view);
                    let demand = self.view.demand();
                    assert_eq!(demand.history, under.history, "it was told so already");
                    self.demanded = (self.present, self.history);
                    self.view.demanded(demand.next_history(), self.now);
                }
            }
        }
        panic!("there is no end to what is to be done: {:?}", self.view);
    }

    fn demand(&mut self) {
        self.demanded = (self.present, self.history);
        self.view.demanded(self.view.demand().next(), self.now);
    }

    /// Returns the next event of the watch, if its history has one after what it has told.
    fn next_event(&self) -> Option<u64> {
        let (history, from) = self.watch?;
        let last = if history == self.history {
            self.present
        } else {
            self.old
        };
        (from < last).then_some(from + 1)
    }

    /// Returns everything that can happen next.
    fn successors(&self) -> Vec<Self> {
        let mut all = Vec::new();
        let mut add = |change: &dyn Fn(&mut Self)| {
            let mut next = self.clone();
            next.now += at(1);
            change(&mut next);
            next.act();
            all.push(next);
        };
        if self.listing {
            add(&|case| {
                case.listing = false;
                if case.view.accepts(case.present) {
                    case.of = case.history;
                }
                case.view.listed(case.present, case.size, case.now, 0.5);
            });
            if self.faults > 0 {
                add(&|case| {
                    case.faults -= 1;
                    case.listing = false;
                    case.view.list_failed(None, case.now, 0.5);
                });
            }
        }
        if let Some(event) = self.next_event() {
            add(&|case| {
                case.watch.as_mut().unwrap().1 = event;
                case.view.shown(event);
            });
        }
        if self.watch.is_some() && self.faults > 0 {
            for end in [End::Orderly, End::Broken, End::Busy(at(7_000)), End::Expired] {
                add(&|case| {
                    case.faults -= 1;
                    case.watch = None;
                    case.view.ended(end, case.now, 0.5);
                });
            }
        }
        if self.reading {
            add(&|case| {
                case.reading = false;
                case.view.version_read(Ok(case.present), case.now, 0.5);
            });
            if self.faults > 0 {
                add(&|case| {
                    case.faults -= 1;
                    case.reading = false;
                    case.view.version_read(Err(None), case.now, 0.5);
                });
            }
        }
        if let Some(wake) = self.view.wake().filter(|wake| *wake > self.now) {
            add(&|case| case.now = wake);
        }
        if self.changes > 0 {
            add(&|case| {
                case.changes -= 1;
                case.present += 1;
            });
        }
        if self.terms > 0 {
            add(&|case| {
                case.terms -= 1;
                case.demand();
            });
        }
        if self.history == 0 && self.terms + self.faults > 0 {
            // The store is set back, far enough for its versions to stay below those that were seen.
            add(&|case| {
                case.old = case.present;
                (case.present, case.history) = (1, 1);
            });
        }
        all
    }

    /// Asserts that the demand is met in time if all goes well from here on.
    fn ends_well(mut self) {
        self.demand();
        self.act();
        let end = self.now + at(4000);
        let mut quiet = false;
        while !(quiet && self.view.is_proven()) {
            assert!(self.now < end, "it is not proven: {:?}", self.view);
            let now = self.now + at(20);
            let mut next = self.clone();
            if next.listing {
                next.listing = false;
                if next.view.accepts(next.present) {
                    next.of = next.history;
                }
                next.view.listed(next.present, next.size, now, 0.5);
            } else if next.reading {
                next.reading = false;
                next.view.version_read(Ok(next.present), now, 0.5);
            } else if let Some(event) = next.next_event() {
                next.watch.as_mut().unwrap().1 = event;
                next.view.shown(event);
            } else {
                quiet = true;
            }
            next.now = match next.view.wake() {
                Some(wake) if quiet => wake.max(now),
                _ => now,
            };
            next.act();
            self = next;
        }
        assert_eq!(self.of, self.history);
        assert_eq!(self.view.reached(), Some(self.present));
    }
}

/// Tries every order of up to so many events. Returns how many states there were.
fn explore(case: Case, depth: u32) -> usize {
    let mut seen = HashSet::new();
    let mut level = vec![case];
    for _ in 0..depth {
        let mut next = Vec::new();
        for case in &level {
            for successor in case.successors() {
                if seen.insert(successor.clone()) {
                    next.push(successor);
                }
            }
        }
        level = next;
    }
    for case in &seen {
        case.clone().ends_well();
    }
    seen.len()
}

#[test]
fn in_every_order_a_proof_is_one_and_all_ends_well() {
    let mut total = 0;
    for size in [3, MANY] {
        for (changes, terms, faults, depth) in [(2, 2, 0, 10), (1, 1, 2, 10), (2, 1, 1, 10), (0, 0, 3, 10)] {
            let case = Case {
                size,
                changes,
                terms,
                faults,
                ..Case::new()
            };
            let states = explore(case, depth);
            println!(
                "{size} objects, {changes} changes, {terms} terms, {faults} faults, {depth} events: {states} states"
            );
            total += states;
        }
    }
    assert!(total > 10_000, "{total}");
}

#[test]
fn a_server_that_is_too_busy_was_asked_again_before_its_pause_was_over_and_then_for_everything() {
    let asked = Some(at(3000));
    let mut view = watching();
    view.demanded(FIRST, at(100));
    assert_eq!(act(&mut view, at(100)), [Action::ReadVersion]);
    let mut now = at(110);
    for _ in 0..=UNREADABLE {
        view.version_read(Err(asked), now, 0.5);
        let wake = view.wake().unwrap();
        assert!(
            wake >= now + at(3000) && wake <= now + at(4500),
            "{wake:?} after {now:?}"
        );
        assert_eq!(act(&mut view, wake.saturating_sub(at(1))), []);
        assert_eq!(
            act(&mut view, wake),
            [Action::ReadVersion],
            "and nothing is listed"
        );
        now = wake;
    }
    view.version_read(Ok(10), now, 0.5);
    assert_eq!(act(&mut view, now), [Action::Prove(FIRST)]);

    // A list and a watch that are refused so wait as long.
    let mut view = ListWatch::new(Demand::of(0));
    assert_eq!(act(&mut view, at(0)), [Action::List]);
    view.list_failed(asked, at(0), 0.0);
    assert_eq!(view.wake(), Some(at(3000)));
    assert_eq!(act(&mut view, at(3000)), [Action::List]);
    view.listed(10, MANY, at(3000), 0.5);
    let actions = act(&mut view, at(3000));
    assert!(
        matches!(actions.last(), Some(Action::Watch { from: 10, .. })),
        "{actions:?}"
    );
    view.ended(End::Busy(at(5000)), at(3010), 0.0);
    assert_eq!(act(&mut view, at(8000)), []);
    assert_eq!(act(&mut view, at(8010)), [Action::ReadVersion]);
    // No pause is longer than the longest.
    view.version_read(Err(Some(at(3_600_000))), at(8010), 1.0);
    assert!(view.wake().unwrap() <= at(8010) + LONGEST_PAUSE + LONGEST_PAUSE / 2);
}
