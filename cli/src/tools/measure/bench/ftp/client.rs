//! The FTP clients: their commands, and their reports of a transfer.

use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use clap::ValueEnum;
use serde::Serialize;

use super::server::{PASSWORD, USER};

/// A client of FTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Client {
    Tnftp,
    InetutilsFtp,
    Curl,
}

/// Direction of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Way {
    Get,
    Put,
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "get",
            Self::Put => "put",
        })
    }
}

impl Client {
    fn name(self) -> &'static str {
        match self {
            Self::Tnftp => "tnftp",
            Self::InetutilsFtp => "inetutils-ftp",
            Self::Curl => "curl",
        }
    }

    /// Returns the client's path, if it exists.
    pub(super) fn find(self, programs: &Path) -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let installed = std::env::split_paths(&path).map(|folder| folder.join(self.name()));
        let unpacked = programs.join(self.name()).join("usr/bin").join(self.name());
        installed.chain([unpacked]).find(|file| fs::metadata(file).is_ok())
    }

    /// Returns the command that transfers a file from `from` to `to`.
    pub(super) fn command(
        self,
        program: &Path,
        way: Way,
        port: u16,
        from: &Path,
        to: &Path,
    ) -> Command {
        let mut command = Command::new(program);
        match (self, way) {
            (Self::Tnftp, _) => command.args(["-n", "-v"]),
            (Self::InetutilsFtp, _) => command.args(["-n", "-v", "-p"]),
            (Self::Curl, way) => {
                let account = format!("{USER}:{PASSWORD}");
                let times = "%{time_pretransfer} %{time_total}";
                command.args(["-sS", "-u", &account, "-w", times]);
                // With two slashes, the path begins at the root and not at the user's folder.
                let url = |path: &Path| format!("ftp://127.0.0.1:{port}/{}", path.display());
                match way {
                    Way::Get => command.arg(url(from)).arg("-o").arg(to),
                    Way::Put => command.arg("-T").arg(from).arg(url(to)),
                }
            }
        };
        command
    }

    /// Runs the command, and returns its output.
    pub(super) fn run(
        self,
        command: &mut Command,
        way: Way,
        port: u16,
        from: &Path,
        to: &Path,
    ) -> anyhow::Result<String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {self}"))?;
        let mut asks = child.stdin.take().context("cannot write to the client's input")?;
        if self != Self::Curl {
            let (from, to) = (from.display(), to.display());
            write!(
                asks,
                "open 127.0.0.1 {port}\nuser {USER} {PASSWORD}\nbinary\n{way} {from} {to}\nquit\n"
            )?;
        }
        drop(asks);
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{self} ended with {}: {said}{errors}", output.status);
        Ok(said)
    }

    /// Returns the time of the transfer from the client's output.
    pub(super) fn seconds(self, said: &str, size_bytes: u64) -> Option<f64> {
        match self {
            Self::Curl => {
                let (before, total) = said.trim().rsplit_once(' ')?;
                let seconds = |text: &str| text.parse::<f64>().ok();
                Some(seconds(total)? - seconds(before)?)
            }
            Self::Tnftp => {
                // Example: 145864380 bytes received in 00:00 (252.28 MiB/s)
                let (number, unit) = bracketed(said)?.split_once(' ')?;
                let unit: f64 = match unit {
                    "KiB/s" => 1024.0,
                    "MiB/s" => 1048576.0,
                    "GiB/s" => 1073741824.0,
                    _ => return None,
                };
                Some(size_bytes as f64 / (number.parse::<f64>().ok()? * unit))
            }
            Self::InetutilsFtp => {
                // Example: 145864380 bytes received in 0.195 seconds (715 Mbytes/s)
                let (_, rest) = summary(said)?.split_once(" in ")?;
                rest.split(' ').next()?.parse().ok()
            }
        }
    }
}

/// Returns the line about the transfer that a BSD client prints.
fn summary(said: &str) -> Option<&str> {
    said.lines()
        .rfind(|line| line.contains(" bytes received in ") || line.contains(" bytes sent in "))
}

fn bracketed(said: &str) -> Option<&str> {
    let (_, rest) = summary(said)?.split_once('(')?;
    rest.split(')').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_say_how_long_a_transfer_took() {
        let seconds = |client: Client, said: &str| client.seconds(said, 104_857_600);
        let tnftp = "226 Transfer complete.\n104857600 bytes received in 00:00 (200.00 MiB/s)\n221 Goodbye.";
        assert_eq!(seconds(Client::Tnftp, tnftp), Some(0.5));
        let inetutils = "104857600 bytes sent in 0.25 seconds (400 Mbytes/s)\n";
        assert_eq!(seconds(Client::InetutilsFtp, inetutils), Some(0.25));
        assert_eq!(seconds(Client::Curl, "0.125 0.625"), Some(0.5));
        assert_eq!(seconds(Client::Tnftp, "550 no such file"), None);
    }
}
