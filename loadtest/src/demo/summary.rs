//! The figures at the end, for people.

use std::{fmt, time::Duration};

use super::{
    churn::Counts,
    controller::Usage,
    visible::Latency,
    watch::{Volume, Writes},
};
use crate::oracle::{Outputs, Report};

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
        let per_write = |volume: Volume| format!("{:.2}", ratio(counts.events as f64, volume.events));
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
            table.row("slice writes", &number(slices.events), &size(slices))?;
            table.row("  events per write", &per_write(slices), "")?;
        }
        if self.published.outputs.endpoints {
            table.row("Endpoints writes", &number(endpoints.events), &size(endpoints))?;
            table.row("  events per write", &per_write(endpoints), "")?;
        }
        Ok(())
    }

    fn latency(&self, table: &mut Table<'_, '_>) -> fmt::Result {
        let Latency {
            measured,
            p50,
            p99,
            max,
            overtaken,
            unseen,
        } = &self.latency;
        table.row("latency p50", &time(*p50), "from the answer to a pod's change")?;
        table.row("        p99", &time(*p99), "to the slice event that shows it")?;
        table.row("        max", &time(*max), "")?;
        table.row("measured", &number(*measured), "once for each Service of the pod")?;
        table.row("not measured", &number(*overtaken), "overtaken by a later change")?;
        table.row("never seen", &number(*unseen), "")
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

/// A number with its thousands apart.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time with three digits or so.
pub(super) fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds >= 10.0 {
        format!("{seconds:.1} s")
    } else if seconds >= 1.0 {
        format!("{seconds:.2} s")
    } else if seconds >= 0.01 {
        format!("{:.0} ms", seconds * 1e3)
    } else if seconds >= 0.001 {
        format!("{:.1} ms", seconds * 1e3)
    } else {
        format!("{:.0} µs", seconds * 1e6)
    }
}

/// A size with one digit after the point.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_easy_to_read() {
        assert_eq!(number(0), "0");
        assert_eq!(number(999), "999");
        assert_eq!(number(1_234_567), "1,234,567");
        assert_eq!(time(Duration::from_micros(250)), "250 µs");
        assert_eq!(time(Duration::from_micros(2_340)), "2.3 ms");
        assert_eq!(time(Duration::from_millis(420)), "420 ms");
        assert_eq!(time(Duration::from_millis(2_500)), "2.50 s");
        assert_eq!(bytes(512), "0.5 KiB");
        assert_eq!(bytes(5 * 1024 * 1024), "5.0 MiB");
    }
}
