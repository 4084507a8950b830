//! Receives frames from an Ethernet device and sends frames to it, by a packet socket.

use core::mem::MaybeUninit;
use sovia_sys::call::{self, RawFd};
use sovia_sys::interface::Interfaces;
use sovia_sys::{Errno, Fd, Result};

/// Greatest number of frames that one system call receives or sends.
const BATCH: usize = 64;
/// Bytes of a frame: an MTU of 9000 and the header.
const FRAME_MAX: usize = 9216;
/// Bytes of the socket's queues, which hold all frames that arrive while this program does not run.
const QUEUE: i32 = 64 << 20;

/// A frame that has arrived, and the time of its arrival in nanoseconds of the real-time clock.
#[derive(Debug)]
pub(crate) struct Came {
    pub(crate) at: u64,
    pub(crate) frame: Vec<u8>,
}

/// An Ethernet device.
#[derive(Debug)]
pub(crate) struct Device {
    socket: Fd,
    room: Box<[u8]>,
    /// Frames longer than `FRAME_MAX`, which means that an offload is on; and frames that the kernel refused.
    pub(crate) too_long: u64,
    pub(crate) refused: u64,
}

/// Room for the control message with the arrival time of a frame.
#[repr(C)]
#[derive(Clone, Copy)]
struct Stamp {
    header: libc::cmsghdr,
    at: libc::timespec,
}

impl Device {
    /// Opens the device `name` in the caller's network namespace, and takes every frame.
    pub(crate) fn open(name: &str) -> Result<Device> {
        let index = Interfaces::watch()?.find(name)?;
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let socket = Fd::make(|| call::socket(libc::AF_PACKET, kind, 0))?;
        let raw = socket.raw();
        for name in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
            call::setsockopt(raw, libc::SOL_SOCKET, name, &QUEUE)?;
        }
        call::setsockopt(raw, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)?;
        call::setsockopt(raw, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32)?;
        call::setsockopt(raw, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1i32)?;
        let everything = libc::packet_mreq {
            mr_ifindex: index.cast_signed(),
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        call::setsockopt(raw, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &everything)?;
        call::bind(raw, &address(index))?;
        let room = vec![0; BATCH * FRAME_MAX].into_boxed_slice();
        Ok(Device { socket, room, too_long: 0, refused: 0 })
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.socket.raw()
    }

    /// Returns the number of frames that the socket had no room for since the last call.
    pub(crate) fn missed(&self) -> u64 {
        // Frames, and frames lost.
        let told = call::getsockopt::<[u32; 2]>(
            self.socket.raw(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
        );
        told.map_or(0, |[_, lost]| lost.into())
    }

    /// Appends a batch of arrived frames. Returns true if there may be more.
    pub(crate) fn receive(&mut self, came: &mut Vec<Came>) -> Result<bool> {
        let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; BATCH];
        let mut vectors = [const { MaybeUninit::<libc::iovec>::uninit() }; BATCH];
        // SAFETY: an all-zero value of plain C structs.
        let mut stamps = [unsafe { core::mem::zeroed::<Stamp>() }; BATCH];
        let places = headers.iter_mut().zip(&mut vectors).zip(&mut stamps);
        for (((header, vector), stamp), room) in places.zip(self.room.chunks_exact_mut(FRAME_MAX)) {
            let vector = vector
                .write(libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: FRAME_MAX });
            // SAFETY: an all-zero msghdr is a valid empty one.
            let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
            message.msg_iov = vector;
            message.msg_iovlen = 1;
            message.msg_control = core::ptr::from_mut(stamp).cast();
            message.msg_controllen = size_of::<Stamp>() as _;
            header.write(libc::mmsghdr { msg_hdr: message, msg_len: 0 });
        }
        let first = headers.as_mut_ptr().cast();
        // SAFETY: all `BATCH` headers have just been written. Each points to memory of the length that it says, which is used for
        // nothing else until the call returns.
        let got = match unsafe { call::recvmmsg(self.raw(), first, BATCH, libc::MSG_DONTWAIT) } {
            Ok(got) => got.min(BATCH),
            Err(Errno::EAGAIN | Errno::EINTR) => 0,
            Err(error) => return Err(error),
        };
        for (i, header) in headers[..got].iter().enumerate() {
            // SAFETY: all headers have been written.
            let header = unsafe { header.assume_init_ref() };
            let len = header.msg_len as usize;
            if header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 || len > FRAME_MAX {
                self.too_long += 1;
                continue;
            }
            let at = stamps[i].at;
            let at = at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64;
            let frame = self.room[i * FRAME_MAX..][..len].to_vec();
            came.push(Came { at, frame });
        }
        Ok(got == BATCH)
    }

    /// Sends frames, and drops those that the kernel refuses.
    pub(crate) fn send(&mut self, frames: &mut Vec<Vec<u8>>) -> Result<()> {
        let mut rest = frames.as_slice();
        while !rest.is_empty() {
            match self.send_some(rest) {
                Ok(sent) => rest = &rest[sent.max(1)..],
                Err(Errno::EINTR) => {}
                // The receiver has no room, or does not accept the frame.
                Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::EMSGSIZE | Errno::EINVAL) => {
                    self.refused += 1;
                    rest = &rest[1..];
                }
                Err(error) => return Err(error),
            }
        }
        frames.clear();
        Ok(())
    }

    fn send_some(&self, frames: &[Vec<u8>]) -> Result<usize> {
        let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; BATCH];
        let mut vectors = [const { MaybeUninit::<libc::iovec>::uninit() }; BATCH];
        let mut count = 0;
        for ((header, vector), frame) in headers.iter_mut().zip(&mut vectors).zip(frames) {
            let base = frame.as_ptr().cast_mut().cast();
            let vector = vector.write(libc::iovec { iov_base: base, iov_len: frame.len() });
            // SAFETY: an all-zero msghdr is a valid empty one.
            let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
            message.msg_iov = vector;
            message.msg_iovlen = 1;
            header.write(libc::mmsghdr { msg_hdr: message, msg_len: 0 });
            count += 1;
        }
        let first = headers.as_mut_ptr().cast();
        // SAFETY: the first `count` headers have just been written; each points to a frame, which the kernel only reads.
        unsafe { call::sendmmsg(self.raw(), first, count, libc::MSG_DONTWAIT) }
    }
}

/// `struct sockaddr_ll`, for frames of every protocol.
fn address(index: u32) -> [u8; 20] {
    let mut address = [0; 20];
    address[..2].copy_from_slice(&(libc::AF_PACKET as u16).to_ne_bytes());
    address[2..4].copy_from_slice(&(libc::ETH_P_ALL as u16).to_be_bytes());
    address[4..8].copy_from_slice(&index.to_ne_bytes());
    address
}
