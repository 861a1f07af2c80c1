//! One Lease, as lists, watches and reads show it.

use super::*;
use crate::core::inputs::cut_hostname;

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn record(holder: &str, renewals: i32) -> Record {
    Record {
        holder: holder.to_owned(),
        seconds: 10,
        // It only has to change.
        transitions: renewals,
        ..Record::default()
    }
}

fn found(version: u64, record: Record) -> LeaseAnswer {
    LeaseAnswer::Found(LeaseFacts {
        name: "db".into(),
        version,
        record,
    })
}

/// The moment of a list that was asked for at this second.
fn as_of(version: u64, asked: u64) -> ListMoment {
    ListMoment {
        asked: at(asked),
        version,
    }
}

/// Returns a Lease that was listed with a holder at second 0.
fn listed(holder: &str) -> FollowedLease {
    let mut lease = FollowedLease::default();
    assert_eq!(
        lease.listed(as_of(5, 0), Some((5, &record(holder, 0))), at(0)),
        LeaseEffect::Judge
    );
    lease
}

#[test]
fn a_watch_event_before_the_list_proves_nothing() {
    let mut lease = FollowedLease::default();
    assert_eq!(lease.seen(7, &record("a", 1), at(0)), LeaseEffect::None);
    assert_eq!(lease.leader(), Leader::Unknown);
    assert_eq!(lease.gone(8, at(0)), LeaseEffect::None);
    assert_eq!(lease.leader(), Leader::Unknown);
}

#[test]
fn only_a_change_is_a_renewal() {
    let mut lease = listed("a");
    assert_eq!(lease.leader(), Leader::Held("a"));
    // Its metadata was edited, an event came late, and it was listed again.
    assert_eq!(lease.seen(6, &record("a", 0), at(3)), LeaseEffect::None);
    assert_eq!(lease.seen(4, &record("b", 9), at(3)), LeaseEffect::None);
    assert_eq!(
        lease.listed(as_of(7, 4), Some((7, &record("a", 0))), at(4)),
        LeaseEffect::None
    );
    assert_eq!(
        lease.wake(),
        Some(at(10)),
        "none of these gives the holder more time"
    );
    assert_eq!(
        lease.seen(8, &record("a", 1), at(6)),
        LeaseEffect::Renewed { moved: false }
    );
    assert_eq!(lease.wake(), Some(at(16)));
    assert_eq!(
        lease.seen(9, &record("b", 2), at(7)),
        LeaseEffect::Renewed { moved: true }
    );
    assert_eq!(lease.leader(), Leader::Held("b"));
    // A list with another content is a first sight.
    assert_eq!(
        lease.listed(as_of(12, 8), Some((12, &record("c", 3))), at(9)),
        LeaseEffect::Judge
    );
    assert_eq!((lease.leader(), lease.wake()), (Leader::Held("c"), Some(at(19))));
}

#[test]
fn a_published_holder_is_removed_only_after_a_read() {
    let mut lease = listed("a");
    assert_eq!(lease.due(at(9), true), (false, LeaseEffect::None), "not yet");
    assert_eq!(lease.due(at(10), true), (true, LeaseEffect::None));
    assert_eq!(
        lease.due(at(11), true),
        (false, LeaseEffect::None),
        "one read at a time"
    );
    // The watch was cut, and the holder goes on to renew.
    assert_eq!(
        lease.read(&found(9, record("a", 4)), at(11)),
        LeaseEffect::Renewed { moved: false }
    );
    assert_eq!(lease.due(at(21), true), (true, LeaseEffect::None));
    assert_eq!(lease.read(&found(9, record("a", 4)), at(21)), LeaseEffect::Judge);
    assert_eq!(lease.leader(), Leader::Nobody(Vacancy::Expired));
    assert_eq!(lease.wake(), None);
    assert_eq!(
        lease.listed(as_of(9, 22), Some((9, &record("a", 4))), at(22)),
        LeaseEffect::None
    );
    assert_eq!(
        lease.leader(),
        Leader::Nobody(Vacancy::Expired),
        "a list is no renewal"
    );
    assert_eq!(
        lease.seen(10, &record("a", 5), at(23)),
        LeaseEffect::Renewed { moved: false }
    );
    assert_eq!(lease.leader(), Leader::Held("a"));
}

#[test]
fn without_a_published_pod_time_runs_out_without_a_read() {
    let mut lease = listed("a");
    assert_eq!(lease.due(at(10), false), (false, LeaseEffect::Judge));
    assert_eq!(lease.leader(), Leader::Nobody(Vacancy::Expired));
    assert_eq!(lease.holder(), Some("a"));
}

#[test]
fn a_read_that_fails_is_repeated_ever_more_slowly() {
    let mut lease = listed("a");
    let mut now = at(10);
    for pause in [1, 2, 4, 8, 10, 10] {
        assert_eq!(lease.due(now, true), (true, LeaseEffect::None));
        assert_eq!(lease.read(&LeaseAnswer::Failed, now), LeaseEffect::None);
        assert_eq!(lease.leader(), Leader::Held("a"), "nothing is proven");
        assert_eq!(lease.wake(), Some(now + at(pause)));
        now += at(pause);
    }
    assert_eq!(lease.due(now, true), (true, LeaseEffect::None));
    assert_eq!(lease.read(&LeaseAnswer::Missing, now), LeaseEffect::Judge);
    assert_eq!(lease.leader(), Leader::Nobody(Vacancy::NoLease));
}

#[test]
fn what_the_watch_shows_meanwhile_is_newer_than_a_read() {
    let mut lease = listed("a");
    assert_eq!(lease.due(at(10), true), (true, LeaseEffect::None));
    assert_eq!(
        lease.seen(9, &record("b", 1), at(11)),
        LeaseEffect::Renewed { moved: true }
    );
    assert_eq!(lease.read(&found(5, record("a", 0)), at(12)), LeaseEffect::None);
    assert_eq!((lease.leader(), lease.wake()), (Leader::Held("b"), Some(at(21))));
    // The same with an answer that there is none.
    assert_eq!(lease.due(at(21), true), (true, LeaseEffect::None));
    assert_eq!(
        lease.seen(10, &record("b", 2), at(22)),
        LeaseEffect::Renewed { moved: false }
    );
    assert_eq!(lease.read(&LeaseAnswer::Missing, at(23)), LeaseEffect::None);
    assert_eq!(lease.leader(), Leader::Held("b"));
    // An answer that is not awaited.
    assert_eq!(lease.read(&LeaseAnswer::Missing, at(24)), LeaseEffect::None);
}

#[test]
fn a_read_at_a_lower_version_is_a_first_sight_of_a_restored_store() {
    let mut lease = listed("a");
    assert_eq!(
        lease.seen(900, &record("a", 9), at(1)),
        LeaseEffect::Renewed { moved: false }
    );
    assert_eq!(lease.due(at(11), true), (true, LeaseEffect::None));
    assert_eq!(lease.read(&found(40, record("b", 1)), at(12)), LeaseEffect::Judge);
    assert_eq!((lease.leader(), lease.wake()), (Leader::Held("b"), Some(at(22))));
    assert_eq!(
        lease.seen(41, &record("b", 2), at(13)),
        LeaseEffect::Renewed { moved: false }
    );
}

#[test]
fn an_answer_that_was_sent_before_the_lease_was_deleted_revives_nothing() {
    let mut lease = listed("a");
    for (version, deleted) in [(6, 7), (8, 9)] {
        let now = version * 100;
        lease.seen(version, &record("a", 1), at(now));
        assert_eq!(lease.due(at(now + 10), true), (true, LeaseEffect::None));
        assert_eq!(lease.gone(deleted, at(now + 11)), LeaseEffect::Judge);
        assert_eq!(
            lease.read(&found(version, record("a", 1)), at(now + 12)),
            LeaseEffect::None
        );
        assert_eq!(lease.leader(), Leader::Nobody(Vacancy::NoLease));
        assert_eq!(
            lease.seen(version, &record("a", 1), at(now + 13)),
            LeaseEffect::None
        );
    }
    // It was made anew before the read.
    lease.seen(10, &record("a", 0), at(2000));
    assert_eq!(lease.due(at(2010), true), (true, LeaseEffect::None));
    lease.gone(11, at(2011));
    assert_eq!(
        lease.read(&found(12, record("b", 0)), at(2012)),
        LeaseEffect::Judge
    );
    assert_eq!(lease.leader(), Leader::Held("b"));
}

#[test]
fn a_list_that_is_late_shows_nothing_and_one_of_a_restored_store_all() {
    for shown in [Some((15, record("a", 15))), None] {
        let mut lease = listed("a");
        lease.seen(20, &record("b", 2), at(5));
        let shown = shown.as_ref().map(|(version, record)| (*version, record));
        let effect = lease.listed(as_of(15, 4), shown, at(6));
        assert_eq!(effect, LeaseEffect::None);
        assert_eq!(lease.leader(), Leader::Held("b"));
        let effect = lease.listed(as_of(15, 7), shown, at(8));
        assert_eq!(effect, LeaseEffect::Judge);
        assert_ne!(lease.leader(), Leader::Held("b"));
    }
}

#[test]
fn a_lease_that_goes_or_is_given_up_has_no_leader_at_once() {
    let mut lease = listed("a");
    assert_eq!(
        lease.seen(6, &record("", 1), at(1)),
        LeaseEffect::Renewed { moved: true }
    );
    assert_eq!(
        (lease.leader(), lease.wake()),
        (Leader::Nobody(Vacancy::NoHolder), None)
    );
    assert_eq!(
        lease.gone(4, at(1)),
        LeaseEffect::None,
        "an event that comes late"
    );
    assert_eq!(lease.gone(7, at(1)), LeaseEffect::Judge);
    assert_eq!(lease.leader(), Leader::Nobody(Vacancy::NoLease));
    assert_eq!(lease.listed(as_of(7, 2), None, at(2)), LeaseEffect::None);
    // Seen to be created, so its holder is alive.
    assert_eq!(
        lease.seen(8, &record("b", 0), at(3)),
        LeaseEffect::Renewed { moved: true }
    );
    assert_eq!(lease.listed(as_of(9, 4), None, at(4)), LeaseEffect::Judge);
    assert_eq!(lease.leader(), Leader::Nobody(Vacancy::NoLease));
}

#[test]
fn a_lease_that_cannot_be_listed_is_read_in_the_end() {
    let mut lease = FollowedLease::default();
    assert_eq!(lease.wake(), None);
    lease.begun(at(100));
    assert_eq!(lease.wake(), Some(at(115)));
    assert_eq!(lease.due(at(115), true), (true, LeaseEffect::None));
    assert_eq!(
        lease.read(&LeaseAnswer::Refused("no".into()), at(116)),
        LeaseEffect::Judge
    );
    assert_eq!(lease.leader(), Leader::Nobody(Vacancy::Unreadable));
    assert_eq!(lease.wake(), Some(at(176)), "permission may come");
    assert_eq!(lease.due(at(176), false), (true, LeaseEffect::None));
    assert_eq!(lease.read(&found(3, record("a", 0)), at(177)), LeaseEffect::Judge);
    assert_eq!((lease.leader(), lease.wake()), (Leader::Held("a"), Some(at(187))));
    let mut late = FollowedLease::default();
    assert!(late.ask() && !late.ask(), "read at once, once");
    // The watch shows something meanwhile, which may be newer.
    late.seen(4, &record("b", 1), at(0));
    assert_eq!(late.read(&found(3, record("a", 0)), at(1)), LeaseEffect::None);
    assert_eq!((late.leader(), late.wake()), (Leader::Unknown, Some(at(2))));
    assert_eq!(late.due(at(2), false), (true, LeaseEffect::None));
    assert_eq!(late.read(&found(3, record("a", 0)), at(1)), LeaseEffect::Judge);
    assert!(!late.ask());
}

#[test]
fn odd_durations_count_as_the_usual_one_and_long_ones_do_no_harm() {
    for (seconds, until) in [(0, 15), (-4, 15), (1, 1), (i32::MAX, 2_147_483_647)] {
        let mut lease = FollowedLease::default();
        let record = Record {
            seconds,
            ..record("a", 0)
        };
        lease.listed(as_of(1, 0), Some((1, &record)), at(0));
        assert_eq!(lease.wake(), Some(at(until)), "{seconds}");
    }
}

#[test]
fn identities_begin_with_names() {
    assert_eq!(holder_name("api-7d9f_3c2e-uuid"), "api-7d9f");
    assert_eq!(holder_name("api-7d9f"), "api-7d9f");
    assert_eq!((holder_name(""), holder_name("_x")), ("", ""));
    let long = format!("{}-.-{}", "a".repeat(60), "b".repeat(20));
    assert_eq!(cut_hostname(&long), Some(&*"a".repeat(60)));
    assert_eq!(cut_hostname(&"a".repeat(63)), None);
    assert_eq!(cut_hostname(&"ä".repeat(60)), None, "not a name at all");
}

#[test]
fn names_of_leases_cannot_change_a_path() {
    for name in ["db", "a.b-c", "0"] {
        assert!(is_lease_name(name), "{name}");
    }
    let long = "a".repeat(254);
    for name in [
        "", "../x", "a/b", "A", "a..b", "-a", "a-", "a?b", "a%2fb", "ä", &long,
    ] {
        assert!(!is_lease_name(name), "{name}");
    }
}

/// The events that can happen to a Lease, to a message on its way, and to this process, each at any time.
#[derive(Clone, Copy, Debug)]
enum Happens {
    /// The holder renews, another takes over, the holder gives up, or the Lease is deleted.
    Renew,
    Take,
    GiveUp,
    Delete,
    /// The watch shows its next event, or breaks; a list is made, or arrives; a read arrives.
    Watch,
    Break,
    List,
    Listed,
    Read,
    /// The list of another watch is made, or arrives; and that watch shows its next event.
    OtherList,
    OtherListed,
    OtherWatch,
    /// A second passes.
    Pass,
}

/// The Lease as it was at some time, if it was there.
#[derive(Clone)]
struct Answer(Option<(u64, Record)>);

/// A Lease at the server, and a process that follows it.
#[derive(Clone, Default)]
struct World {
    lease: FollowedLease,
    there: Option<(u64, Record)>,
    version: u64,
    /// The events that the watch has yet to show.
    events: std::collections::VecDeque<(u64, Option<Record>)>,
    watches: bool,
    list: Option<(ListMoment, Answer)>,
    read: Option<Answer>,
    /// True if another watch is to take its place: its list, the events since, and whether it shows them.
    others: bool,
    other_list: Option<(ListMoment, Answer)>,
    other_events: std::collections::VecDeque<(u64, Option<Record>)>,
    other_watches: bool,
    /// Counts what happens, as a clock that is finer than seconds: the time of a message, and of a question.
    moments: u32,
    now: u64,
    /// The pod that is published for it.
    published: Option<String>,
    /// When each holder last wrote the Lease.
    written: std::collections::BTreeMap<String, u64>,
    /// When this process last learned something that may be a sign of life.
    learned: u64,
}

impl World {
    const SECONDS: i32 = 2;

    /// Returns the time, with what has happened in this second.
    fn time(&self) -> Duration {
        at(self.now) + Duration::from_nanos(u64::from(self.moments))
    }

    /// Returns what a list shows that is asked for and made now.
    fn make_list(&self) -> (ListMoment, Answer) {
        let moment = ListMoment {
            asked: self.time(),
            version: self.version,
        };
        (moment, Answer(self.there.clone()))
    }

    /// Handles a list that has come.
    fn hear_list(&mut self, (moment, Answer(listed)): (ListMoment, Answer)) -> LeaseEffect {
        self.learned = self.now;
        let shown = listed.as_ref().map(|(version, record)| (*version, record));
        self.lease.listed(moment, shown, self.time())
    }

    /// Handles an event of a watch.
    fn hear(&mut self, event: (u64, Option<Record>)) -> LeaseEffect {
        match event {
            (version, Some(record)) => {
                self.learned = self.now;
                self.lease.seen(version, &record, self.time())
            }
            (version, None) => self.lease.gone(version, self.time()),
        }
    }

    /// Has all watches told of an event.
    fn tell(&mut self, event: (u64, Option<Record>)) {
        self.events.push_back(event.clone());
        if self.other_list.is_some() || self.other_watches {
            self.other_events.push_back(event);
        }
    }

    fn write(&mut self, holder: &str) {
        self.version += 1;
        let renewals = i32::try_from(self.version).unwrap();
        let record = Record {
            seconds: Self::SECONDS,
            ..record(holder, renewals)
        };
        self.written.insert(holder.to_owned(), self.now);
        self.there = Some((self.version, record.clone()));
        self.tell((self.version, Some(record)));
    }

    fn can(&self, happens: Happens) -> bool {
        match happens {
            Happens::Renew | Happens::GiveUp | Happens::Delete => self.there.is_some(),
            Happens::Take | Happens::Pass => true,
            Happens::Watch => self.watches && !self.events.is_empty(),
            Happens::Break => self.watches,
            Happens::List => !self.watches && self.list.is_none(),
            Happens::Listed => self.list.is_some(),
            Happens::Read => self.read.is_some(),
            Happens::OtherList => {
                self.others && self.watches && !self.other_watches && self.other_list.is_none()
            }
            Happens::OtherListed => self.other_list.is_some(),
            Happens::OtherWatch => self.other_watches && !self.other_events.is_empty(),
        }
    }

    fn happen(&mut self, happens: Happens) {
        self.moments += 1;
        let known = self.lease.version();
        let holder = self.there.as_ref().map(|(_, record)| record.holder.clone());
        let effect = match happens {
            Happens::Renew => {
                self.write(&holder.unwrap());
                LeaseEffect::None
            }
            Happens::Take => {
                self.write(if holder.as_deref() == Some("a") { "b" } else { "a" });
                LeaseEffect::None
            }
            Happens::GiveUp => {
                self.write("");
                LeaseEffect::None
            }
            Happens::Delete => {
                self.version += 1;
                self.there = None;
                self.tell((self.version, None));
                LeaseEffect::None
            }
            Happens::Watch => {
                let event = self.events.pop_front().unwrap();
                self.hear(event)
            }
            Happens::Break => {
                self.watches = false;
                self.events.clear();
                LeaseEffect::None
            }
            Happens::List => {
                self.list = Some(self.make_list());
                self.events.clear();
                LeaseEffect::None
            }
            Happens::Listed => {
                let list = self.list.take().unwrap();
                self.watches = true;
                self.hear_list(list)
            }
            Happens::OtherList => {
                self.other_list = Some(self.make_list());
                LeaseEffect::None
            }
            Happens::OtherListed => {
                let list = self.other_list.take().unwrap();
                self.other_watches = true;
                self.hear_list(list)
            }
            Happens::OtherWatch => {
                let event = self.other_events.pop_front().unwrap();
                self.hear(event)
            }
            Happens::Read => {
                self.learned = self.now;
                let Answer(read) = self.read.take().unwrap();
                let answer = read.map_or(LeaseAnswer::Missing, |(version, record)| found(version, record));
                self.lease.read(&answer, self.time())
            }
            Happens::Pass => {
                self.now += 1;
                LeaseEffect::None
            }
        };
        self.settle(effect);
        // No store is restored here.
        assert!(
            self.lease.version() >= known,
            "{happens:?} sets it back from {known:?}"
        );
        let (reads, effect) = self.lease.due(self.time(), self.published.is_some());
        if reads {
            self.read = Some(Answer(self.there.clone()));
        }
        self.settle(effect);
    }

    /// Publishes whom the Lease says, by the rules.
    fn settle(&mut self, effect: LeaseEffect) {
        match self.lease.leader() {
            Leader::Unknown => {}
            Leader::Nobody(_) => self.published = None,
            Leader::Held(holder) => {
                if self.published.as_deref() != Some(holder) {
                    let renewed = matches!(effect, LeaseEffect::Renewed { .. });
                    self.published = renewed.then(|| holder.to_owned());
                }
            }
        }
    }

    fn check(&self, history: &[Happens]) {
        let Some(published) = &self.published else { return };
        let silent = self.now
            - self
                .written
                .get(published)
                .copied()
                .unwrap_or_default()
                .max(self.learned);
        // A read that is on its way is answered before a pod is removed.
        let limit = u64::try_from(Self::SECONDS).unwrap();
        assert!(
            silent <= limit || self.read.is_some(),
            "{published} is published {silent} s after any sign of life: {history:?}"
        );
    }

    /// Lets everything arrive, and the holder renew in sight: it is published then.
    fn come_to_rest(mut self, history: &[Happens]) {
        for happens in [
            Happens::OtherListed,
            Happens::Listed,
            Happens::Read,
            Happens::List,
            Happens::Listed,
        ] {
            if self.can(happens) {
                self.happen(happens);
            }
        }
        for happens in [Happens::Watch, Happens::OtherWatch] {
            while self.can(happens) {
                self.happen(happens);
            }
        }
        let holder = self.there.as_ref().map(|(_, record)| record.holder.clone());
        let holder = holder.filter(|holder| !holder.is_empty());
        if holder.is_some() {
            self.happen(Happens::Renew);
            self.happen(Happens::Watch);
        }
        assert_eq!(self.published, holder, "{history:?}");
    }
}

fn explore(world: &World, history: &mut Vec<Happens>, depth: usize, count: &mut usize) {
    const ALL: [Happens; 13] = [
        Happens::Renew,
        Happens::Take,
        Happens::GiveUp,
        Happens::Delete,
        Happens::Watch,
        Happens::Break,
        Happens::List,
        Happens::Listed,
        Happens::Read,
        Happens::OtherList,
        Happens::OtherListed,
        Happens::OtherWatch,
        Happens::Pass,
    ];
    *count += 1;
    world.clone().come_to_rest(history);
    if depth == 0 {
        return;
    }
    for happens in ALL.into_iter().filter(|happens| world.can(*happens)) {
        let mut next = world.clone();
        next.happen(happens);
        history.push(happens);
        next.check(history);
        explore(&next, history, depth - 1, count);
        history.pop();
    }
}

#[test]
fn whatever_order_things_happen_in() {
    // From the beginning, with a Lease that is held; and with its holder published.
    let mut first = World::default();
    first.write("a");
    first.events.clear();
    let mut published = first.clone();
    for happens in [Happens::List, Happens::Listed, Happens::Renew, Happens::Watch] {
        published.happen(happens);
    }
    assert_eq!(published.published.as_deref(), Some("a"));
    let mut count = 0;
    for world in [first, published.clone()] {
        explore(&world, &mut Vec::new(), 7, &mut count);
    }
    assert!(count > 500_000, "{count} histories");
    // Beside another watch, which has been asked for its list.
    published.others = true;
    published.happen(Happens::OtherList);
    let mut count = 0;
    explore(&published, &mut Vec::new(), 7, &mut count);
    assert!(count > 500_000, "{count} histories beside another watch");
}
