//! The fence: it keeps a process from writing unless the process can prove that it may.

use crate::core::leadership::Term;
use parking_lot::Mutex;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::watch;

/// A clock that never stops, whatever happens to the process. Its origin does not matter.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Clock {
    /// Creates a clock from a function, for tests.
    pub fn new(now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Returns the current time.
    pub fn now(&self) -> Duration {
        (self.0)()
    }
}

impl Default for Clock {
    /// Returns the system's time since boot. It goes on while the process is stopped, and on Linux also while the
    /// machine is suspended, where the usual monotonic clock stands still. Tokio uses that one, and wakes too late
    /// then; but the fence reads this clock whenever it matters.
    fn default() -> Self {
        #[cfg(target_os = "linux")]
        const ID: rustix::time::ClockId = rustix::time::ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        const ID: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
        Self::new(|| {
            let time = rustix::time::clock_gettime(ID);
            let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
            Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
        })
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

/// The fence was closed before there was an answer. A request that was sent before that may have been carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("this process no longer holds the lease")]
pub struct Closed;

/// Lets requests begin until a deadline, which the holder of the lease extends. Cheap to clone; all clones are one
/// fence.
#[derive(Clone, Debug)]
pub struct Fence(Arc<State>);

#[derive(Debug)]
struct State {
    clock: Clock,
    /// The deadline in nanoseconds; zero while the fence is closed.
    until: AtomicU64,
    /// The current term, incremented whenever the fence is opened or closed.
    term: watch::Sender<Term>,
    /// Held while the deadline changes: once shut, the fence stays closed.
    shut: Mutex<bool>,
}

impl Fence {
    /// Creates a closed fence.
    pub fn closed(clock: Clock) -> Self {
        Self(Arc::new(State {
            clock,
            until: AtomicU64::new(0),
            term: watch::Sender::default(),
            shut: Mutex::new(false),
        }))
    }

    /// Creates an open fence, for a process that needs no lease.
    pub fn open() -> Self {
        let fence = Self::closed(Clock::new(|| Duration::ZERO));
        fence.0.until.store(u64::MAX, Ordering::Release);
        fence
    }

    /// Opens the fence until then, or closes it.
    pub fn set(&self, until: Option<Duration>) {
        let shut = self.0.shut.lock();
        if !*shut {
            let was_open = self.is_open();
            let until = until.map_or(0, |until| u64::try_from(until.as_nanos()).unwrap_or(u64::MAX));
            // The fence is closed in between, so that no request finds it open in the old term.
            if !was_open || until == 0 {
                self.0.until.store(0, Ordering::Release);
                self.0.term.send_modify(|term| term.0 += 1);
            }
            self.0.until.store(until, Ordering::Release);
        }
    }

    /// Returns the current term.
    pub fn term(&self) -> Term {
        *self.0.term.borrow()
    }

    /// Closes the fence for good.
    pub fn shut(&self) {
        *self.0.shut.lock() = true;
        self.0.until.store(0, Ordering::Release);
        self.0.term.send_modify(|term| term.0 += 1);
    }

    /// Returns whether a request may begin at this moment.
    pub fn is_open(&self) -> bool {
        self.0.clock.now().as_nanos() < u128::from(self.0.until.load(Ordering::Acquire))
    }

    /// Runs a request as long as the fence is open, and in this term. This is checked each time before the request is
    /// polled: a connection may take seconds to be made, and a process that was stopped meanwhile resumes right there.
    /// A request that was sent by then is not called back, but once the fence is closed, its answer is not awaited.
    ///
    /// There is no wait between the check and the system call that sends, only a hop to the task of the connection. A
    /// process that is stopped just there, for longer than the difference between the lease duration and the renew
    /// deadline, still writes once; the server then refuses the resourceVersion in it, or the name of an object that
    /// exists already.
    ///
    /// # Errors
    ///
    /// Fails when the fence is closed, or is closed before there is an answer.
    pub async fn guard<T>(&self, term: Term, request: impl Future<Output = T>) -> Result<T, Closed> {
        let mut terms = self.0.term.subscribe();
        let mut request = pin!(request);
        let mut over = pin!(async {
            // The sender lives as long as the fence.
            let _ = terms.wait_for(|now| *now != term).await;
        });
        std::future::poll_fn(|context| {
            if over.as_mut().poll(context).is_ready() || !self.is_open() {
                Poll::Ready(Err(Closed))
            } else {
                request.as_mut().poll(context).map(Ok)
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use std::future::{pending, ready};

    #[test]
    fn it_lets_pass_until_the_deadline_and_not_beyond() {
        let now = Arc::new(AtomicU64::new(1));
        let clock = {
            let now = now.clone();
            Clock::new(move || Duration::from_secs(now.load(Ordering::Relaxed)))
        };
        let fence = Fence::closed(clock);
        let try_it = |fence: &Fence| fence.guard(fence.term(), ready(7)).now_or_never().unwrap();
        assert_eq!(try_it(&fence), Err(Closed));
        fence.set(Some(Duration::from_secs(3)));
        assert_eq!(try_it(&fence), Ok(7));
        // A request that waits, for a connection perhaps, does not go on after the deadline.
        let polled = AtomicU64::new(0);
        let request = std::future::poll_fn(|_| {
            polled.fetch_add(1, Ordering::Relaxed);
            Poll::<()>::Pending
        });
        let mut waiting = Box::pin(fence.guard(fence.term(), request));
        assert_eq!((&mut waiting).now_or_never(), None);
        now.store(3, Ordering::Relaxed);
        assert_eq!((&mut waiting).now_or_never(), Some(Err(Closed)));
        assert_eq!(polled.load(Ordering::Relaxed), 1);
        assert_eq!(try_it(&fence), Err(Closed));

        fence.set(Some(Duration::from_secs(9)));
        assert_eq!(try_it(&fence), Ok(7));
        fence.shut();
        fence.set(Some(Duration::from_secs(9)));
        assert_eq!(try_it(&fence), Err(Closed), "for good");
        assert!(Fence::open().is_open());
        let open = Fence::open();
        assert_eq!(open.guard(open.term(), pending::<()>()).now_or_never(), None);
    }

    #[tokio::test]
    async fn what_was_begun_in_one_term_does_not_go_on_in_the_next() {
        let fence = Fence::closed(Clock::new(|| Duration::ZERO));
        let later = Some(Duration::from_secs(1));
        fence.set(later);
        let first = fence.term();
        fence.set(later);
        assert_eq!(fence.term(), first, "a renewal begins none");
        // A request that waits for a connection is cancelled at once.
        let mut waiting = Box::pin(fence.guard(first, pending::<()>()));
        assert_eq!((&mut waiting).now_or_never(), None);
        fence.set(None);
        assert_eq!(waiting.await, Err(Closed));
        let between = fence.term();
        fence.set(later);
        for term in [first, between] {
            assert_eq!(fence.guard(term, ready(7)).await, Err(Closed));
        }
        assert_eq!(fence.guard(fence.term(), ready(7)).await, Ok(7));
    }

    #[test]
    fn the_systems_clock_goes_on() {
        let clock = Clock::default();
        let before = clock.now();
        assert!(before > Duration::ZERO && clock.now() >= before);
    }
}
