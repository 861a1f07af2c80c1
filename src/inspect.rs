//! Inspects a cluster without writing to it: pure functions from facts to findings, and from findings to text.
//!
//! [`crate::core`] computes the desired state, just as it does when the controller starts: an object is out of
//! sync exactly if the controller would send a request for it. `examine` is the engine of `endpointd audit`, of
//! `endpointd explain` and of a dry run: it takes up what is published for a Service, and compares each object that
//! would be written, as a value, with the stored one; `differences` puts the reason into words. `lasting`
//! leaves out what a running controller is about to put right, and `problems` finds what is in sync and still amiss.
//! [`findings`] is the report of `endpointd audit`, [`explain`] that of `endpointd explain`, and [`dry_run`] that of a
//! dry run. No code here reads from a server or from a clock.

pub(crate) mod census;
mod desired;
pub(crate) mod differences;
pub mod dry_run;
pub(crate) mod examine;
pub mod explain;
pub mod findings;
pub(crate) mod lasting;
pub(crate) mod problems;
mod published;
pub(crate) mod text;
