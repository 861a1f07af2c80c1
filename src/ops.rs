//! What surrounds the controller: flags, logs, health, metrics, and the order of starting and stopping.

pub mod admin;
pub mod election;
pub mod flags;
pub mod metrics;
pub mod run;
