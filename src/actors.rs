//! Actors around the core: each turns a message into one call of the core, and acts on its result.
//!
//! ```text
//! ingest ─► router ─► shard (one per namespace) ─► wants ─► writer
//!                       ▲          ▲  Grant ◄───────────────┤
//!                       │          └─ Outcome ◄── request ◄─┘ Body
//!                      root (supervises all; makes and retires shards through the router)
//! ```
//!
//! Messages are only ever cast, never called, and mailbox order does the rest: an outcome reaches the shard
//! before the next grant of the same object. Ractor's mailboxes are unbounded, so none of them carries data
//! that can pile up: a shard's mailbox holds at most one wake-up and one grant or outcome for each request in
//! flight, and the data waits in latest-wins maps.

pub mod drift;
pub mod events;
pub mod handle;
pub(crate) mod inbox;
pub(crate) mod leases;
pub mod messages;
pub(crate) mod root;
pub(crate) mod router;
pub(crate) mod shard;
pub(crate) mod shared_nodes;
pub(crate) mod standing;
pub mod writer;
