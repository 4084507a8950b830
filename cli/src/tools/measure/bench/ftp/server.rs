//! The server's end: `ftp-end FOLDER FTPD`. It starts the server for each connection like inetd, with the connection as
//! descriptors 0, 1 and 2. The server sees an account that no other process sees.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use sovia_control::env as names;

use crate::measure::bench::process::{self, WATCHDOG_SECONDS};
use crate::output::put_line;

/// The account. Its files belong to the machine's root.
pub(super) const USER: &str = "root";
pub(super) const PASSWORD: &str = "x";
/// The password, hashed by crypt(3).
const HASH: &str = "$6$sovia$TTzeR9MgXmaqjhqw91OidAXR2Q.ierp6Aq9gXQs/knrZehVvKA9MxjW1XJ/eVW3KWHEorGtSldbfMdAcxEDsl1";

/// Folder to serve, and the FTP server to run.
#[derive(clap::Args)]
pub(crate) struct Args {
    folder: PathBuf,
    ftpd: PathBuf,
    /// The address to serve at
    #[arg(long, default_value_t = Ipv4Addr::LOCALHOST)]
    at: Ipv4Addr,
    /// The server's LD_PRELOAD
    #[arg(long)]
    preload: Option<String>,
    /// The server's page of counters
    #[arg(long)]
    stats: Option<PathBuf>,
}

/// Prints its port, and serves until it is killed.
pub(crate) fn run(args: &Args) -> anyhow::Result<i32> {
    nix::unistd::alarm::set(WATCHDOG_SECONDS);
    take_accounts(&args.folder).context("cannot make an account for the server")?;
    let listener = TcpListener::bind((args.at, 0)).context("cannot listen")?;
    put_line!("{}", listener.local_addr()?.port())?;
    loop {
        let (connection, _) = listener.accept()?;
        serve(args, connection)?;
    }
}

/// Puts the folder's account files in the place of the machine's, in a new mount namespace.
fn take_accounts(folder: &Path) -> anyhow::Result<()> {
    let shown = folder.display();
    for (name, text) in [
        ("passwd", format!("{USER}:x:0:0::{shown}:/bin/sh\n")),
        ("shadow", format!("{USER}:{HASH}:19000:0:99999:7:::\n")),
        ("group", format!("{USER}:x:0:\n")),
        ("ftpusers", String::new()),
    ] {
        fs::write(folder.join(name), text)?;
    }
    const NONE: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?;
    for name in ["passwd", "shadow", "group", "ftpusers"] {
        let place = Path::new("/etc").join(name);
        // A missing file need not be replaced.
        if place.exists() {
            mount(Some(&folder.join(name)), &place, NONE, MsFlags::MS_BIND, NONE)?;
        }
    }
    Ok(())
}

fn serve(args: &Args, connection: TcpStream) -> anyhow::Result<()> {
    let connection = OwnedFd::from(connection);
    let mut command = Command::new(&args.ftpd);
    command.stdin(connection.try_clone()?).stdout(connection.try_clone()?).stderr(connection);
    command.envs(args.preload.iter().map(|preload| ("LD_PRELOAD", preload)));
    command.envs(args.stats.iter().map(|stats| (names::STATS, stats)));
    process::ends_with_its_starter(&mut command);
    let mut child =
        command.spawn().with_context(|| format!("cannot start {}", args.ftpd.display()))?;
    child.wait()?;
    Ok(())
}
