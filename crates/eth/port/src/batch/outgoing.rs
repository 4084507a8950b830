//! Frames on their way to the kernel.

use super::Name;
use core::mem::MaybeUninit;
use sovia_sys::call::{self, RawFd};
use sovia_sys::{Errno, Result};
use std::collections::VecDeque;

/// Messages that one system call hands over.
const MESSAGES: usize = 64;
/// Segments that the kernel cuts one message into at most.
const SEGMENTS_MAX: usize = 64;
/// Bytes that one message of segments has at most: a UDP datagram's payload over IPv4.
const SEGMENTED_MAX: usize = 65507;
/// `UDP_SEGMENT`.
const UDP_SEGMENT: i32 = 103;
const FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// Consecutive frames of one message: all have `segment` bytes, except that the last one may be shorter.
#[derive(Debug, Clone, Copy)]
struct Run {
    at: usize,
    len: usize,
    segment: usize,
    frames: usize,
    to: Name,
}

/// What has become of frames that were handed over.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Handed {
    /// Frames that the kernel has taken.
    pub(crate) sent: u64,
    /// Frames that it refuses, and the last reason.
    pub(crate) unsendable: u64,
    pub(crate) why: Option<Errno>,
}

/// A buffer of frames, one behind the other, and who they are for.
#[derive(Debug)]
pub(crate) struct Outgoing {
    bytes: Box<[u8]>,
    end: usize,
    runs: VecDeque<Run>,
    /// Frames in `runs`.
    frames: usize,
    /// Whether several frames may be one message.
    segments: bool,
}

impl Outgoing {
    /// A buffer of so many bytes; with `segments`, for a UDP socket.
    pub(crate) fn new(bytes: usize, segments: bool) -> Outgoing {
        let bytes = vec![0; bytes].into_boxed_slice();
        let runs = VecDeque::with_capacity(MESSAGES);
        Outgoing { bytes, end: 0, runs, frames: 0, segments }
    }

    /// Whether several frames are one message.
    pub(crate) fn has_segments(&self) -> bool {
        self.segments
    }

    /// Frames that are not handed over.
    pub(crate) fn frames(&self) -> usize {
        self.frames
    }

    /// Room for a frame of `len` bytes.
    pub(crate) fn slot(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.runs.len() >= MESSAGES {
            return None;
        }
        self.bytes[self.end..].get_mut(..len)
    }

    /// Takes the first bytes of the slot as a frame. False if there is no slot of that size.
    pub(crate) fn commit(&mut self, len: usize, to: Name) -> bool {
        if self.slot(len).is_none() {
            return false;
        }
        let at = self.end;
        self.end += len;
        self.frames += 1;
        match self.runs.back_mut() {
            // A shorter frame ends the run, so that it no longer divides evenly.
            Some(run)
                if self.segments
                    && (1..=run.segment).contains(&len)
                    && run.len == run.frames * run.segment
                    && run.frames < SEGMENTS_MAX
                    && run.len + len <= SEGMENTED_MAX
                    && run.to == to =>
            {
                run.len += len;
                run.frames += 1;
            }
            _ => self.runs.push_back(Run { at, len, segment: len, frames: 1, to }),
        }
        true
    }

    /// Hands frames to a socket until it has no room. Those that it refuses for good are counted in `handed`.
    ///
    /// # Errors
    /// That the device is down or gone. Frames that were not handed over stay.
    pub(crate) fn flush(&mut self, socket: RawFd, handed: &mut Handed) -> Result<()> {
        while let Some(&first) = self.runs.front() {
            match self.send(socket) {
                Ok(messages) => {
                    for run in self.runs.drain(..messages.min(self.runs.len())) {
                        self.frames -= run.frames;
                        handed.sent += run.frames as u64;
                    }
                }
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(why @ (Errno::ENETDOWN | Errno::ENODEV | Errno::ENXIO)) => return Err(why),
                Err(why) if first.frames > 1 => {
                    // The kernel or the device cannot cut messages, or not these.
                    self.segments &= !matches!(why, Errno::EIO | Errno::EOPNOTSUPP);
                    self.cut_first();
                }
                Err(why) => {
                    handed.unsendable += 1;
                    handed.why = Some(why);
                    self.frames -= 1;
                    self.runs.pop_front();
                }
            }
        }
        self.end = 0;
        Ok(())
    }

    /// The destination, where one frame is all there is.
    pub(crate) fn lone(&self) -> Option<Name> {
        let first = self.runs.front()?;
        (self.frames == 1).then_some(first.to)
    }

    /// Hands the lone frame to a socket that is connected to its destination; false if that does not take it.
    pub(crate) fn send_lone(&mut self, socket: RawFd, handed: &mut Handed) -> bool {
        let Some(run) = self.runs.front() else { return false };
        let sent = call::send_to(socket, self.bytes(run), FLAGS, &[]).is_ok();
        if sent {
            handed.sent += 1;
            self.runs.clear();
            (self.frames, self.end) = (0, 0);
        }
        sent
    }

    /// Makes each frame of the first run a message of its own.
    fn cut_first(&mut self) {
        let Some(run) = self.runs.pop_front() else { return };
        let ends = run.at + run.len;
        for at in (run.at..ends).step_by(run.segment).rev() {
            let len = run.segment.min(ends - at);
            self.runs.push_front(Run { at, len, segment: len, frames: 1, to: run.to });
        }
    }

    fn bytes(&self, run: &Run) -> &[u8] {
        &self.bytes[run.at..run.at + run.len]
    }

    /// Hands the first runs over, in one system call; how many the socket has taken.
    fn send(&self, socket: RawFd) -> Result<usize> {
        match (self.runs.front(), self.runs.get(1)) {
            (Some(run), None) if run.frames == 1 => {
                call::send_to(socket, self.bytes(run), FLAGS, run.to.as_bytes()).map(|_| 1)
            }
            _ => self.send_several(socket),
        }
    }

    /// As [`Outgoing::send`], for what is more than one frame. Not inlined: its room on the stack would be made for each lone
    /// frame as well.
    #[inline(never)]
    fn send_several(&self, socket: RawFd) -> Result<usize> {
        let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; MESSAGES];
        let mut vectors = [const { MaybeUninit::<libc::iovec>::uninit() }; MESSAGES];
        let mut controls = [const { MaybeUninit::<Control>::uninit() }; MESSAGES];
        let mut count = 0;
        let places = headers.iter_mut().zip(&mut vectors).zip(&mut controls);
        for (run, ((header, vector), control)) in self.runs.iter().zip(places) {
            let bytes = self.bytes(run);
            let vector = vector.write(libc::iovec {
                iov_base: bytes.as_ptr().cast_mut().cast(),
                iov_len: bytes.len(),
            });
            // SAFETY: an all-zero msghdr is a valid empty one.
            let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
            let name = run.to.as_bytes();
            if !name.is_empty() {
                message.msg_name = name.as_ptr().cast_mut().cast();
                message.msg_namelen = name.len() as u32;
            }
            message.msg_iov = vector;
            message.msg_iovlen = 1;
            if run.frames > 1 {
                let control = control.write(Control::segment(run.segment as u16));
                message.msg_control = core::ptr::from_mut(control).cast();
                message.msg_controllen = size_of::<Control>() as _;
            }
            header.write(libc::mmsghdr { msg_hdr: message, msg_len: 0 });
            count += 1;
        }
        // SAFETY: the first `count` headers have just been written. Each of them points to a vector, a control message and a name that live here or in `self`, and each vector
        // to bytes of `self`; the kernel only reads them.
        unsafe { call::sendmmsg(socket, headers.as_mut_ptr().cast(), count, FLAGS) }
    }
}

/// A control message that says into what pieces the kernel cuts a message.
#[repr(C)]
struct Control {
    header: libc::cmsghdr,
    segment: u16,
    padding: [u8; 6],
}

impl Control {
    fn segment(segment: u16) -> Control {
        // SAFETY: an all-zero header is a valid value of a plain struct.
        let mut header: libc::cmsghdr = unsafe { core::mem::zeroed() };
        header.cmsg_level = libc::IPPROTO_UDP;
        header.cmsg_type = UDP_SEGMENT;
        header.cmsg_len = (size_of::<libc::cmsghdr>() + size_of::<u16>()) as _;
        Control { header, segment, padding: [0; 6] }
    }
}
