use super::*;

const RATE: Option<Limit> = Some(Limit::Rate);

fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

/// Observes the same every 100 ms, and returns what was noticed, with the time.
fn observed(
    throttling: &mut Throttling,
    limit: Option<Limit>,
    times: std::ops::Range<u64>,
) -> Vec<(u64, Throttled)> {
    times
        .step_by(100)
        .filter_map(|time| Some((time, throttling.observe(limit, ms(time))?)))
        .collect()
}

#[test]
fn ten_seconds_are_reported_once_and_their_end_once() {
    let mut throttling = Throttling::default();
    assert_eq!(
        observed(&mut throttling, RATE, 0..60_000),
        [(10_000, Throttled::Long(Limit::Rate, ms(10_000)))]
    );
    assert_eq!(
        observed(&mut throttling, None, 60_000..120_000),
        [(62_000, Throttled::Over(ms(60_000)))]
    );
    // The next time is reported anew.
    assert_eq!(
        observed(&mut throttling, Some(Limit::Watchers), 120_000..140_000),
        [(130_000, Throttled::Long(Limit::Watchers, ms(10_000)))]
    );
}

#[test]
fn less_is_not_reported_nor_is_its_end() {
    let mut throttling = Throttling::default();
    for start in [0, 20_000, 40_000] {
        assert_eq!(observed(&mut throttling, RATE, start..start + 9_900), []);
        assert_eq!(observed(&mut throttling, None, start + 9_900..start + 20_000), []);
    }
}

#[test]
fn a_writer_at_its_limit_is_free_for_moments() {
    let mut throttling = Throttling::default();
    let mut noticed = Vec::new();
    for start in (0..12_000).step_by(1000) {
        noticed.extend(observed(&mut throttling, RATE, start..start + 500));
        noticed.extend(observed(&mut throttling, None, start + 500..start + 1000));
    }
    assert_eq!(noticed, [(10_000, Throttled::Long(Limit::Rate, ms(10_000)))]);
}

#[test]
fn short_waits_are_no_throttling_however_often() {
    let mut throttling = Throttling::default();
    for start in (0..60_000).step_by(1000) {
        assert_eq!(throttling.observe(RATE, ms(start)), None);
        assert_eq!(throttling.observe(None, ms(start + 20)), None);
    }
}

#[test]
fn what_was_observed_last_holds_until_the_next_time() {
    let mut throttling = Throttling::default();
    let watchers = Some(Limit::Watchers);
    assert_eq!(throttling.observe(watchers, ms(0)), None);
    assert_eq!(
        throttling.observe(watchers, ms(30_000)),
        Some(Throttled::Long(Limit::Watchers, ms(30_000)))
    );
    assert_eq!(throttling.observe(watchers, ms(60_000)), None);
    assert_eq!(throttling.due(), None);
    assert_eq!(throttling.observe(None, ms(61_000)), None);
    // No write is due for an hour, but the caller looks in time.
    assert_eq!(throttling.due(), Some(ms(63_000)));
    assert_eq!(
        throttling.observe(None, ms(63_000)),
        Some(Throttled::Over(ms(61_000)))
    );
    assert_eq!(throttling.due(), None);
}

#[test]
fn writes_that_wait_for_answers_are_not_said_to_go_again() {
    let mut throttling = Throttling::default();
    let full = Some(Limit::InFlight);
    assert_eq!(
        observed(&mut throttling, full, 0..60_000),
        [],
        "that is no throttling"
    );
    assert_eq!(observed(&mut throttling, RATE, 60_000..71_000).len(), 1);
    assert_eq!(observed(&mut throttling, full, 71_000..90_000), []);
    assert_eq!(
        observed(&mut throttling, None, 90_000..100_000),
        [(92_000, Throttled::Over(ms(30_000)))]
    );
}

#[test]
fn a_process_that_writes_no_more_forgets_it() {
    let mut throttling = Throttling::default();
    observed(&mut throttling, RATE, 0..11_000);
    throttling.clear();
    assert_eq!(observed(&mut throttling, None, 11_000..20_000), []);
}

#[test]
fn slow_answers_are_not_blamed_on_a_limit_that_holds_back_for_moments() {
    let mut throttling = Throttling::default();
    assert_eq!(observed(&mut throttling, RATE, 0..100), []);
    let answers = Some(Limit::InFlight);
    assert_eq!(observed(&mut throttling, answers, 100..20_000), []);
    assert_eq!(observed(&mut throttling, RATE, 20_000..20_100), []);
    assert_eq!(observed(&mut throttling, None, 20_100..40_000), []);
}
