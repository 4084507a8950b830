//! Kernel calls of an intruder, and information that it gets from the kernel.

use super::message::{ASK, LEN, SHOW, SHOWN_AT};
use std::collections::VecDeque;
use std::fs;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// User as which a thread acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uid {
    /// The user of the test.
    Same,
    /// The user `nobody`; for root only.
    Nobody,
}

/// Returns true if this process can act as another user.
pub(crate) fn is_root() -> bool {
    // SAFETY: reads nothing but this process's user id.
    unsafe { libc::geteuid() == 0 }
}

/// A connection to the server of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    pub(crate) connector: SocketAddr,
    pub(crate) acceptor: SocketAddr,
}

impl Connection {
    pub(crate) fn acceptors_cookie(&self) -> u64 {
        cookie(self.acceptor, self.connector)
    }

    pub(crate) fn connectors_cookie(&self) -> u64 {
        cookie(self.connector, self.acceptor)
    }
}

/// A TCP socket, as described by the kernel (`inet_diag_msg`).
struct Socket {
    local: SocketAddr,
    inode: u64,
    cookie: u64,
}

/// Asks the kernel for TCP sockets: for the one with these addresses, or for all with these ports. 0 means any port.
///
/// Reading /proc/net/tcp would take time for thousands of connections that have just ended: a moment for each earlier
/// test.
fn sockets(which: u16, states: u32, local: SocketAddrV4, remote: SocketAddrV4) -> Vec<Socket> {
    let mut request = [0u8; 72];
    request[0..4].copy_from_slice(&72u32.to_ne_bytes());
    request[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16 | which).to_ne_bytes());
    request[16] = libc::AF_INET as u8;
    request[17] = libc::IPPROTO_TCP as u8;
    request[20..24].copy_from_slice(&states.to_ne_bytes());
    request[24..26].copy_from_slice(&local.port().to_be_bytes());
    request[26..28].copy_from_slice(&remote.port().to_be_bytes());
    request[28..32].copy_from_slice(&local.ip().octets());
    request[44..48].copy_from_slice(&remote.ip().octets());
    request[64..72].fill(0xff); // INET_DIAG_NOCOOKIE
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: takes plain numbers.
    let socket = owned(unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_SOCK_DIAG) });
    // SAFETY: the buffer lives through the call and has that length.
    unsafe { libc::send(socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) };
    let mut found = Vec::new();
    loop {
        let mut answer = vec![0u8; 32 << 10];
        // SAFETY: likewise.
        let got =
            unsafe { libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
        let mut left = &answer[..got.max(0) as usize];
        if left.is_empty() {
            return found;
        }
        while left.len() >= 16 {
            let half = |at: usize| u32::from_ne_bytes(left[at..at + 4].try_into().unwrap());
            let len = (half(0) as usize).next_multiple_of(4);
            // The end of a list, or an error.
            if left[4..6] != SOCK_DIAG_BY_FAMILY.to_ne_bytes() || !(88..=left.len()).contains(&len)
            {
                return found;
            }
            let port = u16::from_be_bytes([left[20], left[21]]);
            let ip = Ipv4Addr::new(left[24], left[25], left[26], left[27]);
            found.push(Socket {
                local: SocketAddr::V4(SocketAddrV4::new(ip, port)),
                inode: u64::from(half(84)),
                cookie: u64::from(half(60)) | u64::from(half(64)) << 32,
            });
            left = &left[len..];
        }
        if which != ALL {
            return found;
        }
    }
}

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const ONE: u16 = 0;
const ALL: u16 = libc::NLM_F_DUMP as u16;
const ESTABLISHED: u32 = 1 << 1;
const LISTENING: u32 = 1 << 10;
const ANY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);

/// A listening process.
pub(crate) struct Listener {
    address: SocketAddr,
    process: PathBuf,
}

impl Listener {
    /// Returns the process that listens on a port.
    pub(crate) fn at(address: SocketAddr) -> Option<Listener> {
        let SocketAddr::V4(local) = address else { return None };
        let inode = sockets(ALL, LISTENING, local, ANY).first()?.inode;
        let mut processes = fs::read_dir("/proc").ok()?.flatten().map(|entry| entry.path());
        let process = processes.find(|process| sockets_of(process).contains(&inode))?;
        Some(Listener { address, process })
    }

    /// Returns the established connections to it.
    pub(crate) fn connections(&self) -> Vec<Connection> {
        let SocketAddr::V4(remote) = self.address else { return Vec::new() };
        let to_it = sockets(ALL, ESTABLISHED, ANY, remote).into_iter();
        to_it
            .map(|Socket { local, .. }| Connection { connector: local, acceptor: self.address })
            .collect()
    }

    /// Returns the abstract datagram names that it is bound to.
    pub(crate) fn names(&self) -> Vec<Vec<u8>> {
        let inodes = sockets_of(&self.process);
        let text = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let name = |line: &str| {
            let mut fields = line.split_whitespace();
            let inode = fields.nth(6)?.parse().ok()?;
            let name = fields.next()?.strip_prefix('@')?;
            inodes.contains(&inode).then(|| name.as_bytes().to_vec())
        };
        text.lines().filter_map(name).collect()
    }
}

/// Returns the inodes of a process's sockets.
fn sockets_of(process: &Path) -> Vec<u64> {
    let fds = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let inode = |fd: fs::DirEntry| {
        let target = fs::read_link(fd.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    fds.filter_map(inode).collect()
}

fn owned(fd: RawFd) -> OwnedFd {
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: a descriptor that the kernel has just given to the caller, which passes it on.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Returns the kernel's cookie of the TCP socket with these addresses; 0 if there is none.
fn cookie(local: SocketAddr, remote: SocketAddr) -> u64 {
    let (SocketAddr::V4(local), SocketAddr::V4(remote)) = (local, remote) else { return 0 };
    sockets(ONE, u32::MAX, local, remote).first().map_or(0, |socket| socket.cookie)
}

/// Returns an address of the abstract name space.
fn address(name: &[u8]) -> (libc::sockaddr_un, libc::socklen_t) {
    // SAFETY: all-zero bytes are a valid value of this plain struct.
    let mut address: libc::sockaddr_un = unsafe { zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path[1..].iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    (address, 3 + name.len().min(107) as libc::socklen_t)
}

fn datagram_socket() -> OwnedFd {
    // SAFETY: takes plain numbers.
    owned(unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })
}

/// Makes a socket with a name that the kernel chooses, like the ends of a rendezvous.
fn named_socket() -> OwnedFd {
    let socket = datagram_socket();
    let (address, _) = address(b"");
    // SAFETY: the address lives through the call; a bare family asks for a name.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), 2) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    socket
}

/// Binds a name, if it is free.
pub(crate) fn squat(name: &[u8]) -> Option<OwnedFd> {
    let socket = datagram_socket();
    let (address, len) = address(name);
    // SAFETY: the address lives through the call and is longer than `len`.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    (result == 0).then_some(socket)
}

/// A datagram to send: the target name, the bytes and the descriptors.
type Letter = (Vec<u8>, Vec<u8>, Vec<OwnedFd>);

/// A thread that sends as some user. The kernel keeps user ids for each thread.
pub(crate) struct Voice(Sender<(Letter, bool)>);

impl Voice {
    pub(crate) fn new(uid: Uid) -> Voice {
        let (sender, letters) = channel::<(Letter, bool)>();
        thread::spawn(move || {
            if uid == Uid::Nobody {
                // SAFETY: changes the ids of this thread alone, which ends with its letters.
                let result = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
                assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
            }
            let socket = named_socket();
            let mut trial = Trial::new();
            loop {
                match letters.recv_timeout(Duration::from_micros(200)) {
                    Ok((letter, false)) => post(&socket, letter),
                    Ok((letter, true)) => trial.begin(&socket, letter),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                trial.go_on(&socket);
            }
        });
        Voice(sender)
    }

    pub(crate) fn say(&self, name: Vec<u8>, bytes: Vec<u8>, fds: Vec<OwnedFd>) {
        self.hand_over((name, bytes, fds), false);
    }

    /// Sends a message once the other end has proof that this process could trace it.
    pub(crate) fn say_proven(&self, name: Vec<u8>, bytes: Vec<u8>, fds: Vec<OwnedFd>) {
        self.hand_over((name, bytes, fds), true);
    }

    fn hand_over(&self, letter: Letter, proven: bool) {
        self.0.send((letter, proven)).expect("the voice lives as long as its owner");
    }
}

fn post(socket: &OwnedFd, (name, bytes, fds): Letter) {
    send(socket, &name, &bytes, &fds);
    // Without a socket, this may take as long as the receiver would have taken.
    thread::spawn(move || drop(fds));
}

/// Steps of an honest connector before its offer.
struct Trial {
    /// File whose name is visible only to processes that could trace this one.
    challenge: OwnedFd,
    /// Offers about connections whose acceptors have been asked.
    waiting: VecDeque<Letter>,
}

impl Trial {
    fn new() -> Trial {
        let name = c"sovia-proof-0123456789abcdef0123456789abcdef";
        // SAFETY: a constant C string and plain numbers.
        let challenge = owned(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) });
        Trial { challenge, waiting: VecDeque::new() }
    }

    fn begin(&mut self, socket: &OwnedFd, letter: Letter) {
        let mut ask = letter.1.clone();
        ask[12..16].copy_from_slice(&ASK.to_le_bytes());
        ask[20..24].copy_from_slice(&self.challenge.as_raw_fd().to_le_bytes());
        send(socket, &letter.0, &ask, &[]);
        self.waiting.push_back(letter);
        if self.waiting.len() > 256 {
            self.waiting.pop_front();
        }
    }

    fn go_on(&mut self, socket: &OwnedFd) {
        let mut show = [0u8; LEN];
        // SAFETY: a live buffer of that length.
        while unsafe {
            let flags = libc::MSG_DONTWAIT;
            libc::recv(socket.as_raw_fd(), show.as_mut_ptr().cast(), LEN, flags)
        } == LEN as isize
        {
            let number = |at: usize| u32::from_le_bytes(show[at..at + 4].try_into().unwrap());
            let link = fs::read_link(format!("/proc/{}/fd/{}", number(16), number(20)));
            let Ok(link) = link else { continue };
            let Some(digits) = link.to_str().and_then(|l| l.strip_prefix("/memfd:sovia-proof-"))
            else {
                continue;
            };
            if number(12) != SHOW {
                continue;
            }
            let shown: Vec<u8> = (0..16)
                .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap())
                .collect();
            let (due, waiting) = self.waiting.drain(..).partition::<VecDeque<_>, _>(|letter| {
                // Letters about the same connection.
                letter.1[32..72] == show[32..72]
            });
            self.waiting = waiting;
            for (name, mut bytes, fds) in due {
                bytes[SHOWN_AT..].copy_from_slice(&shown);
                post(socket, (name, bytes, fds));
            }
        }
    }
}

/// Sends a datagram. Ignores that there is no socket, or that its queue is full.
fn send(socket: &OwnedFd, name: &[u8], bytes: &[u8], fds: &[OwnedFd]) {
    let (mut address, len) = address(name);
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let fds: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let size = (fds.len() * size_of::<RawFd>()) as u32;
    let mut control = vec![0u64; 256];
    // SAFETY: the header and everything that it points to are live locals. The control buffer is
    // aligned for its header. It has room for more than 253 descriptors, the kernel's limit.
    unsafe {
        let mut message: libc::msghdr = zeroed();
        message.msg_name = (&raw mut address).cast();
        message.msg_namelen = len;
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        if !fds.is_empty() {
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(size) as usize;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size) as usize;
            let data = libc::CMSG_DATA(header).cast::<RawFd>();
            std::ptr::copy_nonoverlapping(fds.as_ptr(), data, fds.len());
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        libc::sendmsg(socket.as_raw_fd(), &raw const message, flags);
    }
}

/// Makes an eventfd.
pub(crate) fn eventfd(flags: i32) -> OwnedFd {
    // SAFETY: takes plain numbers.
    owned(unsafe { libc::eventfd(0, flags | libc::EFD_CLOEXEC) })
}

/// Makes a memory file with this size and these seals.
pub(crate) fn memory(size: u64, seals: i32) -> OwnedFd {
    // SAFETY: a constant C string and plain numbers.
    let file = owned(unsafe {
        libc::memfd_create(c"intruder".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)
    });
    // SAFETY: plain numbers.
    unsafe {
        assert_eq!(libc::ftruncate(file.as_raw_fd(), size.cast_signed()), 0);
        assert_eq!(libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals), 0);
    }
    file
}

/// Returns descriptors that report the death of a process: a pidfd, and the reading end of a pipe.
fn notices() -> [OwnedFd; 2] {
    let mut ends = [0; 2];
    // SAFETY: the pipe's numbers are written to a live array; the other call takes numbers only.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0, "a pipe can be made");
        let process = libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0);
        // The writing end stays open for as long as this process lives.
        [owned(process as i32), owned(ends[0])]
    }
}

/// Returns the descriptors of an Offer: a segment, and the doorbells of the offering process.
pub(crate) fn offering() -> Vec<OwnedFd> {
    std::iter::once(memory(SEGMENT, SEALS)).chain(doors()).collect()
}

/// Returns valid doorbells.
pub(crate) fn doors() -> Vec<OwnedFd> {
    let bells = (0..6).map(|_| eventfd(libc::EFD_NONBLOCK));
    bells.chain(notices()).collect()
}

/// Size of a segment in bytes.
pub(crate) const SEGMENT: u64 = (40 << 20) + 2 * 1024 * ((8 << 20) + (2 << 20));
/// Seals of a segment.
pub(crate) const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
