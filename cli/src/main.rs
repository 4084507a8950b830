//! `sovia`: runs programs over Virtual Interfaces, and measures what that gives.

// The standard start of a Rust program ignores SIGPIPE and opens /dev/null where standard input
// or output is closed, and what `sovia run` executes would inherit both. So `main` is C's.
#![cfg_attr(not(test), no_main)]

mod bench;
mod demo;
mod run;
mod table;

use std::ffi::c_int;
use std::io::Write;

use clap::{Parser, Subcommand};

/// Moves the TCP streams of unmodified programs onto Virtual Interfaces in shared memory.
#[derive(Parser)]
#[command(name = "sovia", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Args),
    Bench(bench::Args),
    Demo(demo::Args),
    #[command(hide = true)]
    Endpoint(bench::EndpointArgs),
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn main(_argc: c_int, _argv: *const *const std::ffi::c_char) -> c_int {
    let status = match Cli::parse().command {
        Command::Run(args) => run::run(args),
        Command::Bench(args) => bench::bench(args),
        Command::Demo(args) => demo::demo(&args),
        Command::Endpoint(args) => bench::endpoint(&args),
    };
    // Without Rust's own start there is none of its end either.
    let flushed = std::io::stdout().flush();
    match status {
        Ok(0) if flushed.is_err() => 1,
        Ok(status) => status,
        Err(error) => {
            eprintln!("sovia: {error:#}");
            1
        }
    }
}
