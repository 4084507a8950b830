//! Datagrams over abstract Unix names, with descriptors, and with credentials that the kernel checks.

use crate::call::{self, Errno, RawFd, Result, Sysno};
use crate::fd::Fd;

/// Socket option by which a Unix socket refuses descriptors, since Linux 6.16.
pub const SO_PASSRIGHTS: i32 = 83;

/// Largest number of descriptors in one datagram of this crate.
pub const FDS_MAX: usize = 12;
/// Size of the control buffer, with room for the kernel's largest number of descriptors and for the sender's
/// credentials. The kernel would close descriptors without room inside the receiving call, which may take long.
const CONTROL_LEN: usize = 1152;

/// An abstract name, of at most 107 bytes after the leading zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name {
    len: u8,
    bytes: [u8; 107],
}

impl core::fmt::Debug for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "@{}", String::from_utf8_lossy(self.as_bytes()))
    }
}

impl Name {
    /// Makes a name from its bytes; `None` if there are none or too many.
    pub fn new(name: &[u8]) -> Option<Name> {
        let mut bytes = [0; 107];
        bytes.get_mut(..name.len())?.copy_from_slice(name);
        (!name.is_empty()).then_some(Name { len: name.len() as u8, bytes })
    }

    /// Returns the bytes after the leading zero.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }

    pub(crate) fn to_sockaddr(self) -> (libc::sockaddr_un, u32) {
        let mut path: [libc::c_char; 108] = [0; 108];
        for (to, from) in path[1..].iter_mut().zip(self.as_bytes()) {
            *to = *from as libc::c_char;
        }
        let address =
            libc::sockaddr_un { sun_family: libc::AF_UNIX as libc::sa_family_t, sun_path: path };
        (address, 3 + u32::from(self.len))
    }

    fn from_sockaddr(address: &libc::sockaddr_un, len: u32) -> Option<Name> {
        let n = (len as usize).checked_sub(3)?;
        if n > 107 || address.sun_path[0] != 0 {
            return None;
        }
        let mut bytes = [0; 107];
        for (to, from) in bytes[..n].iter_mut().zip(&address.sun_path[1..]) {
            // The C type of these bytes is unsigned on aarch64.
            *to = from.to_ne_bytes()[0];
        }
        (n > 0).then_some(Name { len: n as u8, bytes })
    }
}

/// Makes the address of a socket in the file system, from a path of at most 107 bytes.
pub(crate) fn file_address(path: &[u8]) -> Result<(libc::sockaddr_un, u32)> {
    let mut sun_path: [libc::c_char; 108] = [0; 108];
    if path.is_empty() || path.len() >= sun_path.len() || path.contains(&0) {
        return Err(Errno::ENAMETOOLONG);
    }
    for (to, from) in sun_path.iter_mut().zip(path) {
        *to = *from as libc::c_char;
    }
    let address = libc::sockaddr_un { sun_family: libc::AF_UNIX as libc::sa_family_t, sun_path };
    Ok((address, 3 + path.len() as u32))
}

/// A received datagram without its payload. Dropping it closes all descriptors that the caller has not taken.
#[derive(Debug)]
pub struct Received {
    /// Number of payload bytes written to the buffer.
    pub len: usize,
    /// Set if the kernel cut off payload or control data that did not fit.
    pub truncated: bool,
    /// Name that the sender's socket is bound to.
    pub sender: Option<Name>,
    /// Process id and user id of the sender, checked by the kernel.
    pub credentials: Option<(i32, u32)>,
    /// Descriptors that the datagram carried.
    pub fds: Vec<Fd>,
}

/// Makes a pair of sockets, for two processes that each make a [`Datagram`] of one end.
///
/// # Errors
/// Those of `socketpair`.
pub fn pair() -> Result<[Fd; 2]> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let ends = call::socketpair(libc::AF_UNIX, kind)?.map(Fd::adopt);
    // Set before the first message, so that every message carries its sender's credentials.
    for end in &ends {
        call::setsockopt(end.raw(), libc::SOL_SOCKET, libc::SO_PASSCRED, &1i32)?;
    }
    Ok(ends)
}

/// A datagram socket in the abstract Unix name space.
#[derive(Debug)]
pub struct Datagram(Fd);

impl Datagram {
    /// Binds a new socket to `name`, or to a new name that the kernel chooses.
    ///
    /// # Errors
    /// `EADDRINUSE` if another socket has the name. `EMFILE` if only descriptor numbers are free that the program
    /// needs.
    pub fn bind(name: Option<&Name>) -> Result<Datagram> {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let fd = Fd::make(|| call::socket(libc::AF_UNIX, kind, 0))?;
        if !fd.is_high() {
            // The program needs the lower numbers for itself.
            return Err(Errno::EMFILE);
        }
        let socket = Datagram(fd);
        call::setsockopt(socket.0.raw(), libc::SOL_SOCKET, libc::SO_PASSCRED, &1i32)?;
        let (address, len) = match name {
            Some(name) => name.to_sockaddr(),
            // An address of only the family requests a name from the kernel (autobind).
            None => (
                libc::sockaddr_un {
                    sun_family: libc::AF_UNIX as libc::sa_family_t,
                    sun_path: [0; 108],
                },
                2,
            ),
        };
        // SAFETY: the address outlives the call, and `len` is at most its size.
        unsafe { syscalls::syscall!(Sysno::bind, socket.0.raw(), &raw const address, len) }?;
        Ok(socket)
    }

    /// Makes a datagram socket of one end of a pair that another process has made and sent. Received messages
    /// will carry their senders' credentials.
    ///
    /// # Errors
    /// `EPROTOTYPE` if `fd` is another kind of socket. `ENOTSOCK` if it is no socket. `EMFILE` as for
    /// [`bind`](Self::bind).
    pub fn of_pair(fd: Fd) -> Result<Datagram> {
        let word = |name| call::getsockopt::<i32>(fd.raw(), libc::SOL_SOCKET, name);
        if word(libc::SO_DOMAIN)? != libc::AF_UNIX || word(libc::SO_TYPE)? != libc::SOCK_DGRAM {
            return Err(Errno::EPROTOTYPE);
        }
        if !fd.is_high() {
            return Err(Errno::EMFILE);
        }
        call::setsockopt(fd.raw(), libc::SOL_SOCKET, libc::SO_PASSCRED, &1i32)?;
        Ok(Datagram(fd))
    }

    /// Returns the descriptor, to wait on.
    pub fn raw(&self) -> RawFd {
        self.0.raw()
    }

    /// Replies to the source of a received datagram: to the name of its sender's socket, or to the other end of a
    /// pair.
    ///
    /// # Errors
    /// Those of [`send_to`](Self::send_to); `ENOTCONN` if the sender's socket has no name.
    pub fn answer(&self, sender: Option<Name>, payload: &[u8], fds: &[RawFd]) -> Result<()> {
        send_message(self.0.raw(), sender.as_ref(), payload, fds)
    }

    /// Sends to the other end of a pair.
    ///
    /// # Errors
    /// `ECONNREFUSED` if the other end is closed, `EAGAIN` if its queue is full.
    pub fn send(&self, payload: &[u8], fds: &[RawFd]) -> Result<()> {
        send_message(self.0.raw(), None, payload, fds)
    }

    /// Sends `payload` and up to [`FDS_MAX`] descriptors to `to`. Never blocks.
    ///
    /// # Errors
    /// `ECONNREFUSED` if no socket is bound to the name, `EAGAIN` if the socket's queue is full.
    pub fn send_to(&self, to: &Name, payload: &[u8], fds: &[RawFd]) -> Result<()> {
        send_message(self.0.raw(), Some(to), payload, fds)
    }

    /// Receives the next datagram. Never blocks.
    ///
    /// # Errors
    /// `EAGAIN` if there is none.
    pub fn receive(&self, buf: &mut [u8]) -> Result<Received> {
        receive_message(self.0.raw(), buf)
    }
}

impl Drop for Datagram {
    /// Lets the disposer close the socket if messages are unread. The kernel then also closes the messages'
    /// descriptors, which may take long.
    fn drop(&mut self) {
        // From here on no message is added.
        let _ = call::shutdown(self.0.raw(), libc::SHUT_RD);
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        if call::recv(self.0.raw(), &mut [0], flags) != Err(Errno::EAGAIN) {
            self.0.suspect();
        }
    }
}

/// Limit of the control data in a message that this process sends. Small, because the program's stack may be
/// small.
const OWN_CONTROL_LEN: usize = 128;

#[repr(align(16))]
struct OwnControl(#[expect(dead_code, reason = "the kernel reads it")] [u8; OWN_CONTROL_LEN]);

// SAFETY: CMSG_SPACE only computes a number.
const _: () = assert!(
    unsafe {
        libc::CMSG_SPACE(4 * FDS_MAX as u32) + libc::CMSG_SPACE(size_of::<libc::ucred>() as u32)
    } as usize
        <= OWN_CONTROL_LEN
);

/// Returns the credentials that a message must carry explicitly; `None` if the kernel's default is right. By
/// default the kernel names the real user. The sockets of this process belong to the effective user.
fn own_credentials() -> Option<libc::ucred> {
    let (uid, acts_as) = (call::getuid(), call::geteuid());
    (uid != acts_as).then(|| libc::ucred {
        pid: call::getpid(),
        uid: acts_as,
        gid: call::getegid(),
    })
}

/// Sends one message with up to [`FDS_MAX`] descriptors, to a name or to the connected socket.
pub(crate) fn send_message(
    fd: RawFd,
    to: Option<&Name>,
    payload: &[u8],
    fds: &[RawFd],
) -> Result<()> {
    if fds.len() > FDS_MAX {
        return Err(Errno::EINVAL);
    }
    let mut to = to.map(|name| name.to_sockaddr());
    let mut iov =
        libc::iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() };
    let mut control = OwnControl([0; OWN_CONTROL_LEN]);
    // SAFETY: all-zero bytes are a valid empty msghdr.
    let mut msg: libc::msghdr = unsafe { core::mem::zeroed() };
    if let Some((address, len)) = &mut to {
        msg.msg_name = core::ptr::from_mut(address).cast();
        msg.msg_namelen = *len;
    }
    msg.msg_iov = &raw mut iov;
    msg.msg_iovlen = 1;
    let mut put = |kind, data: *const u8, len: usize| {
        // SAFETY: CMSG_SPACE and CMSG_LEN only compute numbers.
        let (space, cmsg_len) =
            unsafe { (libc::CMSG_SPACE(len as u32) as usize, libc::CMSG_LEN(len as u32) as usize) };
        let at = msg.msg_controllen as usize;
        msg.msg_control = (&raw mut control).cast();
        msg.msg_controllen = (at + space) as _;
        // SAFETY: the control buffer is aligned (`OwnControl`), and each header's space is a multiple of the
        // alignment. An assertion above proves that both kinds fit. `data` points to `len` bytes.
        unsafe {
            let header = msg.msg_control.cast::<u8>().add(at).cast::<libc::cmsghdr>();
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = kind;
            (*header).cmsg_len = cmsg_len as _;
            core::ptr::copy_nonoverlapping(data, libc::CMSG_DATA(header), len);
        }
    };
    if !fds.is_empty() {
        put(libc::SCM_RIGHTS, fds.as_ptr().cast(), size_of_val(fds));
    }
    if let Some(own) = own_credentials() {
        put(libc::SCM_CREDENTIALS, (&raw const own).cast(), size_of_val(&own));
    }
    // SAFETY: every pointer in `msg` refers to a local variable that outlives the call.
    unsafe { call::sendmsg(fd, &raw const msg, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) }.map(drop)
}

/// Receives the next message of a Unix socket, with its descriptors. From a stream socket, receives the next
/// bytes. Never blocks.
///
/// # Errors
/// `EAGAIN` if there is none.
pub fn receive_message(fd: RawFd, buf: &mut [u8]) -> Result<Received> {
    // SAFETY: all-zero bytes are a valid sockaddr_un.
    let mut address: libc::sockaddr_un = unsafe { core::mem::zeroed() };
    let mut iov = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
    let mut control = Control([0; CONTROL_LEN]);
    // SAFETY: all-zero bytes are a valid msghdr.
    let mut msg: libc::msghdr = unsafe { core::mem::zeroed() };
    msg.msg_name = (&raw mut address).cast();
    msg.msg_namelen = size_of::<libc::sockaddr_un>() as u32;
    msg.msg_iov = &raw mut iov;
    msg.msg_iovlen = 1;
    msg.msg_control = (&raw mut control).cast();
    msg.msg_controllen = CONTROL_LEN as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: every pointer in `msg` refers to a local variable that outlives the call.
    let len = unsafe { call::recvmsg(fd, &raw mut msg, flags) }?;
    let mut received = Received {
        len,
        truncated: msg.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0,
        sender: Name::from_sockaddr(&address, msg.msg_namelen),
        credentials: None,
        fds: Vec::new(),
    };
    // SAFETY: the kernel has written well-formed control messages of `msg_controllen` bytes into the aligned
    // buffer, and the loop stays within them.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const msg);
        while !header.is_null() {
            let data = libc::CMSG_DATA(header);
            let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
            match ((*header).cmsg_level, (*header).cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                    for i in 0..bytes / size_of::<RawFd>() {
                        let fd = data.cast::<RawFd>().add(i).read_unaligned();
                        received.fds.push(Fd::adopt_foreign(fd));
                    }
                }
                (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) => {
                    let cred = data.cast::<libc::ucred>().read_unaligned();
                    received.credentials = Some((cred.pid, cred.uid));
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(&raw const msg, header);
        }
    }
    Ok(received)
}

#[repr(C, align(8))]
struct Control([u8; CONTROL_LEN]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_and_credentials_travel() {
        let a = Datagram::bind(None).unwrap();
        let name = Name::new(format!("sovia-sys-test-{}", call::getpid()).as_bytes()).unwrap();
        let b = Datagram::bind(Some(&name)).unwrap();
        assert_eq!(Datagram::bind(Some(&name)).unwrap_err(), Errno::EADDRINUSE);
        let bell = Fd::adopt(call::eventfd(0).unwrap());
        a.send_to(&name, b"hello", &[bell.raw()]).unwrap();
        let mut buf = [0; 16];
        let got = b.receive(&mut buf).unwrap();
        assert_eq!(&buf[..got.len], b"hello");
        assert_eq!(got.credentials, Some((call::getpid(), call::geteuid())));
        assert_eq!(got.fds.len(), 1);
        call::write(got.fds[0].raw(), &1u64.to_ne_bytes()).unwrap();
        let mut count = [0; 8];
        call::read(bell.raw(), &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), 1);
        b.send_to(&got.sender.unwrap(), b"back", &[]).unwrap();
        assert_eq!(a.receive(&mut buf).unwrap().len, 4);
        assert_eq!(a.receive(&mut buf).unwrap_err(), Errno::EAGAIN);
    }
}
