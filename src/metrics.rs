//! The metrics of this process: handles that are registered once, so that no name is looked up on hot paths, and the
//! exporter that serves them. Until there is an exporter they cost nothing and count nothing.
//!
//! The components that do the work hold the handles: the writer, the shards (together, each adding its part), the
//! watches, the election, the writer of Events, the API clients. [`crate::core`] knows nothing of them. All metrics are
//! lines of one table ([`catalogue`]), from which `docs/metrics.md` is made.

pub(crate) mod catalogue;
mod client;
mod process;
mod shards;
mod watches;
mod writer;

pub(crate) use client::Counted;
pub(crate) use shards::{ShardMetrics, ShardPart};
pub(crate) use watches::WatchMetrics;
pub(crate) use writer::WriterMetrics;

use self::catalogue::{Cluster, Lease, Process, Type};
use metrics::describe_gauge;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::interval;

/// How often measurements are sorted into buckets when there are no scrapes.
const UPKEEP: Duration = Duration::from_secs(5);

/// Renders the metrics for scrapes. All clones share one recorder.
#[derive(Clone)]
pub(crate) struct Exporter(Arc<Inner>);

struct Inner {
    recorder: PrometheusHandle,
    cluster: Cluster,
    lease: Lease,
    process: Process,
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}

impl Exporter {
    /// Installs the recorder on the first call. Metrics that were registered before that are not counted.
    ///
    /// # Errors
    ///
    /// Fails when this process has another recorder already.
    pub(crate) fn of_this_process() -> Result<Self, BuildError> {
        static OF_THIS_PROCESS: Mutex<Option<Exporter>> = Mutex::new(None);
        let mut known = OF_THIS_PROCESS.lock();
        if let Some(exporter) = &*known {
            return Ok(exporter.clone());
        }
        Ok(known.insert(Self::install()?).clone())
    }

    fn install() -> Result<Self, BuildError> {
        let mut builder = PrometheusBuilder::new();
        for metric in catalogue::all() {
            if let Type::Histogram((_, bounds)) = metric.kind {
                builder = builder.set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), bounds)?;
            }
        }
        let recorder = builder.install_recorder()?;
        for metric in catalogue::all() {
            // The exporter keeps help by name, whatever the type.
            describe_gauge!(metric.name, metric.help);
        }
        let process = Process::default();
        (process.build)(&[env!("CARGO_PKG_VERSION"), env!("ENDPOINTD_COMMIT")]).set(1.0);
        Ok(Self(Arc::new(Inner {
            recorder,
            cluster: Cluster::default(),
            lease: Lease::default(),
            process,
        })))
    }

    /// Renders the current values in Prometheus' format. `held` says whether this process may write.
    pub(crate) fn render(&self, held: bool) -> String {
        let inner = &*self.0;
        watches::refresh(&inner.cluster.lag);
        process::refresh(&inner.process);
        inner.lease.held.set(f64::from(u8::from(held)));
        let mut text = inner.recorder.render();
        for metric in catalogue::all().filter(|metric| metric.kind == Type::Seconds) {
            let line = |kind| format!("# TYPE {} {kind}\n", metric.name);
            text = text.replacen(&line("gauge"), &line("counter"), 1);
        }
        text
    }

    /// Keeps measurements from piling up. Never returns.
    pub(crate) async fn keep_up(&self) {
        let mut ticks = interval(UPKEEP);
        loop {
            ticks.tick().await;
            self.0.recorder.run_upkeep();
        }
    }
}
