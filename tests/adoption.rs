//! Taking over a store that somebody else has brought up to date: no write. What upstream's controllers left is
//! taken from the recorded scenarios, after every step of each; what only old clusters hold is made by hand.
#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "support/cluster.rs"]
mod cluster;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "support/gate.rs"]
mod gate;
#[path = "support/shadow.rs"]
mod shadow;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "support/world.rs"]
mod world;

#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "support/recorded.rs"]
mod store;

#[path = "adoption/odd.rs"]
mod odd;
#[path = "adoption/recorded.rs"]
mod recorded;
