//! `sovia-agent`: what `sovia agent` becomes. A NIC in software, which connects the programs of this host to those of
//! another NIC.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use sovia_agent::{Config, Faults, Nic};
use sovia_cli::about;

#[derive(Parser)]
#[command(name = "sovia agent", bin_name = "sovia agent", version, about = about::AGENT, max_term_width = 100)]
struct Cli {
    /// By what name programs find it, as in `sovia run --nic name=NAME`
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: String,
    /// The Unix datagram socket on which it hears the other NIC; it is made
    #[arg(long, value_name = "PATH")]
    port: PathBuf,
    /// That of the other NIC
    #[arg(long, value_name = "PATH")]
    peer: PathBuf,
    /// Frames that get lost on their way, of a million
    #[arg(long, value_name = "N", default_value_t = 0)]
    lose: u32,
    /// Frames that arrive twice, of a million
    #[arg(long, value_name = "N", default_value_t = 0)]
    duplicate: u32,
    /// Frames that arrive after the one behind them, of a million
    #[arg(long, value_name = "N", default_value_t = 0)]
    delay: u32,
    /// Frames in which a bit changes, of a million
    #[arg(long, value_name = "N", default_value_t = 0)]
    corrupt: u32,
    /// What decides which frames those are
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

fn name(text: &str) -> Result<String, String> {
    match sovia_control::NicName::parse(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err("expected at most 32 letters, digits, `-` and `_`".into()),
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let config = Config {
        name: cli.name,
        port: cli.port,
        peer: cli.peer,
        faults: Faults {
            lost: cli.lose,
            duplicated: cli.duplicate,
            delayed: cli.delay,
            corrupted: cli.corrupt,
            seed: cli.seed,
        },
    };
    let error = match Nic::open(&config) {
        Ok(nic) => {
            // From here on programs are heard; a script that starts it waits for this line.
            println!("the NIC {} is ready", config.name);
            nic.serve()
        }
        Err(error) => error,
    };
    eprintln!("sovia agent: {error}");
    ExitCode::FAILURE
}
