//! Counts connections that processes of a run have not counted themselves: a signal or `_exit` has ended the process,
//! or it outlives the program.
//!
//! A process counts each connection in memory of its own, and adds the counts to the run's page when the connection
//! ends. The process sends the file of this memory to the collector once. So the memory outlives the process.

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

/// Largest number of kept files. Further processes are counted only as far as they count themselves on the page.
const MOST: usize = 256;

/// Largest number of messages taken between two checks for signals.
const AT_ONCE: usize = 64;
/// Largest number of descriptors in a message. Descriptors beyond the buffer's room would stay open in this process.
const DESCRIPTORS: usize = 253;

/// A file of records, and the process that sent it.
struct Records {
    file: File,
    sender: Pid,
}

/// Receives the files of the processes' records.
pub(super) struct Collector {
    socket: OwnedFd,
    kept: Vec<Records>,
}

impl Collector {
    /// Makes a socket with a new name, and writes the name to the page.
    pub(super) fn new(page: &StatsPage) -> nix::Result<Collector> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::Datagram, flags, None)?;
        // Set before the socket has a name, so that every message names its sender.
        setsockopt(&socket, sockopt::PassCred, &true)?;
        bind(socket.as_raw_fd(), &UnixAddr::new_unnamed())?;
        let name: UnixAddr = getsockname(socket.as_raw_fd())?;
        page.name_collector(name.as_abstract().unwrap_or_default());
        Ok(Collector { socket, kept: Vec::new() })
    }

    /// Takes waiting messages. Their number is bounded, because any user may send.
    pub(super) fn receive(&mut self) {
        for _ in 0..AT_ONCE {
            match self.next() {
                Ok(Some(records)) if self.has_room() => self.kept.push(records),
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }

    /// Returns the file of the next message. Returns `None` if the sender is another user's process, or if there is no
    /// file.
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
                    // SAFETY: this call has received the descriptors, and no other code owns them.
                    let files = numbers.into_iter().map(|fd| unsafe { File::from_raw_fd(fd) });
                    // Takes ownership of all descriptors before choosing one, so that the others are closed.
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

    /// Returns true if one more file can be kept. Drops files of ended processes that left no connection open.
    fn has_room(&mut self) -> bool {
        if self.kept.len() == MOST {
            self.kept.retain(|records| {
                let lives = kill(records.sender, None).is_ok();
                lives
                    || sovia_stats_page::unsettled(&records.file)
                        .is_some_and(|open| !open.is_empty())
            });
        }
        self.kept.len() < MOST
    }

    /// Adds the counts to the page that the processes have not added.
    pub(super) fn settle(mut self, page: &StatsPage) {
        // Removes the name: processes that live on must send nothing more, because another socket may get the name.
        page.name_collector(&[]);
        self.receive();
        for records in &self.kept {
            let unsettled = sovia_stats_page::unsettled(&records.file).unwrap_or_default();
            unsettled.iter().for_each(|traffic| page.add(traffic));
        }
    }
}

impl AsFd for Collector {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
