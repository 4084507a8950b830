//! Code of the keeper process. This code allocates nothing, takes no lock of the family, and does not return.

use super::Candidate;
use super::shared::Shared;
use super::start::Lock;
use super::stream::Stream;
use crate::rest::asking;
use core::sync::atomic::Ordering;
use sovia_sys::datagram::FDS_MAX;
use sovia_sys::poll::{PollFd, ppoll};
use sovia_sys::seqpacket::Listener;
use sovia_sys::{call, clock, process as processes, record_lock};

/// Nanoseconds between two checks for unread bytes, and for relatives that still have the connections.
const LOOK_NS: u64 = 100_000_000;
/// An entry without a descriptor, which `ppoll` ignores.
const NONE: PollFd = PollFd { fd: -1, events: 0, revents: 0 };

/// Data of the keeper, which its maker prepares.
pub(super) struct Life<'s> {
    streams: Vec<Stream<'s>>,
    /// Entries for `ppoll`: two for each stream, and one for the socket on which relatives request the keeper's
    /// sockets.
    fds: Vec<PollFd>,
    /// Descriptors of the maker that the keeper keeps, in ascending order.
    kept: Vec<i32>,
    shared: &'s Shared,
    lock: &'s Lock,
}

impl<'s> Life<'s> {
    pub(super) fn new(candidates: &[Candidate], shared: &'s Shared, lock: &'s Lock) -> Life<'s> {
        let of_each = candidates.iter().flat_map(Candidate::descriptors);
        let mut kept: Vec<i32> = of_each.chain([lock.file]).collect();
        kept.sort_unstable();
        let stream = |(n, candidate): (usize, &Candidate)| {
            Stream::new(n, candidate.at, candidate.kernel_socket, shared)
        };
        let streams: Vec<Stream<'_>> = candidates.iter().enumerate().map(stream).collect();
        Life { fds: vec![NONE; 2 * streams.len() + 1], streams, kept, shared, lock }
    }

    /// Closes all descriptors except those that the keeper needs.
    pub(super) fn keep_only(&self) {
        let mut from = 0;
        for &fd in &self.kept {
            if fd > from {
                call::close_range(from, fd - 1);
            }
            from = fd + 1;
        }
        call::close_range(from, i32::MAX);
    }

    /// Runs the keeper. Closes `ready` once the maker may move bytes to the keeper.
    pub(super) fn live(&mut self, ready: i32) -> ! {
        processes::leave_group();
        processes::be_traceable();
        let me = call::getpid();
        let listener = asking::listen(me);
        self.shared.keeper().store(me, Ordering::Release);
        let _ = call::close(ready);
        // Wait for the maker's lock. The kernel or the maker releases the lock when the maker has moved the bytes
        // or has ended.
        while record_lock::wait(self.lock.file, self.lock.byte) == Err(call::Errno::EINTR) {}
        for stream in &mut self.streams {
            stream.begin(me);
        }
        self.serve(listener.as_ref());
        call::exit_now();
    }

    fn serve(&mut self, listener: Option<&Listener>) {
        let mut looked = clock::now_ns();
        loop {
            let (mut is_over, mut is_shared) = (true, false);
            for (stream, fds) in self.streams.iter().zip(self.fds.chunks_exact_mut(2)) {
                fds.copy_from_slice(&stream.awaited());
                is_over &= stream.is_over();
                is_shared |= stream.is_shared();
            }
            if is_over {
                return;
            }
            if let (Some(entry), Some(listener)) = (self.fds.last_mut(), listener) {
                *entry = PollFd { fd: listener.raw(), events: libc::POLLIN, revents: 0 };
            }
            let _ = ppoll(&mut self.fds, is_shared.then_some(LOOK_NS), None);
            let now = clock::now_ns();
            let is_due = now - looked >= LOOK_NS;
            if is_due {
                looked = now;
            }
            if let (Some(PollFd { revents: 1.., .. }), Some(listener)) = (self.fds.last(), listener)
            {
                let (mut sockets, mut len) = ([-1; FDS_MAX], 0);
                for fd in self.streams.iter().flat_map(Stream::sockets).take(FDS_MAX) {
                    (sockets[len], len) = (fd, len + 1);
                }
                asking::answer(listener, &sockets[..len]);
            }
            for (stream, fds) in self.streams.iter_mut().zip(self.fds.chunks_exact(2)) {
                if is_due || fds.iter().any(|fd| fd.revents != 0) {
                    stream.go_on();
                }
            }
        }
    }
}
