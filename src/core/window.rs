//! Learns from the API server how many requests may be in flight, as TCP learns the capacity of a network.

use std::time::Duration;

/// A response that takes this many times longer than usual, and also longer than [`SLOW`], indicates congestion.
const STRETCH: u32 = 8;
/// Responses faster than this do not indicate congestion, however fast the server usually is.
const SLOW: Duration = Duration::from_millis(250);
/// The fraction of the window left after the server was overloaded or did not respond.
const AFTER_REFUSAL: f64 = 0.5;
/// The fraction of the window left after a slow response.
const AFTER_SLOWNESS: f64 = 0.8;
/// The weight of a slower response in the usual response time, which adapts over some hundred of them.
const DRIFT: f64 = 0.01;
/// The smallest window.
const LEAST: f64 = 2.0;
/// The window before anything is known.
const FIRST: f64 = 16.0;

/// The outcome of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sign {
    /// Any response.
    Answered,
    /// Too many requests, an overloaded server, or no response in time.
    Overloaded,
}

/// The number of requests that may be in flight: one more for each window full of responses, half as many when the
/// server shows that it is overloaded. Owned by the writer; the caller supplies the time.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    size: f64,
    limit: f64,
    /// The usual response time.
    usual: Option<Duration>,
    /// The time of the last shrink. Requests sent before it do not shrink the window again, because requests of the
    /// same burst already did.
    shrunk: Duration,
}

impl Window {
    /// Creates a window that never exceeds `limit`.
    pub(crate) fn new(limit: usize) -> Self {
        let limit = (limit.max(1)) as f64;
        Self {
            size: FIRST.min(limit),
            limit,
            usual: None,
            shrunk: Duration::ZERO,
        }
    }

    /// Returns how many requests may be in flight now: at least two, so that one without a response does not hold up
    /// all others; one if the limit allows no more.
    pub(crate) fn size(&self) -> usize {
        self.size as usize
    }

    /// Returns whether a response that took this long indicates congestion.
    pub(crate) fn is_slow(&self, took: Duration) -> bool {
        took > SLOW && self.usual.is_some_and(|usual| took > usual * STRETCH)
    }

    /// Records the outcome of a request that took `took`, with `in_flight` requests out including itself.
    pub(crate) fn answered(&mut self, sign: Sign, took: Duration, in_flight: usize, now: Duration) {
        let sent = now.saturating_sub(took);
        let slow = self.is_slow(took);
        let usual = self.usual.get_or_insert(took);
        match sign {
            Sign::Overloaded => self.shrink(AFTER_REFUSAL, sent, now),
            Sign::Answered if slow => self.shrink(AFTER_SLOWNESS, sent, now),
            Sign::Answered => {
                *usual = if took < *usual {
                    took
                } else {
                    *usual + took.saturating_sub(*usual).mul_f64(DRIFT)
                };
                // A window that is not full shows nothing about the server's capacity.
                if in_flight >= self.size() {
                    self.size = (self.size + 1.0 / self.size).min(self.limit);
                }
            }
        }
    }

    fn shrink(&mut self, to: f64, sent: Duration, now: Duration) {
        if sent >= self.shrunk {
            self.size = (self.size * to).max(LEAST.min(self.limit));
            self.shrunk = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Full windows of answers, each after `took`.
    fn rounds(window: &mut Window, count: u32, took: Duration, now: &mut Duration) {
        for _ in 0..count {
            *now += took;
            for _ in 0..window.size() {
                window.answered(Sign::Answered, took, window.size(), *now);
            }
        }
    }

    #[test]
    fn it_grows_by_one_a_round_up_to_its_limit() {
        let (mut window, mut now) = (Window::new(64), Duration::ZERO);
        assert_eq!(window.size(), 16);
        rounds(&mut window, 10, MS, &mut now);
        assert!((24..=27).contains(&window.size()), "{}", window.size());
        rounds(&mut window, 100, MS, &mut now);
        assert_eq!(window.size(), 64);
    }

    #[test]
    fn one_burst_of_refusals_halves_it_once() {
        let (mut window, mut now) = (Window::new(64), Duration::ZERO);
        rounds(&mut window, 100, MS, &mut now);
        now += MS;
        for _ in 0..64 {
            window.answered(Sign::Overloaded, MS, 64, now);
        }
        assert_eq!(window.size(), 32);
        for _ in 0..20 {
            now += MS;
            window.answered(Sign::Overloaded, MS, 1, now);
        }
        assert_eq!(window.size(), 2, "that many at a time are always tried");
    }

    #[test]
    fn answers_that_become_slow_make_it_smaller_and_slowness_that_lasts_becomes_usual() {
        let (mut window, mut now) = (Window::new(64), Duration::ZERO);
        rounds(&mut window, 100, 2 * MS, &mut now);
        rounds(&mut window, 3, 200 * MS, &mut now);
        assert_eq!(window.size(), 64, "still quick enough for anybody");
        rounds(&mut window, 1, 2000 * MS, &mut now);
        assert!(window.size() < 64);
        let (mut far, mut then) = (Window::new(64), Duration::ZERO);
        rounds(&mut far, 100, 400 * MS, &mut then);
        assert_eq!(far.size(), 64, "a server far away is not an overloaded one");
    }

    #[test]
    fn a_window_that_is_not_filled_does_not_grow() {
        let mut window = Window::new(64);
        for n in 1..1000 {
            window.answered(Sign::Answered, MS, 1, n * MS);
        }
        assert_eq!(window.size(), 16);
    }
}
