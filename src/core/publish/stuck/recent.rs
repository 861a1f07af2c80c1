//! Requests that have not been out for long.

use crate::core::hash::{Hashed, HashedMap};
use crate::core::object::ObjectKey;
use crate::core::publish::promptness::Promptness;
use std::collections::VecDeque;
use std::time::Duration;

/// The time that a shard has for building a request.
const BUILDS: Duration = Duration::from_secs(1);

/// The beginning of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Since {
    /// It is being built since it was granted.
    Granted(Duration),
    /// It was sent then.
    Sent(Duration),
}

/// A request, and how promptly the writes of its namespace were answered when it was granted.
#[derive(Clone, Copy, Debug)]
struct RecentRequest {
    since: Since,
    promptness: Promptness,
}

/// A request that has been out for long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LongRequest {
    /// The object.
    pub(super) key: Hashed<ObjectKey>,
    /// When it was sent, or granted if it was not sent.
    pub(super) sent: Duration,
    /// How promptly the writes of its namespace were answered when it was granted.
    pub(super) promptness: Promptness,
}

/// Requests by the time at which they were granted or sent.
type Line = VecDeque<(Duration, Hashed<ObjectKey>)>;

/// Requests in the order of time. Owned by [`super::Stuck`].
///
/// Each write enters and leaves, so both are done without a search. A line keeps what has left until it comes up, which takes no
/// longer than the time after which a request is out for long.
#[derive(Clone, Default, Debug)]
pub(super) struct Recent {
    requests: HashedMap<ObjectKey, RecentRequest>,
    /// The number of requests by promptness.
    counts: [usize; Promptness::ALL.len()],
    granted: Line,
    sent: Line,
}

impl Recent {
    /// Adds a request that was granted. An object has one request at most.
    pub(super) fn grant(&mut self, key: &Hashed<ObjectKey>, promptness: Promptness, now: Duration) {
        debug_assert!(
            !self.requests.contains_key(key),
            "an object has one grant or request out"
        );
        let since = Since::Granted(now);
        self.requests
            .insert(key.clone(), RecentRequest { since, promptness });
        self.counts[promptness as usize] += 1;
        self.granted.push_back((now, key.clone()));
    }

    /// Records that a request was sent, which it is once.
    pub(super) fn send(&mut self, key: &Hashed<ObjectKey>, now: Duration) {
        if let Some(request) = self.requests.get_mut(key) {
            debug_assert!(
                matches!(request.since, Since::Granted(_)),
                "a request is sent once"
            );
            request.since = Since::Sent(now);
            self.sent.push_back((now, key.clone()));
            // It is not taken for one that is still being built.
            drop_left(&mut self.granted, &self.requests, Since::Granted);
        }
    }

    /// Removes a request. Returns when it was sent, or granted if it was not sent.
    pub(super) fn remove(&mut self, key: &Hashed<ObjectKey>) -> Option<Duration> {
        let (Since::Granted(at) | Since::Sent(at)) = self.take(key)?.since;
        Some(at)
    }

    /// Returns how many requests are of namespaces whose writes were answered like this when they were granted.
    pub(super) fn count(&self, promptness: Promptness) -> usize {
        self.counts[promptness as usize]
    }

    /// Takes the first request that has been out for long by now, that is for this time.
    pub(super) fn pop_long(&mut self, long: Duration, now: Duration) -> Option<LongRequest> {
        let due = |line: &Line, after: Duration| line.front().is_some_and(|(at, _)| *at + after <= now);
        let line = if due(&self.sent, long) {
            &mut self.sent
        } else if due(&self.granted, BUILDS) {
            &mut self.granted
        } else {
            return None;
        };
        let (sent, key) = line.pop_front()?;
        let promptness = self.take(&key)?.promptness;
        Some(LongRequest {
            key,
            sent,
            promptness,
        })
    }

    /// Returns when the next request will have been out for long, that is for this time.
    pub(super) fn next(&self, long: Duration) -> Option<Duration> {
        let first = |line: &Line, after: Duration| line.front().map(|(at, _)| *at + after);
        let times = [first(&self.sent, long), first(&self.granted, BUILDS)];
        times.into_iter().flatten().min()
    }

    fn take(&mut self, key: &Hashed<ObjectKey>) -> Option<RecentRequest> {
        let request = self.requests.remove(key)?;
        self.counts[request.promptness as usize] -= 1;
        match request.since {
            Since::Granted(_) => drop_left(&mut self.granted, &self.requests, Since::Granted),
            Since::Sent(_) => drop_left(&mut self.sent, &self.requests, Since::Sent),
        }
        Some(request)
    }
}

/// Drops what has left from the beginning of a line.
fn drop_left(line: &mut Line, requests: &HashedMap<ObjectKey, RecentRequest>, since: fn(Duration) -> Since) {
    let has_left = |at: Duration, key: &Hashed<ObjectKey>| {
        requests.get(key).is_none_or(|request| request.since != since(at))
    };
    while let Some((at, key)) = line.front()
        && has_left(*at, key)
    {
        line.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::object::ObjectName;

    const MS: Duration = Duration::from_millis(1);

    fn key(name: &str) -> Hashed<ObjectKey> {
        ObjectKey::hashed("n", ObjectName::slice(name.into()))
    }

    /// Takes the next one at a time at which ten milliseconds are long.
    fn pop(recent: &mut Recent, now: Duration) -> Option<(Hashed<ObjectKey>, Duration)> {
        let LongRequest { key, sent, .. } = recent.pop_long(10 * MS, now)?;
        Some((key, sent))
    }

    #[test]
    fn a_request_is_out_since_it_was_sent_though_it_took_half_a_second_to_build() {
        let (mut recent, a) = (Recent::default(), key("a"));
        recent.grant(&a, Promptness::Prompt, Duration::ZERO);
        recent.send(&a, 500 * MS);
        assert_eq!(recent.next(1_000 * MS), Some(1_500 * MS));
        assert_eq!(recent.pop_long(1_000 * MS, 1_000 * MS), None);
        let request = recent.pop_long(1_000 * MS, 1_500 * MS).unwrap();
        assert_eq!((request.key, request.sent), (a, 500 * MS));
    }

    #[test]
    fn those_that_are_out_for_long_come_in_order_and_what_has_left_does_not() {
        let mut recent = Recent::default();
        let [a, b, c] = ["a", "b", "c"].map(key);
        for (key, at) in [(&a, 0), (&b, 1), (&c, 2)] {
            recent.grant(key, Promptness::Prompt, at * MS);
        }
        recent.send(&a, 5 * MS);
        recent.send(&b, 6 * MS);
        assert_eq!(recent.next(10 * MS), Some(15 * MS));
        assert_eq!(recent.remove(&a), Some(5 * MS));
        assert_eq!(recent.remove(&a), None);
        assert_eq!(recent.next(10 * MS), Some(16 * MS));
        // The same object once more.
        recent.grant(&a, Promptness::Slow, 7 * MS);
        recent.send(&a, 8 * MS);
        assert_eq!(Promptness::ALL.map(|it| recent.count(it)), [2, 0, 1]);
        assert_eq!(pop(&mut recent, 15 * MS), None);
        assert_eq!(pop(&mut recent, 18 * MS), Some((b, 6 * MS)));
        assert_eq!(pop(&mut recent, 18 * MS), Some((a, 8 * MS)));
        // One that is not built in time.
        assert_eq!(recent.next(10 * MS), Some(2 * MS + BUILDS));
        assert_eq!(pop(&mut recent, BUILDS), None);
        assert_eq!(pop(&mut recent, 2 * BUILDS), Some((c, 2 * MS)));
        assert_eq!(recent.next(10 * MS), None);
        assert_eq!(recent.counts, [0; 3]);
        assert!(recent.requests.is_empty() && recent.sent.is_empty() && recent.granted.is_empty());
    }
}
