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

    const ENDED: [Outcome; 4] = [
        Outcome::TimedOut,
        Outcome::Ended { told: true },
        Outcome::Ended { told: false },
        Outcome::Broken,
    ];

    fn after(relist: bool, outcome: Outcome) -> (Request, Duration) {
        let mut proxy = Resumption::new(relist);
        proxy.after(Outcome::Listed, Instant::now(), 0.0);
        proxy.after(outcome, Instant::now(), 0.0)
    }

    #[test]
    fn a_watch_that_ended_goes_on_from_its_last_version() {
        for outcome in ENDED {
            assert_eq!(after(false, outcome).0, Request::Watch, "{outcome:?}");
        }
    }

    #[test]
    fn a_proxy_that_lists_again_does_so_whenever_its_watch_ended() {
        for outcome in ENDED {
            assert_eq!(after(true, outcome).0, Request::List, "{outcome:?}");
        }
        assert_eq!(
            after(true, Outcome::Refused).0,
            Request::Watch,
            "it had not begun"
        );
    }

    #[test]
    fn all_list_again_when_the_server_has_forgotten_their_version() {
        for relist in [false, true] {
            assert_eq!(after(relist, Outcome::Expired), (Request::List, FIRST_PAUSE));
        }
    }

    #[test]
    fn a_request_that_was_refused_is_made_again() {
        let mut proxy = Resumption::new(false);
        for outcome in [Outcome::Refused, Outcome::Refused] {
            assert_eq!(proxy.after(outcome, Instant::now(), 0.0).0, Request::List);
        }
        assert_eq!(after(false, Outcome::Refused).0, Request::Watch);
    }

    #[test]
    fn only_a_watch_that_ran_goes_on_at_once() {
        assert_eq!(after(false, Outcome::TimedOut).1, Duration::ZERO);
        assert_eq!(after(false, Outcome::Ended { told: true }).1, Duration::ZERO);
        for outcome in [
            Outcome::Ended { told: false },
            Outcome::Broken,
            Outcome::Expired,
            Outcome::Refused,
        ] {
            assert_eq!(after(false, outcome).1, FIRST_PAUSE, "{outcome:?}");
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
