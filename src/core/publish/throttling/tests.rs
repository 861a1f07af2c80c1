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
        [(61_900, Throttled::Over(ms(59_900)))]
    );
    // The next time is reported anew.
    assert_eq!(
        observed(&mut throttling, Some(Limit::Server), 120_000..140_000),
        [(130_000, Throttled::Long(Limit::Server, ms(10_000)))]
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
fn silence_ends_it_too() {
    let mut throttling = Throttling::default();
    observed(&mut throttling, RATE, 0..11_000);
    // Nothing was to be written for an hour; then something is, and is held back.
    assert_eq!(
        throttling.observe(RATE, ms(3_600_000)),
        Some(Throttled::Over(ms(10_900)))
    );
    assert_eq!(throttling.observe(RATE, ms(3_600_100)), None);
}

#[test]
fn a_process_that_writes_no_more_forgets_it() {
    let mut throttling = Throttling::default();
    observed(&mut throttling, RATE, 0..11_000);
    throttling.clear();
    assert_eq!(observed(&mut throttling, None, 11_000..20_000), []);
}
