//! Helpers that cells have in common: ages, and words for absent values.

use jiff::Timestamp;

/// The text, or another where it is empty.
pub(crate) fn or(text: &str, otherwise: &str) -> String {
    if text.is_empty() { otherwise } else { text }.to_owned()
}

/// How long ago a time was.
pub(crate) fn age(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => duration(now.as_millisecond() - time.as_millisecond()),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// A duration in milliseconds, the shorter the more exact.
fn duration(millis: i64) -> String {
    // Towards zero, so that clocks that differ by a moment are forgiven.
    let seconds = millis / 1000;
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    let two = |big: i64, unit: &str, small: i64, part: &str| match small {
        0 => format!("{big}{unit}"),
        small => format!("{big}{unit}{small}{part}"),
    };
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, "d", hours % 24, "h"),
        () if days < 730 => format!("{days}d"),
        () if days < 2920 => two(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (seconds, want) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (599, "9m59s"),
            (600, "10m"),
            (3600 * 3 - 1, "179m"),
            (3600 * 3, "3h"),
            (3600 * 3 + 60, "3h1m"),
            (3600 * 8, "8h"),
            (3600 * 47, "47h"),
            (3600 * 48, "2d"),
            (3600 * 49, "2d1h"),
            (86400 * 8, "8d"),
            (86400 * 729, "729d"),
            (86400 * 730, "2y"),
            (86400 * 731, "2y1d"),
            (86400 * 2920, "8y"),
        ] {
            assert_eq!(duration(seconds * 1000), want, "{seconds}");
        }
        let now: Timestamp = "2026-01-01T00:00:03Z".parse().unwrap();
        assert_eq!(age("2026-01-01T00:00:00Z", now), "3s");
        assert_eq!(age("", now), "<unknown>");
    }
}
