//! Data structures that save memory: a namespace of 100,000 pods costs some 400 bytes per pod, and most of what could
//! be kept of a pod is the same for thousands of them.
//!
//! | Module | What it does | What it saves |
//! |---|---|---|
//! | [`small`] | sets and maps in one sorted piece of memory while they are small | the node of a tree or the spare places of a hash table, for each Service and group |
//! | [`slab`] | values and entries by number, in pieces | the pause in which a table of 100,000 large entries is copied whenever it grows |
//! | [`index`] | numbers by half of the hash of what they stand for, in parts | the pauses in which 100,000 names are looked up and hashed again, and 100,000 numbers are moved |
//! | [`intern`] | equal values kept once, counted, or found among the last few | the ports, hosts and label maps of all pods of a template but the first, and the ports of all Services of a kind |
//! | [`label_pairs`] | keys kept once, values once for each key | the keys of labels that are unique to each pod, which are longer than their values |
//! | [`table`] | objects by number, found by the names that they have in themselves | a second copy of each name |
//!
//! `benches/memory.rs` counts the bytes; `benches/README.md` has the figures, and the attempts that did not help.

pub(crate) mod index;
pub(crate) mod intern;
pub(in crate::core) mod label_pairs;
pub(crate) mod slab;
pub(crate) mod small;
pub(crate) mod table;
