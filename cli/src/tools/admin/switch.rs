//! `sovia off` and `sovia on`: a file that each process under Sovia looks for.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use nix::unistd::geteuid;
use sovia_cli::switch;

use crate::output::put_line;
use crate::watch::filter::look;

/// Keep all connections on TCP until `sovia on`
///
/// Root switches Sovia off for the programs of all users. Any other user switches Sovia off only for their own
/// programs.
///
/// From then on, new connections stay on TCP. Accelerated connections go back to TCP within about a second, and lose no
/// bytes. The command then reports how many ends of connections are still accelerated.
///
/// The switch is a file, /run/sovia/off for all users or /run/user/UID/sovia-off for one user. A restart of the machine
/// removes the file. Programs in a container look for the file in the /run of the container.
#[derive(clap::Args)]
pub(crate) struct OffArgs {}

/// Accelerate connections again after `sovia off`
///
/// Root's `sovia on` cancels root's `sovia off`. Any other user cancels only their own `sovia off`.
///
/// A connection that went back to TCP is accelerated again with one of its next messages. In a program with several
/// threads, only new connections are accelerated.
#[derive(clap::Args)]
pub(crate) struct OnArgs {}

/// Number of checks for connections that fall back, and the pause between two checks.
const LOOKS: u32 = 30;
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) fn off(_: &OffArgs) -> anyhow::Result<()> {
    let path = own_switch();
    if geteuid().is_root()
        && let Some(folder) = path.parent()
        && !folder.exists()
    {
        fs::create_dir_all(folder).with_context(|| cannot("create", folder))?;
        // Processes of all users must find the file, regardless of this process's umask.
        let all = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder, all).with_context(|| cannot("set the mode of", folder))?;
    }
    fs::File::create(&path).map_err(|error| match error.kind() {
        // systemd-logind makes /run/user/UID when the user logs in.
        ErrorKind::NotFound => anyhow!(
            "{}: the user has no such folder before a login; run `sudo sovia off` for all users, or start programs without `sovia run`",
            cannot("create", &path)
        ),
        _ => anyhow::Error::new(error).context(cannot("create", &path)),
    })?;
    let mut accelerated = count_accelerated();
    for _ in 0..LOOKS {
        if accelerated.as_ref().map_or(true, |&count| count == 0) {
            break;
        }
        sleep(PAUSE);
        accelerated = count_accelerated();
    }
    let whose = if geteuid().is_root() { "all users" } else { "your own programs" };
    let left = match accelerated {
        Err(why) => format!("cannot count connections: {why:#}"),
        Ok(0) => "no connection is accelerated".to_owned(),
        Ok(1) => "one end of a connection is still accelerated (`sovia ps`)".to_owned(),
        Ok(many) => format!("{many} ends of connections are still accelerated (`sovia ps`)"),
    };
    put_line!("off for {whose}: {left}")
}

pub(crate) fn on(_: &OnArgs) -> anyhow::Result<()> {
    let path = own_switch();
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| cannot("remove", &path));
        }
        _ => {}
    }
    let all = switch::of_all();
    if all.exists() {
        bail!(
            "still off: root has switched Sovia off for all users ({}); run `sudo sovia on`",
            all.display()
        );
    }
    let whose = if geteuid().is_root() { "all users" } else { "your own programs" };
    put_line!("on for {whose}")
}

/// Returns the file by which the calling user switches off.
fn own_switch() -> PathBuf {
    match geteuid() {
        root if root.is_root() => switch::of_all().to_owned(),
        user => switch::of_user(user.as_raw()),
    }
}

fn cannot(what: &str, path: &Path) -> String {
    format!("cannot {what} {}", path.display())
}

/// Returns the number of accelerated ends of all processes that the user may see.
fn count_accelerated() -> anyhow::Result<usize> {
    Ok(look()?.connections.iter().filter(|connection| connection.is_on_vi()).count())
}
