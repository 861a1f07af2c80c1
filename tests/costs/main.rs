//! Costs of the core, and what they grow with: counted where they can be counted, and timed where turns are concerned.

#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

#[path = "../support/allocator.rs"]
mod allocator;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "../../benches/support/fixtures.rs"]
mod fixtures;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "../support/processor.rs"]
mod processor;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "../support/protobuf.rs"]
mod protobuf;
#[path = "../../benches/support/sandboxes.rs"]
mod sandboxes;

mod claims;
mod cost;
mod limits;
mod mirrors;
mod paused;
mod selectors;
mod tenants;
mod turns;
