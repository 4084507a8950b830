//! `sovia-bench`: what `sovia bench` and `sovia demo` become.
//!
//! A program of its own, so that `sovia run` starts fast: it maps and relocates nothing of this, and is
//! linked statically. This one is not, because the ends that it measures are processes of it with the
//! library in them.

mod bench;
mod demo;
mod progress;
mod table;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use sovia_cli::pipes::die_of_closed_pipes;
use sovia_cli::{about, definition, stack};

#[derive(Parser)]
#[command(name = "sovia", bin_name = "sovia", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(about = about::BENCH)]
    Bench(bench::Args),
    #[command(about = about::DEMO)]
    Demo(demo::Args),
    #[command(hide = true)]
    Endpoint(bench::EndpointArgs),
    #[command(hide = true)]
    EmpEnd(bench::EmpEndArgs),
    #[command(hide = true)]
    RpcEnd(bench::RpcEndArgs),
    #[command(hide = true)]
    FtpEnd(bench::FtpEndArgs),
}

fn main() -> ExitCode {
    stack::with_room(work)
}

fn work() -> ExitCode {
    die_of_closed_pipes();
    if definition::print_if_asked::<Cli>() {
        return ExitCode::SUCCESS;
    }
    let status = match Cli::parse().command {
        Command::Bench(args) => bench::bench(args),
        Command::Demo(args) => demo::demo(&args),
        Command::Endpoint(args) => bench::endpoint(&args),
        Command::EmpEnd(args) => bench::emp_end(&args),
        Command::RpcEnd(args) => bench::rpc_end(&args),
        Command::FtpEnd(args) => bench::ftp_end(&args),
    };
    match status {
        Ok(status) => ExitCode::from(status as u8),
        Err(error) => {
            eprintln!("sovia: {error:#}");
            ExitCode::FAILURE
        }
    }
}
