//! The answers of the server, request by request.
#![allow(clippy::unwrap_used, reason = "all of this is tests")]

mod access;
mod client;
mod collector;
mod conformance;
mod deletion;
mod fault_plans;
mod fault_requests;
mod fault_sockets;
mod fault_watches;
mod fixtures;
mod kubectl;
mod library;
mod lists;
mod patches;
mod protobuf;
mod refusals;
mod replay;
mod services;
mod tables;
mod watches;
mod writes;
