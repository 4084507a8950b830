//! `sovia`: runs programs over Virtual Interfaces. For every command except `run` it executes `sovia-tools`.

// Rust's start code ignores SIGPIPE, and opens /dev/null if standard input or output is closed. Programs that `sovia
// run` executes would inherit both. So `main` here is C's.
#![cfg_attr(not(test), no_main)]

use std::env;
use std::ffi::c_int;
use std::io::Write;
use std::os::unix::process::CommandExt;

use anyhow::Context;
use clap::{Parser, Subcommand};
use sovia_cli::error_text::without_numbers;
use sovia_cli::{library, run, stack};

#[derive(Parser)]
#[command(name = "sovia", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Args),
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn main(_argc: c_int, _argv: *const *const std::ffi::c_char) -> c_int {
    stack::with_room(work)
}

fn work() -> c_int {
    let status = if env::args_os().nth(1).is_some_and(|command| command == "run") {
        match Cli::try_parse() {
            Ok(Cli { command: Command::Run(args) }) => run::run(args),
            Err(error) => Ok(run::report(&error)),
        }
    } else {
        become_tools()
    };
    // Without Rust's start code, no code flushes standard output at the end.
    let flushed = std::io::stdout().flush();
    match status {
        Ok(0) if flushed.is_err() => 1,
        Ok(status) => status,
        Err(error) => {
            eprintln!("sovia: {}", without_numbers(&format!("{error:#}")));
            1
        }
    }
}

/// Executes the program that has all commands. Returns only if that fails.
fn become_tools() -> anyhow::Result<c_int> {
    let program = library::beside("sovia-tools")?;
    let error = std::process::Command::new(&program).args(env::args_os().skip(1)).exec();
    Err(error).with_context(|| format!("cannot execute {}", program.display()))
}
