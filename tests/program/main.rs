//! The real binary, run as its users run it: what it prints, with what it ends, and what it asks a server for.

#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "../support/cluster.rs"]
mod cluster;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "../support/command.rs"]
mod command;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "../support/http.rs"]
mod http_client;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "../support/objects.rs"]
mod objects;
#[path = "../support/process.rs"]
mod process;

mod audit_job;
mod binary;
mod cold_start;
mod command_line;
mod connecting;
mod operator_log;
mod rbac;
mod reading;
mod secrets;
mod tenant_log;
mod top;
mod upgrade;
