//! The kernel's data about a process.

use crate::text::shown;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open, openat, readlinkat};
use std::fs::File;
use std::io::Read;

/// A process. The kernel supplies all fields but `library`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Process id in this PID namespace.
    pub pid: i32,
    /// Name of the program, safe to print.
    pub program: String,
    /// Effective user id.
    pub uid: u32,
    /// Start time in ticks since the boot. Together with the id, identifies the process.
    pub began: u64,
    /// Network namespace, by inode.
    pub net: u64,
    /// Version of the library, as the process states it.
    pub library: String,
}

/// Folder of a process in `/proc`. Files opened through this folder belong to that process, even if its id has
/// passed to another process.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) pid: i32,
    at: OwnedFd,
}

/// Returns true if a process with this id exists.
pub fn exists(pid: i32) -> bool {
    Folder::open(pid).is_some()
}

impl Folder {
    pub(crate) fn open(pid: i32) -> Option<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let at = open(format!("/proc/{pid}"), flags, Mode::empty()).ok()?;
        Some(Folder { pid, at })
    }

    /// Opens a folder within this folder.
    pub(crate) fn folder(&self, name: &str) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(&self.at, name, flags, Mode::empty())
    }

    /// Reads a file within this folder.
    pub(crate) fn read(&self, name: &str) -> Option<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.at, name, flags, Mode::empty()).ok()?);
        let mut text = Vec::new();
        file.read_to_end(&mut text).ok()?;
        Some(text)
    }

    /// Returns the kernel's data about the process.
    pub(crate) fn process(&self, library: &str) -> Option<Process> {
        let comm = self.read("comm")?;
        let status = String::from_utf8_lossy(&self.read("status")?).into_owned();
        let stat = String::from_utf8_lossy(&self.read("stat")?).into_owned();
        Some(Process {
            pid: self.pid,
            program: shown(comm.strip_suffix(b"\n").unwrap_or(&comm)),
            uid: field(&status, "Uid:")?.split_ascii_whitespace().nth(1)?.parse().ok()?,
            // The program's name comes first and may contain any bytes. The last bracket ends the name.
            began: stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()?,
            net: self.net(),
            library: library.to_owned(),
        })
    }

    /// Returns the process's id in its own PID namespace.
    pub(crate) fn own_id(&self) -> Option<i32> {
        let status = String::from_utf8_lossy(&self.read("status")?).into_owned();
        field(&status, "NSpid:")?.split_ascii_whitespace().last()?.parse().ok()
    }

    fn net(&self) -> u64 {
        let link = readlinkat(self.at.as_fd(), "ns/net", Vec::new());
        let number = |text: &str| text.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok();
        link.ok().and_then(|link| number(link.to_str().ok()?)).unwrap_or(0)
    }
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name))
}
