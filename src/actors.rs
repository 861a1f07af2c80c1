//! Actors around the core: each turns a message into one call of the core, and acts on its result.
//!
//! ```text
//! cluster::watch ─► router ─► shard (one per namespace) ── reports ──► writer ── request ──► cluster::objects
//!                             │  ▲                                      │  ▲                      │
//!                             │  └──────────── grant, outcome ◄─────────┘  └─────── answer ◄──────┘
//!                             ├─ notices ──► events: writes Kubernetes Events
//!                             └─ in a dry run, differences ──► drift: a tracker that all shards share
//!
//! root: supervises the writer and the shards, and has the router retire a shard that says that it is empty
//! ```
//!
//! The router is no actor but a table that all tasks share. It makes the shard of a namespace when something is delivered to
//! it for the first time.
//!
//! Actors only cast messages to each other, and none waits for the answer of another; mailbox order does the rest: an outcome
//! reaches the shard before the next grant of the same object. Only the module `ops` waits for actors: for the answers to pings,
//! and at the end for the writer to drain. Ractor's mailboxes are unbounded, so none of them carries data that can pile up: the
//! data waits in latest-wins maps, and a shard's mailbox holds at most one wake-up, one grant or outcome for each request in
//! flight, one timer of each kind (`Look`, `Due`, `NodesDue`; of `Due` also those that an earlier one has replaced), and the
//! pings of liveness checks, which are sent one at a time.

pub mod drift;
pub mod events;
pub mod handle;
pub(crate) mod inbox;
pub mod messages;
pub(crate) mod root;
pub(crate) mod router;
pub(crate) mod shard;
pub(crate) mod shared_nodes;
pub mod writer;
