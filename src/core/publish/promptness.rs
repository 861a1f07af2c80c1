//! How promptly the writes of each namespace are answered, by what became of those that were sent before. Webhooks belong to
//! namespaces, so this is the best guess of how long the next one will be out.

use crate::core::hash::IdMap;
use std::collections::VecDeque;
use std::time::Duration;

/// How promptly the writes of a namespace are answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Promptness {
    /// Its last write was answered before it was out for long, and none has been out for long or refused since.
    Prompt,
    /// Nothing is known of it, or nothing since a webhook of many namespaces has begun to hang.
    Unknown,
    /// A write was out for long, or refused, and none has been answered promptly since.
    Slow,
}

impl Promptness {
    /// The promptest first.
    pub(super) const ALL: [Self; 3] = [Self::Prompt, Self::Unknown, Self::Slow];
}

/// The number of namespaces above which it is forgotten how promptly they are answered: most of them may be gone.
const KEPT: usize = 1 << 16;
/// If requests of so many prompt namespaces come to be out for long within [`AT_ONCE`], a webhook of many namespaces has begun to
/// hang, and what was known of the others before is not relied on any more.
const SEVERAL: usize = 4;
const AT_ONCE: Duration = Duration::from_secs(1);

/// What is known of namespaces, which are named by their hashes. Owned by [`super::stuck::Stuck`].
#[derive(Clone, Default, Debug)]
pub(super) struct PromptnessByNamespace {
    /// The namespaces whose last write was answered promptly, with when it was sent.
    prompt: IdMap<u64, Duration>,
    /// The namespaces that are known to be slow, and whether they were prompt before.
    slow: IdMap<u64, bool>,
    /// When the requests of prompt namespaces were sent that have come to be out for long last.
    turned: VecDeque<Duration>,
    /// What was known of prompt namespaces before this time is not relied on.
    doubted: Duration,
}

impl PromptnessByNamespace {
    /// Records that a write, sent at this time, was answered before it was out for long.
    pub(super) fn was_prompt(&mut self, namespace: u64, sent: Duration) {
        if !self.slow.is_empty() {
            self.slow.remove(&namespace);
        }
        if self.prompt.len() >= KEPT {
            self.prompt.clear();
        }
        self.prompt.insert(namespace, sent);
    }

    /// Records that a write was refused.
    pub(super) fn was_refused(&mut self, namespace: u64) {
        self.slows_down(namespace);
    }

    /// Records that a write, sent at this time, has been out for long.
    pub(super) fn was_long(&mut self, namespace: u64, sent: Duration) {
        if !self.slows_down(namespace) {
            return;
        }
        if self.turned.len() == SEVERAL {
            self.turned.pop_front();
        }
        self.turned.push_back(sent);
        let first = self.turned.front().copied().unwrap_or_default();
        if self.turned.len() == SEVERAL && first + AT_ONCE >= sent {
            self.doubted = self.doubted.max(first);
        }
    }

    /// Records that a write, sent at this time, was out for long because of the API server. If its namespace was prompt before, it is
    /// so again.
    pub(super) fn was_not_slow(&mut self, namespace: u64, sent: Duration) {
        if self.slow.get(&namespace) == Some(&true) {
            self.was_prompt(namespace, sent);
        }
    }

    /// Records that a namespace is slow. Returns whether it was prompt.
    fn slows_down(&mut self, namespace: u64) -> bool {
        if self.slow.len() >= KEPT {
            self.slow.clear();
        }
        let was_prompt = self.prompt.remove(&namespace).is_some();
        self.slow.entry(namespace).or_insert(was_prompt);
        was_prompt
    }

    /// Returns how promptly the writes of a namespace are answered.
    pub(super) fn of(&self, namespace: u64) -> Promptness {
        match self.prompt.get(&namespace) {
            Some(sent) if *sent >= self.doubted => Promptness::Prompt,
            None if self.slow.contains_key(&namespace) => Promptness::Slow,
            _ => Promptness::Unknown,
        }
    }

    /// Returns whether the last write of a namespace was answered promptly, even if it is not relied on that the next one is.
    pub(super) fn is_known_prompt(&self, namespace: u64) -> bool {
        self.prompt.contains_key(&namespace)
    }

    /// Returns the time before which what is known of prompt namespaces is not relied on.
    pub(super) fn doubted(&self) -> Duration {
        self.doubted
    }
}
