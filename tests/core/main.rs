//! The pure core between a cluster and a server that are both made up by the test: over random histories, and event by
//! event.

#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "../support/model.rs"]
mod model;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "../support/ops.rs"]
mod ops;

#[allow(dead_code, reason = "shared with a benchmark that uses other parts of it")]
#[path = "../../benches/support/fanout.rs"]
mod fanout;
#[path = "../../benches/support/saturation.rs"]
mod saturation;
#[path = "../../benches/support/simulated.rs"]
mod simulated;

mod copies;
mod echoes;
mod fairness;
mod fanned_out;
mod hints;
mod lifecycle;
mod mirroring;
mod properties;
mod retries;
mod saturated;
mod tenants;
mod told;
mod waiting;
