//! What surrounds the controller: flags, logs, metrics, and the order of starting and stopping.

pub mod election;
pub mod flags;
pub mod metrics;
pub mod run;
