//! Receives batches of messages from the kernel.

use super::name::{NAME_MAX, to_socket_addr};
use core::mem::MaybeUninit;
use core::net::SocketAddr;
use sovia_sys::Result;
use sovia_sys::call::{self, RawFd};

/// Maximum number of messages of one system call.
const MESSAGES: usize = 16;
/// Maximum number of bytes of a message. Datagrams that a UDP socket joins stay shorter.
const MESSAGE_MAX: usize = 1 << 16;
/// Maximum number of bytes of a batch. The limit lets peers receive acknowledgements while further messages are on
/// their way.
const BATCH: usize = 3 << 16;
/// `UDP_GRO`.
const UDP_GRO: i32 = 104;

/// A message: one frame, or several frames that the kernel has joined.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    pub(crate) bytes: &'a [u8],
    /// The sender; `None` if its address is neither IPv4 nor IPv6.
    pub(crate) from: Option<SocketAddr>,
    /// Bytes of each frame. The last frame may be shorter.
    pub(crate) segment: usize,
    /// Set if the kernel has truncated the message.
    pub(crate) is_cut: bool,
}

/// A buffer for one batch of messages.
#[derive(Debug)]
pub(crate) struct Incoming {
    bytes: Box<[u8]>,
    /// Number of messages to request. While messages come one by one, it is one, to save the preparation of more.
    wanted: usize,
}

/// Memory for one control message with one word.
#[repr(C)]
#[derive(Clone, Copy)]
struct Control {
    header: libc::cmsghdr,
    word: i32,
    padding: u32,
}

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct RawName([u8; NAME_MAX]);

impl Incoming {
    pub(crate) fn new() -> Incoming {
        Incoming { bytes: vec![0; MESSAGES * MESSAGE_MAX].into_boxed_slice(), wanted: 1 }
    }

    /// Passes the messages of one batch to `take`, and returns their number.
    ///
    /// # Errors
    /// Returns `EAGAIN` if no message has arrived.
    pub(crate) fn receive(
        &mut self,
        socket: RawFd,
        mut take: impl FnMut(Message<'_>),
    ) -> Result<usize> {
        let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; MESSAGES];
        let mut vectors = [const { MaybeUninit::<libc::iovec>::uninit() }; MESSAGES];
        let mut controls = [const { MaybeUninit::<Control>::uninit() }; MESSAGES];
        let mut names = [const { MaybeUninit::<RawName>::uninit() }; MESSAGES];
        let wanted = core::mem::replace(&mut self.wanted, 1);
        let base = self.bytes.as_mut_ptr();
        for i in 0..wanted {
            // SAFETY: `wanted` is at most `MESSAGES`, and the buffer has room for `MESSAGES` messages.
            let at = unsafe { base.add(i * MESSAGE_MAX) };
            vectors[i].write(libc::iovec { iov_base: at.cast(), iov_len: MESSAGE_MAX });
            // SAFETY: zero bytes are valid values of these plain C structs.
            let (mut message, header): (libc::msghdr, libc::cmsghdr) =
                unsafe { (core::mem::zeroed(), core::mem::zeroed()) };
            controls[i].write(Control { header, word: 0, padding: 0 });
            names[i].write(RawName([0; NAME_MAX]));
            message.msg_name = names[i].as_mut_ptr().cast();
            message.msg_namelen = NAME_MAX as u32;
            message.msg_iov = vectors[i].as_mut_ptr();
            message.msg_iovlen = 1;
            message.msg_control = controls[i].as_mut_ptr().cast();
            message.msg_controllen = size_of::<Control>() as _;
            headers[i].write(libc::mmsghdr { msg_hdr: message, msg_len: 0 });
        }
        let first = headers.as_mut_ptr().cast();
        let got = if wanted == 1 {
            let header = headers[0].as_mut_ptr();
            // SAFETY: the first header has just been written. It points to memory of the stated length, which no other
            // code uses until the call returns.
            unsafe {
                let message = &raw mut (*header).msg_hdr;
                let len = call::recvmsg(socket, message, libc::MSG_DONTWAIT)?;
                (*header).msg_len = len as u32;
            }
            1
        } else {
            // SAFETY: the first `wanted` headers have just been written. They point to memory of the stated lengths,
            // which no other code uses until the call returns.
            unsafe { call::recvmmsg(socket, first, wanted, libc::MSG_DONTWAIT) }?.min(wanted)
        };
        let mut brought = 0;
        for (i, header) in headers[..got].iter().enumerate() {
            // SAFETY: `got` is at most `wanted`, and the first `wanted` headers have been written.
            let header = unsafe { header.assume_init_ref() };
            let message = &header.msg_hdr;
            let bytes =
                &self.bytes[i * MESSAGE_MAX..][..(header.msg_len as usize).min(MESSAGE_MAX)];
            // SAFETY: both values were initialized above, and the kernel has overwritten them with plain bytes.
            let (name, control) = unsafe { (names[i].assume_init(), controls[i].assume_init()) };
            let name = &name.0[..(message.msg_namelen as usize).min(NAME_MAX)];
            let says_segment = message.msg_controllen >= (size_of::<libc::cmsghdr>() + 4) as _
                && control.header.cmsg_level == libc::IPPROTO_UDP
                && control.header.cmsg_type == UDP_GRO;
            let segment = if says_segment { control.word.max(1) as usize } else { bytes.len() };
            brought += bytes.len();
            let is_cut = message.msg_flags & libc::MSG_TRUNC != 0;
            take(Message { bytes, from: to_socket_addr(name), segment, is_cut });
        }
        self.wanted = match got {
            _ if brought > BATCH => (got / 2).max(1),
            _ if got == wanted && brought <= BATCH / 2 => (2 * got).min(MESSAGES),
            _ => got.max(1),
        };
        Ok(got)
    }
}
