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
    let power = magnitude(value.abs());
    if !(-4..6).contains(&power) {
        return format!("×{value:.0e}");
    }
    let scale = 10_f64.powi(1 - power);
    let rounded = (value * scale).round() / scale;
    let decimals = (1 - magnitude(rounded)).clamp(0, 6) as usize;
    format!("×{}", group(&format!("{rounded:.decimals$}")))
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
fn magnitude(size: f64) -> i32 {
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
    fn figures_have_three_digits_and_the_unit_that_suits() {
        let numbers = [0.0, 0.012_345, 1.0, 9.996, 99.96, 12_345.6, -2.5, f64::NAN].map(figure);
        assert_eq!(
            numbers,
            ["0", "0.0123", "1.00", "10.0", "100", "12,346", "-2.50", NONE]
        );
        let times = [
            0.0,
            85.24,
            999.7,
            1_234.0,
            999_999.0,
            2_500_000.0,
            1.5e9,
            7.5e9,
            3.6e11,
        ]
        .map(micros);
        let expected = [
            "0 µs", "85.2 µs", "1.00 ms", "1.23 ms", "1,000 ms", "2.50 s", "25.0 min", "2.08 h", "4.17 d",
        ];
        assert_eq!(times, expected);
        let sizes = [999.0, 1_023.0, 1_536.0, 5.0 * 1024.0 * 1024.0, u64::MAX as f64].map(bytes);
        assert_eq!(sizes, ["999 B", "0.999 KiB", "1.50 KiB", "5.00 MiB", "16.0 EiB"]);
        assert_eq!([0.012, 1.5].map(percent), ["1.2 %", "150 %"]);
        assert_eq!(
            (whole(-1_234.4), short(u64::MAX)),
            ("-1,234".to_owned(), "1.84e19".to_owned())
        );
    }

    #[test]
    fn ratios_have_two_digits() {
        let ratios = [1.0, 0.004, 0.8, 0.996, 12.4, 1_234.0, 1.2e9, 0.0, f64::NAN].map(ratio);
        assert_eq!(
            ratios,
            [
                "×1.0", "×0.0040", "×0.80", "×1.0", "×12", "×1,200", "×1e9", "×0", NONE
            ]
        );
    }

    #[test]
    fn texts_are_short_and_cannot_move_a_cursor() {
        assert_eq!(date("2026-07-01T12:34:56.789Z"), "2026-07-01 12:34 UTC");
        assert_eq!(date("yesterday"), "yesterday");
        assert_eq!(
            (plural(1, "change"), plural(1_000, "change")),
            ("1 change".to_owned(), "1,000 changes".to_owned())
        );
        assert_eq!(clean("a\u{1b}[31mb\nc"), "a [31mb c");
        assert_eq!(
            ["abcdef", "abcdefg", "abcd efg"].map(|text| cut(text, 6)),
            ["abcdef", "abcde…", "abcd…"]
        );
    }
}
