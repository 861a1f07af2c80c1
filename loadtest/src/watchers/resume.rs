//! How a proxy goes on when a request of it has ended, with the pauses of client-go 1.36 (`tools/cache/reflector.go`). Unlike
//! client-go, which lists again after an error that is not 410 Gone, it lists again only after that.

use std::time::Duration;
use tokio::time::Instant;

/// The first pause, and the longest. Each is longer than the one before by a factor of two.
const FIRST_PAUSE: Duration = Duration::from_millis(800);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// After so long without a pause, the next one is short again.
const RESET: Duration = Duration::from_secs(120);

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// A list was read to its end.
    Listed,
    /// A watch lasted as long as it was asked to.
    TimedOut,
    /// A watch ended before its time, in order or because its connection broke: client-go makes no difference between the
    /// two. `told`: it told of something, or lasted for a second.
    Ended { told: bool },
    /// The server ended a watch with an error, or sent what is no event.
    Broken,
    /// The server no longer has the version that a watch was to go on from.
    Expired,
    /// A request was refused or not answered.
    Refused,
}

/// The next request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Request {
    /// A list of everything.
    List,
    /// A watch that goes on from the last version.
    Watch,
}

/// Decides how a proxy goes on.
#[derive(Debug)]
pub(super) struct Resumption {
    /// It lists everything again whenever its watch is ended.
    relist: bool,
    last: Request,
    pause: Duration,
    paused: Option<Instant>,
}

// === impl Resumption ===

impl Resumption {
    /// Returns the state of a proxy that begins with a list.
    pub(super) fn new(relist: bool) -> Self {
        Self {
            relist,
            last: Request::List,
            pause: FIRST_PAUSE,
            paused: None,
        }
    }

    /// The request to make now that the last one has ended, and the pause before it. `jitter` is from nought to one.
    pub(super) fn after(&mut self, outcome: Outcome, now: Instant, jitter: f64) -> (Request, Duration) {
        let next = match outcome {
            Outcome::Expired => Request::List,
            Outcome::TimedOut | Outcome::Ended { .. } | Outcome::Broken if self.relist => Request::List,
            Outcome::Listed | Outcome::TimedOut | Outcome::Ended { .. } | Outcome::Broken => Request::Watch,
            Outcome::Refused => self.last,
        };
        self.last = next;
        let pause = match outcome {
            Outcome::Listed | Outcome::TimedOut | Outcome::Ended { told: true } => Duration::ZERO,
            _ => self.pause(now, jitter),
        };
        (next, pause)
    }

    fn pause(&mut self, now: Instant, jitter: f64) -> Duration {
        if self
            .paused
            .is_some_and(|paused| now.saturating_duration_since(paused) > RESET)
        {
            self.pause = FIRST_PAUSE;
        }
        self.paused = Some(now);
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        pause.mul_f64(1.0 + jitter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ending_has_its_next_request_and_only_a_watch_that_ran_goes_on_at_once() {
        use Request::{List, Watch};

        for (outcome, next, relisting, pause) in [
            (Outcome::TimedOut, Watch, List, Duration::ZERO),
            (Outcome::Ended { told: true }, Watch, List, Duration::ZERO),
            (Outcome::Ended { told: false }, Watch, List, FIRST_PAUSE),
            (Outcome::Broken, Watch, List, FIRST_PAUSE),
            (Outcome::Expired, List, List, FIRST_PAUSE),
            // It had not begun.
            (Outcome::Refused, Watch, Watch, FIRST_PAUSE),
        ] {
            for (relist, next) in [(false, next), (true, relisting)] {
                let mut proxy = Resumption::new(relist);
                let refused = proxy.after(Outcome::Refused, Instant::now(), 0.0).0;
                assert_eq!(refused, List, "nothing was listed yet");
                let mut proxy = Resumption::new(relist);
                proxy.after(Outcome::Listed, Instant::now(), 0.0);
                let found = proxy.after(outcome, Instant::now(), 0.0);
                assert_eq!(found, (next, pause), "{outcome:?}");
            }
        }
    }

    #[test]
    fn pauses_double_up_to_half_a_minute_and_are_short_again_after_a_while() {
        let mut proxy = Resumption::new(false);
        let start = Instant::now();
        let mut pause = |at: u64, jitter| {
            let now = start + Duration::from_secs(at);
            proxy.after(Outcome::Broken, now, jitter).1
        };
        let seconds = [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0].map(Duration::from_secs_f64);
        assert_eq!([(); 8].map(|()| pause(0, 0.0)), seconds);
        assert_eq!(
            pause(100, 1.0),
            Duration::from_secs(60),
            "with jitter up to twice"
        );
        assert_eq!(pause(221, 0.0), FIRST_PAUSE);
    }
}
