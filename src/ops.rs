//! What surrounds the controller: flags, logs, metrics, and the order of starting and stopping.

pub mod audit;
pub mod election;
pub mod explain;
pub mod flags;
pub mod inspect;
pub mod metrics;
pub mod run;
