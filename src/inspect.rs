//! Looking at a cluster without writing to it: pure functions from facts to findings, and from findings to text.
//!
//! What should be is worked out by [`crate::core`], as the controller does it after a start: an object is out of
//! sync exactly if the controller would send a request for it. [`census`] says for which it would;
//! [`differences`] puts the reason into words; [`findings`] is what `endpointd audit` reports, [`explain`] what
//! `endpointd explain` does. Nothing here reads from a server or from a clock.

pub(crate) mod census;
pub(crate) mod differences;
pub mod explain;
pub mod findings;
mod text;
