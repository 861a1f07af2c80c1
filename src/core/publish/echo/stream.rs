//! Our own watch of one output, and the writes that it has to show.

use super::lateness::Lateness;
use super::stalls::Stalls;
use super::{QUIET, SILENT};
use crate::core::hash::{Hashed, HashedSet};
use crate::core::object::ObjectKey;
use crate::core::publish::promptness::Promptness;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Our own watch of one output, and the writes that it has to show. Owned by [`super::Echoes`].
#[derive(Clone, Default, Debug)]
pub(super) struct Stream {
    /// True while the watch is open.
    pub open: bool,
    /// True once the watch was open: objects of this output may be written.
    pub served: bool,
    /// True while the watch is open and tells nothing.
    pub silent: bool,
    /// True once the watch was quiet, until it shows something.
    pub quiet: bool,
    /// Everything up to this version was shown.
    pub shown: u64,
    /// When it last showed anything.
    pub moved: Duration,
    /// The length of its last gap: for how long it had shown nothing, though it had to, when it last showed anything.
    pub gap: Duration,
    /// Its own lateness.
    pub lateness: Lateness,
    /// The writes that were answered with a version and are not shown yet, by version.
    pub written: BTreeMap<(u64, u64), Place>,
    /// The versions of writes that have given their places up, and are not shown yet.
    pub given_up: BTreeSet<u64>,
    /// The writes that were answered without a version, by the order of their answers.
    pub unversioned: BTreeMap<u64, Unversioned>,
    /// Objects in flight whose deletion was shown before the answer came.
    pub gone: HashedSet<ObjectKey>,
}

/// A write that is granted and not answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct GrantedWrite {
    pub removes: bool,
    /// How promptly the writes of its namespace were answered when it was granted.
    pub promptness: Promptness,
    /// Its number among grants and answers.
    pub number: u64,
    /// The version up to which the watch had shown everything when it was granted. A write that is answered with no later version
    /// changed nothing.
    pub shown: u64,
}

/// A write that was answered with a version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub write: GrantedWrite,
    pub answered: Duration,
    /// The number of writes of the output that were answered and not shown when it was answered, itself included.
    pub unseen: usize,
}

/// A write that was answered without a version.
#[derive(Clone, Debug)]
pub(super) struct Unversioned {
    pub key: Hashed<ObjectKey>,
    pub place: Place,
    /// A version up to which it is certainly shown, if one is known.
    pub gone_at: Option<u64>,
    /// When it gives its place up.
    pub until: Duration,
}

impl Stream {
    /// Returns whether echoes are awaited here.
    pub(super) fn counts(&self) -> bool {
        self.open && !self.silent
    }

    /// Returns how many writes are answered and not shown.
    pub(super) fn unseen(&self) -> usize {
        self.written.len() + self.unversioned.len() + self.given_up.len()
    }

    /// Returns whether any write holds a place until it is shown.
    pub(super) fn awaits(&self) -> bool {
        !self.written.is_empty() || !self.unversioned.is_empty()
    }

    /// Returns when the write that has waited longest was answered.
    pub(super) fn oldest(&self) -> Option<Duration> {
        // Others prove nothing: their events may never come.
        self.written.values().next().map(|place| place.answered)
    }

    /// Returns how long the watch may show nothing, though it has to, before it is quiet. On a server that is busy with one event
    /// for longer than [`QUIET`], the gaps are longer than that without any fault of the watch.
    pub(super) fn quiet_after(&self) -> Duration {
        QUIET.max(self.gap * 2).min(SILENT)
    }

    /// Records that the watch shows something that arrived at `at`.
    pub(super) fn moves(&mut self, at: Duration, stalls: &Stalls) {
        if let Some(oldest) = self.oldest() {
            self.gap = stalls.without(oldest.max(self.moved), at);
        }
        (self.silent, self.quiet) = (false, false);
        self.moved = self.moved.max(at);
    }

    /// Returns how long it takes until the watch counts as quiet, if it shows nothing before.
    pub(super) fn quiet_in(&self, now: Duration, stalls: &Stalls) -> Option<Duration> {
        let since = self.oldest()?.max(self.moved);
        Some(self.quiet_after().saturating_sub(stalls.without(since, now)))
    }

    /// Returns whether the watch has shown nothing for long, though it had to.
    pub(super) fn is_quiet(&self, now: Duration, stalls: &Stalls) -> bool {
        self.quiet || self.quiet_in(now, stalls) == Some(Duration::ZERO)
    }

    /// Removes all writes, and returns them.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = Place> + use<> {
        self.gone.clear();
        self.given_up.clear();
        let written = std::mem::take(&mut self.written).into_values();
        let unversioned = std::mem::take(&mut self.unversioned).into_values();
        written.chain(unversioned.map(|this| this.place))
    }
}
