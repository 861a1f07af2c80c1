//! Counts of what a generator did.

use crate::observe::latencies::Latencies;
use crate::run::script::Operation;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many refusals are kept to be shown.
const SHOWN_FAILURES: usize = 3;

/// Counts of what was done, which all tasks share.
pub(in crate::run) struct Tally {
    pub(super) made: AtomicU64,
    failed: AtomicU64,
    failures: Mutex<Vec<String>>,
    pub(super) operations: Mutex<Operations>,
    /// From when a change was due until it was sent.
    pub(in crate::run) lag: Mutex<Latencies>,
}

/// Operations, each counted once however many requests it took.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::run) struct Operations {
    pub(in crate::run) flips: u64,
    pub(in crate::run) replacements: u64,
    pub(in crate::run) scalings: u64,
    pub(in crate::run) edits: u64,
    /// Sandboxes, from their making to their end.
    pub(in crate::run) claims: u64,
}

// === impl Operations ===

impl Operations {
    pub(in crate::run) fn all(&self) -> u64 {
        self.flips + self.replacements + self.scalings + self.edits + self.claims
    }

    pub(super) fn count(&mut self, operation: &Operation) {
        *match operation {
            Operation::Flip(_) => &mut self.flips,
            Operation::Replace(_) => &mut self.replacements,
            Operation::Start { .. } | Operation::Shrink(_) | Operation::End(_) | Operation::Empty { .. } => {
                &mut self.scalings
            }
            Operation::Service(..) => &mut self.edits,
            Operation::Claim(_) => &mut self.claims,
            Operation::Silence(_) => return,
        } += 1;
    }
}

// === impl Tally ===

impl Tally {
    pub(super) fn new() -> Self {
        Self {
            made: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            failures: Mutex::default(),
            operations: Mutex::default(),
            lag: Mutex::new(Latencies::new()),
        }
    }

    pub(in crate::run) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    pub(in crate::run) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    pub(in crate::run) fn operations(&self) -> Operations {
        *self.operations.lock()
    }

    /// The first refusals.
    pub(in crate::run) fn failures(&self) -> Vec<String> {
        self.failures.lock().clone()
    }

    pub(super) fn note_failure(&self, error: &anyhow::Error) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let mut failures = self.failures.lock();
        if failures.len() < SHOWN_FAILURES {
            failures.push(format!("{error:#}"));
        }
    }
}
