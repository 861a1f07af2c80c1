//! What the server answers, request by request.
#![allow(clippy::unwrap_used, reason = "all of this is tests")]

mod client;
mod collector;
mod conformance;
mod deletion;
mod library;
mod lists;
mod refusals;
mod replay;
mod services;
mod watches;
mod writes;
