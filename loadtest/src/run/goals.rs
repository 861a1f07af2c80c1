//! The goals of the mega profile, held against the figures of a run.

use super::phase::Profile;
use super::plan::Plan;
use crate::figures::time;
use crate::report::model::{Goal, Phase, Report};
use std::time::Duration;

const P99: Duration = Duration::from_millis(100);
const BYTES_PER_POD: u64 = 1024;
const WRITES_PER_SLICE: u64 = 2;
const REMOVAL: Duration = Duration::from_secs(5);

/// The goals of that plan; none if it has none.
pub(super) fn goals(plan: &Plan, report: &Report) -> Vec<Goal> {
    if !plan.is_mega() {
        return Vec::new();
    }
    let phase = |profile: Profile| {
        report
            .phases
            .iter()
            .find(|phase| phase.name == profile.to_string())
    };
    let mut goals = Vec::new();
    if let Some(steady) = phase(Profile::Steady) {
        goals.push(latency(
            &format!("slices, p99 at {} changes a second", plan.phases[0].rate),
            P99,
            steady.slices.p99,
        ));
    }
    if let Some(process) = report.processes.first() {
        let bytes = process.peak_rss_bytes / plan.sizes.pods as u64;
        goals.push(Goal {
            name: "peak memory of the controller for each pod".to_owned(),
            limit: format!("{BYTES_PER_POD} bytes"),
            measured: format!("{bytes} bytes"),
            met: bytes <= BYTES_PER_POD,
        });
    }
    if let Some(loss) = phase(Profile::ZoneLoss) {
        goals.push(writes(loss));
        goals.push(latency(
            "zone lost: slowest removal to be seen in slices",
            REMOVAL,
            loss.slices.max,
        ));
    }
    goals
}

fn latency(name: &str, limit: Duration, micros: u64) -> Goal {
    let measured = Duration::from_micros(micros);
    Goal {
        name: name.to_owned(),
        limit: time(limit),
        measured: time(measured),
        met: measured <= limit,
    }
}

fn writes(loss: &Phase) -> Goal {
    let each = loss.slice_writes.all() as f64 / loss.slices_written.max(1) as f64;
    Goal {
        name: "zone lost: writes of the slice that was written most".to_owned(),
        limit: WRITES_PER_SLICE.to_string(),
        measured: format!("{} ({each:.2} on average)", loss.most_writes),
        met: loss.most_writes <= WRITES_PER_SLICE,
    }
}
