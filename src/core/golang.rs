//! Parses values as Go's standard library does. Kubernetes flags and annotations use these forms, and a general parser
//! accepts more (`1 day`) and less (`.5s`, `0`).

use std::time::Duration;

/// Parses a bool in one of the spellings that Go's `strconv.ParseBool` accepts.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// The reason why a text is not a usable duration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum DurationError {
    /// Go would reject it too.
    #[error("not a duration as Go writes it, such as 500ms or 1m30s")]
    Syntax,
    /// Longer than Go's 64 bits of nanoseconds, about 292 years.
    #[error("longer than the longest duration, about 292 years")]
    Range,
    /// Less than zero.
    #[error("must not be negative")]
    Negative,
}

/// Parses the form of Go's `time.ParseDuration`, without negative durations: numbers with an optional fraction, each
/// with its unit, such as `1h2m3.5s`; or a plain `0`. Fractions of a nanosecond are dropped.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(DurationError::Syntax);
    }
    let mut total: i64 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(DurationError::Syntax);
        }
        let end = after
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(after.len());
        let unit = nanoseconds(&after[..end]).ok_or(DurationError::Syntax)?;
        total = amount(whole, fraction, unit)
            .and_then(|part| total.checked_add(part))
            .ok_or(DurationError::Range)?;
        rest = &after[end..];
    }
    if negative && total > 0 {
        return Err(DurationError::Negative);
    }
    Ok(Duration::from_nanos(total.unsigned_abs()))
}

fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// Returns the number of nanoseconds in a unit.
fn nanoseconds(unit: &str) -> Option<i64> {
    Some(match unit {
        "ns" => 1,
        // The micro sign and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Returns `whole.fraction` units in nanoseconds, if they fit.
fn amount(whole: &str, fraction: &str, unit: i64) -> Option<i64> {
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // For hours, digits after the thirteenth are worth less than a nanosecond; more of them must not overflow.
    let fraction = &fraction[..fraction.len().min(15)];
    let part = match fraction.parse::<i128>() {
        Ok(digits) => digits * i128::from(unit) / 10_i128.pow(fraction.len() as u32),
        Err(_) => 0,
    };
    whole.checked_mul(unit)?.checked_add(i64::try_from(part).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, nanoseconds) in [
            ("0", 0_u64),
            ("+0", 0),
            ("-0", 0),
            ("0s", 0),
            ("-0s", 0),
            ("500ms", 500_000_000),
            ("1m0s", 60_000_000_000),
            ("1h2m3.5s", 3_723_500_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("100us", 100_000),
            ("100\u{b5}s", 100_000),
            ("100\u{3bc}s", 100_000),
            ("3ns", 3),
            ("1.9ns", 1),
            ("1s1h", 3_601_000_000_000),
            ("+5s", 5_000_000_000),
            ("8760h0m0s", 31_536_000_000_000_000),
            // Go counts in floating point here and comes to a nanosecond more.
            ("0.3333333333333333333h", 1_199_999_999_999),
            ("0.100000000000000000000h", 360_000_000_000),
            ("9223372036854775807ns", i64::MAX as u64),
            ("9223372036.854775807s", i64::MAX as u64),
        ] {
            let read = parse_duration(text).map(|duration| duration.as_nanos());
            assert_eq!(read, Ok(u128::from(nanoseconds)), "{text}");
        }
    }

    #[test]
    fn what_go_does_not_read_is_refused() {
        use DurationError::{Negative, Range, Syntax};
        for (text, error) in [
            ("", Syntax),
            ("-", Syntax),
            ("+", Syntax),
            ("1", Syntax),
            ("00", Syntax),
            ("5", Syntax),
            (".", Syntax),
            (".s", Syntax),
            ("s", Syntax),
            ("1d", Syntax),
            ("1S", Syntax),
            ("1 s", Syntax),
            ("1h 2m", Syntax),
            (" 1s", Syntax),
            ("1s ", Syntax),
            ("1,5s", Syntax),
            ("1e3s", Syntax),
            ("--1s", Syntax),
            ("1-s", Syntax),
            ("1hour", Syntax),
            ("-1s", Negative),
            ("-0.5ms", Negative),
            ("9223372036854775808ns", Range),
            ("3000000h", Range),
            ("2562047h48m", Range),
        ] {
            assert_eq!(parse_duration(text), Err(error), "{text}");
        }
    }

    #[test]
    fn bools_are_read_as_go_reads_them() {
        for text in ["1", "t", "T", "TRUE", "true", "True"] {
            assert_eq!(parse_bool(text), Some(true), "{text}");
        }
        for text in ["0", "f", "F", "FALSE", "false", "False"] {
            assert_eq!(parse_bool(text), Some(false), "{text}");
        }
        for text in ["", "yes", "no", "on", "tRUE", "2", " true"] {
            assert_eq!(parse_bool(text), None, "{text}");
        }
    }
}
