//! What the server answers, request by request.
#![allow(clippy::unwrap_used, reason = "all of this is tests")]

mod client;
mod collector;
mod conformance;
mod deletion;
mod fault_plans;
mod fault_requests;
mod fault_sockets;
mod fault_watches;
mod library;
mod lists;
mod refusals;
mod replay;
mod services;
mod watches;
mod writes;
