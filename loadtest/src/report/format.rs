//! The text form of figures: three digits that count, and the unit that suits.

use crate::figures::group;
use jiff::Timestamp;

pub(super) use crate::figures::number;

/// The sign for a figure that is missing or no number.
pub(super) const NONE: &str = "–";

/// From here on a figure is written with a power of ten, because its digits would be too many to read.
const LONG: f64 = 1e10;

/// A count in at most nine characters.
pub(super) fn short(count: u64) -> String {
    if count < 10_000_000 {
        number(count)
    } else {
        format!("{:.2e}", count as f64)
    }
}

/// Any number, with three digits that count, or all of those before the point.
pub(crate) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    if value.abs() >= LONG {
        return format!("{value:.2e}");
    }
    let value = rounded(value);
    let size = value.abs();
    let decimals = if size == 0.0 || size >= 100.0 {
        0
    } else if size >= 10.0 {
        1
    } else {
        // Very small numbers lose some digits, since ten of them would be too many to read.
        (2 - magnitude(size)).clamp(2, 5) as usize
    };
    signed(value, |size| group(&format!("{size:.decimals$}")))
}

/// A count that is kept as a floating-point number.
pub(super) fn whole(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    if value.abs() >= LONG {
        return format!("{value:.2e}");
    }
    signed(value.round(), |size| group(&format!("{size:.0}")))
}

/// A duration in microseconds.
pub(crate) fn micros(value: f64) -> String {
    let rounded = rounded(value);
    if !rounded.is_finite() {
        NONE.to_owned()
    } else if rounded < 1e3 {
        let text = figure(value);
        // The clock has no more than whole microseconds; only averages have more.
        let text = if value.fract() == 0.0 { whole(value) } else { text };
        format!("{text} µs")
    } else if rounded < 1e6 {
        format!("{} ms", figure(value / 1e3))
    } else if rounded < 1e9 {
        format!("{} s", figure(value / 1e6))
    } else {
        let hours = value / 3.6e9;
        match hours {
            ..1.0 => format!("{} min", figure(hours * 60.0)),
            1.0..48.0 => format!("{} h", figure(hours)),
            48.0..20_000.0 => format!("{} d", figure(hours / 24.0)),
            _ => format!("{} y", figure(hours / 24.0 / 365.25)),
        }
    }
}

/// A duration in seconds.
pub(super) fn seconds(value: f64) -> String {
    micros(value * 1e6)
}

/// How long something took, given in seconds, or that there was nothing to do.
pub(super) fn seconds_needed(value: f64) -> String {
    if value == 0.0 {
        "none needed".to_owned()
    } else {
        seconds(value)
    }
}

/// A size in bytes.
pub(crate) fn bytes(value: f64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if !value.is_finite() {
        return NONE.to_owned();
    }
    if value.abs() < 1_000.0 {
        let text = if value.fract() == 0.0 {
            whole(value)
        } else {
            figure(value)
        };
        return format!("{text} B");
    }
    let mut size = value / 1024.0;
    let mut unit = 0;
    // 1,000 and not 1,024: no size takes four digits.
    while rounded(size).abs() >= 1_000.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{} {}", figure(size), UNITS[unit])
}

/// How often in a second.
pub(super) fn rate(value: f64) -> String {
    format!("{}/s", figure(value))
}

/// A share, such as one of a core.
pub(super) fn percent(value: f64) -> String {
    let percent = value * 100.0;
    if percent.is_finite() && percent < 10.0 {
        format!("{percent:.1} %")
    } else {
        format!("{} %", whole(percent))
    }
}

/// How many times the reference: two digits that count.
pub(super) fn ratio(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    if value == 0.0 {
        return "×0".to_owned();
    }
    let magnitude = magnitude(value.abs());
    if !(-4..6).contains(&magnitude) {
        return format!("×{value:.0e}");
    }
    let scale = 10_f64.powi(1 - magnitude);
    let rounded = (value * scale).round() / scale;
    let decimals = (1 - self::magnitude(rounded)).clamp(0, 6) as usize;
    format!("×{}", group(&format!("{rounded:.decimals$}")))
}

/// A moment of a run.
pub(super) fn moment(seconds: f64) -> String {
    if !seconds.is_finite() {
        return NONE.to_owned();
    }
    let tenths = (seconds * 10.0).round();
    if tenths.abs() < 1_800.0 {
        return format!("{:.1} s", tenths / 10.0 + 0.0);
    }
    let whole = seconds.abs().floor() as u64;
    let (hours, minutes, rest) = (whole / 3_600, whole / 60 % 60, whole % 60);
    let sign = if seconds < 0.0 { "-" } else { "" };
    if hours == 0 {
        format!("{sign}{minutes}:{rest:02} min")
    } else {
        format!("{sign}{hours}:{minutes:02}:{rest:02} h")
    }
}

/// A date and time to the minute; text that is not in the form of RFC 3339 is left as it is.
pub(super) fn date(text: &str) -> String {
    text.parse::<Timestamp>().map_or_else(
        |_| text.to_owned(),
        |time| time.strftime("%Y-%m-%d %H:%M UTC").to_string(),
    )
}

/// A count with its noun, which is given in the singular.
pub(crate) fn plural(count: u64, noun: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{} {noun}{end}", number(count))
}

/// A value of an axis: as many digits as it has, and no more.
pub(super) fn plain(value: f64) -> String {
    let value = (value * 1e9).round() / 1e9;
    signed(value, |size| group(&size.to_string()))
}

/// Text for a terminal: what would move its cursor or colour it is taken out.
pub(super) fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// Text that is cut to so many characters.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(most.saturating_sub(1)).collect();
    cut.truncate(cut.trim_end().len());
    cut.push('…');
    cut
}

fn signed(value: f64, text: impl FnOnce(f64) -> String) -> String {
    let text = text(value.abs());
    if value < 0.0 { format!("-{text}") } else { text }
}

/// The power of ten of the first digit.
pub(super) fn magnitude(size: f64) -> i32 {
    if size > 0.0 {
        size.log10().floor() as i32
    } else {
        0
    }
}

/// Three digits that count, but never less than whole numbers: 999.6 is 1,000, and so one unit up.
fn rounded(value: f64) -> f64 {
    if !value.is_finite() || value == 0.0 {
        return value;
    }
    let decimals = (2 - magnitude(value.abs())).clamp(0, 12);
    let scale = 10_f64.powi(decimals);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart() {
        assert_eq!(number(0), "0");
        assert_eq!(number(999), "999");
        assert_eq!(number(12_345), "12,345");
        assert_eq!(number(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(whole(-1_234.4), "-1,234");
        assert_eq!(whole(1.844e19), "1.84e19");
    }

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(figure(0.0), "0");
        assert_eq!(figure(0.012_345), "0.0123");
        assert_eq!(figure(0.000_000_1), "0.00000");
        assert_eq!(figure(1.0), "1.00");
        assert_eq!(figure(9.996), "10.0");
        assert_eq!(figure(99.96), "100");
        assert_eq!(figure(12_345.6), "12,346");
        assert_eq!(figure(-2.5), "-2.50");
        assert_eq!(figure(f64::NAN), NONE);
        assert_eq!(figure(f64::INFINITY), NONE);
    }

    #[test]
    fn durations_have_the_unit_that_suits() {
        assert_eq!(micros(0.0), "0 µs");
        assert_eq!(micros(7.0), "7 µs");
        assert_eq!(micros(85.24), "85.2 µs");
        assert_eq!(micros(999.0), "999 µs");
        assert_eq!(micros(999.7), "1.00 ms");
        assert_eq!(micros(1_234.0), "1.23 ms");
        assert_eq!(micros(999_999.0), "1,000 ms");
        assert_eq!(micros(2_500_000.0), "2.50 s");
        assert_eq!(micros(1.5e9), "25.0 min");
        assert_eq!(micros(7.5e9), "2.08 h");
        assert_eq!(micros(3.6e11), "4.17 d");
        assert_eq!(micros(u64::MAX as f64), "584,542 y");
        assert_eq!(micros(f64::NAN), NONE);
        assert_eq!(seconds(0.04), "40.0 ms");
    }

    #[test]
    fn sizes_have_the_unit_that_suits() {
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bytes(999.0), "999 B");
        assert_eq!(bytes(1_023.0), "0.999 KiB");
        assert_eq!(bytes(1_536.0), "1.50 KiB");
        assert_eq!(bytes(5.0 * 1024.0 * 1024.0), "5.00 MiB");
        assert_eq!(bytes(1_020.0 * 1024.0 * 1024.0), "0.996 GiB");
        assert_eq!(bytes(u64::MAX as f64), "16.0 EiB");
    }

    #[test]
    fn ratios_have_two_digits() {
        assert_eq!(ratio(1.0), "×1.0");
        assert_eq!(ratio(0.004), "×0.0040");
        assert_eq!(ratio(0.8), "×0.80");
        assert_eq!(ratio(0.996), "×1.0");
        assert_eq!(ratio(12.4), "×12");
        assert_eq!(ratio(1_234.0), "×1,200");
        assert_eq!(ratio(1.2e9), "×1e9");
        assert_eq!(ratio(0.0), "×0");
        assert_eq!(ratio(f64::NAN), NONE);
    }

    #[test]
    fn moments_and_dates_are_short() {
        assert_eq!(moment(0.0), "0.0 s");
        assert_eq!(moment(12.34), "12.3 s");
        assert_eq!(moment(200.9), "3:20 min");
        assert_eq!(moment(7_384.0), "2:03:04 h");
        assert_eq!(moment(-2.0), "-2.0 s");
        assert_eq!(date("2026-07-01T12:34:56.789Z"), "2026-07-01 12:34 UTC");
        assert_eq!(date("yesterday"), "yesterday");
    }

    #[test]
    fn other_small_things() {
        assert_eq!(rate(205.4), "205/s");
        assert_eq!(percent(0.012), "1.2 %");
        assert_eq!(percent(1.5), "150 %");
        assert_eq!(plural(1, "change"), "1 change");
        assert_eq!(plural(1_000, "change"), "1,000 changes");
        assert_eq!(plain(0.1 * 3.0), "0.3");
        assert_eq!(plain(20_000.0), "20,000");
        assert_eq!(clean("a\u{1b}[31mb\nc"), "a [31mb c");
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdefg", 6), "abcde…");
        assert_eq!(cut("abcd efg", 6), "abcd…");
    }
}
