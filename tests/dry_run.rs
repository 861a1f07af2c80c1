//! A dry run beside a controller that writes, in one process, on a clock that only goes on when nothing is left to
//! do: what it asks of the server, and when it says what. That it agrees with what upstream had settled on is part
//! of `adoption`.

#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

#[path = "support/cluster.rs"]
#[allow(dead_code)] // Other tests use more of it.
mod cluster;
#[path = "support/gate.rs"]
#[allow(dead_code)] // Other tests use more of it.
mod gate;
#[path = "support/shadow.rs"]
mod shadow;
#[path = "support/world.rs"]
#[allow(dead_code)] // Other tests use more of it.
mod world;

#[path = "dry_run/bounded.rs"]
mod bounded;
#[path = "dry_run/churn.rs"]
mod churn;
#[path = "dry_run/told.rs"]
mod told;
