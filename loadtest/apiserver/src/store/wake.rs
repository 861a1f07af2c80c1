//! Tells the watches of a kind that there is more, in the order in which they began to wait, so that a run can be
//! replayed. (tokio's `watch` wakes its receivers in a random order.)

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;

/// The side that tells.
#[derive(Debug, Default)]
pub(super) struct Wake(Arc<Rounds>);

/// How often the side that waits was told.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    count: AtomicU64,
    notify: Notify,
}

/// The side that waits.
#[derive(Debug)]
pub(crate) struct Woken {
    rounds: Arc<Rounds>,
    seen: u64,
}

impl Rounds {
    pub(super) fn wake(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.notify.notify_waiters();
    }
}

impl Wake {
    pub(super) fn rounds(&self) -> &Arc<Rounds> {
        &self.0
    }

    pub(super) fn subscribe(&self) -> Woken {
        Woken {
            rounds: self.0.clone(),
            seen: self.0.count.load(Ordering::Acquire),
        }
    }
}

impl Woken {
    /// Marks what was told until now as known.
    pub(crate) fn mark_unchanged(&mut self) {
        self.seen = self.rounds.count.load(Ordering::Acquire);
    }

    /// Waits until there is more than is known.
    pub(crate) async fn changed(&mut self) {
        loop {
            // It is told what happens from here on, though it is not polled yet.
            let told = self.rounds.notify.notified();
            let count = self.rounds.count.load(Ordering::Acquire);
            if count != self.seen {
                self.seen = count;
                return;
            }
            told.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn they_are_told_in_the_order_in_which_they_wait() {
        let wake = Wake::default();
        let order = Arc::new(parking_lot::Mutex::new(Vec::new()));
        for number in 0..20 {
            let (mut woken, order) = (wake.subscribe(), order.clone());
            tokio::spawn(async move {
                woken.changed().await;
                order.lock().push(number);
            });
        }
        tokio::task::yield_now().await;
        wake.rounds().wake();
        tokio::task::yield_now().await;
        assert_eq!(*order.lock(), (0..20).collect::<Vec<_>>());
    }
}
