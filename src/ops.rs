//! The process around the controller: flags, logs, health, the election, and the order of starting and stopping ([`run`]); and the
//! commands that only read.

pub mod admin;
pub mod audit;
pub mod election;
pub mod explain;
pub(crate) mod flags;
pub(crate) mod generate;
pub(crate) mod inspect;
pub(crate) mod logging;
pub(crate) mod open_files;
pub mod progress;
pub mod run;
pub(crate) mod top;
