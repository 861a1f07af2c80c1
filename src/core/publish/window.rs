//! How many requests may be in flight: fewer after an overload, one more after each round of answers.

use super::tuning::TUNING;
use std::time::Duration;

/// The number of requests that may be in flight. Owned by the publisher.
#[derive(Clone, Debug)]
pub(super) struct Window {
    size: f64,
    most: f64,
    /// When it was last halved. A request that was sent before was one of too many, and does not halve it again.
    halved: Duration,
}

impl Window {
    /// Creates a window of this size, which is never exceeded.
    pub(super) fn new(most: usize) -> Self {
        let most = most.max(1) as f64;
        Self {
            size: most,
            most,
            halved: Duration::ZERO,
        }
    }

    /// Returns how many requests may be in flight.
    pub(super) fn size(&self) -> usize {
        self.size as usize
    }

    /// Records that a write was carried out.
    pub(super) fn carried_out(&mut self) {
        self.size = (self.size + 1.0 / self.size).min(self.most);
    }

    /// Records that the API server was overloaded, or did not answer, when it got a request that was sent at this time.
    pub(super) fn overloaded(&mut self, sent: Duration, now: Duration) {
        if sent >= self.halved {
            self.size = (self.size / 2.0).max(TUNING.window_least.min(self.most));
            self.halved = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn requests_of_one_burst_halve_the_window_once_and_each_round_of_answers_adds_one() {
        let mut window = Window::new(16);
        for _ in 0..16 {
            window.overloaded(SECOND, 2 * SECOND);
        }
        assert_eq!(window.size(), 8);
        for _ in 0..9 {
            window.carried_out();
        }
        assert_eq!(window.size(), 9);
        for at in 3..9 {
            window.overloaded(at * SECOND, at * SECOND);
        }
        assert_eq!(window.size(), 2, "never fewer");
        for _ in 0..200 {
            window.carried_out();
        }
        assert_eq!(window.size(), 16);
        let mut single = Window::new(1);
        single.overloaded(SECOND, SECOND);
        assert_eq!(single.size(), 1);
    }
}
