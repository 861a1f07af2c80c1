use super::budget::Budget;
use super::*;

const SECOND: u64 = 1_000_000_000;
const MILLI: u64 = 1_000_000;

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
fn everybody_sees_every_change_once_whatever_ends() {
    let (mut ends, mut lists) = (0, 0);
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
        let ended = outputs
            .iter()
            .filter(|output| matches!(output, Output::Ended { .. }))
            .count();
        assert_eq!(figures.ended + figures.own_ended, ended as u64);
        (ends, lists) = (ends + ended, lists + figures.listed);
        let answers = outputs
            .iter()
            .filter(|output| matches!(output, Output::Answered { .. }));
        assert_eq!(answers.count(), 200);

        let mut again = Cluster::new(config);
        assert_eq!(play(&mut again, every(gap, 200)), outputs, "chance is seeded");
    }
    assert!(ends > 0 && lists > 0, "{ends} watches ended, {lists} lists");
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
