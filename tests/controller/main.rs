//! The controller against an API server in memory, in one process on a clock that the test owns: what it sends, what it
//! leaves on the server, and what it says, a module for each subject.

#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "../support/cluster.rs"]
mod cluster;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "../support/command.rs"]
mod command;
#[path = "../support/constant.rs"]
mod constant;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "../support/gate.rs"]
mod gate;
#[path = "../support/log.rs"]
mod log;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "../support/model.rs"]
mod model;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "../support/objects.rs"]
mod objects;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "../support/scene.rs"]
mod scene;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "../support/recorded.rs"]
mod store;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "../support/world.rs"]
mod world;

mod adoption;
mod answers;
mod audit;
mod claims;
mod conflicts;
mod custom;
mod dry_run;
mod edits;

mod endpoint_selectors;
mod events;
mod explain;
mod ingest;
mod mirroring;
mod outputs;
mod protobuf;
mod quiet;
mod restored;
mod standby;
mod traps;
mod two_writers;
mod upstream;
mod watches;
mod writer;
