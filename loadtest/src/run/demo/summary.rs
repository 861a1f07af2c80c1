//! The figures at the end, as text.

use super::super::generator::Operations;
use super::super::measure::Measured;
use super::super::plan::Plan;
use crate::figures::{bytes, number, time};
use crate::oracle;
use crate::report::model::{Latency, Report};
use std::fmt;
use std::time::Duration;

/// Everything that the table shows.
pub(super) struct Summary<'a> {
    pods: usize,
    services: usize,
    report: &'a Report,
    check: &'a oracle::Report,
    operations: Operations,
}

// === impl Summary ===

impl<'a> Summary<'a> {
    pub(super) fn of(measured: &'a Measured, plan: &Plan) -> Self {
        Self {
            pods: measured.pods,
            services: plan.sizes.services,
            report: &measured.report,
            check: &measured.check,
            operations: measured.operations,
        }
    }

    fn cluster(&self, table: &mut Table<'_, '_>) -> fmt::Result {
        let check = self.check;
        let managed = format!("{} published", number(check.services as u64));
        let endpoints = format!("{} endpoints", number(check.endpoints as u64));
        table.row("pods", &number(self.pods as u64), "")?;
        table.row("services", &number(self.services as u64), &managed)?;
        table.row("slices", &number(check.slices as u64), &endpoints)?;
        table.row("Endpoints objects", &number(check.objects as u64), "")?;
        let converged_in = Duration::from_secs_f64(self.report.converge_seconds.unwrap_or_default());
        table.row(
            "first convergence",
            &time(converged_in),
            "from the controller's start",
        )
    }

    fn churn(&self, table: &mut Table<'_, '_>) -> fmt::Result {
        let (report, operations) = (self.report, self.operations);
        let made = report.changes.made;
        let churned_for = format!("in {}", time(Duration::from_secs_f64(report.seconds)));
        table.row("churn operations", &number(operations.all()), &churned_for)?;
        table.row("  readiness flips", &number(operations.flips), "")?;
        table.row(
            "  replacements",
            &number(operations.replacements),
            "of a pod by a new one",
        )?;
        table.row(
            "  scalings",
            &number(operations.scalings),
            "up or down by a few pods",
        )?;
        table.row(
            "  service edits",
            &number(operations.edits),
            "of labels, ports, selectors",
        )?;
        table.row("churn events", &number(made), "writes to pods and services")?;
        for (label, counts) in [
            ("slice writes", &report.writes.slices),
            ("Endpoints writes", &report.writes.endpoints),
        ] {
            let size = format!("{} to each watching client", bytes(counts.bytes));
            let per_write = format!("{:.2}", made as f64 / counts.all().max(1) as f64);
            table.row(label, &number(counts.all()), &size)?;
            table.row("  events per write", &per_write, "")?;
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
        } = &self.report.slices;
        let time = |micros: &u64| time(Duration::from_micros(*micros));
        table.row("latency p50", &time(p50), "from the answer to a pod's change")?;
        table.row("        p99", &time(p99), "to the slice event that shows it")?;
        table.row("        max", &time(max), "")?;
        table.row("measured", &number(*count), "once for each Service of the pod")?;
        table.row("not measured", &number(*overtaken), "overtaken by a later change")?;
        table.row("never seen", &number(*never_seen), "")
    }

    fn controller(&self, table: &mut Table<'_, '_>) -> fmt::Result {
        let process = self.report.processes.first();
        let Some(process) = process.filter(|process| process.peak_rss_bytes > 0) else {
            return table.row("controller", "unknown", "this system has no /proc");
        };
        let per_event = process.cpu_micros_per_change;
        let [churn, cold] = [process.cpu_seconds, process.cold_cpu_seconds].map(Duration::from_secs_f64);
        let share = format!("in all, {} of it for the churn", time(churn));
        let peak = format!("{} at its peak", bytes(process.peak_rss_bytes));
        table.row("controller CPU", &format!("{per_event:.0} µs"), "per churn event")?;
        table.row("", &time(churn + cold), &share)?;
        table.row("controller memory", &bytes(process.rss_bytes), &peak)
    }
}

impl fmt::Display for Summary<'_> {
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
