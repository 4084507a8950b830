//! `sovia-agent`: what `sovia agent` becomes. It vouches for programs of this host that cannot see each other, or is a NIC in
//! software, which connects the programs of this host to those of another NIC.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Parser;
use sovia_agent::{Config, Faults, Nic, Voucher, speak};
use sovia_cli::{about, databases};

/// Programs that are told to trust each other's user (`sovia run --trust`) meet by themselves if they are in one network
/// namespace and may ask the kernel about its sockets. Others, as in containers that a bridge connects, meet by this agent: it
/// has the kernel show that theirs are the two ends of one connection. It runs as root, and speaks to programs as a user
/// without privileges. A container reaches it where the folder of its socket is mounted.
#[derive(Parser)]
#[command(name = "sovia agent", bin_name = "sovia agent", version, about = about::AGENT, max_term_width = 100)]
struct Cli {
    /// Where programs find it; it is made, with its folder
    #[arg(long, value_name = "PATH", default_value = sovia_agent::PATH, conflicts_with = "name")]
    socket: PathBuf,
    /// The user as whom it speaks to programs
    #[arg(long, value_name = "USER", default_value = "nobody", conflicts_with = "name")]
    user: String,
    /// The part that speaks to programs, as this program starts it
    #[arg(long, hide = true)]
    speak: bool,
    /// For tests, be a NIC in software instead: by what name programs find it, as in `sovia run --nic name=NAME`
    #[arg(long, value_name = "NAME", value_parser = name, requires_all = ["port", "peer"])]
    name: Option<String>,
    /// The Unix datagram socket on which the NIC hears the other NIC; it is made
    #[arg(long, value_name = "PATH", requires = "name")]
    port: Option<PathBuf>,
    /// That of the other NIC
    #[arg(long, value_name = "PATH", requires = "name")]
    peer: Option<PathBuf>,
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
    let error: anyhow::Error = if cli.speak {
        speak().into()
    } else if let (Some(name), Some(port), Some(peer)) = (cli.name, cli.port, cli.peer) {
        let faults = Faults {
            lost: cli.lose,
            duplicated: cli.duplicate,
            delayed: cli.delay,
            corrupted: cli.corrupt,
            seed: cli.seed,
        };
        match Nic::open(&Config { name: name.clone(), port, peer, faults }) {
            Ok(nic) => {
                // From here on programs are heard; a script that starts it waits for this line.
                println!("the NIC {name} is ready");
                nic.serve().into()
            }
            Err(error) => error.into(),
        }
    } else {
        vouch(&cli.socket, &cli.user)
    };
    eprintln!("sovia agent: {error}");
    ExitCode::FAILURE
}

/// Vouches, for as long as it can.
fn vouch(socket: &std::path::Path, user: &str) -> anyhow::Error {
    let Some((uid, gid)) = databases::user_and_group(user) else {
        return anyhow::anyhow!("there is no user `{user}`");
    };
    let mut speaker = Command::new("/proc/self/exe");
    speaker.args(["--speak"]).env_clear().current_dir("/").uid(uid).gid(gid);
    match Voucher::open(socket, speaker) {
        Ok(voucher) => {
            println!("the agent is ready at {}", socket.display());
            voucher.serve().into()
        }
        Err(error) => error.into(),
    }
}
