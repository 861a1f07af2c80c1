use super::budget::Budget;
use super::watcher::{Routine, State};
use super::*;

const SECOND: u64 = 1_000_000_000;
const MILLI: u64 = 1_000_000;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Writes a slice at each of these times, and returns what comes out until nothing is left to do.
fn play(cluster: &mut Cluster, times: impl Iterator<Item = Duration>) -> Vec<Output> {
    let mut outputs = Vec::new();
    for (number, now) in times.enumerate() {
        while let Some(output) = cluster.run(now) {
            outputs.push(output);
        }
        let change = Change {
            since: now,
            removal: number.is_multiple_of(2),
        };
        cluster.write(number % 7, 12_600, &[change], now);
    }
    while let Some(output) = cluster.run(Duration::from_secs(1_000_000)) {
        outputs.push(output);
    }
    assert!(cluster.is_idle(), "something goes on for ever");
    outputs
}

fn every(gap: Duration, times: u32) -> impl Iterator<Item = Duration> {
    (0..times).map(move |number| Duration::from_secs(1) + gap * number)
}

fn ended(outputs: &[Output]) -> Vec<(usize, Duration)> {
    let ended = outputs.iter().filter_map(|output| match output {
        Output::Ended { watcher, at } => Some((*watcher, *at)),
        _ => None,
    });
    ended.collect()
}

#[test]
fn the_budget_starts_empty_and_grows_by_a_twentieth_of_the_time_up_to_its_limit() {
    let mut budget = Budget::default();
    assert_eq!(budget.take(0), 0);
    assert_eq!(budget.take(SECOND), 50 * MILLI);
    assert_eq!(budget.take(SECOND), 0, "it was taken");
    assert_eq!(budget.take(60 * SECOND), 100 * MILLI);
    budget.give_back(70 * MILLI);
    assert_eq!(budget.take(60 * SECOND + 200 * MILLI), 80 * MILLI);
    budget.give_back(90 * MILLI);
    budget.give_back(90 * MILLI);
    assert_eq!(budget.take(60 * SECOND + 200 * MILLI), 100 * MILLI);
}

#[test]
fn a_watch_holds_two_channels_and_the_event_between_them() {
    let mut watcher = Watcher::new(0, 3);
    for version in 1..=3 {
        assert!(watcher.offer(version));
    }
    assert!(!watcher.offer(4), "input is full");
    let forward = |watcher: &mut Watcher| std::iter::from_fn(|| watcher.forward()).count();
    assert_eq!(forward(&mut watcher), 3);
    for version in 4..=6 {
        assert!(watcher.offer(version));
    }
    assert_eq!(forward(&mut watcher), 1, "one is in hand, and result is full");
    assert!(watcher.offer(7));
    assert!(!watcher.offer(8));
    assert!(watcher.take(), "what was in hand takes the place");
    assert_eq!((watcher.result, watcher.hand), (3, false));
    assert_eq!(forward(&mut watcher), 1);
}

#[test]
fn a_watch_that_was_ended_still_sends_what_is_in_its_second_channel() {
    let mut watcher = Watcher::new(0, 2);
    for version in 1..=2 {
        watcher.offer(version);
    }
    while watcher.forward().is_some() {}
    watcher.offer(3);
    watcher.close();
    assert_eq!((watcher.input, watcher.result), (0, 2));
    assert!(!watcher.is_over());
    watcher.take();
    watcher.take();
    assert!(watcher.is_over());
}

#[test]
fn a_watch_that_is_taken_up_leaves_out_what_the_history_brought() {
    let mut watcher = Watcher::new(0, 10);
    watcher.sent = 4;
    // The history goes to 6; the dispatcher has yet to dispatch 6.
    watcher.open(10, 6, 0);
    watcher.offer(6);
    watcher.offer(7);
    let from_input: Vec<_> = std::iter::from_fn(|| watcher.forward()).collect();
    assert_eq!(from_input, [false, false, true, true]);
    assert_eq!((watcher.taken, watcher.result), (7, 3));
    assert_eq!(watcher.state, State::Open);
    assert_eq!(watcher.sender, Routine::Idle);
}

#[test]
fn a_client_that_does_not_read_loses_its_watch_when_the_budget_is_spent_and_others_keep_theirs() {
    let mut cluster = Cluster::new(Config {
        watchers: 3,
        slow: 1,
        // It reads an event in 10 s, and the connection holds none.
        slow_rate: 1_260.0,
        slow_buffer: 0,
        channel: Some(2),
        ..Config::default()
    });
    let outputs = play(&mut cluster, every(millis(20), 8));
    // One is being read, two are in each channel, and one in hand: the seventh does not fit. It was written after 1.12 s
    // and the budget then has 5% of that.
    let [(0, at), ..] = ended(&outputs)[..] else {
        panic!("the slow one was not ended: {:?}", ended(&outputs));
    };
    assert!(at > Duration::from_secs(1) + millis(120) + millis(50), "{at:?}");
    assert!(ended(&outputs).iter().all(|(watcher, _)| *watcher == 0));
    let echoes = outputs.iter().filter_map(|output| match output {
        Output::Echo { version, at, .. } => Some((*version, *at)),
        _ => None,
    });
    let echoes: Vec<_> = echoes.collect();
    assert_eq!(echoes.len(), 8);
    // All others wait for the eighth while the dispatcher waits for the slow one.
    let (_, last) = echoes[7];
    let waited = last.saturating_sub(Duration::from_secs(1) + millis(120));
    assert!((millis(55)..millis(75)).contains(&waited), "{waited:?}");
}

#[test]
fn everybody_sees_every_change_once_whatever_ends() {
    for seed in 0..30 {
        let mut random = fastrand::Rng::with_seed(seed);
        let config = Config {
            servers: random.usize(1..=3),
            cores: random.usize(1..=3),
            watchers: random.usize(1..=40),
            clients: if random.bool() {
                Clients::Resume
            } else {
                Clients::Relist
            },
            slow: random.usize(0..=2),
            slow_rate: 60e3,
            slow_buffer: 30_000,
            channel: Some(random.usize(1..=4)),
            history: random.usize(5..=100),
            intake: random.usize(1..=50),
            seed,
            ..Config::default()
        };
        let watchers = config.watchers as u64;
        let gap = Duration::from_micros(random.u64(500..20_000));
        let mut cluster = Cluster::new(config.clone());
        let outputs = play(&mut cluster, every(gap, 200));
        let figures = cluster.figures();
        assert_eq!(figures.writes, 200);
        let seen = (figures.removals.total(), figures.additions.total());
        assert_eq!(seen, (100 * watchers, 100 * watchers), "{config:?}");
        assert!(cluster.backlog().abs() < 1e-9);
        assert_eq!(figures.ended + figures.own_ended, ended(&outputs).len() as u64);
        let answers = outputs
            .iter()
            .filter(|output| matches!(output, Output::Answered { .. }));
        assert_eq!(answers.count(), 200);

        let mut again = Cluster::new(config);
        assert_eq!(play(&mut again, every(gap, 200)), outputs, "chance is seeded");
    }
}

#[test]
fn a_client_that_missed_more_than_the_history_has_lists_again() {
    let mut cluster = Cluster::new(Config {
        watchers: 1,
        slow: 1,
        // It reads an event in 1,000 s, and gets the one in the second channel when its watch has long been ended.
        slow_rate: 12.6,
        slow_buffer: 0,
        channel: Some(1),
        history: 5,
        ..Config::default()
    });
    // The history does not grow, since nothing in it is young.
    play(&mut cluster, every(Duration::from_secs(80), 40));
    let figures = cluster.figures();
    assert!(figures.ended > 0);
    assert!(figures.expired > 0);
    assert_eq!(figures.expired, figures.listed);
}

#[test]
fn channels_have_room_for_the_events_of_a_second_within_bounds() {
    let size = |history| {
        let config = Config {
            history,
            ..Config::default()
        };
        Server::new(&config, 0, &[]).channel_size(&config)
    };
    assert_eq!(size(100), 10);
    assert_eq!(size(1_600), 22);
    assert_eq!(size(102_400), 100);
}

#[test]
fn cores_grow_with_watchers() {
    let cores = |watchers| Config::for_watchers(watchers).cores;
    assert_eq!([0, 300, 1_000, 5_000].map(cores), [2, 2, 7, 33]);
}
