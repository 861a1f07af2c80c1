//! The pure part: computes the objects that the cluster should have from those that it has.
//!
//! Nothing here is async, reads a clock, talks to a server, logs or counts for Prometheus; time is an
//! argument. One [`namespace::NamespaceState`] per namespace holds everything that is known of it and turns
//! events into writes; [`publish`] decides when a write may go; [`leadership`] decides who may write, and
//! [`lists`] on what knowledge.

pub mod address;
pub mod backoff;
pub mod body;
pub(crate) mod bucket;
pub(crate) mod compact;
pub(crate) mod deadlines;
pub mod events;
pub(crate) mod excerpt;
pub mod facts;
pub(crate) mod golang;
pub mod hash;
pub mod hints;
pub mod ids;
pub mod inbox;
pub(crate) mod inputs;
pub mod labels;
pub mod leadership;
pub mod lease;
pub mod lists;
pub mod mirror;
pub mod namespace;
pub(crate) mod namespace_limiter;
pub mod nodes;
pub mod object;
pub mod outputs;
pub mod ports;
pub mod priority;
pub mod publish;
pub mod selector;
pub mod slices;
pub mod subsets;
pub mod time;
pub mod work;
