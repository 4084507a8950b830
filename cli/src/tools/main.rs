//! `sovia-tools`: all commands of `sovia`.
//!
//! A separate program, so that `sovia run` starts fast: `sovia` is linked statically, and the kernel maps none of this
//! code for it. This program is linked dynamically, because `bench` measures processes of it with the library.

mod admin;
mod agent;
mod lane;
mod manual;
mod measure;
mod output;
mod usage;
mod watch;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use sovia_cli::error_text::without_numbers;
use sovia_cli::pipes::die_of_closed_pipes;
use sovia_cli::{run, stack};

use self::admin::{doctor, enable, switch};
use self::measure::{bench, demo};
use self::watch::{explain, ps, stat, top};

/// Moves TCP connections of unmodified programs onto Virtual Interfaces in shared memory.
#[derive(Parser)]
#[command(name = "sovia", bin_name = "sovia", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Args),
    #[command(about = "Compare Sovia with kernel TCP, Unix sockets and the hardware's limit")]
    Bench(bench::Args),
    #[command(about = "Measure an unmodified Redis over kernel TCP, a Unix socket and Sovia")]
    Demo(demo::Args),
    #[command(about = "Let programs use Sovia across network namespaces, sandboxes and hosts")]
    Agent(Box<agent::Args>),
    #[command(
        about = "Carry IP packets of a network device over Virtual Interfaces, for any program"
    )]
    Lane(lane::Args),
    #[command(about = "Report what keeps programs on TCP here, and how to change that")]
    Doctor(doctor::Args),
    #[command(about = "Make systemd units start with Sovia from now on")]
    Enable(enable::EnableArgs),
    #[command(about = "Make systemd units start without Sovia again")]
    Disable(enable::DisableArgs),
    #[command(about = "Keep all connections on TCP until `sovia on`")]
    Off(switch::OffArgs),
    #[command(about = "Accelerate connections again after `sovia off`")]
    On(switch::OnArgs),
    #[command(about = "List the connections of programs under Sovia, one per line")]
    Ps(ps::Args),
    #[command(about = "Report what programs under Sovia do in each interval")]
    Stat(stat::Args),
    #[command(about = "Watch programs and pairs of programs under Sovia, ordered by traffic")]
    Top(top::Args),
    #[command(about = "Report why connections are on TCP, and how to change that")]
    Explain(explain::Args),
    #[command(hide = true)]
    Endpoint(bench::EndpointArgs),
    #[command(hide = true)]
    EmpEnd(bench::EmpEndArgs),
    #[command(hide = true)]
    RpcEnd(bench::RpcEndArgs),
    #[command(hide = true)]
    FtpEnd(bench::FtpEndArgs),
    /// Writes manual pages and completions, for `make build`.
    #[command(hide = true)]
    Manual {
        folder: PathBuf,
    },
}

fn main() -> ExitCode {
    stack::with_room(work)
}

fn work() -> ExitCode {
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(error) if std::env::args_os().nth(1).is_some_and(|command| command == "run") => {
            return ExitCode::from(run::report(&error) as u8);
        }
        Err(error) => usage::with_suggestion(error).exit(),
    };
    let name = match command {
        Command::Agent(_) => "sovia agent",
        Command::Lane(_) => "sovia lane",
        _ => "sovia",
    };
    // SIGPIPE must not end an agent or a lane whose output has no reader, or `enable` in the middle of a change.
    if !matches!(
        command,
        Command::Agent(_) | Command::Lane(_) | Command::Enable(_) | Command::Disable(_)
    ) {
        die_of_closed_pipes();
    }
    match carry_out(command) {
        Ok(status) => ExitCode::from(status as u8),
        Err(error) => {
            let text = without_numbers(&format!("{error:#}"));
            let _ = writeln!(std::io::stderr(), "{name}: {text}");
            if usage::is_usage(&error) { ExitCode::from(usage::STATUS) } else { ExitCode::FAILURE }
        }
    }
}

/// Carries out a command, and returns the exit status.
fn carry_out(command: Command) -> anyhow::Result<i32> {
    match command {
        Command::Run(args) => return run::run(args),
        Command::Bench(args) => return bench::bench(args),
        Command::Demo(args) => return demo::demo(&args),
        Command::Endpoint(args) => return bench::endpoint(&args),
        Command::EmpEnd(args) => return bench::emp_end(&args),
        Command::RpcEnd(args) => return bench::rpc_end(&args),
        Command::FtpEnd(args) => return bench::ftp_end(&args),
        Command::Doctor(args) => return Ok(i32::from(!doctor::doctor(&args)?)),
        Command::Agent(args) => agent::agent(&args)?,
        Command::Lane(args) => lane::lane(&args)?,
        Command::Enable(args) => enable::enable(&args)?,
        Command::Disable(args) => enable::disable(&args)?,
        Command::Off(args) => switch::off(&args)?,
        Command::On(args) => switch::on(&args)?,
        Command::Ps(args) => ps::ps(&args)?,
        Command::Stat(args) => stat::stat(&args)?,
        Command::Top(args) => top::top(&args)?,
        Command::Explain(args) => explain::explain(&args)?,
        Command::Manual { folder } => manual::write(&Cli::command(), &folder)?,
    }
    Ok(0)
}
