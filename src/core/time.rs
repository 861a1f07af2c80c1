//! Points in time as the API represents them.

use std::cmp::Ordering;
use std::fmt;
use std::num::NonZeroI64;

/// The internal representation of the earliest [`Time`].
const FIRST: NonZeroI64 = NonZeroI64::new(1).expect("one is not zero");

/// Nanoseconds since 1970 in UTC: a creationTimestamp, or the lastTransitionTime of a condition.
///
/// API servers send whole seconds; nanoseconds are kept because the trigger-time annotation has them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Time(NonZeroI64);

impl Time {
    /// Creates a time from whole seconds since 1970.
    pub fn from_seconds(seconds: i64) -> Self {
        Self::from_nanoseconds(seconds.saturating_mul(1_000_000_000))
    }

    /// Creates a time from nanoseconds since 1970.
    pub fn from_nanoseconds(nanoseconds: i64) -> Self {
        // With the sign bit flipped, only the earliest time would be zero, and is replaced by the second one. This
        // keeps an optional time, of which there is one per pod, as small as a time.
        Self(NonZeroI64::new(nanoseconds ^ i64::MIN).unwrap_or(FIRST))
    }

    /// Returns nanoseconds since 1970.
    pub fn as_nanoseconds(self) -> i64 {
        self.0.get() ^ i64::MIN
    }

    /// Drops fractions of a second, like most times in the API.
    #[must_use]
    pub fn whole_seconds(self) -> Self {
        Self::from_seconds(self.as_nanoseconds().div_euclid(1_000_000_000))
    }

    /// Parses RFC 3339. `None` if it is not that, or lies outside the years 1678 to 2261.
    pub fn parse(text: &str) -> Option<Self> {
        let timestamp: jiff::Timestamp = text.parse().ok()?;
        i64::try_from(timestamp.as_nanosecond())
            .ok()
            .map(Self::from_nanoseconds)
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_nanoseconds().cmp(&other.as_nanoseconds())
    }
}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Time {
    /// Prints RFC 3339 in UTC with as many fractional digits as needed, as Go does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timestamp = jiff::Timestamp::from_nanosecond(i128::from(self.as_nanoseconds()))
            .expect("64 bits of nanoseconds lie well within the calendar");
        write!(f, "{timestamp}")
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Returns the earlier of two times, where `None` is later than any.
pub fn earliest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::{Time, earliest};

    #[test]
    fn prints_as_go_does() {
        for text in [
            "2024-01-02T03:04:05Z",
            "2024-01-02T03:04:05.5Z",
            "2024-01-02T03:04:05.000000001Z",
        ] {
            assert_eq!(Time::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(
            Time::parse("2024-01-02T05:04:05+02:00").unwrap().to_string(),
            "2024-01-02T03:04:05Z"
        );
        assert_eq!(Time::parse("yesterday"), None);
        assert_eq!(Time::from_seconds(0).to_string(), "1970-01-01T00:00:00Z");
    }

    #[test]
    fn whole_seconds_are_whole() {
        let time = Time::parse("2024-01-02T03:04:05.999999999Z").unwrap();
        assert_eq!(time.whole_seconds().to_string(), "2024-01-02T03:04:05Z");
        assert_eq!(Time::from_nanoseconds(time.as_nanoseconds()), time);
        assert_eq!(Time::from_nanoseconds(-1).whole_seconds(), Time::from_seconds(-1));
    }

    #[test]
    fn none_is_later_than_any() {
        let (a, b) = (Some(Time::from_seconds(1)), Some(Time::from_seconds(2)));
        assert_eq!(earliest(a, b), a);
        assert_eq!(earliest(None, b), b);
        assert_eq!(earliest(a, None), a);
        assert_eq!(earliest(None, None), None);
    }
}
