//! Flags of a connection.

/// Set while the descriptor is in non-blocking mode (kept up to date once attached).
pub const NONBLOCK: u32 = 1;
/// Set after an event of the kernel socket (data, end, reset) that no thread has looked at.
pub const KERNEL_SOCKET: u32 = 1 << 1;
/// Set once the program has shut its sending side.
pub const SHUT_WR: u32 = 1 << 2;
/// Set once the program has shut its receiving side.
pub const SHUT_RD: u32 = 1 << 3;
/// Set once a receive has reached the peer's FIN: end of file.
pub const EOF: u32 = 1 << 4;
/// Set if the segment is corrupt or the connection was broken off. Calls fail from then on.
pub const CORRUPT: u32 = 1 << 5;
/// Set once the peer has left without a FIN. Sends then go to the kernel, which decides the error.
pub const PEER_GONE: u32 = 1 << 6;
/// Set if `connect` opened the connection.
pub const CONNECTOR: u32 = 1 << 7;
/// Set once the statistics have counted whether this connection got a VI or stayed on TCP.
pub const COUNTED: u32 = 1 << 8;
/// Set during a fallback to TCP: no thread may begin anything new on the VI.
pub const FALLING_BACK: u32 = 1 << 9;
/// Set once the direction in which this end sends has left the VI. Bytes that the receiver has not taken there, and
/// returns, go on TCP before newer bytes.
pub const LEFT_VI: u32 = 1 << 10;
/// Set once all those bytes are on TCP, or will not be put there.
pub const DRAINED: u32 = 1 << 11;
/// Set once the kernel socket has reported the peer's end, or an error.
pub const ENDED: u32 = 1 << 12;
/// Set if the connection has or had a VI. Until then, the counts of traffic in its slot are those of an earlier
/// connection.
pub const MET: u32 = 1 << 13;
/// Set while small messages are combined.
pub const COMBINES: u32 = 1 << 14;
/// Set while a thread of Sovia takes messages off the ring. If not set, the program's calls take them.
pub const HANDLED: u32 = 1 << 15;
/// Set if that thread is called back for each message (SOVIA_NOTIFY), rather than waiting for messages.
pub const NOTIFIED: u32 = 1 << 16;
/// Set while such a callback is pending.
pub const CALLED: u32 = 1 << 17;
/// Set once no process holds the peer's end any more. The FIN of the peer's kernel socket may still be to come.
pub const DEAD: u32 = 1 << 18;
/// Set if the peer died before it had read everything that this end sent. TCP would have reset the connection.
pub const RESET: u32 = 1 << 19;
/// Set while an error must still be reported, once.
pub const ERROR: u32 = 1 << 20;
/// Set while the peer's end is not reported to the program, because many unread bytes lie before it.
pub const WITHHELD: u32 = 1 << 21;
/// Set after a thread died while changing the body. The next holder of the lock repairs the body.
pub const TORN: u32 = 1 << 22;
/// Set if a relay holds the connection in place of a process that has handed it over.
pub const RELAYED: u32 = 1 << 23;
/// Set if the connection stays on its VI, but epoll sets leave it to the kernel, which watches its kernel socket.
pub const LEFT_TO_SETS: u32 = 1 << 24;
/// Set while this end receives on TCP the bytes that were unread on the VI. The bytes also stay on the VI until all of
/// them have come on TCP.
pub const RETURNING: u32 = 1 << 25;
/// Set if the program has set TCP_USER_TIMEOUT. The connection moves back to TCP as soon as the peer leaves no room,
/// because the kernel measures that timeout. Until then, a NIC between the two ends measures it.
pub const UNTIL_FULL: u32 = 1 << 26;
/// Set if this end shares the segment with a NIC in software, which reflects the VI to the peer.
pub const REFLECTED: u32 = 1 << 27;
/// Set once that NIC has reported that nothing more comes, and the program has been notified.
pub const GONE: u32 = 1 << 28;
/// Set once this end has sent a byte on TCP to cause a reset. The receiver had shut both halves before it had received
/// everything that this end sent.
pub const LATE: u32 = 1 << 29;
/// Set if `recvmsg` reports how many bytes are left, as the program has requested with TCP_INQ.
pub const TELLS_LEFT: u32 = 1 << 30;
/// Set while this end has its VI but has seen no answer to its request.
pub const UNANSWERED: u32 = 1 << 31;
