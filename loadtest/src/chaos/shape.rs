//! How a seed's controller is run, drawn from the seed.

use crate::oracle;
use endpointd::actors::writer::Pacing;
use endpointd::core::namespace::Settings;
use endpointd::core::outputs;
use endpointd::core::publish::{WatchLimits, Watchers};
use endpointd::ops::run;
use fastrand::Rng;
use std::fmt;
use std::time::Duration;

/// The settings that differ from seed to seed beside the history and the faults.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) outputs: oracle::Outputs,
    pub(super) max_endpoints: usize,
    pacing: Pacing,
    deadline: Duration,
    /// For how long the history goes on.
    pub(super) history: Duration,
    /// When the controller is started anew, and how the one before ends.
    pub(super) restarts: Vec<Restart>,
    /// Whether requests are carried out although their sender has gone.
    pub(super) lingering: bool,
    /// Whether the cluster is filled before the controller starts, and without faults.
    pub(super) filled_first: bool,
}

/// The end of a controller and the start of the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Restart {
    pub(super) at: Duration,
    pub(super) kill: bool,
    /// How long there is none.
    pub(super) gap: Duration,
}

// === impl Shape ===

impl Shape {
    pub(super) fn of(seed: u64) -> Self {
        // Not the generator of the history, nor of the plan: each can change without the others.
        let mut rng = Rng::with_seed(seed ^ 0x5eed_0f5a_a9e5);
        let history = Duration::from_millis(rng.u64(50_000..110_000));
        let outputs = match rng.u32(..8) {
            0 => oracle::Outputs::SLICES,
            1 => oracle::Outputs::ENDPOINTS,
            _ => oracle::Outputs::ALL,
        };
        let mut restarts = Vec::new();
        let mut last = Duration::ZERO;
        while restarts.len() < 3 && rng.u32(..3) == 0 {
            last += history.saturating_sub(last).mul_f64(rng.f64());
            restarts.push(Restart {
                at: last,
                kill: rng.u32(..3) > 0,
                gap: Duration::from_millis(if rng.bool() { 0 } else { rng.u64(..6_000) }),
            });
        }
        let batch = |rng: &mut Rng| match rng.u32(..4) {
            0 => Duration::from_millis(rng.u64(..1_500)),
            _ => Duration::ZERO,
        };
        Self {
            outputs,
            max_endpoints: if rng.u32(..8) == 0 { 100 } else { rng.usize(3..=8) },
            pacing: Pacing {
                qps: if rng.u32(..3) == 0 {
                    f64::from(rng.u32(5..50))
                } else {
                    -1.0
                },
                burst: rng.u32(1..30),
                in_flight: rng.usize(1..=16),
                watch: WatchLimits {
                    watchers: Watchers::Fixed(rng.u32(0..3) * 100),
                    // Between two and forty slices of a hundred endpoints a second.
                    total: 13_000.0 * f64::from(rng.u32(400..8_000)),
                    each: 0.0,
                    few: 0.0,
                    places: rng.u16(2..=16),
                },
                slice_batch: batch(&mut rng),
                endpoints_batch: batch(&mut rng),
                mirrored_batch: Duration::ZERO,
            },
            deadline: Duration::from_secs(rng.u64(2..=30)),
            history,
            restarts,
            lingering: rng.u32(..3) == 0,
            filled_first: rng.bool(),
        }
    }

    /// The options of the controller's `generation`-th process.
    pub(super) fn options(&self, seed: u64, generation: u64) -> run::Options {
        run::Options {
            settings: Settings {
                max_endpoints: self.max_endpoints,
                outputs: outputs::Outputs {
                    endpoints: self.outputs.endpoints,
                    slices: self.outputs.slices,
                    mirrored: true,
                    custom: true,
                },
                max_mirrored: 1000,
                legacy_tolerate_unready: false,
                clear_managed_fields: seed % 3 == 1,
                // No process has the seed of the one before it.
                seed: seed.wrapping_add(generation),
            },
            pacing: self.pacing,
            deadline: self.deadline,
            drain: Duration::from_secs(10),
        }
    }

    pub(super) fn checks(&self) -> oracle::Options {
        oracle::Options {
            outputs: self.outputs,
            max_endpoints_per_slice: self.max_endpoints,
            // The history's edits set it, and Services are made headless and back: alone it is no reason for a write.
            headless_label: false,
            mirrored: true,
            custom: true,
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outputs = match self.outputs {
            oracle::Outputs::SLICES => "slices alone",
            oracle::Outputs::ENDPOINTS => "Endpoints alone",
            _ => "both outputs",
        };
        let filled = if self.filled_first {
            "filled first"
        } else {
            "empty at first"
        };
        write!(
            f,
            "{outputs}, at most {} endpoints in a slice, history of {:?}, {filled}, deadline {:?}, {:?}",
            self.max_endpoints, self.history, self.deadline, self.pacing
        )?;
        for Restart { at, kill, gap } in &self.restarts {
            let how = if *kill { "killed" } else { "stopped" };
            write!(f, ", {how} at {at:?} and started {gap:?} later")?;
        }
        if self.lingering {
            f.write_str(", given up requests linger")?;
        }
        Ok(())
    }
}
