//! The orders of events that leave kube-controller-manager's endpoints and endpointslice controllers (1.36) with
//! a wrong result, a loop, or needless writes, driven against this controller. Asserted are the requests that it
//! sends and the objects that are left.
//!
//! All on tokio's paused clock: `rest` is five seconds in which everything that is due happens.
#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "support/cluster.rs"]
mod cluster;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "support/gate.rs"]
mod gate;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "support/world.rs"]
mod world;

#[path = "upstream/bounds.rs"]
mod bounds;
#[path = "upstream/leftovers.rs"]
mod leftovers;
#[path = "upstream/pods.rs"]
mod pods;
#[path = "upstream/staleness.rs"]
mod staleness;
#[path = "upstream/topology.rs"]
mod topology;
#[path = "upstream/trigger.rs"]
mod trigger;
