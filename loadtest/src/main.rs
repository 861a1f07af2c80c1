#![forbid(unsafe_code)]
//! The `loadtest` command.

use std::process::ExitCode;

// The controller runs in this binary too, and should run as it does in its own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    loadtest::cli::main()
}
