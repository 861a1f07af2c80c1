use super::*;
use std::ops::RangeInclusive;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A server of so many workers, each of which takes the same time for a request.
struct Server {
    workers: usize,
    each: Duration,
    /// Requests of others that it has at any time.
    others: usize,
    now: Duration,
}

impl Server {
    fn new(workers: usize, each: Duration) -> Self {
        Self {
            workers,
            each,
            others: 0,
            now: SECOND,
        }
    }

    /// Returns the time of a request of so many that are sent at once, on average.
    fn time(&self, in_flight: usize) -> Duration {
        self.each
            .mul_f64(((in_flight + self.others) as f64 / self.workers as f64).max(1.0))
    }

    /// Fills the window and answers all of it, again and again.
    fn rounds(&mut self, window: &mut Window, count: u32) {
        for _ in 0..count {
            let sent = window.size();
            let took = self.time(sent);
            self.now += took;
            for left in (1..=sent).rev() {
                window.answered(answer(took, left), self.now);
            }
            window.pass(self.now);
        }
    }

    /// Does the same for a time. Returns the mean window, and how many requests were answered.
    fn last(&mut self, window: &mut Window, time: Duration) -> (f64, usize) {
        let (end, mut sizes, mut answers) = (self.now + time, Vec::new(), 0);
        while self.now < end {
            sizes.push(window.size());
            answers += window.size();
            self.rounds(window, 1);
        }
        (sizes.iter().sum::<usize>() as f64 / sizes.len() as f64, answers)
    }
}

/// The sizes that are right on average: all workers have work, and no more requests wait for one than are worked on. The
/// smallest windows are some more.
fn right(workers: usize) -> RangeInclusive<f64> {
    workers as f64 * 0.95..=(workers * 2) as f64 * 1.1 + 2.0
}

/// Returns an answer while more waits than the window lets go.
fn answer(took: Duration, in_flight: usize) -> Completed {
    Completed {
        sign: Sign::Answered,
        took,
        in_flight,
        held_back: true,
    }
}

fn overload(in_flight: usize) -> Completed {
    Completed {
        sign: Sign::Overloaded,
        ..answer(MS, in_flight)
    }
}

#[test]
fn it_finds_how_many_requests_the_server_works_on_at_once() {
    for each in [2 * MS, 20 * MS, 400 * MS] {
        for workers in [1, 2, 4, 10, 25, 40] {
            let (mut window, mut server) = (Window::new(64), Server::new(workers, each));
            server.last(&mut window, (60 * SECOND).max(each * 500));
            let (size, answers) = server.last(&mut window, 60 * SECOND);
            let most = 60.0 / each.as_secs_f64() * workers as f64;
            let case = format!(
                "{workers} workers, {each:?}: {size:.1}, {:.2}",
                answers as f64 / most
            );
            assert!(right(workers).contains(&size), "{case}");
            assert!(answers as f64 >= most * 0.85, "{case}");
        }
    }
}

#[test]
fn a_server_far_away_is_not_an_overloaded_one() {
    let (mut window, mut server) = (Window::new(64), Server::new(1000, 400 * MS));
    let (_, answers) = server.last(&mut window, 10 * SECOND);
    assert!(answers >= 600, "{answers} in the first ten seconds");
    let (_, answers) = server.last(&mut window, 120 * SECOND);
    // With 64 in flight, 160 a second would be possible.
    assert!(answers >= 120 * 140, "{answers}");
}

/// Requests that wait behind those of others gain nothing when there are fewer of ours.
#[test]
fn a_server_that_others_keep_busy_gives_us_a_share() {
    for (workers, each, others) in [(1, MS, 100), (4, 20 * MS, 30), (8, 5 * MS, 300)] {
        let (mut window, mut server) = (Window::new(64), Server::new(workers, each));
        server.last(&mut window, 60 * SECOND);
        server.others = others;
        // Before it is known that the others are the reason, as many requests are sent as are known to be right, or fewer.
        server.rounds(&mut window, 10);
        let (early, _) = server.last(&mut window, server.time(others) * 10);
        let least = (right(workers).start() * 2.0).max(2.5);
        assert!(
            early >= least,
            "{workers} workers, {others} others: {early:.1} early"
        );
        let (_, at_first) = server.last(&mut window, 20 * SECOND);
        let (size, answers) = server.last(&mut window, 20 * SECOND);
        let case =
            format!("{workers} workers, {others} requests of others: {size:.1}, {at_first}, {answers}");
        // As many requests as the others have, or all that it may.
        let most = 20.0 / server.time(others.min(64)).as_secs_f64() * others.min(64) as f64;
        assert!(answers as f64 >= most * 0.6, "{case}, of {most:.0}");
        assert!(at_first as f64 >= most * 0.4, "{case}, of {most:.0} at first");
        server.others = 0;
        server.last(&mut window, 60 * SECOND);
        let (size, _) = server.last(&mut window, 60 * SECOND);
        assert!(
            right(workers).contains(&size),
            "{workers} workers, alone again: {size:.1}"
        );
    }
}

#[test]
fn slow_answers_before_a_refusal_do_not_undo_it() {
    for rounds in 1..8 {
        let (mut window, mut server) = (Window::new(64), Server::new(8, 20 * MS));
        server.last(&mut window, 60 * SECOND);
        server.others = 80;
        server.rounds(&mut window, rounds);
        server.now += MS;
        for left in (1..=window.size()).rev() {
            window.answered(overload(left), server.now);
        }
        let halved = window.size;
        for round in 1..=3 {
            server.rounds(&mut window, 1);
            let most = halved + f64::from(round);
            assert!(
                window.size <= most,
                "{rounds}, {round}: {halved}, {}",
                window.size
            );
        }
    }
}

/// A window of two, in which a sample's answers are learned as they come.
#[test]
fn a_short_stall_is_not_taken_for_longer_than_it_was() {
    for stalled in [50 * MS, 100 * MS, 200 * MS] {
        let (mut window, mut server) = (Window::new(64), Server::new(1, 5 * MS));
        server.last(&mut window, 60 * SECOND);
        server.each = stalled / 2;
        server.rounds(&mut window, 8);
        let base = Duration::from_secs_f64(window.base.unwrap().exp());
        assert!(base <= stalled.mul_f64(1.1), "{stalled:?}: {base:?}");
    }
}

#[test]
fn a_server_that_becomes_slower_or_faster_for_good_is_known_again() {
    for times in [0.1, 0.3, 0.7, 1.5, 3.0, 30.0] {
        let (mut window, mut server) = (Window::new(64), Server::new(8, 20 * MS));
        server.last(&mut window, 60 * SECOND);
        server.each = server.each.mul_f64(times);
        server.last(&mut window, 60 * SECOND);
        let (size, _) = server.last(&mut window, 60 * SECOND);
        assert!(right(8).contains(&size), "{times} times as long: {size}");
    }
}

#[test]
fn a_server_that_gets_more_or_fewer_workers_is_known_again() {
    for workers in [2, 4, 16, 40] {
        let (mut window, mut server) = (Window::new(64), Server::new(8, 20 * MS));
        server.last(&mut window, 60 * SECOND);
        server.workers = workers;
        server.last(&mut window, 60 * SECOND);
        let (size, _) = server.last(&mut window, 60 * SECOND);
        assert!(right(workers).contains(&size), "{workers}: {size}");
    }
}

#[test]
fn a_single_answer_that_takes_long_changes_next_to_nothing() {
    let (mut window, mut server) = (Window::new(64), Server::new(16, 20 * MS));
    server.rounds(&mut window, 100);
    let before = window.size;
    server.now += 30 * SECOND;
    window.answered(answer(30 * SECOND, window.size()), server.now);
    let mut least = before;
    for _ in 0..3 {
        server.rounds(&mut window, 1);
        least = least.min(window.size);
    }
    assert!(least >= before * 0.93, "{before}, then {least}");
}

#[test]
fn many_requests_after_a_pause_find_the_window_open() {
    let (mut window, mut server) = (Window::new(64), Server::new(64, 5 * MS));
    for _ in 0..1000 {
        server.now += SECOND;
        window.answered(
            Completed {
                held_back: false,
                ..answer(5 * MS, 1)
            },
            server.now,
        );
    }
    assert_eq!(window.size(), 16, "a window that is not full shows nothing");
    let began = server.now;
    while window.size() < 60 {
        server.rounds(&mut window, 1);
    }
    assert!(server.now <= began + 100 * MS, "{:?}, {began:?}", server.now);
}

#[test]
fn one_burst_of_refusals_halves_it_once() {
    let (mut window, mut server) = (Window::new(64), Server::new(1000, MS));
    server.rounds(&mut window, 100);
    assert_eq!(window.size(), 64);
    server.now += MS;
    for left in (1..=64).rev() {
        window.answered(overload(left), server.now);
    }
    assert_eq!(window.size(), 32);
    // It comes back by one a round, since the server may refuse as many again.
    server.rounds(&mut window, 10);
    assert!((38..=44).contains(&window.size()), "{}", window.size());
    for _ in 0..20 {
        server.now += MS;
        window.answered(overload(1), server.now);
    }
    assert_eq!(window.size(), 2, "that many at a time are always tried");
}

#[test]
fn a_limit_is_never_exceeded() {
    for limit in [1, 2, 3, 5] {
        let (mut window, mut server) = (Window::new(limit), Server::new(1000, MS));
        for _ in 0..100 {
            server.rounds(&mut window, 1);
            assert!(window.size() <= limit && window.size() >= limit.min(2));
        }
        assert_eq!(window.size(), limit);
        window.answered(overload(1), server.now);
        assert_eq!(window.size(), (limit / 2).max(limit.min(2)));
        server.rounds(&mut window, 100);
        assert_eq!(window.size(), limit, "it comes back");
    }
}

#[test]
fn a_probe_without_answers_ends_and_does_not_come_again_soon() {
    let (mut window, mut server) = (Window::new(64), Server::new(16, 20 * MS));
    while window.probes_until().is_none() || server.now < 60 * SECOND {
        server.rounds(&mut window, 1);
    }
    assert!(window.size() < 12, "{}", window.size());
    let until = window.probes_until().unwrap();
    assert!(until <= server.now + SECOND, "{until:?}, {:?}", server.now);
    window.pass(until);
    assert!(window.probes_until().is_none() && window.size() >= 16);
    server.now = until;
    while window.probes_until().is_none() {
        server.rounds(&mut window, 1);
    }
    assert!(server.now >= until + 30 * SECOND, "{:?}, {until:?}", server.now);
}
