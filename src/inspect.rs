//! Inspects a cluster without writing to it: pure functions from facts to findings, and from findings to text.
//!
//! [`crate::core`] computes the desired state, just as it does when the controller starts: an object is out of
//! sync exactly if the controller would send a request for it. `census` finds those objects; `differences`
//! puts the reason into words; [`findings`] is the report of `endpointd audit`, and [`explain`] that of
//! `endpointd explain`. Nothing here reads from a server or from a clock.

pub(crate) mod census;
pub(crate) mod desired;
pub(crate) mod differences;
pub mod explain;
pub mod findings;
mod text;
