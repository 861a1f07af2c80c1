//! The answers of the server, request by request.
#![allow(clippy::unwrap_used, reason = "all of this is tests")]

mod access;
mod applies;
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
mod openapi;
mod parts;
mod patches;
mod protobuf;
mod protobuf_bodies;
mod protobuf_faults;
mod refusals;
mod replay;
mod services;
mod stored;
mod tables;
mod watches;
mod wire;
mod writes;
