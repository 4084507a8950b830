//! Batches of frames for the kernel.

use super::Name;
use core::mem::MaybeUninit;
use sovia_sys::call::{self, RawFd};
use sovia_sys::{Errno, Result};
use std::collections::VecDeque;

/// Maximum number of messages of one system call.
const MESSAGES: usize = 64;
/// Maximum number of segments into which the kernel cuts one message.
const SEGMENTS_MAX: usize = 64;
/// Maximum number of bytes of a segmented message: the payload of a UDP datagram over IPv4.
const SEGMENTED_MAX: usize = 65507;
/// `UDP_SEGMENT`.
const UDP_SEGMENT: i32 = 103;
const FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// Consecutive frames of one message. All have `segment` bytes, but the last one may be shorter.
#[derive(Debug, Clone, Copy)]
struct Run {
    at: usize,
    len: usize,
    segment: usize,
    frames: usize,
    to: Name,
}

/// Results of handing frames to the kernel.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Handed {
    /// Number of frames that the kernel has taken.
    pub(crate) sent: u64,
    /// Number of frames that the kernel has refused, and the last reason.
    pub(crate) unsendable: u64,
    pub(crate) why: Option<Errno>,
}

/// A buffer of consecutive frames, with their destinations.
#[derive(Debug)]
pub(crate) struct Outgoing {
    bytes: Box<[u8]>,
    end: usize,
    runs: VecDeque<Run>,
    /// Number of frames in `runs`.
    frames: usize,
    /// Set if one message may contain several frames.
    segments: bool,
}

impl Outgoing {
    /// Returns a buffer of `bytes` bytes. `segments` requires a UDP socket.
    pub(crate) fn new(bytes: usize, segments: bool) -> Outgoing {
        let bytes = vec![0; bytes].into_boxed_slice();
        let runs = VecDeque::with_capacity(MESSAGES);
        Outgoing { bytes, end: 0, runs, frames: 0, segments }
    }

    /// Returns true if one message may contain several frames.
    pub(crate) fn has_segments(&self) -> bool {
        self.segments
    }

    /// Returns the number of frames in the buffer.
    pub(crate) fn frames(&self) -> usize {
        self.frames
    }

    /// Returns memory for a frame of `len` bytes; `None` if the buffer is full.
    pub(crate) fn slot(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.runs.len() >= MESSAGES {
            return None;
        }
        self.bytes[self.end..].get_mut(..len)
    }

    /// Adds the first bytes of the slot as a frame. Returns false if the slot does not exist.
    pub(crate) fn commit(&mut self, len: usize, to: Name) -> bool {
        if self.slot(len).is_none() {
            return false;
        }
        let at = self.end;
        self.end += len;
        self.frames += 1;
        match self.runs.back_mut() {
            // A shorter frame ends a run: after this frame, `len` is no multiple of `segment`.
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

    /// Hands frames to a socket until it has no room. Counts permanently refused frames in `handed`.
    ///
    /// # Errors
    /// Returns an error if the device is down or gone. The remaining frames stay in the buffer.
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
                    // The kernel or the device cannot cut messages, or cannot cut this one.
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

    /// Returns the destination, if the buffer holds exactly one frame.
    pub(crate) fn lone(&self) -> Option<Name> {
        let first = self.runs.front()?;
        (self.frames == 1).then_some(first.to)
    }

    /// Sends the only frame through a socket that is connected to its destination. Returns false if the socket refuses
    /// the frame.
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

    /// Makes each frame of the first run a separate message.
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

    /// Hands the first runs over in one system call. Returns the number of runs that the socket has taken.
    fn send(&self, socket: RawFd) -> Result<usize> {
        match (self.runs.front(), self.runs.get(1)) {
            (Some(run), None) if run.frames == 1 => {
                call::send_to(socket, self.bytes(run), FLAGS, run.to.as_bytes()).map(|_| 1)
            }
            _ => self.send_several(socket),
        }
    }

    /// Like [`Outgoing::send`], for several frames. Not inlined, to keep large arrays out of the stack frame of `send`.
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
            // SAFETY: a `msghdr` of zero bytes is valid and empty.
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
        // SAFETY: the first `count` headers have just been written. Each header points to a vector, a control message
        // and a name that live in this function or in `self`. Each vector points to bytes of `self`. The kernel only
        // reads them.
        unsafe { call::sendmmsg(socket, headers.as_mut_ptr().cast(), count, FLAGS) }
    }
}

/// A control message with the size of the segments into which the kernel cuts a message.
#[repr(C)]
struct Control {
    header: libc::cmsghdr,
    segment: u16,
    padding: [u8; 6],
}

impl Control {
    fn segment(segment: u16) -> Control {
        // SAFETY: zero bytes are a valid value of this plain C struct.
        let mut header: libc::cmsghdr = unsafe { core::mem::zeroed() };
        header.cmsg_level = libc::IPPROTO_UDP;
        header.cmsg_type = UDP_SEGMENT;
        header.cmsg_len = (size_of::<libc::cmsghdr>() + size_of::<u16>()) as _;
        Control { header, segment, padding: [0; 6] }
    }
}
