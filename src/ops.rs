//! What surrounds the controller: flags, logs, health, metrics, and the order of starting and stopping.

pub mod admin;
pub mod audit;
pub mod election;
pub mod explain;
pub mod flags;
pub mod inspect;
pub mod metrics;
pub mod progress;
pub mod run;
