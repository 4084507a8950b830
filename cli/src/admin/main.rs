//! `sovia-admin`: what `sovia doctor`, `sovia enable` and `sovia disable` become.

mod doctor;
mod enable;
mod unit;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use sovia_cli::{about, definition};

#[derive(Parser)]
#[command(name = "sovia", bin_name = "sovia", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(about = about::DOCTOR)]
    Doctor(doctor::Args),
    #[command(about = about::ENABLE)]
    Enable(enable::EnableArgs),
    #[command(about = about::DISABLE)]
    Disable(enable::DisableArgs),
}

fn main() -> ExitCode {
    sovia_cli::stack::with_room(work)
}

fn work() -> ExitCode {
    if definition::print_if_asked::<Cli>() {
        return ExitCode::SUCCESS;
    }
    let result = match Cli::parse().command {
        Command::Doctor(args) => match doctor::doctor(&args) {
            Ok(true) => Ok(()),
            Ok(false) => return ExitCode::FAILURE,
            Err(error) => Err(error.into()),
        },
        Command::Enable(args) => enable::enable(&args),
        Command::Disable(args) => enable::disable(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sovia: {error:#}");
            ExitCode::FAILURE
        }
    }
}
