#![forbid(unsafe_code)]
//! The `endpointd` program.

use mimalloc::MiMalloc;
use std::process::ExitCode;

/// The controller's state is many small objects that come and go for months. The C libraries' allocators fragment
/// under that load, and musl's is slow as well.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    endpointd::main_from(std::env::args_os())
}
