//! The figures at the end, for people.

use std::{fmt, time::Duration};

use super::churn::Counts;
use crate::{
    controller::Usage,
    figures::{bytes, number, time},
    observe::watch::{Volume, Writes},
    oracle::{Outputs, Report},
    report::model::Latency,
};

/// Everything that the table shows.
pub(super) struct Summary {
    pub(super) pods: u64,
    pub(super) services: usize,
    /// Services that the controller publishes, their endpoints, and the objects they are in.
    pub(super) published: Published,
    pub(super) converged_in: Duration,
    pub(super) churned_for: Duration,
    pub(super) counts: Counts,
    pub(super) writes: Writes,
    pub(super) latency: Latency,
    /// Processor time of churning alone.
    pub(super) churn_cpu: Option<Duration>,
    pub(super) usage: Option<Usage>,
}

#[derive(Clone, Copy)]
pub(super) struct Published {
    services: usize,
    endpoints: usize,
    slices: usize,
    objects: usize,
    outputs: Outputs,
}

impl From<&Report> for Published {
    fn from(report: &Report) -> Self {
        Self {
            services: report.services,
            endpoints: report.endpoints,
            slices: report.slices,
            objects: report.objects,
            outputs: report.outputs,
        }
    }
}

// === impl Summary ===

impl Summary {
    fn cluster(&self, table: &mut Table<'_, '_>) -> fmt::Result {
        let Published {
            services,
            endpoints,
            slices,
            objects,
            outputs,
        } = self.published;
        let managed = format!("{} published", number(services as u64));
        let endpoints = format!("{} endpoints", number(endpoints as u64));
        table.row("pods", &number(self.pods), "")?;
        table.row("services", &number(self.services as u64), &managed)?;
        if outputs.slices {
            table.row("slices", &number(slices as u64), &endpoints)?;
        }
        if outputs.endpoints {
            table.row("Endpoints objects", &number(objects as u64), "")?;
        }
        table.row(
            "first convergence",
            &time(self.converged_in),
            "from the controller's start",
        )
    }

    fn churn(&self, table: &mut Table<'_, '_>) -> fmt::Result {
        let Self { counts, writes, .. } = self;
        let churned_for = format!("in {}", time(self.churned_for));
        let size = |volume: Volume| format!("{} to each watching client", bytes(volume.bytes));
        let per_write = |volume: Volume| format!("{:.2}", ratio(counts.events as f64, volume.events()));
        table.row("churn operations", &number(counts.operations()), &churned_for)?;
        table.row("  readiness flips", &number(counts.flips), "")?;
        table.row(
            "  replacements",
            &number(counts.replacements),
            "of a pod by a new one",
        )?;
        table.row("  scalings", &number(counts.scalings), "up or down by a few pods")?;
        table.row(
            "  service edits",
            &number(counts.edits),
            "of labels, ports, selectors",
        )?;
        table.row(
            "churn events",
            &number(counts.events),
            "writes to pods and services",
        )?;
        let Writes { slices, endpoints } = *writes;
        if self.published.outputs.slices {
            table.row("slice writes", &number(slices.events()), &size(slices))?;
            table.row("  events per write", &per_write(slices), "")?;
        }
        if self.published.outputs.endpoints {
            table.row("Endpoints writes", &number(endpoints.events()), &size(endpoints))?;
            table.row("  events per write", &per_write(endpoints), "")?;
        }
        Ok(())
    }

    fn latency(&self, table: &mut Table<'_, '_>) -> fmt::Result {
        let Latency {
            count,
            p50,
            p99,
            max,
            overtaken,
            never_seen,
            ..
        } = &self.latency;
        let time = |micros: &u64| time(Duration::from_micros(*micros));
        table.row("latency p50", &time(p50), "from the answer to a pod's change")?;
        table.row("        p99", &time(p99), "to the slice event that shows it")?;
        table.row("        max", &time(max), "")?;
        table.row("measured", &number(*count), "once for each Service of the pod")?;
        table.row("not measured", &number(*overtaken), "overtaken by a later change")?;
        table.row("never seen", &number(*never_seen), "")
    }

    fn controller(&self, table: &mut Table<'_, '_>) -> fmt::Result {
        let Some(Usage {
            cpu,
            memory,
            peak_memory,
        }) = self.usage
        else {
            return table.row("controller", "unknown", "this system has no /proc");
        };
        let churn_cpu = self.churn_cpu.unwrap_or_default();
        let per_event = ratio(churn_cpu.as_secs_f64() * 1e6, self.counts.events);
        let share = format!("in all, {} of it for the churn", time(churn_cpu));
        let peak = format!("{} at its peak", bytes(peak_memory));
        table.row("controller CPU", &format!("{per_event:.0} µs"), "per churn event")?;
        table.row("", &time(cpu), &share)?;
        table.row("controller memory", &bytes(memory), &peak)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table(f);
        self.cluster(&mut table)?;
        table.gap()?;
        self.churn(&mut table)?;
        table.gap()?;
        self.latency(&mut table)?;
        table.gap()?;
        self.controller(&mut table)
    }
}

/// Rows of a label, a figure and a note.
struct Table<'a, 'b>(&'a mut fmt::Formatter<'b>);

// === impl Table ===

impl Table<'_, '_> {
    fn row(&mut self, label: &str, figure: &str, note: &str) -> fmt::Result {
        writeln!(
            self.0,
            "  {}",
            format!("{label:<20}{figure:>12}   {note}").trim_end()
        )
    }

    fn gap(&mut self) -> fmt::Result {
        writeln!(self.0)
    }
}

fn ratio(part: f64, whole: u64) -> f64 {
    part / whole.max(1) as f64
}
