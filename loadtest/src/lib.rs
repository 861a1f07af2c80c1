#![forbid(unsafe_code)]
//! Load, demonstration and verification of endpointd, or of any controller that publishes
//! `EndpointSlices` and Endpoints objects, against an API server in memory.
//!
//! ```text
//!  demo ──► memory-apiserver (in this process) ◄──► controller (a process of its own, so that its
//!   │  fills, churns │                                CPU time and memory can be read)
//!   │                ▼
//!   ├── output watch: when did each change become visible, how much was written for it
//!   └── oracle: what should be published, worked out from nothing, compared with what is
//! ```

mod api;
pub mod chaos;
pub mod clean;
pub mod cli;
mod controller;
pub mod demo;
mod figures;
mod observe;
pub mod oracle;
mod parse;
mod progress;
pub mod report;
pub mod run;
pub mod serve;
mod settle;
