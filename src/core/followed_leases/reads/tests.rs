use super::*;
use crate::core::followed_leases::lease::{
    LeaseAnswer, LeaseChange, LeaseEvent, LeaseFacts, LeaseList, LeaseRequest,
};
use crate::core::followed_leases::{
    Applied, FollowedLeases, Following, LeaderDecision, LeaderStatus, LeaseRound,
};
use crate::core::ids::ServiceId;
use crate::core::lease::Record;
use std::collections::BTreeSet;

fn read(namespace: &str, number: u32) -> LeaseRead {
    LeaseRead {
        namespace: namespace.into(),
        generation: 1,
        numbered: numbered(number),
    }
}

fn numbered(number: u32) -> NumberedRead {
    NumberedRead {
        name: format!("lease-{number}").into(),
        number: 0,
    }
}

fn key(read: &LeaseRead) -> (String, String) {
    (read.namespace.to_string(), read.numbered.name.to_string())
}

/// All that may be sent at a time.
fn sent(reads: &mut LeaseReads, now: Duration) -> Vec<LeaseRead> {
    std::iter::from_fn(|| reads.next(now).ok()).collect()
}

/// The reads that may be sent at a time if each is answered at once.
fn sent_one_by_one(reads: &mut LeaseReads, now: Duration) -> impl Iterator<Item = LeaseRead> {
    std::iter::from_fn(move || {
        let read = reads.next(now).ok()?;
        reads.done(read.clone(), ReadOutcome::Done, now);
        Some(read)
    })
}

#[test]
fn a_namespace_with_ten_thousand_leases_holds_up_another_by_no_more_than_a_turn() {
    let mut reads = LeaseReads::new(1);
    let now = Duration::from_secs(1);
    for number in 0..10_000 {
        reads.want(read("many", number), now);
    }
    let mut flying = sent(&mut reads, now);
    assert_eq!(flying.len(), AT_ONCE_OF_ONE, "the other places are for others");
    reads.want(read("one", 0), now);
    let next = reads.next(now).unwrap();
    assert_eq!(*next.namespace, *"one");
    // Where all places are taken, it has the next one that becomes free.
    for number in 0..(AT_ONCE - AT_ONCE_OF_ONE) as u32 {
        reads.want(read(&format!("other-{number}"), 0), now);
    }
    reads.done(next, ReadOutcome::Done, now);
    flying.extend(sent(&mut reads, now));
    assert_eq!(flying.len(), AT_ONCE);
    reads.want(read("one", 0), now);
    reads.done(flying.remove(0), ReadOutcome::Done, now);
    assert_eq!(*reads.next(now).unwrap().namespace, *"one");
}

#[test]
fn reads_have_a_rate_that_all_namespaces_share() {
    let mut reads = LeaseReads::new(1);
    let (mut now, mut count) = (Duration::ZERO, 0);
    for number in 0..2000 {
        reads.want(read(&format!("namespace-{}", number % 50), number), now);
    }
    while now < Duration::from_secs(5) {
        for read in sent(&mut reads, now) {
            count += 1;
            reads.done(read, ReadOutcome::Done, now);
        }
        now += Duration::from_millis(1);
    }
    let most = f64::from(BURST) + 5.0 * QPS;
    assert!((most - 2.0..=most).contains(&f64::from(count)), "{count}");
}

#[test]
fn a_server_that_asks_for_a_pause_is_asked_once_after_it_and_not_before() {
    let mut reads = LeaseReads::new(7);
    let mut now = Duration::from_secs(1);
    for number in 0..100 {
        reads.want(read(&format!("namespace-{}", number % 5), number), now);
    }
    let asked = Duration::from_secs(7);
    let mut ends = BTreeSet::new();
    for round in 0..20 {
        let flying = sent(&mut reads, now);
        assert_eq!(flying.len(), if round == 0 { AT_ONCE } else { 1 });
        for read in flying {
            reads.done(read, ReadOutcome::Throttled(Some(asked)), now);
        }
        let next = reads.next(now).unwrap_err().unwrap();
        assert!(next >= now + asked, "{:?}", next.saturating_sub(now));
        assert!(
            next <= now + LONGEST_PAUSE.mul_f64(1.25),
            "{:?}",
            next.saturating_sub(now)
        );
        ends.insert(next.saturating_sub(now));
        now = next;
    }
    assert!(
        ends.len() > 10,
        "clients of one server do not come back at once: {ends:?}"
    );
    // Without a word about how long, it is a second, and then longer and longer.
    let mut reads = LeaseReads::new(7);
    reads.want(read("a", 0), now);
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let read = reads.next(now).unwrap();
        reads.done(read, ReadOutcome::Throttled(None), now);
        let next = reads.next(now).unwrap_err().unwrap();
        pauses.push(next.saturating_sub(now).as_secs());
        now = next;
    }
    assert!(pauses[0] == 1 && pauses[7] >= 10, "{pauses:?}");
    // However long the server asks for, it is asked again.
    let read = reads.next(now).unwrap();
    reads.done(
        read,
        ReadOutcome::Throttled(Some(Duration::from_secs(1 << 40))),
        now,
    );
    let next = reads.next(now).unwrap_err().unwrap();
    assert!(next <= now + LONGEST_ASKED.mul_f64(1.25));
}

#[test]
fn what_a_namespace_no_longer_follows_is_not_read() {
    let mut reads = LeaseReads::new(1);
    let now = Duration::from_secs(1);
    for number in 0..10 {
        reads.want(read("a", number), now);
    }
    let flying = sent(&mut reads, now);
    reads.forget("a");
    for read in flying {
        reads.done(read, ReadOutcome::Throttled(None), now);
    }
    assert_eq!(reads.next(Duration::from_secs(100)), Err(None));
    assert!(reads.tenants.is_empty() && reads.turns.is_empty());
}

#[test]
fn a_read_that_is_taken_back_is_not_sent_and_leaves_no_turn() {
    let mut reads = LeaseReads::new(1);
    let now = Duration::from_secs(1);
    for number in 0..3 {
        reads.want(read("a", number), now + Duration::from_millis(number.into()));
    }
    reads.want(read("b", 0), now);
    reads.cancel("a", &numbered(0));
    reads.cancel("a", &numbered(7));
    reads.cancel("other", &numbered(0));
    // One that is asked for again while it waits is sent once.
    reads.want(read("a", 1), now + Duration::from_secs(1));
    let flying = sent(&mut reads, now);
    assert_eq!(flying, [read("a", 1), read("b", 0), read("a", 2)]);
    for read in flying {
        reads.done(read, ReadOutcome::Done, now);
    }
    reads.want(read("a", 4), now);
    reads.cancel("a", &numbered(4));
    assert_eq!(reads.next(now), Err(None));
    assert!(reads.tenants.is_empty() && reads.turns.is_empty());
}

#[test]
fn a_read_that_is_taken_back_in_flight_is_not_sent_again() {
    let mut reads = LeaseReads::new(1);
    let now = Duration::from_secs(1);
    reads.want(read("a", 0), now);
    reads.want(read("a", 1), now);
    let flying = sent(&mut reads, now);
    reads.cancel("a", &numbered(0));
    for read in flying {
        reads.done(read, ReadOutcome::Throttled(None), now);
    }
    let later = Duration::from_secs(100);
    assert_eq!(reads.next(later), Ok(read("a", 1)), "the other one is");
    reads.done(read("a", 1), ReadOutcome::Done, later);
    assert_eq!(reads.next(later), Err(None));
    assert!(reads.tenants.is_empty() && reads.turns.is_empty());
}

/// The Leases of a namespace and the reads that they ask for, as the actor of Leases carries them out. No Lease exists.
struct Namespace {
    leases: FollowedLeases,
    reads: LeaseReads,
    generation: u64,
}

impl Namespace {
    /// Begins to follow the Leases, which are listed.
    fn new(first: &Arc<str>) -> Self {
        let mut namespace = Self {
            leases: FollowedLeases::default(),
            reads: LeaseReads::new(1),
            generation: 1,
        };
        namespace.leases.follow(ServiceId(0), first, Duration::ZERO);
        namespace.carry_out(Duration::ZERO);
        namespace.list(Duration::ZERO);
        namespace
    }

    /// Takes in a list that shows no Lease.
    fn list(&mut self, at: Duration) {
        let round = self.apply(LeaseEvent::Listed(LeaseList::new(at, 1, Vec::new())), at);
        self.finish(round, at);
    }

    fn finish(&mut self, mut round: Option<LeaseRound>, at: Duration) {
        while let Some(rest) = round {
            (_, round) = self.leases.step(rest, 100, at);
        }
    }

    fn apply(&mut self, event: LeaseEvent, at: Duration) -> Option<LeaseRound> {
        let generation = self.generation;
        let applied = self.leases.apply(LeaseChange {
            generation,
            at,
            event,
        });
        match applied {
            Applied::All(round) => Some(round),
            Applied::One(_) => None,
        }
    }

    fn carry_out(&mut self, now: Duration) {
        for request in self.leases.take_requests() {
            match request {
                LeaseRequest::Follow(generation) => {
                    self.reads.forget("a");
                    self.generation = generation;
                }
                LeaseRequest::Read(generation, numbered) => {
                    let namespace = "a".into();
                    self.reads.want(
                        LeaseRead {
                            namespace,
                            generation,
                            numbered,
                        },
                        now,
                    );
                }
                LeaseRequest::Cancel(read) => self.reads.cancel("a", &read),
                LeaseRequest::Leave => self.reads.forget("a"),
            }
        }
    }

    /// Sends the reads that may go now, and answers them. Returns how many those are.
    fn send_all(&mut self, now: Duration) -> usize {
        let mut count = 0;
        while let Ok(read) = self.reads.next(now) {
            let answer = LeaseEvent::Read(read.numbered.clone(), LeaseAnswer::Missing);
            assert!(self.apply(answer, now).is_none());
            self.reads.done(read, ReadOutcome::Done, now);
            count += 1;
        }
        count
    }

    fn leader(&self, lease: &str) -> Option<LeaderDecision> {
        let following = Following::default();
        self.leases
            .decide_leader(lease, &following, false, |_| None, || None)
    }

    fn waiting(&self) -> usize {
        self.reads
            .tenants
            .get("a")
            .map_or(0, |tenant| tenant.waiting.len())
    }
}

#[test]
fn a_service_that_names_another_lease_with_each_update_has_few_reads_waiting() {
    const UPDATES: u32 = 50_000;
    let name = |number: u32| Arc::<str>::from(format!("lease-{number}"));
    let mut namespace = Namespace::new(&name(0));
    let (mut most, mut sent) = (0, 0);
    let mut now = Duration::from_secs(1);
    for number in 1..=UPDATES {
        now += Duration::from_millis(1);
        namespace.leases.unfollow(ServiceId(0), &name(number - 1), now);
        namespace.leases.follow(ServiceId(0), &name(number), now);
        while namespace.leases.next_look().is_some_and(|at| at <= now) {
            namespace.leases.look_at_one(now);
        }
        namespace.carry_out(now);
        most = most.max(namespace.waiting());
        sent += namespace.send_all(now);
    }
    // One is followed, and 257 are kept for a while.
    assert!(most <= 258, "{most} reads wait");
    assert!(sent >= 5_000, "the rate of reads is used: {sent}");
    // The Lease that the Service follows now is read after those.
    while namespace.leader(&name(UPDATES)).is_none() {
        now += Duration::from_millis(10);
        assert!(
            namespace.send_all(now) > 0 || namespace.waiting() > 0,
            "it is never read"
        );
    }
}

/// A read is under way when its namespace's shard is retired. The next shard of that namespace follows the same Lease.
#[test]
fn an_answer_to_a_read_of_a_former_shard_counts_for_nothing() {
    let lease: Arc<str> = "x".into();
    let mut reads = LeaseReads::new(1);
    let mut out = Vec::new();
    let mut shards = [1, 2].map(|ordinal| {
        let mut shard = Namespace::new(&lease);
        shard.leases = FollowedLeases::default();
        shard.leases.begin_generations(ordinal);
        shard.leases.follow(ServiceId(0), &"other".into(), Duration::ZERO);
        shard.reads = std::mem::replace(&mut reads, LeaseReads::new(1));
        shard.carry_out(Duration::ZERO);
        shard.list(Duration::ZERO);
        shard.leases.follow(ServiceId(1), &lease, Duration::ZERO);
        shard.carry_out(Duration::ZERO);
        out.push(shard.reads.next(Duration::ZERO).expect("the Lease is read"));
        reads = std::mem::replace(&mut shard.reads, LeaseReads::new(1));
        shard
    });
    let [former, own] = [out[0].clone(), out[1].clone()];
    assert_eq!(former.numbered, own.numbered, "both are the first of their shard");

    let [_, shard] = &mut shards;
    let answer = |read: &LeaseRead| LeaseEvent::Read(read.numbered.clone(), LeaseAnswer::Missing);
    shard.generation = former.generation;
    assert!(shard.apply(answer(&former), Duration::ZERO).is_none());
    assert_eq!(shard.leader("x"), None, "it has not been read for this shard");
    // The API server was too busy for the former shard's read, which nobody waits for.
    reads.done(former, ReadOutcome::Throttled(None), Duration::ZERO);
    assert!(reads.tenants["a"].waiting.is_empty());

    shard.generation = own.generation;
    assert!(shard.apply(answer(&own), Duration::ZERO).is_none());
    assert!(shard.leader("x").is_some());
    reads.done(own, ReadOutcome::Done, Duration::ZERO);
    assert!(reads.tenants.is_empty());
}

/// A read is under way when its Lease is forgotten. Then a Service follows the Lease again.
#[test]
fn an_answer_to_a_read_that_was_taken_back_counts_for_nothing() {
    let name = |number: u32| Arc::<str>::from(format!("lease-{number}"));
    let mut namespace = Namespace::new(&name(0));
    let mut now = Duration::from_secs(1);
    let lease: Arc<str> = "x".into();
    namespace.leases.follow(ServiceId(1), &lease, now);
    namespace.carry_out(now);
    let old = namespace.reads.next(now).unwrap();
    assert_eq!(old.numbered.name, lease);
    // The server has answered that there is no such Lease, and the answer is slow. Others are named until it is forgotten.
    namespace.leases.unfollow(ServiceId(1), &lease, now);
    for number in 1000..1400 {
        now += Duration::from_micros(1);
        namespace.leases.follow(ServiceId(1), &name(number), now);
        namespace.leases.unfollow(ServiceId(1), &name(number), now);
    }
    namespace.carry_out(now);
    namespace.leases.follow(ServiceId(1), &lease, now);
    namespace.carry_out(now);
    // The Lease has been created meanwhile.
    assert!(
        namespace
            .apply(LeaseEvent::Read(old.numbered.clone(), LeaseAnswer::Missing), now)
            .is_none()
    );
    namespace.reads.done(old, ReadOutcome::Done, now);
    assert_eq!(namespace.leader(&lease), None, "its new read has no answer yet");
    let is_of_lease = |read: &LeaseRead| read.numbered.name == lease;
    let seconds = (0..10).map(|second| now + Duration::from_secs(second));
    let mut found = seconds.filter_map(|at| sent_one_by_one(&mut namespace.reads, at).find(is_of_lease));
    let new = found.next().unwrap();
    let record = Record {
        holder: "pod_1".into(),
        seconds: 15,
        ..Record::default()
    };
    let facts = LeaseFacts {
        name: lease.clone(),
        version: 5,
        record,
    };
    namespace.apply(LeaseEvent::Read(new.numbered, LeaseAnswer::Found(facts)), now);
    let decision = namespace.leader(&lease).unwrap();
    assert_eq!(decision.status, LeaderStatus::SeveralPods, "it has a holder");
}

#[test]
fn a_list_takes_the_reads_back_that_it_makes_needless() {
    let lease: Arc<str> = "x".into();
    let mut namespace = Namespace::new(&"first".into());
    let now = Duration::from_secs(1);
    namespace.leases.follow(ServiceId(1), &lease, now);
    namespace.carry_out(now);
    assert_eq!(namespace.waiting(), 1);
    namespace.list(now);
    namespace.carry_out(now);
    assert_eq!(namespace.waiting(), 0);
}

/// A term is lost and won while a read is in flight, and the first read of the new term is to be sent again.
#[test]
fn a_read_is_sent_again_though_one_of_an_earlier_term_is_in_flight() {
    let [a, b]: [Arc<str>; 2] = ["a".into(), "b".into()];
    let mut namespace = Namespace::new(&a);
    let mut now = Duration::from_secs(1);
    // A Service follows a Lease after the list: it is read.
    namespace.leases.follow(ServiceId(1), &b, now);
    namespace.carry_out(now);
    let first = namespace.reads.next(now).unwrap();
    let forgotten = Some(LeaseRound::forget());
    namespace.finish(forgotten, now);
    namespace.carry_out(now);
    let present = |name: &Arc<str>| LeaseFacts {
        name: name.clone(),
        version: 5,
        record: Record {
            holder: "pod".into(),
            seconds: 1,
            ..Record::default()
        },
    };
    let all = LeaseList::new(now, 5, vec![present(&a), present(&b)]);
    for event in [LeaseEvent::Begun, LeaseEvent::Listed(all)] {
        let round = namespace.apply(event, now);
        namespace.finish(round, now);
    }
    // The holder does not renew, so the Lease is read before its pod leaves.
    now += Duration::from_millis(1001);
    while namespace.leases.look_at_one(now).is_some() {}
    namespace.carry_out(now);
    let (of_b, of_a): (Vec<_>, Vec<_>) = sent(&mut namespace.reads, now)
        .into_iter()
        .partition(|read| read.numbered.name == b);
    for read in of_b {
        assert_ne!(read.numbered, first.numbered, "they are told apart");
        namespace.reads.done(read, ReadOutcome::Throttled(None), now);
    }
    for read in of_a.into_iter().chain([first]) {
        namespace.reads.done(read, ReadOutcome::Done, now);
    }
    now += Duration::from_secs(60);
    let again = sent(&mut namespace.reads, now);
    assert!(again.iter().any(|read| read.numbered.name == b), "{again:?}");
}

/// Reads come and are answered in a random order: bounds hold, each read is answered in the end, and no namespace has two turns while
/// another waits for its first.
#[test]
fn random_reads_are_all_sent_in_turns_and_within_bounds() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut reads = LeaseReads::new(seed);
        let mut now = Duration::from_secs(1);
        let mut flying: Vec<LeaseRead> = Vec::new();
        let (mut wanted, mut answered) = (BTreeSet::new(), BTreeSet::new());
        // By namespace that waits for a turn: those that had one since.
        let mut overtaken: BTreeMap<Arc<str>, BTreeSet<Arc<str>>> = BTreeMap::new();
        let mut until = Duration::ZERO;
        let mut steps = 0;
        for number in 0.. {
            steps += 1;
            assert!(steps < 100_000, "{seed}: it never ends");
            let more = number < 400;
            match random.u32(..4) {
                0 | 1 if more => {
                    let namespace = format!("n{}", random.u32(..6).min(random.u32(..6)));
                    let read = read(&namespace, number);
                    wanted.insert(key(&read));
                    let waits = reads.tenants.get(&read.namespace).is_some_and(|it| it.has_turn);
                    let full = |it: &Tenant| it.in_flight.len() >= AT_ONCE_OF_ONE;
                    if !waits && !reads.tenants.get(&read.namespace).is_some_and(full) {
                        overtaken.insert(read.namespace.clone(), BTreeSet::new());
                    }
                    reads.want(read, now);
                }
                2 if !flying.is_empty() => {
                    let read = flying.swap_remove(random.usize(..flying.len()));
                    let busy = more && random.u32(..20) == 0;
                    let outcome = if busy {
                        until = until.max(now + Duration::from_secs(2));
                        ReadOutcome::Throttled(Some(Duration::from_secs(2)))
                    } else {
                        assert!(answered.insert(key(&read)), "{seed}: read twice");
                        ReadOutcome::Done
                    };
                    reads.done(read, outcome, now);
                }
                _ => match reads.next(now) {
                    Ok(read) => {
                        assert!(now >= until, "{seed}: a read within a pause");
                        overtaken.remove(&read.namespace);
                        for (waiting, had) in &mut overtaken {
                            assert!(
                                had.insert(read.namespace.clone()),
                                "{seed}: {} had two turns while {waiting} waited for one",
                                read.namespace
                            );
                        }
                        flying.push(read);
                    }
                    Err(Some(at)) => {
                        assert!(at > now, "{seed}");
                        now = at;
                    }
                    Err(None) => now += Duration::from_millis(random.u64(..20)),
                },
            }
            assert_eq!(flying.len(), reads.in_flight, "{seed}");
            assert!(flying.len() <= AT_ONCE, "{seed}");
            for read in &flying {
                let same = flying.iter().filter(|other| other.namespace == read.namespace);
                assert!(same.count() <= AT_ONCE_OF_ONE, "{seed}");
            }
            if !more && answered.len() == wanted.len() {
                break;
            }
        }
        assert_eq!(answered, wanted, "{seed}");
        assert!(reads.tenants.is_empty() && reads.turns.is_empty(), "{seed}");
    }
}
