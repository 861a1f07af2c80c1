//! The orders of events that leave kube-controller-manager's endpoints and endpointslice controllers (1.36) with
//! a wrong result, a loop, or needless writes, driven against this controller. Asserted are the requests that it
//! sends and the objects that are left.
//!
//! All on tokio's paused clock: `rest` is five seconds in which everything that is due happens.

mod bounds;
mod leftovers;
mod moves;
mod pods;
mod staleness;
mod topology;
mod trigger;
