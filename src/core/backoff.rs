//! Delays before a failed request is retried.

use std::time::Duration;

/// The longest delay before a retry, unless others keep changing the object or the namespace is terminating.
pub(crate) const LONGEST: Duration = Duration::from_secs(30);
/// After the API server rejects what was sent, even a change does not cause a retry sooner than this.
pub(crate) const FLOOR: Duration = Duration::from_secs(5);
/// The longest delay before an object is put right that others keep changing.
const LONGEST_CONTESTED: Duration = Duration::from_secs(600);
/// The delay after the first refusal because the namespace is terminating, and after each further one.
const TERMINATING_FIRST: Duration = Duration::from_secs(60);
const TERMINATING: Duration = Duration::from_secs(300);
/// The delay after the first failure; it doubles with each further one.
const FIRST: Duration = Duration::from_millis(100);

/// The effect of an object's earlier failures on its next request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Retry {
    /// No request failed, or the content to send is not what failed.
    Now,
    /// The API server rejected what was sent. The content has changed since, but the reason may be the same.
    Floor,
    /// The API server rejected the same content repeatedly. Waiting alone is unlikely to help, so retries are slow.
    Slowly {
        /// The number of failures.
        failures: u8,
    },
    /// The same content failed repeatedly.
    After {
        /// The number of failures.
        failures: u8,
    },
    /// The API server says that the namespace is terminating. It nearly always is, and takes the objects with it.
    Terminating {
        /// The number of failures.
        failures: u8,
    },
    /// Other clients keep changing the object. A user has to decide whose it is.
    Contested {
        /// The number of their changes.
        changes: u8,
    },
}

impl Retry {
    /// Returns the delay, between half of the nominal one and all of it, depending on `jitter` (0 to 1).
    pub fn delay(self, jitter: f64) -> Duration {
        let nominal = match self {
            Self::Now => return Duration::ZERO,
            Self::Floor => FLOOR,
            Self::Slowly { failures } => doubled(FLOOR, failures).min(LONGEST),
            Self::After { failures } => doubled(FIRST, failures).min(LONGEST),
            Self::Terminating { failures: ..=1 } => TERMINATING_FIRST,
            Self::Terminating { .. } => TERMINATING,
            Self::Contested { changes } => doubled(FIRST, changes).min(LONGEST_CONTESTED),
        };
        nominal.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0)
    }
}

fn doubled(first: Duration, failures: u8) -> Duration {
    first.saturating_mul(1 << u32::from(failures.saturating_sub(1)).min(16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_cap_and_never_pass_it() {
        let delay = |failures, random| Retry::After { failures }.delay(random);
        assert_eq!(Retry::Now.delay(1.0), Duration::ZERO);
        assert_eq!(delay(1, 1.0), Duration::from_millis(100));
        assert_eq!(delay(2, 1.0), Duration::from_millis(200));
        assert_eq!(delay(2, 0.0), Duration::from_millis(100));
        for failures in 10..=255 {
            assert_eq!(delay(failures, 1.0), LONGEST);
        }
        assert!(Retry::Floor.delay(0.0) >= Duration::from_secs(2));
        assert_eq!(Retry::Slowly { failures: 1 }.delay(1.0), FLOOR);
        assert_eq!(Retry::Slowly { failures: 9 }.delay(1.0), LONGEST);
        assert_eq!(Retry::Contested { changes: 12 }.delay(1.0), FIRST * 2048);
        assert_eq!(Retry::Contested { changes: 255 }.delay(1.0), LONGEST_CONTESTED);
    }
}
