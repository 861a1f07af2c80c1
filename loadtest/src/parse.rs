//! The forms of the values of flags, and of metrics.

use clap::builder::{RangedU64ValueParser, TypedValueParser};
use jiff::SignedDuration;
use std::time::Duration;

/// A number from one to the limit.
pub(crate) fn count(limit: u64) -> impl TypedValueParser<Value = usize> {
    RangedU64ValueParser::<u64>::new()
        .range(1..=limit)
        .map(|count| count as usize)
}

/// The value of a series on a page of metrics; none if it is not there.
pub(crate) fn series(page: &str, series: &str) -> Option<f64> {
    let mut lines = page.lines();
    let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    value.trim().parse().ok()
}

/// The series of a metric on a page: their labels, as one text, and their values.
pub(crate) fn metric<'a>(page: &'a str, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
    page.lines().filter_map(move |line| {
        let rest = line.strip_prefix(name)?.strip_prefix('{')?;
        let (labels, value) = rest.rsplit_once('}')?;
        Some((labels, value.trim().parse().ok()?))
    })
}

/// The value of a label of a series.
pub(crate) fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    labels.split(',').find_map(|label| {
        let (key, value) = label.split_once('=')?;
        (key.trim() == name).then(|| value.trim_matches('"'))
    })
}

/// A time of some length, with its unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a time such as 15s, 500ms or 2m".to_owned();
    let duration: SignedDuration = text.parse().map_err(|_| wrong())?;
    match Duration::try_from(duration) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err(wrong()),
    }
}

/// Bytes in a second, with or without a decimal unit.
pub(crate) fn byte_rate(text: &str) -> Result<u64, String> {
    let units = [("K", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];
    let unit = units
        .into_iter()
        .find_map(|(unit, size)| Some((text.strip_suffix(unit)?, size)));
    let (count, size) = unit.unwrap_or((text, 1_u64));
    let rate = count
        .parse::<u64>()
        .ok()
        .and_then(|count| count.checked_mul(size));
    rate.filter(|rate| *rate > 0)
        .ok_or_else(|| "expected bytes in a second, such as 200K or 1M".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_may_have_a_unit() {
        assert_eq!(byte_rate("512"), Ok(512));
        assert_eq!(byte_rate("200K"), Ok(200_000));
        assert_eq!(byte_rate("1M"), Ok(1_000_000));
        for wrong in ["", "0", "K", "-1K", "1.5M", "1T", "99999999999999G"] {
            assert!(byte_rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_need_a_unit_and_a_length() {
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        for wrong in ["", "15", "0s", "-3s", "soon"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
