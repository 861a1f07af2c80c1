//! The subsets of an Endpoints object, which group addresses by the ports they share.
//!
//! [`Members`] holds the pods of one Service, sorted as they are published and grouped by their ports; adding or
//! removing a pod costs a binary search. [`Members::publish`] builds the subsets. Its cost grows with the number of
//! different port lists and with what is published (at most the limit), not with the number of pods, so that a Service
//! of 50,000 pods costs as much as one of 1,000.
//!
//! Addresses are small copyable handles, such as a pod's index in its table: their text is needed only when a body is
//! written. The server's copy is converted to the same form by finding the pod for each address (the same UID, IP,
//! node, hostname and reference); if there is none, the object differs from the desired one anyway.

mod layout;
mod many;
mod members;
mod order;
mod same;
mod truncate;

pub use members::Members;
pub use order::{PrintedIp, compare_printed};
pub use same::is_same;

use std::hash::Hash;

/// The most addresses that upstream puts into one Endpoints object.
pub const MAX_ADDRESSES: usize = 1000;
/// The annotation of an Endpoints object from which addresses were left out.
pub const ANNOTATION_OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// The value of [`ANNOTATION_OVER_CAPACITY`].
pub const TRUNCATED: &str = "truncated";

/// A handle for the address of a pod. Its order has no meaning; it is for comparing sets.
pub trait Address: Copy + Ord + Hash + std::fmt::Debug {}

impl<T: Copy + Ord + Hash + std::fmt::Debug> Address for T {}

/// A port as it appears in subsets: name, number, protocol and application protocol.
pub trait Port: Clone + Ord + Hash + std::fmt::Debug {}

impl<T: Clone + Ord + Hash + std::fmt::Debug> Port for T {}

/// Addresses that have the same ports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subset<P, A> {
    /// Sorted if built here. Empty only for a headless Service without ports.
    pub ports: Vec<P>,
    /// Addresses that take traffic, sorted by printed IP and then by UID if built here.
    pub ready: Vec<A>,
    /// Addresses that do not take traffic, sorted likewise.
    pub not_ready: Vec<A>,
}

/// The subsets of an object to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Published<P, A> {
    /// Sorted by ports. Each has at least one address, since the API server rejects subsets without any.
    pub subsets: Vec<Subset<P, A>>,
    /// True if addresses were left out, which the object must declare with [`ANNOTATION_OVER_CAPACITY`].
    pub truncated: bool,
}

#[cfg(test)]
mod tests;
