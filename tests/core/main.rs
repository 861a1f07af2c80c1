//! The pure core between a cluster and a server that are both made up by the test: over random histories, and event by
//! event.

#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "../support/model.rs"]
mod model;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "../support/ops.rs"]
mod ops;

mod copies;
mod hints;
mod lifecycle;
mod mirroring;
mod properties;
mod retries;
mod told;
mod waiting;
