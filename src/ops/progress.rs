//! Whether this process gets on with its work, as told to the election: a lease that is renewed by a thread of its
//! own would else be held for ever by a process that does nothing any more.
//!
//! The watchdog looks once a second, on the runtime where everything else runs, and asks all actors whether they
//! answer. Each time it finds all well, it notes the time here. A runtime that stands still notes nothing; one of
//! whose actors is stuck notes nothing either, as soon as `/livez` says so. The election reads the note from its own
//! thread.

use crate::cluster::fence::Clock;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// After so long without progress the lease is not renewed any more. Longer than any turn of work should last, and
/// short enough for another process to take over before people notice.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// When all was last found well. Clones are one.
#[derive(Clone, Debug)]
pub struct Progress {
    clock: Clock,
    patience: Duration,
    noted: Arc<Mutex<Noted>>,
}

#[derive(Debug)]
struct Noted {
    well: Duration,
    /// Why it was not well the last time that somebody looked.
    complaint: Option<String>,
}

impl Progress {
    /// As of now all is well. `patience` is how long it may not be.
    pub fn new(clock: Clock, patience: Duration) -> Self {
        let noted = Noted {
            well: clock.now(),
            complaint: None,
        };
        Self {
            clock,
            patience,
            noted: Arc::new(Mutex::new(noted)),
        }
    }

    /// Somebody looked, and this is what was found.
    pub fn note(&self, verdict: Result<(), String>) {
        let now = self.clock.now();
        let mut noted = self.noted.lock();
        match verdict {
            Ok(()) => (noted.well, noted.complaint) = (now, None),
            Err(complaint) => noted.complaint = Some(complaint),
        }
    }

    /// That all has not been well for too long, and why, if that is so.
    pub fn stall(&self) -> Option<String> {
        let noted = self.noted.lock();
        let passed = self.clock.now().saturating_sub(noted.well);
        (passed > self.patience).then(|| {
            let why = noted.complaint.as_deref();
            let why = why.unwrap_or("the threads that do the work do not get to anything");
            format!("no progress for {} s: {why}", passed.as_secs())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn what_is_not_well_for_too_long_is_stalled_until_it_is_well_again() {
        let now = Arc::new(AtomicU64::new(100));
        let clock = {
            let now = now.clone();
            Clock::new(move || Duration::from_secs(now.load(Ordering::Relaxed)))
        };
        let progress = Progress::new(clock, PATIENCE);
        let at = |second| {
            now.store(second, Ordering::Relaxed);
            progress.stall()
        };
        assert_eq!(at(130), None);
        let still = at(131).unwrap();
        assert!(still.starts_with("no progress for 31 s: the threads"), "{still}");
        progress.note(Ok(()));
        assert_eq!(at(161), None);
        progress.note(Err("writer: no answer for 21 s".to_owned()));
        assert_eq!(
            at(162).unwrap(),
            "no progress for 31 s: writer: no answer for 21 s"
        );
        progress.note(Ok(()));
        assert_eq!(at(163), None);
    }
}
