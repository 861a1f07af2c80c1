//! Metrics of all shards together: each shard adds and removes its part.

use crate::core::hints::HintMode;
use crate::core::namespace::{MirrorSync, MirrorTotals, NamespaceState, Sizes, SyncReport, Totals};
use crate::core::object::Output;
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use std::sync::Arc;
use std::time::Duration;

/// Metrics shared by all shards.
#[derive(Debug)]
pub(crate) struct ShardMetrics {
    shards: Gauge,
    pods: Gauge,
    label_sets: Gauge,
    endpoints: Gauge,
    slices: Gauge,
    desired_slices: Gauge,
    same_zone: Gauge,
    same_node: Gauge,
    syncs: Counter,
    added: Histogram,
    removed: Histogram,
    /// By mode of hints: none, Auto, same zone, same node.
    changed: [Histogram; 4],
    mirrors: MirrorMetrics,
    /// By output, in the order of [`Output::ALL`].
    contested: [Counter; Output::ALL.len()],
    /// Services whose selector is an annotation that can be used, and one that cannot.
    annotated: Gauge,
    frozen: Gauge,
}

/// Metrics of mirrored Endpoints, as upstream's mirroring controller has them.
#[derive(Debug)]
struct MirrorMetrics {
    added: Histogram,
    updated: Histogram,
    removed: Histogram,
    skipped: Histogram,
    endpoints: Gauge,
    slices: Gauge,
    desired_slices: Gauge,
    duration: Histogram,
}

impl MirrorMetrics {
    fn new() -> Self {
        Self {
            added: histogram!("endpoint_slice_mirroring_controller_endpoints_added_per_sync"),
            updated: histogram!("endpoint_slice_mirroring_controller_endpoints_updated_per_sync"),
            removed: histogram!("endpoint_slice_mirroring_controller_endpoints_removed_per_sync"),
            skipped: histogram!("endpoint_slice_mirroring_controller_addresses_skipped_per_sync"),
            endpoints: gauge!("endpoint_slice_mirroring_controller_endpoints_desired"),
            slices: gauge!("endpoint_slice_mirroring_controller_num_endpoint_slices"),
            desired_slices: gauge!("endpoint_slice_mirroring_controller_desired_endpoint_slices"),
            duration: histogram!("endpoint_slice_mirroring_controller_endpoints_sync_duration"),
        }
    }

    fn sync(&self, sync: MirrorSync, took: Duration) {
        self.added.record(f64::from(sync.added));
        self.updated.record(f64::from(sync.updated));
        self.removed.record(f64::from(sync.removed));
        self.skipped.record(f64::from(sync.skipped));
        self.duration.record(took);
    }
}

impl ShardMetrics {
    /// Registers the metrics.
    pub(crate) fn new() -> Self {
        let distribution = |distribution: &'static str| gauge!("endpoint_slice_controller_services_count_by_traffic_distribution", "traffic_distribution" => distribution);
        let changed = |(topology, distribution): (&'static str, &'static str)| histogram!("endpoint_slice_controller_endpointslices_changed_per_sync", "topology" => topology, "traffic_distribution" => distribution);
        let labels = [
            ("Disabled", ""),
            ("Auto", ""),
            ("Disabled", "PreferSameZone"),
            ("Disabled", "PreferSameNode"),
        ];
        Self {
            shards: gauge!("endpointd_shards"),
            pods: gauge!("endpointd_pods"),
            label_sets: gauge!("endpointd_label_sets"),
            endpoints: gauge!("endpoint_slice_controller_endpoints_desired"),
            slices: gauge!("endpoint_slice_controller_num_endpoint_slices"),
            desired_slices: gauge!("endpoint_slice_controller_desired_endpoint_slices"),
            same_zone: distribution("PreferSameZone"),
            same_node: distribution("PreferSameNode"),
            syncs: counter!("endpoint_slice_controller_syncs", "result" => "success"),
            added: histogram!("endpoint_slice_controller_endpoints_added_per_sync"),
            removed: histogram!("endpoint_slice_controller_endpoints_removed_per_sync"),
            changed: labels.map(changed),
            mirrors: MirrorMetrics::new(),
            contested: Output::ALL
                .map(|output| counter!("endpointd_contested_changes_total", "output" => output.as_str())),
            annotated: gauge!("endpointd_custom_selector_services", "state" => "valid"),
            frozen: gauge!("endpointd_custom_selector_services", "state" => "invalid"),
        }
    }

    fn sync(&self, sync: SyncReport) {
        self.syncs.increment(1);
        self.added.record(f64::from(sync.added));
        self.removed.record(f64::from(sync.removed));
        let mode = match sync.hints {
            HintMode::None => 0,
            HintMode::Auto => 1,
            HintMode::SameZone => 2,
            HintMode::SameNode => 3,
        };
        self.changed[mode].record(f64::from(sync.slices));
    }
}

impl Default for ShardMetrics {
    fn default() -> Self {
        Self::new()
    }
}

/// One shard's part of the sums. Dropping it removes the part.
#[derive(Debug)]
pub(crate) struct ShardPart {
    metrics: Arc<ShardMetrics>,
    sizes: Sizes,
    totals: Totals,
    mirrors: MirrorTotals,
}

impl ShardPart {
    /// Adds a shard that knows nothing yet.
    pub(crate) fn new(metrics: Arc<ShardMetrics>) -> Self {
        metrics.shards.increment(1.0);
        Self {
            metrics,
            sizes: Sizes::default(),
            totals: Totals::default(),
            mirrors: MirrorTotals::default(),
        }
    }

    /// Updates the part after the shard has handled a message, which took so long.
    pub(crate) fn update(&mut self, core: &mut NamespaceState, took: Duration) {
        for sync in core.take_syncs() {
            self.metrics.sync(sync);
        }
        for sync in core.take_mirror_syncs() {
            self.metrics.mirrors.sync(sync, took);
        }
        for (counter, changes) in self.metrics.contested.iter().zip(core.take_contested()) {
            counter.increment(changes);
        }
        self.set(core.sizes(), core.totals(), core.mirror_totals());
    }

    fn set(&mut self, sizes: Sizes, totals: Totals, mirrors: MirrorTotals) {
        let m = &self.metrics;
        let (old_sizes, old_totals, old_mirrors) = (self.sizes, self.totals, self.mirrors);
        if (sizes, totals, mirrors) == (old_sizes, old_totals, old_mirrors) {
            return;
        }
        for (gauge, old, new) in [
            (&m.pods, old_sizes.pods, sizes.pods),
            (&m.label_sets, old_sizes.label_sets, sizes.label_sets),
            (&m.endpoints, old_totals.endpoints, totals.endpoints),
            (&m.slices, old_totals.slices, totals.slices),
            (
                &m.desired_slices,
                old_totals.desired_slices,
                totals.desired_slices,
            ),
            (&m.same_zone, old_totals.same_zone, totals.same_zone),
            (&m.same_node, old_totals.same_node, totals.same_node),
            (&m.annotated, old_totals.annotated, totals.annotated),
            (&m.frozen, old_totals.frozen, totals.frozen),
            (&m.mirrors.endpoints, old_mirrors.endpoints, mirrors.endpoints),
            (&m.mirrors.slices, old_mirrors.slices, mirrors.slices),
            (
                &m.mirrors.desired_slices,
                old_mirrors.desired_slices,
                mirrors.desired_slices,
            ),
        ] {
            if old != new {
                gauge.increment(new as f64 - old as f64);
            }
        }
        (self.sizes, self.totals, self.mirrors) = (sizes, totals, mirrors);
    }
}

impl Drop for ShardPart {
    fn drop(&mut self) {
        self.set(Sizes::default(), Totals::default(), MirrorTotals::default());
        self.metrics.shards.decrement(1.0);
    }
}
