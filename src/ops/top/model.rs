//! The model of a controller: what has been seen of it so far. Pure: times are arguments, counted from the start of
//! this program.

use super::exposition::Exposition;
use super::hot::HotServices;
use super::rates::{Sample, Span, is_same_process};
use crate::cluster::watch::slice_changes::SliceNews;
use crate::core::lease::Record;
use std::collections::VecDeque;
use std::time::Duration;

/// The Lease, as far as it is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum LeaseSight {
    /// It has not been read yet.
    Unread,
    /// It cannot be read, for this reason; and what was seen before, if anything was.
    Failed {
        why: String,
        before: Option<(Record, Duration)>,
    },
    /// It does not exist.
    Missing,
    /// Its record. Times of other clocks are not compared with ours.
    Seen {
        record: Record,
        /// When it was first seen like this.
        since: Duration,
        /// When it was last read. It may have changed since.
        read: Duration,
    },
}

impl LeaseSight {
    /// Takes out the record that was seen last, and since when.
    fn take_seen(&mut self) -> Option<(Record, Duration)> {
        match std::mem::replace(self, Self::Unread) {
            Self::Seen { record, since, .. } => Some((record, since)),
            Self::Failed { before, .. } => before,
            Self::Unread | Self::Missing => None,
        }
    }
}

/// Everything that has been seen.
#[derive(Debug)]
pub(super) struct Model {
    /// The URL of the metrics.
    pub(super) url: String,
    /// The Lease's namespace and name.
    pub(super) lease_name: String,
    /// The last two samples of one process, the latest at the end.
    pub(super) samples: VecDeque<Sample>,
    /// The reason why metrics cannot be read at the moment, and since when.
    pub(super) failure: Option<(String, Duration)>,
    /// Whether the latest sample is of another process than the one before.
    pub(super) restarted: bool,
    pub(super) lease: LeaseSight,
    pub(super) hot: HotServices,
    /// Since when slices are watched without a gap.
    pub(super) followed: Option<Duration>,
    /// The reason why slices are not watched at the moment.
    pub(super) watch_failure: Option<String>,
}

impl Model {
    pub(super) fn new(url: String, lease_name: String) -> Self {
        Self {
            url,
            lease_name,
            samples: VecDeque::new(),
            failure: None,
            restarted: false,
            lease: LeaseSight::Unread,
            hot: HotServices::default(),
            followed: None,
            watch_failure: None,
        }
    }

    /// Takes the outcome of a scrape.
    pub(super) fn scraped(&mut self, outcome: Result<Exposition, String>, now: Duration) {
        match outcome {
            Ok(metrics) => {
                self.failure = None;
                self.restarted = self
                    .latest()
                    .is_some_and(|latest| !is_same_process(&latest.metrics, &metrics));
                if self.restarted {
                    self.samples.clear();
                }
                self.samples.push_back(Sample { at: now, metrics });
                if self.samples.len() > 2 {
                    self.samples.pop_front();
                }
            }
            Err(why) => {
                let since = self.failure.take().map_or(now, |(_, since)| since);
                self.failure = Some((why, since));
            }
        }
    }

    /// Takes the outcome of reading the Lease.
    pub(super) fn lease_read(&mut self, outcome: Result<Option<Record>, String>, now: Duration) {
        let before = self.lease.take_seen();
        self.lease = match outcome {
            Err(why) => LeaseSight::Failed { why, before },
            Ok(None) => LeaseSight::Missing,
            Ok(Some(record)) => {
                // One that is not renewed runs out, whether reading it fails in between or not.
                let since = before.filter(|(known, _)| *known == record);
                let since = since.map_or(now, |(_, since)| since);
                LeaseSight::Seen {
                    record,
                    since,
                    read: now,
                }
            }
        };
    }

    /// Takes what the watch of slices shows.
    pub(super) fn slices(&mut self, news: SliceNews, now: Duration) {
        match news {
            SliceNews::Follows => {
                if self.watch_failure.take().is_some() {
                    // The watch missed the changes in between, so counting begins anew.
                    self.hot = HotServices::default();
                    self.followed = None;
                }
                self.followed.get_or_insert(now);
            }
            SliceNews::Changed {
                namespace,
                service,
                deleted,
            } => self.hot.changed((namespace, service), deleted, now),
            SliceNews::Broken(why) => self.watch_failure = Some(why),
        }
    }

    /// Returns the latest sample.
    pub(super) fn latest(&self) -> Option<&Sample> {
        self.samples.back()
    }

    /// Returns the time between the last two samples.
    pub(super) fn span(&self) -> Option<Span<'_>> {
        Span::between(self.samples.front()?, self.samples.back()?)
    }
}
