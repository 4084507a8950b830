//! `sovia-watch`: what `sovia ps` and the other commands become that look at programs while they run.
//!
//! They read what processes under Sovia show (`sovia_board`): those of the caller's user, and all of them for root. No process
//! is stopped, slowed down or asked.

mod busy;
mod columns;
mod explain;
mod filter;
mod kernel;
mod ps;
mod stat;
mod top;
mod units;
mod users;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use sovia_cli::pipes::die_of_closed_pipes;
use sovia_cli::{about, definition};

#[derive(Parser)]
#[command(name = "sovia", bin_name = "sovia", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(about = about::PS)]
    Ps(ps::Args),
    #[command(about = about::STAT)]
    Stat(stat::Args),
    #[command(about = about::TOP)]
    Top(top::Args),
    #[command(about = about::EXPLAIN)]
    Explain(explain::Args),
}

fn main() -> ExitCode {
    sovia_cli::stack::with_room(work)
}

fn work() -> ExitCode {
    die_of_closed_pipes();
    if definition::print_if_asked::<Cli>() {
        return ExitCode::SUCCESS;
    }
    let done = match Cli::parse().command {
        Command::Ps(args) => ps::ps(&args),
        Command::Stat(args) => stat::stat(&args),
        Command::Top(args) => top::top(&args),
        Command::Explain(args) => explain::explain(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sovia: {error:#}");
            ExitCode::FAILURE
        }
    }
}
