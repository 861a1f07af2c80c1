mod answers;

use super::*;

const MS: Duration = Duration::from_millis(1);
const STEP: Duration = Duration::from_millis(5);

fn timing(lease: u64, renew: u64, retry: u64) -> Result<Timing, TimingError> {
    let ms = Duration::from_millis;
    Timing::new(ms(lease), ms(renew), ms(retry))
}

fn wall(seconds: i64) -> Time {
    Time::from_seconds(1_800_000_000 + seconds)
}

#[test]
fn times_that_do_not_go_together_are_refused() {
    timing(15_000, 10_000, 2_000).unwrap();
    assert_eq!(timing(10_000, 10_000, 2_000), Err(TimingError::Lease));
    assert_eq!(timing(15_000, 2_400, 2_000), Err(TimingError::Renew));
    assert_eq!(timing(15_000, 10_000, 0), Err(TimingError::Retry));
    assert_eq!(timing(2_500, 2_400, 100).unwrap().seconds(), 3, "rounded up");
}

// === a server, and candidates that are late, lose messages, and stand still ===

struct Server {
    version: u64,
    record: Option<(u64, Record)>,
}

impl Server {
    fn carry_out(&mut self, ask: &Ask) -> Reply {
        let write = |server: &mut Self, record: &Record| {
            server.version += 1;
            server.record = Some((server.version, record.clone()));
            Reply::Record(server.version, record.clone())
        };
        match (ask, &self.record) {
            (Ask::Look | Ask::Replace(..), None) => Reply::Missing,
            (Ask::Look, Some((version, record))) => Reply::Record(*version, record.clone()),
            (Ask::Create(record), None) => write(self, record),
            // As a real server has it, a write that changes nothing is none.
            (Ask::Replace(version, record), Some((at, old))) if version == at && old == record => {
                Reply::Record(*at, old.clone())
            }
            (Ask::Replace(version, record), Some((at, _))) if version == at => write(self, record),
            (Ask::Create(_) | Ask::Replace(..), Some(_)) => Reply::Conflict,
        }
    }
}

/// The faults, each as a chance for one message or one step.
#[derive(Clone, Copy)]
struct Faults {
    lost: f64,
    slow: f64,
    pause: f64,
    longest_pause: u64,
    /// True if candidates watch, too.
    watch: bool,
}

struct Candidate {
    election: Election,
    /// How far its clock is ahead.
    ahead: Duration,
    /// How far its wall clock is from the truth; some stand still.
    wall: Option<i64>,
    paused_until: Duration,
    dead: bool,
    /// On its way to the server: when it arrives, and whether its answer is lost.
    asks: Vec<(Duration, u64, Ask, bool)>,
    /// On its way back.
    replies: Vec<(Duration, u64, Reply)>,
    shown: Vec<(Duration, u64, Record)>,
    /// The number of the request that is waited for, and until when.
    waits: Option<(u64, Duration)>,
    next_id: u64,
}

struct World {
    now: Duration,
    server: Server,
    candidates: Vec<Candidate>,
    random: fastrand::Rng,
    faults: Faults,
    timing: Timing,
    takeovers: u32,
    leader: Option<usize>,
}

impl World {
    fn new(count: usize, timing: Timing, faults: Faults, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let candidates = (0..count)
            .map(|i| Candidate {
                election: Election::new(format!("c{i}"), timing),
                ahead: MS * random.u32(..1_000_000),
                wall: random.bool().then(|| random.i64(-10_000..10_000)),
                // A skewed start.
                paused_until: MS * random.u32(..3_000),
                dead: false,
                asks: Vec::new(),
                replies: Vec::new(),
                shown: Vec::new(),
                waits: None,
                next_id: 0,
            })
            .collect();
        Self {
            now: Duration::ZERO,
            server: Server {
                version: 100,
                record: None,
            },
            candidates,
            random,
            faults,
            timing,
            takeovers: 0,
            leader: None,
        }
    }

    fn delay(&mut self) -> Duration {
        let longest = self.timing.lease.as_millis() as u32 * 3 / 2;
        if self.random.f64() < self.faults.slow {
            MS * self.random.u32(..longest)
        } else {
            MS * self.random.u32(1..40)
        }
    }

    fn lost(&mut self) -> bool {
        self.random.f64() < self.faults.lost
    }

    /// Returns the candidates that may start a write at this moment, standing still or not.
    fn leaders(&self) -> Vec<usize> {
        let all = self.candidates.iter().enumerate();
        let may = all.filter(|(_, c)| {
            !c.dead
                && c.election
                    .proven()
                    .is_some_and(|until| until > self.now + c.ahead)
        });
        may.map(|(i, _)| i).collect()
    }

    fn step(&mut self) {
        self.now += STEP;
        for i in 0..self.candidates.len() {
            self.arrive(i);
            self.act(i);
        }
        let leaders = self.leaders();
        if let &[leader] = &*leaders
            && self.leader != Some(leader)
        {
            self.leader = Some(leader);
            self.takeovers += 1;
        }
    }

    /// Carries out a request that has reached the server, even if its sender no longer waits or lives.
    fn arrive(&mut self, i: usize) {
        let now = self.now;
        let asks = std::mem::take(&mut self.candidates[i].asks);
        let (due, rest): (Vec<_>, Vec<_>) = asks.into_iter().partition(|(at, ..)| *at <= now);
        self.candidates[i].asks = rest;
        for (_, id, ask, answer_lost) in due {
            let version = self.server.version;
            let reply = self.server.carry_out(&ask);
            if !answer_lost {
                let at = now + self.delay();
                self.candidates[i].replies.push((at, id, reply));
            }
            if self.server.version > version && self.faults.watch {
                let (version, record) = self.server.record.clone().unwrap();
                for other in 0..self.candidates.len() {
                    if !self.lost() {
                        let at = now + self.delay();
                        self.candidates[other].shown.push((at, version, record.clone()));
                    }
                }
            }
        }
    }

    fn act(&mut self, i: usize) {
        let now = self.now;
        if self.candidates[i].dead || now < self.candidates[i].paused_until {
            return;
        }
        if self.random.f64() < self.faults.pause {
            let pause = MS * self.random.u32(..self.faults.longest_pause as u32);
            self.candidates[i].paused_until = now + pause;
            return;
        }
        let random = self.random.f64();
        let candidate = &mut self.candidates[i];
        let here = now + candidate.ahead;
        candidate.shown.retain(|(at, version, record)| {
            let later = *at > now;
            if !later {
                candidate.election.see(*version, record.clone(), here);
            }
            later
        });
        if let Some((id, until)) = candidate.waits {
            let found = candidate
                .replies
                .iter()
                .position(|(at, of, _)| *at <= now && *of == id);
            let reply = match found {
                Some(at) => Some(candidate.replies.swap_remove(at).2),
                None => (until <= now).then_some(Reply::Failed),
            };
            if let Some(reply) = reply {
                candidate.waits = None;
                candidate.election.answered(reply, here, random);
            }
        }
        let seconds = candidate.wall.map_or(7, |off| off + now.as_secs().cast_signed());
        if let Some(ask) = candidate.election.ask(here, wall(seconds)) {
            self.send(i, ask);
        }
    }

    fn send(&mut self, i: usize, ask: Ask) {
        let (request_lost, answer_lost, delay) = (self.lost(), self.lost(), self.delay());
        let (now, limit) = (self.now, self.timing.request());
        let candidate = &mut self.candidates[i];
        candidate.next_id += 1;
        candidate.waits = Some((candidate.next_id, now + limit));
        if !request_lost {
            candidate
                .asks
                .push((now + delay, candidate.next_id, ask, answer_lost));
        }
    }

    /// Gives up, as a process that ends well does.
    fn release(&mut self, i: usize) {
        // Requests in flight are answered first.
        while self.candidates[i].waits.is_some() {
            self.step();
        }
        let here = self.now + self.candidates[i].ahead;
        if let Some(ask) = self.candidates[i].election.release(here, wall(0)) {
            self.send(i, ask);
        }
        // The process sends nothing more, but its last request is in flight.
        self.candidates[i].dead = true;
    }
}

const ROUGH: Faults = Faults {
    lost: 0.15,
    slow: 0.1,
    pause: 0.002,
    longest_pause: 12_000,
    watch: true,
};

/// Runs a rough history. The most that led at one time, and how often the lead changed.
fn rough(count: usize, timing: Timing, seed: u64) -> (usize, u32) {
    let faults = Faults {
        watch: seed.is_multiple_of(2),
        lost: if seed.is_multiple_of(3) { 0.4 } else { ROUGH.lost },
        ..ROUGH
    };
    let mut world = World::new(count, timing, faults, seed);
    let mut most = 0;
    for _ in 0..24_000 {
        world.step();
        most = most.max(world.leaders().len());
    }
    (most, world.takeovers)
}

#[test]
fn never_two_may_start_a_write() {
    let mut changes = 0;
    for (lease, renew, retry) in [(3_000, 2_000, 500), (15_000, 10_000, 2_000), (1_100, 1_050, 200)] {
        for seed in 0..60 {
            let timing = timing(lease, renew, retry).unwrap();
            let (most, takeovers) = rough(2 + (seed % 2) as usize, timing, seed);
            assert!(most <= 1, "{most} at once: {timing:?}, seed {seed}");
            changes += takeovers;
        }
    }
    // The histories are such that the lead does change hands.
    assert!(changes > 500, "{changes}");
}

/// The simulation can tell: with a deadline beyond the duration it finds two.
#[test]
fn a_deadline_beyond_the_duration_is_found_out() {
    let broken = Timing {
        lease: MS * 2_000,
        renew: MS * 4_000,
        retry: MS * 500,
    };
    assert!((0..60).any(|seed| rough(2, broken, seed).0 > 1));
}

#[test]
fn whatever_happened_somebody_leads_soon_after() {
    for seed in 0..40 {
        let timing = timing(3_000, 2_000, 500).unwrap();
        let mut world = World::new(3, timing, ROUGH, seed);
        for _ in 0..6_000 {
            world.step();
        }
        let quiet = Faults {
            lost: 0.0,
            slow: 0.0,
            pause: 0.0,
            ..ROUGH
        };
        world.faults = quiet;
        for candidate in &mut world.candidates {
            candidate.paused_until = world.now;
        }
        // A request in flight may stay so for one and a half leases; then the last holder's lease expires.
        for _ in 0..(9_000 / 5) {
            world.step();
        }
        assert_eq!(world.leaders().len(), 1, "seed {seed}");
        // And from then on no candidate takes it away.
        let takeovers = world.takeovers;
        for _ in 0..4_000 {
            world.step();
            assert_eq!(world.leaders().len(), 1, "seed {seed}");
        }
        assert_eq!(world.takeovers, takeovers);
    }
}

/// Returns how long it takes from the end of a leader until another leads.
fn gap(seed: u64, watch: bool, end: impl Fn(&mut World, usize)) -> Duration {
    let timing = timing(15_000, 10_000, 2_000).unwrap();
    let quiet = Faults {
        lost: 0.0,
        slow: 0.0,
        pause: 0.0,
        longest_pause: 1,
        watch,
    };
    let mut world = World::new(3, timing, quiet, seed);
    for _ in 0..4_000 + seed * 7 {
        world.step();
    }
    let &[leader] = &*world.leaders() else {
        panic!("nobody leads")
    };
    end(&mut world, leader);
    world.candidates[leader].dead = true;
    let start = world.now;
    while world.leaders().is_empty() {
        world.step();
        assert!(world.now < start + Duration::from_secs(60), "seed {seed}");
    }
    world.now.saturating_sub(start)
}

#[test]
fn a_dead_leaders_lease_is_taken_as_soon_as_it_has_run_out() {
    for seed in 0..20 {
        let gap = gap(seed, seed.is_multiple_of(2), |_, _| {});
        assert!(gap >= Duration::from_secs(10), "seed {seed}: {gap:?}");
        assert!(gap <= Duration::from_secs(20), "seed {seed}: {gap:?}");
    }
}

#[test]
fn a_lease_that_is_given_up_is_taken_at_once_by_who_watches() {
    for seed in 0..20 {
        let watched = gap(seed, true, World::release);
        assert!(watched <= MS * 500, "seed {seed}: {watched:?}");
        let polled = gap(seed, false, World::release);
        assert!(polled <= MS * 5_000, "seed {seed}: {polled:?}");
    }
}

// === single steps ===

fn record(holder: &str, renewed: i64) -> Record {
    Record {
        holder: holder.to_owned(),
        seconds: 15,
        acquired: Some(wall(0)),
        renewed: Some(wall(renewed)),
        transitions: 4,
    }
}

fn candidate() -> Election {
    Election::new("me".to_owned(), timing(15_000, 10_000, 2_000).unwrap())
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn the_first_of_all_makes_the_record() {
    let mut me = candidate();
    assert_eq!(me.ask(at(0), wall(9)), Some(Ask::Look));
    assert_eq!(me.ask(at(1), wall(9)), None, "one request at a time");
    me.answered(Reply::Missing, at(1), 0.5);
    let Some(Ask::Create(made)) = me.ask(at(1), wall(9)) else {
        panic!("there is none")
    };
    assert_eq!(
        made,
        Record {
            holder: "me".to_owned(),
            seconds: 15,
            acquired: Some(wall(9)),
            renewed: Some(wall(9)),
            transitions: 0
        }
    );
    me.answered(Reply::Record(7, made.clone()), at(3), 0.5);
    assert_eq!(me.proven(), Some(at(11)), "counted from when it was sent");
    assert_eq!(me.ask(at(2), wall(10)), None);
    // A wall clock that stands still, or was set back, renews all the same.
    let Some(Ask::Replace(7, renewed)) = me.ask(at(3), wall(1)) else {
        panic!("it is time to renew")
    };
    assert!(renewed.renewed > made.renewed);
    assert_eq!((renewed.acquired, renewed.transitions), (made.acquired, 0));
}

#[test]
fn anothers_record_is_left_until_it_has_not_changed_for_its_duration() {
    let mut me = candidate();
    me.ask(at(0), wall(0));
    me.answered(Reply::Record(5, record("other", 0)), at(1), 1.0);
    for (second, version, renewed) in [(6, 6, 1), (14, 7, 2)] {
        assert_eq!(me.ask(at(second), wall(0)), Some(Ask::Look));
        me.answered(Reply::Record(version, record("other", renewed)), at(second), 1.0);
    }
    // A label, say: another version of the same record.
    me.see(8, record("other", 2), at(20));
    assert_eq!(me.ask(at(28), wall(0)), Some(Ask::Look));
    me.answered(Reply::Record(8, record("other", 2)), at(28), 1.0);
    assert_eq!(me.wake(), at(29), "that is when it runs out");
    let Some(Ask::Replace(8, claim)) = me.ask(at(29), wall(50)) else {
        panic!("it has run out")
    };
    assert_eq!((claim.transitions, claim.acquired), (5, Some(wall(50))));
    me.answered(Reply::Conflict, at(29), 1.0);
    assert_eq!(me.proven(), None);
    assert_eq!(me.ask(at(29), wall(50)), None, "not without a pause");
    assert_eq!(me.wake(), at(29) + MS * 200);
    assert_eq!(me.ask(me.wake(), wall(50)), Some(Ask::Look));
}

#[test]
fn a_leader_stops_when_it_sees_another_or_nothing_or_too_late() {
    let lead = || {
        let mut me = candidate();
        me.ask(at(0), wall(0));
        me.answered(Reply::Missing, at(0), 0.5);
        let Some(Ask::Create(made)) = me.ask(at(0), wall(0)) else {
            panic!("there is none")
        };
        me.answered(Reply::Record(7, made), at(0), 0.5);
        assert_eq!(me.proven(), Some(at(10)));
        me
    };
    let mut me = lead();
    me.see(8, record("other", 1), at(1));
    assert_eq!(me.proven(), None);

    let mut me = lead();
    me.see_gone(8, at(1));
    assert_eq!(me.proven(), None);
    assert!(matches!(me.ask(at(1), wall(1)), Some(Ask::Create(_))));

    // The answer comes when the time that it would prove is over.
    let mut me = lead();
    let Some(Ask::Replace(_, renewed)) = me.ask(at(2), wall(2)) else {
        panic!("it is time to renew")
    };
    assert_eq!(me.ask(at(10), wall(10)), None);
    assert_eq!(me.proven(), None);
    me.answered(Reply::Record(8, renewed), at(12), 0.5);
    assert_eq!(me.proven(), None);
    // No other candidate has it, so it is claimed anew, as the same term.
    let Some(Ask::Replace(8, again)) = me.ask(at(12), wall(12)) else {
        panic!("it is free")
    };
    assert_eq!(again.transitions, 0);
}

#[test]
fn what_is_given_up_is_free_and_says_so() {
    let mut me = candidate();
    me.ask(at(0), wall(0));
    me.answered(Reply::Record(5, record("", 0)), at(1), 1.0);
    let Some(Ask::Replace(5, claim)) = me.ask(at(1), wall(3)) else {
        panic!("it is free")
    };
    assert_eq!(claim.transitions, 5);
    me.answered(Reply::Record(6, claim), at(1), 1.0);
    let Some(Ask::Replace(6, given)) = me.release(at(2), wall(4)) else {
        panic!("it is held")
    };
    assert_eq!((&*given.holder, given.seconds, given.transitions), ("", 1, 5));
    assert_eq!(me.proven(), None);
    me.answered(Reply::Conflict, at(2), 0.5);
    assert_eq!(
        me.release(at(2), wall(4)),
        Some(Ask::Look),
        "once more, as it is now"
    );
    me.answered(Reply::Record(9, record("other", 9)), at(2), 0.5);
    assert_eq!(me.release(at(2), wall(4)), None, "it is somebody else's");
}

#[test]
fn a_record_that_vanishes_is_not_made_anew_while_its_holder_may_not_know() {
    let mut me = candidate();
    me.ask(at(0), wall(0));
    me.answered(Reply::Record(5, record("other", 0)), at(0), 0.0);
    me.ask(at(2), wall(0));
    me.answered(Reply::Missing, at(2), 0.0);
    assert_eq!(me.ask(at(4), wall(0)), Some(Ask::Look));
    me.answered(Reply::Missing, at(4), 0.0);
    let mut now = at(4);
    loop {
        now = now.max(me.wake());
        match me.ask(now, wall(0)) {
            Some(Ask::Create(_)) => break,
            ask => assert_eq!(ask, Some(Ask::Look)),
        }
        me.answered(Reply::Missing, now, 0.0);
    }
    assert_eq!(now, at(17), "a whole duration after it was found missing");
}

#[test]
fn one_whose_term_ran_out_does_not_make_a_record_anew_that_another_may_have_held_since() {
    let mut me = candidate();
    me.ask(at(0), wall(0));
    me.answered(Reply::Missing, at(0), 0.0);
    let Some(Ask::Create(made)) = me.ask(at(0), wall(0)) else {
        panic!("there is none")
    };
    me.answered(Reply::Record(7, made), at(0), 0.0);
    // Its renewal is on its way for long. Another takes the lease over, and then the server loses all it has.
    assert!(matches!(me.ask(at(2), wall(2)), Some(Ask::Replace(7, _))));
    assert_eq!(me.ask(at(20), wall(20)), None);
    me.answered(Reply::Missing, at(20), 0.0);
    let mut now = at(20);
    while !matches!(me.ask(now, wall(20)), Some(Ask::Create(_))) {
        me.answered(Reply::Missing, now, 0.0);
        now = now.max(me.wake());
    }
    assert_eq!(now, at(35), "the other may lead as long as that");
}

#[test]
fn whoever_waits_waits_as_long_as_the_record_says_and_through_a_release() {
    // The record of one with a longer duration than this one's goes, perhaps deleted by hand.
    let mut me = candidate();
    me.ask(at(0), wall(0));
    let long = Record {
        seconds: 60,
        ..record("other", 0)
    };
    me.answered(Reply::Record(5, long), at(0), 0.0);
    me.see_gone(6, at(1));
    let mut now = at(2);
    while !matches!(me.ask(now, wall(0)), Some(Ask::Create(_))) {
        me.answered(Reply::Missing, now, 0.0);
        now = now.max(me.wake());
    }
    assert_eq!(now, at(61));
    // One who only stands by is named by a record from the past, and gives it up.
    let mut me = candidate();
    me.ask(at(0), wall(0));
    me.answered(Reply::Record(50, record("other", 9)), at(0), 0.0);
    me.ask(at(2), wall(0));
    me.answered(Reply::Record(5, record("past", 1)), at(2), 0.0);
    me.see(
        6,
        Record {
            seconds: 1,
            ..record("", 2)
        },
        at(3),
    );
    let mut now = at(3);
    while !matches!(me.ask(now, wall(0)), Some(Ask::Replace(..))) {
        me.answered(
            Reply::Record(
                6,
                Record {
                    seconds: 1,
                    ..record("", 2)
                },
            ),
            now,
            0.0,
        );
        now = now.max(me.wake());
    }
    assert_eq!(now, at(17), "a duration after versions went backwards");
}
