//! The operator's tool. All of it is in the library, so that tests can use the pieces.

use std::process::ExitCode;

// Part of the sender's speed, which runs in this executable too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    bongsu_cli::main()
}
