//! Tells the election whether this process makes progress. The Lease is renewed on a thread of its own, so without
//! this check a process that is stuck would hold it for ever.
//!
//! The watchdog runs once a second, on the runtime where everything else runs, and asks all actors whether they
//! answer. Each time it finds all of them healthy, it records the time here. A runtime that is blocked records
//! nothing; one with a stuck actor records nothing either, as soon as `/livez` fails. The election reads the record
//! from its own thread.

use crate::cluster::fence::Clock;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// The time without progress after which the Lease is no longer renewed. It is longer than any turn of work should
/// take, and short enough for another process to take over before users notice.
pub const STALLED_AFTER: Duration = Duration::from_secs(30);

/// The time at which all actors were last found healthy. Clones share it.
#[derive(Clone, Debug)]
pub struct Progress {
    clock: Clock,
    stalled_after: Duration,
    noted: Arc<Mutex<Noted>>,
}

#[derive(Debug)]
struct Noted {
    well: Duration,
    /// The reason why the last check failed, if it did.
    complaint: Option<String>,
}

impl Progress {
    /// Creates a record that is healthy as of now, and stalled once no check has succeeded for longer than `stalled_after`.
    pub fn new(clock: Clock, stalled_after: Duration) -> Self {
        let noted = Noted {
            well: clock.now(),
            complaint: None,
        };
        Self {
            clock,
            stalled_after,
            noted: Arc::new(Mutex::new(noted)),
        }
    }

    /// Records the result of a check.
    pub fn note(&self, verdict: Result<(), String>) {
        let now = self.clock.now();
        let mut noted = self.noted.lock();
        match verdict {
            Ok(()) => (noted.well, noted.complaint) = (now, None),
            Err(complaint) => noted.complaint = Some(complaint),
        }
    }

    /// Returns the reason for a stall, if no check has succeeded for longer than `stalled_after`.
    pub fn stall(&self) -> Option<String> {
        let noted = self.noted.lock();
        let passed = self.clock.now().saturating_sub(noted.well);
        (passed > self.stalled_after).then(|| {
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
        let progress = Progress::new(clock, STALLED_AFTER);
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
