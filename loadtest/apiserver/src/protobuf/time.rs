//! Times as seconds and nanoseconds.

use jiff::Timestamp;

/// The seconds of Go's zero time, which is written as no time.
pub(super) const YEAR_ONE: i64 = -62_135_596_800;

/// Seconds since 1970 and nanoseconds of a time. The form in which times are stored is read without a parser.
pub(super) fn parse(text: &str) -> Option<(i64, u32)> {
    if let [
        y0,
        y1,
        y2,
        y3,
        b'-',
        m0,
        m1,
        b'-',
        d0,
        d1,
        b'T',
        h0,
        h1,
        b':',
        n0,
        n1,
        b':',
        s0,
        s1,
        b'Z',
    ] = text.as_bytes()
    {
        let number = |digits: &[&u8]| {
            digits.iter().try_fold(0i64, |n, digit| {
                digit.is_ascii_digit().then(|| n * 10 + i64::from(**digit - b'0'))
            })
        };
        let (year, month, day) = (number(&[y0, y1, y2, y3])?, number(&[m0, m1])?, number(&[d0, d1])?);
        let (hour, minute, second) = (number(&[h0, h1])?, number(&[n0, n1])?, number(&[s0, s1])?);
        return Some((
            days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second,
            0,
        ));
    }
    let at: Timestamp = text.parse().ok()?;
    let nanos = at.as_nanosecond();
    Some((
        nanos.div_euclid(1_000_000_000) as i64,
        nanos.rem_euclid(1_000_000_000) as u32,
    ))
}

/// Days from 1970 to a day of the Gregorian calendar. Years are counted from March, so that the leap day is the last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}
