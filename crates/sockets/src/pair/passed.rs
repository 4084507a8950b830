//! Pairs that this process passes to a program that it executes, or has got from the process that executed it.

use super::notification_sockets::{self, NotificationSockets};
use super::table::insert_at;
use super::{COMPLETED, Pair};
use crate::message::Process;
use crate::peers;
use core::sync::atomic::Ordering;
use sovia_control::inheritance::{self, Passed};
use sovia_ring::Segment;
use sovia_ring::layout::DOORBELLS;
use sovia_sys::mapping::is_free_in_programs;
use sovia_sys::{Fd, call};

const _: () =
    assert!(DOORBELLS == inheritance::DOORBELLS && peers::NOTICES == inheritance::NOTICES);
const _: () = assert!(notification_sockets::HANDED == inheritance::NOTIFICATION_SOCKETS);

impl Pair {
    /// Describes the pair, which has this index, for a program. Returns `None` if a program cannot take the pair over.
    pub(crate) fn passed(&self, index: u32) -> Option<inheritance::Segment> {
        // A child of `vfork` has its own descriptor table, and may not have the descriptors of a new pair.
        let is_here = call::file_id(self.file.raw()) == Ok(self.file_id);
        let is_free = is_free_in_programs(self.segment.base());
        if self.is_nic || !is_here || !is_free {
            return None;
        }
        let other_user = match (self.other_user, &self.notification_sockets) {
            (None, _) => None,
            (Some(uid), Some(notification_sockets)) => {
                let (is_by_agent, notification_sockets) =
                    (self.is_by_agent, notification_sockets.passed());
                Some(inheritance::OtherUser { uid, is_by_agent, notification_sockets })
            }
            (Some(_), None) => return None,
        };
        Some(inheritance::Segment {
            index,
            side: self.side as u32,
            peer: (self.peer.pid, self.peer.nonce),
            base: self.segment.base() as u64,
            file: Passed { fd: self.file.raw(), inode: self.file_id.1 },
            doorbells: self.doorbells.get()?.each_ref().map(Fd::raw),
            notices: peers::notices_of(self.peer)?,
            other_user,
        })
    }
}

/// Takes over a pair from the process that has executed this program. Returns false if the pair's segment cannot be
/// mapped.
pub(crate) fn take(passed: inheritance::Segment) -> bool {
    let (pid, nonce) = passed.peer;
    let peer = Process { pid, nonce };
    let file = Fd::inherit(passed.file.fd);
    // Closing a socket from another user's process may take long.
    let inherit = |fd| match passed.other_user {
        None => Fd::inherit(fd),
        Some(_) => Fd::inherit(fd).suspected(),
    };
    let doorbells = passed.doorbells.map(inherit);
    peers::take(peer, passed.notices.map(inherit));
    let Ok(segment) = Segment::attach_at(passed.base as usize, &file) else { return false };
    let Some(pair) = Pair::new(segment, file, passed.side as usize & 1, peer, None) else {
        return false;
    };
    // The peer knows the process that made the pair, and that process is not this one.
    let maker = Process { pid: 0, nonce: 0 };
    let pair = match passed.other_user {
        None => Pair { maker, ..pair },
        Some(inheritance::OtherUser { uid, is_by_agent, notification_sockets }) => {
            let notification_sockets =
                Some(NotificationSockets::take(notification_sockets.map(Fd::inherit)));
            Pair { maker, other_user: Some(uid), is_by_agent, notification_sockets, ..pair }
        }
    };
    let is_taken = pair.doorbells.set(doorbells).is_ok() && insert_at(passed.index, pair);
    COMPLETED.fetch_add(1, Ordering::AcqRel);
    is_taken
}
