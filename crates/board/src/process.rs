//! What the kernel says of a process.

use crate::text::shown;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open, openat, readlinkat};
use std::fs::File;
use std::io::Read;

/// A process, in the kernel's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id, here.
    pub pid: i32,
    /// Its program's name, fit to be shown.
    pub program: String,
    /// Its effective user.
    pub uid: u32,
    /// When it began, in ticks since the boot: with the id, which process it is.
    pub began: u64,
    /// Its network namespace.
    pub net: u64,
    /// The library's version, as the process says.
    pub library: String,
}

/// A process's folder in /proc. What is opened in it is that process's, though its id be another's by then.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) pid: i32,
    at: OwnedFd,
}

/// Whether there is a process with that id.
pub fn exists(pid: i32) -> bool {
    Folder::open(pid).is_some()
}

impl Folder {
    pub(crate) fn open(pid: i32) -> Option<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let at = open(format!("/proc/{pid}"), flags, Mode::empty()).ok()?;
        Some(Folder { pid, at })
    }

    /// Opens a folder in it.
    pub(crate) fn folder(&self, name: &str) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(&self.at, name, flags, Mode::empty())
    }

    /// What stands in a file in it.
    pub(crate) fn read(&self, name: &str) -> Option<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.at, name, flags, Mode::empty()).ok()?);
        let mut text = Vec::new();
        file.read_to_end(&mut text).ok()?;
        Some(text)
    }

    /// What the kernel says of the process.
    pub(crate) fn process(&self, library: &str) -> Option<Process> {
        let comm = self.read("comm")?;
        let status = String::from_utf8_lossy(&self.read("status")?).into_owned();
        let stat = String::from_utf8_lossy(&self.read("stat")?).into_owned();
        Some(Process {
            pid: self.pid,
            program: shown(comm.strip_suffix(b"\n").unwrap_or(&comm)),
            uid: field(&status, "Uid:")?.split_ascii_whitespace().nth(1)?.parse().ok()?,
            // The name before it may hold anything, but not the last bracket.
            began: stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()?,
            net: self.net(),
            library: library.to_owned(),
        })
    }

    /// Its id as it calls itself, in its own PID namespace.
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
