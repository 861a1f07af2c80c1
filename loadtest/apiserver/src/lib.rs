//! An in-memory Kubernetes API server.
//!
//! It keeps objects of the kinds that endpoints follow from, and answers for them as a real kube-apiserver does: one global resource version, optimistic concurrency, list pages from
//! one snapshot, watches replayed from a bounded history, graceful deletion, finalizers, defaulting and validation. There
//! is no etcd and no admission chain; RBAC applies if it is configured ([`Access`]).
//!
//! ```text
//!  TCP (server.rs) ─┐
//!                   ├─> ApiService ─> pass.rs (the one gate) ─> route, verbs ─> registry (defaults, checks)
//!  kube::Client ────┘                                              │                 │
//!                                                        watch <─ store (objects, history, versions)
//! ```
//!
//! The differences between kinds are data: rows of the table in `catalog.rs`.
//!
//! A [`FaultPlan`] makes it fail: between the gate and the verbs, and within watches ([`ApiServer::set_faults`]).
//!
//! Time is tokio's and chance is seeded, so that on a paused clock a whole run replays byte for byte.
#![forbid(unsafe_code)]

mod accept;
mod access;
mod body;
mod catalog;
mod cause;
mod clock;
mod config;
mod delete;
mod discovery;
mod faults;
mod fixtures;
mod gc;
mod journal;
mod json;
mod kinds;
mod kubectl;
mod list;
mod listener;
mod managed;
mod object;
mod parts;
mod pass;
mod patches;
mod protobuf;
mod query;
mod registry;
mod reply;
mod resources;
mod route;
mod schema;
mod seed;
mod selector;
#[cfg(feature = "server")]
mod server;
mod status;
mod store;
mod validate;
mod watch;
mod write;
mod yaml;

pub use self::access::{Access, AccessError};
pub use self::body::ResponseBody;
pub use self::config::Config;
pub use self::faults::{
    After, Ending, ErrorEvent, Failure, Fault, FaultPlan, FaultRecord, Latency, Matcher, Over, Rule, Stage,
    Verb, Verbs, WatchFault,
};
pub use self::journal::JournalEntry;
pub use self::json::without_nulls;
pub use self::listener::Arrival;
pub use self::pass::{ApiServer, ApiService, RequestRecord};
pub use self::protobuf::{event_of, object_of, split_events};
pub use self::resources::{Protobuf, Resources};
pub use self::seed::LoadError;
#[cfg(feature = "server")]
pub use self::server::{Handle, start};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
