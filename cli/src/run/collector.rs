//! Counts what processes of a run have not counted themselves: those that a signal ends, or `_exit`, and those that outlive
//! the program.
//!
//! A process counts each connection in memory of its own, which it adds to the run's page when the connection ends. It sends
//! the file of that memory here once. So the memory outlasts it.

use std::fs::File;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::sys::signal::kill;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, UnixCredentials,
    bind, getsockname, recvmsg, setsockopt, socket, sockopt,
};
use nix::unistd::{Pid, Uid};
use sovia_control::StatsPage;

/// Files that are kept at a time. What comes beyond is counted as far as it is on the page.
const MOST: usize = 256;

/// Messages that are taken in before signals are looked at again.
const AT_ONCE: usize = 64;
/// Descriptors that one message can have. The kernel would leave those open for which there is no room.
const DESCRIPTORS: usize = 253;

/// A file of records, and the process that has sent it.
struct Records {
    file: File,
    sender: Pid,
}

/// Receives the files of processes' records.
pub(super) struct Collector {
    socket: OwnedFd,
    kept: Vec<Records>,
}

impl Collector {
    /// A socket of a fresh name, which the page tells.
    pub(super) fn new(page: &StatsPage) -> nix::Result<Collector> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::Datagram, flags, None)?;
        // Before it has a name: every message says its sender.
        setsockopt(&socket, sockopt::PassCred, &true)?;
        bind(socket.as_raw_fd(), &UnixAddr::new_unnamed())?;
        let name: UnixAddr = getsockname(socket.as_raw_fd())?;
        page.name_collector(name.as_abstract().unwrap_or_default());
        Ok(Collector { socket, kept: Vec::new() })
    }

    /// Takes in what has come, up to a bound: any user may send.
    pub(super) fn receive(&mut self) {
        for _ in 0..AT_ONCE {
            match self.next() {
                Ok(Some(records)) if self.has_room() => self.kept.push(records),
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }

    /// The next message's file; `None` if it is none of this user's processes, or has none.
    fn next(&self) -> nix::Result<Option<Records>> {
        let mut byte = [0];
        let mut parts = [IoSliceMut::new(&mut byte)];
        let mut room = nix::cmsg_space!([RawFd; DESCRIPTORS], UnixCredentials);
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
        let socket = self.socket.as_raw_fd();
        let message = recvmsg::<()>(socket, &mut parts, Some(&mut room), flags)?;
        let (mut file, mut sender) = (None, None);
        for part in message.cmsgs()? {
            match part {
                ControlMessageOwned::ScmRights(numbers) => {
                    // SAFETY: this call has made the descriptors, and nothing else knows of them.
                    let files = numbers.into_iter().map(|fd| unsafe { File::from_raw_fd(fd) });
                    // All of them are owned before one is chosen.
                    file = files.collect::<Vec<File>>().pop();
                }
                ControlMessageOwned::ScmCredentials(who) => sender = Some(who),
                _ => {}
            }
        }
        let ours = [Uid::effective().as_raw(), 0];
        let sender = sender.filter(|who| ours.contains(&who.uid()));
        Ok(file.zip(sender).map(|(file, who)| Records { file, sender: Pid::from_raw(who.pid()) }))
    }

    /// Whether one more can be kept. Those of processes that have ended and left no connection open make room.
    fn has_room(&mut self) -> bool {
        if self.kept.len() == MOST {
            self.kept.retain(|records| {
                let lives = kill(records.sender, None).is_ok();
                lives || sovia_board::unsettled(&records.file).is_some_and(|open| !open.is_empty())
            });
        }
        self.kept.len() < MOST
    }

    /// Adds to the page what the processes have not.
    pub(super) fn settle(mut self, page: &StatsPage) {
        // Processes that live on send nothing more: another one may get the name.
        page.name_collector(&[]);
        self.receive();
        for records in &self.kept {
            let unsettled = sovia_board::unsettled(&records.file).unwrap_or_default();
            unsettled.iter().for_each(|traffic| page.add(traffic));
        }
    }
}

impl AsFd for Collector {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
