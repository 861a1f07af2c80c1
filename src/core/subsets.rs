//! The subsets of an Endpoints object: which ports share which addresses.
//!
//! [`Members`] holds the pods of one Service, sorted as they are published and grouped by the ports that they
//! have; a pod comes and goes at the cost of a binary search. [`Members::publish`] makes the subsets. Its work
//! grows with the number of different port lists and with what is published (at most the limit), not with the
//! number of pods, so that a Service of 50,000 pods costs what one of 1,000 does.
//!
//! Addresses are small copyable handles, such as the place of a pod in its table: their text is needed when a
//! body is written, and not before. What the server has is brought into the same form: whoever decodes it finds
//! the pod to each address (the same UID, IP, node, hostname and reference), and if there is none, the object is
//! not as it should be anyway.

mod layout;
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
/// The annotation of an Endpoints object that does not hold all addresses.
pub const ANNOTATION_OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// The value of [`ANNOTATION_OVER_CAPACITY`].
pub const TRUNCATED: &str = "truncated";

/// What stands for the address of a pod. Its order means nothing; it is for comparing sets.
pub trait Address: Copy + Ord + Hash + std::fmt::Debug {}

impl<T: Copy + Ord + Hash + std::fmt::Debug> Address for T {}

/// A port as subsets show it: name, number, protocol and application protocol.
pub trait Port: Clone + Ord + Hash + std::fmt::Debug {}

impl<T: Clone + Ord + Hash + std::fmt::Debug> Port for T {}

/// Addresses that have the same ports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subset<P, A> {
    /// Sorted where we made it. Empty only for a headless Service without ports.
    pub ports: Vec<P>,
    /// Addresses that take traffic, sorted by printed IP and then by UID where we made it.
    pub ready: Vec<A>,
    /// Addresses that do not take traffic, sorted likewise.
    pub not_ready: Vec<A>,
}

/// The subsets of an object that is to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Published<P, A> {
    /// Sorted by ports. None of them is without addresses, which the server would refuse.
    pub subsets: Vec<Subset<P, A>>,
    /// Whether addresses were left out, so that the object must say so with [`ANNOTATION_OVER_CAPACITY`].
    pub truncated: bool,
}

#[cfg(test)]
mod tests;
