//! Namespaces whose writes are refused or not answered, as by a webhook that applies to them, beside others: those wait for
//! nothing but the API server.

use endpointd::core::backoff::Retry;
use endpointd::core::body::Request;
use endpointd::core::hash::Hashed;
use endpointd::core::namespace::{BuiltRequest, WorkItem};
use endpointd::core::object::{ObjectKey, ObjectName};
use endpointd::core::priority::Priority;
use endpointd::core::publish::reports::{Reply, Reported};
use endpointd::core::publish::{Landing, Load, Next, Pacing, Publisher, WriteEffect};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// An answer of the API server.
#[derive(Clone, Copy)]
struct Answer {
    load: Load,
    /// How long it takes.
    after: Duration,
    pause: Option<Duration>,
}

impl Answer {
    /// A write is carried out, by an API server that has little to do.
    const GOOD: Self = Self::new(Load::Answered, Duration::from_millis(5));

    const fn new(load: Load, after: Duration) -> Self {
        let pause = None;
        Self { load, after, pause }
    }

    const fn refused(pause: Duration) -> Self {
        Self {
            load: Load::Overloaded,
            after: Duration::from_millis(2),
            pause: Some(pause),
        }
    }
}

/// A publisher and an API server in virtual time.
struct Play {
    publisher: Publisher,
    now: Duration,
    answers: BTreeMap<(Duration, u64), (Hashed<ObjectKey>, Answer)>,
    requests: u64,
    /// How often each object has been refused since it was last written.
    refusals: HashMap<Hashed<ObjectKey>, u8>,
    /// Since when objects wait.
    since: HashMap<Hashed<ObjectKey>, Duration>,
    /// The longest that an object of another namespace has waited.
    longest: Duration,
    /// When the publisher is asked next, if nothing happens before, as the writer does.
    until: Option<Duration>,
}

impl Play {
    fn new() -> Self {
        Self::within(64)
    }

    /// A play with so many requests in flight at most.
    fn within(in_flight: usize) -> Self {
        let pacing = Pacing {
            qps: 500.0,
            burst: 1000,
            ..Pacing::unlimited(in_flight)
        };
        Self {
            publisher: Publisher::new(pacing, 0),
            now: Duration::ZERO,
            answers: BTreeMap::new(),
            requests: 0,
            refusals: HashMap::new(),
            since: HashMap::new(),
            longest: Duration::ZERO,
            until: Some(Duration::ZERO),
        }
    }

    fn want(&mut self, namespace: &str, object: u32, priority: Priority) {
        let key = ObjectKey::hashed(namespace, ObjectName::slice(format!("slice-{object}").into()));
        self.since.entry(key.clone()).or_insert(self.now);
        self.report(&key, None, Some((priority, Retry::Now)));
    }

    fn report(&mut self, key: &Hashed<ObjectKey>, reply: Option<Reply>, wanted: Option<(Priority, Retry)>) {
        let wanted = wanted.map(|(priority, retry)| {
            let item = WorkItem {
                object: (*key.object).clone(),
                service: Arc::from("service"),
                exists: true,
                priority,
                retry,
                reads: false,
            };
            (item, self.now)
        });
        let reported = Reported { reply, wanted };
        self.publisher.reported(key, reported, self.now);
        self.until = Some(self.now);
    }

    /// Others want 20 removals a second, and in each of so many namespaces of a webhook five slices change once a second.
    fn want_beside_webhook(&mut self, millis: u32, namespaces: u32) {
        if millis.is_multiple_of(50) {
            self.want(&format!("other-{}", millis / 50 % 20), millis, Priority::Remove);
        }
        for slice in (0..5 * namespaces).filter(|slice| (millis + slice * 7919).is_multiple_of(1000)) {
            self.want(&format!("webhook-{}", slice / 5), slice % 5, Priority::Remove);
        }
    }

    /// Lets a millisecond pass. `serve` answers a request of a namespace that was refused so often before.
    fn pass(&mut self, serve: impl Fn(&str, u8) -> Answer) {
        self.now += MS;
        while let Some(first) = self.answers.first_entry()
            && first.key().0 <= self.now
        {
            let (key, Answer { load, after, pause }) = first.remove();
            let landing = Landing {
                load,
                effect: WriteEffect::Nothing,
                took: after,
                pause,
                has_shard: true,
            };
            self.publisher.answered(&key, landing, self.now);
            self.until = Some(self.now);
            if load == Load::Answered {
                self.refusals.remove(&key);
                self.report(&key, Some(Reply::Settled), None);
            } else {
                let failures = self.refusals.entry(key.clone()).or_default();
                *failures = failures.saturating_add(1);
                let retry = Retry::After { failures: *failures };
                self.report(&key, None, Some((Priority::Remove, retry)));
            }
            // The writer asks after each message.
            self.grant(&serve);
        }
        self.grant(&serve);
    }

    fn grant(&mut self, serve: &impl Fn(&str, u8) -> Answer) {
        while self.until.is_some_and(|until| until <= self.now) {
            let key = match self.publisher.next(self.now) {
                Next::Grant { key, .. } => key,
                Next::Wait { until, .. } => {
                    let due = self.publisher.due(self.now);
                    // The writer's timer has whole milliseconds.
                    self.until = until
                        .into_iter()
                        .chain(due)
                        .min()
                        .map(|until| until.max(self.now + MS));
                    break;
                }
            };
            let built = BuiltRequest {
                request: Request::Update(vec![0; 100]),
                changes: 1,
            };
            self.report(&key, Some(Reply::Built(built)), None);
            if let Some(since) = self.since.remove(&key)
                && key.namespace.starts_with("other")
            {
                self.longest = self.longest.max(self.now.saturating_sub(since));
            }
            let times = self.refusals.get(&key).copied().unwrap_or_default();
            let answer = serve(&key.namespace, times);
            self.requests += 1;
            self.answers
                .insert((self.now + answer.after, self.requests), (key, answer));
        }
    }

    /// Lets a millisecond pass in which the API server answers in five, and a webhook's namespaces get this answer.
    fn pass_beside_webhook(&mut self, webhook: Answer) {
        self.pass(|namespace, _| {
            if namespace.starts_with("webhook") {
                webhook
            } else {
                Answer::GOOD
            }
        });
    }

    /// Returns the longest that an object of another namespace has waited, or waits.
    fn longest(&self) -> Duration {
        let others = self
            .since
            .iter()
            .filter(|(key, _)| key.namespace.starts_with("other"));
        others
            .map(|(_, since)| self.now.saturating_sub(*since))
            .fold(self.longest, Duration::max)
    }
}

/// The webhook answers 429 and 500 by turns, and asks for no pause. Others write 300 slices a second, for which the window has
/// to be a dozen.
#[test]
fn a_namespace_whose_webhook_answers_429_does_not_make_the_window_small() {
    let mut play = Play::new();
    for object in 0..2000 {
        play.want("webhook", object, Priority::Add);
    }
    for millis in 0..120_000 {
        for object in 0..if millis % 10 == 0 { 3 } else { 0 } {
            let number = millis / 10 * 3 + object;
            play.want(
                &format!("other-{}", number % 100),
                number % 6000,
                Priority::Remove,
            );
        }
        play.pass(|namespace, times| match (namespace, times % 2) {
            ("webhook", 0) => Answer::new(Load::Overloaded, 5 * MS),
            ("webhook", _) => Answer::new(Load::Declined, 5 * MS),
            _ => Answer::new(Load::Answered, 40 * MS),
        });
    }
    assert!(play.longest() < SECOND, "{:?}", play.longest());
}

/// Each write of these namespaces is answered with 500 after ten seconds, or not at all before the deadline of 30 s. Others write
/// 50 slices a second.
#[test]
fn namespaces_whose_webhook_hangs_leave_room_for_others() {
    for (hung, after) in [(1, 10), (2, 10), (3, 10), (2, 30)] {
        let mut play = Play::new();
        for object in 0..300 {
            for namespace in 0..hung {
                play.want(&format!("hung-{namespace}"), object, Priority::Remove);
            }
        }
        for millis in 0..60_000 {
            if millis % 20 == 0 {
                play.want(&format!("other-{}", millis % 100), millis, Priority::Remove);
            }
            play.pass(|namespace, _| {
                if namespace.starts_with("hung") {
                    Answer::new(Load::Declined, after * SECOND)
                } else {
                    Answer::new(Load::Answered, 5 * MS)
                }
            });
        }
        let longest = play.longest();
        assert!(longest <= SECOND, "{hung} namespaces, {after} s: {longest:?}");
    }
}

/// At first the API server answers in a millisecond, and then it takes ten, as one that has much else to do: the window becomes small.
/// By then the requests of some namespaces fill it that are answered with 500 after ten seconds. Others write 20 slices a second.
#[test]
fn namespaces_whose_webhook_hangs_leave_room_in_a_window_that_becomes_small() {
    for hung in [1, 2, 3, 12] {
        let mut play = Play::new();
        for millis in 0..65_000 {
            if millis == 5_000 {
                for (object, namespace) in (0..30).flat_map(|object| (0..hung).map(move |n| (object, n))) {
                    play.want(&format!("hung-{namespace}"), object, Priority::Remove);
                }
            }
            if millis % if millis < 5_000 { 5 } else { 50 } == 0 {
                play.want(&format!("other-{}", millis % 100), millis, Priority::Remove);
            }
            play.pass(|namespace, _| match namespace.starts_with("hung") {
                true => Answer::new(Load::Declined, 10 * SECOND),
                false if millis < 5_000 => Answer::new(Load::Answered, MS),
                false => Answer::new(Load::Answered, 10 * MS),
            });
        }
        let longest = play.longest();
        assert!(longest <= SECOND + 100 * MS, "{hung} namespaces: {longest:?}");
    }
}

/// For ten seconds the API server refuses everything, and asks for a pause of one second each time.
#[test]
fn an_overloaded_server_that_asks_for_pauses_is_asked_by_few() {
    for namespaces in [30, 300] {
        let mut play = Play::new();
        for namespace in 0..namespaces {
            play.want(&format!("other-{namespace}"), 0, Priority::Add);
        }
        for _ in 0..10_000 {
            play.pass(|_, _| Answer::refused(SECOND));
        }
        assert!(
            play.requests <= 100,
            "{namespaces} namespaces: {} requests",
            play.requests
        );
    }
}

/// One webhook refuses the writes of three namespaces for half a minute each time. Nothing else is written but a slice of another
/// namespace from time to time.
#[test]
fn a_webhook_for_several_namespaces_holds_up_no_other_for_long() {
    let mut play = Play::new();
    for namespace in 0..3 {
        play.want(&format!("webhook-{namespace}"), 0, Priority::Add);
    }
    for millis in 0..300_000 {
        if millis % 10_000 == 3_700 {
            play.want("other", 0, Priority::Remove);
        }
        play.pass(|namespace, _| {
            if namespace == "other" {
                Answer::new(Load::Answered, 5 * MS)
            } else {
                Answer::refused(30 * SECOND)
            }
        });
    }
    assert!(play.longest() <= SECOND, "{:?}", play.longest());
}

/// A webhook answers 429 for twelve namespaces, and asks for a pause of a second. In each of them five slices change once a second.
#[test]
fn a_webhook_that_throttles_a_dozen_busy_namespaces_holds_up_no_other_for_long() {
    for namespaces in [12, 30, 100] {
        let mut play = Play::new();
        for millis in 0..65_000 {
            play.want_beside_webhook(millis, if millis < 5_000 { 0 } else { namespaces });
            play.pass_beside_webhook(Answer::refused(SECOND));
        }
        assert!(
            play.longest() < SECOND,
            "{namespaces} namespaces: {:?}",
            play.longest()
        );
    }
}

/// The answers of a webhook are known by their message, which the API server begins. Its namespaces were answered promptly before.
#[test]
fn a_webhook_that_begins_to_throttle_holds_up_no_other() {
    for (namespaces, pause) in [(12, SECOND), (100, 30 * SECOND), (300, SECOND)] {
        let mut play = Play::new();
        for millis in 0..40_000 {
            play.want_beside_webhook(millis, namespaces);
            play.pass_beside_webhook(match millis {
                0..10_000 => Answer::GOOD,
                _ => Answer {
                    load: Load::Declined,
                    ..Answer::refused(pause)
                },
            });
        }
        let longest = play.longest();
        assert!(longest < SECOND, "{namespaces} namespaces: {longest:?}");
        assert!(play.publisher.window() > 2, "the window is that of the server");
    }
}

/// The same namespaces' webhook hangs for ten seconds.
#[test]
fn a_webhook_that_hangs_for_many_namespaces_holds_up_no_other_for_long() {
    for namespaces in [12, 30, 100, 200] {
        let mut play = Play::new();
        let mut most = 0;
        for millis in 0..65_000 {
            play.want_beside_webhook(millis, if millis < 5_000 { 0 } else { namespaces });
            play.pass_beside_webhook(Answer::new(Load::Declined, 10 * SECOND));
            most = most.max(play.publisher.queue().in_flight());
        }
        let longest = play.longest();
        assert!(
            longest <= SECOND + 100 * MS,
            "{namespaces} namespaces: {longest:?}"
        );
        assert!(most <= 400, "{namespaces} namespaces: {most} in flight");
    }
}

/// Its namespaces were answered promptly for ten seconds. What hangs is told from what does not when it has hung for long.
#[test]
fn a_webhook_that_begins_to_hang_holds_up_no_other_for_long() {
    for (namespaces, most) in [(12, 100), (30, 100), (100, 500), (200, 4_000)] {
        let mut play = Play::new();
        for millis in 0..45_000 {
            play.want_beside_webhook(millis, namespaces);
            play.pass_beside_webhook(match millis {
                0..10_000 => Answer::GOOD,
                _ => Answer::new(Load::Declined, 10 * SECOND),
            });
        }
        let longest = play.longest();
        assert!(longest <= most * MS, "{namespaces} namespaces: {longest:?}");
    }
}

/// A webhook takes 0.9 s, and lets the write pass.
#[test]
fn a_webhook_that_is_always_slow_holds_up_no_other_for_long() {
    for (namespaces, most) in [(3, 100), (30, 100), (100, 500), (200, 8_000)] {
        let mut play = Play::new();
        for millis in 0..45_000 {
            play.want_beside_webhook(millis, if millis < 5_000 { 0 } else { namespaces });
            play.pass_beside_webhook(Answer::new(Load::Answered, 900 * MS));
        }
        let longest = play.longest();
        assert!(longest <= most * MS, "{namespaces} namespaces: {longest:?}");
        assert!(play.publisher.window() > 2, "the window is that of the server");
    }
}

/// Each removal is of a namespace that has not been written before.
#[test]
fn a_namespace_of_which_nothing_is_known_does_not_wait_with_those_that_hang() {
    for (namespaces, most) in [(12, 100), (30, 100), (100, 500), (200, 5_000)] {
        let mut play = Play::new();
        for millis in 0..45_000 {
            play.want_beside_webhook(millis, if millis < 5_000 { 0 } else { namespaces });
            if millis % 100 == 0 {
                play.want(&format!("other-new-{millis}"), 0, Priority::Remove);
            }
            play.pass_beside_webhook(Answer::new(Load::Declined, 10 * SECOND));
        }
        let longest = play.longest();
        assert!(longest <= most * MS, "{namespaces} namespaces: {longest:?}");
    }
}

/// One namespace's webhook answers 504 and 403 by turns, at once. Others write 300 slices a second, of 40 ms each.
#[test]
fn a_namespace_whose_webhook_answers_504_does_not_make_the_window_small() {
    let mut play = Play::new();
    for millis in 0..65_000 {
        for object in 0..if millis % 10 == 0 { 3 } else { 0 } {
            let number = millis / 10 * 3 + object;
            play.want(
                &format!("other-{}", number % 100),
                number % 6000,
                Priority::Remove,
            );
        }
        for slice in (0..50).filter(|slice| millis >= 5_000 && (millis + slice * 20) % 1000 == 0) {
            play.want("webhook", slice, Priority::Remove);
        }
        play.pass(|namespace, times| match (namespace, times % 2) {
            ("webhook", 0) => Answer::new(Load::Unanswered, 5 * MS),
            ("webhook", _) => Answer::new(Load::Declined, 5 * MS),
            _ => Answer::new(Load::Answered, 40 * MS),
        });
    }
    assert!(play.longest() < SECOND, "{:?}", play.longest());
}

/// The API server takes a second and a half for each write, all of which are of one namespace: it has half of the places, and each of
/// its requests leaves its place before it is answered.
#[test]
fn a_namespace_whose_writes_all_take_long_is_written() {
    let mut play = Play::new();
    for object in 0..100 {
        play.want("other", object, Priority::Add);
    }
    for _ in 0..60_000 {
        play.pass(|_, _| Answer::new(Load::Answered, 1500 * MS));
    }
    assert!(play.since.is_empty(), "{} are left", play.since.len());
}

/// The API server carries out no write any more, but refuses those of one namespace at once, before it writes.
#[test]
fn a_server_that_hangs_is_sent_few_requests_though_it_refuses_some_at_once() {
    for refused in [0, 10, 50] {
        let mut play = Play::new();
        let mut most = 0;
        for millis in 0..65_000u32 {
            let wanted = match millis {
                0..5_000 => 3,
                5_000 => 9_000,
                _ => 0,
            };
            for slice in 0..wanted {
                let number = millis * 3 + slice;
                play.want(
                    &format!("other-{}", number % 3_000),
                    number / 3_000 % 3,
                    Priority::Add,
                );
            }
            for slice in (0..refused).filter(|slice| (millis + slice * 100) % 1000 == 0) {
                play.want("refused", slice, Priority::Remove);
            }
            let hangs = millis >= 5_000;
            play.pass(|namespace, _| match namespace {
                "refused" => Answer::new(Load::Declined, 5 * MS),
                _ if hangs => Answer::new(Load::Unanswered, 30 * SECOND),
                _ => Answer::new(Load::Answered, 5 * MS),
            });
            most = most.max(play.publisher.queue().in_flight());
        }
        assert!(most <= 128, "{refused} refused a second: {most} in flight");
    }
}

/// The API server hangs for 20 s, with requests whose deadline is 30 s. Nothing else happens: no message wakes the writer.
#[test]
fn a_server_that_hangs_is_sent_a_request_a_second_by_which_its_recovery_is_noticed() {
    let mut play = Play::within(16);
    let mut sent = 0;
    for millis in 0..27_000u32 {
        if millis == 5_500 {
            for number in 0..900 {
                play.want(&format!("other-{}", number % 300), number / 300, Priority::Add);
            }
        } else if millis < 5_000 && millis % 5 == 0 {
            play.want(
                &format!("other-{}", millis / 5 % 300),
                millis / 1_500,
                Priority::Add,
            );
        }
        play.pass(|_, _| match millis {
            5_400..25_000 => Answer::new(Load::Unanswered, 30 * SECOND),
            _ => Answer::new(Load::Answered, 5 * MS),
        });
        if millis == 10_000 {
            sent = play.requests;
        } else if millis == 20_000 {
            assert!(
                (9..=11).contains(&(play.requests - sent)),
                "{} in ten seconds",
                play.requests - sent
            );
        }
    }
    assert!(play.requests - sent > 500, "the recovery is noticed");
}

/// An object waits for the pause of its namespace. Then the webhook hangs for a dozen new namespaces, and nothing else happens.
#[test]
fn a_pause_of_a_namespace_does_not_let_others_wait_for_requests_that_hang() {
    let mut play = Play::within(16);
    for millis in 0..10_000u32 {
        match millis {
            0..5_000 if millis % 10 == 0 => {
                play.want(&format!("old-{}", millis % 70), millis, Priority::Remove);
            }
            5_100 => play.want("paused", 0, Priority::Remove),
            5_200 => play.want("hung-0", 0, Priority::Remove),
            6_000 => {
                play.want("paused", 1, Priority::Remove);
                for namespace in 1..13 {
                    play.want(&format!("hung-{namespace}"), 0, Priority::Remove);
                }
            }
            6_001 => {
                (0..5).for_each(|namespace| play.want(&format!("other-{namespace}"), 0, Priority::Remove));
            }
            _ => {}
        }
        play.pass(|namespace, _| match namespace {
            "paused" => Answer {
                load: Load::Declined,
                ..Answer::refused(30 * SECOND)
            },
            _ if namespace.starts_with("hung") => Answer::new(Load::Declined, 20 * SECOND),
            _ => Answer::new(Load::Answered, 5 * MS),
        });
    }
    assert!(play.longest() <= 200 * MS, "{:?}", play.longest());
}

/// Every ten seconds the API server stops for a moment. That tells nothing of the namespaces whose writes are out then.
#[test]
fn a_server_that_stops_for_a_moment_does_not_make_others_wait_with_those_that_hang() {
    for (namespaces, stops) in [(30, 150), (60, 120), (60, 600)] {
        let mut play = Play::new();
        for millis in 0..65_000 {
            play.want_beside_webhook(millis, if millis < 5_000 { 0 } else { namespaces });
            let at = millis % 10_000;
            play.pass(|namespace, _| {
                if namespace.starts_with("webhook") {
                    Answer::new(Load::Declined, 10 * SECOND)
                } else {
                    Answer::new(Load::Answered, (5 + stops - at.min(stops)) * MS)
                }
            });
        }
        let longest = play.longest();
        assert!(
            longest <= 100 * MS,
            "{namespaces} namespaces, {stops} ms: {longest:?}"
        );
    }
}

/// A webhook hangs for four namespaces, with more requests than there are places. Then the API server stops for a second, and carries
/// out what it was sent. No place is taken then.
#[test]
fn answers_to_requests_that_have_all_left_their_places_teach_something() {
    let mut play = Play::within(8);
    for millis in 0..10_000u32 {
        if millis < 5_000 && millis % 5 == 0 {
            play.want(
                &format!("other-{}", millis / 5 % 2),
                millis / 10 % 300,
                Priority::Add,
            );
        }
        if millis == 4_000 {
            (0..160).for_each(|n| play.want(&format!("hung-{}", n % 4), n / 4, Priority::Add));
        }
        if millis == 5_500 {
            (0..4).for_each(|slice| play.want("other-0", slice, Priority::Add));
            (0..30).for_each(|slice| play.want("other-1", slice, Priority::Add));
        }
        play.pass(|namespace, _| match (namespace.starts_with("hung"), millis) {
            (true, _) => Answer::new(Load::Declined, 10 * SECOND),
            (false, 5_400..6_500) => Answer::new(Load::Answered, (6_505 - millis) * MS),
            (false, _) => Answer::new(Load::Answered, 5 * MS),
        });
    }
    assert!(play.publisher.window() <= 8);
}
