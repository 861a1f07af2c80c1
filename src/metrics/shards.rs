//! Metrics of all shards together: each shard adds and removes its part.

use super::catalogue::{Cluster, Mirrored, Published, Upstream};
use crate::core::hints::HintMode;
use crate::core::namespace::{MirrorSync, MirrorTotals, NamespaceState, Sizes, SyncReport, Totals};
use metrics::Histogram;
use std::sync::Arc;
use std::time::Duration;

/// Metrics shared by all shards.
#[derive(Debug)]
pub(crate) struct ShardMetrics {
    cluster: Cluster,
    published: Published,
    upstream: Upstream,
    /// By mode of hints: none, Auto, same zone, same node.
    changed: [Histogram; 4],
    mirrored: Mirrored,
}

impl ShardMetrics {
    fn sync(&self, sync: SyncReport) {
        self.upstream.syncs[0].increment(1);
        self.upstream.added.record(f64::from(sync.added));
        self.upstream.removed.record(f64::from(sync.removed));
        let mode = match sync.hints {
            HintMode::None => 0,
            HintMode::Auto => 1,
            HintMode::SameZone => 2,
            HintMode::SameNode => 3,
        };
        self.changed[mode].record(f64::from(sync.slices));
    }

    fn mirror_sync(&self, sync: MirrorSync, took: Duration) {
        self.mirrored.added.record(f64::from(sync.added));
        self.mirrored.updated.record(f64::from(sync.updated));
        self.mirrored.removed.record(f64::from(sync.removed));
        self.mirrored.skipped.record(f64::from(sync.skipped));
        self.mirrored.duration.record(took);
    }
}

impl Default for ShardMetrics {
    fn default() -> Self {
        let upstream = Upstream::default();
        let changed = [
            ["Disabled", ""],
            ["Auto", ""],
            ["Disabled", "PreferSameZone"],
            ["Disabled", "PreferSameNode"],
        ];
        Self {
            cluster: Cluster::default(),
            published: Published::default(),
            changed: changed.map(|labels| (upstream.changed)(&labels)),
            upstream,
            mirrored: Mirrored::default(),
        }
    }
}

/// One shard's part of the sums. Dropping it removes the part.
#[derive(Debug)]
pub(crate) struct ShardPart {
    metrics: Arc<ShardMetrics>,
    /// What this shard has added to each gauge.
    parts: [usize; 12],
}

impl ShardPart {
    /// Adds a shard that knows nothing yet.
    pub(crate) fn new(metrics: Arc<ShardMetrics>) -> Self {
        metrics.cluster.shards.increment(1.0);
        let parts = [0; 12];
        Self { metrics, parts }
    }

    /// Updates the part after the shard has handled a message, which took so long.
    pub(crate) fn update(&mut self, core: &mut NamespaceState, took: Duration) {
        for sync in core.take_syncs() {
            self.metrics.sync(sync);
        }
        for sync in core.take_mirror_syncs() {
            self.metrics.mirror_sync(sync, took);
        }
        for (counter, changes) in self.metrics.published.contested.iter().zip(core.take_contested()) {
            counter.increment(changes);
        }
        self.set(core.sizes(), core.totals(), core.mirror_totals());
    }

    fn set(&mut self, sizes: Sizes, totals: Totals, mirrors: MirrorTotals) {
        let ShardMetrics {
            cluster,
            published,
            upstream,
            mirrored,
            ..
        } = &*self.metrics;
        let gauges = [
            (&cluster.pods, sizes.pods),
            (&cluster.label_sets, sizes.label_sets),
            (&upstream.endpoints, totals.endpoints),
            (&upstream.slices, totals.slices),
            (&upstream.desired_slices, totals.desired_slices),
            (&upstream.services[0], totals.same_zone),
            (&upstream.services[1], totals.same_node),
            (&published.custom[0], totals.annotated),
            (&published.custom[1], totals.frozen),
            (&mirrored.endpoints, mirrors.endpoints),
            (&mirrored.slices, mirrors.slices),
            (&mirrored.desired_slices, mirrors.desired_slices),
        ];
        for ((gauge, new), old) in gauges.into_iter().zip(&mut self.parts) {
            if *old != new {
                gauge.increment(new as f64 - *old as f64);
                *old = new;
            }
        }
    }
}

impl Drop for ShardPart {
    fn drop(&mut self) {
        self.set(Sizes::default(), Totals::default(), MirrorTotals::default());
        self.metrics.cluster.shards.decrement(1.0);
    }
}
