#![forbid(unsafe_code)]
//! Load, demonstration and verification of endpointd, or of any controller that publishes
//! `EndpointSlices` and Endpoints objects, against an API server in memory.
//!
//! ```text
//!  run, demo ──► memory-apiserver (in this process), or any cluster ◄──► controller (a process of its
//!   │  fill, churn           │                                        own: its CPU time and memory are read)
//!   │                        ▼
//!   ├── output watch: when did each change become visible, how much was written for it
//!   ├── watchers: simulated kube-proxies, if wanted; when did each change reach all of them
//!   └── oracle: what should be published, worked out from nothing, compared with what is
//! ```

mod api;
pub mod chaos;
pub mod clean;
pub mod cli;
mod controller;
mod figures;
mod http2;
mod names;
mod objects;
mod observe;
pub mod oracle;
mod parse;
mod play;
mod process;
mod progress;
pub mod real;
pub mod record;
pub mod report;
pub mod run;
pub mod serve;
mod settle;
mod target;
mod wait;
mod watchers;
