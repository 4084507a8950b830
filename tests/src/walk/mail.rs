//! Boxes in which walkers pass each other a connection (SCM_RIGHTS).

use super::calls::{self, said};
use super::script::Walker;
use std::{ptr, slice};

/// Room for one descriptor.
const ROOM: usize = 24;

/// Ends of each walker's box: one to take descriptors, one for other walkers to put them in.
pub(super) struct Boxes(pub(super) [[i32; 2]; Walker::COUNT]);

impl Boxes {
    /// Gives a walker another descriptor of a connection.
    pub(super) fn give(&self, stream: i32, to: Walker) -> String {
        let mut room = [0u64; ROOM / 8];
        let mut byte = 0u8;
        let mut part = libc::iovec { iov_base: ptr::from_mut(&mut byte).cast(), iov_len: 1 };
        // SAFETY: the message's parts outlive the call, and there is room for one descriptor.
        said(unsafe {
            let mut message = message(&mut part, &mut room);
            let head = libc::CMSG_FIRSTHDR(&message);
            (*head).cmsg_level = libc::SOL_SOCKET;
            (*head).cmsg_type = libc::SCM_RIGHTS;
            (*head).cmsg_len = libc::CMSG_LEN(4) as usize;
            libc::CMSG_DATA(head).cast::<i32>().write_unaligned(stream);
            message.msg_controllen = libc::CMSG_SPACE(4) as usize;
            libc::sendmsg(self.0[to.0][1], &message, libc::MSG_DONTWAIT)
        })
    }

    /// Takes a descriptor that another walker has given.
    pub(super) fn take(&self, own: Walker) -> Option<i32> {
        let mut room = [0u64; ROOM / 8];
        let mut byte = 0u8;
        let mut part = libc::iovec { iov_base: ptr::from_mut(&mut byte).cast(), iov_len: 1 };
        // SAFETY: as in `give`.
        unsafe {
            let mut message = message(&mut part, &mut room);
            let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
            let received = libc::recvmsg(self.0[own.0][0], &mut message, flags);
            let head = libc::CMSG_FIRSTHDR(&message);
            if received != 1 || head.is_null() {
                return None;
            }
            Some(libc::CMSG_DATA(head).cast::<i32>().read_unaligned())
        }
    }
}

fn message(part: &mut libc::iovec, room: &mut [u64; ROOM / 8]) -> libc::msghdr {
    let mut message = calls::message(slice::from_mut(part));
    (message.msg_control, message.msg_controllen) = (room.as_mut_ptr().cast(), ROOM);
    message
}
