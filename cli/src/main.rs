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

use clap::{ArgMatches, Args, FromArgMatches, Parser, Subcommand};

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
    /// Measure Sovia against kernel TCP, Unix sockets and the hardware's limit
    Bench(Deferred<bench::Args>),
    /// Show an unmodified Redis over kernel TCP, a Unix socket and Sovia
    Demo(Deferred<demo::Args>),
    #[command(hide = true)]
    Endpoint(Deferred<bench::EndpointArgs>),
}

/// Options that are described to clap only where their command is given. A program under `sovia run` would
/// start a tenth of a millisecond later for the options of `sovia bench`.
struct Deferred<A>(A);

impl<A: Args> Args for Deferred<A> {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.defer(A::augment_args)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        command.defer(A::augment_args_for_update)
    }
}

impl<A: Args> FromArgMatches for Deferred<A> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        A::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn main(_argc: c_int, _argv: *const *const std::ffi::c_char) -> c_int {
    let status = match Cli::parse().command {
        Command::Run(args) => run::run(args),
        Command::Bench(Deferred(args)) => bench::bench(args),
        Command::Demo(Deferred(args)) => demo::demo(&args),
        Command::Endpoint(Deferred(args)) => bench::endpoint(&args),
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
