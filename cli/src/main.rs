//! `sovia`: runs programs over Virtual Interfaces. What measures them is `sovia-bench`, which this program
//! becomes for `sovia bench` and `sovia demo`; for `sovia agent` it becomes `sovia-agent`, for `sovia lane` `sovia-lane`, and
//! for the commands that look at running programs `sovia-watch`.

// The standard start of a Rust program ignores SIGPIPE and opens /dev/null where standard input
// or output is closed, and what `sovia run` executes would inherit both. So `main` is C's.
#![cfg_attr(not(test), no_main)]

mod run;

use std::ffi::{OsString, c_int};
use std::io::Write;
use std::os::unix::process::CommandExt;

use anyhow::Context;
use clap::{Parser, Subcommand};
use sovia_cli::{about, definition, library, stack};

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
    #[command(about = about::BENCH)]
    Bench(Passed),
    #[command(about = about::DEMO)]
    Demo(Passed),
    #[command(about = about::AGENT)]
    Agent(Passed),
    #[command(about = about::LANE)]
    Lane(Passed),
    #[command(about = about::DOCTOR)]
    Doctor(Passed),
    #[command(about = about::ENABLE)]
    Enable(Passed),
    #[command(about = about::DISABLE)]
    Disable(Passed),
    #[command(about = about::PS)]
    Ps(Passed),
    #[command(about = about::STAT)]
    Stat(Passed),
    #[command(about = about::TOP)]
    Top(Passed),
    #[command(about = about::EXPLAIN)]
    Explain(Passed),
}

/// The arguments of a command of another program, which looks at them.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
struct Passed {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn main(_argc: c_int, _argv: *const *const std::ffi::c_char) -> c_int {
    stack::with_room(work)
}

fn work() -> c_int {
    if definition::print_if_asked::<Cli>() {
        return 0;
    }
    let status = match Cli::parse_from(arguments()).command {
        Command::Run(args) => run::run(args),
        Command::Bench(Passed { arguments }) => {
            become_another("sovia-bench", Some("bench"), arguments)
        }
        Command::Demo(Passed { arguments }) => {
            become_another("sovia-bench", Some("demo"), arguments)
        }
        Command::Agent(Passed { arguments }) => become_another("sovia-agent", None, arguments),
        Command::Lane(Passed { arguments }) => become_another("sovia-lane", None, arguments),
        Command::Doctor(Passed { arguments }) => {
            become_another("sovia-admin", Some("doctor"), arguments)
        }
        Command::Enable(Passed { arguments }) => {
            become_another("sovia-admin", Some("enable"), arguments)
        }
        Command::Disable(Passed { arguments }) => {
            become_another("sovia-admin", Some("disable"), arguments)
        }
        Command::Ps(Passed { arguments }) => become_another("sovia-watch", Some("ps"), arguments),
        Command::Stat(Passed { arguments }) => {
            become_another("sovia-watch", Some("stat"), arguments)
        }
        Command::Top(Passed { arguments }) => become_another("sovia-watch", Some("top"), arguments),
        Command::Explain(Passed { arguments }) => {
            become_another("sovia-watch", Some("explain"), arguments)
        }
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

/// The command line. `help bench` becomes `bench --help`, since clap knows no more of `bench` here than its
/// line. So for other commands of other programs.
fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<_> = std::env::args_os().collect();
    if arguments.len() == 3
        && arguments[1] == "help"
        && [
            "bench", "demo", "agent", "lane", "doctor", "enable", "disable", "ps", "stat", "top",
            "explain",
        ]
        .iter()
        .any(|other| arguments[2] == *other)
    {
        arguments.remove(1);
        arguments.push("--help".into());
    }
    arguments
}

/// Becomes a program that lies beside this one; returns only where that fails.
fn become_another(
    program: &str,
    command: Option<&str>,
    arguments: Vec<OsString>,
) -> anyhow::Result<i32> {
    let program = library::beside(program)?;
    let error = std::process::Command::new(&program).args(command).args(arguments).exec();
    Err(error).with_context(|| format!("{}", program.display()))
}
