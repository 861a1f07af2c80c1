//! What values of flags look like.

use std::time::Duration;

use clap::builder::{RangedU64ValueParser, TypedValueParser};
use jiff::SignedDuration;

/// A number from one to the limit.
pub(crate) fn count(limit: u64) -> impl TypedValueParser<Value = usize> {
    RangedU64ValueParser::<u64>::new()
        .range(1..=limit)
        .map(|count| count as usize)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit_and_a_length() {
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        for wrong in ["", "15", "0s", "-3s", "soon"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
