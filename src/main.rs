#![forbid(unsafe_code)]
//! The `endpointd` program.

use mimalloc::MiMalloc;
use std::process::ExitCode;

/// The state is many small objects that come and go for months: the C libraries' allocators fragment there,
/// and musl's is slow besides.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    endpointd::main_from(std::env::args_os())
}
